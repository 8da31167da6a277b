//! Advice about caches that several routes use: who keeps responses apart from whom, and what `share` makes common.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_traffic::route::{HostPattern, PathMatch, RouteMatch};

use super::{ConfigAdvice, NAMED_MAX};
use crate::config::{Config, Listener, PartitionName, Route, RouteCache, own_partitions};

/// A route with a cache.
struct Caching<'a> {
    listener: &'a Listener,
    route: &'a Arc<Route>,
    cache: &'a RouteCache,
    /// What its responses would be kept apart by without `share`.
    own: Vec<PartitionName>,
}

/// All advice about caches.
pub(super) fn advice(config: &Config) -> Vec<ConfigAdvice> {
    let upstream =
        |index: usize| config.upstreams.get(index).map_or_else(String::new, |one| one.name.to_string());
    let mut by_cache: BTreeMap<&str, Vec<Caching<'_>>> = BTreeMap::new();
    for listener in &config.listeners {
        for route in &listener.routes {
            let Some(cache) = route.cache.as_deref() else { continue };
            let own = own_partitions(&listener.name, route, cache, upstream);
            by_cache.entry(&cache.store.name).or_default().push(Caching { listener, route, cache, own });
        }
    }
    by_cache.iter().flat_map(|(name, routes)| [apart(name, routes), common(name, routes)]).flatten().collect()
}

