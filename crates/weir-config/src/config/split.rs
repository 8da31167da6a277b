//! `split` of a route: where its requests go by weight, and what is different for those that go there.

use std::sync::Arc;

use super::{RouteAction, RouteSettings, UpstreamIndex};

/// One target of a weighted split.
#[derive(Debug, Clone, PartialEq)]
pub struct SplitTarget {
    /// What happens to its requests.
    pub to: SplitAction,
    /// Its share, relative to the sum of all weights; 0 to 1 000 000.
    pub weight: u32,
    /// The settings of its requests from where they are on their way to a server, when they are not those of the route: changes of headers, the
    /// rewrite, the host. What is decided before (access, limits, the cache, copies) is the matter of the route.
    pub settings: Option<Arc<RouteSettings>>,
}

/// What happens to the requests of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SplitAction {
    /// They go to a server of this upstream.
    Upstream(UpstreamIndex),
    /// They are answered with this status.
    Respond(u16),
}

impl SplitTarget {
    /// All of these requests go to an upstream as the route says.
    pub fn to_upstream(upstream: UpstreamIndex, weight: u32) -> Self {
        Self { to: SplitAction::Upstream(upstream), weight, settings: None }
    }

    /// Whether its requests are not treated as others of the route are.
    pub fn is_apart(&self) -> bool {
        self.settings.is_some() || self.upstream().is_none()
    }

    /// The upstream, unless Weir answers itself.
    pub fn upstream(&self) -> Option<UpstreamIndex> {
        match self.to {
            SplitAction::Upstream(upstream) => Some(upstream),
            SplitAction::Respond(_) => None,
        }
    }
}

impl RouteAction {
    /// The upstreams that requests go to.
    pub fn upstreams(&self) -> impl Iterator<Item = UpstreamIndex> {
        let (one, parts) = match self {
            RouteAction::Upstream(upstream) => (Some(*upstream), &[][..]),
            RouteAction::Split(parts) => (None, &parts[..]),
            RouteAction::Files(files) => (files.otherwise, &[][..]),
            RouteAction::Redirect(_) | RouteAction::Respond(_) => (None, &[][..]),
        };
        one.into_iter().chain(parts.iter().filter_map(SplitTarget::upstream))
    }
}
