//! Caches of responses on the status page, where there are any.

use maud::{Markup, html};

use super::{format, live};
use crate::overview::{CacheOverview, Overview};

pub(super) fn section(overview: &Overview) -> Markup {
    html! {
        @if !overview.caches.is_empty() {
            section #caches aria-labelledby="caches-heading" {
                h2 #caches-heading { "Caches" }
                div.scroll { table.list {
                    caption.hidden { "Caches: requests by what the cache did, and what it holds" }
                    thead { tr {
                        th scope="col" { "Cache" } th scope="col" { "From the cache" } th scope="col" { "From servers" }
                        th scope="col" { "Responses" } th scope="col" { "Memory" }
                    } }
                    tbody {
                        @for (index, cache) in overview.caches.iter().enumerate() { (row(index, cache)) }
                    }
                } }
            }
        }
    }
}

fn row(index: usize, cache: &CacheOverview) -> Markup {
    let count = |path: &str, value: u64| live(path, "count", &format::count(value));
    let result = |name: &str| {
        let value = cache.requests.get(name).copied().unwrap_or(0);
        count(&format!("requests.{name}"), value)
    };
    html! {
        tr data-at={ "caches." (index) } {
            th scope="row" { span.part { (cache.name) } }
            td data-label="From the cache" {
                b { (result("hit")) }
                span.small { (result("stale")) " stale, " (result("revalidated")) " confirmed" }
                span.small { (result("collapsed")) " fetched by another request" }
            }
            td data-label="From servers" {
                b { (result("miss")) }
                span.small { (result("bypass")) " past the cache" }
            }
            td data-label="Responses" {
                b { (count("responses", cache.responses)) }
                span.small { (count("stored", cache.stored)) " stored, " (count("not_stored", cache.not_stored)) " not" }
                @if let Some(files) = cache.disk_files { span.small { (count("disk_files", files)) " in files" } }
            }
            td data-label="Memory" {
                b { (format::bytes(cache.memory_bytes as f64)) }
                span.small { "of " (format::bytes(cache.memory_bytes_max as f64)) }
            }
        }
    }
}
