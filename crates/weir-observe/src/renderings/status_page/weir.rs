//! Weir itself on the status page: the figures at the top, workers, process, config.

use maud::{Markup, html};

use super::{format, live};
use crate::counters::admin::{AdminRefusal, AdminStats};
use crate::counters::memory::MemoryStats;
use crate::overview::{Overview, ProcessOverview, RoutesFromOverview, WorkerOverview};

/// One figure with its name above and something small below.
fn tile(id: &str, name: &str, value: &str, below: &str) -> Markup {
    html! {
        div.tile id={ "tile-" (id) } {
            dt { (name) }
            dd { span.value data-t=(id) { (value) } span.below data-t={ (id) "-below" } { (below) } }
        }
    }
}

/// The figures at the top. `status.js` adds them up in the same way.
pub(super) fn tiles(overview: &Overview) -> Markup {
    let process = &overview.process;
    let sum =
        |of: fn(&crate::overview::ListenerOverview) -> f64| overview.listeners.iter().map(of).sum::<f64>();
    let requests = sum(|listener| listener.rates.requests.now);
    let failures = sum(|listener| listener.rates.failures.now);
    let peak = sum(|listener| listener.rates.requests.peak);
    let p99 = overview.upstreams.iter().filter_map(|upstream| upstream.response_time.p99_us).max();
    let p50 = overview.upstreams.iter().filter_map(|upstream| upstream.response_time.p50_us).max();
    let waiting: i64 = overview.upstreams.iter().map(|upstream| upstream.stats.queue_length.now).sum();
    let waiting_peak: i64 = overview.upstreams.iter().map(|upstream| upstream.stats.queue_length.peak).sum();
    let usable: usize = overview.upstreams.iter().map(|upstream| upstream.servers_usable).sum();
    let servers: usize = overview.upstreams.iter().map(|upstream| upstream.servers_total).sum();
    let count = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    let scope = if overview.page.pages > 1 { " on this page" } else { "" };
    html! {
        section aria-labelledby="glance" {
            h2 #glance.hidden { "At a glance" }
            dl.tiles {
                (tile("requests", "Requests per second", &format::rate(requests), &format!("peak {}", format::rate(peak))))
                (tile("failures", "Failures per second", &format::rate(failures), ""))
                (tile("p99", "P99, slowest upstream", &format::micros(p99), &format!("P50 {}{scope}", format::micros(p50))))
                (tile("connections", "Connections open", &count(process.connections_open.now),
                    &format!("peak {} of {}", count(process.connections_open.peak), format::count(process.connections_max))))
                (tile("waiting", "Waiting for a server", &count(waiting), &format!("peak {}{scope}", count(waiting_peak))))
                (tile("servers", "Servers usable", &format::count(usable as u64), &format!("of {}{scope}", format::count(servers as u64))))
            }
        }
    }
}

/// The workers, and how even they are.
pub(super) fn workers(overview: &Overview) -> Markup {
    let compresses = overview.workers.iter().any(|worker| worker.stats.compression.is_used());
    let most = overview.workers.iter().map(|worker| worker.exchanges_rate.now).fold(0.0, f64::max);
    html! {
        section #workers aria-labelledby="workers-heading" {
            h2 #workers-heading { "Workers" }
            div.scroll { table.list {
                caption { "One per CPU. The bars compare the exchanges of the last second." }
                thead { tr {
                    th scope="col" { "Worker" } th scope="col" { "Exchanges per second" } th scope="col" { "Exchanges" }
                    th scope="col" { "Connections, peak" } th scope="col" { "Handed in, out" } th scope="col" { "Buffers, peak" } th scope="col" { "Panics, restarts" }
                    @if compresses { th scope="col" { "Compressing, steps down" } }
                } }
                tbody {
                    @for (index, worker) in overview.workers.iter().enumerate() { (worker_row(index, worker, most, compresses)) }
                }
            } }
        }
    }
}

