//! Probes and slow start at each balancer, with the schedules and verdicts of `weir_traffic::health`.
//!
//! A probe waits for no slot: a server that serves answers it at once, one that has stopped refuses it at once, and one that
//! hangs lets it run into its time limit.

use weir_stats::chance::{Chance, Purpose};
use weir_traffic::health::{Outcome, Schedule, SlowStart, Verdict};
use weir_traffic::{Health, ServerId};

use super::server::Condition;
use super::{Event, Run};
use crate::model::MILLISECOND;

/// One server as the probes of one balancer see it.
#[derive(Debug)]
pub(super) struct Checked {
    schedule: Schedule,
    verdict: Verdict<()>,
    chance: Chance,
    slow_start: Option<SlowStart>,
    /// Slow starts so far: events of an older one are void.
    token: u32,
}

impl Run<'_> {
    /// Enters the first probe of every server at a balancer.
    pub(super) fn start_probing(&mut self, proxy: u32) {
        let Some(health) = self.upstream.health else { return };
        let mut chance = Chance::new(self.seed, Purpose::Balancer, [u64::from(proxy), 1]);
        let process = chance.word();
        for server in 0..self.servers.len() as u32 {
            let schedule = Schedule::new(&health.pace, server, process);
            let mut chance = Chance::new(self.seed, Purpose::Probe, [u64::from(proxy), u64::from(server)]);
            let due_ms = schedule.first(0, chance.word());
            self.agenda.enter(due_ms * MILLISECOND, Event::Probe { proxy, server });
            let verdict = Verdict::new(health.thresholds);
            self.proxy(proxy).checked.push(Checked { schedule, verdict, chance, slow_start: None, token: 0 });
        }
    }

    pub(super) fn probe(&mut self, proxy: u32, server: u32) {
        let began_ms = self.now_ms();
        match self.servers[server as usize].condition {
            Condition::Serving => self.probed(proxy, server, began_ms, true),
            Condition::Stopped => self.probed(proxy, server, began_ms, false),
            Condition::Hung => {
                let timeout = self.upstream.health.map_or(0, |health| health.timeout);
                self.agenda.enter_limit(timeout, Event::ProbeOver { proxy, server, began_ms });
            }
        }
    }

    /// A probe of a server that hung has taken its time; if the server is back, it has answered meanwhile.
    pub(super) fn probe_over(&mut self, proxy: u32, server: u32, began_ms: u64) {
        let passed = self.servers[server as usize].condition == Condition::Serving;
        self.probed(proxy, server, began_ms, passed);
    }

    fn probed(&mut self, proxy: u32, server: u32, began_ms: u64, passed: bool) {
        let now_ms = self.now_ms();
        let checked = &mut self.proxy(proxy).checked[server as usize];
        let change = checked.verdict.record(Outcome { at_ms: now_ms, failure: (!passed).then_some(()) });
        let is_changing = checked.verdict.is_changing();
        let due_ms = checked.schedule.next(began_ms, now_ms, is_changing, checked.chance.word());
        self.agenda.enter((due_ms * MILLISECOND).max(self.agenda.now()), Event::Probe { proxy, server });
        if let Some(change) = change {
            self.carry_out_verdict(proxy, server, change.health);
        }
    }

    fn carry_out_verdict(&mut self, proxy: u32, server: u32, health: Health) {
        let now_ms = self.now_ms();
        self.tally.verdict(proxy, server, health == Health::Up, self.agenda.now());
        let slow_start = self.upstream.slow_start.filter(|_| health == Health::Up);
        let checked = &mut self.proxy(proxy).checked[server as usize];
        checked.token += 1;
        checked.slow_start = slow_start.map(|length| SlowStart::new(now_ms, length / MILLISECOND));
        let token = checked.token;
        if checked.slow_start.is_some() {
            // Before it is up, so that its first requests are few.
            self.ramp(proxy, server, token);
        }
        self.proxy(proxy).balancer().state(ServerId(server)).set_health(health);
        self.serve_queue(proxy);
    }

    /// Raises the share of a server that came back by one step.
    pub(super) fn ramp(&mut self, proxy: u32, server: u32, token: u32) {
        let now_ms = self.now_ms();
        let checked = &self.proxy(proxy).checked[server as usize];
        let Some(start) = checked.slow_start.filter(|_| checked.token == token) else { return };
        self.proxy(proxy).balancer().state(ServerId(server)).set_ramp(start.ramp(now_ms));
        if let Some(next_ms) = start.next_ms(now_ms) {
            self.agenda.enter(next_ms * MILLISECOND, Event::Ramp { proxy, server, token });
        }
    }
}
