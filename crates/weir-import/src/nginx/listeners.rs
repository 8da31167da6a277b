//! Listeners: one for all addresses that the same servers share, with the routes of these servers.

use super::arrange::{self, ArrangedServer};
use super::http3;
use super::leaves::{features, tls};
use super::locations::NginxMatcher;
use super::rewrite::NginxTest;
use super::routes::{self, ServerRoutes};
use super::scope::Scope;
use super::servers::{self, ListenerGroup, NginxServer, ServerNames};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

/// Makes listeners of servers.
pub(super) fn translate<'s>(scope: &Scope<'s>, draft: &mut Draft, servers: &[NginxServer<'s>]) {
    let mut groups = servers::by_address(servers);
    http3::settle(scope, servers, &mut groups);
    let groups = servers::joined(groups);
    let mut names: Vec<String> = Vec::new();
    for (at, group) in groups.iter().enumerate() {
        let name = name(group, &groups, &names);
        let has_comments = !groups[..at].iter().any(|before| before.default == group.default);
        let table = listener(scope, draft, group, servers, has_comments);
        *draft.table(&["listener", &name]) = table;
        names.push(name);
    }
}

/// `http`, `https`, or by the port.
fn name(group: &ListenerGroup<'_>, groups: &[ListenerGroup<'_>], taken: &[String]) -> String {
    let kind = if group.tls { "https" } else { "http" };
    let usual = if group.tls { "443" } else { "80" };
    let is_only = groups.iter().filter(|other| other.tls == group.tls).count() == 1;
    let wish = match group.port() {
        Some(port) if port == usual || is_only => kind.to_owned(),
        Some(port) => format!("{kind}-{port}"),
        None if group.addresses.iter().all(|address| address.starts_with("unix:")) => "unix".to_owned(),
        None => kind.to_owned(),
    };
    let numbered = (2..).map(|number| format!("{wish}-{number}"));
    std::iter::once(wish.clone()).chain(numbered).find(|name| !taken.contains(name)).unwrap_or(wish)
}

fn listener<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    group: &ListenerGroup<'s>,
    servers: &[NginxServer<'s>],
    has_comments: bool,
) -> DraftTable {
    let default = &servers[group.default];
    let mut table = match default.statement {
        Some(statement) if has_comments => DraftTable::of(statement),
        Some(statement) => DraftTable::silently_of(statement),
        None => DraftTable::default(),
    };
    let address = match group.addresses.as_slice() {
        [one] => TomlValue::from(one.as_str()),
        several => TomlValue::from(several.to_vec()),
    };
    match group.listen.statement {
        Some(statement) => table.set("address", address, statement),
        None => table.set_plain("address", address),
    }
    group.listen.apply(&mut table);
    proxy_protocol(scope, group, default, &mut table);
    let order = std::iter::once(group.default)
        .chain(group.servers.iter().copied().filter(|one| *one != group.default));
    for server in order.map(|index| &servers[index]) {
        let inner = server_scope(scope, server);
        features::of_listener(&inner, draft, &mut table);
        if group.tls {
            tls::apply(&inner, draft, &mut table);
        }
    }
    if group.tls {
        tls::refuse_names(&server_scope(scope, default), &mut table);
    }
    http2(scope, group, servers, &mut table);
    http3::write(&server_scope(scope, default), group, &mut table);
    routes_of(scope, draft, group, servers, &mut table);
    table
}

fn server_scope<'s>(scope: &Scope<'s>, server: &NginxServer<'s>) -> Scope<'s> {
    let mut inner = scope.within(server.block);
    server.define_groups(&mut inner);
    inner
}

/// nginx takes a header of every peer; whom it believes is a matter of `set_real_ip_from`.
fn proxy_protocol<'s>(
    scope: &Scope<'s>,
    group: &ListenerGroup<'s>,
    default: &NginxServer<'s>,
    table: &mut DraftTable,
) {
    let (true, Some(statement)) = (group.proxy_protocol, group.listen.statement) else { return };
    let inner = server_scope(scope, default);
    let believes =
        inner.one("real_ip_header").is_some_and(|one| inner.words(one).text() == Some("proxy_protocol"));
    let mut from: Vec<String> = Vec::new();
    if believes {
        for one in inner.all("set_real_ip_from") {
            from.extend(inner.words(one).text().map(ToOwned::to_owned));
            inner.ledger.exact(one);
        }
        inner.all("real_ip_header").iter().for_each(|one| inner.ledger.exact(one));
    }
    let difference = if from.is_empty() {
        "the address in the header is that of the client for logs, limits and servers, from whatever address it came"
    } else {
        "connections of other peers than those of `set_real_ip_from` must not begin with such a header"
    };
    scope.ledger.approximated(statement, difference);
    if from.is_empty() {
        from = vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()];
    }
    let from = from
        .into_iter()
        .map(|one| if one == "unix:" { "unix".to_owned() } else { crate::networks::network(&one) });
    table.table("proxy_protocol").set("from", TomlValue::from(from.collect::<Vec<_>>()), statement);
}

