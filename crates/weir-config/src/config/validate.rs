//! What holds of every configuration, from whatever source: a file, objects of Kubernetes, a store of routes.
//!
//! The check of a file finds more, and says where; this looks at the values alone. It is asked before a configuration is taken into use, so that the data
//! path can rely on it.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::sync::Arc;

use super::Config;
use super::admission::access::{Access, TokenKeys};
use super::listener::Listener;
use super::routing::error_page::ErrorPage;
use super::routing::route::{Route, RouteAction, RouteSettings, SplitTarget};
use super::upstreams::upstream::UpstreamIndex;
use crate::value::{Template, TemplateValue};

/// The largest weight of a target of a split.
const WEIGHT_MAX: u32 = 1_000_000;

/// Why a configuration cannot be used: what it is about, and what is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigFault {
    place: String,
    message: String,
}

impl fmt::Display for ConfigFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.message)
    }
}

impl Config {
    /// Everything that does not hold of the configuration as a whole: names that occur twice, references that lead nowhere, splits without a share,
    /// rules by users that are never known.
    ///
    /// # Errors
    /// What does not hold.
    pub fn validate(&self) -> Result<(), Vec<ConfigFault>> {
        let mut found = FoundFaults { faults: Vec::new(), upstreams: self.upstreams.len() };
        found.unique("list", self.lists.iter().map(|list| &*list.name));
        found.unique("limit", self.limits.iter().map(|limit| &*limit.name));
        found.unique("cache", self.caches.iter().map(|cache| &*cache.name));
        found.unique("listener", self.listeners.iter().map(|listener| &*listener.name));
        found.unique("upstream", self.upstreams.iter().map(|upstream| &*upstream.name));
        for listener in &self.listeners {
            found.listener(listener);
        }
        found.rules(&self.listeners);
        if found.faults.is_empty() { Ok(()) } else { Err(found.faults) }
    }
}

/// What was found.
struct FoundFaults {
    faults: Vec<ConfigFault>,
    /// How many upstreams there are.
    upstreams: usize,
}

impl FoundFaults {
    fn add(&mut self, place: &str, message: impl Into<String>) {
        self.faults.push(ConfigFault { place: place.to_owned(), message: message.into() });
    }

    fn unique<'a>(&mut self, kind: &str, names: impl Iterator<Item = &'a str>) {
        let mut known = HashSet::new();
        for name in names {
            if !known.insert(name) {
                self.add(&format!("{kind} `{name}`"), "its name is taken twice");
            }
        }
    }

    fn listener(&mut self, listener: &Listener) {
        if listener.addresses.is_empty() {
            self.add(&format!("listener `{}`", listener.name), "it has no address");
        }
        self.unique("route", listener.routes.iter().map(|route| &*route.name));
        self.pages(&format!("listener `{}`", listener.name), &listener.error_pages);
        for route in &listener.routes {
            let place = || format!("route `{}` of listener `{}`", route.name, listener.name);
            self.route(&place, listener, route);
        }
    }

    fn route(&mut self, place: &dyn Fn() -> String, listener: &Listener, route: &Route) {
        for upstream in route.action.upstreams() {
            self.reference(place, "", upstream);
        }
        if let RouteAction::Split(targets) = &route.action {
            self.split(place, targets);
        }
        let leads_on = matches!(route.action, RouteAction::Upstream(_))
            || matches!(&route.action, RouteAction::Split(parts) if parts.iter().all(|part| part.upstream().is_some()));
        if !listener.protocol.routes_requests() && !leads_on {
            self.add(&place(), "connections of a listener for TCP can only go to an upstream");
        }
        self.settings(place, &route.settings);
    }

    fn split(&mut self, place: &dyn Fn() -> String, targets: &[SplitTarget]) {
        if targets.iter().all(|target| target.weight == 0) {
            self.add(&place(), "none of its targets has a weight");
        }
        if targets.iter().any(|target| target.weight > WEIGHT_MAX) {
            self.add(&place(), format!("a weight is larger than {WEIGHT_MAX}"));
        }
        for settings in targets.iter().filter_map(|target| target.settings.as_ref()) {
            self.settings(place, settings);
        }
    }

    fn settings(&mut self, place: &dyn Fn() -> String, settings: &Arc<RouteSettings>) {
        for mirror in &settings.mirrors {
            self.reference(place, "mirror: ", mirror.upstream);
        }
        for used in &settings.limited_by {
            if let Some(upstream) = used.upstream {
                self.reference(place, "limit: ", upstream);
            }
        }
        if let Some(forward) = settings.access.as_ref().and_then(|access| access.forward.as_ref()) {
            self.reference(place, "forward_auth: ", forward.upstream);
        }
        if let Some(TokenKeys::Remote(keys)) =
            settings.access.as_ref().and_then(|access| access.jwt.as_ref()).map(|jwt| &jwt.keys)
        {
            self.reference(place, "jwt: ", keys.upstream);
        }
        for remote in settings.error_pages.iter().filter_map(|page| page.remote.as_ref()) {
            self.reference(place, "error_pages: ", remote.upstream);
        }
    }

    fn pages(&mut self, place: &str, pages: &[ErrorPage]) {
        for remote in pages.iter().filter_map(|page| page.remote.as_ref()) {
            self.reference(&|| place.to_owned(), "error_pages: ", remote.upstream);
        }
    }

    fn reference(&mut self, place: &dyn Fn() -> String, what: &str, upstream: UpstreamIndex) {
        if upstream.0 >= self.upstreams {
            let message =
                format!("{what}there are {} upstreams, and no number {}", self.upstreams, upstream.0);
            self.add(&place(), message);
        }
    }

    /// A rule by a value that no route with it proves would let every client pass, or none.
    fn rules(&mut self, listeners: &[Arc<Listener>]) {
        let mut unknown = BTreeMap::new();
        let mut known = HashSet::new();
        for route in listeners.iter().flat_map(|listener| &listener.routes) {
            let access = route.settings.access.as_deref();
            let lists = route.settings.lists.iter().map(|list| ("list", &*list.name, &list.key));
            let limits = route.settings.limited_by.iter();
            let limits = limits.map(|used| ("limit", &*used.limit.name, &used.limit.key));
            for (kind, name, key) in lists.chain(limits) {
                match never_known(key, access) {
                    Some(value) => _ = unknown.insert((kind, name), value),
                    None => _ = known.insert((kind, name)),
                }
            }
        }
        for ((kind, name), value) in unknown.into_iter().filter(|(rule, _)| !known.contains(rule)) {
            let message = format!("no route with it knows `{{{}}}`, by which it is", value.name());
            self.add(&format!("{kind} `{name}`"), message);
        }
    }
}

