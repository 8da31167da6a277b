//! `mirror`: copies of requests, to where the location of their URI leads.

use super::super::passes;
use super::super::scope::Scope;
use super::authentication::location;
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    if let Some((statement, text)) = scope.text("mirror_request_body") {
        match text {
            "on" => scope.ledger.by_default(statement, "copies have the body, up to `body_max`"),
            _ => scope.ledger.approximated(statement, "copies have the body of the request"),
        }
    }
    for statement in scope.all("mirror") {
        let uri = scope.words(statement).text().unwrap_or_default();
        if uri == "off" {
            scope.ledger.by_default(statement, "requests are not copied");
            continue;
        }
        let Some((place, target)) = location(scope, uri) else {
            scope.ledger.unsupported(
                statement,
                "the location of the copy is not in this server; set `mirror` of the route",
            );
            continue;
        };
        let Some(pass) = target.children().iter().rfind(|child| child.name() == "proxy_pass") else {
            scope.ledger.unsupported(
                statement,
                "the location of the copy has no `proxy_pass`; set `mirror` of the route",
            );
            continue;
        };
        copy(scope, &place, draft, route, statement, target, pass);
    }
    if let [only] = route.tables("mirror") {
        let only = only.clone();
        route.remove("mirror");
        *route.table("mirror") = only;
    }
}

fn copy<'s>(
    scope: &Scope<'s>,
    place: &Scope<'s>,
    draft: &mut Draft,
    route: &mut DraftTable,
    statement: &'s Statement,
    location: &'s Statement,
    pass: &'s Statement,
) {
    let mut target = DraftTable::default();
    passes::pass(place, draft, &mut target, pass);
    let Some(upstream) = target.text("upstream").map(str::to_owned) else {
        return scope
            .ledger
            .unsupported(statement, "the server of the copy is not known; set `mirror` of the route");
    };
    let mut mirror = DraftTable::of(statement);
    mirror.set("upstream", upstream, statement);
    // Without `$request_uri`, the copy has the path of its own location.
    let keeps_path = pass.words.get(1).is_some_and(|word| word.text.contains("$request_uri"));
    if !keeps_path {
        let uri = statement.words.get(1).map_or("/", |word| word.text.as_str());
        mirror.set_plain("path", format!("{uri}{{query}}"));
    }
    mirror.set_plain("methods", vec!["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"]);
    if let Some(host) = target.text("forward_host") {
        mirror.set_plain("forward_host", host);
    }
    route.push_table("mirror", mirror);
    scope.ledger.words(location).rest();
    scope.ledger.exact(location);
    for child in location.children().iter().filter(|child| child.name() == "internal") {
        scope.ledger.exact(child);
    }
    scope.ledger.approximated(
        statement,
        "copies are sent once the response was relayed; those of long bodies (`body_max`) are not, and they have the field `x-weir-mirror`",
    );
}
