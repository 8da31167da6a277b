//! The book of one upstream: who is out, until when, and who may go next.
//!
//! Told of failures and of what becomes of servers that are watched; changes the states of the servers at once and leaves
//! an [`Event`] for each change. Time is passed in, in milliseconds on any clock that does not go back. It must not know
//! what a failure was: `C` is kept for whoever asks why.

use std::sync::Arc;

use super::max_fails::Fails;
use super::outlier::{Window, outliers};
use super::record::{Change, Event, Place, Record, Return};
use super::rules::{Grounds, Rules};
use crate::health::{History, Outcome};
use crate::server::{Ejection, Health, Mode};
use crate::server::{ServerId, ServerState};

/// One server as the book gets to know it.
#[derive(Debug, Clone)]
pub struct Member {
    /// Its state, shared with the balancer.
    pub state: Arc<ServerState>,
    /// Whether it is a backup.
    pub backup: bool,
    /// Whether it stays, whatever it does.
    pub exempt: bool,
    /// Whether the config does not name it any more.
    pub leaving: bool,
}

/// The book of one upstream.
#[derive(Debug)]
pub struct Ejections<C> {
    rules: Option<Rules>,
    panic_percent: Option<u32>,
    /// Whether a server that comes back begins with next to nothing.
    starts_slowly: bool,
    seats: Box<[Seat<C>]>,
    in_panic: bool,
    events: Vec<Event>,
}

#[derive(Debug)]
struct Seat<C> {
    member: Member,
    /// Made when there is something to note: most servers never fail.
    account: Option<Box<Account<C>>>,
}

#[derive(Debug)]
struct Account<C> {
    record: Record<C>,
    fails: Fails,
}

impl<C: 'static> Seat<C> {
    /// That of a server of which nothing is noted.
    const CLEAN: &'static Record<C> = &Record::new();

    fn new(member: Member) -> Seat<C> {
        Seat { member, account: None }
    }

    fn record(&self) -> &Record<C> {
        self.account.as_ref().map_or(Self::CLEAN, |account| &account.record)
    }

    fn account(&mut self) -> &mut Account<C> {
        self.account
            .get_or_insert_with(|| Box::new(Account { record: Record::new(), fails: Fails::default() }))
    }

    /// Whether the operator wants it to have requests.
    fn is_wanted(&self) -> bool {
        let state = &self.member.state;
        state.mode() == Mode::Serving && state.weight() > 0
    }

    /// Whether nothing speaks against giving it requests, nor is about to.
    fn is_reliable(&self) -> bool {
        self.is_wanted() && self.member.state.health() == Health::Up && self.record().is_good()
    }
}

