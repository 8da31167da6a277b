//! The terminal of a command: standard output, which its reader may close, and the signals that interrupt a long run.

use std::io::{self, ErrorKind, Write as _};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Exit status of a program that the user interrupted, as shells give it for SIGINT.
pub const INTERRUPTED: u8 = 130;

/// Writes a line to standard output. A closed pipe is no reason to stop: what was measured can still be saved.
///
/// # Errors
/// The errors of the stream, except a closed pipe.
pub fn say(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{text}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// A flag that SIGINT and SIGTERM set. A second signal ends the process at once with [`INTERRUPTED`].
///
/// # Errors
/// When the signal handlers cannot be installed.
pub fn watch_for_interrupts() -> io::Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(
            signal,
            INTERRUPTED.into(),
            Arc::clone(&interrupted),
        )?;
        signal_hook::flag::register(signal, Arc::clone(&interrupted))?;
    }
    Ok(interrupted)
}
