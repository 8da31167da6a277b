//! How specific a route is: the order of the module's description as a value that compares.

use ipnet::IpNet;

use super::RouteMatch;
use super::host::{self, HostPattern};
use super::path::{self, PathMatch};

/// The greater goes first. The order of the fields is the order of the steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Specificity {
    host: HostRank,
    path: PathRank,
    method: bool,
    headers: usize,
    query: usize,
    /// Prefix length plus one; 0 without a rule on the source.
    source: u16,
    priority: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum HostRank {
    Any,
    Below { len: usize },
    Exact,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PathRank {
    Any,
    Prefix { len: usize },
    Regex,
    Exact,
}

impl Specificity {
    /// The specificity of `route` for requests that match it by `host` and `source`.
    pub(super) fn new(route: &RouteMatch, host: &HostPattern, source: Option<IpNet>) -> Specificity {
        Specificity {
            host: match host.kind() {
                host::Kind::Any => HostRank::Any,
                host::Kind::Below(name) => HostRank::Below { len: name.len() },
                host::Kind::Exact(_) => HostRank::Exact,
            },
            path: match PathMatch::kind(&route.path) {
                path::Kind::Any => PathRank::Any,
                path::Kind::Prefix(prefix) => PathRank::Prefix { len: prefix.len() },
                path::Kind::Regex(_) => PathRank::Regex,
                path::Kind::Exact(_) => PathRank::Exact,
            },
            method: !route.methods.is_empty(),
            headers: route.headers.len(),
            query: route.query.len(),
            source: source.map_or(0, |net| u16::from(net.prefix_len()) + 1),
            priority: route.priority,
        }
    }
}
