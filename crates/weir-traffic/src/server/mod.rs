//! The state of one server, shared by all workers: load, limit, weight, health.
//!
//! One [`ServerState`] per server, shared by every worker and kept over a reload, so that a request admitted
//! under the old config still counts under the new one. The balancer reads it, takes slots in it and gives
//! them back; health checks and operators write it. It must not know addresses or connections, and
//! reads no clock.

mod summary;
mod eligibility;
mod status;
mod consecutive_failures;
mod latency;
mod tier;

pub use consecutive_failures::ConsecutiveFailures;
pub use eligibility::Eligibility;
pub use status::{Health, Mode, PART_FULL};
pub use summary::ServerSummary;
pub use tier::ServerTier;

pub(crate) use status::EjectionState;

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use latency::Latency;
use status::StatusWord;

/// The largest weight a server can have.
pub const WEIGHT_MAX: u32 = 256;

/// The ramp of a server that takes its full share; see [`ServerState::set_ramp`].
pub const RAMP_FULL: u32 = 256;

/// The position of a server in its upstream, in the order of the config.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServerId(pub u32);

impl ServerId {
    /// The position as an index into a slice.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The shared counters and settings of one server.
///
/// Of 64 bytes and aligned to them, behind an `Arc` of another 64: two servers never share a cache line, and of the pair of lines that
/// x86 prefetches together one holds the counts of an `Arc`, which no request touches.
///
/// All accesses to the load are sequentially consistent. A worker that finds every server full puts its
/// request into the queue and then reads the slots again; a worker that releases a slot then reads the queue. With
/// this order, one of the two sees the other, so no request waits beside a free server. On x86 it costs
/// nothing over relaxed order.
#[derive(Debug)]
#[repr(align(64))]
pub struct ServerState {
    in_flight: AtomicU32,
    /// `u32::MAX` when there is no limit: one comparison serves both cases.
    limit: AtomicU32,
    status: AtomicU64,
    /// Virtual time of this server's next turn; belongs to the balancer's `Rotation`.
    turn: AtomicU64,
    latency: Latency,
    consecutive_failures: ConsecutiveFailures,
}

impl ServerState {
    /// A server that is up and serving, with nothing in flight.
    ///
    /// `weight` above [`WEIGHT_MAX`] counts as [`WEIGHT_MAX`], 0 means no new requests. `max_requests` 0
    /// means no limit.
    pub fn new(weight: u32, max_requests: u32) -> ServerState {
        ServerState {
            in_flight: AtomicU32::new(0),
            limit: AtomicU32::new(limit_from(max_requests)),
            status: AtomicU64::new(StatusWord::new(weight).pack()),
            turn: AtomicU64::new(0),
            latency: Latency::default(),
            consecutive_failures: ConsecutiveFailures::default(),
        }
    }

    /// Requests and tunnels that run on the server or wait for a connection to it.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// The most requests in flight at once; 0 means no limit.
    pub fn max_requests(&self) -> u32 {
        match self.limit.load(Ordering::SeqCst) {
            u32::MAX => 0,
            limit => limit,
        }
    }

    /// Changes the limit; 0 means none. Requests already in flight above a lowered limit finish undisturbed.
    pub fn set_max_requests(&self, max_requests: u32) {
        self.limit.store(limit_from(max_requests), Ordering::SeqCst);
    }

    /// The weight the config or the operator gave, 0 to [`WEIGHT_MAX`].
    pub fn weight(&self) -> u32 {
        self.status().weight
    }

    /// Changes the weight, effective at the next choice; above [`WEIGHT_MAX`] counts as [`WEIGHT_MAX`].
    pub fn set_weight(&self, weight: u32) {
        self.change(|status| status.weight = weight.min(WEIGHT_MAX));
    }

    /// Changes the weight and the part of it that counts, in 1/32 (1 to [`PART_FULL`]), effective at the next choice.
    pub fn set_weight_part(&self, weight: u32, part: u32) {
        self.change(|status| {
            status.weight = weight.min(WEIGHT_MAX);
            status.part = part.clamp(1, PART_FULL);
        });
    }

    /// The part of its weight the server gets, in 1/256.
    pub fn ramp(&self) -> u32 {
        self.status().ramp
    }

    /// Scales the weight by `ramp`/256 (1 to [`RAMP_FULL`]) without touching it: slow start after a recovery.
    pub fn set_ramp(&self, ramp: u32) {
        self.change(|status| status.ramp = ramp.clamp(1, RAMP_FULL));
    }

    /// The last verdict of the health checks, and down if the agent of the server says so.
    pub fn health(&self) -> Health {
        self.status().effective_health()
    }

    /// The last verdict of the health checks alone.
    pub fn probed_health(&self) -> Health {
        self.status().health
    }

