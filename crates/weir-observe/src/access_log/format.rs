//! A log format: literal text and values, made once from the config, rendered for every exchange.
//!
//! Named formats are texts like any other, so whatever they can show an own format can show too.

use super::escape::EscapeRule;
use super::field::LogField;

/// The named formats and their texts.
pub(super) const NAMED: &[(&str, &str)] = &[
    ("common", "{client_address} - {user} [{time.clf}] \"{request_line}\" {status} {body_bytes_out}"),
    (
        "combined",
        "{client_address} - {user} [{time.clf}] \"{request_line}\" {status} {body_bytes_out} \"{referer}\" \"{user_agent}\"",
    ),
    (
        "httplog",
        "{client_address}:{client_port} [{time.haproxy}] {listener} {haproxy.backend}/{haproxy.server} \
         {timer.TR}/{timer.Tw}/{timer.Tc}/{timer.Tr}/{timer.Ta} {status} {bytes_out} - - {termination} \
         {load.process}/{load.listener}/{load.upstream}/{load.server}/{retries} 0/{queue_position} \"{haproxy.request}\"",
    ),
    (
        "tcplog",
        "{client_address}:{client_port} [{time.haproxy}] {listener} {haproxy.backend}/{haproxy.server} \
         {timer.Tw}/{timer.Tc}/{timer.Tt} {bytes_out} {termination.tcp} \
         {load.process}/{load.listener}/{load.upstream}/{load.server}/{retries} 0/{queue_position}",
    ),
    (
        "json",
        "json {time} {listener} {client_address} {client_port} {local_address} {local_port} {request_id} {trace_id} {method} {host} \
         {target} {version} {user_agent} {referer} {status} {status_sent} {bytes_in} {bytes_out} {body_bytes_in} \
         {body_bytes_out} {route} {upstream} {server} {attempts} {retries} {server_connection} {queue_position} {affinity} {duration} \
         {phase.accept} {phase.tls} {phase.request} {phase.route} {phase.queue} {phase.connect} {phase.send} \
         {phase.response} {phase.relay} {phase.finish} {reason} {failure.phase} {failure.party} {failure.cause} \
         {termination}",
    ),
];

/// Values that few formats show: found by their names, as those are that the config defines itself.
pub(super) const NAMED_VALUES: &[(&str, &str)] = &[
    (
        "path|decode",
        "The same without percent-encoding but for control characters, `/`, `\\`, `?` and `#`, as `$uri` of nginx.",
    ),
    (
        "servers",
        "Names of all servers that were tried, with commas between them, as `$upstream_addr` of nginx; the upstream where none of it could take the request. Of more than four on a route, the first three and the last.",
    ),
    (
        "servers.status",
        "The status that each of them has answered with, or that of its failure, as `$upstream_status` of nginx.",
    ),
    (
        "servers.seconds",
        "The time that each of them has taken in seconds, with milliseconds, as `$upstream_response_time` of nginx.",
    ),
    (
        "cache.status",
        "What the cache did, in the words of `$upstream_cache_status` of nginx: `HIT`, `MISS`, `EXPIRED`, `STALE`, `REVALIDATED` or `BYPASS`.",
    ),
];

/// How a line of the access log is composed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogTemplate {
    pub(super) items: Box<[FormatItem]>,
}

/// A piece of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum FormatItem {
    /// Text of the format itself.
    Literal(Box<str>),
    /// The value of a field, escaped for its place.
    Value(LogField, EscapeRule),
}

impl LogTemplate {
    /// The format for connections without requests: `tcplog` where this is `httplog`, whose lines would have a status of 0 and `<BADREQ>`.
    pub fn of_connections(&self) -> LogTemplate {
        let named = |name| LogTemplate::parse(name).expect("a named format");
        if *self == named("httplog") { named("tcplog") } else { self.clone() }
    }

    /// Names of the request fields in the format, in lower case: a caller must keep them until the end.
    pub fn request_fields(&self) -> impl Iterator<Item = &str> {
        self.fields().filter_map(|field| match field {
            LogField::UserAgent => Some("user-agent"),
            LogField::Referer => Some("referer"),
            LogField::RequestHeader(name) => Some(&**name),
            _ => None,
        })
    }

    /// Names of the response fields that the format asks for, in lower case.
    pub fn response_fields(&self) -> impl Iterator<Item = &str> {
        self.fields().filter_map(|field| match field {
            LogField::ResponseHeader(name) => Some(&**name),
            _ => None,
        })
    }

    /// The groups of `path_regex` that the format shows.
    pub fn match_groups(&self) -> impl Iterator<Item = &str> {
        self.fields().filter_map(|field| match field {
            LogField::MatchGroup(name) => Some(&**name),
            _ => None,
        })
    }

    /// The values that the config defines itself, by their whole names.
    pub fn named_values(&self) -> impl Iterator<Item = &str> {
        self.fields().filter_map(|field| match field {
            LogField::Named(name) => Some(&**name),
            _ => None,
        })
    }

    /// Whether it shows where the client connected to, which costs a system call to find out.
    pub fn shows_local(&self) -> bool {
        self.fields().any(|field| matches!(field, LogField::LocalAddress | LogField::LocalPort))
    }

    /// The names of the named formats.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// Every placeholder with its meaning, for the reference; `NAME` is a lower-case field name.
    pub fn placeholders() -> impl Iterator<Item = (String, &'static str)> {
        let plain = super::field::PLAIN.iter().map(|(name, _, meaning)| ((*name).to_owned(), *meaning));
        let phases = crate::words::phase::Phase::ALL
            .into_iter()
            .map(|phase| (format!("phase.{}", phase.name()), "Time in this phase in microseconds."));
        let named = NAMED_VALUES.iter().map(|(name, meaning)| ((*name).to_owned(), *meaning));
        plain.chain(named).chain(phases).chain([
            ("header.NAME".to_owned(), "A header of the request."),
            ("response.header.NAME".to_owned(), "A header of the response."),
            ("cookie.NAME".to_owned(), "A cookie of the request."),
            ("query.NAME".to_owned(), "A parameter of the query, as sent."),
            ("jwt.NAME".to_owned(), "A claim of the token (JWT) of the request."),
            (
                "match.GROUP".to_owned(),
                "What a group of `path_regex` of the route has matched, by its name or number; 0 is the whole match.",
            ),
            ("map.NAME".to_owned(), "What the map `[map.NAME]` says, once the exchange is over."),
            ("vars.NAME".to_owned(), "The variable of this name of the route, or of its listener (`vars`)."),
            ("proxy.NAME".to_owned(), "A value of the PROXY header of the connection, as in [other placeholders](#placeholders)."),
            (
                "table.NAME.COUNTER".to_owned(),
                "A counter of the table `[table.NAME]`, of the entry for this request, once the exchange is over.",
            ),
        ])
    }

    fn fields(&self) -> impl Iterator<Item = &LogField> {
        self.items.iter().filter_map(|item| match item {
            FormatItem::Value(field, _) => Some(field.whole()),
            FormatItem::Literal(_) => None,
        })
    }
}

/// An error in the text of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatError {
    /// Where, in characters from 1.
    pub column: usize,
    /// The error.
    pub what: String,
    /// The suggested text, if there is a guess.
    pub hint: Option<String>,
}

impl std::fmt::Display for FormatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "column {}: {}", self.column, self.what)?;
        match &self.hint {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FormatError {}
