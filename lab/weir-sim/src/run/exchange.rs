//! One request, from its beginning to its one end: admit, attempt, perhaps again, finish.
//!
//! Every exchange ends in `finish`, once. Its effects on others (a slot that becomes free, a place in the queue that is
//! taken) are carried out by `carry_out` after it, never within, so nothing here calls itself.

use std::time::Duration;

use weir_stats::random::{Purpose, RandomStream};
use weir_traffic::ServerId;
use weir_traffic::balance::Excluded;
use weir_traffic::queue::Ticket;
use weir_traffic::retry::{FailedAttempt, NextServer, RetryCause, RetryDecision};

use super::arrivals::ArrivingRequest;
use super::ejection::AttemptEnd;
use super::server::ServerCondition;
use super::{ExchangeId, SimAttempt, SimEvent, Simulation};
use crate::failure::SimFailure;
use crate::model::{ClassLoad, MILLISECOND};
use crate::run::balancer::{QueueDecision, SimBalancer, SlotAnswer, SlotRequest};
use crate::tally::{EndedRequest, RequestOutcome};

/// The status with which servers fail.
const ERROR_STATUS: u16 = 503;

/// A request under way.
#[derive(Debug)]
pub(super) struct SimExchange {
    number: u64,
    arrival: ArrivingRequest,
    is_slow: bool,
    demand: u64,
    random: RandomStream,
    began: u64,
    /// When its first attempt began.
    first_began: u64,
    attempts: u32,
    excluded: Excluded,
    stage: ExchangeStage,
    /// Time spent in the queue.
    waited: u64,
    /// Why the last attempt failed: the client's error when no server is left.
    last: Option<SimFailure>,
    worked_on: bool,
    /// The time at which a server began to work on it last.
    work_began: u64,
    attempt_began: u64,
}

/// The stage of an exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ExchangeStage {
    /// In the queue since.
    Queued { ticket: Ticket, since: u64 },
    /// On a server, by its place at the balancer, whose slot it holds.
    On(ServerId),
    /// Between two steps of one moment.
    Nowhere,
}

impl SimExchange {
    /// Whether this is the attempt that is running.
    pub(super) fn is_at(&self, attempt: SimAttempt) -> bool {
        self.number == attempt.exchange.number
            && self.attempts == attempt.attempt
            && matches!(self.stage, ExchangeStage::On(_))
    }

    /// A server begins to work on it; whether that is for the first time.
    pub(super) fn work_begins(&mut self, now: u64) -> bool {
        self.work_began = now;
        !std::mem::replace(&mut self.worked_on, true)
    }

    /// Its class, its balancer, and its place in the order of arrival.
    pub(super) fn order(&self) -> (u32, u32, u64) {
        (self.arrival.class, self.arrival.balancer, self.number)
    }
}

