//! The line of an exchange in the access log of its route or its listener.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use weir_http::grpc::GrpcStatus;
use weir_http::{FieldName, Framing, ResponseHead, digits};
use weir_observe::access_log::{ExchangeRecord, FieldSource, OpenConnections, UnixMicros};
use weir_traffic::affinity::cookie_value;
use weir_traffic::route::query_value;
use weir_traffic::table::TableCounter;

use crate::exchange::context;
use crate::exchange::exchange_state::client::Client;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::exchange::Exchange;
use crate::exchange::exchange_state::record::Record;
use crate::exchange::exchange_state::response::body_coding::BodyCoding;
use crate::exchange::placeholders::TemplateValues;
use crate::exchange::proxy_values;
use crate::net::clock;
use crate::net::peer::Peer;
use crate::state::log_batches::LogBatches;
use crate::state::snapshot::{ListenerPlan, RoutePlan, Snapshot};
use crate::state::worker_config::WorkerConfig;
use weir_config::{AccessLog, ProxyValue, RouteAccessLog, TemplateValue};

/// Writes the line of an exchange, if its route or its listener logs.
pub(crate) fn write(client: &Client, stream: &impl ClientEnd, exchange: &Exchange, config: &WorkerConfig) {
    let add = |log: &LogBatches| {
        if exchange.record.is_unlogged && log_of(&exchange.record, config).selects() {
            return;
        }
        log.add(|format, text| {
            with_record(client, stream, exchange, config, |record| format.render(record, text));
        });
    };
    if let Some(log) = of_route(&exchange.record, config) {
        return add(log);
    }
    let log = client.listener.log();
    let Some(log) = &*log else { return };
    if exchange.record.failure.is_none() && is_silent(exchange, config) {
        return;
    }
    add(log);
}

/// The log that an exchange has its line in.
pub(in crate::exchange) fn log_of<'a>(record: &Record, config: &'a WorkerConfig) -> &'a AccessLog {
    let listener = &config.snapshot.listeners[record.listener()];
    let own = record.route.and_then(|route| listener.route_plans[route].config.access_log.own());
    own.unwrap_or(&listener.config.access_log)
}

/// Whether an exchange on this route may have a line.
pub(crate) fn is_on(client: &Client, record: &Record, config: &WorkerConfig) -> bool {
    of_route(record, config).is_some() || client.listener.log().is_some()
}

/// The log of the route, if it has one of its own.
#[inline]
fn of_route<'a>(record: &Record, config: &'a WorkerConfig) -> Option<&'a LogBatches> {
    let logs = config.route_logs()?;
    Some(&**logs.of_route(record.listener(), record.route?)?)
}

/// Whether the route wants no lines.
fn is_silent(exchange: &Exchange, config: &WorkerConfig) -> bool {
    let record = &exchange.record;
    let route = |index: usize| &config.snapshot.listeners[record.listener()].route_plans[index];
    let is_off = |index| matches!(route(index).config.access_log, RouteAccessLog::OnlyFailures);
    record.route.is_some_and(is_off)
}

/// The fields of both heads, for formats that name some.
struct Heads<'a> {
    exchange: &'a Exchange,
    route: Option<&'a RoutePlan>,
    client: &'a Client,
    end: &'a dyn ClientEnd,
    listener: &'a ListenerPlan,
    snapshot: &'a Snapshot,
}

impl FieldSource for Heads<'_> {
    fn request_field(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.request_text[..];
        self.exchange.request.fields().get_by_name(text, name).map(|field| field.value.of(text))
    }

    fn response_field(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.response_text[..];
        let response: &ResponseHead = &self.exchange.response;
        response.fields().get_by_name(text, name).map(|field| field.value.of(text))
    }

    fn cookie(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.request_text[..];
        let mut fields = self.exchange.request.fields().all(FieldName::Cookie);
        fields.find_map(|field| cookie_value(field.value.of(text), name.as_bytes()))
    }

    fn query_parameter(&self, name: &str) -> Option<&[u8]> {
        let text = &self.exchange.request_text[..];
        query_value(self.exchange.request.query()?.of(text), name.as_bytes())
    }

    fn claim(&self, name: &str) -> Option<&[u8]> {
        self.exchange.claim(name)
    }

    fn match_group(&self, name: &str) -> Option<&[u8]> {
        let path = self.exchange.request.normal_path(&self.exchange.request_text);
        self.route?.config.matches.path.group(path, name)
    }

    fn write_named(&self, name: &str, out: &mut Vec<u8>) {
        if let Some(value) = ProxyValue::of_placeholder(name) {
            return proxy_values::write(self.client, value, out);
        }
        // A request whose head could not be read has no values.
        if self.exchange.request_text.is_empty() {
            return;
        }
        let Self { exchange, route, client, end, listener, snapshot } = *self;
        let values = TemplateValues::of_record(client, end, exchange, (snapshot, listener), route);
        if let Some(variable) = name.strip_prefix("vars.") {
            values.variable(variable).iter().for_each(|text| text.write_first(&values, out));
        } else if let Some(map) = name.strip_prefix("map.").and_then(|name| self.snapshot.map(name)) {
            map.map().iter().for_each(|map| map.write(&values, 0, out));
        } else if let Some((table, counter)) =
            name.strip_prefix("table.").and_then(|name| name.rsplit_once('.'))
        {
            let counter = TableCounter::from_name(counter);
            let count = counter.and_then(|counter| values.counter(table, counter));
            count.iter().for_each(|count| digits::decimal(out, *count));
        } else if let Some(value) = plain_value(name) {
            values.write_one(&value, out);
        }
    }
}

