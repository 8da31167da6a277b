//! Why a request takes the route it takes, for `weir explain`.

use weir_sort::CompactSort as _;

use super::{RouteId, RouteMatch, RouteRequest, RouteTable};

/// One route as considered for one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Considered {
    /// Which route.
    pub route: RouteId,
    /// Whether it was chosen, and if not, why.
    pub outcome: RouteOutcome,
}

/// The result of a route for one request: the first reason against it, in the order of the parts of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteOutcome {
    /// The request takes this route.
    Chosen,
    /// It matches, but a more specific route does too.
    LessSpecific,
    /// It matches, but an earlier route of a table in the order of the routes does too.
    Later,
    /// It is for other hosts.
    Host,
    /// It is for other paths.
    Path,
    /// It is for other methods.
    Method,
    /// The field of this name is not as it asks.
    Header(String),
    /// The query parameter of this name is not as it asks.
    Query(String),
    /// It is for clients from other networks.
    Source,
    /// Its condition does not hold.
    Condition,
}

impl RouteTable {
    /// Every route with its result for `request`: the chosen one first, then those less specific, then
    /// those that do not match, each in the order given.
    pub fn explain(&self, request: &impl RouteRequest) -> Vec<Considered> {
        let chosen = self.lookup(request);
        let mut considered: Vec<Considered> = self
            .routes()
            .iter()
            .map(|(rules, route)| {
                let outcome = match first_mismatch(rules, *route, request) {
                    Some(outcome) => outcome,
                    None if chosen == Some(*route) => RouteOutcome::Chosen,
                    None if self.is_in_order() => RouteOutcome::Later,
                    None => RouteOutcome::LessSpecific,
                };
                Considered { route: *route, outcome }
            })
            .collect();
        considered.sort_compact_by_key(|one| match one.outcome {
            RouteOutcome::Chosen => 0,
            RouteOutcome::LessSpecific | RouteOutcome::Later => 1,
            _ => 2,
        });
        considered
    }
}

fn first_mismatch(rules: &RouteMatch, route: RouteId, request: &impl RouteRequest) -> Option<RouteOutcome> {
    if !rules.hosts.is_empty() && !rules.hosts.iter().any(|host| host.matches(request.host())) {
        return Some(RouteOutcome::Host);
    }
    if !rules.path.matches(request.path()) {
        return Some(RouteOutcome::Path);
    }
    if !rules.matches_method(request) {
        return Some(RouteOutcome::Method);
    }
    if let Some(rule) = rules.headers.iter().find(|rule| !rule.matches(request)) {
        return Some(RouteOutcome::Header(rule.name().to_owned()));
    }
    if let Some(rule) = rules.query.iter().find(|rule| !rule.matches(request)) {
        return Some(RouteOutcome::Query(rule.name().to_owned()));
    }
    let source = request.source().to_canonical();
    if !rules.sources.is_empty() && !rules.sources.iter().any(|net| net.contains(&source)) {
        return Some(RouteOutcome::Source);
    }
    if rules.condition.is_some() && !request.condition_holds(route) {
        return Some(RouteOutcome::Condition);
    }
    None
}
