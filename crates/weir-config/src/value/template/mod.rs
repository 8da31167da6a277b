//! Text with values of the exchange: `"{client_address}"`, in which a placeholder stands for what it names.
//!
//! One language for headers, redirects and answers; the access log has the same words. What a value comes to is decided on the data
//! path. A template cannot split a message: its own text has no control characters, and values are cleaned where they are written.

mod own;
mod proxy;
mod map;
mod map_counts;
mod database;
mod facts;
mod table;
mod groups;

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use weir_observe::Phase;
use weir_traffic::table::TableCounter;

pub(crate) use database::{AddressDatabase, DatabaseField, DatabaseReader};
pub use facts::TemplateFacts;
pub use groups::{GroupPiece, GroupTemplate};
pub use map::{LiveMap, MapDefinition, MapTable, ReadMap};
pub(crate) use map::{MapDatabase, MapEntry, MapParts};
pub use map_counts::MapLookups;
use own::OwnKind;
pub use own::OwnValue;
pub(crate) use own::{LOOKUPS_MAX, OwnNames};
use proxy::PROXY;
pub use proxy::ProxyValue;
pub use table::TableDefinition;

use super::ValueError;
use super::header::{HeaderValue, is_token};
use crate::diagnostic::did_you_mean;
use crate::masked_text::is_telling;
use crate::order::{Fact, Stage};