/// A value without parameters that is not part of the record.
fn plain_value(name: &str) -> Option<TemplateValue> {
    Some(match name {
        "path|decode" => TemplateValue::DecodedPath,
        "servers" => TemplateValue::Servers,
        "servers.status" => TemplateValue::ServersStatus,
        "servers.seconds" => TemplateValue::ServersSeconds,
        "cache.status" => TemplateValue::CacheStatus,
        _ => return None,
    })
}

fn with_record(
    client: &Client,
    stream: &impl ClientEnd,
    exchange: &Exchange,
    config: &WorkerConfig,
    render: impl FnOnce(&ExchangeRecord<'_>),
) {
    let snapshot = &config.snapshot;
    let record = &exchange.record;
    let (request, text) = (&exchange.request, &exchange.request_text[..]);
    let listener = &snapshot.listeners[record.listener()];
    let upstream =
        record.upstream.zip(record.served()).map(|(index, served)| &served.snapshot.upstreams[index]);
    let server = upstream.zip(record.server).map(|(upstream, index)| &*upstream.config.servers[index].name);
    let route = record.route.map(|index| &listener.route_plans[index]);
    // A request whose head could not be read has nothing to show but what its failure says.
    let whole = !text.is_empty();
    let ago = clock::now().saturating_duration_since(record.began);
    let began = clock::unix_now().saturating_sub(ago);
    let trace_id = record.trace.id_digits();
    let head = |span: weir_http::TextSpan| if whole { span.of(text) } else { &[] };
    let of_bodies = || (record.body_in, exchange.response_relay.moved);
    let moved = record.tunnelled.as_ref().map_or_else(of_bodies, |bytes| bytes.moved);
    render(&ExchangeRecord {
        time: UnixMicros(u64::try_from(began.as_micros()).unwrap_or(u64::MAX)),
        listener: &listener.config.name,
        client: shown_client(client, exchange, listener),
        peer: address(client.sender()),
        local: client.known_destination(),
        exchange_number: client.requests,
        method: head(request.method_span()),
        target: if whole { exchange.received_target() } else { b"" },
        version: if whole { request.version().as_str().as_bytes() } else { b"" },
        path: head(request.path()),
        scheme: if client.is_tls { "https" } else { "http" },
        authority: if whole { request.authority().of(text) } else { b"" },
        host: if whole { request.host().of(text) } else { b"" },
        request_id: &record.request_id,
        trace_id: trace_id.as_ref().map_or(b"", |digits| digits.as_slice()),
        user: exchange.user(),
        auth: exchange.authorization.as_ref().and_then(|granted| granted.auth),
        cache: record.cache,
        cache_reason: record.cache_detail,
        fields: &Heads { exchange, route, client, end: stream, listener, snapshot },
        status: (record.status != 0).then_some(record.status),
        grpc_status: exchange.grpc_status().map(GrpcStatus::name),
        failure: record.failure,
        bytes_in: record.bytes_in,
        bytes_out: record.bytes_out,
        body_bytes_in: moved.0,
        body_bytes_out: moved.1,
        compression: exchange.body_coding.word(),
        body_bytes_uncompressed: matches!(exchange.body_coding, BodyCoding::Compressed(_))
            .then(|| exchange.response_relay.taken()),
        route: route.map_or("", |route| &route.config.name),
        upstream: upstream.map_or("", |upstream| &upstream.config.name),
        server: server.unwrap_or(""),
        attempts: record.attempts,
        reused: (record.attempts > 0).then_some(record.reused),
        tag: &exchange.limits.tag,
        limit: exchange.limits.name(),
        queue_position: record.queue_position,
        content_length: content_length(exchange),
        kept: record.affinity,
        tls: stream.tls().map(|tls| tls.record()),
        ended_by: record.ended_by,
        phases: record.times,
        load: load(client, exchange),
    });
}

fn address(peer: Peer) -> Option<SocketAddr> {
    match peer {
        Peer::Inet(addr) => Some(addr),
        Peer::Unix => None,
    }
}

/// The client, as far as its request could be read.
fn shown_client(client: &Client, exchange: &Exchange, listener: &ListenerPlan) -> Option<SocketAddr> {
    address(client.peer).map(|peer| match exchange.request_text.is_empty() {
        false => (context::find_client_address(client, exchange, listener), peer.port()).into(),
        true => peer,
    })
}

/// The length of the body that the client announces.
fn content_length(exchange: &Exchange) -> Option<u64> {
    match exchange.request.body() {
        Framing::Length(length) if !exchange.request_text.is_empty() => Some(length),
        _ => None,
    }
}

fn load(client: &Client, exchange: &Exchange) -> OpenConnections {
    let shared = &client.worker.shared;
    let process = shared.loads.iter().map(|load| load.0.load(Ordering::Relaxed)).sum();
    let listener = client.listener.state.connections.count();
    let served = exchange.record.upstream.zip(exchange.record.served());
    let states =
        served.map_or(&[][..], |(index, served)| served.snapshot.upstreams[index].balancer().states());
    OpenConnections {
        process,
        listener,
        upstream: states.iter().map(|state| state.in_flight()).sum(),
        server: exchange
            .record
            .server
            .and_then(|index| states.get(index))
            .map_or(0, |state| state.in_flight()),
    }
}
