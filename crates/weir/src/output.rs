//! Where a command writes: standard output for what was asked for, in colour only where somebody sees it.

use std::io::{self, IsTerminal, Write as _};

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

/// Writes a line to standard error. That nobody reads it any more is no reason to stop.
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
