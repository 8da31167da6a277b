//! All that a place says beside what it does: fields, limits, access, compression, caches, logs.

use super::super::hoist::OF_ROUTE;
use super::scope::Scope;
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

// Addresses, passwords, and another server that decides.
mod access;
// Stored responses.
mod cache;
// `gzip`, `brotli`, `zstd`, `gunzip`.
mod compression;
// What is about files.
mod files;
// Fields of responses.
mod headers;
// `limit_req`, `limit_conn`, `limit_rate`.
mod limits;
// What holds for a listener as a whole.
mod listener;
// Copies of requests.
mod mirror;
// `sub_filter`.
mod rewriting;
// Passwords and questions to another server.
mod authentication;

/// All else of a location; what the route does (`upstream`, `files`, `respond`, `redirect`) is set already.
pub(in crate::nginx) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    if route.has("then") {
        goes_on(scope);
        return close_what_is_not_asked(scope, route);
    }
    headers::apply(scope, route);
    if answers_early(scope, route) {
        never_asked(scope);
    } else {
        access::apply(scope, draft, route);
        authentication::apply(scope, draft, route);
        limits::apply(scope, draft, route);
    }
    compression::apply(scope, route);
    rewriting::apply(scope, route);
    files::apply(scope, route);
    mirror::apply(scope, draft, route);
    cache::apply(scope, draft, route);
    super::logs::of_place(scope, draft, route);
    if scope.is_on("proxy_intercept_errors")
        || scope.is_on("fastcgi_intercept_errors")
        || scope.is_on("grpc_intercept_errors")
    {
        for page in route.tables_mut("error_pages") {
            page.set_plain("of_servers", true);
        }
    }
    close_what_is_not_asked(scope, route);
}

/// Directives of other modules that decide about requests.
const OF_OTHER_MODULES: [&str; 13] = [
    "access_by_lua",
    "access_by_lua_block",
    "access_by_lua_file",
    "rewrite_by_lua",
    "rewrite_by_lua_block",
    "rewrite_by_lua_file",
    "content_by_lua",
    "content_by_lua_block",
    "content_by_lua_file",
    "js_access",
    "js_content",
    "auth_gss",
    "perl",
];

/// A place whose access rules cannot be said answers no request: it is not open because of that.
fn close_what_is_not_asked(scope: &Scope<'_>, route: &mut DraftTable) {
    let names =
        ["allow", "deny", "satisfy", "auth_basic", "auth_basic_user_file", "auth_request", "auth_jwt"];
    let scripts: Vec<&Statement> = OF_OTHER_MODULES.iter().flat_map(|name| scope.all(name)).collect();
    for script in &scripts {
        let advice =
            "what another module decides about requests, a server can decide: `forward_auth`, or an upstream";
        scope.ledger.unsupported(script, advice);
    }
    let mut rules = names.iter().flat_map(|name| scope.all(name)).chain(scripts);
    let Some(statement) = rules.find(|statement| scope.ledger.is_unsupported(statement)) else { return };
    let other: Vec<String> = route.keys().filter(|key| !OF_ROUTE.contains(key)).map(str::to_owned).collect();
    other.iter().for_each(|key| route.remove(key));
    route.table("respond").set("status", 501, statement);
}

/// Whether `return` or `rewrite` answers, which nginx does before it asks for access and limits.
fn answers_early(scope: &Scope<'_>, route: &DraftTable) -> bool {
    fn returns(statements: &[Statement]) -> bool {
        statements.iter().any(|one| one.name() == "return" || (one.name() == "if" && returns(one.children())))
    }
    route.has("redirect")
        || (route.has("respond") && scope.levels_of_text().iter().any(|level| returns(level)))
}

/// Access and limits of a place that answers before they are asked.
fn never_asked(scope: &Scope<'_>) {
    for name in
        ["allow", "deny", "satisfy", "auth_basic", "auth_request", "limit_req", "limit_conn", "limit_rate"]
    {
        for statement in scope.own(name) {
            scope.ledger.words(statement).rest();
            scope.ledger.meaningless(
                statement,
                "`return` answers before access and limits are asked, in nginx as here",
            );
        }
    }
}

/// A place whose requests go on to another one, which says all that holds for them. nginx has asked for access here as well.
fn goes_on(scope: &Scope<'_>) {
    for name in ["allow", "deny", "auth_basic", "auth_request", "limit_req", "limit_conn"] {
        for statement in scope.own(name) {
            scope.ledger.unsupported(statement, "requests go on to another location: say it there");
        }
    }
    for name in
        ["add_header", "expires", "access_log", "gzip", "sub_filter", "limit_rate", "proxy_set_header"]
    {
        for statement in scope.own(name) {
            scope.ledger.words(statement).rest();
            scope.ledger.meaningless(statement, "requests go on to another location, whose directives count");
        }
    }
}

/// Directives of a server that are keys of the listener.
pub(in crate::nginx) fn of_listener(scope: &Scope<'_>, draft: &mut Draft, listener: &mut DraftTable) {
    listener::apply(scope, draft, listener);
}

/// `allow` and `deny` alone, for connections of TCP.
pub(super) fn access(scope: &Scope<'_>, draft: &mut Draft, listener: &mut DraftTable) {
    access::apply(scope, draft, listener);
}

/// Sets a key that several servers of a listener may ask for: the first one counts, as nginx's default server does.
fn set_once(
    scope: &Scope<'_>,
    table: &mut DraftTable,
    key: &str,
    value: impl Into<crate::document::TomlValue>,
    from: &Statement,
) {
    let value = value.into();
    match table.get(key) {
        None => {
            table.set(key, value, from);
            scope.ledger.exact(from);
        }
        Some(known) if *known == value => scope.ledger.exact(from),
        Some(_) => scope.ledger.approximated(from, "all servers of a listener have what the first one says"),
    }
}

/// A name of Weir for what a place is: the path of its location.
fn place_name(scope: &Scope<'_>, fallback: &str) -> String {
    use super::scope::NginxPlace;
    let text = match &scope.place {
        NginxPlace::Prefix(path) | NginxPlace::Exact(path) => path.trim_matches('/').to_owned(),
        _ => String::new(),
    };
    if text.is_empty() { fallback.to_owned() } else { super::upstreams::name_of(&text.replace('/', "-")) }
}

/// Closes the connections of all requests of a route, whatever other lists say: `return` comes before `allow` and `deny`.
pub(in crate::nginx) fn close(draft: &mut Draft, route: &mut DraftTable, statement: &Statement) {
    let mut list = DraftTable::default();
    list.set("action", "close", statement);
    // Of clients on Unix sockets as well, which have no address.
    list.set_plain("when", "true");
    let name = named(draft, "list", "closed", &list);
    route.remove("satisfy");
    route.set("lists", vec![name], statement);
}

/// Makes a table under a name, or finds one that is the same: `[list.NAME]` and its like. Returns its name.
fn named(draft: &mut Draft, kind: &str, base: &str, table: &DraftTable) -> String {
    let tables = draft.table(&[kind]);
    let same = tables.keys().find(|name| tables.get_table(name) == Some(table)).map(str::to_owned);
    if let Some(name) = same {
        return name;
    }
    let names = std::iter::once(base.to_owned()).chain((2..).map(|number| format!("{base}-{number}")));
    for name in names {
        if !tables.has(&name) {
            *tables.table(&name) = table.clone();
            return name;
        }
    }
    unreachable!("there is always another number")
}
