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

/// The slow start of a server.
#[derive(Debug)]
pub(super) struct SimRamp {
    pub(super) start: SlowStart,
    /// Events of an older one are void.
    pub(super) token: u32,
}

/// One server as the probes of one balancer see it.
#[derive(Debug)]
pub(super) struct ProbedServer {
    schedule: ProbeSchedule,
    verdict: HealthState<()>,
    random: RandomStream,
}

impl Simulation<'_> {
    /// Enters the first probe of every server at a balancer.
    pub(super) fn start_probing(&mut self, balancer: u32) {
        let Some(health) = self.upstream.health else { return };
        let mut random = RandomStream::new(self.seed, Purpose::Balancer, [u64::from(balancer), 1]);
        let process = random.word();
        for server in 0..self.balancer(balancer).servers_count() as u32 {
            let schedule = ProbeSchedule::new(&health.pace, server, process);
            let mut random =
                RandomStream::new(self.seed, Purpose::Probe, [u64::from(balancer), u64::from(server)]);
            let due_ms = schedule.first(0, random.word());
            self.agenda.enter(due_ms * MILLISECOND, SimEvent::Probe { balancer, server });
            let verdict = HealthState::new(health.thresholds);
            self.balancer(balancer).checked.push(ProbedServer { schedule, verdict, random });
        }
    }

    pub(super) fn probe(&mut self, balancer: u32, server: u32) {
        let began_ms = self.now_ms();
        self.tally.probed(self.agenda.now());
        match self.condition_of(balancer, server) {
            ServerCondition::Serving => self.probed(balancer, server, began_ms, true),
            ServerCondition::Stopped | ServerCondition::Failing => {
                self.probed(balancer, server, began_ms, false);
            }
            ServerCondition::Hung => {
                let timeout = self.upstream.health.map_or(0, |health| health.timeout);
                self.agenda.enter_limit(timeout, SimEvent::ProbeOver { balancer, server, began_ms });
            }
        }
    }

    /// A probe of a server that hung has taken its time; if the server is back, it has answered meanwhile.
    pub(super) fn probe_over(&mut self, balancer: u32, server: u32, began_ms: u64) {
        let passed = self.condition_of(balancer, server) == ServerCondition::Serving;
        self.probed(balancer, server, began_ms, passed);
    }

    fn condition_of(&mut self, balancer: u32, server: u32) -> ServerCondition {
        let number = self.balancer(balancer).number_of(ServerId(server));
        self.servers[number as usize].condition
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
        let (now_ms, server) = (self.now_ms(), ServerId(server));
        let number = self.balancer(balancer).number_of(server);
        self.tally.verdict(balancer, number, health == Health::Up, self.agenda.now());
        if health == Health::Up {
            // Before it is up, so that its first requests are few.
            self.start_slowly(balancer, server);
        }
        let sim = self.balancer(balancer);
        sim.balancer().state(server).set_health(health);
        if health == Health::Up
            && let Some(outliers) = &mut sim.outliers
        {
            outliers.recover(server, now_ms);
        }
        self.review(balancer);
        self.serve_queue(balancer);
    }

    /// A server is back: its share grows from now on, if the config says so.
    pub(super) fn start_slowly(&mut self, balancer: u32, server: ServerId) {
        let Some(length) = self.upstream.slow_start else { return };
        let start = SlowStart::new(self.now_ms(), length / MILLISECOND);
        let ramps = &mut self.balancer(balancer).ramps;
        let token = ramps.get(&server.0).map_or(0, |ramp| ramp.token + 1);
        ramps.insert(server.0, SimRamp { start, token });
        self.ramp(balancer, server.0, token);
    }

    /// Raises the share of a server that came back by one step.
    pub(super) fn ramp(&mut self, balancer: u32, server: u32, token: u32) {
        let now_ms = self.now_ms();
        let sim = self.balancer(balancer);
        let Some(start) = sim.ramps.get(&server).filter(|ramp| ramp.token == token).map(|ramp| ramp.start)
        else {
            return;
        };
        sim.balancer().state(ServerId(server)).set_ramp(start.ramp(now_ms));
        if let Some(next_ms) = start.next_ms(now_ms) {
            self.agenda.enter(next_ms * MILLISECOND, SimEvent::Ramp { balancer, server, token });
        }
    }
}
