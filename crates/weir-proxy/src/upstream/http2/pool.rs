//! The connections of a worker to one server, and the exchanges that wait for a stream on one of them.
//!
//! A stream is taken on the oldest connection that has room, so that few are busy and the others come to their end. When none has room, one
//! more is opened for as many exchanges as it will carry, and they wait for it together.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use weir_observe::{Cause, Failure, Phase};

use super::link::ServerLink;
use super::opening::Opener;
use crate::net::clock::{self, Instant};
use crate::net::connection::Connection;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker_config::{LocalServer, StreamPool};
use crate::upstream::stream::Destination;

/// Requests that a connection is taken to carry before there has been one.
const STREAMS_ASSUMED: u32 = 100;

/// How long a server that requires HTTP/1.1 gets all requests that way, before HTTP/2 is tried again.
const HTTP1_TIME: Duration = Duration::from_secs(600);

/// The connections of a worker to one server.
pub(super) struct Http2Pool {
    /// Opens a connection in a task of its own.
    spawn: fn(Opening, Opener),
    /// In the order in which they were opened.
    links: RefCell<Vec<Rc<ServerLink>>>,
    /// Connections that are being opened.
    openings: Cell<usize>,
    waiters: RefCell<VecDeque<Rc<StreamWaiter>>>,
    /// Whether the server has chosen HTTP/1 the last time that it could choose.
    chooses_http1: Cell<bool>,
    /// Until when requests go over HTTP/1 since the server has required that.
    http1_until: Cell<Option<Instant>>,
    /// Requests that the last connection could carry at once.
    streams_max: Cell<Option<u32>>,
    is_closed: Cell<bool>,
}

/// What an exchange gets that has waited.
pub(super) enum Opened {
    Stream(StreamTicket),
    /// A connection of its own: the server has chosen HTTP/1.
    Connection(Box<Connection>),
    /// The server has chosen HTTP/1 for another exchange: this one may open a connection of its own.
    Alone,
}

/// An exchange that waits.
pub(super) struct StreamWaiter {
    outcome: Cell<Option<Result<Opened, Failure>>>,
    waker: RefCell<Option<Waker>>,
    opener: Opener,
}

impl StreamWaiter {
    fn resolve(&self, outcome: Result<Opened, Failure>) {
        self.outcome.set(Some(outcome));
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// The promise of a stream, which goes to the next that waits when it is dropped.
pub(crate) struct StreamTicket {
    pool: Rc<Http2Pool>,
    pub(super) link: Rc<ServerLink>,
}

impl Drop for StreamTicket {
    fn drop(&mut self) {
        self.link.unreserve();
        self.pool.settle();
    }
}

/// The pool of a server, where its state keeps it.
struct PoolHandle(Rc<Http2Pool>);

impl Http2Pool {
    /// The pool of a server, which opens connections with `spawn`.
    #[inline]
    pub(super) fn from_local_server(local: &LocalServer, spawn: fn(Opening, Opener)) -> &Rc<Self> {
        let pool: &dyn Any = local.stream_pool(|| Box::new(PoolHandle(Rc::new(Self::new(spawn)))));
        &pool.downcast_ref::<PoolHandle>().expect("a server has one protocol").0
    }

    fn new(spawn: fn(Opening, Opener)) -> Self {
        Self {
            spawn,
            links: RefCell::default(),
            openings: Cell::new(0),
            waiters: RefCell::default(),
            chooses_http1: Cell::new(false),
            http1_until: Cell::new(None),
            streams_max: Cell::new(None),
            is_closed: Cell::new(false),
        }
    }

    /// A connection with room for another stream, unless others wait for one.
    pub(super) fn link_with_room(&self, to: Destination<'_>) -> Option<Rc<ServerLink>> {
        if !self.waiters.borrow().is_empty() {
            return None;
        }
        self.first_with_room(to.config.upstream_plan(to.upstream), to.server)
    }

    fn first_with_room(&self, plan: &Arc<UpstreamPlan>, server: usize) -> Option<Rc<ServerLink>> {
        let links = self.links.borrow();
        let link = links.iter().find(|link| {
            if plan.is_outdated(server, link.opened_at) {
                link.retire();
            }
            link.has_room()
        })?;
        link.follow(plan);
        Some(Rc::clone(link))
    }

    /// Whether requests go over HTTP/1: the server has chosen that the last time that it could choose, or has required it lately.
    pub(super) fn uses_http1(&self, now: Instant) -> bool {
        self.chooses_http1.get() || self.http1_until.get().is_some_and(|until| now < until)
    }

    /// The server requires HTTP/1 (RFC 9113 section 7): its connections end behind the requests that they have, and those that wait for a
    /// stream open connections of their own.
    #[cold]
    pub(super) fn require_http1(&self, now: Instant) {
        self.http1_until.set(Some(now + HTTP1_TIME));
        self.links.borrow().iter().for_each(|link| {
            link.retire();
        });
        let waiters = std::mem::take(&mut *self.waiters.borrow_mut());
        for waiter in waiters {
            waiter.resolve(Ok(Opened::Alone));
        }
    }

    /// Whether exchanges wait although no connection is being opened: there may be no more of them.
    pub(super) fn is_full(&self) -> bool {
        self.openings.get() == 0 && !self.links.borrow().is_empty()
    }

    /// Waits for a stream.
    pub(super) async fn wait(self: Rc<Self>, opener: Opener) -> Result<Opened, Failure> {
        let waiter = Rc::new(StreamWaiter { outcome: Cell::new(None), waker: RefCell::default(), opener });
        self.waiters.borrow_mut().push_back(Rc::clone(&waiter));
        let place = WaitingPlace { pool: &self, waiter: &waiter };
        self.settle();
        let outcome = poll_fn(|cx| match waiter.outcome.take() {
            Some(outcome) => Poll::Ready(outcome),
            None => {
                waiter.waker.replace(Some(cx.waker().clone()));
                Poll::Pending
            }
        })
        .await;
        drop(place);
        outcome
    }

    /// Gives streams to those that wait, and opens connections as far as that is not enough.
    pub(super) fn settle(self: &Rc<Self>) {
        loop {
            let Some(waiter) = self.waiters.borrow().front().map(Rc::clone) else { return };
            let opener = &waiter.opener;
            let Some(link) = self.first_with_room(opener.plan(), opener.server) else { break };
            self.waiters.borrow_mut().pop_front();
            link.reserve();
            waiter.resolve(Ok(Opened::Stream(StreamTicket { pool: Rc::clone(self), link })));
        }
        while let Some(opener) = self.next_opener() {
            (self.spawn)(Opening::new(self), opener);
        }
    }

    /// What to open a connection with, if one more is needed and allowed.
    fn next_opener(&self) -> Option<Opener> {
        let waiters = self.waiters.borrow();
        let front = waiters.front()?;
        let config = &front.opener.plan().config.http2;
        let openings = self.openings.get();
        let (links, live) = {
            let links = self.links.borrow();
            (links.len(), links.iter().filter(|link| !link.is_retired()).count())
        };
        // One that takes nothing at all will not do so by being one of several.
        let carries = match self.streams_max.get() {
            Some(0) if live > 0 => return None,
            known => known.unwrap_or(STREAMS_ASSUMED).min(config.streams_max).max(1),
        };
        let is_needed = openings * (carries as usize) < waiters.len();
        let is_allowed = links + openings < config.connections_max as usize;
        (is_needed && is_allowed).then(|| front.opener.clone())
    }

    /// A connection is open.
    pub(super) fn add(&self, link: &Rc<ServerLink>) {
        self.streams_max.set(Some(link.streams_max()));
        self.chooses_http1.set(false);
        if self.is_closed.get() || self.uses_http1(clock::now()) {
            link.retire();
        }
        self.links.borrow_mut().push(Rc::clone(link));
    }

    /// A connection has ended.
    pub(super) fn remove(self: &Rc<Self>, link: &Rc<ServerLink>) {
        self.links.borrow_mut().retain(|known| !Rc::ptr_eq(known, link));
        self.settle();
    }
}

/// The place of an exchange among those that wait, left when it is dropped.
struct WaitingPlace<'a> {
    pool: &'a Rc<Http2Pool>,
    waiter: &'a Rc<StreamWaiter>,
}

impl Drop for WaitingPlace<'_> {
    fn drop(&mut self) {
        self.pool.waiters.borrow_mut().retain(|waiter| !Rc::ptr_eq(waiter, self.waiter));
        // What it was given meanwhile goes to the next.
        drop(self.waiter.outcome.take());
    }
}

