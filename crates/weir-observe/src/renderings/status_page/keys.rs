//! Keys of tokens that are fetched from servers on the status page, where there are any.

use maud::{Markup, html};

use super::{format, live};
use crate::overview::{KeysOverview, Overview};

pub(super) fn section(overview: &Overview) -> Markup {
    html! {
        @if !overview.keys.is_empty() {
            section #keys aria-labelledby="keys-heading" {
                h2 #keys-heading { "Keys of tokens" }
                div.scroll { table.list {
                    caption.hidden { "Keys of tokens: where they are fetched from, and how that goes" }
                    thead { tr {
                        th scope="col" { "From" } th scope="col" { "Keys" } th scope="col" { "Fetches" }
                        th scope="col" { "Unchanged" } th scope="col" { "Failed" } th scope="col" { "Last failure" }
                    } }
                    tbody {
                        @for (index, keys) in overview.keys.iter().enumerate() { (row(index, keys)) }
                    }
                } }
            }
        }
    }
}

fn row(index: usize, keys: &KeysOverview) -> Markup {
    let count = |path: &str, value: u64| live(path, "count", &format::count(value));
    html! {
        tr data-at={ "keys." (index) } {
            th scope="row" { span.part { (keys.upstream) } span.small { (keys.path) } }
            td data-label="Keys" {
                @match keys.keys {
                    Some(number) => b { (count("keys", number)) },
                    None => b { "none yet" },
                }
            }
            td data-label="Fetches" { (count("fetches", keys.fetches)) }
            td data-label="Unchanged" { (count("unchanged", keys.unchanged)) }
            td data-label="Failed" { (count("failures", keys.failures)) }
            td data-label="Last failure" { (keys.last_failure.as_deref().unwrap_or("-")) }
        }
    }
}
