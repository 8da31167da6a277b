//! Where a command answers: standard output, of which a reader may have seen enough.

use std::io::{self, ErrorKind, Write as _};

/// Writes a line to standard output. That nobody reads it any more is no reason to stop: what was measured can still be saved.
///
/// # Errors
/// Those of the stream.
pub(crate) fn say(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}
