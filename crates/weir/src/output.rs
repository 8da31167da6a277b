//! The output of a command: results on standard output, in colour only on a terminal.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write as _};

use serde_json::Value;
use weir_config::Colour;
use weir_observe::printable;

/// Writes `text` to standard output at once.
///
/// # Errors
/// Those of the stream; `BrokenPipe` when its reader has gone.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// The same of what a running process has answered: nothing in it steers the terminal.
///
/// # Errors
/// As [`print()`].
pub(crate) fn print_answer(text: &str) -> io::Result<()> {
    print(&answer(text))
}

/// What is written of an answer.
fn answer(text: &str) -> Cow<'_, str> {
    // No table begins like a document of JSON, whose texts keep their meaning.
    if text.starts_with(['{', '[']) { printable::shown_json(text) } else { printable::shown_lines(text) }
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
    printable::shown(value.as_str().unwrap_or_default()).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_answer_steers_a_terminal() {
        assert_eq!(answer("app  10.0.0.1\u{1b}[2J\n\tb\r\n"), "app  10.0.0.1\\u{1b}[2J\n\tb\\u{d}\n");
        let json = format!("{:#}\n", serde_json::json!({ "remark": "a\u{9b}b\u{202e}" }));
        assert_eq!(answer(&json), "{\n  \"remark\": \"a\\u009bb\\u202e\"\n}\n");
    }
}