/// The first value of a key that is known only where clients are authenticated, on a route that does not do so.
fn never_known<'a>(key: &'a Template, access: Option<&Access>) -> Option<&'a TemplateValue> {
    let has_token = access.is_some_and(|access| access.jwt.is_some());
    let has_user = has_token || access.is_some_and(|access| access.basic.is_some());
    key.values().find(|value| match value {
        TemplateValue::User => !has_user,
        TemplateValue::TokenClaim(_) => !has_token,
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "
        listener.web = { address = \":80\", route = [{ upstream = \"a\" }, { split = [{ upstream = \"a\", weight = 1 }], path = \"/s\" }] }
        listener.raw = { address = \":81\", protocol = \"tcp\", upstream = \"a\" }
        upstream.a.servers = [\"127.0.0.1:1\"]
        limit.all = { rate = \"1/s\", key = \"{user}\" }";

    fn faults(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::parse(TEXT, "weir.toml").unwrap();
        assert_eq!(config.validate(), Ok(()));
        change(&mut config);
        let faults = config.validate().expect_err("it is no good any more");
        faults.iter().map(ToString::to_string).collect()
    }

    fn route(config: &mut Config, listener: usize, place: usize) -> &mut Route {
        Arc::make_mut(&mut Arc::make_mut(&mut config.listeners[listener]).routes[place])
    }

    #[test]
    fn a_reference_that_leads_nowhere() {
        let found = faults(|config| route(config, 0, 0).action = RouteAction::Upstream(UpstreamIndex(1)));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("there are 1 upstreams, and no number 1"), "{found:?}");
        assert_eq!(
            faults(|config| config.upstreams.clear()).len(),
            3,
            "one for each route that leads to one"
        );
    }

    #[test]
    fn a_name_that_occurs_twice() {
        let found = faults(|config| {
            let again = Arc::clone(&config.upstreams[0]);
            config.upstreams.push(again);
        });
        assert_eq!(found, ["upstream `a`: its name is taken twice"]);
        let found = faults(|config| {
            let again = Arc::clone(&config.listeners[0].routes[0]);
            Arc::make_mut(&mut config.listeners[0]).routes.push(again);
        });
        assert!(
            found[0].starts_with("route `") && found[0].ends_with("its name is taken twice"),
            "{found:?}"
        );
    }

    #[test]
    fn a_split_without_a_share_and_one_too_large() {
        let found = faults(|config| {
            let RouteAction::Split(targets) = &mut route(config, 0, 1).action else { panic!("a split") };
            targets[0].weight = 0;
        });
        assert!(found[0].ends_with("none of its targets has a weight"), "{found:?}");
        let found = faults(|config| {
            let RouteAction::Split(targets) = &mut route(config, 0, 1).action else { panic!("a split") };
            targets[0].weight = WEIGHT_MAX + 1;
        });
        assert!(found[0].ends_with("a weight is larger than 1000000"), "{found:?}");
    }

    #[test]
    fn a_listener_for_tcp_whose_connections_go_nowhere() {
        let found = faults(|config| route(config, 1, 0).action = RouteAction::Split(Vec::new()));
        assert!(found.iter().any(|fault| fault.ends_with("none of its targets has a weight")), "{found:?}");
        let found = faults(|config| {
            let other = Config::parse(
                "listener.web = { address = \":80\", route = [{ respond = { status = 200 } }] }",
                "weir.toml",
            );
            route(config, 1, 0).action = other.unwrap().listeners[0].routes[0].action.clone();
        });
        assert!(found[0].ends_with("can only go to an upstream"), "{found:?}");
    }

    #[test]
    fn a_limit_by_a_user_that_no_route_knows() {
        let found = faults(|config| {
            let limit = Arc::clone(&config.limits[0]);
            let settings = Arc::make_mut(&mut route(config, 0, 0).settings);
            settings.limited_by.push(super::super::LimitUse { limit, upstream: None });
        });
        assert_eq!(found, ["limit `all`: no route with it knows `{user}`, by which it is"]);
    }
}
