//! Families of the servers.

use super::{
    Family, MetricType, Samples, Write, families, level, sum, sums, times, write_classes, write_reasons,
};
use crate::phase::Phase;
use crate::prometheus::source::UpstreamPart;
use crate::shard::{ProbeShard, ServerShard};

/// A counter that is the sum over the workers.
macro_rules! counted {
    ($field:ident) => {
        |samples, upstream, server| {
            samples.value(sum(upstream.server_shards(server).used(), |shard| shard.$field.value()));
        }
    };
}

pub(super) const FAMILIES: &[Family] = families! {
    "weir_server_attempts_total" Counter Server, "Exchanges that chose the server, retries included.", counted!(attempts);
    "weir_server_attempts_open" Gauge Server, "Attempts that run.",
        |samples, upstream, server| samples.value(upstream.attempts_open(server));
    "weir_server_retries_total" Counter Server, "Attempts that were retries.", counted!(retries);
    "weir_server_requests_total" Counter Server, "Requests sent to the server.", counted!(requests);
    "weir_server_connects_total" Counter Server, "Connections opened to the server.", counted!(connects);
    "weir_server_connect_errors_total" Counter Server, "Connections to the server that could not be opened.", counted!(connect_errors);
    "weir_server_tls_handshakes_total" Counter Server, "TLS handshakes with the server that were completed.", counted!(tls_handshakes);
    "weir_server_tls_resumptions_total" Counter Server, "TLS handshakes with the server that went on with an earlier session.", counted!(tls_resumptions);
    "weir_server_reuses_total" Counter Server, "Attempts that reused an idle connection.", counted!(reuses);
    "weir_server_stale_reuses_total" Counter Server, "Reused connections that turned out to be dead.", counted!(stale_reuses);
    "weir_server_connections_open" Gauge Server, "Connections to the server, idle ones included.",
        |samples, upstream, server| {
            let open = level(upstream.server_shards(server).used(), |shard| shard.connections_open.level());
            samples.value(open.now + upstream.idle_shared(server) as i64);
        };
    "weir_server_connections_idle" Gauge Server, "Idle connections to the server.",
        |samples, upstream, server| {
            let idle = level(upstream.server_shards(server).used(), |shard| shard.connections_idle.level());
            samples.value(idle.now + upstream.idle_shared(server) as i64);
        };
    "weir_server_outlier_failures_total" Counter Server, "Attempts that failed by the doing of the server, as ejection counts them.", counted!(outlier_failures);
    "weir_server_received_bytes_total" Counter Server, "Bytes received from the server.", counted!(bytes_in);
    "weir_server_sent_bytes_total" Counter Server, "Bytes sent to the server.", counted!(bytes_out);
    "weir_server_responses_total" Counter Server, "Responses received from the server, by class of status.",
        |samples, upstream, server| {
            if upstream.server_shards(server).is_used() {
                write_classes(samples, sums(upstream.server_shards(server).used(), |shard| shard.responses.values()));
            }
        };
    "weir_server_failures_total" Counter Server, "Attempts that failed, by phase.", write_failures;
    "weir_server_response_time_seconds" Histogram Server, "Time from the request sent to the head of the response.",
        |samples, upstream, server| {
            samples.histogram(&times(upstream.server_shards(server).used(), |shard: &ServerShard| &shard.response_time));
        };
    "weir_server_connect_time_seconds" Histogram Server, "Time to open a connection to the server, TLS included.",
        |samples, upstream, server| {
            samples.histogram(&times(upstream.server_shards(server).used(), |shard: &ServerShard| &shard.connect_time));
        };

    "weir_server_mode" Gauge Server, "What the operator wants of the server; 1 with the mode as a label.",
        |samples, upstream, server| samples.labelled(&[("mode", upstream.mode(server))], 1u8);
    "weir_server_up" Gauge Server, "Whether the server is up (1) or down (0) by its health checks.",
        |samples, upstream, server| samples.value(u8::from(upstream.is_up(server)));
    "weir_server_probes_total" Counter Server, "Probes of the health check, by result; one that was not made, for want of something on this machine, says nothing about the server.",
        |samples, upstream, server| upstream.probes(server).into_iter().for_each(|probes| write_probes(samples, probes));
    "weir_server_probe_failures_total" Counter Server, "Probes of the health check that failed, by reason code and party.",
        |samples, upstream, server| write_reasons(samples, upstream.probes(server).map(|probes| &probes.failures));
    "weir_server_health_changes_total" Counter Server, "Times that the health check changed whether the server is up.",
        |samples, upstream, server| {
            upstream.probes(server).into_iter().for_each(|probes| samples.value(probes.changes.value()));
        };
    "weir_server_probe_time_seconds" Gauge Server, "Duration of the last probe of the health check.",
        |samples, upstream, server| {
            let last = |probes: &ProbeShard| u64::try_from(probes.last_micros.value()).unwrap_or(0);
            upstream.probes(server).into_iter().for_each(|probes| samples.seconds(last(probes)));
        };

    "weir_server_ejected" Gauge Server, "Whether the server gets no requests (1) because some failed on it.",
        |samples, upstream, server| samples.value(u8::from(upstream.is_ejected(server)));
    "weir_server_ejections_total" Counter Server, "Times that the server was ejected, by reason.",
        |samples, upstream, server| {
            if upstream.server_shards(server).is_used() {
                for (reason, count) in upstream.ejections(server) {
                    samples.labelled(&[("reason", reason)], count);
                }
            }
        };
};

/// Nothing for a server that never had a request: it has no samples of how attempts ended.
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