/// Declares the values without parameters.
macro_rules! values {
    ($($variant:ident $name:literal $fact:ident $doc:literal,)+) => {
        /// A value of an exchange.
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum TemplateValue {
            $(#[doc = $doc] $variant,)+
            /// A header of the request, by its name in lower case; of several, the first.
            Header(Box<str>),
            /// A header of the response of the server, by its name in lower case; of several, the first.
            ResponseHeader(Box<str>),
            /// A cookie of the request.
            Cookie(Box<str>),
            /// A parameter of the query, as sent.
            QueryParameter(Box<str>),
            /// What a group of `path_regex` has matched.
            MatchGroup(Box<str>),
            /// A claim of the token.
            TokenClaim(Box<str>),
            /// The time in a phase, as far as it is over.
            Phase(Phase),
            /// What a map of the config says.
            Map(OwnValue),
            /// A variable of the config: `vars` of the route or its listener.
            Variable(OwnValue),
            /// What the PROXY protocol header of the connection says besides addresses.
            Proxy(ProxyValue),
            /// A counter of a table of the config, of the entry that the exchange has by the key of the table.
            Counter(OwnValue, TableCounter),
            /// How many servers of an upstream can take requests now: neither down, ejected, draining nor in maintenance. Only conditions ask for it.
            UsableServers(Box<str>),
        }

        /// Name, value, the fact that it is part of, and meaning of every value without parameters.
        pub(super) const PLAIN: &[(&str, TemplateValue, Fact, &str)] =
            &[$(($name, TemplateValue::$variant, Fact::$fact, $doc),)+];
    };
}

values! {
    ClientAddress "client_address" ClientAddress "Address of the client, from a PROXY protocol header or a trusted proxy if there is one.",
    ClientPort "client_port" Connection "Port of the client.",
    PeerAddress "peer_address" Connection "Address of the peer of the client connection, regardless of PROXY protocol and trusted proxies.",
    PeerPort "peer_port" Connection "Port of the peer of the client connection.",
    LocalAddress "local_address" Connection "Address that the client connected to.",
    LocalPort "local_port" Connection "Port that the client connected to.",
    ConnectionRequests "connection_requests" Connection "Number of the request on its connection, from 1.",
    Time "time" Request "Start of the exchange, RFC 3339 with microseconds, UTC.",
    TimeSeconds "time.seconds" Request "Start of the exchange in seconds since 1970, with microseconds.",
    TimeMicros "time.us" Request "Start of the exchange in microseconds since 1970.",
    Listener "listener" Connection "Name of the listener.",
    Route "route" Route "Name of the route.",
    Method "method" Request "Method of the request.",
    Scheme "scheme" Request "`http` or `https`, by the connection of the client.",
    Authority "authority" Request "Host of the request with the port, if it has another one than the usual; in lower case, without a dot behind the name.",
    Host "host" Request "Host of the request without a port, in lower case and without a dot behind the name.",
    Target "target" Request "Target of the request as received, but for bytes that `lenient.unencoded_target` has percent-encoded.",
    Path "path" Request "Path of the request in its normal form.",
    DecodedPath "path|decode" Request "The same without percent-encoding, as `$uri` of nginx. Control characters, `/`, `\\`, `?` and `#` stay encoded, and so does all of it in URLs and paths of files.",
    Query "query" Request "`?` and the query of the request; nothing when it has none.",
    Args "args" Request "Query of the request without `?`; nothing when it has none.",
    Port "port" Request "Port that the request names, or else the usual one of its scheme.",
    ContentLength "content_length" Request "Length of the body of the request in bytes, as the client announces it; nothing when it does not.",
    Version "version" Request "Protocol version of the request.",
    RequestId "request_id" RequestId "Id of the request.",
    TraceId "trace_id" Trace "Trace id (W3C Trace Context).",
    UserAgent "user_agent" Request "Request field User-Agent.",
    Referer "referer" Request "Request field Referer.",
    User "user" User "User that `basic` of the route has let in, or `sub` of the token; only on routes with one of them.",
    Tag "tag" Tag "Text of the entry that the request is in, of a list with `action = \"tag\"`.",
    TlsVersion "tls.version" Connection "Version of TLS with the client, `1.2` or `1.3`.",
    TlsCipherSuite "tls.cipher_suite" Connection "Cipher suite with the client, by its IANA name.",
    TlsServerName "tls.server_name" Connection "Server name in the TLS handshake of the client (SNI).",
    TlsSession "tls.session" Connection "`new` or `resumed`: the TLS session of the client.",
    TlsEarlyData "tls.early_data" Connection "`1` when the request came before the handshake of the client was over (0-RTT), as `$ssl_early_data` of nginx; else nothing.",
    QuicRoundTrip "quic.rtt" Connection "Round-trip time of the client's QUIC connection in seconds, with microseconds; nothing over TCP.",
    TlsClientSubject "tls.client.subject" Connection "Subject of the client certificate (RFC 4514), if there is one.",
    TlsClientFingerprint "tls.client.fingerprint" Connection "SHA-256 of the client certificate in hexadecimal, if there is one.",
    Upstream "upstream" Upstream "Name of the upstream.",
    Server "server" Server "Name of the server.",
    QueuePosition "queue_position" Server "Exchanges ahead of this one in the queue; 0 without a queue.",
    Status "status" Response "Status of the response.",
    Attempts "attempts" Response "Attempts on servers; 0 for a response of Weir itself.",
    Retries "retries" Response "Attempts after the first.",
    Servers "servers" Response "Names of all servers that were tried, with commas between them, as `$upstream_addr` of nginx; the upstream where none of it could take the request. Of more than four on a route, the first three and the last.",
    ServersStatus "servers.status" Response "The status that each of them has answered with, or that of its failure, as `$upstream_status` of nginx.",
    ServersSeconds "servers.seconds" Response "The time that each of them has taken in seconds, with milliseconds, as `$upstream_response_time` of nginx.",
    ServerConnection "server_connection" Response "`new` or `reused`: the server connection of the last attempt.",
    Affinity "affinity" AffinityOutcome "Session affinity: `kept` on the server of the client, `moved` to another one, `new` without one, or `unavailable` where it may have no other one.",
    Cache "cache" CacheResult "What the cache did: `hit`, `stale`, `revalidated`, `collapsed`, `miss` or `bypass`.",
    CacheStatus "cache.status" CacheResult "The same as `$upstream_cache_status` of nginx: `HIT`, `MISS`, `EXPIRED` (stored and stale, so that the server was asked), `STALE`, `REVALIDATED` or `BYPASS`.",
    CacheReason "cache.reason" CacheResult "Why the response was not stored, or why a stale one was used.",
    Compression "compression" BodyCoding "How Weir changes the response body: `gzip`, `br` or `zstd`, or `decompressed`.",
    Limit "limit" Response "Name of the limit by key or of the list that has refused or delayed the request.",
    Duration "duration" Response "Time since the start of the exchange in microseconds.",
    DurationMillis "duration.ms" Response "Time since the start of the exchange in milliseconds.",
    DurationSeconds "duration.seconds" Response "Time since the start of the exchange in seconds, with microseconds.",
}

/// What stands before the name in values with a parameter.
const HEADER: &str = "header.";
const RESPONSE_HEADER: &str = "response.header.";
const COOKIE: &str = "cookie.";
const QUERY_PARAMETER: &str = "query.";
const MATCH_GROUP: &str = "match.";
const TOKEN_CLAIM: &str = "jwt.";
const PHASE: &str = "phase.";
const MAP: &str = "map.";
const VARIABLE: &str = "vars.";
const TABLE: &str = "table.";
const UPSTREAM: &str = "upstream.";
const USABLE: &str = ".usable";

impl TemplateValue {
    /// The value that a placeholder of this name stands for.
    pub(crate) fn from_name(name: &str) -> Option<TemplateValue> {
        Self::named(name).ok()
    }

    /// The value that a placeholder names.
    pub(crate) fn named(name: &str) -> Result<TemplateValue, ValueError> {
        if let Some((_, value, ..)) = PLAIN.iter().find(|(plain, ..)| *plain == name) {
            return Ok(value.clone());
        }
        // The name of a header may have a bar.
        if let Some(value) = name.strip_suffix("|decode").filter(|value| !value.contains(HEADER)) {
            let error = ValueError::new(format!("`{value}` cannot be decoded"));
            return Err(error.help("`{path|decode}` is the only value with this filter"));
        }
        let parameter = |prefix: &str| name.strip_prefix(prefix).filter(|rest| !rest.is_empty());
        if let Some(header) = parameter(HEADER) {
            return header_name(header).map(TemplateValue::Header);
        }
        if let Some(header) = parameter(RESPONSE_HEADER) {
            return header_name(header).map(TemplateValue::ResponseHeader);
        }
        if let Some(cookie) = parameter(COOKIE) {
            return Ok(TemplateValue::Cookie(cookie.into()));
        }
        if let Some(parameter) = parameter(QUERY_PARAMETER) {
            return Ok(TemplateValue::QueryParameter(parameter.into()));
        }
        if let Some(group) = parameter(MATCH_GROUP) {
            return Ok(TemplateValue::MatchGroup(group.into()));
        }
        if let Some(claim) = parameter(TOKEN_CLAIM) {
            return Ok(TemplateValue::TokenClaim(claim.into()));
        }
        if let Some(phase) = parameter(PHASE).and_then(Phase::from_name) {
            return Ok(TemplateValue::Phase(phase));
        }
        if let Some(name) = parameter(MAP) {
            return own(OwnKind::Map, name).map(TemplateValue::Map);
        }
        if let Some(name) = parameter(VARIABLE) {
            return own(OwnKind::Variable, name).map(TemplateValue::Variable);
        }
        if let Some(value) = parameter(PROXY) {
            return proxy_value(value).map(TemplateValue::Proxy);
        }
        if let Some((table, counter)) = parameter(TABLE).and_then(|rest| rest.rsplit_once('.')) {
            return counter_of(table, counter);
        }
        let names = PLAIN.iter().map(|(name, ..)| *name).chain(["header.NAME", "cookie.NAME", "query.NAME"]);
        let error = ValueError::new(format!("there is no placeholder `{{{name}}}`"));
        Err(match did_you_mean(name, names) {
            Some(help) => error.help(help),
            None => error.help("write `{{` for a brace; the reference lists all placeholders"),
        })
    }

    /// What stands for it in a URL or a path of a file, where what is decoded would mean something else.
    pub fn of_url(&self) -> &TemplateValue {
        match self {
            TemplateValue::DecodedPath => &TemplateValue::Path,
            other => other,
        }
    }

    /// The name in a placeholder.
    pub fn name(&self) -> String {
        match self {
            TemplateValue::Header(name) => format!("{HEADER}{name}"),
            TemplateValue::ResponseHeader(name) => format!("{RESPONSE_HEADER}{name}"),
            TemplateValue::Cookie(name) => format!("{COOKIE}{name}"),
            TemplateValue::QueryParameter(name) => format!("{QUERY_PARAMETER}{name}"),
            TemplateValue::MatchGroup(name) => format!("{MATCH_GROUP}{name}"),
            TemplateValue::TokenClaim(name) => format!("{TOKEN_CLAIM}{name}"),
            TemplateValue::Phase(phase) => format!("{PHASE}{}", phase.name()),
            TemplateValue::Map(map) => format!("{MAP}{}", map.name()),
            TemplateValue::Variable(variable) => format!("{VARIABLE}{}", variable.name()),
            TemplateValue::Proxy(value) => format!("{PROXY}{}", value.name()),
            TemplateValue::Counter(table, counter) => format!("{TABLE}{}.{}", table.name(), counter.name()),
            TemplateValue::UsableServers(upstream) => format!("{UPSTREAM}{upstream}{USABLE}"),
            plain => {
                let row = PLAIN.iter().find(|(_, value, ..)| value == plain);
                row.map_or_else(String::new, |(name, ..)| (*name).to_owned())
            }
        }
    }

    /// Whether a connection without requests has it, that of a TCP listener.
    pub fn is_of_connection(&self) -> bool {
        if let Some(own) = self.own() {
            return own.leaves().iter().all(TemplateValue::is_of_connection);
        }
        matches!(
            self,
            TemplateValue::ClientAddress
                | TemplateValue::ClientPort
                | TemplateValue::PeerAddress
                | TemplateValue::PeerPort
                | TemplateValue::Time
                | TemplateValue::TimeSeconds
                | TemplateValue::TimeMicros
                | TemplateValue::LocalAddress
                | TemplateValue::LocalPort
                | TemplateValue::Listener
                | TemplateValue::Route
                | TemplateValue::Tag
                | TemplateValue::TlsVersion
                | TemplateValue::TlsCipherSuite
                | TemplateValue::TlsServerName
                | TemplateValue::TlsSession
                | TemplateValue::TlsClientSubject
                | TemplateValue::TlsClientFingerprint
                | TemplateValue::Proxy(_)
                | TemplateValue::UsableServers(_)
        )
    }

    /// Whether it may be a secret of a client: a cookie, or something whose name says so.
    pub fn is_secret(&self) -> bool {
        match self {
            TemplateValue::Cookie(_) => true,
            TemplateValue::Header(name)
            | TemplateValue::ResponseHeader(name)
            | TemplateValue::QueryParameter(name) => is_telling(name),
            TemplateValue::Map(own) | TemplateValue::Variable(own) => {
                own.leaves().iter().any(TemplateValue::is_secret)
            }
            _ => false,
        }
    }

    /// The map, the variable or the table, if it is of one.
    pub fn own(&self) -> Option<&OwnValue> {
        match self {
            TemplateValue::Map(own) | TemplateValue::Variable(own) | TemplateValue::Counter(own, _) => {
                Some(own)
            }
            _ => None,
        }
    }

    /// What it is made of in the end: itself, unless it is a map, a variable or of a table.
    pub fn leaves(&self) -> &[TemplateValue] {
        self.own().map_or(std::slice::from_ref(self), OwnValue::leaves)
    }

    /// The stage from which it is known, by the table of features. `{tag}` is known as soon as the lists of a route are: [`crate::RuleOrder`].
    pub fn stage(&self) -> Stage {
        match self.own() {
            // What is not defined yet counts as known last, so that nothing is decided by it too early.
            Some(own) if !own.is_defined() => Stage::Finish,
            Some(own) => own.leaves().iter().map(Self::stage).max().unwrap_or(Stage::RequestHead),
            None => self.fact().stage(),
        }
    }

    /// The fact that it is part of.
    fn fact(&self) -> Fact {
        match self {
            TemplateValue::ResponseHeader(_) | TemplateValue::Phase(_) => Fact::Response,
            TemplateValue::TokenClaim(_) => Fact::Claims,
            TemplateValue::UsableServers(_) | TemplateValue::Proxy(_) => Fact::Connection,
            TemplateValue::MatchGroup(_) => Fact::Route,
            TemplateValue::Header(_) | TemplateValue::Cookie(_) | TemplateValue::QueryParameter(_) => {
                Fact::Request
            }
            plain => {
                let row = PLAIN.iter().find(|(_, value, ..)| value == plain);
                row.map_or(Fact::Request, |(_, _, fact, _)| *fact)
            }
        }
    }
}

/// The value of this name of a PROXY header, which connections keep from now on.
fn proxy_value(name: &str) -> Result<ProxyValue, ValueError> {
    let Some(value) = ProxyValue::from_name(name) else {
        let near = did_you_mean(name, ProxyValue::names());
        let help = near.unwrap_or_else(|| {
            "write `{proxy.authority}`, or `{proxy.tlv.0xEA}` for the value of a type as it was sent"
                .to_owned()
        });
        return Err(ValueError::new(format!("PROXY headers have no value `{name}`")).help(help));
    };
    if !value.is_address() {
        OwnNames::note_proxy_value();
    }
    Ok(value)
}

/// A counter of a table that the config defines.
fn counter_of(table: &str, counter: &str) -> Result<TemplateValue, ValueError> {
    let own = own(OwnKind::Table, table)?;
    match TableCounter::from_name(counter) {
        Some(counter) => {
            own.ask(counter);
            Ok(TemplateValue::Counter(own, counter))
        }
        None => {
            let names = TableCounter::ALL.iter().map(|counter| counter.name());
            let error = ValueError::new(format!("tables have no counter `{counter}`"));
            Err(error.help_if(did_you_mean(counter, names)))
        }
    }
}

/// The value of this name that the config defines.
fn own(kind: OwnKind, name: &str) -> Result<OwnValue, ValueError> {
    OwnNames::find(kind, name).map_err(|names| {
        let (message, help) = match kind {
            OwnKind::Map => (format!("there is no map `{name}`"), format!("define it as `[map.{name}]`")),
            OwnKind::Variable => (
                format!("there is no variable `{name}`"),
                format!("define it as `vars.{name}` of the listener or the route"),
            ),
            OwnKind::Table => (
                format!("there is no table `{name}`"),
                format!("define it as `[table.{name}]` with what it is to `store`"),
            ),
        };
        let near = did_you_mean(name, names.iter().map(|name| &**name));
        ValueError::new(message).help(near.unwrap_or(help))
    })
}

/// A header name in lower case.
fn header_name(name: &str) -> Result<Box<str>, ValueError> {
    match name.chars().all(is_token) {
        true => Ok(name.to_ascii_lowercase().into()),
        false => Err(ValueError::new(format!("`{name}` cannot be the name of a header"))),
    }
}

/// Every placeholder with its meaning, for the reference.
pub(crate) fn template_values() -> impl Iterator<Item = (String, &'static str)> {
    let plain = PLAIN.iter().map(|(name, _, _, meaning)| ((*name).to_owned(), *meaning));
    let of_proxy = ProxyValue::meanings().map(|(name, meaning)| (format!("{PROXY}{name}"), meaning));
    let named = [
        (
            "proxy.tlv.TYPE",
            "Value of this type (TLV) in the PROXY header as it was sent, such as `{proxy.tlv.0xEA}`; numbers are hexadecimal with `0x`, or decimal.",
        ),
        ("header.NAME", "A header of the request; of several, the first. In keys, each line counts."),
        ("response.header.NAME", "A header of the response of the server; of several, the first."),
        ("cookie.NAME", "A cookie of the request; of several, the first."),
        (
            "query.NAME",
            "A parameter of the query, as sent; of several, the first. In keys of lists and limits decoded.",
        ),
        (
            "jwt.NAME",
            "A claim of the token that `jwt` of the route has verified; members of a list have commas between them.",
        ),
        ("phase.NAME", "Time in this phase so far, in microseconds: `{phase.queue}`, `{phase.response}`."),
        (
            "match.GROUP",
            "What a group of `path_regex` has matched, by its name or number; 0 is the whole match. In a value of a `regex` of a map: of that.",
        ),
        ("map.NAME", "What the map `[map.NAME]` says."),
        ("vars.NAME", "The variable of this name of the route, or of its listener (`vars`)."),
        (
            "table.NAME.COUNTER",
            "A counter of the table `[table.NAME]`, of the entry for this request: `{table.clients.http_req_rate}`.",
        ),
    ];
    plain.chain(of_proxy).chain(named.map(|(name, meaning)| (name.to_owned(), meaning)))
}

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TemplatePart {
    /// Literal text.
    Literal(Box<str>),
    /// A value.
    Value(TemplateValue),
}

/// Text with values.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Template {
    parts: Box<[TemplatePart]>,
}

