//! Weir's own log: start-up, trouble, stop. Written to standard error.

use std::io::IsTerminal as _;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use weir_config::{Log, LogFormat, LogLevel};

/// Starts the log as the config says; only the first call counts.
pub(crate) fn start(log: &Log) {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let _started_before = match log.format {
        LogFormat::Text => subscriber.finish().with(told(level)).try_init(),
        LogFormat::Json => subscriber.json().finish().with(told(level)).try_init(),
    };
}

/// What is told of it: everything that Weir says at this level. Libraries speak of single connections, without saying which, and a client
/// could fill the log with it; theirs are errors only, unless somebody looks closer anyway.
fn told(level: LevelFilter) -> Targets {
    let of_libraries = if level >= LevelFilter::DEBUG { level } else { LevelFilter::ERROR };
    Targets::new().with_target("weir", level).with_default(of_libraries)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn libraries_are_heard_when_somebody_looks_closer() {
        let (warned, debugged) = (told(LevelFilter::WARN), told(LevelFilter::DEBUG));
        for own in ["weir", "weir_proxy::worker", "weir_config"] {
            assert!(warned.would_enable(own, &Level::WARN) && !warned.would_enable(own, &Level::INFO));
        }
        assert!(!warned.would_enable("rustls::common_state", &Level::WARN));
        assert!(warned.would_enable("rustls::common_state", &Level::ERROR));
        assert!(debugged.would_enable("rustls::common_state", &Level::DEBUG));
    }
}
