//! What the values of a template come to in an exchange.
//!
//! Values come from peers: whatever is no part of a header value (CR, LF, NUL and other control bytes) becomes a space, and what is no
//! part of a URL is percent-encoded there.

use std::net::{IpAddr, SocketAddr};

use weir_cache::rules as cache_rules;
use weir_cache::rules::ForwardReason;
use weir_config::{Listener, Template, TemplateFacts, TemplatePart, TemplateValue, keep_in_place};
use weir_http::{
    EncodedSlashRule, Field, FieldName, Fields, Framing, RequestHead, digits, normalize_authority,
    write_normal_path,
};
use weir_observe::access_log::UnixMicros;
use weir_observe::{AffinityOutcome, CacheResult};
use weir_traffic::ServerId;
use weir_traffic::affinity::cookie_values;
use weir_traffic::route::{decoded_parameter, query_value, query_values};
use weir_traffic::table::TableCounter;

use crate::exchange::context;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::plans::Plans;
use crate::exchange::proxy_values;
use crate::exchange::tried_servers;
use weir_traffic::rewrite::Rewrite;

use crate::net::clock;
use crate::net::peer::Peer;
use crate::state::snapshot::{ListenerPlan, RoutePlan, Snapshot, UpstreamPlan};

/// Texts of one value in the key of a cache: as many as keys of lists look up. More of one field, cookie or parameter are sent to wear Weir out, and for nothing else.
const KEY_VALUES_MAX: usize = 256;

/// Where values are looked up.
#[derive(Clone, Copy)]
pub(in crate::exchange) struct TemplateValues<'a> {
    pub(in crate::exchange) client: &'a Client,
    pub(in crate::exchange) end: &'a dyn ClientEnd,
    pub(in crate::exchange) exchange: &'a Exchange,
    pub(in crate::exchange) listener: &'a ListenerPlan,
    pub(in crate::exchange) snapshot: &'a Snapshot,
    pub(in crate::exchange) route: Option<&'a RoutePlan>,
    pub(in crate::exchange) known_client_address: Option<IpAddr>,
    /// The upstream and the server of an attempt; without them, those of the record.
    pub(in crate::exchange) attempt: Option<(&'a UpstreamPlan, usize)>,
    /// Fields and text of the response of a server, fresh or stored.
    pub(in crate::exchange) response: Option<(&'a Fields, &'a [u8])>,
    /// The status of the response; 0 before there is one.
    pub(in crate::exchange) status: u16,
    /// What becomes of the path where it is shown: that of a redirect.
    pub(in crate::exchange) path_rewrite: Option<&'a Rewrite>,
}

impl<'a> TemplateValues<'a> {
    /// For a request, as far as it has come: behind an attempt, as on a page that says why it failed, with its server.
    pub(in crate::exchange) fn new<U>(
        context: &'a Context<'_, impl ClientEnd, U>,
        route: Option<&'a RoutePlan>,
    ) -> Self {
        Self {
            client: context.client,
            end: context.stream,
            exchange: context.exchange,
            listener: context.listener,
            snapshot: &context.config.snapshot,
            known_client_address: context.known_client_address,
            route,
            attempt: None,
            response: None,
            status: 0,
            path_rewrite: None,
        }
    }

    /// For an exchange that is over.
    pub(in crate::exchange) fn of_record(
        client: &'a Client,
        end: &'a dyn ClientEnd,
        exchange: &'a Exchange,
        (snapshot, listener): (&'a Snapshot, &'a ListenerPlan),
        route: Option<&'a RoutePlan>,
    ) -> Self {
        Self {
            client,
            end,
            exchange,
            listener,
            snapshot,
            known_client_address: None,
            route,
            attempt: None,
            response: Some((exchange.response.fields(), &exchange.response_text)),
            status: exchange.record.status,
            path_rewrite: None,
        }
    }

    /// For an attempt on `server`.
    pub(in crate::exchange) fn for_attempt<U>(
        context: &'a Context<'_, impl ClientEnd, U>,
        plans: Plans<'a>,
        server: ServerId,
    ) -> Self {
        let attempt = Some((plans.upstream, server.index()));
        Self { attempt, ..Self::new(context, Some(plans.route)) }
    }

