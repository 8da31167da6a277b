//! `[access_log]` and `listener.NAME.access_log`: one line per exchange.

use std::net::SocketAddr;
use std::path::PathBuf;

/// The access log of one listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// What a line looks like, or none at all. Default: off.
    pub format: AccessLogFormat,
    /// Where lines go. Default: standard output.
    pub output: AccessLogOutput,
    /// Lines that may wait for the writer; more are dropped and counted, since a full disk must not stop traffic.
    /// Default 65 536: two seconds of 30 000 requests/s, about 20 MB.
    pub lines_max: usize,
}

impl Default for AccessLog {
    fn default() -> Self {
        Self { format: AccessLogFormat::Off, output: AccessLogOutput::Stdout, lines_max: 65_536 }
    }
}

/// What a line of the access log looks like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AccessLogFormat {
    /// No line is written.
    #[default]
    Off,
    /// A preset (`common`, `combined`, `json`, `httplog`) or an own format, known to be valid.
    Lines(Box<str>),
}

/// Where lines of the access log go.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum AccessLogOutput {
    /// Standard output.
    #[default]
    Stdout,
    /// Standard error.
    Stderr,
    /// A file that lines are appended to; opened again on SIGUSR1.
    File(PathBuf),
    /// A Unix datagram socket that speaks syslog (RFC 5424): `"syslog:/dev/log"`.
    SyslogUnix(PathBuf),
    /// A syslog server over UDP (RFC 5426): `"syslog+udp://127.0.0.1:514"`.
    SyslogUdp(SocketAddr),
}
