//! How much a client may send on all streams of a connection beyond what is read of them.
//!
//! A window of QUIC cannot be taken back: what it allows counts as used memory, whether the client sends that or not. So each connection begins with
//! little, and has its window doubled while more comes and there is room for that.

use std::time::Duration;

use quinn_proto::VarInt;

use crate::net::clock::{self, Instant};
use crate::net::quic::link::{FIRST_WINDOW, QuicLink};
use crate::state::budgets::inbox_budget::InboxBudget;

/// The largest window.
const WINDOW_MAX: u32 = 1024 * 1024;

/// Within how many round trips a client sends half a window that is too small for its network, beside the time that Weir takes.
const ROUND_TRIPS: u32 = 4;
const TURN_TIME: Duration = Duration::from_millis(20);

/// The window of one connection.
#[derive(Debug)]
pub(super) struct UploadWindow {
    bytes: u32,
    /// Since when it is counted what comes, and the bytes that were read by then.
    since: Instant,
    read_bytes: u64,
}

impl UploadWindow {
    /// That which a connection begins with.
    pub(super) fn first(now: Instant) -> Self {
        Self { bytes: FIRST_WINDOW, since: now, read_bytes: 0 }
    }

    /// Bytes beyond those that each connection has.
    const fn granted(&self) -> usize {
        (self.bytes - FIRST_WINDOW) as usize
    }

    /// Allows the client more where it uses what it may, as long as there is room.
    pub(super) fn adapt(&mut self, link: &QuicLink, budget: &InboxBudget) {
        if link.arrived() >= self.bytes / 2 {
            self.look(link, budget);
        }
    }

    /// Whether the client may send hardly anything, since so much is not read: it is not to blame for what does not come then.
    pub(super) fn is_used_up(&self, link: &QuicLink) -> bool {
        link.arrived() >= self.bytes / 8 * 7
    }

    /// Half a window has come. It is too small if all of that came at once, or where so much is not read that other streams have to wait for it.
    #[cold]
    fn look(&mut self, link: &QuicLink, budget: &InboxBudget) {
        let now = clock::now();
        let read = u32::try_from(link.read_bytes() - self.read_bytes).unwrap_or(u32::MAX);
        let unread = link.arrived().saturating_sub(read);
        let at_once = link.with(|connection| connection.rtt()) * ROUND_TRIPS + TURN_TIME;
        let is_small = unread >= self.bytes / 2 || now.saturating_duration_since(self.since) <= at_once;
        if is_small && self.bytes < WINDOW_MAX && budget.has_room() {
            let before = self.granted();
            self.bytes *= 2;
            budget.adjust(before, self.granted());
            link.with(|connection| connection.set_receive_window(VarInt::from_u32(self.bytes)));
        }
        self.begin(link, now);
        link.set_arrived(unread);
    }

    /// Counts what comes from now on.
    pub(super) fn begin(&mut self, link: &QuicLink, now: Instant) {
        link.set_arrived(0);
        (self.since, self.read_bytes) = (now, link.read_bytes());
    }

    /// The connection is over.
    pub(super) fn close(&mut self, budget: &InboxBudget) {
        budget.adjust(self.granted(), 0);
        self.bytes = FIRST_WINDOW;
    }
}