fn worker_row(index: usize, worker: &WorkerOverview, most: f64, compresses: bool) -> Markup {
    let stats = &worker.stats;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        tr data-at={ "workers." (index) } {
            th scope="row" { (index) }
            td data-label="Exchanges per second" {
                meter min="0" max=(most.max(1.0)) value=(worker.exchanges_rate.now) aria-hidden="true" data-v="exchanges_rate.now" data-f="meter" {}
                (live("exchanges_rate.now", "rate", &format::rate(worker.exchanges_rate.now)))
            }
            td data-label="Exchanges" { (live("exchanges", "count", &format::count(stats.exchanges))) }
            td data-label="Connections, peak" {
                (live("connections_open.now", "count", &level(stats.connections_open.now))) ", "
                (live("connections_open.peak", "count", &level(stats.connections_open.peak)))
            }
            td data-label="Handed in, out" {
                (live("connections_handed_in", "count", &format::count(stats.connections_handed_in))) ", "
                (live("connections_handed_out", "count", &format::count(stats.connections_handed_out)))
            }
            td data-label="Buffers, peak" {
                (live("buffers_in_use.now", "count", &level(stats.buffers_in_use.now))) ", "
                (live("buffers_in_use.peak", "count", &level(stats.buffers_in_use.peak)))
            }
            td data-label="Panics, restarts" {
                (live("panics", "count", &format::count(stats.panics))) ", "
                (live("restarts", "count", &format::count(stats.restarts)))
            }
            @if compresses {
                td data-label="Compressing, steps down" {
                    (live("compression.open", "count", &level(stats.compression.open))) ", "
                    (live("compression.step", "count", &level(stats.compression.step)))
                }
            }
        }
    }
}

/// What is said as long as a log has lost lines: without it, what is missing there seems not to have happened.
pub(super) fn lost_logs(process: &ProcessOverview) -> Markup {
    let told = |path: &str, count: u64, text: &str| {
        html! { p.warning data-v=(path) data-f="some" hidden[count == 0] { (text) } }
    };
    html! {
        div #logs data-at="process" {
            (told(
                "access_log_lines_lost",
                process.access_log_lines_lost,
                "Lines of an access log were lost: it could not be written, or not fast enough. The log of Weir has the reason, the section Process the number.",
            ))
            (told(
                "own_log_lines_lost",
                process.own_log_lines_lost,
                "Lines of the log of Weir were lost: standard error was not read fast enough.",
            ))
        }
    }
}

/// The process and its admin listener.
pub(super) fn process(overview: &Overview, admin: &AdminStats) -> Markup {
    let process = &overview.process;
    let refused = || AdminRefusal::ALL.into_iter().zip(admin.refusals).filter(|(_, count)| *count > 0);
    html! {
        section #process aria-labelledby="process-heading" data-at="process" {
            h2 #process-heading { "Process" }
            dl.pairs {
                div { dt { "Process id" } dd { (process.pid) } }
                div { dt { "Memory" } dd { (live("memory_bytes", "bytes", &format::bytes(process.memory_bytes as f64))) } }
                (memory(&process.memory))
                div { dt { "Open files" } dd { (live("open_files", "count", &format::count(process.open_files))) " of " (format::count(process.open_files_max)) } }
                @for announced in &process.announcements {
                    div { dt { "Told to " (announced.target) } dd {
                        @match (&announced.told, &announced.error) {
                            (_, Some(error)) => { "cannot be told: " (error) }
                            (Some(told), None) => { (told) }
                            (None, None) => { "nothing yet" }
                        }
                    } }
                }
                div { dt { "Log lines lost" } dd {
                    "access logs " (live("access_log_lines_lost", "count", &format::count(process.access_log_lines_lost)))
                    ", log of Weir " (live("own_log_lines_lost", "count", &format::count(process.own_log_lines_lost)))
                } }
                @if process.is_watched == Some(false) {
                    div { dt { "Watcher" } dd { "has ended: the end of Weir would not be told" } }
                }
                div { dt { "User" } dd { (process.confinement.user) } }
                div { dt { "Capabilities" } dd { (process.confinement.capabilities) } }
                div { dt { "Files" } dd { (process.confinement.files) } }
                div { dt { "System calls" } dd { (process.confinement.system_calls) } }
                @if process.confinement.denied_system_calls > 0 {
                    div { dt { "System calls denied" } dd { (format::count(process.confinement.denied_system_calls)) } }
                }
                div { dt { "Admin requests" } dd { (format::count(admin.requests)) } }
                @for (refusal, count) in refused() {
                    div { dt { "Admin requests rejected: " (refusal.name()) } dd { (format::count(count)) } }
                }
            }
        }
    }
}

