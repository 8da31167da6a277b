//! Listeners and their routes on the status page.

use maud::{Markup, html};

use super::{format, live, reasons};
use crate::overview::{ListenerOverview, Overview, RouteOverview};

const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

pub(super) fn section(overview: &Overview) -> Markup {
    html! {
        section #listeners aria-labelledby="listeners-heading" {
            h2 #listeners-heading { "Listeners" }
            div.scroll { table.list {
                caption.hidden { "Listeners: where clients connect" }
                thead { tr {
                    th scope="col" { "Listener" } th scope="col" { "Requests per second" } th scope="col" { "Connections" }
                    th scope="col" { "Bytes per second" } th scope="col" { "Responses" } th scope="col" { "Failures" }
                } }
                tbody {
                    @for (index, listener) in overview.listeners.iter().enumerate() { (row(index, listener)) }
                }
            } }
            @for (index, listener) in overview.listeners.iter().enumerate() { (routes(index, listener)) }
        }
    }
}

fn row(index: usize, listener: &ListenerOverview) -> Markup {
    let stats = &listener.stats;
    let level = |value: i64| format::count(u64::try_from(value).unwrap_or(0));
    html! {
        tr data-at={ "listeners." (index) } {
            th scope="row" {
                span.part { (listener.name) }
                span.small { (listener.protocol) @if listener.has_tls { " over TLS" } }
                @if listener.maintenance.is_some() { span.small { "in maintenance" } }
                @for address in &listener.addresses { span.small { (address) } }
            }
            td data-label="Requests per second" {
                b { (live("rates.requests.now", "rate", &format::rate(listener.rates.requests.now))) }
                span.small { "peak " (live("rates.requests.peak", "rate", &format::rate(listener.rates.requests.peak))) }
                span.small { (live("requests", "count", &format::count(stats.requests))) " in total" }
            }
            td data-label="Connections" {
                b { (live("connections_open.now", "count", &level(stats.connections_open.now))) }
                span.small { "peak " (live("connections_open.peak", "count", &level(stats.connections_open.peak)))
                    @if let Some(max) = listener.connections_max { " of " (format::count(max.into())) } }
                span.small { (live("connections", "count", &format::count(stats.connections))) " in total" }
                @if stats.http2_connections > 0 {
                    span.small { (live("http2_connections_open.now", "count", &level(stats.http2_connections_open.now))) " of HTTP/2 with "
                        (live("streams_open.now", "count", &level(stats.streams_open.now))) " streams" }
                }
                @if stats.http3_connections > 0 {
                    span.small { (live("http3_connections_open.now", "count", &level(stats.http3_connections_open.now))) " of HTTP/3" }
                }
                @if stats.tunnels > 0 || listener.protocol == "tcp" {
                    span.small { (live("tunnels_open.now", "count", &level(stats.tunnels_open.now))) " tunnels, "
                        (live("tunnels", "count", &format::count(stats.tunnels))) " in total" }
                }
            }
            td data-label="Bytes per second" {
                span { "in " (live("rates.bytes_in.now", "bytes", &format::bytes(listener.rates.bytes_in.now))) }
                span.small { "out " (live("rates.bytes_out.now", "bytes", &format::bytes(listener.rates.bytes_out.now))) }
                span.small { "in total " (live("bytes_in", "bytes", &format::bytes(stats.bytes_in as f64))) ", "
                    (live("bytes_out", "bytes", &format::bytes(stats.bytes_out as f64))) }
            }
            td data-label="Responses" {
                @if listener.protocol == "tcp" { (format::NOTHING) } @else {
                    ul.classes {
                        @for (class, name) in CLASSES.iter().enumerate().skip(1) {
                            li class={ "class-" (name) @if stats.responses[class] > 0 { " some" } } { (name) " " (live(&format!("responses.{class}"), "responses", &format::count(stats.responses[class]))) }
                        }
                    }
                }
            }
            td data-label="Failures" {
                @if listener.failures.is_empty() { span.none { "none" } }
                (reasons(&listener.failures))
            }
        }
    }
}

/// What the mirror of a route was sent, and how many of its responses differ.
fn mirror(route: &RouteOverview) -> Markup {
    let figures = &route.stats.mirror;
    let number = |path: &str, count: u64| live(path, "count", &format::count(count));
    html! {
        @if !figures.is_unused() {
            div.small {
                (number("mirror.requests", figures.requests)) " copied, "
                (number("mirror.failures", figures.failures)) " failed"
                @if figures.compared > 0 {
                    ", " (number("mirror.compared", figures.compared)) " compared: "
                    (number("mirror.differences.0", figures.differences[0])) " differ in status, "
                    (number("mirror.differences.1", figures.differences[1])) " in headers, "
                    (number("mirror.differences.2", figures.differences[2])) " in the body"
                }
            }
        }
    }
}

fn routes(index: usize, listener: &ListenerOverview) -> Markup {
    html! {
           @if !listener.routes.is_empty() {
               details {
                   summary { "Routes of " (listener.name) " " span.small { (listener.routes.len()) } }
                   div.scroll { table.list {
                       thead { tr { th scope="col" { "Route" } th scope="col" { "Matches" } th scope="col" { "Action" }
    th scope="col" { "Requests" }
    th scope="col" { "Failed" } } }
                       tbody { @for (place, route) in listener.routes.iter().enumerate() { tr data-at={ "listeners." (index) ".routes." (place) } {
                           th scope="row" { (route.name) }
                           td data-label="Matches" { (route.matches) }
                           td data-label="Action" { (route.action) (mirror(route)) }
    td data-label="Requests" { (live("requests", "count", &format::count(route.stats.requests))) }
    td data-label="Failed" { (live("failures", "count", &format::count(route.stats.failures))) }
                       } } }
                   } }
               }
           }
       }
}