impl<C: 'static> Ejections<C> {
    /// A book in which nobody is out; `panic_percent` is the share of usable servers below which all get requests.
    pub fn new(
        rules: Option<Rules>,
        panic_percent: Option<u32>,
        starts_slowly: bool,
        members: Vec<Member>,
    ) -> Ejections<C> {
        // One alone is never ejected, whatever it does.
        let rules = rules.filter(|_| members.len() > 1);
        let seats = members.into_iter().map(Seat::new).collect();
        Ejections { rules, panic_percent, starts_slowly, seats, in_panic: false, events: Vec::new() }
    }

    /// Goes on by other rules and for other members. Who was there before, in the same place, keeps its account; under rules
    /// of another sort everybody starts anew.
    pub fn change(
        &mut self,
        rules: Option<Rules>,
        panic_percent: Option<u32>,
        starts_slowly: bool,
        members: Vec<Member>,
        now_ms: u64,
    ) {
        let serving = members.iter().filter(|member| !member.leaving).count();
        let rules = rules.filter(|_| serving > 1);
        let sort = |rules: &Option<Rules>| rules.as_ref().map(std::mem::discriminant);
        let is_same_sort = sort(&self.rules) == sort(&rules);
        self.starts_slowly = starts_slowly;
        if !is_same_sort {
            for index in 0..self.seats.len() {
                self.bring_back(index, Return::RulesChanged, now_ms);
            }
        }
        let mut before = std::mem::take(&mut self.seats).into_vec().into_iter();
        let seat = |member: Member| match before.next() {
            Some(known) if Arc::ptr_eq(&known.member.state, &member.state) => {
                let mut account = known.account;
                if let Some(account) = account.as_mut().filter(|_| !is_same_sort) {
                    account.fails = Fails::default();
                }
                Seat { member, account }
            }
            _ => Seat::new(member),
        };
        self.seats = members.into_iter().map(seat).collect();
        (self.rules, self.panic_percent) = (rules, panic_percent);
        for index in 0..self.seats.len() {
            let member = &self.seats[index].member;
            member.state.set_panic(self.in_panic);
            if member.exempt || self.rules.is_none() {
                self.bring_back(index, Return::RulesChanged, now_ms);
            }
        }
        self.settle(now_ms);
    }

    /// How many failures in a row the book has to hear of at once; `None`: of none.
    pub fn failures_to_report(&self) -> Option<u32> {
        self.rules.as_ref().and_then(Rules::failures_to_report)
    }

    /// Remembers a failure, for whoever asks why.
    pub fn remember(&mut self, server: ServerId, failure: C, at_ms: u64) {
        self.seats[server.index()].account().record.history.push(Outcome { at_ms, failure: Some(failure) });
    }

    /// The last failures of a server.
    pub fn history(&self, server: ServerId) -> &History<C> {
        &self.seats[server.index()].record().history
    }

    /// How often a server was ejected, by [`Grounds::index`].
    pub fn ejections(&self, server: ServerId) -> [u64; Grounds::COUNT] {
        self.seats[server.index()].record().ejections
    }

    /// Whether all servers get requests because so few are usable.
    pub fn is_in_panic(&self) -> bool {
        self.in_panic
    }

    /// Whether [`Ejections::take_events`] has anything to give.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What was decided since the last call, in order.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// A request begins on a server that is watched: the trial, if there is one to be had and it has taken that.
    pub fn begin(&mut self, server: ServerId, now_ms: u64) {
        let index = server.index();
        if let Some(Rules::MaxFails(rules)) = self.rules {
            self.seats[index].account().fails.begin(rules, now_ms);
        }
        self.begin_trial(index, now_ms);
    }

    /// Takes in that a request has taken the trial of a server.
    fn begin_trial(&mut self, index: usize, now_ms: u64) {
        let seat = &mut self.seats[index];
        if seat.record().place != Place::OnTrial || !seat.member.state.is_ejected() {
            return;
        }
        let until_ms = match self.rules {
            Some(Rules::MaxFails(rules)) => seat.account().fails.until_ms(rules),
            Some(Rules::Outliers(rules)) => now_ms.saturating_add(seat.record().next_length_ms(&rules)),
            None => now_ms,
        };
        seat.account().record.place = Place::Trying { until_ms };
        seat.member.state.set_ejection(Ejection::Ejected);
    }

    /// A request that began on a server at `began_ms` has failed by its doing.
    pub fn fail(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let index = server.index();
        let seat = &mut self.seats[index];
        if seat.member.exempt {
            return;
        }
        match self.rules {
            None => return,
            Some(Rules::MaxFails(rules)) => {
                let fails = seat.account().fails.fail(now_ms);
                if fails >= rules.max_fails.max(1) {
                    let until_ms = seat.account().fails.until_ms(rules);
                    self.eject_until(index, until_ms, fails, now_ms);
                } else {
                    seat.member.state.suspicion().watch(true);
                }
            }
            Some(Rules::Outliers(rules)) => match seat.record().place {
                // What began before that says nothing about how it is now.
                Place::Good { since_ms } if began_ms < since_ms => return,
                Place::Good { .. } => {
                    let failures = seat.member.state.suspicion().failures();
                    if rules.consecutive_failures.is_some_and(|limit| failures >= limit.max(1)) {
                        self.eject_if_possible(index, Grounds::ConsecutiveFailures(failures), now_ms);
                    }
                }
                _ if seat.record().is_trial(began_ms) => self.eject_again(index, now_ms),
                _ => return,
            },
        }
        self.settle(now_ms);
    }

    /// A request that began on a server that is watched at `began_ms` has succeeded.
    pub fn succeed(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let index = server.index();
        let seat = &mut self.seats[index];
        let passed = match &self.rules {
            None => false,
            Some(Rules::MaxFails(_)) => seat.account().fails.succeed(),
            Some(Rules::Outliers(_)) => seat.record().is_trial(began_ms),
        };
        if passed {
            self.bring_back(index, Return::TrialPassed, now_ms);
            self.settle(now_ms);
        }
    }

    /// A request that began on a server that is watched at `began_ms` has ended, and says nothing of the server: another may be
    /// its trial. nginx knows no such thing.
    pub fn withdraw(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let seat = &mut self.seats[server.index()];
        let is_other = seat.record().place == Place::OnTrial || !seat.record().is_trial(began_ms);
        if matches!(self.rules, Some(Rules::Outliers(_))) && !is_other {
            seat.account().record.place = Place::OnTrial;
            seat.member.state.set_ejection(Ejection::OnTrial);
            self.tell(now_ms, Change::OnTrial { server });
        }
    }

    /// Compares what the servers did from `began_ms` until now, one window for each; ejects those that do worse than the
    /// others.
    pub fn compare(&mut self, windows: &[Window], began_ms: u64, now_ms: u64) {
        let Some(Rules::Outliers(rules)) = self.rules else { return };
        let judged: Vec<Option<Window>> = self
            .seats
            .iter()
            .zip(windows)
            .map(|(seat, window)| match seat.record().place {
                // One that was away for part of the time is not compared.
                Place::Good { since_ms } if since_ms <= began_ms => Some(*window),
                _ => None,
            })
            .collect();
        for (index, grounds) in outliers(&rules, &judged) {
            if !self.seats[index].member.exempt {
                self.eject_if_possible(index, grounds, now_ms);
            }
        }
        self.settle(now_ms);
    }

    /// Lets those whose time is up be tried, and takes in that health or the operator's wishes may have changed.
    pub fn advance(&mut self, now_ms: u64) {
        for index in 0..self.seats.len() {
            // One that took the trial and then left before it began.
            self.begin_trial(index, now_ms);
            let place = self.seats[index].record().place;
            if let Place::Ejected { until_ms } | Place::Trying { until_ms } = place
                && until_ms <= now_ms
            {
                let record = &mut self.seats[index].account().record;
                if matches!(place, Place::Trying { .. }) {
                    record.miss();
                }
                record.place = Place::OnTrial;
                self.seats[index].member.state.set_ejection(Ejection::OnTrial);
                self.tell(now_ms, Change::OnTrial { server: ServerId(index as u32) });
            }
        }
        self.settle(now_ms);
    }

    /// The health checks had found a server down and have found it up again: it need not wait for its trial, since it is
    /// not what it was when it was ejected. nginx knows no such thing.
    pub fn recover(&mut self, server: ServerId, now_ms: u64) {
        let seat = &mut self.seats[server.index()];
        let is_out = matches!(seat.record().place, Place::Ejected { .. } | Place::Trying { .. });
        if is_out && matches!(self.rules, Some(Rules::Outliers(_))) {
            seat.account().record.place = Place::OnTrial;
            // What began before says nothing of it any more.
            seat.account().record.ejected_ms = now_ms;
            seat.member.state.set_ejection(Ejection::OnTrial);
            self.tell(now_ms, Change::OnTrial { server });
        }
    }

    /// When [`Ejections::advance`] next has something to do by time alone.
    pub fn next_ms(&self) -> Option<u64> {
        let until = |seat: &Seat<C>| match seat.record().place {
            Place::Ejected { until_ms } | Place::Trying { until_ms } => Some(until_ms),
            Place::Good { .. } | Place::OnTrial => None,
        };
        self.seats.iter().filter_map(until).min()
    }

    /// Whether all is well and only a failure can change that.
    pub fn is_quiet(&self) -> bool {
        self.panic_percent.is_none() && self.seats.iter().all(|seat| seat.record().is_good())
    }

    /// Ejects a server that is good, unless too few would be left.
    fn eject_if_possible(&mut self, index: usize, grounds: Grounds, now_ms: u64) {
        let Some(Rules::Outliers(rules)) = self.rules else { return };
        let backup = self.seats[index].member.backup;
        let is_of_its_kind = |seat: &&Seat<C>| seat.member.backup == backup && !seat.member.leaving;
        let of_its_kind = || self.seats.iter().filter(is_of_its_kind);
        let out = of_its_kind().filter(|seat| !seat.record().is_good()).count();
        let out_max = (of_its_kind().count() * rules.servers_max_percent as usize / 100).max(1);
        let mut others = self.seats.iter().enumerate().filter(|(other, _)| *other != index);
        if out >= out_max || !others.any(|(_, seat)| seat.is_reliable()) {
            return;
        }
        let (for_ms, times) = self.seats[index].account().record.lengthen(&rules, now_ms);
        self.eject(index, now_ms.saturating_add(for_ms), grounds, times, now_ms);
    }

    /// Ejects a server whose trial has failed: it was out before.
    fn eject_again(&mut self, index: usize, now_ms: u64) {
        let Some(Rules::Outliers(rules)) = self.rules else { return };
        let (for_ms, times) = self.seats[index].account().record.lengthen(&rules, now_ms);
        self.eject(index, now_ms.saturating_add(for_ms), Grounds::Trial, times, now_ms);
    }

    /// Ejects a server as nginx does: whoever else is left, and anew with every failure of a request that was under way.
    fn eject_until(&mut self, index: usize, until_ms: u64, fails: u32, now_ms: u64) {
        let grounds = match self.seats[index].record().place {
            Place::Ejected { .. } => {
                self.seats[index].account().record.place = Place::Ejected { until_ms };
                return;
            }
            Place::Good { .. } => Grounds::MaxFails(fails),
            Place::OnTrial | Place::Trying { .. } => Grounds::Trial,
        };
        self.eject(index, until_ms, grounds, 1, now_ms);
    }

    fn eject(&mut self, index: usize, until_ms: u64, grounds: Grounds, times: u32, now_ms: u64) {
        let seat = &mut self.seats[index];
        seat.account().record.place = Place::Ejected { until_ms };
        seat.account().record.ejected_ms = now_ms;
        seat.account().record.ejections[grounds.index()] += 1;
        seat.member.state.suspicion().watch(true);
        seat.member.state.set_ejection(Ejection::Ejected);
        let for_ms = until_ms - now_ms;
        self.tell(now_ms, Change::Ejected { server: ServerId(index as u32), grounds, for_ms, times });
    }

    fn bring_back(&mut self, index: usize, how: Return, now_ms: u64) {
        let seat = &mut self.seats[index];
        seat.member.state.suspicion().watch(false);
        if seat.record().is_good() {
            return;
        }
        seat.account().record.place = Place::Good { since_ms: now_ms };
        if self.starts_slowly {
            // Before it is back, so that its first requests are few.
            seat.member.state.set_ramp(1);
        }
        seat.member.state.set_ejection(Ejection::None);
        self.tell(now_ms, Change::Returned { server: ServerId(index as u32), how });
    }

    /// Brings back whoever is out when nobody else is left, and enters or leaves panic.
    fn settle(&mut self, now_ms: u64) {
        if matches!(self.rules, Some(Rules::Outliers(_))) && !self.seats.iter().any(Seat::is_reliable) {
            for index in 0..self.seats.len() {
                let seat = &self.seats[index];
                if seat.is_wanted() && seat.member.state.health() == Health::Up {
                    self.bring_back(index, Return::LastOne, now_ms);
                }
            }
        }
        let in_panic = self.panic_percent.is_some_and(|percent| self.has_fewer_than(percent));
        if in_panic != self.in_panic {
            self.in_panic = in_panic;
            for seat in &self.seats {
                seat.member.state.set_panic(in_panic);
            }
            self.tell(now_ms, Change::Panic { began: in_panic });
        }
    }

    /// Whether less than this share of the servers is usable, of the primary ones and of the backups.
    fn has_fewer_than(&self, percent: u32) -> bool {
        let is_enough = |backup: bool| {
            let wanted = || self.seats.iter().filter(|seat| seat.member.backup == backup && seat.is_wanted());
            let is_usable =
                |seat: &&Seat<C>| seat.member.state.health() == Health::Up && !seat.member.state.is_ejected();
            let (all, usable) = (wanted().count(), wanted().filter(is_usable).count());
            all > 0 && usable * 100 >= all * percent as usize
        };
        self.seats.iter().any(Seat::is_wanted) && !is_enough(false) && !is_enough(true)
    }

    fn tell(&mut self, at_ms: u64, change: Change) {
        self.events.push(Event { at_ms, change });
    }
}
