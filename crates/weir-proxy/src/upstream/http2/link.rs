//! One connection to a server, as the exchanges see it that want a stream on it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use weir_http::Priority;
use weir_observe::Cause;

use super::receive::{ResponseInbox, ToServers};
use crate::net::clock::Instant;
use crate::relay::http2::handle::StreamHandle;
use crate::relay::http2::shared::{SharedConnection, StreamShared};
use crate::state::snapshot::UpstreamPlan;

/// Bodies of requests are sent in turns, so that a long one holds up no other.
const IN_TURNS: Priority = Priority { urgency: 3, is_incremental: true };

/// One connection to a server.
pub(super) struct ServerLink {
    pub(super) shared: Rc<SharedConnection<ToServers>>,
    pub(super) opened_at: Instant,
    /// The plan of the newest exchange on it: its limits hold for what is received.
    plan: RefCell<Arc<UpstreamPlan>>,
    /// Streams that are promised to exchanges which have not begun them.
    reserved: Cell<usize>,
    /// Whether it takes no more requests, and ends behind those that it has.
    is_retired: Cell<bool>,
}

impl ServerLink {
    pub(super) fn new(
        shared: &Rc<SharedConnection<ToServers>>,
        opened_at: Instant,
        plan: &Arc<UpstreamPlan>,
    ) -> Rc<Self> {
        Rc::new(Self {
            shared: Rc::clone(shared),
            opened_at,
            plan: RefCell::new(Arc::clone(plan)),
            reserved: Cell::new(0),
            is_retired: Cell::new(false),
        })
    }

    pub(super) fn plan(&self) -> Arc<UpstreamPlan> {
        Arc::clone(&self.plan.borrow())
    }

    /// Uses another plan from now on, if it is another.
    pub(super) fn follow(&self, plan: &Arc<UpstreamPlan>) {
        let mut known = self.plan.borrow_mut();
        if !Arc::ptr_eq(&known, plan) {
            *known = Arc::clone(plan);
        }
    }

    /// Whether another stream can be begun or promised.
    pub(super) fn has_room(&self) -> bool {
        if self.is_retired.get() {
            return false;
        }
        let state = self.shared.state.borrow();
        let codec = &state.codec;
        let streams_max =
            self.plan.borrow().config.http2.streams_max.min(codec.remote().max_concurrent_streams);
        !state.is_closed
            && !state.side.is_going_away
            && codec.can_open()
            && codec.streams_open() + self.reserved.get() < streams_max as usize
    }

    /// Requests that it may have at once.
    pub(super) fn streams_max(&self) -> u32 {
        let remote_max = self.shared.state.borrow().codec.remote().max_concurrent_streams;
        self.plan.borrow().config.http2.streams_max.min(remote_max)
    }

    /// Promises a stream.
    pub(super) fn reserve(&self) {
        self.reserved.update(|reserved| reserved + 1);
    }

    /// Takes a promise back, or fulfils it.
    pub(super) fn unreserve(&self) {
        self.reserved.update(|reserved| reserved - 1);
    }

    /// Begins a stream, and how many the connection has had before; `None` when the server takes no more.
    pub(super) fn begin(&self) -> Option<(StreamHandle<ToServers>, u64)> {
        let state = &mut *self.shared.state.borrow_mut();
        let carried = state.codec.streams_opened();
        let stream = state.open_stream(ResponseInbox::new(), IN_TURNS)?;
        Some((StreamHandle::new(Rc::clone(&self.shared), stream), carried.into()))
    }

    /// A stream that does not exist: the server takes no more.
    pub(super) fn nothing(&self) -> StreamHandle<ToServers> {
        let stream = StreamShared::new(0, ResponseInbox::new(), true, IN_TURNS);
        stream.leave(Cause::GoAway);
        StreamHandle::new(Rc::clone(&self.shared), stream)
    }

    /// Whether it has neither streams nor promises of any.
    pub(super) fn is_idle(&self) -> bool {
        self.reserved.get() == 0 && self.shared.state.borrow().streams.is_empty()
    }

    /// It takes no more requests; whether it did until now.
    pub(super) fn retire(&self) -> bool {
        let is_news = !self.is_retired.replace(true);
        if is_news {
            self.shared.state.borrow_mut().wake();
        }
        is_news
    }

    pub(super) fn is_retired(&self) -> bool {
        self.is_retired.get()
    }
}
