//! The server that a request names, where its upstream has such.

use weir_traffic::ServerId;
use weir_traffic::affinity::RequestAffinity;

use super::exchange::Exchange;
use super::rerouting::NamedServer;
use crate::state::snapshot::UpstreamPlan;

impl Exchange {
    /// What the request names, once that is known.
    pub(in crate::exchange) fn named_server(&self) -> Option<&str> {
        self.rare.as_ref()?.named_server.as_ref().map(|named| &*named.name)
    }

    /// The request names this server.
    pub(in crate::exchange) fn set_named_server(&mut self, name: Box<str>) {
        self.rare.get_or_insert_default().named_server = Some(NamedServer { name, held: None });
    }

    /// Binds the request to the server that it names, if the plan has that with an address: it has its place until the exchange is over.
    pub(in crate::exchange) fn hold_named_server(&mut self, plan: &UpstreamPlan) -> bool {
        let held = self.named_server().zip(plan.named.as_ref()).and_then(|(name, named)| named.hold(name));
        let ready = held.filter(|(server, _)| !plan.live[server.index()].endpoints.load().is_empty());
        self.affinity = RequestAffinity::bound_to(ready.as_ref().map(|(server, _)| *server));
        let is_ready = ready.is_some();
        if let Some(named) = self.rare.as_mut().and_then(|rare| rare.named_server.as_mut()) {
            named.held = ready.map(|(_, held)| held);
        }
        is_ready
    }

    /// Binds the request to the place that its server has in another plan; to none, where it has none.
    #[cold]
    pub(in crate::exchange) fn follow_named_server(&mut self, plan: &UpstreamPlan) {
        let place = self.named_server().zip(plan.named.as_ref()).and_then(|(name, named)| named.place(name));
        let server = place.and_then(|place| u32::try_from(place).ok()).map(ServerId);
        self.affinity = RequestAffinity::bound_to(server);
    }

    /// Whether a server of a plan is the one that the request names.
    pub(in crate::exchange) fn is_named(&self, plan: &UpstreamPlan, server: ServerId) -> bool {
        let place = self.named_server().zip(plan.named.as_ref()).and_then(|(name, named)| named.place(name));
        place == Some(server.index())
    }
}
