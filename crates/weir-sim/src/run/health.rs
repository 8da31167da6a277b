//! Probes and slow start at each balancer, with the schedules and verdicts of `weir_traffic::health`.
//!
//! A probe waits for no slot: a server that serves answers it at once, one that has stopped refuses it at once, and one that
//! hangs lets it run into its time limit.

use weir_stats::random::{Purpose, RandomStream};
use weir_traffic::health::{HealthState, PastOutcome, ProbeSchedule, SlowStart};
use weir_traffic::{Health, ServerId};

use super::server::ServerCondition;
use super::{SimEvent, Simulation};
use crate::model::MILLISECOND;

/// One server as the probes of one balancer see it.
#[derive(Debug)]
pub(super) struct ProbedServer {
    schedule: ProbeSchedule,
    verdict: HealthState<()>,
    random: RandomStream,
    slow_start: Option<SlowStart>,
    /// Slow starts so far: events of an older one are void.
    token: u32,
}

impl Simulation<'_> {
    /// Enters the first probe of every server at a balancer.
    pub(super) fn start_probing(&mut self, balancer: u32) {
        let Some(health) = self.upstream.health else { return };
        let mut random = RandomStream::new(self.seed, Purpose::Balancer, [u64::from(balancer), 1]);
        let process = random.word();
        for server in 0..self.servers.len() as u32 {
            let schedule = ProbeSchedule::new(&health.pace, server, process);
            let mut random =
                RandomStream::new(self.seed, Purpose::Probe, [u64::from(balancer), u64::from(server)]);
            let due_ms = schedule.first(0, random.word());
            self.agenda.enter(due_ms * MILLISECOND, SimEvent::Probe { balancer, server });
            let verdict = HealthState::new(health.thresholds);
            self.balancer(balancer).checked.push(ProbedServer {
                schedule,
                verdict,
                random,
                slow_start: None,
                token: 0,
            });
        }
    }

    pub(super) fn probe(&mut self, balancer: u32, server: u32) {
        let began_ms = self.now_ms();
        match self.servers[server as usize].condition {
            ServerCondition::Serving => self.probed(balancer, server, began_ms, true),
            ServerCondition::Stopped => self.probed(balancer, server, began_ms, false),
            ServerCondition::Hung => {
                let timeout = self.upstream.health.map_or(0, |health| health.timeout);
                self.agenda.enter_limit(timeout, SimEvent::ProbeOver { balancer, server, began_ms });
            }
        }
    }

    /// A probe of a server that hung has taken its time; if the server is back, it has answered meanwhile.
    pub(super) fn probe_over(&mut self, balancer: u32, server: u32, began_ms: u64) {
        let passed = self.servers[server as usize].condition == ServerCondition::Serving;
        self.probed(balancer, server, began_ms, passed);
    }

    fn probed(&mut self, balancer: u32, server: u32, began_ms: u64, passed: bool) {
        let now_ms = self.now_ms();
        let checked = &mut self.balancer(balancer).checked[server as usize];
        let change = checked.verdict.record(PastOutcome { at_ms: now_ms, failure: (!passed).then_some(()) });
        let is_changing = checked.verdict.is_changing();
        let due_ms = checked.schedule.next(began_ms, now_ms, is_changing, checked.random.word());
        self.agenda
            .enter((due_ms * MILLISECOND).max(self.agenda.now()), SimEvent::Probe { balancer, server });
        if let Some(change) = change {
            self.carry_out_verdict(balancer, server, change.health);
        }
    }

    fn carry_out_verdict(&mut self, balancer: u32, server: u32, health: Health) {
        let now_ms = self.now_ms();
        self.tally.verdict(balancer, server, health == Health::Up, self.agenda.now());
        let slow_start = self.upstream.slow_start.filter(|_| health == Health::Up);
        let checked = &mut self.balancer(balancer).checked[server as usize];
        checked.token += 1;
        checked.slow_start = slow_start.map(|length| SlowStart::new(now_ms, length / MILLISECOND));
        let token = checked.token;
        if checked.slow_start.is_some() {
            // Before it is up, so that its first requests are few.
            self.ramp(balancer, server, token);
        }
        self.balancer(balancer).balancer().state(ServerId(server)).set_health(health);
        self.serve_queue(balancer);
    }

    /// Raises the share of a server that came back by one step.
    pub(super) fn ramp(&mut self, balancer: u32, server: u32, token: u32) {
        let now_ms = self.now_ms();
        let checked = &self.balancer(balancer).checked[server as usize];
        let Some(start) = checked.slow_start.filter(|_| checked.token == token) else { return };
        self.balancer(balancer).balancer().state(ServerId(server)).set_ramp(start.ramp(now_ms));
        if let Some(next_ms) = start.next_ms(now_ms) {
            self.agenda.enter(next_ms * MILLISECOND, SimEvent::Ramp { balancer, server, token });
        }
    }
}
