//! `[upstream.NAME.health]` as it is written.

use std::time::Duration;

use weir_traffic::route::MethodMatch;

use super::matching::RegexPattern;
use super::route::is_host_with_port;
use crate::key::{
    Bounds, ConfigValue, Map, OneOrMany, Spanned, TextFormat, TreeReader, ValueKind, choice, section,
    text_values,
};
use crate::source::{Tree, TreeNode};
use crate::value::{HeaderValue, Percent, STATUS_MAX, STATUS_MIN, Size, StatusRange, ValueError};

section! {
    /// Probes that find out whether a server answers, on connections of their own. A server is up until its first probe, within one
    /// `interval` of the start, which decides alone; from then on it takes `fall` failed ones in a row to take it down and `rise` passed ones to
    /// bring it back. Without this table nobody asks, and every server counts as up. `{}` checks that servers accept connections.
    #[derive(Debug, Clone)]
    pub(crate) struct HealthText at "upstream.NAME.health" {
        /// What a probe is. Without it, `http` when `path` is set, else `tls` where probes use TLS, else `tcp`.
        kind: ProbeKind = optional, like "nginx `health_check`, HAProxy `option httpchk`, `check`";
        /// Whether probes use TLS. Without it, as the traffic does, and by the same rules. Where the traffic passes through still encrypted, `true` has probes
        /// shake hands with the server and accept any certificate: whether it is the right one is up to the clients.
        tls: bool = optional, like "HAProxy `check-ssl`, `no-check-ssl`";
        /// What is asked for: a path, with a query if need be. Without it, `/`.
        path: ProbePath = optional, like "nginx `health_check uri=`, HAProxy `http-check send uri`";
        /// The method of the request.
        method: Spanned<MethodMatch> = "GET", like "HAProxy `http-check send meth`";
        /// The `Host` of the request. Without it, the address of the server as the config has it. Where the upstream has no `tls` and probes do, this is
        /// the server name that they ask for as well.
        host: ProbeHost = optional, like "HAProxy `http-check send hdr Host`";
        /// More headers of the request.
        headers: Map<HeaderValue> = {}, like "HAProxy `http-check send hdr`";
        /// Status codes of a server that is well: one, a range, or a list of both.
        status: OneOrMany<StatusRange> = "200-399", like "nginx `match { status }`, HAProxy `http-check expect status`";
        /// Text that the body has to hold.
        body_contains: Box<str> = optional, like "HAProxy `http-check expect string`";
        /// A regular expression that has to be found in the body.
        body_regex: RegexPattern = optional, like "nginx `match { body ~ }`, HAProxy `http-check expect rstring`";
        /// A conversation that shows that a server of this kind is well, in place of `send` and `expect`; it ends as the protocol has it, so that the server logs no error.
        preset: ProbePreset = optional,
            like "HAProxy `option redis-check`, `option mysql-check`, `option pgsql-check`, `option smtpchk`";
        /// Whom a probe logs in as, without a password: an account without rights. `preset = "mysql"` needs it; with `"postgresql"` the server has to come as far as
        /// asking for the password or letting the user in, without it to a first answer.
        user: Spanned<Box<str>> = optional, like "HAProxy `option mysql-check user`, `option pgsql-check user`";
        /// What a probe sends once it is connected, also over TLS. Without it, the server speaks first.
        send: ProbeBytes = optional, like "nginx `match { send }`, HAProxy `tcp-check send`, `tcp-check send-binary`";
        /// What the first 16 KiB that the server sends must contain.
        expect: ProbeBytes = optional,
            like "nginx `match { expect }`, HAProxy `tcp-check expect string`, `tcp-check expect binary`";
        /// What a probe sends after an answer as expected, before it closes the connection.
        quit: ProbeBytes = optional, like "HAProxy `tcp-check send` (the last one)";
        /// How much of the body is looked at. Without `body_contains` or `body_regex` none of it is, except to keep the connection.
        body_size: Size = "16KiB", in 1..=1_048_576, like "HAProxy `tune.bufsize`";
        /// From one probe of a server to the next. The probes of all servers are spread evenly over it.
        interval: Duration = "2s", in 10..=3_600_000, like "nginx `health_check interval=`, HAProxy `inter`";
        /// How much later than planned a probe may come, at random, as a share of the interval.
        jitter: Percent = "10%", in 0..=50, like "nginx `health_check jitter=`, HAProxy `spread-checks`";
        /// From one probe to the next while the last one speaks against what holds, so that changes are seen sooner. Without it, a
        /// quarter of `interval`.
        fast_interval: Duration = optional, in 10..=3_600_000, like "HAProxy `fastinter`";
        /// How long a probe may take, from the first packet to its last byte. Without it, half of `interval`, at most 5 s.
        timeout: Duration = optional, in 1..=600_000, like "HAProxy `timeout check`";
        /// Probes that have to pass in a row until a server that is down is up.
        rise: u32 = 2, in 1..=1000, like "nginx `health_check passes=`, HAProxy `rise`";
        /// Probes that have to fail in a row until a server that is up is down.
        fall: u32 = 3, in 1..=1000, like "nginx `health_check fails=`, HAProxy `fall`";
        /// How long one connection carries HTTP probes before a new one is opened, which shows that the server still accepts. Off: a new
        /// connection for each probe, at three times the cost; so is it always for servers with `max_requests`, whose places may be connections.
        connection_age: Option<Duration> = "30s", in 1..=86_400_000, like "nginx `health_check keepalive_time=`";
        /// The port that is probed. Without it, the one that gets the traffic.
        port: u16 = optional, in 1..=65_535, like "nginx `health_check port=`, HAProxy `port`";
    }
}

