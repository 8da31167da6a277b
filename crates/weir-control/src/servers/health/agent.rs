//! Asking the agent of a server: one connection, one line, beside the probes.
//!
//! An agent that does not answer changes nothing: probes find out whether the server does. What it says is added up in the live state of
//! the server, so that it outlives a reload and goes to the next process. Must not judge what a probe has found.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use weir_config::{AgentCheck, OnDown};
use weir_observe::{Cause, Failure, Phase};
use weir_traffic::health::{AGENT_ANSWER_BYTES_MAX, AgentAnswer, AgentReport};
use weir_traffic::{Health, Mode, ServerId};

use super::jitter::Jitter;
use super::stream::{ProbeStream, read, send};
use crate::servers::slow_start;
use crate::workers::connections;
use crate::workers::worker_queries::WorkerQueries;
use weir_proxy::net::buffer::BufferStock;
use weir_proxy::net::connection::Connection;
use weir_proxy::net::descriptors;
use weir_proxy::net::endpoint::Endpoint;
use weir_proxy::net::socket::Behind;
use weir_proxy::net::source::BoundSource;
use weir_proxy::state::snapshot::UpstreamPlan;
use weir_proxy::upstream::handshake::{self, ConnectionSetup};
use weir_proxy::upstream::proxy_header::ConnectionIdentity;

/// The agent of one server, and everything that is needed to ask it.
pub(super) struct AskedAgent {
    pub(super) plans: watch::Receiver<Arc<UpstreamPlan>>,
    pub(super) index: usize,
    pub(super) check: AgentCheck,
    pub(super) jitter: Jitter,
    pub(super) stock: Rc<BufferStock>,
    pub(super) queries: Arc<WorkerQueries>,
    /// How many connections the health checks may have at once.
    pub(super) places: Arc<Semaphore>,
}

impl AskedAgent {
    /// Asks for as long as the task runs.
    pub(super) async fn keep_asked(mut self) {
        let interval = u64::try_from(self.check.interval.as_millis()).unwrap_or(u64::MAX).max(1);
        tokio::time::sleep(Duration::from_millis(self.jitter.next() % interval)).await;
        loop {
            let plan = Arc::clone(&self.plans.borrow_and_update());
            match self.ask(&plan).await {
                Ok(answer) => {
                    // The config may have changed meanwhile.
                    let plan = Arc::clone(&self.plans.borrow_and_update());
                    self.follow(&plan, answer);
                }
                Err(failure) => self.note_silence(&plan, failure),
            }
            tokio::time::sleep(self.check.interval).await;
        }
    }

    async fn ask(&mut self, plan: &UpstreamPlan) -> Result<AgentAnswer, Failure> {
        let endpoints = self.endpoints(plan);
        let first = self.jitter.next() as usize;
        let place = self.places.acquire().await;
        let asked = tokio::time::timeout(self.check.timeout, self.exchange(plan, &endpoints, first)).await;
        drop(place);
        asked.unwrap_or(Err(Failure::server(Phase::Response, Cause::TimedOut)))
    }

    /// Where the agent is: on its own address, or on those of the server.
    fn endpoints(&self, plan: &UpstreamPlan) -> Vec<Endpoint> {
        let server = &plan.config.servers[self.index];
        let Some(port) = server.port_of(&self.check) else { return Vec::new() };
        match self.check.address {
            Some(address) => vec![Endpoint::Inet((address, port).into())],
            None => super::probe::on_port(&plan.live[self.index].endpoints.load(), port),
        }
    }

    async fn exchange(
        &self,
        plan: &UpstreamPlan,
        endpoints: &[Endpoint],
        first: usize,
    ) -> Result<AgentAnswer, Failure> {
        let source = BoundSource::of_weir(&plan.config.servers[self.index]);
        let identity = ConnectionIdentity { header: None, source };
        let setup =
            ConnectionSetup { identity: &identity, handshake: None, behind: Behind::Unknown, timers: None };
        let mut connection = handshake::open(setup, endpoints, first, &self.stock).await?;
        send(&mut connection, &self.check.send).await?;
        let answer = self.answer(&mut connection).await;
        connection.send_end_now();
        answer
    }

