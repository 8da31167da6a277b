//! Tables of counters on the status page, where there are any.

use maud::{Markup, html};

use super::{format, limits, live};
use crate::overview::{Overview, TableOverview};

pub(super) fn section(overview: &Overview) -> Markup {
    html! {
        @if !overview.tables.is_empty() {
            section #tables aria-labelledby="tables-heading" {
                h2 #tables-heading { "Tables" }
                div.scroll { table.list {
                    caption.hidden { "Tables: counters by key" }
                    thead { tr {
                        th scope="col" { "Table" } th scope="col" { "Keys" } th scope="col" { "Evicted" }
                        th scope="col" { "Not counted" }
                    } }
                    tbody {
                        @for (index, table) in overview.tables.iter().enumerate() { (row(index, table)) }
                    }
                } }
                p.note { "Entries: " code { "show table NAME" } " of the runtime socket." }
            }
        }
    }
}

fn row(index: usize, table: &TableOverview) -> Markup {
    let count = |path: &str, value: u64| live(path, "count", &format::count(value));
    html! {
        tr data-at={ "tables." (index) } {
            th scope="row" {
                span.part { (table.name) }
                span.small { "by " code { (table.key) } }
                span.small { (table.counters.join(", ")) }
                @if let Some(shared) = &table.shared { (limits::sharing(shared)) }
            }
            td data-label="Keys" {
                b { (count("keys", table.keys)) }
                span.small { "of " (format::count(table.keys_max)) }
            }
            td data-label="Evicted" { (count("evictions", table.evictions)) }
            td data-label="Not counted" { (count("untracked", table.untracked)) }
        }
    }
}
