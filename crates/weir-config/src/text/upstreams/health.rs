//! `[upstream.NAME.health]` in the text.

use std::net::IpAddr;
use std::time::Duration;

use weir_traffic::route::MethodMatch;

use crate::key::{
    Bounds, ConfigValue, Map, OneOrMany, Spanned, SpannedTable, TextFormat, TreeReader, ValueKind, choice,
    section, text_values,
};
use crate::masked_text::is_telling;
use crate::source::{Tree, TreeNode};
use crate::text::routing::matching::RegexPattern;
use crate::text::routing::route::is_host_with_port;
use crate::value::{HeaderValue, Percent, STATUS_MAX, STATUS_MIN, Size, StatusRange, ValueError, ascii_help};

section! {
    /// Probes that test whether a server responds, on connections of their own. A server counts as up until its first probe, within one
    /// `interval` after the start, whose result applies at once; from then on `fall` failures in a row mark it down and `rise` successes in
    /// a row mark it up. Without this table, servers are not probed and all count as up. `{}` checks that servers accept connections.
    #[derive(Debug, Clone)]
    pub(crate) struct HealthText at "upstream.NAME.health" {
        /// Blocks whose keys hold here where they are not set beside it.
        r#use: OneOrMany<Box<str>> = optional, like "nginx `include` (of a part), HAProxy `defaults NAME`, `from`";
        /// The kind of probe. Without it, `http` if `path` is set, else `tls` if probes use TLS, else `tcp`.
        kind: ProbeKind = optional, like "nginx `health_check`, HAProxy `option httpchk`, `check`";
        /// Whether probes use TLS. Without it, as the traffic does, with the same verification. Where TLS traffic passes through, `true`
        /// makes probes complete a handshake and accept any certificate: verifying it is up to the clients.
        tls: bool = optional, like "HAProxy `check-ssl`, `no-check-ssl`";
        /// The target of the request: a path, optionally with a query. Without it, `/`.
        path: ProbePath = optional, like "nginx `health_check uri=`, HAProxy `http-check send uri`";
        /// The method of the request.
        method: Spanned<MethodMatch> = "GET", like "HAProxy `http-check send meth`";
        /// The `Host` of the request. Without it, the address of the server as in the config. Where only probes use TLS, and not the
        /// upstream, it is their server name (SNI) as well.
        host: ProbeHost = optional, like "HAProxy `http-check send hdr Host`";
        /// Further headers of the request.
        headers: Map<HeaderValue> = {}, like "HAProxy `http-check send hdr`";
        /// Status codes of a healthy server: one, a range, or a list of both.
        status: OneOrMany<StatusRange> = "200-399", like "nginx `match { status }`, HAProxy `http-check expect status`";
        /// The service that `kind = "grpc"` asks about. Without it, the server as a whole.
        service: Box<str> = optional, like "Envoy `grpc_health_check.service_name`";
        /// Text that the body has to contain.
        body_contains: Box<str> = optional, like "HAProxy `http-check expect string`";
        /// A regular expression that the body has to match somewhere.
        body_regex: RegexPattern = optional, like "nginx `match { body ~ }`, HAProxy `http-check expect rstring`";
        /// A protocol dialogue in place of `send` and `expect`; it closes the connection as the protocol requires, so that the server logs
        /// no error.
        preset: ProbePreset = optional,
            like "HAProxy `option redis-check`, `option mysql-check`, `option pgsql-check`, `option smtpchk`";
        /// The user name for logging in, without a password: use an account without rights. Required for `preset = "mysql"`; with
        /// `"postgresql"`, the server has to ask for the password or accept the user, without it to answer at all.
        user: Spanned<Box<str>> = optional, like "HAProxy `option mysql-check user`, `option pgsql-check user`";
        /// What a probe sends after connecting, also over TLS. Without it, the server speaks first.
        send: ProbeBytes = optional, like "nginx `match { send }`, HAProxy `tcp-check send`, `tcp-check send-binary`";
        /// What the first 16 KiB from the server have to contain.
        expect: ProbeBytes = optional,
            like "nginx `match { expect }`, HAProxy `tcp-check expect string`, `tcp-check expect binary`";
        /// What a probe sends after the expected answer, before it closes the connection.
        quit: ProbeBytes = optional, like "HAProxy `tcp-check send` (the last one)";
        /// How much of the body is examined. Without `body_contains` and `body_regex` the body is only read to keep the connection.
        body_size: Size = "16KiB", in 1..=1_048_576, like "HAProxy `tune.bufsize`";
        /// The time between two probes of a server. The probes of all servers are spread evenly over it.
        interval: Duration = "2s", in 10..=3_600_000, like "nginx `health_check interval=`, HAProxy `inter`";
        /// The random delay of a probe, as a share of the interval.
        jitter: Percent = "10%", in 0..=50, like "nginx `health_check jitter=`, HAProxy `spread-checks`";
        /// The interval while the state is changing: the last result contradicts the current state. Without it, a quarter of `interval`.
        fast_interval: Duration = optional, in 10..=3_600_000, like "HAProxy `fastinter`";
        /// The time limit of a probe, from the first packet to its last byte. Without it, half of `interval`, at most 5 s.
        timeout: Duration = optional, in 1..=600_000, like "HAProxy `timeout check`";
        /// Consecutive successes that mark a server that is down as up.
        rise: u32 = 2, in 1..=1000, like "nginx `health_check passes=`, HAProxy `rise`";
        /// Consecutive failures that mark a server that is up as down.
        fall: u32 = 3, in 1..=1000, like "nginx `health_check fails=`, HAProxy `fall`";
        /// How long one connection carries HTTP probes before a new one is opened, which tests that the server still accepts connections.
        /// Off: a new connection for each probe, at three times the cost; so it always is for servers with `max_requests`, whose limit may
        /// be one of connections.
        connection_age: Option<Duration> = "30s", in 1..=86_400_000, like "nginx `health_check keepalive_time=`";
        /// The port for probes. Without it, the port of the traffic. HTTP probes of another port use HTTP/1.1, or what TLS agrees on.
        port: u16 = optional, in 1..=65_535, like "nginx `health_check port=`, HAProxy `port`";
        /// An agent beside each server, which says how much the server wants to get. Without it, none is asked.
        agent: SpannedTable<AgentText> = optional, like "HAProxy `agent-check`";
    }
}

