//! How specific a route is beyond its host and path: steps 3 to 8 of the module's description as a value that compares.
//!
//! Steps 1 and 2 need no value: the table is arranged by host and path, and compares only routes that have both in common.

use ipnet::IpNet;

use super::RouteMatch;

/// The greater goes first. The order of the fields is the order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Specificity {
    precedence: i32,
    method: bool,
    headers: usize,
    query: usize,
    /// Prefix length plus one; 0 without a rule on the source.
    source: u16,
    condition: bool,
    priority: i32,
}

impl Specificity {
    /// The specificity of `route` for requests that match it by `source`.
    pub(super) fn new(route: &RouteMatch, source: Option<IpNet>) -> Specificity {
        Specificity {
            precedence: route.precedence,
            method: !route.methods.is_empty(),
            headers: route.headers.len(),
            query: route.query.len(),
            source: source.map_or(0, |net| u16::from(net.prefix_len()) + 1),
            condition: route.condition.is_some(),
            priority: route.priority,
        }
    }
}
