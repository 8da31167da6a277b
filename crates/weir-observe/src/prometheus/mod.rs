//! [`Figures`] in the text format 0.0.4 of Prometheus.
//!
//! Names follow its conventions: `weir_` first, the base unit last, `_total` on counters. Cardinality is bounded by the
//! config: names of listeners, upstreams and servers, and closed sets (classes, phases, reasons); nothing that a peer sends
//! becomes a label. All samples of a family stand together, so each list is walked once per family.

#[cfg(test)]
mod tests;

use crate::admin::{AdminFigures, AdminRefusal};
use crate::counter::Level;
use crate::figures::{
    FailureFigures, Figures, ListenerFigures, ProbeFigures, ProcessFigures, ReloadFigures, RouteFigures,
    ServerFigures, UpstreamFigures, WorkerFigures,
};
use crate::histogram::HistogramSnapshot;
use crate::kept::Kept;
use crate::phase::Phase;
use crate::retries::{RETRY_CAUSES, RETRY_REFUSALS};
use crate::shard::TLS_VERSIONS;
use crate::traces::{TraceFigures, TraceLoss};

/// The value of the `Content-Type` field.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the exported buckets: 2^7 µs (128 µs) to 2^25 µs (33.6 s), each twice the one before.
const BUCKET_POWERS: std::ops::RangeInclusive<u32> = 7..=25;

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// A family with one sample per element of a list.
struct Simple<T> {
    name: &'static str,
    help: &'static str,
    value: Value<T>,
}