    /// Upstream and server; empty without one.
    pub(in crate::exchange) fn destination(&self) -> (&'a str, &'a str) {
        let record = &self.exchange.record;
        let of_record = || {
            let served = record.served()?;
            Some((&*served.snapshot.upstreams[record.upstream?], record.server?))
        };
        let upstream = || Some(&*record.served()?.snapshot.upstreams[record.upstream?]);
        match self.attempt.or_else(of_record) {
            Some((upstream, server)) => (&upstream.config.name, &upstream.config.servers[server].name),
            None => (upstream().map_or("", |upstream| &upstream.config.name), ""),
        }
    }

    /// Appends the text of a template; whether it has no values, or one that is not empty.
    pub(in crate::exchange) fn write(&self, template: &Template, out: &mut Vec<u8>) -> bool {
        self.write_with((template, |value| value), out, |value, out, start| {
            self.normalize(value, out, start);
            clean_for_header(&mut out[start..]);
        })
    }

    /// The same as the key of a cache, or part of one: hosts are in normal form, and every line of a header counts, since the response may hang on any.
    /// Whether that could be done: not with a value that comes to more than [`KEY_VALUES_MAX`] texts.
    pub(in crate::exchange) fn write_key(&self, template: &Template, out: &mut Vec<u8>) -> bool {
        if template.values().any(|value| self.count(value) > KEY_VALUES_MAX) {
            return false;
        }
        let scheme: &[u8] = if self.client.is_tls { b"https" } else { b"http" };
        self.write_with((template, |value| value), out, |value, out, start| {
            if matches!(value, TemplateValue::Authority | TemplateValue::Host) {
                cache_rules::normalize_authority(out, start, scheme);
            }
            for nth in 1..self.count(value) {
                out.extend_from_slice(b", ");
                self.write_sent(value, nth, out);
            }
            clean_for_header(&mut out[start..]);
        });
        true
    }

    /// The same as part of a URL: what cannot stand in one is percent-encoded.
    pub(in crate::exchange) fn write_url(&self, template: &Template, out: &mut Vec<u8>) {
        let begin = out.len();
        let mut url = out.split_off(begin);
        self.write_with((template, TemplateValue::of_url), &mut url, |value, out, start| {
            self.normalize(value, out, start);
            keep_in_place(value, out, start);
            clean_for_url(out, start);
        });
        out.append(&mut url);
    }

    /// Hosts are the same in every spelling.
    fn normalize(&self, value: &TemplateValue, out: &mut Vec<u8>, start: usize) {
        if matches!(value, TemplateValue::Authority | TemplateValue::Host) {
            normalize_authority(out, start, if self.client.is_tls { 443 } else { 80 });
        }
    }

