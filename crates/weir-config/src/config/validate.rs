//! What holds of every configuration as a whole, from whatever source: a file, objects of Kubernetes, a store of routes.
//!
//! The check of a file finds more, and says where; this looks at the values alone. What holds of a listener, a route and the like was checked when it was made.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use super::admission::access::{Access, TokenKeys};
use super::listener::Listener;
use super::routing::error_page::ErrorPage;
use super::routing::route::{Route, RouteAction, RouteSettings};
use super::upstreams::upstream::UpstreamIndex;
use super::{CheckedParts, Config, ConfigFault, ConfigParts, Dns, FoundFaults, ValueFault};
use crate::value::{Template, TemplateValue};

impl CheckedParts for ConfigParts {
    fn place(&self) -> String {
        "the configuration".to_owned()
    }

    fn check(&self, faults: &mut FoundFaults) {
        faults.check_unique("list", self.lists.iter().map(|list| &*list.name));
        faults.check_unique("limit", self.limits.iter().map(|limit| &*limit.name));
        faults.check_unique("table", self.tables.iter().map(|table| &*table.definition.name));
        faults.check_unique("cache", self.caches.iter().map(|cache| &*cache.name));
        faults.check_unique("listener", self.listeners.iter().map(|listener| &*listener.name));
        faults.check_unique("upstream", self.upstreams.iter().map(|upstream| &*upstream.name));
        let mut references = References { faults, upstreams: self.upstreams.len() };
        self.listeners.iter().for_each(|listener| references.listener(listener));
        check_rules(&self.listeners, faults);
        faults.extend(self.dns.fault());
        faults.check_section(&self.process);
        faults.check_section(&self.dns);
        faults.check_section(&self.admin);
        faults.check_section(&self.recorder);
    }
}

impl Dns {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<ValueFault> {
        let (min, max) = (self.ttl_min, self.ttl_max);
        (min > max).then_some(ValueFault::DnsTimes { min, max })
    }
}

impl Config {
    /// What does not hold of it and of all in it: nothing, unless it has placeholders for what could not be read.
    pub(crate) fn all_faults(&self) -> Vec<ConfigFault> {
        let routes = self.listeners.iter().flat_map(|listener| &listener.routes);
        let mut faults = self.faults();
        faults.extend(self.listeners.iter().flat_map(|listener| listener.faults()));
        faults.extend(routes.flat_map(|route| route.faults()));
        faults.extend(self.upstreams.iter().flat_map(|upstream| upstream.faults()));
        faults.extend(self.lists.iter().flat_map(|list| list.faults()));
        faults.extend(self.limits.iter().flat_map(|limit| limit.faults()));
        faults.extend(self.caches.iter().flat_map(|cache| cache.faults()));
        faults
    }
}

/// Whether references lead to an upstream.
struct References<'a> {
    faults: &'a mut FoundFaults,
    /// How many upstreams there are.
    upstreams: usize,
}

impl References<'_> {
    fn listener(&mut self, listener: &Listener) {
        self.pages(&format!("listener `{}`", listener.name), &listener.error_pages);
        for route in &listener.routes {
            let place = || format!("route `{}` of listener `{}`", route.name, listener.name);
            self.route(&place, route);
        }
    }

    fn route(&mut self, place: &dyn Fn() -> String, route: &Route) {
        for upstream in route.action.upstreams() {
            self.reference(place, "", upstream);
        }
        if let RouteAction::Split(targets) = &route.action {
            for settings in targets.iter().filter_map(|target| target.settings.as_ref()) {
                self.settings(place, settings);
            }
        }
        self.settings(place, &route.settings);
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

    fn reference(&mut self, place: &dyn Fn() -> String, what: &'static str, upstream: UpstreamIndex) {
        if upstream.0 >= self.upstreams {
            let fault = ValueFault::NoSuchUpstream { of: what, upstreams: self.upstreams, index: upstream.0 };
            self.faults.add_at(place(), fault);
        }
    }
}