    /// Records the verdict of the health checks.
    pub fn set_health(&self, health: Health) {
        self.change(|status| status.health = health);
    }

    /// Whether it gets no requests because of those that failed ([`crate::ejection`]).
    pub fn is_ejected(&self) -> bool {
        self.status().ejection.is_out()
    }

    /// Whether it may have one request to show whether it is well.
    pub fn is_on_trial(&self) -> bool {
        self.status().ejection == EjectionState::OnTrial
    }

    /// Records the verdict of live traffic; that of the health checks is unchanged.
    pub(crate) fn set_ejection(&self, ejection: EjectionState) {
        self.change(|status| status.ejection = ejection);
    }

    /// Whether an unbound request with a slot may begin: not when the server became ineligible meanwhile, and of those
    /// that reach a server on trial, only the first.
    #[inline]
    pub(crate) fn may_begin(&self) -> bool {
        let word = self.status.load(Ordering::Relaxed);
        StatusWord::share_of(word) != 0 && (!StatusWord::is_on_trial(word) || self.take_trial())
    }

    /// The same for a request that is bound to the server.
    #[inline]
    pub(crate) fn may_begin_bound(&self) -> bool {
        let word = self.status.load(Ordering::Relaxed);
        !StatusWord::is_on_trial(word) || self.take_trial()
    }

    #[cold]
    fn take_trial(&self) -> bool {
        let taken = |word| {
            let status = StatusWord { ejection: EjectionState::Taken, ..StatusWord::unpack(word) };
            StatusWord::is_on_trial(word).then(|| status.pack())
        };
        self.status.fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken).is_ok()
    }

    /// Gives back the slot of a request that may have begun and has not; if it had taken the trial, the next may have
    /// that.
    pub(crate) fn give_back(&self) {
        let returned = |word| {
            let status = StatusWord::unpack(word);
            let is_taken = status.ejection == EjectionState::Taken;
            is_taken.then(|| StatusWord { ejection: EjectionState::OnTrial, ..status }.pack())
        };
        // Before the slot: a thread that finds the slot finds the trial too.
        let _none_taken = self.status.fetch_update(Ordering::Relaxed, Ordering::Relaxed, returned);
        self.release();
    }

    /// Whether it gets requests whatever its health checks and live traffic say of it.
    pub fn is_in_panic(&self) -> bool {
        self.status().panic
    }

    /// Makes the balancer ignore health and ejection, or respect them again.
    pub(crate) fn set_panic(&self, panic: bool) {
        self.change(|status| status.panic = panic);
    }

    /// The ejection state, from live traffic.
    #[inline]
    pub fn consecutive_failures(&self) -> &ConsecutiveFailures {
        &self.consecutive_failures
    }

    /// Takes in what the agent of the server says: the mode that it wants, and whether it is down. Neither undoes what operators and health
    /// checks say.
    pub fn set_agent(&self, mode: Mode, is_down: bool) {
        self.change(|status| (status.agent_mode, status.agent_down) = (mode, is_down));
    }

    /// Whether its agent takes it out of service, more or less.
    pub fn is_held_by_agent(&self) -> bool {
        let status = self.status();
        status.agent_down || status.agent_mode != Mode::Serving
    }

    /// The mode that counts: that of the operator or that of the agent, whichever allows less.
    pub fn effective_mode(&self) -> Mode {
        self.status().effective_mode()
    }

    /// The mode that the operator has set.
    pub fn mode(&self) -> Mode {
        self.status().mode
    }

    /// Sets the operator's mode.
    pub fn set_mode(&self, mode: Mode) {
        self.change(|status| status.mode = mode);
    }

    /// Sets it to `to` if it still is `from`; `false`: it was changed meanwhile.
    pub fn turn_mode(&self, from: Mode, to: Mode) -> bool {
        let turned = |word| {
            let status = StatusWord::unpack(word);
            (status.mode == from).then(|| StatusWord { mode: to, ..status }.pack())
        };
        self.status.fetch_update(Ordering::Relaxed, Ordering::Relaxed, turned).is_ok()
    }

    /// Whether the balancer may choose the server for any request: up, not ejected, serving, weight above 0. It
    /// may still be full.
    pub fn is_eligible(&self) -> bool {
        self.share() != 0
    }

    /// Whether the server takes requests bound to it (by a cookie, say): up, not ejected, serving or draining,
    /// whatever its weight.
    pub fn accepts_bound(&self) -> bool {
        let status = self.status();
        status.is_usable() && status.effective_mode() != Mode::Maintenance
    }