    fn write_with(
        &self,
        (template, form): (&Template, fn(&TemplateValue) -> &TemplateValue),
        out: &mut Vec<u8>,
        clean: impl Fn(&TemplateValue, &mut Vec<u8>, usize),
    ) -> bool {
        let mut has_value = template.literal().is_some();
        for part in template.parts() {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Value(value) => {
                    let (value, start) = (form(value), out.len());
                    self.write_value(value, out);
                    has_value |= out.len() > start;
                    clean(value, out, start);
                }
            }
        }
        has_value
    }

    /// How many values of a placeholder the request has, at least one: one for each line of the header, and each cookie and parameter of its name.
    pub(in crate::exchange) fn count(&self, value: &TemplateValue) -> usize {
        let request = &self.exchange.request;
        let count = match value {
            TemplateValue::Header(name) => self.header_lines(name).count(),
            TemplateValue::UserAgent => request.fields().all(FieldName::UserAgent).count(),
            TemplateValue::Referer => request.fields().all(FieldName::Referer).count(),
            TemplateValue::Cookie(name) => cookies(self.exchange, name).count(),
            TemplateValue::QueryParameter(name) => query_values(self.query(), name.as_bytes()).count(),
            TemplateValue::Map(map) => map.map().map_or(1, |map| map.source.count(self)),
            TemplateValue::Variable(variable) => {
                self.variable(variable.name()).map_or(1, |text| text.count(self))
            }
            _ => 1,
        };
        count.max(1)
    }

    /// Appends one of them in the form in which lists and limits compare it: hosts in lower case, parameters decoded.
    pub(in crate::exchange) fn write_nth(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
        let start = out.len();
        match value {
            TemplateValue::QueryParameter(name) => {
                let sent = query_values(self.query(), name.as_bytes()).nth(nth);
                out.extend_from_slice(&decoded_parameter(sent.unwrap_or_default()));
            }
            TemplateValue::Variable(variable) => {
                self.variable(variable.name()).iter().for_each(|text| text.write_nth(self, nth, out));
            }
            value => self.write_sent(value, nth, out),
        }
        self.normalize(value, out, start);
        clean_for_header(&mut out[start..]);
    }

    /// Appends the key that a template comes to, with the first of each of its values in the form in which limits compare them; whether one is not empty.
    pub(in crate::exchange) fn write_own_key(&self, template: &Template, out: &mut Vec<u8>) -> bool {
        let mut has_value = false;
        for part in template.parts() {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Value(value) => {
                    let start = out.len();
                    self.write_nth(value, 0, out);
                    has_value |= out.len() > start;
                }
            }
        }
        has_value
    }

    /// The same as it was sent.
    pub(in crate::exchange) fn write_sent(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
        let Exchange { request, request_text: text, .. } = self.exchange;
        let line = |field: Option<&Field>| field.map_or(&b""[..], |field| field.value.of(text));
        let sent = match value {
            TemplateValue::Header(name) => self.header_lines(name).nth(nth).unwrap_or_default(),
            TemplateValue::UserAgent => line(request.fields().all(FieldName::UserAgent).nth(nth)),
            TemplateValue::Referer => line(request.fields().all(FieldName::Referer).nth(nth)),
            TemplateValue::Cookie(name) => cookies(self.exchange, name).nth(nth).unwrap_or_default(),
            TemplateValue::QueryParameter(name) => {
                query_values(self.query(), name.as_bytes()).nth(nth).unwrap_or_default()
            }
            TemplateValue::Map(map) => {
                return map.map().iter().for_each(|map| map.write(self, nth, out));
            }
            TemplateValue::Variable(variable) => {
                return self.variable(variable.name()).iter().for_each(|text| text.write_nth(self, nth, out));
            }
            value => return self.write_value(value, out),
        };
        out.extend_from_slice(sent);
    }

    /// The address of the client: a fact once the request was admitted.
    pub(in crate::exchange) fn client_address(&self) -> IpAddr {
        self.known_client_address
            .unwrap_or_else(|| context::find_client_address(self.client, self.exchange, self.listener))
    }

    pub(in crate::exchange) fn query(&self) -> &'a [u8] {
        self.exchange.request.query().map_or(&b""[..], |query| query.of(&self.exchange.request_text))
    }

    /// Appends one value as it is in the exchange.
    pub(in crate::exchange) fn write_one(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_value(value, out);
        self.normalize(value, out, start);
    }

    /// Appends one value as part of a URL: what cannot stand in one is percent-encoded.
    pub(in crate::exchange) fn write_in_url(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        let start = out.len();
        self.write_one(value.of_url(), out);
        clean_for_url(out, start);
    }

    /// The URL for a redirect to this place: a path names the host that the client has asked for, where the listener wants that.
    pub(in crate::exchange) fn redirect_url(&self, location: Vec<u8>) -> Vec<u8> {
        let is_path = location.first() == Some(&b'/') && !matches!(location.get(1), Some(b'/' | b'\\'));
        if !self.listener.config.absolute_redirect || !is_path {
            return location;
        }
        let mut url = Vec::new();
        self.write_one(&TemplateValue::Scheme, &mut url);
        url.extend_from_slice(b"://");
        let host = url.len();
        self.write_in_url(&TemplateValue::Authority, &mut url);
        // A client of HTTP/1.0 need not name a host.
        if url.len() == host {
            return location;
        }
        url.extend_from_slice(&location);
        url
    }

    fn write_value(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        let Self { client, exchange, listener, .. } = self;
        let (request, text) = (&exchange.request, &exchange.request_text[..]);
        match value {
            TemplateValue::ClientAddress => {
                digits::address(out, self.client_address());
            }
            TemplateValue::ClientPort => number(out, port(client.peer)),
            TemplateValue::PeerPort => number(out, port(client.sender())),
            TemplateValue::PeerAddress => address(out, client.sender().ip()),
            TemplateValue::LocalAddress => address(out, self.local_address().map(|address| address.ip())),
            TemplateValue::LocalPort => number(out, self.local_address().map(|address| address.port())),
            TemplateValue::Listener => out.extend_from_slice(listener.config.name.as_bytes()),
            TemplateValue::Route => {
                out.extend_from_slice(self.route.map_or("", |route| &route.config.name).as_bytes());
            }
            TemplateValue::Method => out.extend_from_slice(request.method_span().of(text)),
            TemplateValue::Scheme => out.extend_from_slice(if client.is_tls { b"https" } else { b"http" }),
            TemplateValue::Authority => out.extend_from_slice(request.authority().of(text)),
            TemplateValue::Host => out.extend_from_slice(request.host().of(text)),
            TemplateValue::Path => match self.path_rewrite {
                None => write_path(out, request, text, &listener.config),
                Some(rewrite) => _ = rewrite.apply(request.normal_path(text), None, out),
            },
            TemplateValue::Query => {
                if request.query().is_some() {
                    out.push(b'?');
                    out.extend_from_slice(self.query());
                }
            }
            TemplateValue::DecodedPath => {
                let mut path = Vec::new();
                self.write_value(&TemplateValue::Path, &mut path);
                decode_path(&path, out);
            }
            TemplateValue::Version => out.extend_from_slice(request.version().as_str().as_bytes()),
            TemplateValue::RequestId => out.extend_from_slice(&exchange.record.request_id),
            TemplateValue::TraceId => {
                let digits = exchange.record.trace.id_digits();
                out.extend_from_slice(digits.as_ref().map_or(&b""[..], |digits| digits.as_slice()));
            }
            TemplateValue::TokenClaim(name) => {
                out.extend_from_slice(exchange.claim(name).unwrap_or_default());
            }
            TemplateValue::User => out.extend_from_slice(exchange.user()),
            TemplateValue::Tag => out.extend_from_slice(&exchange.limits.tag),
            TemplateValue::Upstream => out.extend_from_slice(self.destination().0.as_bytes()),
            TemplateValue::Server => out.extend_from_slice(self.destination().1.as_bytes()),
            TemplateValue::Status if self.status == 0 => {}
            TemplateValue::Status => digits::decimal(out, self.status.into()),
            TemplateValue::Header(name) => self.write_request_header(name, out),
            TemplateValue::Map(_) | TemplateValue::Variable(_) | TemplateValue::Counter(..) => {
                self.write_own(value, out);
            }
            TemplateValue::ContentLength => {
                if let Some(length) = self.content_length() {
                    digits::decimal(out, length);
                }
            }
            TemplateValue::Proxy(value) => proxy_values::write(client, *value, out),
            TemplateValue::UsableServers(upstream) => digits::decimal(out, self.usable_servers(upstream)),
            TemplateValue::Target => out.extend_from_slice(exchange.received_target()),
            TemplateValue::Args => out.extend_from_slice(self.query()),
            TemplateValue::Port => {
                digits::decimal(out, request.port().unwrap_or(if client.is_tls { 443 } else { 80 }).into());
            }
            TemplateValue::UserAgent => self.write_request_header("user-agent", out),
            TemplateValue::Referer => self.write_request_header("referer", out),
            TemplateValue::ResponseHeader(_)
            | TemplateValue::Cookie(_)
            | TemplateValue::QueryParameter(_)
            | TemplateValue::MatchGroup(_) => out.extend_from_slice(self.named_part(value)),
            other => self.write_of_record(other, out),
        }
    }

    /// The part of request or response that has this name; empty when there is none.
    fn named_part(&self, value: &TemplateValue) -> &[u8] {
        let (request, text) = (&self.exchange.request, &self.exchange.request_text[..]);
        let found = match value {
            TemplateValue::ResponseHeader(name) => self
                .response
                .and_then(|(fields, text)| fields.get_by_name(text, name).map(|field| field.value.of(text))),
            TemplateValue::Cookie(name) => cookies(self.exchange, name).next(),
            TemplateValue::QueryParameter(name) => query_value(self.query(), name.as_bytes()),
            TemplateValue::MatchGroup(name) => {
                let kept = self.exchange.rerouting().and_then(|way| way.matched_path.as_deref());
                let matched = kept.unwrap_or_else(|| request.normal_path(text));
                let path = self.route.map(|route| &route.config.matches.path);
                path.and_then(|path| path.group(matched, name))
            }
            _ => None,
        };
        found.unwrap_or_default()
    }

    /// Appends what the config says that a value of its own stands for.
    #[cold]
    fn write_own(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        match value {
            TemplateValue::Variable(variable) => {
                self.variable(variable.name()).iter().for_each(|text| text.write_first(self, out));
            }
            TemplateValue::Counter(table, counter) => {
                let count = self.counter(table.name(), *counter);
                count.iter().for_each(|count| digits::decimal(out, *count));
            }
            value => self.write_sent(value, 0, out),
        }
    }

    /// What a variable stands for on this route, or on this listener where there is none.
    pub(in crate::exchange) fn variable(&self, name: &str) -> Option<&Template> {
        let vars = self.route.map_or(&self.listener.config.vars, |route| &route.config.vars);
        vars.iter().find(|(known, _)| **known == *name).map(|(_, text)| text)
    }

    /// The length of the body as the client announces it.
    pub(in crate::exchange) fn content_length(&self) -> Option<u64> {
        match self.exchange.request.body() {
            Framing::Length(length) => Some(length),
            _ => None,
        }
    }

    /// How many servers of an upstream may be chosen now.
    pub(in crate::exchange) fn usable_servers(&self, upstream: &str) -> u64 {
        let Some((_, upstream)) = self.snapshot.upstream(upstream) else { return 0 };
        upstream.balancer().states().iter().filter(|state| state.is_eligible()).count() as u64
    }

    /// A counter of the entry that the exchange has in a table: of several, the largest; `None`: its key comes to nothing.
    #[cold]
    pub(in crate::exchange) fn counter(&self, table: &str, counter: TableCounter) -> Option<u64> {
        let plan = self.snapshot.table(table)?;
        let tracked = self.exchange.limits.tracked.iter().filter(|hold| hold.plan.name() == table);
        let counted = tracked.map(|hold| hold.plan.value(hold.key, counter)).max();
        counted.or_else(|| {
            let keys = plan.find_keys(self, || self.client_address(), &mut Vec::new());
            keys.iter().map(|(key, _)| plan.value(key, counter)).max()
        })
    }

    fn write_request_header(&self, name: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.header_lines(name).next().unwrap_or_default());
    }

    /// The lines of a header of the request: those of its client, and what the server that decides about requests has given it.
    pub(in crate::exchange) fn header_lines<'n>(
        &self,
        name: &'n str,
    ) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
        let (exchange, text) = (self.exchange, &self.exchange.request_text[..]);
        let sent = exchange.request.fields().all_by_name(text, name).map(|field| field.value.of(text));
        let given = exchange.authorization.iter().flat_map(|granted| &granted.fields);
        let given = given.filter(|(given, _)| given.eq_ignore_ascii_case(name.as_bytes()));
        sent.chain(given.map(|(_, value)| &value[..]))
    }

    /// What the log knows of the exchange, as far as it has come.
    fn write_of_record(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        let (exchange, record) = (self.exchange, &self.exchange.record);
        let word = |word: Option<&str>, out: &mut Vec<u8>| {
            out.extend_from_slice(word.unwrap_or_default().as_bytes());
        };
        match value {
            TemplateValue::Time => out.extend_from_slice(&UnixMicros(self.began_micros()).rfc3339()),
            TemplateValue::TimeSeconds => seconds(out, self.began_micros()),
            TemplateValue::TimeMicros => digits::decimal(out, self.began_micros()),
            TemplateValue::Duration => digits::decimal(out, self.micros_so_far()),
            TemplateValue::DurationMillis => digits::decimal(out, self.micros_so_far() / 1000),
            TemplateValue::DurationSeconds => seconds(out, self.micros_so_far()),
            TemplateValue::Phase(phase) => digits::decimal(out, record.times[*phase].into()),
            TemplateValue::ConnectionRequests => digits::decimal(out, self.client.requests),
            TemplateValue::QueuePosition => digits::decimal(out, record.queue_position.into()),
            TemplateValue::Attempts => digits::decimal(out, record.attempts.into()),
            TemplateValue::Retries => digits::decimal(out, record.attempts.saturating_sub(1).into()),
            TemplateValue::Servers => tried_servers::write_names(exchange, out),
            TemplateValue::ServersStatus => tried_servers::write_statuses(exchange, out),
            TemplateValue::ServersSeconds => tried_servers::write_times(exchange, out),
            TemplateValue::ServerConnection => {
                let reused = (record.attempts > 0).then_some(record.reused);
                word(reused.map(|reused| if reused { "reused" } else { "new" }), out);
            }
            TemplateValue::Affinity => word(record.affinity.map(AffinityOutcome::name), out),
            TemplateValue::Cache => word(record.cache.map(CacheResult::as_str), out),
            TemplateValue::CacheStatus => word(cache_status(exchange), out),
            TemplateValue::CacheReason => word(record.cache_detail, out),
            TemplateValue::Compression => word(exchange.body_coding.word(), out),
            TemplateValue::Limit => out.extend_from_slice(exchange.limits.name().as_bytes()),
            TemplateValue::QuicRoundTrip => {
                if let Some(micros) = self.end.tls().and_then(|tls| tls.round_trip_micros) {
                    seconds(out, micros.into());
                }
            }
            of_tls => self.write_of_tls(of_tls, out),
        }
    }

    /// When the exchange began, in microseconds since 1970.
    fn began_micros(&self) -> u64 {
        let ago = clock::now().saturating_duration_since(self.exchange.record.began);
        u64::try_from(clock::unix_now().saturating_sub(ago).as_micros()).unwrap_or(u64::MAX)
    }

    /// What the phases that are over have taken, and the one that is not.
    fn micros_so_far(&self) -> u64 {
        let record = &self.exchange.record;
        record.times.total() + clock::now().micros_since(record.accounted)
    }

    /// Looked up only where a template names it: it may take a system call.
    pub(in crate::exchange) fn local_address(&self) -> Option<SocketAddr> {
        self.client.known_destination().or_else(|| self.end.local_address())
    }

    fn write_of_tls(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        let Some(tls) = self.end.tls().map(|tls| tls.record()) else { return };
        out.extend_from_slice(match value {
            TemplateValue::TlsVersion => tls.version.as_bytes(),
            TemplateValue::TlsCipherSuite => tls.cipher_suite.as_bytes(),
            TemplateValue::TlsSession if tls.resumed => b"resumed",
            TemplateValue::TlsSession => b"new",
            TemplateValue::TlsEarlyData if tls.early => b"1",
            TemplateValue::TlsServerName => tls.server_name.as_bytes(),
            TemplateValue::TlsClientSubject => tls.client_subject.as_bytes(),
            TemplateValue::TlsClientFingerprint => tls.client_fingerprint.as_bytes(),
            _ => b"",
        });
    }
}

