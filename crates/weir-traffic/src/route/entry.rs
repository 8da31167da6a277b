//! One route for one host and one source network: the entries of the lookup structures of a table.
//!
//! An entry says whether it matches a request, and whether it ties with another. Where it is found is decided by the
//! structures above it.

use std::sync::Arc;

use ipnet::IpNet;

use super::specificity::Specificity;
use super::tie::{self, Tie};
use super::{FieldMatch, QueryMatch, RouteId, RouteMatch, RouteRequest, query_values};

/// The routes as they were given.
#[derive(Debug)]
pub(super) struct RouteRules(pub(super) Vec<(Arc<RouteMatch>, RouteId)>);

/// A route for one of its hosts and one of its source networks.
#[derive(Debug, Clone)]
pub(super) struct RouteEntry {
    pub(super) route: RouteId,
    /// Index into `RouteRules`.
    rules: usize,
    pub(super) source: Option<IpNet>,
    pub(super) specificity: Specificity,
    /// Whether host, path and source say it all, which is so for most routes.
    is_plain: bool,
    has_condition: bool,
    /// Whether the condition is all that is asked beside them.
    has_condition_alone: bool,
    pub(super) before_regex: bool,
}

impl RouteRules {
    /// The rules of the route that an entry belongs to.
    pub(super) fn of(&self, entry: &RouteEntry) -> &RouteMatch {
        &self.0[entry.rules].0
    }
}

impl RouteEntry {
    /// One of the entries of `route`, which is at the index `rules`.
    pub(super) fn new(name: RouteId, rules: usize, route: &RouteMatch, source: Option<IpNet>) -> RouteEntry {
        let is_bare = route.methods.is_empty() && route.headers.is_empty() && route.query.is_empty();
        RouteEntry {
            route: name,
            rules,
            source,
            specificity: Specificity::new(route, source),
            is_plain: is_bare && route.condition.is_none(),
            has_condition: route.condition.is_some(),
            has_condition_alone: is_bare && route.condition.is_some(),
            before_regex: route.before_regex,
        }
    }

    #[inline]
    pub(super) fn matches(&self, rules: &RouteRules, request: &impl RouteRequest) -> bool {
        let source_matches = self.source.is_none_or(|net| net.contains(&request.source().to_canonical()));
        source_matches && (self.is_plain || self.matches_rest(rules, request))
    }

    fn matches_rest(&self, rules: &RouteRules, request: &impl RouteRequest) -> bool {
        (self.has_condition_alone || rules.of(self).matches_rest(request))
            && (!self.has_condition || request.condition_holds(self.route))
    }

    pub(super) fn tie_with(&self, other: &RouteEntry, rules: &RouteRules) -> Option<Tie> {
        let tied = self.route != other.route
            && self.source == other.source
            && tie::can_meet(rules.of(self), rules.of(other));
        let (first, second) = if self.rules < other.rules { (self, other) } else { (other, self) };
        tied.then_some(Tie { first: first.route, second: second.route })
    }
}

impl RouteMatch {
    /// Whether method, fields and parameters match.
    fn matches_rest(&self, request: &impl RouteRequest) -> bool {
        self.matches_method(request)
            && self.headers.iter().all(|rule| rule.matches(request))
            && self.query.iter().all(|rule| rule.matches(request))
    }

    pub(super) fn matches_method(&self, request: &impl RouteRequest) -> bool {
        let method = request.method();
        self.methods.is_empty() || self.methods.iter().any(|one| one.as_str().as_bytes() == method)
    }
}

impl FieldMatch {
    pub(super) fn matches(&self, request: &impl RouteRequest) -> bool {
        self.value().matches_any(request.header_lines(self.name()))
    }
}

impl QueryMatch {
    pub(super) fn matches(&self, request: &impl RouteRequest) -> bool {
        self.matches_values(query_values(request.query(), self.name().as_bytes()))
    }
}
