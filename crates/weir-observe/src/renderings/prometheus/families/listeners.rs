//! Families of the listeners and of their routes.

use super::{Family, MetricType, Samples, Write, families, level, sum, sums, write_classes, write_reasons};
use crate::counters::counter::Counter;
use crate::counters::per_worker::PerWorker;
use crate::counters::shard::{MirrorShard, RouteShard, TLS_VERSIONS};
use crate::renderings::prometheus::source::ListenerPart;

pub(super) const FAMILIES: &[Family] = families! {
    "weir_listener_connections_total" Counter Listener, "Client connections accepted.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.connections.value()));
    "weir_listener_connections_open" Gauge Listener, "Client connections open.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.connections_open.level()).now);
    "weir_listener_connections_peak" Gauge Listener, "Peak of open client connections: the sum of the peaks of all workers, an upper bound.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.connections_open.level()).peak);
    "weir_listener_proxy_headers_total" Counter Listener, "Client connections with a valid PROXY protocol header.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.proxy_headers.value()));
    "weir_listener_requests_total" Counter Listener, "Requests received.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.requests.value()));
    "weir_listener_received_bytes_total" Counter Listener, "Bytes received from clients.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.bytes_in.value()));
    "weir_listener_sent_bytes_total" Counter Listener, "Bytes sent to clients.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.bytes_out.value()));
    "weir_listener_tunnels_total" Counter Listener, "Tunnels opened: upgrades, and connections of TCP listeners.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.tunnels.value()));
    "weir_listener_tunnels_open" Gauge Listener, "Tunnels open.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.tunnels_open.level()).now);
    "weir_listener_tunnels_peak" Gauge Listener, "Peak of open tunnels: the sum of the peaks of all workers, an upper bound.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.tunnels_open.level()).peak);
    "weir_listener_http2_connections_total" Counter Listener, "Client connections that spoke HTTP/2.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http2_connections.value()));
    "weir_listener_http2_connections_open" Gauge Listener, "Client connections open that speak HTTP/2.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.http2_connections_open.level()).now);
    "weir_listener_http3_connections_total" Counter Listener, "Client connections that spoke HTTP/3.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_connections.value()));
    "weir_listener_http3_connections_open" Gauge Listener, "Client connections open that speak HTTP/3.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.http3_connections_open.level()).now);
    "weir_listener_http3_early_requests_total" Counter Listener, "Requests of HTTP/3 that began before the handshake of their connection was over (0-RTT).",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_early_requests.value()));
    "weir_listener_http3_migrations_total" Counter Listener, "Moves of HTTP/3 connections to another address or port of their client.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_migrations.value()));
    "weir_listener_http3_sent_packets_total" Counter Listener, "Packets sent on HTTP/3 connections. Counted when a connection ends.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_packets.value()));
    "weir_listener_http3_lost_packets_total" Counter Listener, "Those of them that were lost. Counted when a connection ends.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_packets_lost.value()));
    "weir_listener_http3_ended_round_trip_seconds_total" Counter Listener, "Round-trip times of HTTP/3 connections at their end, added up: divided by `weir_listener_http3_ended_total`, the mean.",
        |samples, listener| samples.seconds(sum(listener.shards(), |shard| shard.http3_round_trips[1].value()));
    "weir_listener_http3_ended_total" Counter Listener, "HTTP/3 connections that have ended.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http3_round_trips[0].value()));
    "weir_listener_streams_total" Counter Listener, "Streams of HTTP/2 begun: each is a request.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.streams.value()));
    "weir_listener_streams_open" Gauge Listener, "Streams of HTTP/2 open.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.streams_open.level()).now);
    "weir_listener_streams_peak" Gauge Listener, "Peak of open streams of HTTP/2: the sum of the peaks of all workers, an upper bound.",
        |samples, listener| samples.value(level(listener.shards(), |shard| shard.streams_open.level()).peak);
    "weir_listener_streams_reset_total" Counter Listener, "Streams of HTTP/2 that clients have reset.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.streams_reset.value()));
    "weir_listener_streams_refused_total" Counter Listener, "Streams of HTTP/2 refused because the connection had as many as it may.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.streams_refused.value()));
    "weir_listener_streams_reset_by_weir_total" Counter Listener, "Streams of HTTP/2 that Weir has reset: after a fault of the client, a response that broke off, or an answer to part of a request. Refused streams count as well.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.streams_reset_by_weir.value()));
    "weir_listener_http2_goaways_total" Counter Listener, "Client connections of HTTP/2 that Weir has ended by GOAWAY, for any reason.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.http2_goaways.value()));
    "weir_listener_error_page_fetches_total" Counter Listener, "Error pages that were to be fetched from servers (`upstream` of `error_pages`).",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.error_pages_fetched.value()));
    "weir_listener_error_page_fetch_failures_total" Counter Listener, "Error pages that could not be fetched: clients got another one.",
        |samples, listener| samples.value(sum(listener.shards(), |shard| shard.error_pages_failed.value()));
    "weir_listener_responses_total" Counter Listener, "Responses sent to clients, by status class.",
        |samples, listener| write_classes(samples, sums(listener.shards(), |shard| shard.responses.values()));
    "weir_listener_tls_handshakes_total" Counter Listener, "Completed TLS handshakes with clients, by version and session resumption.",
        write_handshakes;
    "weir_listener_certificate_expiry_timestamp_seconds" Gauge Listener, "Expiry of a certificate in use, in seconds since 1970.",
        |samples, listener| {
            for certificate in listener.certificates() {
                samples.named("certificate", &certificate.file, certificate.expiry_seconds);
            }
        };
    "weir_listener_certificate_reloads_total" Counter Listener, "Reloads of changed certificate files, by outcome.",
        |samples, listener| {
            if listener.certificates().is_empty() {
                return;
            }
            for (outcome, count) in ["loaded", "failed"].into_iter().zip(listener.certificate_reloads()) {
                samples.labelled(&[("outcome", outcome)], count);
            }
        };
    "weir_listener_crl_expiry_timestamp_seconds" Gauge Listener, "Earliest expiry of the CRLs in a file, in seconds since 1970.",
        |samples, listener| {
            if let Some(lists) = listener.revocations() {
                samples.named("crl", &lists.file, lists.expiry_seconds);
            }
        };
    "weir_listener_failures_total" Counter Listener, "Failed exchanges, by reason code and party.",
        |samples, listener| write_reasons(samples, listener.shards().iter().map(|shard| &shard.failures));
};