/// The values of the cookies of a name, in all fields.
pub(in crate::exchange) fn cookies<'a, 'n>(
    exchange: &'a Exchange,
    name: &'n str,
) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    let fields = exchange.request.fields().all(FieldName::Cookie);
    fields.flat_map(|field| cookie_values(field.value.of(&exchange.request_text), name.as_bytes()))
}

/// Writes the path as servers get it, without a rewrite.
pub(in crate::exchange) fn write_path(
    out: &mut Vec<u8>,
    request: &RequestHead,
    text: &[u8],
    listener: &Listener,
) {
    match listener.forwards_encoded_slashes && !request.is_path_normal() {
        true => write_normal_path(out, request.path().of(text), EncodedSlashRule::Keep),
        false => out.extend_from_slice(request.normal_path(text)),
    }
}

/// What the cache did, in the words of nginx.
#[cold]
fn cache_status(exchange: &Exchange) -> Option<&'static str> {
    let forwarded = exchange.cache_use.as_ref().map(|used| used.forwarded);
    Some(match (exchange.record.cache?, forwarded) {
        (CacheResult::Hit | CacheResult::Collapsed, _) => "HIT",
        (CacheResult::Stale, _) => "STALE",
        (CacheResult::Revalidated, _) => "REVALIDATED",
        (CacheResult::Miss, Some(ForwardReason::Stale)) => "EXPIRED",
        (CacheResult::Bypass, _) | (CacheResult::Miss, Some(ForwardReason::Request)) => "BYPASS",
        (CacheResult::Miss, _) => "MISS",
    })
}

