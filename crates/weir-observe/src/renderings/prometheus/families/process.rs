//! Families of the whole process and of its workers.

use weir_http::ContentCoding;

use super::{Family, MetricType, Samples, Write, families};
use crate::counters::admin::AdminRefusal;
use crate::counters::compression::CompressionRefusal;
use crate::counters::memory::MemoryStep;
use crate::counters::stats::NODE_STATES;
use crate::counters::traces::TraceLoss;

pub(super) const FAMILIES: &[Family] = families! {
    "weir_build_info" Gauge Process, "Version of Weir; the value is always 1.",
        |samples, _| samples.labelled(&[("version", env!("CARGO_PKG_VERSION"))], 1u8);

    // The metrics of the process that every client library of Prometheus has.
    "process_cpu_seconds_total" Counter Process, "CPU time of the process, user and system.",
        |samples, stats| samples.seconds(stats.process.cpu_micros);
    "process_start_time_seconds" Gauge Process, "Start of the process, in seconds since 1970.",
        |samples, stats| samples.seconds(stats.process.started_micros);
    "process_open_fds" Gauge Process, "Open file descriptors.",
        |samples, stats| samples.value(stats.process.open_fds);
    "process_max_fds" Gauge Process, "Limit of open file descriptors.",
        |samples, stats| { stats.process.max_fds.into_iter().for_each(|max| samples.value(max)) };
    "process_resident_memory_bytes" Gauge Process, "Resident memory.",
        |samples, stats| samples.value(stats.process.resident_bytes);
    "process_virtual_memory_bytes" Gauge Process, "Virtual memory.",
        |samples, stats| samples.value(stats.process.virtual_bytes);

    "weir_process_memory_used_bytes" Gauge Process, "Memory that counts towards `process.memory_max`: pages of the process, and its sockets in the kernel.",
        |samples, stats| samples.value(stats.memory.used_bytes);
    "weir_process_memory_max_bytes" Gauge Process, "Memory budget (`process.memory_max`); absent without one.",
        |samples, stats| { stats.memory.max_bytes.into_iter().for_each(|max| samples.value(max)) };
    "weir_process_memory_cgroup_used_bytes" Gauge Process, "Memory of all processes of the cgroup that the kernel cannot take back; absent without a limit of the cgroup.",
        |samples, stats| { stats.memory.cgroup.iter().for_each(|group| samples.value(group.used_bytes)) };
    "weir_process_memory_cgroup_max_bytes" Gauge Process, "Limit of the memory of the cgroup, or of one above it; absent without one.",
        |samples, stats| { stats.memory.cgroup.iter().for_each(|group| samples.value(group.max_bytes)) };
    "weir_process_memory_kernel_tcp_used_bytes" Gauge Process, "Memory of the kernel for all TCP sockets of the machine; absent where it does not say.",
        |samples, stats| { stats.memory.kernel_tcp.iter().for_each(|tcp| samples.value(tcp.used_bytes)) };
    "weir_process_memory_kernel_tcp_max_bytes" Gauge Process, "From where on the kernel saves memory for TCP (the second value of `net.ipv4.tcp_mem`); absent where it does not say.",
        |samples, stats| { stats.memory.kernel_tcp.iter().for_each(|tcp| samples.value(tcp.max_bytes)) };
    "weir_process_memory_class_bytes" Gauge Process, "Memory by what it is used for, by the sizes that are known; `other` is the rest.",
        |samples, stats| {
            for class in &stats.memory.classes {
                samples.labelled(&[("class", class.name)], class.bytes);
            }
        };
    "weir_process_memory_step" Gauge Process, "How far memory is being freed: 0 not at all, 1 caches shrink, 2 idle connections are closed, 3 clients with the slowest progress are ended, 4 new connections wait or are refused.",
        |samples, stats| samples.value(stats.memory.step as u8);
    "weir_process_memory_steps_total" Counter Process, "How often each step of freeing memory has begun.",
        |samples, stats| {
            for (step, count) in MemoryStep::ALL.into_iter().skip(1).zip(stats.memory.entered) {
                samples.labelled(&[("step", step.name())], count);
            }
        };
    "weir_process_memory_idle_closed_total" Counter Process, "Idle client connections closed since memory was short.",
        |samples, stats| samples.value(stats.memory.freed.idle_closed);
    "weir_process_memory_slow_ended_total" Counter Process, "Exchanges and connections ended since memory or buffers were short and their clients made the slowest progress.",
        |samples, stats| samples.value(stats.memory.freed.slow_ended);
    "weir_process_memory_refused_total" Counter Process, "Connections closed without a response since memory was short.",
        |samples, stats| samples.value(stats.memory.freed.refused);
    "weir_process_temporary_file_bytes" Gauge Process, "Bytes of request bodies in temporary files.",
        |samples, stats| samples.value(stats.process.temporary_file_bytes);
    "weir_process_landlock_version" Gauge Process, "Version of Landlock that confines file access (`process.sandbox`); 0: not confined.",
        |samples, stats| samples.value(stats.process.landlock_abi);
    "weir_process_system_call_filter" Gauge Process, "Whether system calls are filtered (`process.sandbox`): 1 or 0.",
        |samples, stats| samples.value(u8::from(stats.process.filters_system_calls));
    "weir_process_system_calls_denied_total" Counter Process, "System calls denied by the filter; the log names them.",
        |samples, stats| samples.value(stats.process.denied_system_calls);
    "weir_process_state" Gauge Process, "Whether this node serves, or another one is to do so: 1 for the present state.",
        |samples, stats| {
            for state in NODE_STATES {
                samples.labelled(&[("state", state)], u8::from(stats.process.node_state == state));
            }
        };
    "weir_process_watched" Gauge Process, "Whether the process lives that tells keepalived and BIRD of the end of Weir; absent without `process.keepalived` and `process.bird`.",
        |samples, stats| { stats.process.is_watched.into_iter().for_each(|is| samples.value(u8::from(is))) };
    "weir_process_announcements_failing" Gauge Process, "Programs (keepalived, BIRD) that could not be told the state of this node; the log has the reason.",
        |samples, stats| { if stats.process.is_watched.is_some() { samples.value(stats.process.failing_announcements) } };

    "weir_process_task_restarts_total" Counter Process, "Tasks of the control plane (health checks, slow starts, ejections, drains, names, sources of servers and routes, Kubernetes, certificates, credentials, shared limits, hand-over, admin listener, memory, logs, traces) begun anew after a panic.",
        |samples, stats| samples.value(stats.process.task_restarts);
    "weir_framing_violations_total" Counter Process, "Bodies that were about to leave other than their heads had said (`framing-violation`): each is a defect of Weir, and closed its connection or stream.",
        |samples, stats| samples.value(stats.process.framing_violations);
    "weir_process_panics_total" Counter Process, "Panics of all threads; `weir report` and the status page have the message and the backtrace.",
        |samples, stats| samples.value(stats.process.panics);

    "weir_config_reloads_total" Counter Process, "Reloads of the config, by outcome.",
        |samples, stats| {
            samples.labelled(&[("outcome", "succeeded")], stats.reload.succeeded);
            samples.labelled(&[("outcome", "failed")], stats.reload.failed);
        };
    "weir_config_last_reload_successful" Gauge Process, "Whether the last reload succeeded (1) or failed (0); 1 before the first.",
        |samples, stats| samples.value(u8::from(stats.reload.last_succeeded));
    "weir_config_last_reload_success_timestamp_seconds" Gauge Process, "Time of the last successful reload, or of the start, in seconds since 1970.",
        |samples, stats| samples.value(stats.reload.since_seconds);
    "weir_config_generation" Gauge Process, "Generation of the config in use: 1 at the start, plus one for each reload.",
        |samples, stats| samples.value(stats.reload.generation);
    "weir_config_snapshots" Gauge Process, "Configs that are still referenced, including the one in use.",
        |samples, stats| samples.value(stats.reload.snapshots);
    "weir_config_fragments" Gauge Process, "Keys of stores (`routes_from`) that are part of the config in use.",
        |samples, stats| samples.value(stats.reload.fragments);
    "weir_config_fragments_refused" Gauge Process, "Keys of stores (`routes_from`) with a mistake, and ports of Gateways of Kubernetes that are held back, which change nothing.",
        |samples, stats| samples.value(stats.reload.fragments_refused);
    "weir_config_route_stores_stale" Gauge Process, "Sources of routes (`routes_from`, the API server of Kubernetes) that do not answer, so that the last known routes are in use; an empty answer that is not believed yet does not count.",
        |samples, stats| samples.value(stats.reload.route_stores_stale);
    "weir_config_route_stores_said_timestamp_seconds" Gauge Process, "When the source of routes that has been silent longest last said something, in seconds since 1970.",
        |samples, stats| stats.reload.routes_said_seconds.into_iter().for_each(|at| samples.value(at));
    "weir_config_route_stores_lost_timestamp_seconds" Gauge Process, "Since when the first source of routes that does not answer is lost, in seconds since 1970; absent while all answer.",
        |samples, stats| stats.reload.routes_lost_seconds.into_iter().for_each(|at| samples.value(at));

    "weir_admin_requests_total" Counter Process, "Requests to the admin listener that succeeded.",
        |samples, stats| samples.value(stats.admin.requests);
    "weir_admin_refusals_total" Counter Process, "Rejected requests and connections of the admin listener, by reason.",
        |samples, stats| {
            for (refusal, count) in AdminRefusal::ALL.into_iter().zip(stats.admin.refusals) {
                samples.labelled(&[("reason", refusal.name())], count);
            }
        };

    "weir_acme_hosts" Gauge Process, "Hosts whose certificates Weir obtains by itself, by the state of the certificate.",
        |samples, stats| {
            for (state, count) in stats.issuance.iter().flat_map(|issuance| &issuance.hosts) {
                samples.labelled(&[("state", state)], *count);
            }
        };
    "weir_acme_orders_total" Counter Process, "Attempts to obtain or renew a certificate, by outcome.",
        |samples, stats| {
            if let Some(issuance) = &stats.issuance {
                samples.labelled(&[("outcome", "obtained")], issuance.orders[0]);
                samples.labelled(&[("outcome", "failed")], issuance.orders[1]);
            }
        };

    "weir_trace_spans_exported_total" Counter Process, "Spans accepted by the collector.",
        |samples, stats| samples.value(stats.traces.spans_exported);
    "weir_trace_spans_dropped_total" Counter Process, "Spans lost before the collector accepted them, by reason.",
        |samples, stats| {
            for (loss, count) in TraceLoss::ALL.into_iter().zip(stats.traces.spans_dropped) {
                samples.labelled(&[("reason", loss.name())], count);
            }
        };
    "weir_trace_exports_failed_total" Counter Process, "Failed requests to the collector, including retries.",
        |samples, stats| samples.value(stats.traces.exports_failed);

    "weir_log_lines_dropped_total" Counter Process, "Lines of the log of Weir dropped because standard error was blocked.",
        |samples, stats| samples.value(stats.own_log_lines_dropped);

    "weir_worker_connections_accepted_total" Counter Worker, "Connections accepted by the worker.",
        |samples, worker| samples.value(worker.connections_accepted);
    "weir_worker_connections_open" Gauge Worker, "Open client connections of the worker.",
        |samples, worker| samples.value(worker.connections_open.now);
    "weir_worker_idle_connections_closed_total" Counter Worker, "Idle client connections closed to make room for new ones, at `connections_max` or out of descriptors.",
        |samples, worker| samples.value(worker.idle_connections_closed);
    "weir_worker_slow_heads_ended_total" Counter Worker, "Clients without a whole handshake or request head ended to make room for new connections, at `connections_max` or out of descriptors.",
        |samples, worker| samples.value(worker.slow_heads_ended);
    "weir_worker_exchanges_total" Counter Worker, "Exchanges started.",
        |samples, worker| samples.value(worker.exchanges);
    "weir_worker_exchanges_open" Gauge Worker, "Running exchanges.",
        |samples, worker| samples.value(worker.exchanges_open.now);
    "weir_worker_background_requests_total" Counter Worker, "Requests of Weir's own that no client waits for: copies for mirrors, revalidation of stored responses.",
        |samples, worker| samples.value(worker.background_requests);
    "weir_worker_background_requests_open" Gauge Worker, "Those that run.",
        |samples, worker| samples.value(worker.background_open.now);
    "weir_worker_background_requests_refused_total" Counter Worker, "Those that were not begun because of `process.background_requests_max`, or because half of the buffers were in use.",
        |samples, worker| samples.value(worker.background_refused);
    "weir_worker_buffers_in_use" Gauge Worker, "Buffers in use.",
        |samples, worker| samples.value(worker.buffers_in_use.now);
    "weir_worker_timers" Gauge Worker, "Timers armed.",
        |samples, worker| samples.value(worker.timers.now);
    "weir_worker_panics_total" Counter Worker, "Panics caught; each ended one connection, or one stream of HTTP/2.",
        |samples, worker| samples.value(worker.panics);
    "weir_worker_restarts_total" Counter Worker, "Times that the worker was started anew after a crash.",
        |samples, worker| samples.value(worker.restarts);
    "weir_worker_connections_lost_total" Counter Worker, "Client connections closed by a crash of the worker.",
        |samples, worker| samples.value(worker.connections_lost);
    "weir_worker_accept_errors_total" Counter Worker, "Errors of accept(2).",
        |samples, worker| samples.value(worker.accept_errors);
    "weir_worker_local_connect_errors_total" Counter Worker, "Connections to servers that failed because this machine is out of descriptors, ports or memory; they do not count against the servers.",
        |samples, worker| samples.value(worker.local_connect_errors);
    "weir_worker_log_lines_dropped_total" Counter Worker, "Access log lines dropped because the writer was behind or failed.",
        |samples, worker| samples.value(worker.log_lines_dropped);
    "weir_worker_traces_sampled_total" Counter Worker, "Exchanges sampled for traces.",
        |samples, worker| samples.value(worker.traces_sampled);
    "weir_worker_traces_limited_total" Counter Worker, "Exchanges not sampled because of the limit `traces.rate`.",
        |samples, worker| samples.value(worker.traces_limited);
    "weir_worker_request_bodies_buffered_total" Counter Worker, "Request bodies taken in before a server got them (`buffer_requests`), by place: whole in memory, with a file, or in part since they were too long.",
        |samples, worker| {
            for (place, count) in ["memory", "file", "part"].into_iter().zip(worker.bodies_buffered) {
                samples.labelled(&[("place", place)], count);
            }
        };
    "weir_worker_response_bodies_buffered_total" Counter Worker, "Response bodies taken in as fast as servers gave them (`buffer_responses`), by place: in memory, or with a file.",
        |samples, worker| {
            for (place, count) in ["memory", "file"].into_iter().zip(worker.responses_buffered) {
                samples.labelled(&[("place", place)], count);
            }
        };
    "weir_worker_traces_dropped_total" Counter Worker, "Sampled exchanges dropped because `traces.queue_max` was full.",
        |samples, worker| samples.value(worker.traces_dropped);
    "weir_worker_compressed_responses_total" Counter Worker, "Responses compressed, by algorithm.",
        |samples, worker| by_coding(samples, worker.compression.compressed);
    "weir_worker_decompressed_responses_total" Counter Worker, "Responses decompressed for clients that do not accept their coding, by algorithm.",
        |samples, worker| by_coding(samples, worker.compression.decompressed);
    "weir_worker_uncompressed_responses_total" Counter Worker, "Responses of routes with `compression` that passed as they were, by reason.",
        |samples, worker| {
            for (refusal, count) in CompressionRefusal::ALL.into_iter().zip(worker.compression.refused) {
                samples.labelled(&[("reason", refusal.name())], count);
            }
        };
    "weir_worker_bodies_not_rewritten_total" Counter Worker, "Responses that `rewrite_body` is for and that passed as they were, by reason: in a coding that Weir does not know, or with no room for a decoder.",
        |samples, worker| {
            for refusal in [CompressionRefusal::Encoded, CompressionRefusal::Load, CompressionRefusal::Limit] {
                samples.labelled(&[("reason", refusal.name())], worker.compression.not_rewritten[refusal as usize]);
            }
        };
    "weir_worker_compression_input_bytes_total" Counter Worker, "Bytes of bodies before they were compressed.",
        |samples, worker| samples.value(worker.compression.bytes_in);
    "weir_worker_compression_output_bytes_total" Counter Worker, "Bytes of the same bodies when compressed.",
        |samples, worker| samples.value(worker.compression.bytes_out);
    "weir_worker_compression_seconds_total" Counter Worker, "Time spent on compressing and decompressing.",
        |samples, worker| samples.seconds(worker.compression.micros);
    "weir_worker_compressions_open" Gauge Worker, "Responses that are compressed or decompressed at the moment.",
        |samples, worker| samples.value(worker.compression.open);
    "weir_worker_compression_step" Gauge Worker, "Steps by which compression levels have fallen under load: 0 as configured, 3 the lowest. Judged when a response begins.",
        |samples, worker| samples.value(worker.compression.step);
    "weir_worker_connections_handed_over_total" Counter Worker, "Client connections handed over between workers, by direction.",
        |samples, worker| {
            samples.labelled(&[("direction", "in")], worker.connections_handed_in);
            samples.labelled(&[("direction", "out")], worker.connections_handed_out);
        };
    "weir_worker_datagrams_total" Counter Worker, "Datagrams of QUIC, by direction.",
        |samples, worker| by_direction(samples, worker.datagrams.received, worker.datagrams.sent);
    "weir_worker_datagram_runs_total" Counter Worker, "Runs that datagrams of QUIC came in, as the kernel joins those of one sender (GRO), and went out in, each with one system call (GSO).",
        |samples, worker| by_direction(samples, worker.datagrams.received_runs, worker.datagrams.sent_runs);
    "weir_worker_datagrams_handed_over_total" Counter Worker, "Datagrams of QUIC that came to this worker and belong to another: clients that have moved, mostly.",
        |samples, worker| samples.value(worker.datagrams.handed_over);
    "weir_worker_datagrams_handed_over_lost_total" Counter Worker, "Those that were lost on that way, since too many waited.",
        |samples, worker| samples.value(worker.datagrams.handed_over_lost);
    "weir_worker_datagrams_forwarded_total" Counter Worker, "Datagrams of QUIC for connections of a process that this one has replaced, which got them.",
        |samples, worker| samples.value(worker.datagrams.forwarded);
    "weir_worker_datagrams_dropped_total" Counter Worker, "Datagrams that the kernel has dropped since the buffer of a UDP socket was full: see net.core.rmem_max.",
        |samples, worker| samples.value(worker.datagrams.dropped);
};

fn by_direction(samples: &mut Samples<'_>, received: u64, sent: u64) {
    samples.labelled(&[("direction", "in")], received);
    samples.labelled(&[("direction", "out")], sent);
}

fn by_coding(samples: &mut Samples<'_>, counts: [u64; ContentCoding::COUNT]) {
    for (coding, count) in ContentCoding::ALL.into_iter().zip(counts) {
        samples.labelled(&[("algorithm", coding.name())], count);
    }
}
