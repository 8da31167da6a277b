//! Upstreams and their servers on the status page, with the dialog by which a server is drained, taken out, or given another weight.

use maud::{Markup, html};

use super::{Shown, format, live, reasons};
use crate::overview::{NamedCount, ServerOverview, ServerStatus, UpstreamOverview};

/// More servers are folded away, where it takes a click to see them.
const SERVERS_OPEN_MAX: usize = 40;

/// All upstreams.
pub(super) fn sections(shown: &Shown<'_>) -> Markup {
    html! {
        @for (index, upstream) in shown.overview.upstreams.iter().enumerate() {
            (section(index, upstream, shown))
        }
    }
}

fn section(index: usize, upstream: &UpstreamOverview, shown: &Shown<'_>) -> Markup {
    let heading = format!("upstream-{index}");
    let (usable, all) = (upstream.servers_usable, upstream.servers.len());
    let folded = all > SERVERS_OPEN_MAX;
    html! {
        section.upstream aria-labelledby=(heading) data-at={ "upstreams." (index) } {
            h2 id=(heading) {
                span.part { (upstream.name) } " "
                span.small { (upstream.balance) ", " (live("servers_usable", "count", &format::count(usable as u64))) " of " (format::count(all as u64)) " servers usable" }
            }
            p.warning data-v="in_panic" data-f="panic" hidden[!upstream.figures.in_panic] {
                "Too few servers are usable: all of them get requests, whatever is known of them."
            }
            div.graphs hidden {
                figure { figcaption { "Requests per second " span.read {} } svg.graph data-graph="rate" viewBox="0 0 120 40" preserveAspectRatio="none" role="img" {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
                figure { figcaption { "Response time " span.key-p50 { "P50" } " " span.key-p99 { "P99" } " " span.read {} } svg.graph data-graph="time" viewBox="0 0 120 40" preserveAspectRatio="none" role="img" {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
                figure { figcaption { "Response times " span.read {} } canvas.graph data-graph="heat" width="120" height="21" role="img" {} span.peak {} span.bottom aria-hidden="true" { "2 min ago" span { "now" } } }
            }
            (facts(upstream))
            @if folded {
                details.servers { summary { "Servers " span.small { (format::count(all as u64)) } } (servers(index, upstream, shown)) }
            } @else { (servers(index, upstream, shown)) }
        }
    }
}

fn facts(upstream: &UpstreamOverview) -> Markup {
    let figures = &upstream.figures;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        dl.pairs {
            div { dt { "Requests per second" } dd {
                b { (live("rates.requests.now", "rate", &format::rate(upstream.rates.requests.now))) }
                ", peak " (live("rates.requests.peak", "rate", &format::rate(upstream.rates.requests.peak)))
                ", " (live("requests", "count", &format::count(figures.requests))) " in all"
            } }
            div { dt { "Response time, P50, P99" } dd {
                b { (live("response_time.p50_us", "micros", &format::micros(upstream.response_time.p50_us))) } ", "
                b { (live("response_time.p99_us", "micros", &format::micros(upstream.response_time.p99_us))) }
            } }
            div { dt { "Waiting" } dd {
                b { (live("queue_length.now", "count", &level(figures.queue_length.now))) }
                ", peak " (live("queue_length.peak", "count", &level(figures.queue_length.peak)))
                " of " (format::count(upstream.queue_length_max))
                @if figures.queued > 0 {
                    "; " (live("queued", "count", &format::count(figures.queued))) " waited, P50 "
                    (live("queue_time.p50_us", "micros", &format::micros(upstream.queue_time.p50_us))) ", P99 "
                    (live("queue_time.p99_us", "micros", &format::micros(upstream.queue_time.p99_us)))
                }
            } }
            div { dt { "Retries" } dd { (named(&upstream.retries, "retries")) } }
            @if !upstream.retries_refused.is_empty() {
                div { dt { "Not retried" } dd { (named(&upstream.retries_refused, "retries_refused")) } }
            }
            @if !upstream.persistence.is_empty() {
                div { dt { "Persistence" } dd { (named(&upstream.persistence, "persistence")) } }
            }
            div { dt { "Failures" } dd {
                @if upstream.failures.is_empty() { span.none { "none" } }
                (reasons(&upstream.failures))
            } }
        }
    }
}

/// Names with counts in one line.
fn named(counts: &[NamedCount], path: &str) -> Markup {
    let all: Vec<String> =
        counts.iter().map(|named| format!("{} {}", named.name, format::count(named.count))).collect();
    let text = if all.is_empty() { "none".to_owned() } else { all.join(", ") };
    live(path, "named", &text)
}

fn servers(index: usize, upstream: &UpstreamOverview, shown: &Shown<'_>) -> Markup {
    html! {
        div.scroll { table.list.servers {
            caption.hidden { "Servers of " (upstream.name) }
            thead { tr {
                th scope="col" { "Server" } th scope="col" { "State" } th scope="col" { "Runs" } th scope="col" { "Requests per second" }
                th scope="col" { "P50, P99" } th scope="col" { "Bytes per second" } th scope="col" { "Failed attempts" } th scope="col" { "Connections" }
                @if shown.page_token.is_some() { th scope="col" { span.hidden { "Change" } } }
            } }
            tbody {
                @for (place, server) in upstream.servers.iter().enumerate() {
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
    shown: &Shown<'_>,
) -> Markup {
    let at_ms = shown.overview.process.at_ms;
    let figures = &server.figures;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        tr data-at={ "upstreams." (index) ".servers." (place) } {
            th scope="row" {
                span.part { (server.name) }
                @if server.address != server.name { span.small { (server.address) } }
                span.small { "weight " (live("weight", "count", &format::count(server.weight.into()))) @if server.is_backup { ", backup" } }
            }
            td data-label="State" {
                span.state data-v="status" data-f="status" data-is=(server.status.name()) { (server.status.name()) }
                span.small { "for " (live("since_ms", "since", &format::lasting(at_ms.saturating_sub(server.since_ms)))) }
                span.small.why { (live("why", "text", &server.why)) }
                @if let Some(probes) = &server.probes { (probed(probes.last_us, probes.failed)) }
            }
            td data-label="Runs" {
                b { (live("in_flight", "count", &format::count(server.in_flight.into()))) }
                @if let Some(max) = server.max_requests { " of " (format::count(max.into())) }
            }
            td data-label="Requests per second" {
                b { (live("rates.requests.now", "rate", &format::rate(server.rates.requests.now))) }
                span.small { "peak " (live("rates.requests.peak", "rate", &format::rate(server.rates.requests.peak))) }
                span.small { (live("attempts", "count", &format::count(figures.attempts))) " in all" }
            }
            td data-label="P50, P99" {
                span { (live("response_time.p50_us", "micros", &format::micros(server.response_time.p50_us))) }
                span.small { (live("response_time.p99_us", "micros", &format::micros(server.response_time.p99_us))) }
            }
            td data-label="Bytes per second" {
                span { "in " (live("rates.bytes_in.now", "bytes", &format::bytes(server.rates.bytes_in.now))) }
                span.small { "out " (live("rates.bytes_out.now", "bytes", &format::bytes(server.rates.bytes_out.now))) }
            }
            td data-label="Failed attempts" { (named(&server.failures, "failures")) }
            td data-label="Connections" {
                (live("connections_open.now", "count", &level(figures.connections_open.now))) " open"
                span.small {
                    (live("connections_idle.now", "count", &level(figures.connections_idle.now))) " idle, peak "
                    (live("connections_open.peak", "count", &level(figures.connections_open.peak)))
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
                    (choice("serving", "Serve", "It gets its share of requests."))
                    (choice("draining", "Drain", "It gets only requests that are bound to it; what runs on it goes on."))
                    (choice("maintenance", "Maintenance", "It gets no request at all; what runs on it goes on."))
                }
                label #change-deadline hidden { "Those bound to it may stay for " input type="text" name="deadline" placeholder="for ever" size="8" autocomplete="off"; span.small { " such as 30s or 5m" } }
                label #change-weight {
                    span { b { "Weight" } span.small { "Its share, 0 to 256; with 0 it gets no new requests. Holds until the next reload of the config." } }
                    input type="number" name="weight" min="0" max="256" step="1" required autocomplete="off";
                }
                p #change-said role="alert" {}
                p.buttons { button type="submit" value="change" { "Change" } button type="button" #change-cancel { "Cancel" } }
            }
        }
    }
}