/// Where the value of a sample is found, which is also what kind of family it is.
enum Value<T> {
    Counter(fn(&T) -> u64),
    Gauge(fn(&T) -> Level),
    /// The highest value of a gauge.
    Peak(fn(&T) -> Level),
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// Appends all figures.
pub fn render(figures: &Figures, out: &mut String) {
    write_family(out, "weir_build_info", Kind::Gauge, "Version of Weir; the value is always 1.");
    write_sample(out, "weir_build_info", concat!("version=\"", env!("CARGO_PKG_VERSION"), "\""), &[], 1u8);
    render_process(&figures.process, out);
    render_reload(&figures.reload, out);
    render_admin(&figures.admin, out);
    render_traces(&figures.traces, out);
    render_own_log(figures.own_log_lines_dropped, out);
    render_workers(&figures.workers, out);
    render_listeners(&figures.listeners, out);
    render_routes(&figures.listeners, out);
    render_upstreams(&figures.upstreams, out);
    render_servers(&figures.upstreams, out);
}

fn render_reload(reload: &ReloadFigures, out: &mut String) {
    let name = "weir_config_reloads_total";
    write_family(out, name, Kind::Counter, "Reloads of the config, by outcome.");
    write_sample(out, name, "outcome=\"succeeded\"", &[], reload.succeeded);
    write_sample(out, name, "outcome=\"failed\"", &[], reload.failed);
    for (name, help, value) in [
        (
            "weir_config_last_reload_success",
            "Whether the last reload was taken over (1) or refused (0); 1 before the first.",
            u64::from(reload.last_succeeded),
        ),
        (
            "weir_config_since_timestamp_seconds",
            "When the config in use was taken over, in seconds since 1970.",
            reload.since_seconds,
        ),
        (
            "weir_config_generation",
            "Which config is in use: 1 is that of the start, and each reload adds one.",
            reload.generation,
        ),
        (
            "weir_config_snapshots",
            "Configs that something still runs on, the one in use included.",
            reload.snapshots,
        ),
    ] {
        write_family(out, name, Kind::Gauge, help);
        write_sample(out, name, "", &[], value);
    }
}

/// What every client library of Prometheus tells of its process, under the names that dashboards know.
fn render_process(process: &ProcessFigures, out: &mut String) {
    for (name, kind, help, micros) in [
        (
            "process_cpu_seconds_total",
            Kind::Counter,
            "CPU time of the process, user and system.",
            process.cpu_micros,
        ),
        (
            "process_start_time_seconds",
            Kind::Gauge,
            "When the process was started, in seconds since 1970.",
            process.started_micros,
        ),
    ] {
        write_family(out, name, kind, help);
        write_labels(out, name, "", &[]);
        write_seconds(out, micros);
    }
    for (name, help, value) in [
        ("process_open_fds", "Open file descriptors.", Some(process.open_fds)),
        ("process_max_fds", "How many file descriptors may be open.", process.max_fds),
        ("process_resident_memory_bytes", "Memory in use.", Some(process.resident_bytes)),
        ("process_virtual_memory_bytes", "Address space in use.", Some(process.virtual_bytes)),
    ] {
        let Some(value) = value else { continue };
        write_family(out, name, Kind::Gauge, help);
        write_sample(out, name, "", &[], value);
    }
}

fn render_admin(admin: &AdminFigures, out: &mut String) {
    let name = "weir_admin_requests_total";
    write_family(out, name, Kind::Counter, "Requests to the admin listener that were answered as asked.");
    write_sample(out, name, "", &[], admin.requests);
    let name = "weir_admin_refusals_total";
    let help = "Requests and connections that the admin listener refused, by reason.";
    write_family(out, name, Kind::Counter, help);
    for (refusal, count) in AdminRefusal::ALL.into_iter().zip(admin.refusals) {
        let label = format!("reason=\"{}\"", refusal.name());
        write_sample(out, name, &label, &[], count);
    }
}

fn render_traces(traces: &TraceFigures, out: &mut String) {
    let name = "weir_trace_spans_exported_total";
    write_family(out, name, Kind::Counter, "Spans that the collector took.");
    write_sample(out, name, "", &[], traces.spans_exported);
    let name = "weir_trace_spans_dropped_total";
    write_family(out, name, Kind::Counter, "Spans that did not reach the collector, by reason.");
    for (loss, count) in TraceLoss::ALL.into_iter().zip(traces.spans_dropped) {
        write_sample(out, name, &format!("reason=\"{}\"", loss.name()), &[], count);
    }
    let name = "weir_trace_exports_failed_total";
    write_family(out, name, Kind::Counter, "Requests to the collector that failed, repeated ones included.");
    write_sample(out, name, "", &[], traces.exports_failed);
}

fn render_own_log(lines_dropped: u64, out: &mut String) {
    let name = "weir_log_lines_dropped_total";
    let help = "Lines of Weir's own log dropped because standard error was not read fast enough.";
    write_family(out, name, Kind::Counter, help);
    write_sample(out, name, "", &[], lines_dropped);
}

fn render_workers(workers: &[WorkerFigures], out: &mut String) {
    let rows: Vec<(String, &WorkerFigures)> =
        workers.iter().enumerate().map(|(index, worker)| (format!("worker=\"{index}\""), worker)).collect();
    for simple in WORKER {
        write_simple(out, simple, &rows);
    }
    let name = "weir_worker_sessions_handed_over_total";
    write_family(out, name, Kind::Counter, "Sessions handed over between workers, by direction.");
    for (labels, worker) in &rows {
        write_sample(out, name, labels, &[("direction", "in")], worker.sessions_handed_in);
        write_sample(out, name, labels, &[("direction", "out")], worker.sessions_handed_out);
    }
}

fn render_listeners(listeners: &[ListenerFigures], out: &mut String) {
    let rows: Vec<(String, &ListenerFigures)> =
        listeners.iter().map(|listener| (label("listener", &listener.name), listener)).collect();
    for simple in LISTENER {
        write_simple(out, simple, &rows);
    }
    let help = "Responses sent to clients, by class of status.";
    write_classes(out, "weir_listener_responses_total", help, &rows, |listener| &listener.responses);
    write_handshakes(out, &rows);
    write_certificates(out, &rows);
    write_revocations(out, &rows);
    let help = "Exchanges that ended badly, by reason code and party.";
    write_reasons(out, "weir_listener_failures_total", help, &rows, |listener| &listener.failures);
}

fn render_routes(listeners: &[ListenerFigures], out: &mut String) {
    let mut rows: Vec<(String, &RouteFigures)> = Vec::new();
    for listener in listeners {
        let listener_label = label("listener", &listener.name);
        for route in &listener.routes {
            rows.push((format!("{listener_label},{}", label("route", &route.name)), route));
        }
    }
    for simple in ROUTE {
        write_simple(out, simple, &rows);
    }
    let help = "Responses to requests that the route took, by class of status.";
    write_classes(out, "weir_route_responses_total", help, &rows, |route| &route.responses);
}

/// Only listeners that have seen any: the others would show four zeros each.
fn write_handshakes(out: &mut String, listeners: &[(String, &ListenerFigures)]) {
    let name = "weir_listener_tls_handshakes_total";
    let help =
        "TLS handshakes with clients that were completed, by version and whether a session was resumed.";
    write_family(out, name, Kind::Counter, help);
    for (labels, listener) in listeners.iter().filter(|(_, listener)| listener.tls_handshakes != [[0; 2]; 2])
    {
        for (version, counts) in TLS_VERSIONS.into_iter().zip(listener.tls_handshakes) {
            for (resumed, count) in ["no", "yes"].into_iter().zip(counts) {
                write_sample(out, name, labels, &[("version", version), ("resumed", resumed)], count);
            }
        }
    }
}

/// Only listeners with certificates.
fn write_certificates(out: &mut String, listeners: &[(String, &ListenerFigures)]) {
    let name = "weir_listener_certificate_expiry_timestamp_seconds";
    write_family(out, name, Kind::Gauge, "Until when a certificate in use is valid, in seconds since 1970.");
    let rows = || listeners.iter().filter(|(_, listener)| !listener.certificates.is_empty());
    for (labels, listener) in rows() {
        for certificate in &listener.certificates {
            let labels = format!("{labels},{}", label("certificate", &certificate.file));
            write_sample(out, name, &labels, &[], certificate.expiry_seconds);
        }
    }
    let name = "weir_listener_certificate_reloads_total";
    let help =
        "Files of certificates that had changed, by whether they were taken over or could not be used.";
    write_family(out, name, Kind::Counter, help);
    for (labels, listener) in rows() {
        for (outcome, count) in ["loaded", "failed"].into_iter().zip(listener.certificate_reloads) {
            write_sample(out, name, labels, &[("outcome", outcome)], count);
        }
    }
}

/// Only listeners with lists of revoked certificates.
fn write_revocations(out: &mut String, listeners: &[(String, &ListenerFigures)]) {
    let name = "weir_listener_crl_expiry_timestamp_seconds";
    let help =
        "When the first of the lists of revoked certificates in a file is outdated, in seconds since 1970.";
    write_family(out, name, Kind::Gauge, help);
    for (labels, listener) in listeners {
        if let Some(lists) = &listener.revocations {
            let labels = format!("{labels},{}", label("crl", &lists.file));
            write_sample(out, name, &labels, &[], lists.expiry_seconds);
        }
    }
}

fn render_upstreams(upstreams: &[UpstreamFigures], out: &mut String) {
    let rows: Vec<(String, &UpstreamFigures)> =
        upstreams.iter().map(|upstream| (label("upstream", &upstream.name), upstream)).collect();
    for simple in UPSTREAM {
        write_simple(out, simple, &rows);
    }
    let name = "weir_upstream_panic";
    let help = "Whether all servers get requests because too few are usable (1) or not (0).";
    write_family(out, name, Kind::Gauge, help);
    for (labels, upstream) in &rows {
        write_sample(out, name, labels, &[], u8::from(upstream.in_panic));
    }
    let help = "Responses that clients received from the upstream, by class of status.";
    write_classes(out, "weir_upstream_responses_total", help, &rows, |upstream| &upstream.responses);
    write_statuses(out, &rows);
    let help = "Exchanges of the upstream that ended badly, by reason code and party.";
    write_reasons(out, "weir_upstream_failures_total", help, &rows, |upstream| &upstream.failures);
    write_retries(out, &rows);
    write_persistence(out, &rows);
    let help = "Time that exchanges waited for a server, of those that waited.";
    write_histogram(out, "weir_upstream_queue_time_seconds", help, &rows, |upstream| &upstream.queue_time);
    let help = "Time from the first byte of the request to the last of the response, of exchanges that were answered.";
    let name = "weir_upstream_exchange_time_seconds";
    write_histogram(out, name, help, &rows, |upstream| &upstream.exchange_time);
}

/// Only statuses that occurred: an upstream has a dozen of them, of 500 that are possible.
fn write_statuses(out: &mut String, upstreams: &[(String, &UpstreamFigures)]) {
    let name = "weir_upstream_status_responses_total";
    let help =
        "Responses that clients received from the upstream, by status; one outside 100 to 599 counts as 599.";
    write_family(out, name, Kind::Counter, help);
    for (labels, upstream) in upstreams {
        for (status, count) in &upstream.statuses {
            write_sample(out, name, labels, &[("status", itoa::Buffer::new().format(*status))], *count);
        }
    }
}

fn write_retries(out: &mut String, upstreams: &[(String, &UpstreamFigures)]) {
    let name = "weir_upstream_retries_total";
    let help = "Attempts beyond the first of an exchange, by how the one before had failed.";
    write_family(out, name, Kind::Counter, help);
    for (labels, upstream) in upstreams {
        for (cause, count) in RETRY_CAUSES.into_iter().zip(upstream.retries) {
            write_sample(out, name, labels, &[("cause", cause)], count);
        }
    }
    let name = "weir_upstream_retries_refused_total";
    write_family(out, name, Kind::Counter, "Failed attempts that were not repeated, by what was against it.");
    for (labels, upstream) in upstreams {
        for (reason, count) in RETRY_REFUSALS.into_iter().zip(upstream.retries_refused) {
            write_sample(out, name, labels, &[("reason", reason)], count);
        }
    }
}

/// Only upstreams that have it: the others would show three zeros each.
fn write_persistence(out: &mut String, upstreams: &[(String, &UpstreamFigures)]) {
    let name = "weir_upstream_persistence_total";
    let help = "Responses under persistence, by whether the client was kept on its server, moved to another, or came new.";
    write_family(out, name, Kind::Counter, help);
    for (labels, upstream) in upstreams.iter().filter(|(_, upstream)| upstream.persistence != [0; 3]) {
        for (kept, count) in Kept::ALL.into_iter().zip(upstream.persistence) {
            write_sample(out, name, labels, &[("outcome", kept.name())], count);
        }
    }
}

fn render_servers(upstreams: &[UpstreamFigures], out: &mut String) {
    let mut rows: Vec<(String, &ServerFigures)> = Vec::new();
    for upstream in upstreams {
        let upstream_label = label("upstream", &upstream.name);
        for server in &upstream.servers {
            rows.push((format!("{upstream_label},{}", label("server", &server.name)), server));
        }
    }
    for simple in SERVER {
        write_simple(out, simple, &rows);
    }
    let help = "Responses received from the server, by class of status.";
    write_classes(out, "weir_server_responses_total", help, &rows, |server| &server.responses);
    let name = "weir_server_failures_total";
    write_family(out, name, Kind::Counter, "Attempts that failed, by phase.");
    for (labels, server) in &rows {
        for phase in [Phase::Connect, Phase::Send, Phase::Response, Phase::Relay] {
            write_sample(out, name, labels, &[("phase", phase.name())], server.failures[phase as usize]);
        }
    }
    let help = "Time from the request sent to the head of the response.";
    write_histogram(out, "weir_server_response_time_seconds", help, &rows, |server| &server.response_time);
    let help = "Time to open a connection to the server, TLS included.";
    write_histogram(out, "weir_server_connect_time_seconds", help, &rows, |server| &server.connect_time);
    render_health(&rows, out);
    render_ejections(&rows, out);
}

fn render_ejections(servers: &[(String, &ServerFigures)], out: &mut String) {
    let name = "weir_server_ejected";
    let help = "Whether the server gets no requests (1) because some failed on it.";
    write_family(out, name, Kind::Gauge, help);
    for (labels, server) in servers {
        write_sample(out, name, labels, &[], u8::from(server.is_ejected));
    }
    let name = "weir_server_ejections_total";
    write_family(out, name, Kind::Counter, "Times that the server was ejected, by reason.");
    for (labels, server) in servers {
        for (reason, count) in &server.ejections {
            write_sample(out, name, labels, &[("reason", reason)], *count);
        }
    }
}

fn render_health(servers: &[(String, &ServerFigures)], out: &mut String) {
    let name = "weir_server_mode";
    write_family(
        out,
        name,
        Kind::Gauge,
        "What the operator wants of the server; 1 with the mode as a label.",
    );
    for (labels, server) in servers {
        write_sample(out, name, labels, &[("mode", server.mode)], 1);
    }
    let name = "weir_server_up";
    write_family(out, name, Kind::Gauge, "Whether the server is up (1) or down (0) by its health checks.");
    for (labels, server) in servers {
        write_sample(out, name, labels, &[], u8::from(server.is_up));
    }
    let rows: Vec<(String, &ProbeFigures)> = servers
        .iter()
        .filter_map(|(labels, server)| Some((labels.clone(), server.probes.as_ref()?)))
        .collect();
    let name = "weir_server_probes_total";
    write_family(
        out,
        name,
        Kind::Counter,
        "Probes of the health check, by result; one that was not made, for want of something on this machine, says nothing about the server.",
    );
    for (labels, probes) in &rows {
        write_sample(out, name, labels, &[("result", "passed")], probes.passed);
        write_sample(out, name, labels, &[("result", "failed")], probes.failures.total());
        write_sample(out, name, labels, &[("result", "not-made")], probes.not_made);
    }
    let help = "Probes of the health check that failed, by reason code and party.";
    write_reasons(out, "weir_server_probe_failures_total", help, &rows, |probes| &probes.failures);
    let name = "weir_server_health_changes_total";
    write_family(out, name, Kind::Counter, "Times that the health check changed whether the server is up.");
    for (labels, probes) in &rows {
        write_sample(out, name, labels, &[], probes.changes);
    }
    let name = "weir_server_probe_time_seconds";
    write_family(out, name, Kind::Gauge, "Duration of the last probe of the health check.");
    for (labels, probes) in &rows {
        write_labels(out, name, labels, &[]);
        write_seconds(out, probes.last_micros);
    }
}

/// Declares the simple families of a list: name, kind, field and help.
macro_rules! simple {
    ($list:ident: $type:ty { $($name:literal $kind:ident $field:ident, $help:literal;)+ }) => {
        const $list: &[Simple<$type>] =
            &[$(Simple { name: $name, help: $help, value: Value::$kind(|figures| figures.$field) },)+];
    };
}

simple! { WORKER: WorkerFigures {
    "weir_worker_sessions_accepted_total" Counter sessions_accepted, "Connections accepted by the worker.";
    "weir_worker_sessions_open" Gauge sessions_open, "Sessions that the worker runs.";
    "weir_worker_idle_sessions_closed_total" Counter sessions_displaced, "Idle client connections closed to make room for new ones, at `connections_max` or without a descriptor.";
    "weir_worker_exchanges_total" Counter exchanges, "Exchanges begun.";
    "weir_worker_exchanges_open" Gauge exchanges_open, "Exchanges that run.";
    "weir_worker_buffers_in_use" Gauge buffers_in_use, "Buffers in use.";
    "weir_worker_timers" Gauge timers, "Timers armed.";
    "weir_worker_panics_total" Counter panics, "Panics caught; each ended one session.";
    "weir_worker_accept_errors_total" Counter accept_errors, "Errors while accepting connections.";
    "weir_worker_local_failures_total" Counter local_failures, "Connections to servers that could not be opened for want of descriptors, ports or memory on this machine; servers are not judged by them.";
    "weir_worker_log_lines_dropped_total" Counter log_lines_dropped, "Access-log lines dropped because the writer was behind or could not write them.";
    "weir_worker_traces_sampled_total" Counter traces_sampled, "Exchanges sampled for traces.";
    "weir_worker_traces_limited_total" Counter traces_limited, "Exchanges that were to be sampled and passed unsampled because `traces.rate` was used up.";
    "weir_worker_traces_dropped_total" Counter traces_dropped, "Sampled exchanges dropped because `traces.queue` was full.";
}}

simple! { LISTENER: ListenerFigures {
    "weir_listener_sessions_total" Counter sessions, "Client connections begun.";
    "weir_listener_sessions_open" Gauge sessions_open, "Client connections open.";
    "weir_listener_sessions_peak" Peak sessions_open, "Most client connections open at once; the sum of what each worker had, so an upper bound.";
    "weir_listener_proxy_headers_total" Counter proxy_headers, "Client connections that began with a valid PROXY protocol header.";
    "weir_listener_requests_total" Counter requests, "Requests received.";
    "weir_listener_received_bytes_total" Counter bytes_in, "Bytes received from clients.";
    "weir_listener_sent_bytes_total" Counter bytes_out, "Bytes sent to clients.";
    "weir_listener_tunnels_total" Counter tunnels, "Tunnels begun: upgrades, and connections of TCP listeners.";
    "weir_listener_tunnels_open" Gauge tunnels_open, "Tunnels open.";
    "weir_listener_tunnels_peak" Peak tunnels_open, "Most tunnels open at once; the sum of what each worker had, so an upper bound.";
}}

simple! { ROUTE: RouteFigures {
    "weir_route_requests_total" Counter requests, "Requests, and connections of TCP listeners, that the route took.";
    "weir_route_failures_total" Counter failures, "Requests and connections that the route took and that ended badly.";
}}

simple! { UPSTREAM: UpstreamFigures {
    "weir_upstream_requests_total" Counter requests, "Exchanges that a route sent to the upstream.";
    "weir_upstream_queued_total" Counter queued, "Exchanges that waited for a server.";
    "weir_upstream_queue_length" Gauge queue_length, "Exchanges that wait for a server.";
    "weir_upstream_queue_length_peak" Peak queue_length, "Most exchanges that waited at once; the sum of what each worker had, so an upper bound.";
}}

simple! { SERVER: ServerFigures {
    "weir_server_attempts_total" Counter attempts, "Exchanges that chose the server, retries included.";
    "weir_server_attempts_open" Gauge attempts_open, "Attempts that run.";
    "weir_server_retries_total" Counter retries, "Attempts that were retries.";
    "weir_server_requests_total" Counter requests, "Requests sent to the server.";
    "weir_server_connects_total" Counter connects, "Connections opened to the server.";
    "weir_server_connect_errors_total" Counter connect_errors, "Connections to the server that could not be opened.";
    "weir_server_tls_handshakes_total" Counter tls_handshakes, "TLS handshakes with the server that were completed.";
    "weir_server_tls_resumptions_total" Counter tls_resumptions, "TLS handshakes with the server that went on with an earlier session.";
    "weir_server_reuses_total" Counter reuses, "Attempts that reused an idle connection.";
    "weir_server_stale_reuses_total" Counter stale_reuses, "Reused connections that turned out to be dead.";
    "weir_server_connections_open" Gauge connections_open, "Connections to the server, idle ones included.";
    "weir_server_connections_idle" Gauge connections_idle, "Idle connections to the server.";
    "weir_server_faults_total" Counter faults, "Attempts that failed by the doing of the server, as ejection counts them.";
    "weir_server_received_bytes_total" Counter bytes_in, "Bytes received from the server.";
    "weir_server_sent_bytes_total" Counter bytes_out, "Bytes sent to the server.";
}}

fn write_simple<T>(out: &mut String, simple: &Simple<T>, rows: &[(String, &T)]) {
    match simple.value {
        Value::Counter(value) => {
            write_family(out, simple.name, Kind::Counter, simple.help);
            for (labels, figures) in rows {
                write_sample(out, simple.name, labels, &[], value(figures));
            }
        }
        Value::Gauge(value) => {
            write_family(out, simple.name, Kind::Gauge, simple.help);
            for (labels, figures) in rows {
                write_sample(out, simple.name, labels, &[], value(figures).now);
            }
        }
        Value::Peak(value) => {
            write_family(out, simple.name, Kind::Gauge, simple.help);
            for (labels, figures) in rows {
                write_sample(out, simple.name, labels, &[], value(figures).peak);
            }
        }
    }
}

fn write_classes<T>(
    out: &mut String,
    name: &str,
    help: &str,
    rows: &[(String, &T)],
    of: fn(&T) -> &[u64; 5],
) {
    write_family(out, name, Kind::Counter, help);
    for (labels, figures) in rows {
        for (class, count) in CLASSES.into_iter().zip(of(figures)) {
            write_sample(out, name, labels, &[("class", class)], *count);
        }
    }
}

/// Only reasons that occurred get a sample: most never do, and there are nearly two hundred.
fn write_reasons<T>(
    out: &mut String,
    name: &str,
    help: &str,
    rows: &[(String, &T)],
    of: fn(&T) -> &FailureFigures,
) {
    write_family(out, name, Kind::Counter, help);
    for (labels, figures) in rows {
        for (reason, count) in of(figures).occurred() {
            let more = [("party", reason.party().name()), ("reason", reason.code())];
            write_sample(out, name, labels, &more, count);
        }
    }
}

fn write_histogram<T>(
    out: &mut String,
    name: &str,
    help: &str,
    rows: &[(String, &T)],
    of: fn(&T) -> &HistogramSnapshot,
) {
    let bounds: Vec<String> =
        BUCKET_POWERS.map(|power| format!("{}", (1u64 << power) as f64 / 1e6)).collect();
    let (bucket, sum, count) = (format!("{name}_bucket"), format!("{name}_sum"), format!("{name}_count"));
    write_family(out, name, Kind::Histogram, help);
    for (labels, figures) in rows {
        let snapshot = of(figures);
        for (bound, count) in bounds.iter().zip(snapshot.counts_below_powers(BUCKET_POWERS)) {
            write_sample(out, &bucket, labels, &[("le", bound)], count);
        }
        write_sample(out, &bucket, labels, &[("le", "+Inf")], snapshot.count());
        write_labels(out, &sum, labels, &[]);
        write_seconds(out, snapshot.sum());
        write_sample(out, &count, labels, &[], snapshot.count());
    }
}

/// Appends microseconds as seconds, and ends the line.
fn write_seconds(out: &mut String, micros: u64) {
    out.push_str(itoa::Buffer::new().format(micros / 1_000_000));
    push_fraction(out, micros % 1_000_000);
    out.push('\n');
}

/// Appends a dot and six digits.
fn push_fraction(out: &mut String, micros: u64) {
    let mut digits = itoa::Buffer::new();
    // A leading 1 keeps the zeros; it is where the dot goes.
    out.push('.');
    out.push_str(&digits.format(1_000_000 + micros)[1..]);
}

fn write_family(out: &mut String, name: &str, kind: Kind, help: &str) {
    let kind = match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Histogram => "histogram",
    };
    for part in ["# HELP ", name, " ", help, "\n# TYPE ", name, " ", kind, "\n"] {
        out.push_str(part);
    }
}

fn write_sample(
    out: &mut String,
    name: &str,
    labels: &str,
    more: &[(&str, &str)],
    value: impl itoa::Integer,
) {
    write_labels(out, name, labels, more);
    out.push_str(itoa::Buffer::new().format(value));
    out.push('\n');
}

/// Appends name and labels and the space before the value; `more` needs no escaping.
fn write_labels(out: &mut String, name: &str, labels: &str, more: &[(&str, &str)]) {
    out.push_str(name);
    if labels.is_empty() && more.is_empty() {
        out.push(' ');
        return;
    }
    out.push('{');
    out.push_str(labels);
    for (label, value) in more {
        for part in [",", label, "=\"", value, "\""] {
            out.push_str(part);
        }
    }
    out.push_str("} ");
}

/// A label with its value escaped: backslash, quote and newline, as the format asks.
fn label(name: &str, value: &str) -> String {
    let mut label = format!("{name}=\"");
    for char in value.chars() {
        match char {
            '\\' => label.push_str("\\\\"),
            '"' => label.push_str("\\\""),
            '\n' => label.push_str("\\n"),
            _ => label.push(char),
        }
    }
    label.push('"');
    label
}