choice! {
    /// What a probe is.
    pub(crate) enum ProbeKind {
        /// a connection is opened and closed again
        #[default]
        Tcp = "tcp",
        /// a TLS handshake is completed
        Tls = "tls",
        /// a request is answered as expected
        Http = "http",
    }
}

choice! {
    /// A conversation that shows that a server is well.
    pub(crate) enum ProbePreset {
        /// `PING`, answered by `+PONG` (or `-NOAUTH`: it is there and wants a password), then `QUIT`
        #[default]
        Redis = "redis",
        /// a login as `user` up to the question for a password, or without `user` the question whether the server encrypts
        Postgresql = "postgresql",
        /// a login as `user` without a password, then `COM_QUIT`; MySQL and MariaDB
        Mysql = "mysql",
        /// the greeting `220`, then `QUIT`
        Smtp = "smtp",
    }
}

/// Bytes of a conversation, and how they are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeBytes {
    pub(crate) bytes: Box<[u8]>,
    text: Box<str>,
}

/// The target of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbePath(pub(crate) Box<str>);

/// The `Host` of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeHost(pub(crate) Box<str>);

text_values! {
    ProbePath, parse_path, |value: &ProbePath| value.0.clone(), TextFormat {
        name: "path with query",
        article: "a path",
        examples: &["/healthz", "/status?full=1"],
        pattern: r#"^/[!$-;=?-~]*$"#,
        about: "A path with or without a query, percent-encoded, as it stands in a request.",
    };
    ProbeBytes, parse_bytes, |value: &ProbeBytes| value.text.clone(), TextFormat {
        name: "text or hex",
        article: "a text, or bytes in hex",
        examples: &["PING\\r\\n", "hex:50 49 4e 47 0d 0a"],
        pattern: r"^.+$",
        about: "A text as it is sent or received, of 1 to 4096 bytes; in double quotes TOML reads `\\r\\n` as the end of a line. Behind `hex:` stand \
                bytes as hexadecimal digits, with spaces where you like.",
    };
    ProbeHost, parse_host, |value: &ProbeHost| value.0.clone(), TextFormat {
        name: "host and port",
        article: "a host",
        examples: &["app.internal", "app.internal:8080", "[::1]:80"],
        pattern: r"^[A-Za-z0-9._:\[\]-]+$",
        about: "A host name or address, with or without a port, as it stands in `Host`.",
    };
}

/// The longest text of a conversation: a probe is a question, not a transfer.
const BYTES_MAX: usize = 4096;