section! {
    /// An agent that is asked for the state of its server, beside the probes: it accepts a TCP connection and answers with a line of words,
    /// see [agents](agents.md). One that does not answer changes nothing.
    #[derive(Debug, Clone)]
    pub(crate) struct AgentText at "upstream.NAME.health.agent" {
        /// The port of the agent. Required, unless every server has an `agent_port`.
        port: u16 = optional, in 1..=65_535, like "HAProxy `agent-port`";
        /// The address of the agent. Without it, that of the server.
        address: AgentAddress = optional, like "HAProxy `agent-addr`";
        /// What is sent after connecting. Without it, nothing.
        send: ProbeBytes = optional, like "HAProxy `agent-send`";
        /// The time between the answer of an agent and the next question. Without it, the `interval` of the probes.
        interval: Duration = optional, in 10..=3_600_000, like "HAProxy `agent-inter`";
        /// The time limit of a question, from the first packet to the end of the line. Without it, half of `interval`, at most 5 s.
        timeout: Duration = optional, in 1..=600_000, like "HAProxy `timeout check`";
    }
}

/// The address of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AgentAddress(pub(crate) IpAddr);

text_values! {
    AgentAddress, parse_agent_address, |value: &AgentAddress| value.0.to_string(), TextFormat {
        name: "agent address",
        article: "the address of an agent",
        examples: &["10.0.0.9", "2001:db8::9"],
        pattern: r"^[0-9a-fA-F.:]+$",
        about: "An IPv4 or IPv6 address without a port.",
    };
}

