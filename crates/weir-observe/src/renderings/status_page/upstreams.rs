//! Upstreams and their servers on the status page: a line for each upstream, problems first, which unfolds; and the dialog by which one server
//! or several are drained, taken out, or given another weight.

use maud::{Markup, html};
use weir_sort::CompactSort as _;

use super::{PageInput, format, live, reasons};
use crate::overview::{
    NamedCount, PageOverview, ServerOverview, ServerStatus, SourceOverview, UpstreamOverview,
};

/// With more upstreams, idle ones are folded to their line.
const IDLE_OPEN_MAX: usize = 3;

/// With more upstreams, all are folded: the lines are the overview.
const OPEN_MAX: usize = 8;

/// An upstream with more servers is folded in any case.
const SERVERS_OPEN_MAX: usize = 40;

/// The condition of an upstream, the worst first. `status.js` decides in the same way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum UpstreamCondition {
    /// No server is usable.
    Down,
    /// Too few are: all get requests.
    Panic,
    /// Some are not, and not because an operator took them out.
    Degraded,
    /// Requests failed in the last second.
    Failing,
    /// Requests wait for a server.
    Waiting,
    /// It serves.
    Up,
    /// It has nothing to do.
    Idle,
}

impl UpstreamCondition {
    fn new(upstream: &UpstreamOverview) -> Self {
        let is_busy = || upstream.servers.iter().any(|server| server.in_flight > 0);
        if upstream.servers_usable == 0 {
            Self::Down
        } else if upstream.stats.in_panic {
            Self::Panic
        } else if upstream.servers.iter().any(is_broken) {
            Self::Degraded
        } else if upstream.rates.failures.now > 0.0 {
            Self::Failing
        } else if upstream.stats.queue_length.now > 0 {
            Self::Waiting
        } else if upstream.rates.requests.now > 0.0 || is_busy() {
            Self::Up
        } else {
            Self::Idle
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Down => "down",
            Self::Panic => "panic",
            Self::Degraded => "degraded",
            Self::Failing => "failing",
            Self::Waiting => "waiting",
            Self::Up => "up",
            Self::Idle => "idle",
        }
    }

    /// The order of the list: problems by weight, then the rest as the config has it.
    fn rank(self) -> Self {
        self.min(Self::Up)
    }
}

/// Whether there are connections and bytes, but no requests and no response times.
fn is_tcp(upstream: &UpstreamOverview) -> bool {
    upstream.protocol == "tcp"
}

/// Whether a server takes no requests although no operator took it out.
fn is_broken(server: &ServerOverview) -> bool {
    matches!(server.status, ServerStatus::Down | ServerStatus::Ejected)
}

/// All upstreams: a line for each, which unfolds.
pub(super) fn section(shown: &PageInput<'_>) -> Markup {
    let mut order: Vec<_> = shown.overview.upstreams.iter().enumerate().collect();
    order.sort_compact_by_key(|(_, upstream)| UpstreamCondition::new(upstream).rank());
    html! {
        section #upstreams aria-labelledby="upstreams-heading" {
            h2 #upstreams-heading { "Upstreams " span.small #upstreams-shown {} }
            (tools(shown))
            (pager(&shown.overview.page))
            div.line.heads aria-hidden="true" {
                span { "Upstream" } span { "State" } span { "Requests/s" } span { "Failed/s" } span { "P50" } span { "P99" } span { "Waiting" } span { "In flight" } span { "Two minutes" }
            }
            div #upstream-list {
                @for (index, upstream) in order { (line(index, upstream, shown)) }
            }
            p #upstreams-none.note hidden { "No upstream matches." }
        }
    }
}

/// Links to the other pages, where there are any. A page holds a fixed number of servers, of whichever upstreams.
fn pager(page: &PageOverview) -> Markup {
    html! {
        @if page.pages > 1 {
            p.pager {
                @if page.number > 1 { a href={ "/?page=" (page.number - 1) } rel="prev" { "Previous" } " " }
                "Page " (format::count(page.number as u64)) " of " (format::count(page.pages as u64)) ", "
                (format::count(page.servers as u64)) " servers of " (format::count(page.upstreams as u64)) " upstreams. "
                @if page.number < page.pages { a href={ "/?page=" (page.number + 1) } rel="next" { "Next" } }
            }
        }
    }
}