fn parse_bytes(text: &str) -> Result<ProbeBytes, ValueError> {
    let bytes = match text.strip_prefix("hex:") {
        None => text.as_bytes().to_vec(),
        Some(digits) => parse_hex(digits).ok_or_else(|| {
            ValueError::new(format!("`{digits}` are no bytes in hex"))
                .help("write two hexadecimal digits for each byte, for example `hex:50 49 4e 47 0d 0a`")
        })?,
    };
    match bytes.len() {
        0 => Err(ValueError::new("it is empty").help("leave it out, or write for example `\"PING\\r\\n\"`")),
        1..=BYTES_MAX => Ok(ProbeBytes { bytes: bytes.into(), text: text.into() }),
        len => Err(ValueError::new(format!("{len} bytes are more than {BYTES_MAX}"))),
    }
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .filter(|c| *c != ' ')
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn parse_path(text: &str) -> Result<ProbePath, ValueError> {
    let wrong = text.char_indices().find(|(_, c)| !c.is_ascii_graphic() || "\"#<>".contains(*c));
    match wrong {
        _ if !text.starts_with('/') => Err(ValueError::new(format!("`{text}` does not begin with `/`"))
            .help("write for example `/healthz`; the name of the host is `host`")),
        Some((at, c)) => Err(ValueError::new(format!("{c:?} cannot stand in a path"))
            .help("write it percent-encoded")
            .range(at..at + c.len_utf8())),
        None => Ok(ProbePath(text.into())),
    }
}

fn parse_host(text: &str) -> Result<ProbeHost, ValueError> {
    if is_host_with_port(text) {
        return Ok(ProbeHost(text.into()));
    }
    Err(ValueError::new(format!("`{text}` is not a host"))
        .help("write for example `app.internal` or `app.internal:8080`"))
}

static STATUS_RANGE: TextFormat = TextFormat {
    name: "status range",
    article: "a range of status codes",
    examples: &["200-299"],
    pattern: r"^[2-5][0-9][0-9](-[2-5][0-9][0-9])?$",
    about: "Two status codes from 200 to 599 and all between them.",
};

const STATUS_BOUNDS: Bounds = Bounds { min: STATUS_MIN as u64, max: STATUS_MAX as u64 };

impl ConfigValue for StatusRange {
    fn kind(_: Bounds) -> ValueKind {
        ValueKind::Either(vec![u16::kind(STATUS_BOUNDS), ValueKind::Text(&STATUS_RANGE, Bounds::NONE)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Integer(_) => u16::read(node, STATUS_BOUNDS, reader).and_then(Self::only),
            Tree::Text(_) => reader.parsed(node, &Self::kind(bounds), str::parse),
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self.single() {
            Some(status) => status.write(),
            None => Box::<str>::from(self.to_string()).write(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_a_request_may_ask_for() {
        for text in ["/", "/healthz", "/a/b?c=d&e", "/%20", "/a|b"] {
            assert_eq!(parse_path(text).map(|path| path.0), Ok(text.into()));
        }
        for (text, message) in [
            ("", "`` does not begin with `/`"),
            ("healthz", "`healthz` does not begin with `/`"),
            ("http://a/", "`http://a/` does not begin with `/`"),
            ("/a b", "' ' cannot stand in a path"),
            ("/a\r\nHost: b", "'\\r' cannot stand in a path"),
            ("/a#b", "'#' cannot stand in a path"),
            ("/é", "'é' cannot stand in a path"),
        ] {
            assert_eq!(parse_path(text).map_err(|error| error.message), Err(message.to_owned()));
        }
    }

    #[test]
    fn bytes_are_text_or_hex() {
        for (text, bytes) in [
            ("PING\r\n", b"PING\r\n".as_slice()),
            ("hex:50 49 4E47 0d0a", b"PING\r\n"),
            ("hex:ff 00", &[0xff, 0]),
            ("é", "é".as_bytes()),
        ] {
            assert_eq!(*parse_bytes(text).unwrap().bytes, *bytes, "{text}");
        }
        for text in ["", "hex:", "hex:5", "hex:5g", "hex:+f", &"x".repeat(4097)] {
            assert!(parse_bytes(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn hosts_may_have_a_port() {
        for text in ["app.internal", "app.internal:80", "10.0.0.1", "[::1]", "[::1]:80"] {
            assert!(parse_host(text).is_ok(), "{text}");
        }
        for text in ["", "a b", "*.a", "a:b", "a:99999", "a\r\nb", "http://a"] {
            assert!(parse_host(text).is_err(), "{text:?}");
        }
    }
}
