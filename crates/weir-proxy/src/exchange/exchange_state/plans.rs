//! The plans of the config for one exchange.

use std::rc::Rc;

use weir_observe::UpstreamShard;
use weir_traffic::ServerId;
use weir_traffic::retry::RetryPolicy;

use crate::state::routes::wait_limits::WaitLimits;
use crate::state::snapshot::{ListenerPlan, RoutePlan, UpstreamPlan};
use crate::state::worker_config::{LocalServer, WorkerConfig};
use crate::upstream::stream::Destination;

/// The route that takes a request, and where that sends it.
#[derive(Clone, Copy)]
pub(in crate::exchange) struct MatchedRoute<'a> {
    pub(in crate::exchange) route: &'a RoutePlan,
    /// The plan that counts on the way to a server: that of the target of the split, if that is not as the route is.
    pub(in crate::exchange) target: &'a RoutePlan,
    /// The place of the upstream in the config; `None`: Weir has the response itself.
    pub(in crate::exchange) upstream: Option<usize>,
}

impl<'a> MatchedRoute<'a> {
    /// The plans of a request that goes to a server.
    #[inline(always)]
    pub(in crate::exchange) fn plans(self, config: &'a Rc<WorkerConfig>) -> Option<Plans<'a>> {
        Some(Plans::new(config, self.target, self.upstream?))
    }
}

/// The plans of the route and the upstream of a request that goes to a server.
#[derive(Clone, Copy)]
pub(crate) struct Plans<'a> {
    pub(crate) config: &'a Rc<WorkerConfig>,
    pub(crate) route: &'a RoutePlan,
    pub(crate) upstream: &'a UpstreamPlan,
    pub(crate) upstream_index: usize,
}

impl<'a> Plans<'a> {
    /// The plans of an exchange whose upstream is known by its place in the config.
    #[inline(always)]
    pub(crate) fn new(config: &'a Rc<WorkerConfig>, route: &'a RoutePlan, upstream_index: usize) -> Self {
        let upstream = &*config.snapshot.upstreams[upstream_index];
        Self { config, route, upstream, upstream_index }
    }

    /// The same by another config, in which the upstream has the place `upstream`.
    #[inline(always)]
    pub(crate) fn on(self, config: &'a Rc<WorkerConfig>, upstream: usize) -> Self {
        if Rc::ptr_eq(config, self.config) && upstream == self.upstream_index {
            return self;
        }
        self.on_another(config, upstream)
    }

    #[cold]
    fn on_another(self, config: &'a Rc<WorkerConfig>, upstream: usize) -> Self {
        Self { config, upstream: &config.snapshot.upstreams[upstream], upstream_index: upstream, ..self }
    }

    /// The worker's side of a server.
    #[inline]
    pub(crate) fn server(self, server: usize) -> &'a Rc<LocalServer> {
        self.config.server(self.upstream_index, server)
    }

    /// Decides about retries: that of the route, else that of the upstream.
    #[inline]
    pub(crate) fn retry(self) -> &'a RetryPolicy {
        self.route.config.retry.as_deref().unwrap_or(&self.upstream.retry)
    }

    /// How long to wait for each party.
    #[inline(always)]
    pub(crate) fn wait_limits(self, listener: &ListenerPlan) -> WaitLimits {
        let limits = listener.wait_limits(self.upstream);
        WaitLimits { response: self.route.config.timeouts.response.or(limits.response), ..limits }
    }

    /// What the worker counts of the upstream.
    #[inline]
    pub(crate) fn upstream_shard(self) -> &'a UpstreamShard {
        self.config.upstream_shard(self.upstream_index)
    }

    /// A server of the upstream.
    #[inline]
    pub(crate) fn to(self, server: ServerId) -> Destination<'a> {
        let Self { config, upstream: plan, upstream_index: upstream, .. } = self;
        let server = server.index();
        Destination { config, upstream, plan, server, local: self.server(server) }
    }
}
