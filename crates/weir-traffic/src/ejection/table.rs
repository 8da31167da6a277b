//! The table of one upstream: which servers are ejected, until when, and which may be ejected next.
//!
//! Its input is failures, and the requests on servers that are watched; it changes the states of the servers at once and leaves
//! an [`OutlierEvent`] for each change. Time is passed in, in milliseconds on any clock that does not go back. It must not know
//! what a failure was: `C` is only kept for reports.

use std::sync::Arc;

use super::max_fails::FailCount;
use super::outlier::{OutlierWindow, outliers};
use super::record::{EjectedServer, OutlierChange, OutlierEvent, OutlierRecord, OutlierState, ReturnReason};
use super::rules::{EjectionReason, EjectionRules};
use crate::health::{OutcomeHistory, PastOutcome};
use crate::server::{EjectionState, Health, Mode};
use crate::server::{ServerId, ServerState, ServerTier};

/// One server as the table knows it.
#[derive(Debug, Clone)]
pub struct OutlierMember {
    /// Its state, shared with the balancer.
    pub state: Arc<ServerState>,
    /// When the balancer asks it.
    pub tier: ServerTier,
    /// Whether it stays, whatever it does.
    pub exempt: bool,
    /// Whether the config does not name it any more.
    pub leaving: bool,
}

/// The table of one upstream.
#[derive(Debug)]
pub struct OutlierTable<C> {
    rules: Option<EjectionRules>,
    panic_percent: Option<u32>,
    /// Whether a server that comes back begins with next to nothing.
    starts_slowly: bool,
    entries: Box<[OutlierEntry<C>]>,
    in_panic: bool,
    events: Vec<OutlierEvent>,
}

#[derive(Debug)]
struct OutlierEntry<C> {
    member: OutlierMember,
    /// Made when there is something to note: most servers never fail.
    account: Option<Box<OutlierAccount<C>>>,
}

#[derive(Debug)]
struct OutlierAccount<C> {
    record: OutlierRecord<C>,
    fails: FailCount,
}

impl<C: 'static> OutlierEntry<C> {
    /// That of a server of which nothing is noted.
    const CLEAN: &'static OutlierRecord<C> = &OutlierRecord::new();

    fn new(member: OutlierMember) -> OutlierEntry<C> {
        OutlierEntry { member, account: None }
    }

    fn record(&self) -> &OutlierRecord<C> {
        self.account.as_ref().map_or(Self::CLEAN, |account| &account.record)
    }

    fn account(&mut self) -> &mut OutlierAccount<C> {
        self.account.get_or_insert_with(|| {
            Box::new(OutlierAccount { record: OutlierRecord::new(), fails: FailCount::default() })
        })
    }

    /// Whether the operator wants it to have requests.
    fn is_wanted(&self) -> bool {
        let state = &self.member.state;
        state.effective_mode() == Mode::Serving && state.weight() > 0
    }

    /// Whether nothing speaks against giving it requests, nor is about to.
    fn is_reliable(&self) -> bool {
        self.is_wanted() && self.member.state.health() == Health::Up && self.record().is_good()
    }
}