/// A connection that is being opened, until its outcome is told.
pub(super) struct Opening {
    pool: Rc<Http2Pool>,
    is_told: bool,
}

impl Opening {
    fn new(pool: &Rc<Http2Pool>) -> Self {
        pool.openings.update(|openings| openings + 1);
        Self { pool: Rc::clone(pool), is_told: false }
    }

    /// It is open, and takes requests.
    pub(super) fn done(mut self, link: &Rc<ServerLink>) -> Rc<Http2Pool> {
        self.is_told = true;
        let pool = Rc::clone(&self.pool);
        pool.add(link);
        drop(self);
        pool
    }

    /// The server has chosen HTTP/1: the one that has waited longest gets the connection, the others go their own way.
    pub(super) fn chose_http1(mut self, connection: Connection) {
        self.is_told = true;
        self.pool.chooses_http1.set(true);
        let waiters = std::mem::take(&mut *self.pool.waiters.borrow_mut());
        let mut opened = Opened::Connection(Box::new(connection));
        for waiter in waiters {
            waiter.resolve(Ok(std::mem::replace(&mut opened, Opened::Alone)));
        }
    }

    /// It could not be opened: all that wait hear of it, since another attempt for each of them would fail as well.
    pub(super) fn failed(mut self, failure: Failure) {
        self.tell_failure(failure);
    }

    fn tell_failure(&mut self, failure: Failure) {
        self.is_told = true;
        let waiters = std::mem::take(&mut *self.pool.waiters.borrow_mut());
        for waiter in waiters {
            waiter.resolve(Err(failure));
        }
    }
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.pool.openings.update(|openings| openings - 1);
        if !self.is_told {
            // Its task has ended early, by a panic or with the worker: another one would end in the same way.
            self.tell_failure(Failure::weir(Phase::Connect, Cause::Io));
        }
        self.pool.settle();
    }
}

impl StreamPool for PoolHandle {
    fn close(&self) {
        self.0.is_closed.set(true);
        self.0.links.borrow().iter().for_each(|link| {
            link.retire();
        });
    }

    fn shed(&self) -> bool {
        let links = self.0.links.borrow();
        let idle = links.iter().filter(|link| !link.is_retired() && link.is_idle());
        idle.map(|link| link.retire()).filter(|is_news| *is_news).count() > 0
    }

    fn keep_if(&self, stays: &dyn Fn(Instant) -> bool) {
        self.0.links.borrow().iter().filter(|link| !stays(link.opened_at)).for_each(|link| {
            link.retire();
        });
    }

    fn idle(&self) -> usize {
        self.0.links.borrow().iter().filter(|link| link.is_idle()).count()
    }
}

impl std::fmt::Debug for PoolHandle {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("PoolHandle").field("links", &self.0.links.borrow().len()).finish_non_exhaustive()
    }
}