/// Appends a path without percent-encoding. What would end a field or a line, or be another path, stays encoded, and so does a space at the end, which
/// no field may have there.
#[cold]
fn decode_path(path: &[u8], out: &mut Vec<u8>) {
    let mut rest = path;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let digits =
            behind.get(..2).filter(|digits| byte == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let decoded = digits.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        let stays = |byte: &u8| {
            byte.is_ascii_control() || b"/\\?#".contains(byte) || *byte == b' ' && behind.len() == 2
        };
        match decoded.filter(|byte| !stays(byte)) {
            Some(decoded) => {
                out.push(decoded);
                rest = &behind[2..];
            }
            None => out.push(byte),
        }
    }
}

fn port(peer: Peer) -> Option<u16> {
    match peer {
        Peer::Inet(address) => Some(address.port()),
        Peer::Unix => None,
    }
}

fn address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    if let Some(address) = address {
        digits::address(out, address);
    }
}

/// Microseconds as seconds with six decimals.
fn seconds(out: &mut Vec<u8>, micros: u64) {
    let (seconds, fraction) = (micros / 1_000_000, micros % 1_000_000);
    digits::decimal(out, seconds);
    out.extend_from_slice(format!(".{fraction:06}").as_bytes());
}

fn number(out: &mut Vec<u8>, number: Option<u16>) {
    if let Some(number) = number {
        digits::decimal(out, number.into());
    }
}