impl<C: 'static> OutlierTable<C> {
    /// A table with no server ejected; `panic_percent` is the share of usable servers below which all get requests.
    pub fn new(
        rules: Option<EjectionRules>,
        panic_percent: Option<u32>,
        starts_slowly: bool,
        members: Vec<OutlierMember>,
    ) -> OutlierTable<C> {
        // One alone is never ejected, whatever it does.
        let rules = rules.filter(|_| members.len() > 1);
        let entries = members.into_iter().map(OutlierEntry::new).collect();
        OutlierTable { rules, panic_percent, starts_slowly, entries, in_panic: false, events: Vec::new() }
    }

    /// Continues with other rules and other members. A member that was there before, in the same place, keeps its account; under rules
    /// of another sort all members start anew.
    pub fn change(
        &mut self,
        rules: Option<EjectionRules>,
        panic_percent: Option<u32>,
        starts_slowly: bool,
        members: Vec<OutlierMember>,
        now_ms: u64,
    ) {
        let serving = members.iter().filter(|member| !member.leaving).count();
        let rules = rules.filter(|_| serving > 1);
        let sort = |rules: &Option<EjectionRules>| rules.as_ref().map(std::mem::discriminant);
        let is_same_sort = sort(&self.rules) == sort(&rules);
        self.starts_slowly = starts_slowly;
        if !is_same_sort {
            for index in 0..self.entries.len() {
                self.bring_back(index, ReturnReason::RulesChanged, now_ms);
            }
        }
        let mut before = std::mem::take(&mut self.entries).into_vec().into_iter();
        let entry = |member: OutlierMember| match before.next() {
            Some(known) if Arc::ptr_eq(&known.member.state, &member.state) => {
                let mut account = known.account;
                if let Some(account) = account.as_mut().filter(|_| !is_same_sort) {
                    account.fails = FailCount::default();
                }
                OutlierEntry { member, account }
            }
            _ => OutlierEntry::new(member),
        };
        self.entries = members.into_iter().map(entry).collect();
        (self.rules, self.panic_percent) = (rules, panic_percent);
        for index in 0..self.entries.len() {
            let member = &self.entries[index].member;
            member.state.set_panic(self.in_panic);
            if member.exempt || self.rules.is_none() {
                self.bring_back(index, ReturnReason::RulesChanged, now_ms);
            }
        }
        self.settle(now_ms);
    }

    /// How a server is out, if it is: for the table of another process.
    pub fn ejected(&self, server: ServerId, now_ms: u64) -> Option<EjectedServer> {
        self.entries[server.index()].record().standing(now_ms)
    }

    /// Leaves a server out as the table of another process did, unless the rules here do not eject it; whether it is out. No event tells
    /// of it.
    pub fn resume(&mut self, server: ServerId, ejected: EjectedServer, now_ms: u64) -> bool {
        let entry = &mut self.entries[server.index()];
        if self.rules.is_none() || entry.member.exempt {
            return false;
        }
        entry.account().record.resume(ejected, now_ms);
        let state = if ejected.left_ms == 0 { EjectionState::OnTrial } else { EjectionState::Ejected };
        entry.member.state.consecutive_failures().watch(true);
        entry.member.state.set_ejection(state);
        self.settle(now_ms);
        !self.entries[server.index()].record().is_good()
    }

    /// After how many failures in a row the table must be informed; `None`: never.
    pub fn failures_to_report(&self) -> Option<u32> {
        self.rules.as_ref().and_then(EjectionRules::failures_to_report)
    }

    /// Remembers a failure, for reports.
    pub fn remember(&mut self, server: ServerId, failure: C, at_ms: u64) {
        self.entries[server.index()]
            .account()
            .record
            .history
            .push(PastOutcome { at_ms, failure: Some(failure) });
    }

    /// The last failures of a server.
    pub fn history(&self, server: ServerId) -> &OutcomeHistory<C> {
        &self.entries[server.index()].record().history
    }

    /// How often a server was ejected, by [`EjectionReason::index`].
    pub fn ejections(&self, server: ServerId) -> [u64; EjectionReason::COUNT] {
        self.entries[server.index()].record().ejections
    }

    /// Whether all servers get requests because so few are usable.
    pub fn is_in_panic(&self) -> bool {
        self.in_panic
    }

    /// Whether [`OutlierTable::take_events`] would return any.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// The decisions since the last call, in order.
    pub fn take_events(&mut self) -> Vec<OutlierEvent> {
        std::mem::take(&mut self.events)
    }

    /// A request begins on a server that is watched: the trial, if there is one to be had and it has taken that.
    pub fn begin(&mut self, server: ServerId, now_ms: u64) {
        let index = server.index();
        if let Some(EjectionRules::MaxFails(rules)) = self.rules {
            self.entries[index].account().fails.begin(rules, now_ms);
        }
        self.begin_trial(index, now_ms);
    }

    /// Notes that a request has taken the trial of a server.
    fn begin_trial(&mut self, index: usize, now_ms: u64) {
        let entry = &mut self.entries[index];
        if entry.record().place != OutlierState::OnTrial || !entry.member.state.is_ejected() {
            return;
        }
        let until_ms = match self.rules {
            Some(EjectionRules::MaxFails(rules)) => entry.account().fails.until_ms(rules),
            Some(EjectionRules::Outliers(rules)) => {
                now_ms.saturating_add(entry.record().next_length_ms(&rules))
            }
            None => now_ms,
        };
        entry.account().record.place = OutlierState::Trying { until_ms };
        entry.member.state.set_ejection(EjectionState::Ejected);
    }

    /// A request that began on a server at `began_ms` has failed by the server's fault.
    pub fn fail(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let index = server.index();
        let entry = &mut self.entries[index];
        if entry.member.exempt {
            return;
        }
        match self.rules {
            None => return,
            Some(EjectionRules::MaxFails(rules)) => {
                let fails = entry.account().fails.fail(now_ms);
                if fails >= rules.max_fails.max(1) {
                    let until_ms = entry.account().fails.until_ms(rules);
                    self.eject_until(index, until_ms, fails, now_ms);
                } else {
                    entry.member.state.consecutive_failures().watch(true);
                }
            }
            Some(EjectionRules::Outliers(rules)) => match entry.record().place {
                // A request that began before that says nothing about the server now.
                OutlierState::Good { since_ms } if began_ms < since_ms => return,
                OutlierState::Good { .. } => {
                    let failures = entry.member.state.consecutive_failures().failures();
                    if rules.consecutive_failures.is_some_and(|limit| failures >= limit.max(1)) {
                        self.eject_if_possible(index, EjectionReason::ConsecutiveFailures(failures), now_ms);
                    }
                }
                _ if entry.record().is_trial(began_ms) => self.eject_again(index, now_ms),
                _ => return,
            },
        }
        self.settle(now_ms);
    }

    /// A request that began on a server that is watched at `began_ms` has succeeded.
    pub fn succeed(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let index = server.index();
        let entry = &mut self.entries[index];
        let passed = match &self.rules {
            None => false,
            Some(EjectionRules::MaxFails(_)) => entry.account().fails.succeed(),
            Some(EjectionRules::Outliers(_)) => entry.record().is_trial(began_ms),
        };
        if passed {
            self.bring_back(index, ReturnReason::TrialPassed, now_ms);
            self.settle(now_ms);
        }
    }

    /// A request that began on a server that is watched at `began_ms` has ended, and says nothing of the server: another may be
    /// its trial. nginx has no equivalent.
    pub fn withdraw(&mut self, server: ServerId, began_ms: u64, now_ms: u64) {
        let entry = &mut self.entries[server.index()];
        let is_other = entry.record().place == OutlierState::OnTrial || !entry.record().is_trial(began_ms);
        if matches!(self.rules, Some(EjectionRules::Outliers(_))) && !is_other {
            entry.account().record.place = OutlierState::OnTrial;
            entry.member.state.set_ejection(EjectionState::OnTrial);
            self.tell(now_ms, OutlierChange::OnTrial { server });
        }
    }

    /// Compares the requests of the servers from `began_ms` until now, one window for each; ejects servers that do worse than the
    /// others.
    pub fn compare(&mut self, windows: &[OutlierWindow], began_ms: u64, now_ms: u64) {
        let Some(EjectionRules::Outliers(rules)) = self.rules else { return };
        let judged: Vec<Option<OutlierWindow>> = self
            .entries
            .iter()
            .zip(windows)
            .map(|(entry, window)| match entry.record().place {
                // A server that was away for part of the time is not compared.
                OutlierState::Good { since_ms } if since_ms <= began_ms => Some(*window),
                _ => None,
            })
            .collect();
        for (index, grounds) in outliers(&rules, &judged) {
            if !self.entries[index].member.exempt {
                self.eject_if_possible(index, grounds, now_ms);
            }
        }
        self.settle(now_ms);
    }

    /// Starts the trial of servers whose ejection time is over, and notes changes of health or of the operator's settings.
    pub fn advance(&mut self, now_ms: u64) {
        for index in 0..self.entries.len() {
            // A request that took the trial and then left before it began.
            self.begin_trial(index, now_ms);
            let place = self.entries[index].record().place;
            if let OutlierState::Ejected { until_ms } | OutlierState::Trying { until_ms } = place
                && until_ms <= now_ms
            {
                let record = &mut self.entries[index].account().record;
                if matches!(place, OutlierState::Trying { .. }) {
                    record.miss();
                }
                record.place = OutlierState::OnTrial;
                self.entries[index].member.state.set_ejection(EjectionState::OnTrial);
                self.tell(now_ms, OutlierChange::OnTrial { server: ServerId(index as u32) });
            }
        }
        self.settle(now_ms);
    }

    /// The health checks had found a server down and have found it up again: it need not wait for its trial, since it is
    /// not what it was when it was ejected. nginx has no equivalent.
    pub fn recover(&mut self, server: ServerId, now_ms: u64) {
        let entry = &mut self.entries[server.index()];
        let is_out =
            matches!(entry.record().place, OutlierState::Ejected { .. } | OutlierState::Trying { .. });
        if is_out && matches!(self.rules, Some(EjectionRules::Outliers(_))) {
            entry.account().record.place = OutlierState::OnTrial;
            // Requests that began before say nothing about it any more.
            entry.account().record.ejected_ms = now_ms;
            entry.member.state.set_ejection(EjectionState::OnTrial);
            self.tell(now_ms, OutlierChange::OnTrial { server });
        }
    }

    /// When [`OutlierTable::advance`] next has something to do by time alone.
    pub fn next_ms(&self) -> Option<u64> {
        let until = |entry: &OutlierEntry<C>| match entry.record().place {
            OutlierState::Ejected { until_ms } | OutlierState::Trying { until_ms } => Some(until_ms),
            OutlierState::Good { .. } | OutlierState::OnTrial => None,
        };
        self.entries.iter().filter_map(until).min()
    }

    /// Whether all is well and only a failure can change that.
    pub fn is_quiet(&self) -> bool {
        self.panic_percent.is_none() && self.entries.iter().all(|entry| entry.record().is_good())
    }

    /// Ejects a server that is good, unless too few would be left.
    fn eject_if_possible(&mut self, index: usize, grounds: EjectionReason, now_ms: u64) {
        let Some(EjectionRules::Outliers(rules)) = self.rules else { return };
        let tier = self.entries[index].member.tier;
        let is_of_its_kind = |entry: &&OutlierEntry<C>| entry.member.tier == tier && !entry.member.leaving;
        let of_its_kind = || self.entries.iter().filter(is_of_its_kind);
        let out = of_its_kind().filter(|entry| !entry.record().is_good()).count();
        let out_max = (of_its_kind().count() * rules.servers_max_percent as usize / 100).max(1);
        let mut others = self.entries.iter().enumerate().filter(|(other, _)| *other != index);
        if out >= out_max || !others.any(|(_, entry)| entry.is_reliable()) {
            return;
        }
        let (for_ms, times) = self.entries[index].account().record.lengthen(&rules, now_ms);
        self.eject(index, now_ms.saturating_add(for_ms), grounds, times, now_ms);
    }

    /// Ejects a server whose trial has failed: it was out before.
    fn eject_again(&mut self, index: usize, now_ms: u64) {
        let Some(EjectionRules::Outliers(rules)) = self.rules else { return };
        let (for_ms, times) = self.entries[index].account().record.lengthen(&rules, now_ms);
        self.eject(index, now_ms.saturating_add(for_ms), EjectionReason::Trial, times, now_ms);
    }

    /// Ejects a server as nginx does: even if no other is left, and anew with every failure of a request that was under way.
    fn eject_until(&mut self, index: usize, until_ms: u64, fails: u32, now_ms: u64) {
        let grounds = match self.entries[index].record().place {
            OutlierState::Ejected { .. } => {
                self.entries[index].account().record.place = OutlierState::Ejected { until_ms };
                return;
            }
            OutlierState::Good { .. } => EjectionReason::MaxFails(fails),
            OutlierState::OnTrial | OutlierState::Trying { .. } => EjectionReason::Trial,
        };
        self.eject(index, until_ms, grounds, 1, now_ms);
    }

    fn eject(&mut self, index: usize, until_ms: u64, grounds: EjectionReason, times: u32, now_ms: u64) {
        let entry = &mut self.entries[index];
        entry.account().record.place = OutlierState::Ejected { until_ms };
        entry.account().record.ejected_ms = now_ms;
        entry.account().record.ejections[grounds.index()] += 1;
        entry.member.state.consecutive_failures().watch(true);
        entry.member.state.set_ejection(EjectionState::Ejected);
        let for_ms = until_ms - now_ms;
        self.tell(now_ms, OutlierChange::Ejected { server: ServerId(index as u32), grounds, for_ms, times });
    }

    fn bring_back(&mut self, index: usize, how: ReturnReason, now_ms: u64) {
        let entry = &mut self.entries[index];
        entry.member.state.consecutive_failures().watch(false);
        if entry.record().is_good() {
            return;
        }
        entry.account().record.place = OutlierState::Good { since_ms: now_ms };
        if self.starts_slowly {
            // Before it is back, so that its first requests are few.
            entry.member.state.set_ramp(1);
        }
        entry.member.state.set_ejection(EjectionState::None);
        self.tell(now_ms, OutlierChange::Returned { server: ServerId(index as u32), how });
    }

    /// Brings back all ejected servers when no other is left, and enters or leaves panic.
    fn settle(&mut self, now_ms: u64) {
        if matches!(self.rules, Some(EjectionRules::Outliers(_)))
            && !self.entries.iter().any(OutlierEntry::is_reliable)
        {
            for index in 0..self.entries.len() {
                let entry = &self.entries[index];
                if entry.is_wanted() && entry.member.state.health() == Health::Up {
                    self.bring_back(index, ReturnReason::LastOne, now_ms);
                }
            }
        }
        let in_panic = self.panic_percent.is_some_and(|percent| self.has_fewer_than(percent));
        if in_panic != self.in_panic {
            self.in_panic = in_panic;
            for entry in &self.entries {
                entry.member.state.set_panic(in_panic);
            }
            self.tell(now_ms, OutlierChange::Panic { began: in_panic });
        }
    }

    /// Whether less than this share of the servers is usable, in every tier.
    fn has_fewer_than(&self, percent: u32) -> bool {
        let is_enough = |tier: ServerTier| {
            let wanted =
                || self.entries.iter().filter(|entry| entry.member.tier == tier && entry.is_wanted());
            let is_usable = |entry: &&OutlierEntry<C>| {
                entry.member.state.health() == Health::Up && !entry.member.state.is_ejected()
            };
            let (all, usable) = (wanted().count(), wanted().filter(is_usable).count());
            all > 0 && usable * 100 >= all * percent as usize
        };
        self.entries.iter().any(OutlierEntry::is_wanted) && !ServerTier::ALL.into_iter().any(is_enough)
    }

    fn tell(&mut self, at_ms: u64, change: OutlierChange) {
        self.events.push(OutlierEvent { at_ms, change });
    }
}