/// A rule by a value that no route with it proves would let every client pass, or none.
fn check_rules(listeners: &[Arc<Listener>], faults: &mut FoundFaults) {
    let mut unknown = BTreeMap::new();
    let mut known = HashSet::new();
    for route in listeners.iter().flat_map(|listener| &listener.routes) {
        let access = route.settings.access.as_deref();
        let lists = route.settings.lists.iter().map(|list| ("list", &*list.name, &list.key));
        let limits = route.settings.limited_by.iter();
        let limits = limits.map(|used| ("limit", &*used.limit.name, &used.limit.key));
        let tables = route.settings.tracked.iter().map(|table| &table.definition);
        let tables = tables.map(|table| ("table", &*table.name, &table.key));
        for (kind, name, key) in lists.chain(limits).chain(tables) {
            match never_known(key, access) {
                Some(value) => _ = unknown.insert((kind, name), value),
                None => _ = known.insert((kind, name)),
            }
        }
    }
    for ((kind, name), value) in unknown.into_iter().filter(|(rule, _)| !known.contains(rule)) {
        faults.add_at(format!("{kind} `{name}`"), ValueFault::NeverKnown(value.name()));
    }
}

/// The first value of a key that is known only where clients are authenticated, on a route that does not do so.
fn never_known<'a>(key: &'a Template, access: Option<&Access>) -> Option<&'a TemplateValue> {
    let has_token = access.is_some_and(|access| access.jwt.is_some());
    let has_user = has_token || access.is_some_and(|access| access.basic.is_some());
    let is_unknown = |value: &TemplateValue| match value {
        TemplateValue::User => !has_user,
        TemplateValue::TokenClaim(_) => !has_token,
        _ => false,
    };
    key.values().find(|value| value.leaves().iter().any(is_unknown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ListenerParts, RouteParts};

    const TEXT: &str = "
        listener.web = { address = \":80\", route = [{ upstream = \"a\" }, { split = [{ upstream = \"a\", weight = 1 }], path = \"/s\" }] }
        listener.raw = { address = \":81\", protocol = \"tcp\", upstream = \"a\" }
        upstream.a.servers = [\"127.0.0.1:1\"]
        limit.all = { rate = \"1/s\", key = \"{user}\" }";

    fn faults(change: impl FnOnce(&mut Config)) -> Vec<String> {
        let mut config = Config::parse(TEXT, "weir.toml").unwrap();
        assert_eq!(config.all_faults(), []);
        change(&mut config);
        config.all_faults().iter().map(ToString::to_string).collect()
    }

    fn listener(config: &mut Config, place: usize) -> &mut ListenerParts {
        Arc::make_mut(&mut config.parts_mut().listeners[place]).parts_mut()
    }

    fn route(config: &mut Config, of: usize, place: usize) -> &mut RouteParts {
        Arc::make_mut(&mut listener(config, of).routes[place]).parts_mut()
    }

    #[test]
    fn a_reference_that_leads_nowhere() {
        let found = faults(|config| route(config, 0, 0).action = RouteAction::Upstream(UpstreamIndex(1)));
        assert_eq!(found.len(), 1);
        assert!(found[0].ends_with("there are 1 upstreams, and no number 1"), "{found:?}");
        assert_eq!(
            faults(|config| config.parts_mut().upstreams.clear()).len(),
            3,
            "one for each route that leads to one"
        );
    }

    #[test]
    fn a_name_that_occurs_twice() {
        let found = faults(|config| {
            let again = Arc::clone(&config.upstreams[0]);
            config.parts_mut().upstreams.push(again);
        });
        assert_eq!(found, ["upstream `a`: its name is taken twice"]);
        let found = faults(|config| {
            let again = Arc::clone(&config.listeners[0].routes[0]);
            listener(config, 0).routes.push(again);
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
        assert!(found[0].ends_with("no upstream would get a request"), "{found:?}");
        let found = faults(|config| {
            let RouteAction::Split(targets) = &mut route(config, 0, 1).action else { panic!("a split") };
            targets[0].weight = 1_000_001;
        });
        assert!(found[0].ends_with("a weight is larger than 1000000"), "{found:?}");
    }

    #[test]
    fn a_listener_for_tcp_whose_connections_go_nowhere() {
        let found = faults(|config| route(config, 1, 0).action = RouteAction::Split(Vec::new()));
        assert!(found.iter().any(|fault| fault.ends_with("no upstream would get a request")), "{found:?}");
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
            settings.limited_by.push(crate::config::LimitUse::new(limit));
        });
        assert_eq!(found, ["limit `all`: no route with it knows `{user}`, by which it is"]);
    }
}