/// Search, filter and folding; `status.js` shows them.
fn tools(shown: &PageInput<'_>) -> Markup {
    let filter = |value: &str, text: &str| html! { option value=(value) { (text) } };
    html! {
        form #tools.tools role="search" hidden {
            label { span.hidden { "Search upstreams and servers" } input #search type="search" placeholder="Search: upstream, server, address" autocomplete="off" spellcheck="false"; }
            label { span.hidden { "State" } select #filter {
                (filter("", "all states")) (filter("problem", "problems")) (filter("active", "active")) (filter("idle", "idle"))
                (filter("out", "draining or in maintenance"))
            } }
            button #unfold type="button" { "Unfold all" }
            button #fold type="button" { "Fold all" }
            @if shown.page_token.is_some() { button #select-found type="button" hidden { "Select found servers" } }
        }
    }
}

fn line(index: usize, upstream: &UpstreamOverview, shown: &PageInput<'_>) -> Markup {
    let (usable, all) = (upstream.servers_usable, upstream.servers_total);
    let condition = UpstreamCondition::new(upstream);
    let upstreams = shown.overview.upstreams.len();
    let is_open = upstreams <= OPEN_MAX
        && all <= SERVERS_OPEN_MAX
        && (upstreams <= IDLE_OPEN_MAX || condition != UpstreamCondition::Idle);
    let in_flight: u64 = upstream.servers.iter().map(|server| u64::from(server.in_flight)).sum();
    let waiting = u64::try_from(upstream.stats.queue_length.now).unwrap_or(0);
    html! {
        details.upstream id={ "upstream-" (index) } data-at={ "upstreams." (index) } data-name=(upstream.name) open[is_open] {
            summary.line {
                h3.part { (upstream.name) }
                span.condition {
                    span.state data-c="condition" data-is=(condition.name()) { (condition.name()) } " "
                    a.usable.some[usable < all] href={ "#servers-" (index) } data-c="usable" { (format::count(usable as u64)) " of " (format::count(all as u64)) span.wide { " usable" } }
                }
                @if is_tcp(upstream) {
                    span.cell data-label="conn/s" { span.wide { "conn " } (live("rates.connections.now", "rate", &format::rate(upstream.rates.connections.now))) }
                } @else {
                    span.cell data-label="req/s" { (live("rates.requests.now", "rate", &format::rate(upstream.rates.requests.now))) }
                }
                span.cell.some[upstream.rates.failures.now > 0.0] data-label="failed/s" { (live("rates.failures.now", "errors", &format::rate(upstream.rates.failures.now))) }
                @if is_tcp(upstream) {
                    span.cell.second data-label="bytes in" { span.wide { "in " } (live("rates.bytes_in.now", "bytes", &format::bytes(upstream.rates.bytes_in.now))) }
                    span.cell data-label="bytes out" { span.wide { "out " } (live("rates.bytes_out.now", "bytes", &format::bytes(upstream.rates.bytes_out.now))) }
                } @else {
                    span.cell.second data-label="P50" { (live("response_time.p50_us", "micros", &format::micros(upstream.response_time.p50_us))) }
                    span.cell data-label="P99" { (live("response_time.p99_us", "micros", &format::micros(upstream.response_time.p99_us))) }
                }
                span.cell data-label="waiting" { (live("queue_length.now", "count", &format::count(waiting))) }
                span.cell.second data-label="in flight" { span data-c="running" { (format::count(in_flight)) } }
                svg.graph.spark data-graph="spark" viewBox="0 0 120 40" preserveAspectRatio="none" aria-hidden="true" {}
            }
            (inside(index, upstream, shown))
        }
    }
}

