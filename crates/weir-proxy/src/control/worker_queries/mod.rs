//! Where the recorders of all workers are asked, from off the workers.
//!
//! A question goes to every worker as a message; what they find is brought together, newest first. A worker that is busy for longer than
//! a moment is left out, and that is said.

mod config_names;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use crate::net::clock::Instant;
use crate::net::deadline::Cut;
use crate::state::recorder::Flight;
pub(crate) use crate::state::recorder::{Ask, Filter, Wanted};
use crate::state::running::Asked;
use crate::state::running::{self, Question, Running, SessionId};
pub(crate) use config_names::{ListenerNames, Names, NamesKept};

/// How long an answer of a worker is waited for.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The newest first, each with its worker.
    pub(crate) flights: Vec<(usize, Flight)>,
    /// Workers that did not answer in time.
    pub(crate) silent: usize,
}

/// What was found running.
#[derive(Debug, Default)]
pub(crate) struct RunningFound {
    /// The oldest first.
    pub(crate) sessions: Vec<Running>,
    /// Sessions that the question means, those that are not told among them.
    pub(crate) matching: usize,
    /// Sessions that were asked, and of these, those that did not answer.
    pub(crate) asked: usize,
    pub(crate) silent: usize,
    /// Workers that did not answer in time.
    pub(crate) silent_workers: usize,
}

/// How the workers are asked.
#[derive(Debug)]
pub(crate) struct Desk {
    asks: Vec<UnboundedSender<Asked>>,
    pub(crate) names: NamesKept,
    pub(crate) limits: weir_config::RecorderSettings,
    /// When the first exchange could have been kept.
    pub(crate) since: Instant,
}

impl Desk {
    /// The desk, and where each worker hears the questions.
    pub(crate) fn new(
        workers: usize,
        limits: &weir_config::RecorderSettings,
    ) -> (Self, Vec<UnboundedReceiver<Asked>>) {
        let (asks, heard) = (0..workers).map(|_| unbounded_channel()).unzip();
        let desk = Self {
            asks,
            names: NamesKept::default(),
            limits: limits.clone(),
            since: crate::net::clock::now(),
        };
        (desk, heard)
    }

    /// Asks all workers, or the one that it concerns.
    pub(crate) async fn ask(&self, wanted: Wanted, count_max: usize) -> Found {
        let only = match wanted {
            Wanted::Number { worker, .. } | Wanted::Session(SessionId { worker, .. }) => Some(worker),
            _ => None,
        };
        let wanted = Arc::new(wanted);
        let ask = |answer| Asked::Kept(Ask { wanted: Arc::clone(&wanted), count_max, answer });
        let (answers, silent) = self.gather(only, ask).await;
        let mut flights = Vec::new();
        for (worker, found) in answers {
            flights.extend(found.into_iter().map(|flight| (worker, flight)));
        }
        flights.sort_by_key(|(_, flight)| std::cmp::Reverse(flight.entry.ended));
        flights.truncate(count_max);
        Found { flights, silent }
    }

    /// Asks all workers, or the one that it concerns, what runs now, or tells them what has to end.
    pub(crate) async fn ask_running(&self, question: Question) -> RunningFound {
        let (count_max, only) = (question.count_max, question.session.map(|id| id.worker));
        let question = Arc::new(question);
        let ask = |answer| Asked::Running(running::Ask { question: Arc::clone(&question), answer });
        let (answers, silent_workers) = self.gather(only, ask).await;
        let mut found = RunningFound { silent_workers, ..RunningFound::default() };
        for (_, ran) in answers {
            found.matching += ran.matching;
            found.asked += ran.asked;
            found.silent += ran.silent;
            found.sessions.extend(ran.sessions);
        }
        found.sessions.sort_by_key(|session| session.opened_at);
        found.sessions.truncate(count_max);
        found
    }

    /// Tells all workers that every session has to end; waits for none.
    pub(crate) fn end_all(&self) {
        let question = Arc::new(Question { ends: Some(Cut::Asked), ..Question::default() });
        for asks in &self.asks {
            let (answer, _nobody_waits) = oneshot::channel();
            let _ended = asks.send(Asked::Running(running::Ask { question: Arc::clone(&question), answer }));
        }
    }

    /// What the workers answer, or the only one that is asked, and how many did not in time.
    async fn gather<T>(
        &self,
        only: Option<usize>,
        ask: impl Fn(oneshot::Sender<T>) -> Asked,
    ) -> (Vec<(usize, T)>, usize) {
        let mut awaited = Vec::new();
        let workers = self.asks.iter().enumerate();
        for (worker, asks) in workers.filter(|(worker, _)| only.is_none_or(|only| only == *worker)) {
            let (answer, heard) = oneshot::channel();
            if asks.send(ask(answer)).is_ok() {
                awaited.push((worker, heard));
            }
        }
        let (mut answers, mut silent) = (Vec::new(), 0);
        let end = tokio::time::Instant::now() + ANSWER_TIME;
        for (worker, heard) in awaited {
            match tokio::time::timeout_at(end, heard).await {
                Ok(Ok(answer)) => answers.push((worker, answer)),
                Ok(Err(_)) | Err(_) => silent += 1,
            }
        }
        (answers, silent)
    }
}
