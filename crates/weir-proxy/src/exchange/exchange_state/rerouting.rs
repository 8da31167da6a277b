//! How a request has gone on inside of its listener, on another path or another route than it came for.

use std::sync::Arc;

use weir_config::REROUTINGS_MAX;
use weir_observe::{Cause, Failure, Phase};

use crate::state::limits::limit::LimitPlan;

/// What few exchanges have; on the heap.
#[derive(Debug, Default)]
pub(crate) struct RareState {
    /// The beginning of the first line of a head that could not be read.
    pub(crate) first_line: Box<[u8]>,
    /// How it has gone on.
    pub(in crate::exchange) rerouting: Rerouting,
}

/// What was changed of the request since it came, and where it goes on.
#[derive(Debug, Default)]
pub(in crate::exchange) struct Rerouting {
    /// The target as it was received, once it is another one.
    pub(in crate::exchange) received_target: Option<Box<[u8]>>,
    /// How often the request was routed anew.
    count: u8,
    /// Where a feature of its route has sent it.
    pub(in crate::exchange) next: Option<NextStep>,
    /// The limits that were asked before it was on its route.
    pub(in crate::exchange) asked: Vec<Arc<LimitPlan>>,
    /// The failure in place of whose page it goes on.
    pub(in crate::exchange) page: Option<FailedPage>,
}

/// That a request goes on in place of an error page.
#[derive(Debug)]
pub(in crate::exchange) struct FailedPage {
    /// `None`: a server has answered with the status.
    pub(in crate::exchange) failure: Option<Failure>,
    /// The status that the client gets; `None`: that of the route that answers.
    pub(in crate::exchange) status: Option<u16>,
    /// The route that the request was on, whose credentials a client may lack.
    pub(in crate::exchange) route: Option<usize>,
    /// How long it is to wait.
    pub(in crate::exchange) retry_after: Option<u32>,
}

/// Where a request goes on.
#[derive(Debug)]
pub(in crate::exchange) enum NextStep {
    /// On the route for this path and query, which become its own.
    Target(Vec<u8>),
    /// On the route at this place.
    Route(usize),
    /// Nowhere: its client is redirected, if the route that it is on lets it pass.
    Redirect(u16, Vec<u8>),
    /// Nowhere: its client is redirected in place of an error page.
    PageRedirect(u16, Vec<u8>),
    /// Nowhere: its client is answered with this status, and the page of that.
    Status(u16),
}

impl Rerouting {
    /// Counts one more.
    ///
    /// # Errors
    /// When that is too many.
    pub(in crate::exchange) fn count(&mut self) -> Result<(), Failure> {
        if self.count >= REROUTINGS_MAX {
            return Err(Failure::weir(Phase::Route, Cause::TooManyReroutings));
        }
        self.count += 1;
        Ok(())
    }
}