/// Its memory against the budget.
fn memory(memory: &MemoryStats) -> Markup {
    let bytes = |bytes: u64| format::bytes(bytes as f64);
    let count = |path: &str, value: u64| live(path, "count", &format::count(value));
    html! {
        @if let Some(max) = memory.max_bytes {
            div { dt { "Memory budget" } dd { (live("memory.used_bytes", "bytes", &bytes(memory.used_bytes))) " of " (bytes(max)) } }
            @if let Some(group) = memory.cgroup {
                div { dt { "Memory of the cgroup" } dd { (live("memory.cgroup.used_bytes", "bytes", &bytes(group.used_bytes))) " of " (bytes(group.max_bytes)) } }
            }
            div { dt { "Freeing memory" } dd { (memory.step.what()) } }
            div { dt { "Ended for memory" } dd {
                (count("memory.idle_closed", memory.freed.idle_closed)) " idle, "
                (count("memory.slow_ended", memory.freed.slow_ended)) " slow, "
                (count("memory.refused", memory.freed.refused)) " refused"
            } }
        }
        @if let Some(tcp) = memory.kernel_tcp {
            div { dt { "Kernel memory for TCP" } dd { (live("memory.kernel_tcp.used_bytes", "bytes", &bytes(tcp.used_bytes))) " of " (bytes(tcp.max_bytes)) " (all programs)" } }
        }
        div { dt { "Memory by use" } dd {
            @for (index, class) in memory.classes.iter().enumerate() {
                @if index > 0 { ", " }
                (class.name) " " (bytes(class.bytes))
            }
        } }
    }
}

/// The config in use.
pub(super) fn config(overview: &Overview, text: &str) -> Markup {
    let config = &overview.config;
    html! {
        section #config aria-labelledby="config-heading" data-at="config" {
            h2 #config-heading { "Config in use" }
            dl.pairs {
                div { dt { "Generation" } dd { (live("generation", "count", &format::count(config.generation))) } }
                div { dt { "In use for" } dd { (live("since_seconds", "since_seconds", &format::lasting(overview.process.at_ms.saturating_sub(config.since_seconds * 1000)))) } }
                div { dt { "Reloads" } dd { (live("succeeded", "count", &format::count(config.succeeded))) } }
                div { dt { "Failed reloads" } dd { (live("failed", "count", &format::count(config.failed))) } }
                div { dt { "Configs still in use" } dd { (live("snapshots", "count", &format::count(config.snapshots))) } }
            }
            @if !config.last_succeeded { p.warning { "The last reload failed: the previous config is still in use. The log has the reason." } }
            @for source in &overview.routes_from {
                (routes_from(source, overview.process.at_ms))
                @for refused in &source.refused {
                    p.warning { "The key " (refused.key) " was refused: " (refused.errors.join("; ")) }
                }
            }
            details { summary { "All keys and values, without secrets" } pre tabindex="0" { code { (text) } } }
        }
    }
}

/// A source of routes.
fn routes_from(source: &RoutesFromOverview, at_ms: u64) -> Markup {
    let ago = |then: u64| format::lasting(at_ms.saturating_sub(then));
    html! {
        p.note {
            "Routes from " b { (source.store) } " (" (source.name) "): "
            @if !source.keys.is_empty() { (format::count(source.keys.len() as u64)) " keys in use, " }
            @match source.said_at_ms {
                Some(said_at) => { "last heard " (ago(said_at)) " ago. " }
                None => { "not heard yet. " }
            }
            @if let Some(lost_at) = source.lost_at_ms { "Lost for " (ago(lost_at)) ": what it said last is in use. " }
            @if let Some(problem) = &source.problem { (problem) }
        }
        @for missing in &source.missing { p.note { (missing) } }
    }
}
