//! One server: its slots, and a line of its own for further requests.
//!
//! It serves in order of arrival and knows nothing of balancers. A request whose balancer has gone is thrown away when its
//! turn comes; once begun, it is worked on to its end, as most servers do.

use std::collections::VecDeque;

use slab::Slab;

use super::{SimAttempt, SimEvent, Simulation};
use crate::model::{Model, ServerAction, ServerGroup};
use crate::tally::ServerTally;

/// The condition of a server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ServerCondition {
    Serving,
    /// Refuses connections.
    Stopped,
    /// Accepts connections and does nothing.
    Hung,
    /// Answers an error at once.
    Failing,
}

/// A server.
#[derive(Debug)]
pub(super) struct SimServer {
    slots: usize,
    speed: f64,
    /// How many times as long everything takes now.
    factor: f64,
    pub(super) condition: ServerCondition,
    running: Slab<RunningRequest>,
    line: VecDeque<(SimAttempt, u64)>,
    tokens: u64,
    figures: ServerTally,
}

/// A request that is worked on.
#[derive(Debug)]
struct RunningRequest {
    attempt: SimAttempt,
    /// Work left, in nanoseconds at speed 1, as of `since`.
    left: f64,
    since: u64,
    began: u64,
    /// The token of the event of its end: an event with an older one is void.
    token: u64,
}

impl SimServer {
    pub(super) fn new(group: &ServerGroup) -> Self {
        Self {
            slots: group.slots.map_or(usize::MAX, |slots| slots as usize),
            speed: group.speed,
            factor: 1.0,
            condition: ServerCondition::Serving,
            running: Slab::new(),
            line: VecDeque::new(),
            tokens: 0,
            figures: ServerTally::default(),
        }
    }

    pub(super) fn figures(&self) -> ServerTally {
        self.figures
    }

    /// A request enters the line.
    pub(super) fn take(&mut self, attempt: SimAttempt, demand: u64) {
        self.line.push_back((attempt, demand));
        self.figures.most = self.figures.most.max(self.line.len() + self.running.len());
    }

    /// Whether nothing was done to it.
    pub(super) fn is_well(&self) -> bool {
        self.condition == ServerCondition::Serving && self.factor <= 1.0
    }

    /// The requests that it has, in its slots and in its line.
    pub(super) fn load(&self) -> usize {
        self.line.len() + self.running.len()
    }

    /// Whether the next of the line could begin.
    fn has_room(&self) -> bool {
        self.condition == ServerCondition::Serving && self.running.len() < self.slots && !self.line.is_empty()
    }

    fn begin(&mut self, attempt: SimAttempt, demand: u64, now: u64, model: &Model) -> (u32, u64, u64) {
        self.tokens += 1;
        if now >= model.warm_up && now < model.length {
            self.figures.requests += 1;
        }
        let job = RunningRequest { attempt, left: demand as f64, since: now, began: now, token: self.tokens };
        let ends = self.end_of(&job);
        (self.running.insert(job) as u32, self.tokens, ends)
    }

    fn end_of(&self, job: &RunningRequest) -> u64 {
        job.since + (job.left * self.factor / self.speed).round() as u64
    }

    /// Takes out a job that has ended, unless it ends at another time by now.
    fn finish(&mut self, job: u32, token: u64, now: u64, model: &Model) -> Option<SimAttempt> {
        let due = self.running.get(job as usize).is_some_and(|job| job.token == token);
        let serving = self.condition == ServerCondition::Serving;
        (due && serving).then(|| {
            let job = self.running.remove(job as usize);
            self.count(&job, now, model);
            job.attempt
        })
    }

    /// Applies a fault or recovery; returns the requests that it ends.
    pub(super) fn change(&mut self, action: ServerAction, now: u64, model: &Model) -> Vec<SimAttempt> {
        self.work_until(now);
        match action {
            ServerAction::Slow(factor) => {
                (self.factor, self.condition) = (factor, ServerCondition::Serving);
                Vec::new()
            }
            ServerAction::Recover => {
                (self.factor, self.condition) = (1.0, ServerCondition::Serving);
                Vec::new()
            }
            ServerAction::Hang => {
                self.condition = ServerCondition::Hung;
                Vec::new()
            }
            ServerAction::Leave | ServerAction::Join => Vec::new(),
            ServerAction::Stop | ServerAction::Fail => {
                let is_stop = action == ServerAction::Stop;
                self.condition = if is_stop { ServerCondition::Stopped } else { ServerCondition::Failing };
                let running = std::mem::take(&mut self.running);
                for (_, job) in &running {
                    self.count(job, now, model);
                }
                let line = std::mem::take(&mut self.line);
                running
                    .into_iter()
                    .map(|(_, job)| job.attempt)
                    .chain(line.into_iter().map(|it| it.0))
                    .collect()
            }
        }
    }

    /// Updates the work that is left; a server that hangs does none.
    fn work_until(&mut self, now: u64) {
        let rate = if self.condition == ServerCondition::Serving { self.speed / self.factor } else { 0.0 };
        for (_, job) in &mut self.running {
            job.left = (job.left - (now - job.since) as f64 * rate).max(0.0);
            job.since = now;
        }
    }

    /// The simulation ends: counts the requests that are still worked on.
    pub(super) fn settle(&mut self, now: u64, model: &Model) {
        let running = std::mem::take(&mut self.running);
        for (_, job) in &running {
            self.count(job, now, model);
        }
    }

    fn count(&mut self, job: &RunningRequest, now: u64, model: &Model) {
        let from = job.began.max(model.warm_up);
        let until = now.min(model.length);
        self.figures.busy += u128::from(until.saturating_sub(from));
    }
}

impl Simulation<'_> {
    /// Lets a server begin requests while it has free slots.
    pub(super) fn feed(&mut self, index: u32) {
        let now = self.agenda.now();
        let server = &mut self.servers[index as usize];
        while server.has_room() {
            let Some((attempt, demand)) = server.line.pop_front() else { break };
            // A request that was given up meanwhile has closed its connection.
            let place = attempt.exchange.place as usize;
            let Some(exchange) = self.exchanges.get_mut(place).filter(|it| it.is_at(attempt)) else {
                continue;
            };
            let (job, token, ends) = server.begin(attempt, demand, now, self.model);
            self.agenda.enter(ends, SimEvent::Done { server: index, job, token });
            if exchange.work_begins(now) {
                let (class, balancer, order) = exchange.order();
                self.tally.work_begins(class, balancer, order);
            }
        }
    }

    /// Times of all jobs of a server have changed.
    pub(super) fn reschedule(&mut self, index: u32) {
        let server = &mut self.servers[index as usize];
        if server.condition != ServerCondition::Serving {
            return;
        }
        let mut ends = Vec::new();
        for (job, entry) in &mut server.running {
            server.tokens += 1;
            entry.token = server.tokens;
            ends.push((job as u32, entry.token));
        }
        for (job, token) in ends {
            let at = server.end_of(&server.running[job as usize]);
            self.agenda.enter(at, SimEvent::Done { server: index, job, token });
        }
    }

    pub(super) fn server_done(&mut self, index: u32, job: u32, token: u64) {
        let now = self.agenda.now();
        let Some(attempt) = self.servers[index as usize].finish(job, token, now, self.model) else { return };
        self.feed(index);
        self.answered(attempt);
    }
}