/// Replaces what is not allowed in the value of a header.
fn clean_for_header(value: &mut [u8]) {
    let is_control = |byte: &u8| byte.is_ascii_control() && *byte != b'\t';
    value.iter_mut().filter(|byte| is_control(byte)).for_each(|byte| *byte = b' ');
}

/// Percent-encodes what is not allowed in a URL, from `start` on.
fn clean_for_url(out: &mut Vec<u8>, start: usize) {
    if out[start..].iter().all(|byte| is_of_url(*byte)) {
        return;
    }
    for byte in out.split_off(start) {
        if is_of_url(byte) {
            out.push(byte);
        } else {
            digits::percent_encoded(out, byte);
        }
    }
}

/// Whether a byte is allowed in a URL (RFC 3986 section 2), or is a percent sign, which a value of a URL has.
fn is_of_url(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~:/?#[]@!$&'()*+,;=%".contains(&byte)
}

impl TemplateFacts for TemplateValues<'_> {
    fn count(&self, value: &TemplateValue) -> usize {
        self.count(value)
    }

    fn write_nth(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
        self.write_nth(value, nth, out);
    }

    fn write_first(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        self.write_one(value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decoded_path_has_nothing_that_ends_a_field_or_makes_another_path() {
        for (path, expected) in [
            ("/a%20b/%C3%A4%25", "/a b/\u{e4}%"),
            ("/%0d%0AX:1%00%7F%09", "/%0d%0AX:1%00%7F%09"),
            ("/%2Fb.test/%5c%3F%23", "/%2Fb.test/%5c%3F%23"),
            ("/a%20%20", "/a %20"),
            ("/%2541", "/%41"),
            ("/%zz%4", "/%zz%4"),
            ("", ""),
        ] {
            let mut out = Vec::new();
            decode_path(path.as_bytes(), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{path}");
        }
    }

    #[test]
    fn values_are_cleaned_for_their_place() {
        let value = b"a\r\nb\0\x7f\tc%41/?\xc3\xa9\"";
        let mut of_header = *value;
        clean_for_header(&mut of_header);
        assert_eq!(of_header, *b"a  b  \tc%41/?\xc3\xa9\"");
        // What stands before the value is the text of the template.
        let mut of_url = [&b"\n:"[..], value].concat();
        clean_for_url(&mut of_url, 2);
        assert_eq!(of_url.escape_ascii().to_string(), "\\n:a%0D%0Ab%00%7F%09c%41/?%C3%A9%22");
    }
}