impl Template {
    /// Its pieces, one after the other.
    pub fn parts(&self) -> &[TemplatePart] {
        &self.parts
    }

    /// Its text, if there is no value in it.
    pub fn literal(&self) -> Option<&str> {
        match &*self.parts {
            [] => Some(""),
            [TemplatePart::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Its values.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        self.parts.iter().filter_map(|part| match part {
            TemplatePart::Value(value) => Some(value),
            TemplatePart::Literal(_) => None,
        })
    }

    /// What its values are made of in the end.
    pub fn leaves(&self) -> impl Iterator<Item = &TemplateValue> {
        self.values().flat_map(TemplateValue::leaves)
    }

    /// One without values, of which each character stands for itself.
    pub fn of_literal(text: &str) -> Self {
        let parts: Vec<_> =
            (!text.is_empty()).then(|| TemplatePart::Literal(text.into())).into_iter().collect();
        Self { parts: parts.into() }
    }
}

impl From<TemplateValue> for Template {
    /// The value and nothing else.
    fn from(value: TemplateValue) -> Self {
        Self { parts: Box::new([TemplatePart::Value(value)]) }
    }
}

impl FromStr for Template {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        let (mut parts, mut literal, mut at) = (Vec::new(), String::new(), 0);
        while let Some(c) = text[at..].chars().next() {
            let next = at + c.len_utf8();
            match c {
                '{' | '}' if text[next..].starts_with(c) => {
                    literal.push(c);
                    at = next + 1;
                }
                '{' => {
                    let Some(len) = text[next..].find('}') else {
                        let error = ValueError::new("`{` is not closed by `}`");
                        return Err(error.help("write `{{` for a brace").range(at..text.len()));
                    };
                    let end = next + len;
                    if !literal.is_empty() {
                        parts.push(TemplatePart::Literal(std::mem::take(&mut literal).into()));
                    }
                    let value =
                        TemplateValue::named(&text[next..end]).map_err(|error| error.range(at..end + 1))?;
                    parts.push(TemplatePart::Value(value));
                    at = end + 1;
                }
                '}' => {
                    let error = ValueError::new("`}` closes nothing").help("write `}}` for a brace");
                    return Err(error.range(at..next));
                }
                c => {
                    literal.push(c);
                    at = next;
                }
            }
        }
        if !literal.is_empty() {
            parts.push(TemplatePart::Literal(literal.into()));
        }
        Ok(Self { parts: parts.into() })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            TemplatePart::Literal(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}")),
            TemplatePart::Value(value) => write!(f, "{{{}}}", value.name()),
        })
    }
}

