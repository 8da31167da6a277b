//! How a request has gone on inside of its listener, on another path or another route than it came for.

use std::rc::Rc;
use std::sync::Arc;

use weir_config::{DotSegments, REROUTINGS_MAX, Upstream};
use weir_http::Rule;
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::names::HeldName;

use super::exchange_limits::KnownRefusal;
use super::response::kept_fields::KeptResponse;
use crate::net::clock::Instant;
use crate::state::limits::limit::LimitPlan;

/// What few exchanges have; on the heap.
#[derive(Debug, Default)]
pub(crate) struct RareState {
    /// The beginning of the first line of a head that could not be read.
    pub(crate) first_line: Box<[u8]>,
    /// How it has gone on.
    pub(in crate::exchange) rerouting: Rerouting,
    /// The server that it names.
    pub(in crate::exchange) named_server: Option<NamedServer>,
}

/// What a request names: made once, so that the cache and the connection mean the same.
#[derive(Debug)]
pub(in crate::exchange) struct NamedServer {
    /// Its name in the one form that it has, with the port.
    pub(in crate::exchange) name: Box<str>,
    /// Keeps its place while the request needs it.
    pub(in crate::exchange) held: Option<HeldName>,
}

/// What was changed of the request since it came, and where it goes on.
#[derive(Debug, Default)]
pub(in crate::exchange) struct Rerouting {
    /// The target as it was received, once it is another one.
    pub(in crate::exchange) received_target: Option<Box<[u8]>>,
    /// Path and query of that, in the form in which applications get them (`REQUEST_URI`).
    pub(in crate::exchange) received_uri: Box<[u8]>,
    /// The routes that it has left, in order.
    pub(in crate::exchange) left: Vec<usize>,
    /// The path by which it came to its route, where a rewrite of that has made it another one: groups of `path_regex` are of this.
    pub(in crate::exchange) matched_path: Option<Box<[u8]>>,
    /// How often the request was routed anew.
    count: u8,
    /// Where a feature of its route has sent it.
    pub(in crate::exchange) next: Option<NextStep>,
    /// The limits that were asked before it was on its route.
    pub(in crate::exchange) asked: Vec<Arc<LimitPlan>>,
    /// What stays of the response of a server that has sent it on.
    pub(in crate::exchange) kept: Option<Rc<KeptResponse>>,
    /// Attempts on servers before it was on its route, and when it came there.
    pub(in crate::exchange) before: Option<(u32, Instant)>,
    /// The attempts that were not of the upstream that its route has now, as far as it is known.
    pub(in crate::exchange) tried: Vec<EarlierAttempts>,
    /// The failure in place of whose page it goes on.
    pub(in crate::exchange) page: Option<FailedPage>,
}

/// Attempts on servers of another upstream, or of the same one before a reload.
#[derive(Debug)]
pub(in crate::exchange) struct EarlierAttempts {
    /// The upstream whose servers they were on.
    pub(in crate::exchange) upstream: Arc<Upstream>,
    /// How many attempts there were when the last of them was over.
    pub(in crate::exchange) seen: u8,
    /// The status that the last of them has answered with, unless it has failed.
    pub(in crate::exchange) status: u16,
    /// When they were over.
    pub(in crate::exchange) ended: Instant,
}

/// That a request goes on in place of an error page.
#[derive(Debug)]
pub(in crate::exchange) struct FailedPage {
    /// `None`: a server has answered with the status.
    pub(in crate::exchange) failure: Option<Failure>,
    /// The status that it goes on in place of: the one that limits and tables count.
    pub(in crate::exchange) replaced: u16,
    /// The status that the client gets; `None`: that of the route that answers.
    pub(in crate::exchange) status: Option<u16>,
    /// The route that the request was on, whose credentials a client may lack.
    pub(in crate::exchange) route: Option<usize>,
    /// How long it is to wait.
    pub(in crate::exchange) retry_after: Option<u32>,
    /// What has refused it, if a limit or a list has.
    pub(in crate::exchange) refusal: KnownRefusal,
}

/// The failure of a request whose own text would lead up and out of the folder that a target names.
pub(in crate::exchange) fn leads_out(_: DotSegments) -> Failure {
    Failure::client(Phase::Request, Cause::Rule(Rule::BadTarget))
}

/// Where a request goes on.
#[derive(Debug)]
pub(in crate::exchange) enum NextStep {
    /// On the route for this path and query, which become its own.
    Target(Vec<u8>),
    /// The same on the route at this place.
    TargetOn(usize, Vec<u8>),
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
    /// Notes that it leaves a route, by its place, and counts that.
    ///
    /// # Errors
    /// When that is too many.
    pub(in crate::exchange) fn leave(&mut self, route: usize) -> Result<(), Failure> {
        self.left.push(route);
        self.matched_path = None;
        self.count()
    }

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
