//! The output of a command: results on standard output, in colour only on a terminal.

use std::io::{self, IsTerminal, Write as _};

use serde_json::Value;
use weir_config::Colour;

/// Writes `text` to standard output at once.
///
/// # Errors
/// Those of the stream; `BrokenPipe` when its reader has gone.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes a line to standard error. A closed standard error is ignored.
pub(crate) fn note(text: &str) {
    let _nobody_reads = writeln!(io::stderr(), "{text}");
}

/// Whether to write in colour: to a terminal that has any, unless `NO_COLOR` (no-color.org) is set.
pub(crate) fn colour_of(stream: &impl IsTerminal) -> Colour {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
    if stream.is_terminal() && !unwanted && !dumb { Colour::Always } else { Colour::Never }
}

/// `1 server`, `2 servers`.
pub(crate) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Seconds in the largest unit of which there are two: `90 s`, `3 min`.
pub(crate) fn lasting(seconds: u64) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let (unit, name) = units.into_iter().find(|(unit, _)| seconds >= 2 * unit).unwrap_or((1, "s"));
    format!("{} {name}", seconds / unit)
}

/// A text of an answer for a terminal: what could steer it is shown as its number.
pub(crate) fn shown(value: &Value) -> String {
    let mut text = String::new();
    for char in value.as_str().unwrap_or_default().chars() {
        if char.is_control()
            || matches!(char, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
        {
            text.push_str(&format!("\\u{{{:x}}}", char as u32));
        } else {
            text.push(char);
        }
    }
    text
}
