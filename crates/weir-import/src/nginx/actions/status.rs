//! `stub_status`: the admin listener writes the same text, and the location passes requests on to it.

use crate::document::{Draft, DraftTable, TomlValue};
use crate::nginx::scope::Scope;
use crate::source::Statement;

/// Where the admin listener is, unless the config has one.
const ADDRESS: &str = "127.0.0.1:8404";

/// The upstream that is the admin listener.
const NAME: &str = "weir-admin";

/// Sets that a location shows the counts of the process.
pub(in crate::nginx) fn status(
    scope: &Scope<'_>,
    draft: &mut Draft,
    statement: &Statement,
    route: &mut DraftTable,
) {
    // Of old it had a word behind it, which means nothing.
    scope.ledger.words(statement).rest();
    let admin = draft.table(&["admin"]);
    if !admin.has("address") {
        admin.set("address", ADDRESS, statement);
    }
    let upstream = draft.table(&["upstream", NAME]);
    upstream.set("servers", vec![ADDRESS], statement);
    route.set("upstream", NAME, statement);
    route.set_plain("forward_host", "server");
    let rule = TomlValue::inline([
        ("pattern", "^".into()),
        ("replacement", "/stub_status".into()),
        ("flag", "break".into()),
    ]);
    route.push("rewrite", rule, statement);
    let difference = "the counts are those of Weir: `Reading` is always 0, every accepted connection is handled, this request is one of them, and the answer has the header fields of the admin listener; on this machine, the address of `[admin]` has more";
    scope.ledger.approximated(statement, difference);
}
