//! Weir's own log: start-up, trouble, stop. Written to standard error by a thread of its own, so that no worker waits for its reader.

use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_config::{LogLevel, LogLineFormat, LogSettings};
use weir_control::OwnLog;

use crate::output;

/// How long the end of the process waits for the last lines to be written.
const FLUSH_TIME: Duration = Duration::from_secs(2);

static OWN: OnceLock<OwnLog> = OnceLock::new();

/// The place of one line on its way to the queue.
struct OwnLogWriter;

impl Write for OwnLogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match OWN.get() {
            Some(own) => own.take(line),
            None => io::stderr().lock().write_all(line)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Standard error, locked for a line at a time.
struct StderrWriter;

impl Write for StderrWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().lock().write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Starts the log as the config says; only the first call counts.
pub(crate) fn start(log: &LogSettings) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(|| OwnLogWriter)
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    let _started_before = match log.format {
        LogLineFormat::Text => subscriber.finish().with(log_targets(level)).try_init(),
        LogLineFormat::Json => subscriber.json().finish().with(log_targets(level)).try_init(),
    };
}

/// Starts the thread that writes the log. Before, and without it, lines are written where they come from.
pub(crate) fn start_thread(log: &LogSettings) {
    if let Ok(own) = OwnLog::start(StderrWriter, log.format == LogLineFormat::Json) {
        let _started_before = OWN.set(own);
    }
}

/// Writes a line that scripts wait for, behind those of the log.
pub(crate) fn note(text: &str) {
    match OWN.get() {
        Some(own) => own.say(text),
        None => output::note(text),
    }
}

/// Waits for the last lines, but not for ever.
pub(crate) fn flush() {
    if let Some(own) = OWN.get() {
        own.flush(FLUSH_TIME);
    }
}

/// The filter: all of Weir's own events at this level. Libraries log single connections without naming them, and a client could fill the log
/// that way, so only their errors are logged, except at `debug` and `trace`.
fn log_targets(level: LevelFilter) -> Targets {
    let of_libraries = if level >= LevelFilter::DEBUG { level } else { LevelFilter::ERROR };
    Targets::new().with_target("weir", level).with_default(of_libraries)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_are_logged_at_debug_level() {
        let (warned, debugged) = (log_targets(LevelFilter::WARN), log_targets(LevelFilter::DEBUG));
        for own in ["weir", "weir_proxy::worker", "weir_control::health", "weir_config"] {
            assert!(warned.would_enable(own, &Level::WARN) && !warned.would_enable(own, &Level::INFO));
        }
        assert!(!warned.would_enable("rustls::common_state", &Level::WARN));
        assert!(warned.would_enable("rustls::common_state", &Level::ERROR));
        assert!(debugged.would_enable("rustls::common_state", &Level::DEBUG));
    }
}