fn http2<'s>(
    scope: &Scope<'s>,
    group: &ListenerGroup<'s>,
    servers: &[NginxServer<'s>],
    table: &mut DraftTable,
) {
    let mut is_on = group.http2;
    for server in group.servers.iter().map(|index| &servers[*index]) {
        if let Some(statement) = server_scope(scope, server).one("http2") {
            is_on |= scope.words(statement).text() == Some("on");
            scope.ledger.exact(statement);
        }
    }
    match (group.tls, is_on) {
        (true, false) => table.table("http2").set_plain("enabled", false),
        (false, true) => table.table("http2").set_plain("prior_knowledge", "allowed"),
        _ => {}
    }
}

fn routes_of<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    group: &ListenerGroup<'s>,
    servers: &[NginxServer<'s>],
    table: &mut DraftTable,
) {
    let is_alone = group.servers.len() == 1;
    let names = distinct_names(scope, group, servers);
    let mut arranged = Vec::new();
    let mut route_names: Vec<String> = Vec::new();
    for (index, names) in group.servers.iter().zip(&names) {
        let server = &servers[*index];
        let is_default = *index == group.default;
        if let Some(statement) = names.statement.or(server.statement)
            && !is_default
            && names.is_empty()
        {
            let difference = "no host leads here: another server of the address takes them";
            scope.ledger.approximated(statement, difference);
        }
        let mut inner = server_scope(scope, server);
        inner.has_tls = Some(group.tls);
        inner.is_default = is_default;
        // What no location takes has pages and fields, too; directives alone have to be of something.
        let has_location = server.block.iter().any(|one| one.name() == "location");
        let is_always = |one: &&Statement| one.words.iter().skip(3).any(|word| word.text == "always");
        let needs_all = !is_alone
            || !has_location
            || inner.one("error_page").is_some()
            || inner.all("add_header").iter().any(is_always);
        let ServerRoutes { mut routes, rewrites } =
            routes::routes(&inner, draft, server, is_alone, needs_all);
        if !rewrites.is_empty() {
            table.set_plain("rewrite", TomlValue::Array(rewrites));
        } else if is_alone {
            slashes(&mut routes, table);
        }
        without_circles(scope, group, (names, is_default), &mut routes);
        rename(&mut routes, &mut route_names);
        // Taken for every host, it would redirect to itself: nginx does that, too, where no other file has a server for that host.
        let is_circle = is_alone && leads_to_another_host(&routes, names);
        if let (true, Some(statement)) = (is_circle, names.statement) {
            let difference = "requests for other hosts are answered 404: nginx redirects them as well, and those for the target in a circle";
            scope.ledger.approximated(statement, difference);
        }
        let is_default = is_default && !is_circle;
        arranged.push(ArrangedServer { names, is_default, routes });
    }
    arranged.retain(|server| server.is_default || !server.names.is_empty());
    arrange::arrange(&arranged, table);
    if table.tables("route").is_empty() && !table.has("upstream") {
        let mut rest = DraftTable::default();
        rest.table("respond").set_plain("status", 404);
        table.push_table("route", rest);
    }
}

/// Routes that redirect all that they take to itself, which clients give up after some rounds.
fn without_circles(
    scope: &Scope<'_>,
    group: &ListenerGroup<'_>,
    (names, is_default): (&ServerNames<'_>, bool),
    routes: &mut [routes::RouteDraft],
) {
    let (scheme, usual) = if group.tls { ("https", "443") } else { ("http", "80") };
    // One that is written out is where the request is only if the server has no other.
    let only = match names.exact.as_slice() {
        [only] if !is_default && names.wildcards.is_empty() && names.tests.is_empty() => Some(only.as_str()),
        _ => None,
    };
    let hosts = only.into_iter().chain(["{host}", "{authority}"]);
    let circles: Vec<String> = hosts.map(|host| format!("{scheme}://{host}{{path}}{{query}}")).collect();
    if group.port() != Some(usual) {
        return;
    }
    for route in routes {
        let takes_all = matches!(&route.matcher, NginxMatcher::Any)
            || matches!(&route.matcher, NginxMatcher::Prefix(path) if path == "/");
        let to = route.table.get_table("redirect").and_then(|redirect| redirect.text("to"));
        let is_circle = to.is_some_and(|to| circles.iter().any(|circle| circle == to));
        if !takes_all || route.test != NginxTest::Known(true) || !is_circle {
            continue;
        }
        route.table.remove("redirect");
        route.table.table("respond").set_plain("status", 508);
        if let Some(statement) = names.statement.or(group.listen.statement) {
            let difference = "all requests are redirected to where they are: clients give that up after some rounds, here they are answered 508";
            scope.ledger.approximated(statement, difference);
        }
    }
}

/// Whether a server redirects everything to a host that is written out and none of its own.
fn leads_to_another_host(routes: &[routes::RouteDraft], names: &ServerNames<'_>) -> bool {
    let targets = routes.iter().filter(|route| {
        route.test == NginxTest::Known(true)
            && match &route.matcher {
                NginxMatcher::Any => true,
                NginxMatcher::Prefix(path) => path == "/",
                _ => false,
            }
    });
    let mut hosts = targets.filter_map(|route| {
        let to = route.table.get_table("redirect")?.text("to")?;
        let (_, rest) = to.split_once("://")?;
        let end = rest.find(['/', '{', '?', ':']).unwrap_or(rest.len());
        Some(&rest[..end])
    });
    !names.exact.is_empty()
        && hosts.any(|host| !host.is_empty() && !names.exact.iter().any(|name| name == host))
}

/// The names of each server, without those that an earlier one has on this address.
fn distinct_names<'s>(
    scope: &Scope<'s>,
    group: &ListenerGroup<'s>,
    servers: &[NginxServer<'s>],
) -> Vec<ServerNames<'s>> {
    let mut taken = std::collections::HashSet::new();
    let mut all = Vec::new();
    for server in group.servers.iter().map(|index| &servers[*index]) {
        let mut fresh = |names: &[String]| -> Vec<String> {
            names
                .iter()
                .filter(|name| {
                    let is_fresh = taken.insert((*name).clone());
                    if let (false, Some(statement)) = (is_fresh, server.names.statement) {
                        scope.ledger.approximated(statement, &format!("`{name}` is a name of an earlier server: that one gets its requests, as in nginx"));
                    }
                    is_fresh
                })
                .cloned()
                .collect()
        };
        all.push(server.names.with(fresh(&server.names.exact), fresh(&server.names.wildcards)));
    }
    all
}