/// Who names the servers, and how old that is.
fn source_of(source: &SourceOverview, at_ms: u64) -> Markup {
    html! {
        p.note {
            "Servers from " b { (source.name) } ", " (live("source.said_at_ms", "since", &format::lasting(at_ms.saturating_sub(source.said_at_ms)))) " ago. "
            @if source.is_stale { "It does not answer now: these are the last known ones. " }
            @if let Some(problem) = &source.problem { (problem) }
            @if let Some(remark) = &source.remark { " Beside the servers: " (remark) }
        }
    }
}

/// The details below a line.
fn inside(index: usize, upstream: &UpstreamOverview, shown: &PageInput<'_>) -> Markup {
    html! {
        div.inside {
            p.warning data-v="in_panic" data-f="panic" hidden[!upstream.stats.in_panic] {
                "Panic mode: too few servers are healthy, so all of them get requests."
            }
            @if let Some(source) = &upstream.source { (source_of(source, shown.overview.process.at_ms)) }
            div.graphs hidden {
                figure { figcaption { (if is_tcp(upstream) { "Connections ended per second " } else { "Requests per second " }) span.read {} } svg.graph data-graph="rate" viewBox="0 0 120 40" preserveAspectRatio="none" role="img" aria-label=(if is_tcp(upstream) { "Connections ended per second" } else { "Requests per second" }) {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
                @if !is_tcp(upstream) {
                    figure { figcaption { "Response time " span.key-p50 { "P50" } " " span.key-p99 { "P99" } " " span.read {} } svg.graph data-graph="time" viewBox="0 0 120 40" preserveAspectRatio="none" role="img" aria-label="Response time" {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
                    figure { figcaption { "Response times " span.read {} } canvas.graph data-graph="heat" width="120" height="21" role="img" aria-label="Response times" {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
                }
            }
            (facts(upstream))
            @if upstream.servers.len() < upstream.servers_total {
                p.note { (format::count(upstream.servers.len() as u64)) " of its servers are on this page. " a href={ "/?upstream=" (upstream.name) } { "Show this upstream only" } }
            }
            p.only { "Only unusable servers are shown. " button.all type="button" { "Show all" } }
            (servers(index, upstream, shown))
        }
    }
}

fn facts(upstream: &UpstreamOverview) -> Markup {
    let stats = &upstream.stats;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        dl.pairs {
            div { dt { "Balance" } dd { (upstream.balance) @if upstream.when_full == "backup" { ", backups when full" } } }
            @if is_tcp(upstream) { (facts_of_tcp(upstream)) } @else {
                div { dt { "Requests per second" } dd {
                    b { (live("rates.requests.now", "rate", &format::rate(upstream.rates.requests.now))) }
                    ", peak " (live("rates.requests.peak", "rate", &format::rate(upstream.rates.requests.peak)))
                    ", " (live("requests", "count", &format::count(stats.requests))) " in total"
                } }
                div { dt { "Response time, P50, P99" } dd {
                    b { (live("response_time.p50_us", "micros", &format::micros(upstream.response_time.p50_us))) } ", "
                    b { (live("response_time.p99_us", "micros", &format::micros(upstream.response_time.p99_us))) }
                } }
            }
            div { dt { "Waiting" } dd {
                b { (live("queue_length.now", "count", &level(stats.queue_length.now))) }
                ", peak " (live("queue_length.peak", "count", &level(stats.queue_length.peak)))
                " of " (format::count(upstream.queue_length_max))
                @if stats.queued > 0 {
                    "; " (live("queued", "count", &format::count(stats.queued))) " waited, P50 "
                    (live("queue_time.p50_us", "micros", &format::micros(upstream.queue_time.p50_us))) ", P99 "
                    (live("queue_time.p99_us", "micros", &format::micros(upstream.queue_time.p99_us)))
                }
            } }
            div { dt { "Retries" } dd { (named(&upstream.retries, "retries")) } }
            @if !upstream.retries_refused.is_empty() {
                div { dt { "Not retried" } dd { (named(&upstream.retries_refused, "retries_refused")) } }
            }
            @if !upstream.affinity.is_empty() {
                div { dt { "Affinity" } dd { (named(&upstream.affinity, "affinity")) } }
            }
            div { dt { "Failures" } dd {
                @if upstream.failures.is_empty() { span.none { "none" } }
                (reasons(&upstream.failures))
            } }
        }
    }
}

fn facts_of_tcp(upstream: &UpstreamOverview) -> Markup {
    let rates = &upstream.rates;
    html! {
        div { dt { "Connections per second" } dd {
            b { (live("rates.connections.now", "rate", &format::rate(rates.connections.now))) }
            ", peak " (live("rates.connections.peak", "rate", &format::rate(rates.connections.peak)))
        } }
        div { dt { "Bytes per second, in, out" } dd {
            b { (live("rates.bytes_in.now", "bytes", &format::bytes(rates.bytes_in.now))) } ", "
            b { (live("rates.bytes_out.now", "bytes", &format::bytes(rates.bytes_out.now))) }
        } }
    }
}

/// Names with counts in one line.
fn named(counts: &[NamedCount], path: &str) -> Markup {
    let all: Vec<String> =
        counts.iter().map(|named| format!("{} {}", named.name, format::count(named.count))).collect();
    let text = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    live(path, "named", &text)
}

fn servers(index: usize, upstream: &UpstreamOverview, shown: &PageInput<'_>) -> Markup {
    // Unusable servers come first, the rest as the config has it.
    let mut order: Vec<_> = upstream.servers.iter().enumerate().collect();
    order.sort_compact_by_key(|(_, server)| !is_broken(server));
    html! {
        div.scroll { table.list.servers id={ "servers-" (index) } {
            caption.hidden { "Servers of " (upstream.name) }
            thead { tr {
                @if shown.page_token.is_some() { th.pick scope="col" { input type="checkbox" aria-label={ "Select all servers of " (upstream.name) } data-pick-all hidden; } }
                th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "In flight" }
                th scope="col" { (if is_tcp(upstream) { "Connections per second" } else { "Requests per second" }) }
                @if !is_tcp(upstream) { th scope="col" { "P50, P99" } }
                th scope="col" { "Bytes per second" } th scope="col" { "Failed attempts" } th scope="col" { "Connections" }
                @if shown.page_token.is_some() { th scope="col" { span.hidden { "Change" } } }
            } }
            tbody {
                @for (place, server) in order {
                    (row(index, place, upstream, server, shown))
                }
            }
        } }
    }
}

fn row(
    index: usize,
    place: usize,
    upstream: &UpstreamOverview,
    server: &ServerOverview,
    shown: &PageInput<'_>,
) -> Markup {
    let at_ms = shown.overview.process.at_ms;
    let stats = &server.stats;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        tr data-at={ "upstreams." (index) ".servers." (place) } {
            @if shown.page_token.is_some() { td.pick {
                @if server.status != ServerStatus::Leaving {
                    input type="checkbox" aria-label={ "Select " (server.name) " of " (upstream.name) } data-pick=(server.name) data-of=(upstream.name) hidden;
                }
            } }
            th scope="row" {
                span.part { (server.name) }
                @if server.address != server.name { span.small { (server.address) } }
                span.small { "weight " (live("weight", "count", &format::count(server.weight.into()))) @if server.is_backup { ", backup" } @if server.is_last_resort { ", last resort" } @if let Some(zone) = &server.zone { ", zone " (zone) } }
            }
            td data-label="State" {
                span.state data-v="status" data-f="status" data-is=(server.status.name()) { (server.status.name()) }
                span.small { "for " (live("since_ms", "since", &format::lasting(at_ms.saturating_sub(server.since_ms)))) }
                span.small.why { (live("why", "text", &server.why)) }
                @if let Some(probes) = &server.probes { (probed(probes.last_us, probes.failed)) }
            }
            td data-label="In flight" {
                b { (live("in_flight", "count", &format::count(server.in_flight.into()))) }
                @if let Some(max) = server.max_requests { " of " (format::count(max.into())) }
            }
            // An attempt on a server of TCP is a connection.
            td data-label=(if is_tcp(upstream) { "Connections per second" } else { "Requests per second" }) {
                b { (live("rates.requests.now", "rate", &format::rate(server.rates.requests.now))) }
                span.small { "peak " (live("rates.requests.peak", "rate", &format::rate(server.rates.requests.peak))) }
                span.small { (live("attempts", "count", &format::count(stats.attempts))) " in total" }
            }
            @if !is_tcp(upstream) { td data-label="P50, P99" {
                span { (live("response_time.p50_us", "micros", &format::micros(server.response_time.p50_us))) }
                span.small { (live("response_time.p99_us", "micros", &format::micros(server.response_time.p99_us))) }
            } }
            td data-label="Bytes per second" {
                span { "in " (live("rates.bytes_in.now", "bytes", &format::bytes(server.rates.bytes_in.now))) }
                span.small { "out " (live("rates.bytes_out.now", "bytes", &format::bytes(server.rates.bytes_out.now))) }
            }
            td data-label="Failed attempts" { (named(&server.failures, "failures")) }
            td data-label="Connections" {
                (live("connections_open.now", "count", &level(stats.connections_open.now))) " open"
                span.small {
                    (live("connections_idle.now", "count", &level(stats.connections_idle.now))) " idle, peak "
                    (live("connections_open.peak", "count", &level(stats.connections_open.peak)))
                }
                span.small { "reused " (live("reuse_percent", "percent", &format::percent(server.reuse_percent))) }
            }
            @if shown.page_token.is_some() { td.change {
                @if server.status != ServerStatus::Leaving {
                    button type="button" data-upstream=(upstream.name) data-server=(server.name) hidden { "Change…" span.hidden { " " (server.name) " of " (upstream.name) } }
                }
            } }
        }
    }
}

fn probed(last_us: u64, failed: u64) -> Markup {
    html! {
        span.small { "probe " (live("probes.last_us", "micros", &format::micros(Some(last_us)))) ", "
            (live("probes.failed", "count", &format::count(failed))) " failed" }
    }
}

/// The selection, and the button that changes all of it. `status.js` shows it.
pub(super) fn selection() -> Markup {
    html! {
        div #selection.selection role="region" aria-label="Selected servers" hidden {
            span { b #selection-count {} " selected" }
            button #selection-change type="button" { "Change…" }
            button #selection-clear type="button" { "Clear" }
        }
    }
}

/// Asks whether it is meant, and how. `status.js` opens it.
pub(super) fn dialog() -> Markup {
    let choice = |mode: &str, name: &str, what: &str| {
        html! { label { input type="radio" name="mode" value=(mode) required; span { b { (name) } span.small { (what) } } } }
    };
    html! {
        dialog #change aria-labelledby="change-heading" {
            form method="dialog" {
                h2 #change-heading { "Change " span #change-server {} }
                fieldset {
                    legend.hidden { "Mode" }
                    (choice("serving", "Serve", "The server gets its share of requests."))
                    (choice("draining", "Drain", "The server gets only requests with affinity to it. Running exchanges continue."))
                    (choice("maintenance", "Maintenance", "The server gets no requests. Running exchanges continue."))
                }
                label #change-deadline hidden { "End affinity after " input type="text" name="deadline" placeholder="never" size="8" autocomplete="off"; span.small { " such as 30s or 5m" } }
                label #change-weight {
                    span { b { "Weight" } span.small { "0 to 256; with 0 the server gets no new requests. Valid until the next reload." } }
                    input type="number" name="weight" min="0" max="256" step="1" required autocomplete="off";
                }
                p #change-warning.warning hidden {}
                p #change-said role="alert" {}
                p.buttons { button type="submit" value="change" { "Change" } button type="button" #change-cancel { "Cancel" } }
            }
        }
    }
}
