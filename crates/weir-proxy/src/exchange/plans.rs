//! The plans of the config that an exchange goes by.

use std::rc::Rc;

use weir_observe::UpstreamShard;
use weir_traffic::ServerId;

use crate::state::snapshot::{ListenerPlan, RoutePlan, UpstreamPlan};
use crate::state::view::{LocalServer, View};
use crate::upstream::stream::Destination;

/// What the config says of an exchange: its listener, its route, its upstream.
#[derive(Clone, Copy)]
pub(crate) struct Plans<'a> {
    pub(crate) view: &'a Rc<View>,
    pub(crate) listener: &'a ListenerPlan,
    pub(crate) route: &'a RoutePlan,
    pub(crate) upstream: &'a UpstreamPlan,
    pub(crate) upstream_index: usize,
}

impl<'a> Plans<'a> {
    /// The same on the ground of another view, in which the upstream has the place `upstream`.
    pub(crate) fn on(self, view: &'a Rc<View>, upstream: usize) -> Self {
        Self { view, upstream: &view.snapshot.upstreams[upstream], upstream_index: upstream, ..self }
    }

    /// The worker's side of a server.
    #[inline]
    pub(crate) fn server(self, server: usize) -> &'a Rc<LocalServer> {
        self.view.server(self.upstream_index, server)
    }

    /// What the worker counts of the upstream.
    #[inline]
    pub(crate) fn upstream_shard(self) -> &'a UpstreamShard {
        self.view.upstream_shard(self.upstream_index)
    }

    /// A server of the upstream.
    #[inline]
    pub(crate) fn to(self, server: ServerId) -> Destination<'a> {
        Destination { view: self.view, upstream: self.upstream_index, server: server.index() }
    }
}
