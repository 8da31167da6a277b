//! A slot on a server: the right to have one exchange there.

use std::rc::Rc;
use std::sync::Arc;

use weir_traffic::ServerId;

use crate::net::clock::Instant;
use crate::state::worker_config::WorkerConfig;

/// A slot on a server, given back, and passed on to the next in the queue, when dropped.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) config: Rc<WorkerConfig>,
    pub(crate) upstream: usize,
    pub(crate) server: ServerId,
}

impl Slot {
    /// The config that the server is of, and the place of its upstream in it.
    pub(crate) fn location(&self) -> (Rc<WorkerConfig>, usize) {
        (Rc::clone(&self.config), self.upstream)
    }

    /// When the server has to be free, because the config does not name it any more. After a reload, a slot that is kept for long releases
    /// the old config if the new one, `present`, has the server too.
    pub(crate) fn follow(&mut self, present: &Rc<WorkerConfig>) -> Option<Instant> {
        let plan = &self.config.snapshot.upstreams[self.upstream];
        let state = plan.balancer().state(self.server);
        let known = present.snapshot.upstream(&plan.config.name).filter(|(_, plan)| {
            plan.balancer().states().get(self.server.index()).is_some_and(|known| Arc::ptr_eq(known, state))
        });
        match known {
            None => plan.ends_at(self.server),
            Some((index, plan)) => {
                let ends_at = plan.ends_at(self.server);
                (self.config, self.upstream) = (Rc::clone(present), index);
                ends_at
            }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let plan = &self.config.snapshot.upstreams[self.upstream];
        plan.release(self.server);
    }
}