/// Routes that could have the same request, were it not for their listeners and rules, and that do not use what the others have stored.
fn apart(cache: &str, routes: &[Caching<'_>]) -> Option<ConfigAdvice> {
    let alone: Vec<&Caching<'_>> =
        routes.iter().filter(|one| one.cache.share.is_none()).take(ROUTES_MAX).collect();
    let meets = |one: &&&Caching<'_>| alone.iter().any(|other| may_meet(one, other));
    let found: Vec<&Caching<'_>> = alone.iter().filter(meets).copied().collect();
    (found.len() > 1).then(|| ConfigAdvice {
        message: format!(
            "routes with the cache `{cache}` keep their responses apart, since a listener, a rule or an upstream decides which of them a request takes: {}",
            named(&found)
        ),
        help: "write `cache = { name = \"NAME\", share = \"NAME\" }` in those whose clients may all get what is stored for any of them"
            .to_owned(),
    })
}

/// Routes that share what they would keep apart.
fn common(cache: &str, routes: &[Caching<'_>]) -> Option<ConfigAdvice> {
    let differs = |one: &&Caching<'_>| {
        let is_with = |other: &&Caching<'_>| other.cache.share == one.cache.share && other.own != one.own;
        one.cache.share.is_some() && routes.iter().take(ROUTES_MAX).any(|other| is_with(&other))
    };
    let found: Vec<&Caching<'_>> = routes.iter().take(ROUTES_MAX).filter(differs).collect();
    (!found.is_empty()).then(|| ConfigAdvice {
        message: format!(
            "routes share responses of the cache `{cache}` although listeners, rules or upstreams tell their requests apart: {}",
            named(&found)
        ),
        help: "nothing is wrong if each of them may answer with what any other has stored; else leave `share` out".to_owned(),
    })
}

/// Routes of a cache that are compared with one another.
const ROUTES_MAX: usize = 200;

fn named(routes: &[&Caching<'_>]) -> String {
    let name = |one: &&Caching<'_>| format!("`{}` of `{}`", one.route.name, one.listener.name);
    let mut text = routes.iter().take(NAMED_MAX).map(name).collect::<Vec<_>>().join(", ");
    let more = routes.len().saturating_sub(NAMED_MAX);
    if more > 0 {
        text.push_str(&format!(" and {more} more"));
    }
    text
}

/// Whether both could have a request for the same URL, and would keep its responses apart.
fn may_meet(one: &Caching<'_>, other: &Caching<'_>) -> bool {
    if Arc::ptr_eq(one.route, other.route) || one.own == other.own || one.cache.key != other.cache.key {
        return false;
    }
    let is_same_listener = std::ptr::eq(one.listener, other.listener);
    let is_apart_by_scheme = one.listener.tls.is_some() != other.listener.tls.is_some()
        && one.cache.key.values().any(|value| *value == crate::value::TemplateValue::Scheme);
    // On one listener the more specific route has all requests for its paths, unless it has other rules besides.
    let has_rules = |route: &Route| {
        let RouteMatch { methods, headers, query, sources, .. } = &*route.matches;
        !(methods.is_empty() && headers.is_empty() && query.is_empty() && sources.is_empty())
    };
    let may =
        if is_same_listener { has_rules(one.route) || has_rules(other.route) } else { !is_apart_by_scheme };
    may && do_hosts_meet(&one.route.matches.hosts, &other.route.matches.hosts)
        && do_paths_meet(&one.route.matches.path, &other.route.matches.path)
}

/// Whether one host may be in both; where that is not plain, it may.
fn do_hosts_meet(one: &[HostPattern], other: &[HostPattern]) -> bool {
    let is_exact = |host: &HostPattern| !host.to_string().contains('*');
    let meet = |host: &HostPattern, other: &HostPattern| {
        host == other
            || !is_exact(host) && (!is_exact(other) || host.matches(other.to_string().as_bytes()))
            || !is_exact(other) && other.matches(host.to_string().as_bytes())
    };
    one.is_empty() || other.is_empty() || one.iter().any(|host| other.iter().any(|other| meet(host, other)))
}

/// Whether one path may be in both; where that is not plain, it may.
fn do_paths_meet(one: &PathMatch, other: &PathMatch) -> bool {
    // A regular expression has no such path.
    let text = |path: &PathMatch| {
        path.template().filter(|_| !path.to_string().starts_with("regex ")).map(String::into_bytes)
    };
    match (text(one), text(other)) {
        (Some(one_text), Some(other_text)) => one.matches(&other_text) || other.matches(&one_text),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::load::CheckedConfig;

    fn of(listeners: &str) -> Vec<String> {
        let text = format!(
            "cache.pages.memory = \"64MiB\"\n{listeners}\n
             upstream.app.servers = [\"10.0.0.1:80\"]\nupstream.other.servers = [\"10.0.0.2:80\"]"
        );
        let checked = CheckedConfig::parse_alone(&text, "weir.toml", &|_| None);
        let config = checked.config.unwrap_or_else(|| panic!("{}", checked.diagnostics));
        super::super::advice(&config).into_iter().map(|advice| advice.message).collect()
    }

    const PLAIN: &str = "{ path = \"/\", upstream = \"app\", cache = \"pages\" }";

    fn web(routes: &str) -> String {
        format!("listener.web = {{ address = \":80\", route = [{routes}] }}\n")
    }

    #[test]
    fn routes_that_keep_responses_apart_are_told_of() {
        for other in [
            "{ path = \"/\", header = { x-role = \"admin\" }, upstream = \"app\", cache = \"pages\" }",
            "{ path = \"/a\", source = [\"10.0.0.0/8\"], upstream = \"app\", cache = \"pages\" }",
            "{ path = \"/\", query = { preview = \"1\" }, upstream = \"other\", cache = \"pages\" }",
        ] {
            let found = of(&web(&format!("{PLAIN}, {other}")));
            assert_eq!(found.len(), 1, "{other}: {found:?}");
            assert!(found[0].contains("`pages` keep their responses apart"), "{found:?}");
        }
        let found =
            of(&format!("{}listener.inside = {{ address = \":81\", route = [{PLAIN}] }}\n", web(PLAIN)));
        assert!(
            found[0].ends_with("`/` of `inside`, `/` of `web`")
                || found[0].ends_with("`/` of `web`, `/` of `inside`"),
            "{found:?}"
        );
    }

    #[test]
    fn routes_that_cannot_have_the_same_request_are_not() {
        for routes in [
            format!("{PLAIN}, {{ path = \"/a\", upstream = \"other\", cache = \"pages\" }}"),
            "{ path = \"/a\", header = { x = \"1\" }, upstream = \"app\", cache = \"pages\" }, { path = \"/b\", upstream = \"app\", cache = \"pages\" }".to_owned(),
            "{ host = \"a.test\", header = { x = \"1\" }, upstream = \"app\", cache = \"pages\" }, { host = \"b.test\", upstream = \"app\", cache = \"pages\" }".to_owned(),
        ] {
            assert_eq!(of(&web(&routes)), Vec::<String>::new(), "{routes}");
        }
    }

    #[test]
    fn what_is_shared_by_name_is_told_of() {
        let shared = "cache = { name = \"pages\", share = \"all\" }";
        let found = of(&web(&format!(
            "{{ path = \"/\", upstream = \"app\", {shared} }}, {{ path = \"/\", header = {{ x-role = \"admin\" }}, upstream = \"app\", {shared} }}"
        )));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("routes share responses of the cache `pages`"), "{found:?}");
    }
}