/// Paths to which a slash is added, in one rewrite.
fn slashes(routes: &mut Vec<routes::RouteDraft>, table: &mut DraftTable) {
    let paths: Vec<String> = routes
        .iter()
        .filter(|route| route.adds_slash && route.test == NginxTest::Known(true))
        .filter_map(|route| match &route.matcher {
            NginxMatcher::Exact(path) => Some(super::regexes::escaped(path)),
            _ => None,
        })
        .collect();
    if paths.is_empty() {
        return;
    }
    routes.retain(|route| !route.adds_slash || route.test != NginxTest::Known(true));
    let stripped: Vec<&str> = paths.iter().filter_map(|path| path.strip_prefix('/')).collect();
    let pattern = match stripped.as_slice() {
        [one] => format!("^/{one}$"),
        several => format!("^/({})$", several.join("|")),
    };
    let rule = TomlValue::inline([
        ("pattern", pattern.into()),
        ("replacement", "{path}/".into()),
        ("flag", "permanent".into()),
    ]);
    table.set_plain("rewrite", TomlValue::Array(vec![rule]));
}

/// Gives named locations names that no other server of the listener has.
fn rename(routes: &mut [routes::RouteDraft], taken: &mut Vec<String>) {
    let names: Vec<String> = routes
        .iter()
        .filter_map(|route| match &route.matcher {
            NginxMatcher::Named(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    for name in names {
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let fresh = std::iter::once(name.clone())
            .chain(numbered)
            .find(|one| !taken.contains(one))
            .unwrap_or_default();
        if fresh != name {
            for route in routes.iter_mut() {
                if route.matcher == NginxMatcher::Named(name.clone()) {
                    route.matcher = NginxMatcher::Named(fresh.clone());
                }
                route.table.change_texts(&|key, text| {
                    (matches!(key, "then" | "fallback") && text == name).then(|| fresh.clone())
                });
            }
        }
        taken.push(fresh);
    }
}

/// What is about nginx's own tables, and about how it writes redirects.
pub(super) fn settle_structure(scope: &Scope<'_>, block: &[Statement]) {
    for statement in block {
        let name = statement.name();
        let ledger = scope.ledger;
        let word = || scope.ledger.words(statement).text();
        match name {
            _ if name.ends_with("_hash_bucket_size") || name.ends_with("_hash_max_size") => {
                ledger.meaningless(statement, "it is the size of a table of nginx's own");
            }
            "merge_slashes" if word() == Some("on") => ledger.by_default(statement, "slashes are merged"),
            "merge_slashes" => {
                ledger.unsupported(statement, "paths are always compared in their normal form");
            }
            "server_name_in_redirect" if word() == Some("on") => ledger.approximated(
                statement,
                "redirects keep the host of the request: write the host into those that Weir makes (`redirect.to`)",
            ),
            "port_in_redirect" if word() == Some("off") && names_hosts(block) => {
                ledger.approximated(statement, "redirects name the port of the request, if it has one");
            }
            "port_in_redirect" | "absolute_redirect" | "server_name_in_redirect" => {
                ledger.meaningless(statement, "redirects that Weir makes by itself name a path alone");
            }
            _ => {}
        }
        settle_structure(scope, statement.children());
    }
}

/// Whether `absolute_redirect` is turned on beside these statements.
fn names_hosts(block: &[Statement]) -> bool {
    let is_on = |one: &Statement| {
        one.name() == "absolute_redirect" && one.words.get(1).is_some_and(|word| word.text == "on")
    };
    block.iter().any(is_on)
}