pub(super) const ROUTE_FAMILIES: &[Family] = families! {
    "weir_route_requests_total" Counter Route, "Requests, and connections of TCP listeners, that matched the route.",
        |samples, shards| samples.value(sum(shards.used(), |shard| shard.requests.value()));
    "weir_route_failures_total" Counter Route, "Failed requests and connections of the route.",
        |samples, shards| samples.value(sum(shards.used(), |shard| shard.failures.value()));
    "weir_route_responses_total" Counter Route, "Responses to requests of the route, by status class.",
        |samples, shards| {
            if sum(shards.used(), |shard| shard.requests.value()) > 0 {
                write_classes(samples, sums(shards.used(), |shard| shard.responses.values()));
            }
        };
    "weir_route_mirror_requests_total" Counter Route, "Copies of requests sent to the mirror of the route.",
        |samples, shards| mirrored(samples, shards, |mirror| mirror.requests.value());
    "weir_route_mirror_failures_total" Counter Route, "Copies without a whole response.",
        |samples, shards| mirrored(samples, shards, |mirror| mirror.failures.value());
    "weir_route_mirror_skipped_total" Counter Route, "Requests not copied, by reason: the body was longer than `body_max` or not sent whole, or too many copies ran.",
        |samples, shards| {
            for (reason, counter) in MIRROR_SKIPPED {
                let count = sum(shards.used(), |shard| counter(&shard.mirror).value());
                if count > 0 {
                    samples.labelled(&[("reason", reason)], count);
                }
            }
        };
    "weir_route_mirror_compared_total" Counter Route, "Responses of the mirror compared with the real ones.",
        |samples, shards| mirrored(samples, shards, |mirror| mirror.compared.value());
    "weir_route_mirror_differences_total" Counter Route, "Compared responses that differ, by what differs.",
        |samples, shards| {
            let counts = sums(shards.used(), |shard| shard.mirror.differences.each_ref().map(Counter::value));
            if sum(shards.used(), |shard| shard.mirror.compared.value()) > 0 {
                for (what, count) in ["status", "headers", "body"].into_iter().zip(counts) {
                    samples.labelled(&[("what", what)], count);
                }
            }
        };
};

type MirrorCounter = fn(&MirrorShard) -> &Counter;

/// Why requests are not copied.
const MIRROR_SKIPPED: [(&str, MirrorCounter); 2] =
    [("body-too-long", |mirror| &mirror.too_long), ("busy", |mirror| &mirror.busy)];

/// A counter of the mirror of a route, if there is one.
fn mirrored(samples: &mut Samples<'_>, shards: &PerWorker<RouteShard>, count: impl Fn(&MirrorShard) -> u64) {
    let total = sum(shards.used(), |shard| count(&shard.mirror));
    if total > 0 {
        samples.value(total);
    }
}

/// Only for listeners with a handshake: the others would have four samples of zero.
fn write_handshakes(samples: &mut Samples<'_>, listener: &dyn ListenerPart) {
    let handshakes = |version: usize| {
        sums(listener.shards(), |shard| [0, 1].map(|resumed| shard.tls_handshakes[version][resumed].value()))
    };
    let counts: [[u64; 2]; TLS_VERSIONS.len()] = std::array::from_fn(handshakes);
    if counts.as_flattened().iter().all(|count| *count == 0) {
        return;
    }
    for (version, counts) in TLS_VERSIONS.into_iter().zip(counts) {
        for (resumed, count) in ["no", "yes"].into_iter().zip(counts) {
            samples.labelled(&[("version", version), ("resumed", resumed)], count);
        }
    }
}