/// The value of a header with values of the exchange in it, whose own text is as that of [`HeaderValue`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct HeaderTemplate(Template);

impl HeaderTemplate {
    /// A value in which each character stands for itself.
    pub fn of_literal(value: &HeaderValue) -> Self {
        Self(Template::of_literal(value))
    }
}

impl FromStr for HeaderTemplate {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        text.parse::<HeaderValue>()?;
        text.parse().map(Self)
    }
}

impl Deref for HeaderTemplate {
    type Target = Template;

    fn deref(&self) -> &Template {
        &self.0
    }
}

impl fmt::Display for HeaderTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Template {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"))
    }

    #[test]
    fn templates_print_as_they_are_written() {
        for text in [
            "",
            "no-store",
            "{client_address}",
            "for={client_address};host={host}",
            "{{\"group\":\"{header.x-group}\"}}",
            "{query.a}{cookie.b}{match.1}{match.name}{response.header.etag}",
            "{phase.queue}{time.seconds}{duration.ms}",
        ] {
            assert_eq!(parsed(text).to_string(), text);
        }
        for (name, ..) in PLAIN {
            let text = format!("{{{name}}}");
            assert_eq!(parsed(&text).to_string(), text);
        }
        assert_eq!(parsed("{header.X-Own}").to_string(), "{header.x-own}", "names are in lower case");
    }

    #[test]
    fn a_text_without_values_is_literal() {
        assert_eq!(parsed("a {{b}}").literal(), Some("a {b}"));
        assert_eq!(parsed("").literal(), Some(""));
        assert_eq!(parsed("{host}").literal(), None);
        assert_eq!(Template::of_literal("{host}").to_string(), "{{host}}");
    }

    #[test]
    fn mistakes_are_told_with_their_place() {
        for (text, message, range) in [
            ("a {client_adress}", "there is no placeholder `{client_adress}`", Some(2..17)),
            ("a {host", "`{` is not closed by `}`", Some(2..7)),
            ("a } b", "`}` closes nothing", Some(2..3)),
            ("{}", "there is no placeholder `{}`", Some(0..2)),
            ("{header.}", "there is no placeholder `{header.}`", Some(0..9)),
            ("{phase.none}", "there is no placeholder `{phase.none}`", Some(0..12)),
            ("{header.a b}", "`a b` cannot be the name of a header", Some(0..12)),
        ] {
            let error = text.parse::<Template>().expect_err(text);
            assert_eq!((error.message.as_str(), error.range), (message, range), "{text}");
        }
        let error = "{client_adress}".parse::<Template>().expect_err("it is misspelt");
        assert_eq!(error.help.as_deref(), Some("did you mean `client_address`?"));
    }

    /// One concept has one word. The log has more of them: what is known at the end, and the forms of other products.
    #[test]
    fn the_access_log_has_the_same_words() {
        const AT_THE_END: [&str; 9] = [
            "bytes",
            "body_bytes",
            "compression.ratio",
            "status_sent",
            "grpc_status",
            "ended_by",
            "failure",
            "reason",
            "auth.",
        ];
        const OTHER_FORMS: [&str; 8] = [
            "time.clf",
            "time.haproxy",
            "request_line",
            "termination",
            "timer.",
            "load.",
            "haproxy.",
            "proxy.",
        ];
        let words: Vec<_> =
            weir_observe::access_log::LogTemplate::placeholders().map(|(name, _)| name).collect();
        // The log names all values of PROXY headers at once.
        let is_told_apart = |(name, _): &(String, _)| name != "phase.NAME" && !name.starts_with(PROXY);
        for (name, _) in template_values().filter(is_told_apart) {
            assert!(words.contains(&name), "{name}");
        }
        let of_log = AT_THE_END.iter().chain(&OTHER_FORMS);
        for word in words.iter().filter(|word| !of_log.clone().any(|prefix| word.starts_with(prefix))) {
            let is_known = TemplateValue::from_name(word).is_some();
            assert!(is_known || template_values().any(|(name, _)| name == *word), "{word}");
        }
    }

    #[test]
    fn secrets() {
        for (text, expected) in [
            ("{cookie.a}", true),
            ("{header.x-api-key}", true),
            ("{query.Token}", true),
            ("{header.host}", false),
            ("{path}", false),
        ] {
            assert_eq!(parsed(text).values().next().map(TemplateValue::is_secret), Some(expected), "{text}");
        }
    }

    #[test]
    fn values_are_known_from_a_stage_on() {
        for (text, stage) in [
            ("{host}", Stage::RequestHead),
            ("{header.a}", Stage::RequestHead),
            ("{user}", Stage::Identity),
            ("{jwt.sub}", Stage::Identity),
            ("{server}", Stage::Server),
            ("{status}", Stage::ResponseHead),
            ("{phase.queue}", Stage::ResponseHead),
            ("{duration.ms}", Stage::ResponseHead),
            ("{time.us}", Stage::RequestHead),
            ("{route}", Stage::Route),
            ("{match.1}", Stage::Route),
            ("{tag}", Stage::Route),
            ("{upstream}", Stage::Upstream),
            ("{compression}", Stage::ResponseFields),
            ("{response.header.a}", Stage::ResponseHead),
        ] {
            assert_eq!(parsed(text).values().next().map(TemplateValue::stage), Some(stage), "{text}");
        }
    }
}