    /// Whether every slot is taken.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.in_flight() >= self.limit.load(Ordering::SeqCst)
    }

    /// Whether `in_flight` requests are all the server may have.
    #[inline]
    pub(crate) fn is_limit(&self, in_flight: u32) -> bool {
        in_flight >= self.limit.load(Ordering::SeqCst)
    }

    /// Takes a slot if one is free. However many threads call at once, `max_requests` is never exceeded.
    ///
    /// Health, mode and weight are not checked: that is the balancer's task.
    #[must_use = "a slot that was taken has to be released"]
    pub fn try_acquire(&self) -> bool {
        let mut observed = self.in_flight();
        while observed < self.limit.load(Ordering::SeqCst) {
            match self.in_flight.compare_exchange_weak(
                observed,
                observed + 1,
                Ordering::SeqCst,
                Ordering::SeqCst,
            ) {
                Ok(_) => return true,
                Err(newer) => observed = newer,
            }
        }
        false
    }

    /// Takes slots for requests that another process has on the server, whether they are free or not. Each is given back by [`Self::release`].
    pub fn occupy(&self, count: u32) {
        self.in_flight.fetch_add(count, Ordering::SeqCst);
    }

    /// Takes a slot only if exactly `observed` are taken, so that a choice made by comparing loads still
    /// holds.
    #[inline]
    pub(crate) fn try_acquire_at(&self, observed: u32) -> bool {
        self.in_flight.compare_exchange(observed, observed + 1, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Gives back one slot taken before. A release too many is a defect; it is ignored outside debug builds,
    /// because a count that wraps would close the server for good.
    #[inline]
    pub fn release(&self) {
        if self.in_flight.fetch_sub(1, Ordering::SeqCst) == 0 {
            self.in_flight.fetch_add(1, Ordering::SeqCst);
            debug_assert!(false, "a slot was released twice");
        }
    }

    /// Takes in that the server began to answer a request after `micros` microseconds, or was given up after that time.
    /// `now_ms` is in milliseconds on the clock of [`Pick::now_ms`](crate::balance::Pick::now_ms).
    pub fn observe_latency(&self, micros: u32, now_ms: u64) {
        self.latency.observe(micros, now_ms);
    }

    #[inline]
    pub(crate) fn latency(&self) -> &Latency {
        &self.latency
    }

    /// Weight times ramp, 0 when the server takes no unbound requests: the unit in which balancers compare
    /// servers.
    #[inline]
    pub(crate) fn share(&self) -> u32 {
        StatusWord::share_of(self.status.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn turn(&self) -> &AtomicU64 {
        &self.turn
    }

    #[inline]
    pub(crate) fn packed_status(&self) -> u64 {
        self.status.load(Ordering::Relaxed)
    }

    fn status(&self) -> StatusWord {
        StatusWord::unpack(self.status.load(Ordering::Relaxed))
    }

    fn change(&self, edit: impl Fn(&mut StatusWord)) {
        self.status
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
                let mut status = StatusWord::unpack(word);
                edit(&mut status);
                Some(status.pack())
            })
            .expect("the closure always gives a new value");
    }
}

const fn limit_from(max_requests: u32) -> u32 {
    if max_requests == 0 { u32::MAX } else { max_requests }
}

/// A slot taken on a server, released when dropped. `S` is `&ServerState`, `Arc<ServerState>` or the like.
#[derive(Debug)]
#[must_use = "dropping it releases the slot"]
pub struct ServerSlot<S: Deref<Target = ServerState>>(S);

impl<S: Deref<Target = ServerState>> ServerSlot<S> {
    /// Takes over a slot that [`ServerState::try_acquire`] or the balancer has already taken on `server`.
    pub fn adopt(server: S) -> ServerSlot<S> {
        ServerSlot(server)
    }

    /// The server the slot is on.
    pub fn server(&self) -> &ServerState {
        &self.0
    }
}

impl<S: Deref<Target = ServerState>> Drop for ServerSlot<S> {
    fn drop(&mut self) {
        self.0.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::Barrier;

    #[test]
    fn a_server_takes_two_cache_lines() {
        assert_eq!((size_of::<ServerState>(), align_of::<ServerState>()), (64, 64));
    }

    #[test]
    fn eligibility_follows_health_mode_and_weight() {
        let server = ServerState::new(3, 0);
        assert!(server.is_eligible() && server.accepts_bound());
        server.set_mode(Mode::Draining);
        assert!(!server.is_eligible() && server.accepts_bound());
        server.set_mode(Mode::Maintenance);
        assert!(!server.is_eligible() && !server.accepts_bound());
        server.set_health(Health::Down);
        server.set_mode(Mode::Serving);
        assert!(
            !server.is_eligible() && !server.accepts_bound(),
            "the end of maintenance does not revive it"
        );
        server.set_health(Health::Up);
        server.set_weight(0);
        assert!(!server.is_eligible() && server.accepts_bound());
        server.set_weight(9999);
        assert!(server.is_eligible());
        assert_eq!(server.weight(), WEIGHT_MAX);
        server.set_ramp(0);
        assert_eq!((server.ramp(), server.weight()), (1, WEIGHT_MAX));
        assert!(!server.turn_mode(Mode::Draining, Mode::Maintenance) && server.is_eligible());
        assert!(server.turn_mode(Mode::Serving, Mode::Maintenance) && server.mode() == Mode::Maintenance);
    }

    #[test]
    fn the_agent_undoes_neither_operator_nor_health_checks() {
        let server = ServerState::new(2, 0);
        server.set_agent(Mode::Draining, false);
        assert!(!server.is_eligible() && server.accepts_bound() && server.is_held_by_agent());
        assert_eq!((server.mode(), server.effective_mode()), (Mode::Serving, Mode::Draining));
        server.set_mode(Mode::Maintenance);
        assert_eq!(server.effective_mode(), Mode::Maintenance, "the operator allows less");
        server.set_agent(Mode::Serving, false);
        assert!(!server.is_eligible() && !server.is_held_by_agent());
        server.set_mode(Mode::Serving);
        assert!(server.is_eligible());
        server.set_agent(Mode::Serving, true);
        assert!(!server.is_eligible() && !server.accepts_bound());
        assert_eq!((server.health(), server.probed_health()), (Health::Down, Health::Up));
        server.set_health(Health::Down);
        server.set_agent(Mode::Serving, false);
        assert!(!server.is_eligible(), "its probes fail");
        server.set_health(Health::Up);
        assert!(server.is_eligible());
    }

    #[test]
    fn ejection_and_health_do_not_undo_each_other() {
        let server = ServerState::new(2, 0);
        server.set_health(Health::Down);
        server.set_ejection(EjectionState::Ejected);
        server.set_health(Health::Up);
        assert!(!server.is_eligible() && !server.accepts_bound() && server.is_ejected());
        server.set_health(Health::Down);
        server.set_ejection(EjectionState::None);
        assert!(!server.is_eligible() && !server.accepts_bound());
        server.set_ejection(EjectionState::Ejected);
        server.set_panic(true);
        assert!(server.is_eligible() && server.accepts_bound(), "neither counts");
        assert!(server.is_ejected() && server.health() == Health::Down, "both are remembered");
        server.set_mode(Mode::Maintenance);
        assert!(!server.is_eligible() && !server.accepts_bound(), "what the operator wants counts still");
    }

    #[test]
    fn one_request_has_the_trial() {
        let server = ServerState::new(1, 0);
        assert!(server.may_begin() && server.may_begin());
        for _ in 0..100 {
            server.set_ejection(EjectionState::OnTrial);
            assert!(server.is_eligible() && !server.is_ejected());
            let begun = std::thread::scope(|scope| {
                let threads = [(); 3].map(|()| scope.spawn(|| server.may_begin()));
                threads
                    .map(|thread| usize::from(thread.join().expect("no thread panics")))
                    .iter()
                    .sum::<usize>()
            });
            assert!(begun == 1 && server.is_ejected() && !server.is_eligible());
        }
    }

    #[test]
    fn the_limit_can_change_under_load() {
        let server = ServerState::new(1, 2);
        assert!(server.try_acquire() && server.try_acquire() && !server.try_acquire());
        server.set_max_requests(1);
        server.release();
        assert!(!server.try_acquire(), "one is still running");
        server.set_max_requests(0);
        assert_eq!(server.max_requests(), 0);
        assert!(server.try_acquire() && server.try_acquire());
        assert_eq!(server.in_flight(), 3);
    }

    #[test]
    fn a_dropped_slot_is_free_again() {
        let server = Arc::new(ServerState::new(1, 1));
        assert!(server.try_acquire());
        let slot = ServerSlot::adopt(Arc::clone(&server));
        assert!(slot.server().is_full());
        drop(slot);
        assert!(!server.is_full());
    }

    #[test]
    fn threads_never_exceed_the_limit() {
        const LIMIT: u32 = 3;
        let server = ServerState::new(1, LIMIT);
        let inside = AtomicU32::new(0);
        let seen_max = AtomicU32::new(0);
        let barrier = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    barrier.wait();
                    for _ in 0..5_000 {
                        if server.try_acquire() {
                            let now = inside.fetch_add(1, Ordering::SeqCst) + 1;
                            seen_max.fetch_max(now, Ordering::SeqCst);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            server.release();
                        }
                    }
                });
            }
        });
        assert!((1..=LIMIT).contains(&seen_max.into_inner()));
        assert_eq!(server.in_flight(), 0);
    }
}