fn parse_agent_address(text: &str) -> Result<AgentAddress, ValueError> {
    let address = text.parse().map_err(|_| {
        ValueError::new(format!("`{text}` is not an IP address"))
            .help("write it without a port, which `port` names")
    })?;
    Ok(AgentAddress(address))
}

choice! {
    /// The kind of probe.
    pub(crate) enum ProbeKind {
        /// a connection is opened and closed again
        #[default]
        Tcp = "tcp",
        /// a TLS handshake is completed
        Tls = "tls",
        /// a request gets the expected response
        Http = "http",
        /// a call of `grpc.health.v1.Health/Check` is answered by `SERVING`, over HTTP/2
        Grpc = "grpc",
    }
}

choice! {
    /// A protocol dialogue that tests a server.
    pub(crate) enum ProbePreset {
        /// `PING`, answered by `+PONG` (or `-NOAUTH`, which asks for a password), then `QUIT`
        #[default]
        Redis = "redis",
        /// a login as `user` up to the password request, or without `user` the request for encryption
        Postgresql = "postgresql",
        /// a login as `user` without a password, then `COM_QUIT`; MySQL and MariaDB
        Mysql = "mysql",
        /// the greeting `220`, `EHLO localhost`, answered by `250`, then `QUIT`
        Smtp = "smtp",
    }
}

/// Bytes of a dialogue, and their form in the config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProbeBytes {
    pub(crate) bytes: Box<[u8]>,
    text: Box<str>,
}

impl ProbeBytes {
    /// Those of a text.
    pub(crate) fn of_text(text: &str) -> Self {
        Self { bytes: text.as_bytes().into(), text: text.into() }
    }

    /// Whether they say that a password or something of that kind follows.
    pub(crate) fn is_telling(&self) -> bool {
        is_telling(&String::from_utf8_lossy(&self.bytes))
    }
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
        about: "A path with or without a query, percent-encoded, as in a request.",
    };
    ProbeBytes, parse_bytes, |value: &ProbeBytes| value.text.clone(), TextFormat {
        name: "text or hex",
        article: "a text, or bytes in hex",
        examples: &["PING\\r\\n", "hex:50 49 4e 47 0d 0a"],
        pattern: r"^[\s\S]+$",
        about: "A text of 1 to 4096 bytes, as sent or received; in double quotes, TOML reads `\\r\\n` as the end of a line. After `hex:`, \
                bytes as hexadecimal digits, with optional spaces.",
    };
    ProbeHost, parse_host, |value: &ProbeHost| value.0.clone(), TextFormat {
        name: "host and port",
        article: "a host",
        examples: &["app.internal", "app.internal:8080", "[::1]:80"],
        pattern: r"^[A-Za-z0-9._:\[\]-]+$",
        about: "A host name or address, with or without a port, as in `Host`.",
    };
}

/// The longest text of a conversation: a probe is a question, not a transfer.
const BYTES_MAX: usize = 4096;

fn parse_bytes(text: &str) -> Result<ProbeBytes, ValueError> {
    let bytes = match text.strip_prefix("hex:") {
        None => text.as_bytes().to_vec(),
        Some(digits) => parse_hex(digits).ok_or_else(|| {
            ValueError::new(format!("`{digits}` is not a sequence of bytes in hex"))
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
        Some((at, c)) => Err(ValueError::new(format!("{c:?} is not allowed in a path"))
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
        .help("write for example `app.internal` or `app.internal:8080`")
        .help_if(ascii_help(text)))
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
    fn paths_are_valid_request_targets() {
        for text in ["/", "/healthz", "/a/b?c=d&e", "/%20", "/a|b"] {
            assert_eq!(parse_path(text).map(|path| path.0), Ok(text.into()));
        }
        for (text, message) in [
            ("", "`` does not begin with `/`"),
            ("healthz", "`healthz` does not begin with `/`"),
            ("http://a/", "`http://a/` does not begin with `/`"),
            ("/a b", "' ' is not allowed in a path"),
            ("/a\r\nHost: b", "'\\r' is not allowed in a path"),
            ("/a#b", "'#' is not allowed in a path"),
            ("/é", "'é' is not allowed in a path"),
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