    /// Reads up to the end of the first line, or as many bytes as an answer may have.
    async fn answer(&self, connection: &mut Connection) -> Result<AgentAnswer, Failure> {
        let mut received = Vec::new();
        let mut source = ProbeStream { connection, stock: &self.stock };
        loop {
            if read(&mut source, &mut received, Phase::Response).await? == 0 {
                return Err(Failure::server(Phase::Response, Cause::Closed));
            }
            received.truncate(AGENT_ANSWER_BYTES_MAX);
            if let Some(answer) = AgentAnswer::parse(&received) {
                return Ok(answer);
            }
            if received.len() == AGENT_ANSWER_BYTES_MAX {
                return Err(Failure::server(Phase::Response, Cause::UnexpectedAnswer));
            }
        }
    }

    fn note_silence(&self, plan: &UpstreamPlan, failure: Failure) {
        if descriptors::is_local(failure) {
            descriptors::raise_alarm(failure);
        }
        tracing::debug!(
            upstream = &*plan.config.name,
            server = &*plan.config.servers[self.index].name,
            reason = failure.reason(),
            "the agent has not answered: the server is as before"
        );
    }

    /// Does what the agent says.
    fn follow(&self, plan: &Arc<UpstreamPlan>, answer: AgentAnswer) {
        let (upstream, server) = (&*plan.config.name, &*plan.config.servers[self.index].name);
        if let Some(word) = &answer.unknown {
            tracing::debug!(
                upstream,
                server,
                word = &**word,
                "the agent says what is no word of its grammar"
            );
        }
        let before = plan.live[self.index].agent_report();
        let now = before.with(answer);
        if now == *before {
            return;
        }
        let state = plan.balancer().state(ServerId(self.index as u32));
        let (was_up, was_mode) = (state.health() == Health::Up, state.effective_mode());
        let said = sentence(&now);
        let will_be_up = state.probed_health() == Health::Up && !now.is_down();
        let leaves_maintenance = was_mode == Mode::Maintenance
            && state.mode() != Mode::Maintenance
            && now.mode != Mode::Maintenance;
        plan.live[self.index].set_agent_report(now);
        if will_be_up && (!was_up || leaves_maintenance) {
            // Before it takes requests, so that its first are few.
            slow_start::begin(plan, self.index);
            plan.recover(ServerId(self.index as u32));
        }
        plan.apply_agent(self.index);
        let is_up = state.health() == Health::Up;
        if was_up && !is_up {
            slow_start::stop(plan, self.index);
        }
        if (was_up, was_mode) != (is_up, state.effective_mode()) {
            plan.live[self.index].last_change.record(format!("its agent says {said}"));
            tracing::warn!(upstream, server, agent = said, "the agent of the server changes its state");
        } else {
            tracing::info!(upstream, server, agent = said, "the agent of the server changes its share");
        }
        plan.settle_ejections();
        plan.serve_queue();
        if was_up && !is_up && plan.config.on_down == OnDown::Close {
            self.close_connections(plan);
        }
    }

    fn close_connections(&self, plan: &Arc<UpstreamPlan>) {
        let (queries, plan, index) = (Arc::clone(&self.queries), Arc::clone(plan), self.index);
        tokio::task::spawn_local(async move {
            connections::end_down(&queries, &plan.config.name, &plan.config.servers[index].name).await;
        });
    }
}

/// What an agent says, in words of its own.
fn sentence(report: &AgentReport) -> String {
    let mode = match report.mode {
        Mode::Serving => None,
        Mode::Draining => Some("drain".to_owned()),
        Mode::Maintenance => Some("maint".to_owned()),
    };
    let weight = report.weight_percent.map(|percent| format!("{percent}%"));
    let requests = report.max_requests.map(|max| format!("maxconn:{max}"));
    let description = Some(&report.description).filter(|text| !text.is_empty());
    let words = [Some(report.status.name().to_owned()), mode, weight, requests];
    let words = words.into_iter().flatten().chain(description.map(|text| format!("# {text}")));
    words.collect::<Vec<_>>().join(" ")
}
