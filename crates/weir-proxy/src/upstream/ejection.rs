//! What attempts tell of the server they go to: that they begin, if it is watched, and how they end.
//!
//! The rules stand in `weir_traffic::ejection`. The book of an upstream is behind a lock that is taken when a server is watched or
//! has failed too often, never for a request without trouble. What was decided is logged, and timed, by the control
//! thread.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;
use weir_config::Upstream;
use weir_traffic::ServerId;
use weir_traffic::balance::Balancer;
use weir_traffic::ejection::{Ejections, Member};

use crate::clock;
use crate::exchange::failure::Fault;
use crate::snapshot::UpstreamPlan;

/// The book of an upstream and what the data path needs to know of it.
#[derive(Debug)]
pub(crate) struct Ejector {
    book: Mutex<Ejections<Fault>>,
    /// Whether anybody is ever ejected.
    is_on: bool,
    /// Status codes that are failures; sorted.
    on_status: Box<[u16]>,
    /// Failures in a row of which the book has to hear at once.
    reported_from: u32,
    /// Told whenever the control thread has something to tell, or to time.
    pub(crate) changed: Notify,
}

/// How an attempt ended, as far as the server is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    /// It is well.
    Success,
    /// It is not.
    Failure(Fault),
    /// Neither: it was somebody else's doing.
    Unknown,
}

impl Ejector {
    pub(crate) fn new(config: &Upstream, balancer: &Balancer) -> Self {
        let members = balancer.states().iter().zip(&config.servers).map(|(state, server)| Member {
            state: state.clone(),
            backup: server.backup,
            exempt: !server.ejection,
        });
        let rules = config.ejection.as_ref().map(|ejection| ejection.rules);
        let panic_percent = config.panic_threshold.map(weir_config::Percent::percent);
        let starts_slowly = config.slow_start.is_some();
        let book = Ejections::new(rules, panic_percent, starts_slowly, members.collect());
        Self {
            is_on: config.ejection.is_some() && config.servers.len() > 1,
            on_status: config
                .ejection
                .as_ref()
                .map(|ejection| ejection.on_status.clone().into())
                .unwrap_or_default(),
            reported_from: book.failures_to_report().unwrap_or(u32::MAX),
            book: Mutex::new(book),
            changed: Notify::new(),
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Ejections<Fault>> {
        // A panic inside leaves a book that is whole: it does not call out while it changes.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What an answer with this status says of the server.
    #[inline]
    pub(crate) fn judge(&self, status: u16) -> Outcome {
        if status < 400 || !self.on_status.contains(&status) {
            return Outcome::Success;
        }
        Outcome::Failure(Fault::unexpected_status(status))
    }
}

impl UpstreamPlan {
    /// An attempt begins on `server`.
    #[inline]
    pub(crate) fn begin(&self, server: ServerId) {
        if self.is_watched(server) {
            self.begin_watched(server);
        }
    }

    #[cold]
    fn begin_watched(&self, server: ServerId) {
        self.ejector.lock().begin(server, self.millis(clock::now()));
        if self.balancer().state(server).is_ejected() {
            // A trial has begun, and has its time.
            self.ejector.changed.notify_one();
        }
    }

    #[inline]
    fn is_watched(&self, server: ServerId) -> bool {
        self.balancer().state(server).suspicion().is_watched()
    }

    /// Takes in how an attempt on `server` ended that began then.
    #[inline]
    pub(crate) fn hear(&self, server: ServerId, outcome: Outcome, began: Instant) {
        match outcome {
            Outcome::Success => {
                if self.balancer().state(server).suspicion().end_failures() {
                    self.enter(|book, began_ms, now_ms| book.succeed(server, began_ms, now_ms), began);
                }
            }
            Outcome::Failure(fault) => self.hear_failure(server, fault, began),
            Outcome::Unknown => {
                if self.is_watched(server) {
                    self.enter(|book, began_ms, now_ms| book.withdraw(server, began_ms, now_ms), began);
                }
            }
        }
    }

    #[cold]
    fn hear_failure(&self, server: ServerId, fault: Fault, began: Instant) {
        if !self.ejector.is_on {
            return;
        }
        let suspicion = self.balancer().state(server).suspicion();
        let failures = suspicion.count_failure();
        if failures >= self.ejector.reported_from || suspicion.is_watched() {
            let fail = |book: &mut Ejections<Fault>, began_ms, now_ms| {
                book.remember(server, fault, now_ms);
                book.fail(server, began_ms, now_ms);
            };
            self.enter(fail, began);
        } else if let Ok(mut book) = self.ejector.book.try_lock() {
            // For the history only: nobody waits for that.
            book.remember(server, fault, self.millis(clock::now()));
        }
    }

    /// Enters something into the book, and has the control thread look at what came of it.
    #[cold]
    fn enter(&self, entry: impl FnOnce(&mut Ejections<Fault>, u64, u64), began: Instant) {
        let now_ms = self.millis(clock::now());
        let mut book = self.ejector.lock();
        entry(&mut book, self.millis(began), now_ms);
        if book.has_events() {
            self.ejector.changed.notify_one();
        }
    }

    /// Takes in that the health checks have found a server up again that they had found down.
    pub(crate) fn recover(&self, server: ServerId) {
        self.ejector.lock().recover(server, self.millis(clock::now()));
    }

    /// Takes in that what health checks or the operator say of a server has changed, before anybody is told.
    pub(crate) fn settle_ejections(&self) {
        self.ejector.lock().advance(self.millis(clock::now()));
        self.ejector.changed.notify_one();
    }
}
