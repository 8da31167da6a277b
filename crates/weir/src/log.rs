//! Weir's own log: start-up, trouble, stop. Written to standard error by a thread of its own, so that no worker waits for its reader.

use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

use tracing_subscriber::field::RecordFields;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_config::{LogLevel, LogLineFormat, LogSettings};
use weir_control::OwnLog;
use weir_observe::printable;

use crate::output;

/// How long the end of the process waits for the last lines to be written.
const FLUSH_TIME: Duration = Duration::from_secs(2);

static OWN: OnceLock<OwnLog> = OnceLock::new();

/// The place of one line on its way to the queue.
struct OwnLogWriter {
    format: LogLineFormat,
}

impl OwnLogWriter {
    /// A line of JSON with nothing that misleads its reader; of a line of text, [`ShownFields`] has taken care.
    fn shown(&self, line: &[u8]) -> Vec<u8> {
        match (self.format, std::str::from_utf8(line)) {
            (LogLineFormat::Json, Ok(text)) => printable::shown_json(text).into_owned().into_bytes(),
            _ => line.to_vec(),
        }
    }
}

impl Write for OwnLogWriter {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = self.shown(line);
        match OWN.get() {
            Some(own) => own.take(&shown),
            None => io::stderr().lock().write_all(&shown)?,
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The message and the fields of an event, in text: everything in a line that is not Weir's own. No value ends the line, or steers the terminal
/// that shows it.
struct ShownFields;

impl<'w> FormatFields<'w> for ShownFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        DefaultFields::new().format_fields(Writer::new(&mut text), fields)?;
        writer.write_str(&printable::shown(&text))
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
    let format = log.format;
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || OwnLogWriter { format })
        .with_ansi(io::stderr().is_terminal())
        .with_target(false);
    let _started_before = match log.format {
        LogLineFormat::Text => {
            subscriber.fmt_fields(ShownFields).finish().with(log_targets(level)).try_init()
        }
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
    let text = printable::shown(text);
    match OWN.get() {
        Some(own) => own.say(&text),
        None => output::note(&text),
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
    use std::sync::{Arc, Mutex};

    use tracing::Level;

    use super::*;

    /// What an event in each form comes to; `value` is a field as [`std::fmt::Display`] has it, and a part of the message.
    fn line(format: LogLineFormat, value: &str) -> String {
        let written = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&written);
        let make = move || KeptWriter(OwnLogWriter { format }, Arc::clone(&kept));
        let subscriber = tracing_subscriber::fmt().with_writer(make).with_ansi(false).with_target(false);
        let emit = || tracing::warn!(why = %value, quoted = value, debugged = ?value, "an instance {value}");
        match format {
            LogLineFormat::Text => {
                tracing::subscriber::with_default(subscriber.fmt_fields(ShownFields).finish(), emit);
            }
            LogLineFormat::Json => tracing::subscriber::with_default(subscriber.json().finish(), emit),
        }
        String::from_utf8(written.lock().unwrap().clone()).unwrap()
    }

    /// Keeps what [`OwnLogWriter`] makes of a line.
    struct KeptWriter(OwnLogWriter, Arc<Mutex<Vec<u8>>>);

    impl Write for KeptWriter {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.1.lock().unwrap().extend(self.0.shown(line));
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_value_ends_a_line_or_steers_a_terminal() {
        let hostile = "10.0.0.1\u{1b}[2J\r\n2026-01-01T00:00:00Z  INFO forged\u{9b}31m\u{202e}\u{2028}\u{7f}";
        for format in [LogLineFormat::Text, LogLineFormat::Json] {
            let line = line(format, hostile);
            let inner = line.strip_suffix('\n').unwrap();
            assert!(!inner.contains(printable::misleads), "{line:?}");
            assert!(inner.contains("forged") && inner.contains("an instance 10.0.0.1"), "{line}");
            if format == LogLineFormat::Json {
                let read: serde_json::Value = serde_json::from_str(inner).unwrap();
                assert_eq!(read["fields"]["quoted"], hostile);
            }
        }
    }

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
