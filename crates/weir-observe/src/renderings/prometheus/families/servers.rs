//! Families of the servers.

use super::{
    Family, MetricType, Samples, Write, families, level, sum, sums, times, write_classes, write_reasons,
};
use crate::counters::shard::{ProbeShard, ServerShard};
use crate::renderings::prometheus::source::UpstreamPart;
use crate::words::phase::Phase;

/// A counter that is the sum over the workers.
macro_rules! counted {
    ($field:ident) => {
        |samples, upstream, server| {
            samples.value(sum(upstream.server_shards(server).used(), |shard| shard.$field.value()));
        }
    };
}

pub(super) const FAMILIES: &[Family] = families! {
    "weir_server_attempts_total" Counter Server, "Attempts on the server, including retries.", counted!(attempts);
    "weir_server_attempts_open" Gauge Server, "Running attempts.",
        |samples, upstream, server| samples.value(upstream.attempts_open(server));
    "weir_server_retries_total" Counter Server, "Attempts that were retries.", counted!(retries);
    "weir_server_requests_total" Counter Server, "Requests sent to the server.", counted!(requests);
    "weir_server_connects_total" Counter Server, "Connections opened to the server.", counted!(connects);
    "weir_server_connect_errors_total" Counter Server, "Failed attempts to open a connection to the server.", counted!(connect_errors);
    "weir_server_tls_handshakes_total" Counter Server, "Completed TLS handshakes with the server.", counted!(tls_handshakes);
    "weir_server_tls_resumptions_total" Counter Server, "TLS handshakes with the server that resumed a session.", counted!(tls_resumptions);
    "weir_server_reuses_total" Counter Server, "Attempts on a pooled connection.", counted!(reuses);
    "weir_server_stale_reuses_total" Counter Server, "Pooled connections that were stale: closed by the server as they were reused.", counted!(stale_reuses);
    "weir_server_unprocessed_total" Counter Server, "Requests that the server left unprocessed (HTTP/2: REFUSED_STREAM, GOAWAY) and that were sent again.", counted!(unprocessed);
    "weir_server_connections_open" Gauge Server, "Open connections to the server, including idle ones.",
        |samples, upstream, server| {
            let open = level(upstream.server_shards(server).used(), |shard| shard.connections_open.level());
            samples.value(open.now + upstream.idle_shared(server) as i64);
        };
    "weir_server_connections_idle" Gauge Server, "Idle connections to the server in the pool.",
        |samples, upstream, server| {
            let idle = level(upstream.server_shards(server).used(), |shard| shard.connections_idle.level());
            samples.value(idle.now + upstream.idle_shared(server) as i64);
        };
    "weir_server_error_lines_total" Counter Server, "Lines that scripts of the server have written to their error stream (FastCGI).",
        |samples, upstream, server| {
            let lines = sum(upstream.server_shards(server).used(), |shard| shard.error_lines.value());
            if lines > 0 {
                samples.value(lines);
            }
        };
    "weir_server_outlier_failures_total" Counter Server, "Attempts that count as failures of the server for outlier ejection.", counted!(outlier_failures);
    "weir_server_received_bytes_total" Counter Server, "Bytes received from the server.", counted!(bytes_in);
    "weir_server_sent_bytes_total" Counter Server, "Bytes sent to the server.", counted!(bytes_out);
    "weir_server_responses_total" Counter Server, "Responses received from the server, by status class.",
        |samples, upstream, server| {
            if upstream.server_shards(server).is_used() {
                write_classes(samples, sums(upstream.server_shards(server).used(), |shard| shard.responses.values()));
            }
        };
    "weir_server_failures_total" Counter Server, "Failed attempts, by phase.", write_failures;
    "weir_server_response_time_seconds" Histogram Server, "Time from the end of the request to the head of the response.",
        |samples, upstream, server| {
            samples.histogram(&times(upstream.server_shards(server).used(), |shard: &ServerShard| &shard.response_time));
        };
    "weir_server_connect_time_seconds" Histogram Server, "Time to open a connection to the server, including TLS.",
        |samples, upstream, server| {
            samples.histogram(&times(upstream.server_shards(server).used(), |shard: &ServerShard| &shard.connect_time));
        };

    "weir_server_mode" Gauge Server, "Administrative mode of the server as a label; the value is always 1.",
        |samples, upstream, server| samples.labelled(&[("mode", upstream.mode(server))], 1u8);
    "weir_server_up" Gauge Server, "Whether the server is up (1) or down (0) according to health checks.",
        |samples, upstream, server| samples.value(u8::from(upstream.is_up(server)));
    "weir_server_probes_total" Counter Server, "Health checks, by result; a skipped one could not be sent because this machine is out of descriptors, ports or memory.",
        |samples, upstream, server| upstream.probes(server).into_iter().for_each(|probes| write_probes(samples, probes));
    "weir_server_probe_failures_total" Counter Server, "Failed health checks, by reason code and party.",
        |samples, upstream, server| write_reasons(samples, upstream.probes(server).map(|probes| &probes.failures));
    "weir_server_health_changes_total" Counter Server, "Changes between up and down by health checks.",
        |samples, upstream, server| {
            upstream.probes(server).into_iter().for_each(|probes| samples.value(probes.changes.value()));
        };
    "weir_server_probe_time_seconds" Gauge Server, "Duration of the last health check.",
        |samples, upstream, server| {
            let last = |probes: &ProbeShard| u64::try_from(probes.last_micros.value()).unwrap_or(0);
            upstream.probes(server).into_iter().for_each(|probes| samples.seconds(last(probes)));
        };

    "weir_server_ejected" Gauge Server, "Whether the server is ejected as an outlier (1) or not (0).",
        |samples, upstream, server| samples.value(u8::from(upstream.is_ejected(server)));
    "weir_server_ejections_total" Counter Server, "Outlier ejections of the server, by reason.",
        |samples, upstream, server| {
            if upstream.server_shards(server).is_used() {
                for (reason, count) in upstream.ejections(server) {
                    samples.labelled(&[("reason", reason)], count);
                }
            }
        };
};

/// No samples for a server without requests.
fn write_failures(samples: &mut Samples<'_>, upstream: &dyn UpstreamPart, server: usize) {
    if !upstream.server_shards(server).is_used() {
        return;
    }
    let counts = sums(upstream.server_shards(server).used(), |shard| shard.failures.values());
    for phase in [Phase::Connect, Phase::Send, Phase::Response, Phase::Relay] {
        samples.labelled(&[("phase", phase.name())], counts[phase as usize]);
    }
}

fn write_probes(samples: &mut Samples<'_>, probes: &ProbeShard) {
    samples.labelled(&[("result", "passed")], probes.passed.value());
    samples.labelled(&[("result", "failed")], probes.failures.total());
    samples.labelled(&[("result", "skipped")], probes.not_made.value());
}
