//! Routes of requests that Weir sends by itself: to servers that decide about requests, have keys or pages, get copies, and to targets of a split.
//!
//! Each is made from a part of a checked route, and holds as that does. None is in a configuration.

use std::sync::Arc;

use super::header_changes::HeaderChanges;
use super::route::{FixedResponse, Route, RouteAction, RouteParts, SplitAction, SplitTarget};
use crate::config::{
    Access, Checked, ForwardAuth, ForwardHost, Mirror, RemoteKeys, RemotePage, UpstreamIndex,
};
use crate::value::{HeaderName, HeaderTemplate};

/// Headers about a client, which requests without one do not have.
const ABOUT_CLIENTS: [&str; 7] = [
    "forwarded",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-request-id",
];

fn parts(name: &str, upstream: UpstreamIndex, forward_host: &ForwardHost) -> RouteParts {
    let mut parts = RouteParts::new(name, Arc::default(), RouteAction::Upstream(upstream));
    parts.forward_host = forward_host.clone();
    parts
}

impl ForwardAuth {
    /// The route of questions about requests of the route with this name.
    pub fn route(&self, name: &str) -> Route {
        let mut parts = parts(name, self.upstream, &self.forward_host);
        // It has fields that only Weir gives, of the request that is asked about.
        parts.access = Some(Box::new(Access::default()));
        Checked::assume(parts)
    }
}

impl RemotePage {
    /// The route of requests for pages.
    pub fn route(&self) -> Route {
        Checked::assume(parts("error_pages", self.upstream, &self.forward_host))
    }
}

impl RemoteKeys {
    /// The route of requests for the keys of the route with this name. It learns nothing of a client, since there is none.
    pub fn route(&self, name: &str) -> Route {
        let mut parts = parts(name, self.upstream, &self.forward_host);
        let header = |name: &&str| name.parse().expect("it is the name of a header");
        parts.request_headers.remove = ABOUT_CLIENTS.iter().map(header).collect::<Vec<HeaderName>>();
        Checked::assume(parts)
    }
}

impl Mirror {
    /// The route of copies of the requests of a route, which are changed as these are.
    pub fn route(&self, of: &RouteParts) -> Route {
        let mut parts = parts(&of.name, self.upstream, &self.forward_host);
        parts.access.clone_from(&of.access);
        parts.upgrades = Vec::new();
        let mark: HeaderTemplate = "1".parse().expect("it is a value");
        let mark = HeaderChanges { set: vec![(self.mark_header.clone(), mark)], ..HeaderChanges::default() };
        parts.request_headers = of.request_headers.followed_by(&mark);
        Checked::assume(parts)
    }
}

impl SplitTarget {
    /// The route of its requests, if they are not treated as others of the route are.
    pub fn route(&self, of: &RouteParts) -> Option<Route> {
        let action = match self.to {
            _ if !self.is_apart() => return None,
            SplitAction::Upstream(upstream) => RouteAction::Upstream(upstream),
            SplitAction::Respond(status) => RouteAction::Respond(Box::new(FixedResponse::empty(status))),
        };
        let settings = Arc::clone(self.settings.as_ref().unwrap_or(&of.settings));
        let (name, matches, condition) = (of.name.clone(), Arc::clone(&of.matches), of.condition.clone());
        Some(Checked::assume(RouteParts { name, matches, condition, action, settings }))
    }
}
