//! Limits by key on the status page, where there are any.

use maud::{Markup, html};

use super::{format, live};
use crate::overview::{LimitOverview, Overview, SharedOverview};

/// Keys that a row shows.
const KEYS_SHOWN: usize = 5;

pub(super) fn section(overview: &Overview) -> Markup {
    html! {
        @if !overview.limits.is_empty() {
            section #limits aria-labelledby="limits-heading" {
                h2 #limits-heading { "Limits" }
                div.scroll { table.list {
                    caption.hidden { "Limits: requests by key" }
                    thead { tr {
                        th scope="col" { "Limit" } th scope="col" { "Passed" } th scope="col" { "Refused" }
                        th scope="col" { "Keys" } th scope="col" { "Refused most, when the page was loaded" }
                    } }
                    tbody {
                        @for (index, limit) in overview.limits.iter().enumerate() { (row(index, limit)) }
                    }
                } }
            }
        }
    }
}

pub(super) fn sharing(shared: &SharedOverview) -> Markup {
    html! {
        @if shared.is_up {
            span.small {
                "shared in " code { (shared.store) }
                @if let Some(master) = &shared.master { ", master " code { (master) } }
            }
        } @else {
            span.small { b { "of this node alone: " } (shared.error.as_deref().unwrap_or("no exchange yet")) }
        }
    }
}

fn row(index: usize, limit: &LimitOverview) -> Markup {
    let count = |path: &str, value: u64| live(path, "count", &format::count(value));
    html! {
        tr data-at={ "limits." (index) } {
            th scope="row" {
                span.part { (limit.name) }
                span.small { (limit.rule) }
                span.small { "by " code { (limit.key) } }
                @if limit.is_dry_run { span.small { "dry run" } }
                @if let Some(shared) = &limit.shared { (sharing(shared)) }
            }
            td data-label="Passed" {
                b { (count("passed", limit.passed)) }
                span.small { (count("delayed", limit.delayed)) " after a wait" }
                @if limit.is_dry_run { span.small { (count("excess", limit.excess)) " over the limit" } }
            }
            td data-label="Refused" { b { (count("refused", limit.refused)) } }
            td data-label="Keys" {
                b { (count("keys", limit.keys)) }
                span.small { "of " (format::count(limit.keys_max)) }
                @if limit.evictions > 0 { span.small { (count("evictions", limit.evictions)) " forgotten" } }
            }
            td data-label="Refused most" {
                @if limit.top.is_empty() { span.none { "none" } }
                @for key in limit.top.iter().take(KEYS_SHOWN) {
                    span.small { code { (key.key) } " " (format::count(key.count)) }
                }
            }
        }
    }
}
