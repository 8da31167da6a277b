//! Changes of response fields of a route, collected until all of them are there: one rule for each set of statuses.

use crate::document::DraftTable;
use crate::source::Statement;

/// A field of servers that clients do not get. Such fields are removed before others are added.
pub(super) fn removed(route: &mut DraftTable, name: &str, statement: &Statement) {
    let table = rule(route, None);
    table.push_once("remove", name.to_ascii_lowercase(), statement);
}

/// Fields that Weir alone writes: they frame a message, or are about a connection.
pub(super) const FRAMING: [&str; 9] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "http2-settings",
];

/// Where rules are collected until all of them are there.
pub(super) const RULES: &str = "response_headers rules";

/// The rule for these statuses.
pub(super) fn rule<'r>(route: &'r mut DraftTable, status: Option<&str>) -> &'r mut DraftTable {
    let found = route.tables(RULES).iter().position(|table| table.text("status") == status);
    let index = found.unwrap_or_else(|| {
        let mut table = DraftTable::default();
        if let Some(status) = status {
            table.set_plain("status", status);
        }
        route.push_table(RULES, table);
        route.tables(RULES).len() - 1
    });
    &mut route.tables_mut(RULES)[index]
}

/// One rule is a table, several are a list.
pub(super) fn finish(route: &mut DraftTable) {
    let rules: Vec<DraftTable> = route.tables(RULES).to_vec();
    route.remove(RULES);
    let rules: Vec<DraftTable> = rules.into_iter().filter(|rule| !rule.is_empty()).collect();
    match rules.as_slice() {
        [] => {}
        [only] => route.table("response_headers").merge(only),
        _ => rules.into_iter().for_each(|rule| route.push_table("response_headers", rule)),
    }
}