impl Simulation<'_> {
    /// A request begins.
    pub(super) fn begin(&mut self, arrival: ArrivingRequest) {
        let class = &self.model.clients[arrival.class as usize];
        let mut random = RandomStream::new(self.seed, Purpose::Demand, arrival.coordinates);
        // Drawn whether or not it is slow, so that a changed share of slow requests changes no others.
        let usual = class.service.draw(&mut random);
        let slow = class.slow.as_ref().filter(|slow| random.below(u64::from(slow.one_in)) == 0);
        let demand = slow.map_or(usual, |slow| slow.service.draw(&mut random)).max(1);
        let now = self.agenda.now();
        let number = self.begun;
        self.begun += 1;
        let place = self.exchanges.insert(SimExchange {
            number,
            arrival,
            is_slow: slow.is_some(),
            demand,
            random: RandomStream::new(self.seed, Purpose::Pick, arrival.coordinates),
            began: now,
            first_began: now,
            attempts: 0,
            excluded: Excluded::new(),
            stage: ExchangeStage::Nowhere,
            waited: 0,
            last: None,
            worked_on: false,
            work_began: now,
            attempt_began: now,
        });
        let id = ExchangeId { place: place as u32, number };
        self.tally.begins(arrival.class, slow.is_some(), now);
        if let Some(patience) = class.patience {
            self.agenda.enter_limit(patience, SimEvent::Leave(id));
        }
        let now_ms = self.now_ms();
        self.balancer(arrival.balancer).budget.record_request(now_ms);
        self.admit(id);
    }

    /// The balancer at `number`, made when it is first needed.
    pub(super) fn balancer(&mut self, number: u32) -> &mut SimBalancer {
        let (model, upstream, seed) = (self.model, self.upstream, self.seed);
        let version = self.heard[number as usize];
        if self.balancers[number as usize].is_none()
            && let Some(ejection) = upstream.ejection
        {
            self.agenda.enter_limit(ejection.interval, SimEvent::Compare { balancer: number });
        }
        self.balancers[number as usize]
            .get_or_insert_with(|| Box::new(SimBalancer::new(number, model, upstream, seed, version)))
    }

    /// Asks for a slot.
    fn admit(&mut self, id: ExchangeId) {
        let (now, now_ms) = (self.agenda.now(), self.now_ms());
        let limit = self.upstream.timeouts.queue;
        let exchange = &mut self.exchanges[id.place as usize];
        let asked = SlotRequest {
            client: exchange.arrival.client,
            priority: self.model.clients[exchange.arrival.class as usize].priority,
            excluded: exchange.excluded,
            random: exchange.random.word(),
        };
        let attempt = SimAttempt { exchange: id, attempt: exchange.attempts };
        let number = exchange.arrival.balancer;
        let mut decided = Vec::new();
        match self.balancer(number).admit(attempt, &asked, now_ms, now.saturating_add(limit), &mut decided) {
            SlotAnswer::Slot(server) => self.start(id, server),
            SlotAnswer::Waits { ticket, own } => {
                self.exchanges[id.place as usize].stage = ExchangeStage::Queued { ticket, since: now };
                self.agenda.enter_limit(limit, SimEvent::QueueTimeout(attempt));
                if let Some(patience) =
                    self.upstream.queue.affinity_wait.filter(|patience| own && *patience < limit)
                {
                    self.agenda.enter_limit(patience, SimEvent::TakeAny(attempt));
                }
                self.balancer(number).serve_queue(now_ms, &mut decided);
            }
            SlotAnswer::Failed(failure) => {
                let last = self.exchanges[id.place as usize].last;
                let failure = last.filter(|_| failure == SimFailure::NoServer).unwrap_or(failure);
                self.finish(id, Some(failure));
            }
        }
        self.carry_out(&decided);
    }

    /// Hands slots to the requests that wait at a balancer.
    pub(super) fn serve_queue(&mut self, balancer: u32) {
        let now_ms = self.now_ms();
        let mut decided = Vec::new();
        self.balancer(balancer).serve_queue(now_ms, &mut decided);
        self.carry_out(&decided);
    }

    /// Gives back a slot, to the next in the queue if there is one.
    fn release(&mut self, balancer: u32, server: ServerId) {
        if self.balancer(balancer).release(server) {
            self.serve_queue(balancer);
        }
    }

    /// Carries out the decisions of a queue. None of them changes a queue again.
    fn carry_out(&mut self, decisions: &[QueueDecision]) {
        for decision in decisions {
            match *decision {
                QueueDecision::Server(attempt, server) => {
                    self.leaves_queue(attempt.exchange);
                    self.start(attempt.exchange, server);
                }
                QueueDecision::SentAway(attempt, failure) => {
                    self.leaves_queue(attempt.exchange);
                    self.finish(attempt.exchange, Some(failure));
                }
            }
        }
    }

    fn leaves_queue(&mut self, id: ExchangeId) {
        let now = self.agenda.now();
        let exchange = &mut self.exchanges[id.place as usize];
        if let ExchangeStage::Queued { since, .. } = exchange.stage {
            exchange.waited += now - since;
            exchange.stage = ExchangeStage::Nowhere;
        }
    }

    /// An attempt begins on a server whose slot is taken.
    fn start(&mut self, id: ExchangeId, server: ServerId) {
        let now = self.agenda.now();
        let exchange = &mut self.exchanges[id.place as usize];
        exchange.attempts += 1;
        exchange.attempt_began = now;
        if exchange.attempts == 1 {
            exchange.first_began = now;
        }
        exchange.stage = ExchangeStage::On(server);
        let attempt = SimAttempt { exchange: id, attempt: exchange.attempts };
        let (demand, balancer) = (exchange.demand, exchange.arrival.balancer);
        let (now_ms, pool_idle_ms) = (self.now_ms(), self.upstream.pool_idle / MILLISECOND);
        let sim = self.balancer(balancer);
        let is_new = sim.begin(server, now_ms, pool_idle_ms);
        let (in_flight, number) = (sim.balancer().state(server).in_flight(), sim.number_of(server));
        self.tally.in_flight(in_flight);
        self.tally.attempts(now, is_new);
        // As events of their own, so that their consequences are ordered by the agenda as all others.
        match self.servers[number as usize].condition {
            ServerCondition::Stopped => self.agenda.enter(now, SimEvent::Refused(attempt)),
            ServerCondition::Failing => self.agenda.enter(now, SimEvent::Errored(attempt)),
            ServerCondition::Serving | ServerCondition::Hung => {
                self.agenda.enter_limit(self.upstream.timeouts.response, SimEvent::ResponseTimeout(attempt));
                self.servers[number as usize].take(attempt, demand);
                self.tally.server_has(now, self.servers[number as usize].load());
                self.feed(number);
            }
        }
    }

    /// A server has answered. If the request was given up meanwhile, the work was wasted.
    pub(super) fn answered(&mut self, attempt: SimAttempt) {
        if self.running(attempt).is_none() {
            return;
        }
        self.tell_latency(attempt.exchange);
        self.finish(attempt.exchange, None);
    }

    pub(super) fn refused(&mut self, attempt: SimAttempt) {
        self.failed(attempt, RetryCause::Connect, SimFailure::ConnectRefused);
    }

    pub(super) fn broken(&mut self, attempt: SimAttempt) {
        self.failed(attempt, RetryCause::ConnectionError, SimFailure::ResponseReset);
    }

    /// A server has answered an error.
    pub(super) fn errored(&mut self, attempt: SimAttempt) {
        if self.running(attempt).is_some() {
            // An error is an answer as well: policies by latency take it for a fast one, as in the proxy.
            self.tell_latency(attempt.exchange);
            self.failed(attempt, RetryCause::Status(ERROR_STATUS), SimFailure::ServerError);
        }
    }

    pub(super) fn response_timeout(&mut self, attempt: SimAttempt) {
        if self.running(attempt).is_some() {
            self.tell_latency(attempt.exchange);
            self.failed(attempt, RetryCause::Timeout, SimFailure::ResponseTimeout);
        }
    }

    pub(super) fn queue_timeout(&mut self, attempt: SimAttempt) {
        if self.waiting(attempt).is_some() {
            self.finish(attempt.exchange, Some(SimFailure::QueueTimeout));
        }
    }

    /// A request has waited long enough for its own server.
    pub(super) fn take_any(&mut self, attempt: SimAttempt) {
        let Some(ticket) = self.waiting(attempt) else { return };
        let balancer = self.exchanges[attempt.exchange.place as usize].arrival.balancer;
        self.balancer(balancer).unbind(ticket);
        self.serve_queue(balancer);
    }

    /// The place of an exchange that is still in the queue before this attempt.
    fn waiting(&self, attempt: SimAttempt) -> Option<Ticket> {
        let exchange = self.exchanges.get(attempt.exchange.place as usize)?;
        let same = exchange.number == attempt.exchange.number && exchange.attempts == attempt.attempt;
        match exchange.stage {
            ExchangeStage::Queued { ticket, .. } if same => Some(ticket),
            _ => None,
        }
    }

    pub(super) fn client_leaves(&mut self, id: ExchangeId) {
        if self.exchanges.get(id.place as usize).is_some_and(|exchange| exchange.number == id.number) {
            self.finish(id, Some(SimFailure::ClientClosed));
        }
    }

    fn running(&self, attempt: SimAttempt) -> Option<&SimExchange> {
        self.exchanges.get(attempt.exchange.place as usize).filter(|exchange| exchange.is_at(attempt))
    }

    /// An immediate failure is not fast: only answers and time limits count for a server's latency.
    fn tell_latency(&mut self, id: ExchangeId) {
        let (now, now_ms) = (self.agenda.now(), self.now_ms());
        let exchange = &self.exchanges[id.place as usize];
        let ExchangeStage::On(server) = exchange.stage else { return };
        let micros = u32::try_from((now - exchange.attempt_began) / 1000).unwrap_or(u32::MAX);
        let balancer = exchange.arrival.balancer;
        let balancer = self.balancer(balancer).balancer();
        if balancer.measures_latency() {
            balancer.state(server).observe_latency(micros, now_ms);
        }
    }

    /// An attempt has failed: again, or not.
    fn failed(&mut self, attempt: SimAttempt, cause: RetryCause, failure: SimFailure) {
        let Some(exchange) = self.running(attempt) else { return };
        let ExchangeStage::On(server) = exchange.stage else { return };
        let (balancer, attempt_began) = (exchange.arrival.balancer, exchange.attempt_began);
        self.attempt_ends(balancer, server, AttemptEnd::Failed, attempt_began);
        let Some(exchange) = self.running(attempt) else { return };
        let mut excluded = exchange.excluded;
        excluded.insert(server);
        let other_server = self.balancer(balancer).balancer().has_eligible_but(&excluded);
        let Some(exchange) = self.running(attempt) else { return };
        let facts = FailedAttempt {
            cause,
            sent_any: cause != RetryCause::Connect,
            received_any: matches!(cause, RetryCause::Status(_)),
            answered_any: false,
            reused_connection: false,
            repeatable: self.model.clients[exchange.arrival.class as usize].idempotent,
            body_replayable: true,
            other_server,
            // Passing over servers that refuse is not simulated.
            untried_server: false,
            was_unread: false,
            was_refused: false,
            attempts: exchange.attempts,
            refused: 0,
            unreached: 0,
            stale_connections: 0,
            unprocessed: 0,
            elapsed: Duration::from_nanos(self.agenda.now() - exchange.first_began),
        };
        let (upstream, now_ms) = (self.upstream, self.now_ms());
        let budget = &self.balancer(balancer).budget;
        match upstream.retry.judge(&facts, || budget.try_take(now_ms)) {
            RetryDecision::GiveUp(_) => self.finish(attempt.exchange, Some(failure)),
            RetryDecision::Retry { server: next, .. } => {
                let exchange = &mut self.exchanges[attempt.exchange.place as usize];
                exchange.last = Some(failure);
                match next {
                    NextServer::SameFresh => {}
                    NextServer::OtherFirst => exchange.excluded.avoid(server),
                    NextServer::OtherOnly => exchange.excluded.insert(server),
                }
                exchange.stage = ExchangeStage::Nowhere;
                let is_slow = exchange.is_slow;
                self.tally.retried(exchange.arrival.class, is_slow);
                self.release(balancer, server);
                self.admit(attempt.exchange);
            }
        }
    }

    /// The one end of an exchange: gives back its slot or place, counts it, and lets its client continue.
    fn finish(&mut self, id: ExchangeId, failure: Option<SimFailure>) {
        let now = self.agenda.now();
        let exchange = self.exchanges.remove(id.place as usize);
        debug_assert_eq!(exchange.number, id.number, "an exchange ends once");
        let ArrivingRequest { class, client, balancer, coordinates } = exchange.arrival;
        let mut waited = exchange.waited;
        let (mut held, mut in_line) = (None, 0);
        if let ExchangeStage::On(on) = exchange.stage {
            // The end of a failed attempt is in the table already.
            match failure {
                None => self.attempt_ends(balancer, on, AttemptEnd::Answered, exchange.attempt_began),
                Some(SimFailure::ClientClosed) => {
                    self.attempt_ends(balancer, on, AttemptEnd::Unknown, exchange.attempt_began);
                }
                Some(_) => {}
            }
        }
        match exchange.stage {
            ExchangeStage::Queued { ticket, since } => {
                waited += now - since;
                self.balancer(balancer).leave(ticket);
            }
            ExchangeStage::On(on) => {
                held = Some(on);
                in_line = exchange.work_began.saturating_sub(exchange.attempt_began);
            }
            ExchangeStage::Nowhere => {}
        }
        let number = held.map(|server| self.balancer(balancer).number_of(server));
        self.tally.ends(&EndedRequest {
            class,
            is_slow: exchange.is_slow,
            client,
            index: coordinates[1],
            began: exchange.began,
            ended: now,
            waited,
            in_line,
            attempts: exchange.attempts,
            server: number,
            outcome: failure.map_or(RequestOutcome::Answered, RequestOutcome::Failed),
        });
        if let Some(server) = held {
            self.release(balancer, server);
        }
        if let ClassLoad::Closed { pause, .. } = &self.model.clients[class as usize].load {
            let first = self.clients.first_of(class);
            let pause = if failure.is_some() { *pause } else { 0 };
            self.think_then_begin(class, client - first, pause);
        }
    }
}
