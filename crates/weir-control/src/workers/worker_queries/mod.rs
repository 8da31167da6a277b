//! Where the recorders of all workers are asked, from off the workers.
//!
//! A query goes to every worker as a message; their results are merged, newest first. A worker that is busy for longer than
//! a moment is left out, and that is said.

mod config_names;
mod shared_runs;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

pub(crate) use config_names::{ConfigNames, GenerationNames, KnownListener};
use weir_proxy::net::clock::Instant;
use weir_proxy::net::timing::deadline::Cut;
use weir_proxy::state::budgets::memory_guard::MemoryOrder;
use weir_proxy::state::connections::connection_list::{
    self, ConnectionId, ConnectionInfo, ConnectionQuery, WorkerQuery,
};
use weir_proxy::state::datagrams::TraceOrder;
use weir_proxy::state::routes::access::{FetchedKeys, KeyDocument, KeyFetch, KeyFetchError};
use weir_proxy::state::tracing::recorder::RecordedExchange;
pub(crate) use weir_proxy::state::tracing::recorder::{ExchangeFilter, RecorderQuery, RecorderQueryMessage};
use weir_sort::CompactSort as _;

/// How long an answer of a worker is waited for.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// The result of a recorder query.
#[derive(Debug)]
pub(crate) struct FoundExchanges {
    /// The newest first, each with its worker.
    pub(crate) recorded: Vec<(usize, RecordedExchange)>,
    /// Workers that did not answer in time.
    pub(crate) silent: usize,
}

/// The running sessions that match a query.
#[derive(Debug, Default)]
pub(crate) struct FoundConnections {
    /// The oldest first.
    pub(crate) connections: Vec<ConnectionInfo>,
    /// Connections that match the query, including those that are not listed.
    pub(crate) matching: usize,
    /// Connections that the query was sent to, and of these, those that did not answer.
    pub(crate) asked: usize,
    pub(crate) silent: usize,
    /// Workers that did not answer in time.
    pub(crate) silent_workers: usize,
}

/// How the workers are asked.
#[derive(Debug)]
pub(crate) struct WorkerQueries {
    queries: Vec<UnboundedSender<WorkerQuery>>,
    pub(crate) names: ConfigNames,
    pub(crate) limits: weir_config::RecorderSettings,
    /// When the first exchange could have been kept.
    pub(crate) since: Instant,
}

impl WorkerQueries {
    /// The sending side, and the receiver of each worker.
    pub(crate) fn new(
        workers: usize,
        limits: &weir_config::RecorderSettings,
    ) -> (Self, Vec<UnboundedReceiver<WorkerQuery>>) {
        let (queries, heard) = (0..workers).map(|_| unbounded_channel()).unzip();
        let queries = Self {
            queries,
            names: ConfigNames::default(),
            limits: limits.clone(),
            since: weir_proxy::net::clock::now(),
        };
        (queries, heard)
    }

    /// Asks all workers, or the one that it concerns.
    pub(crate) async fn ask(&self, wanted: RecorderQuery, count_max: usize) -> FoundExchanges {
        let only = match wanted {
            RecorderQuery::Number { worker, .. } | RecorderQuery::Connection(ConnectionId { worker, .. }) => {
                Some(worker)
            }
            _ => None,
        };
        let wanted = Arc::new(wanted);
        let ask = |answer| {
            WorkerQuery::Recorder(RecorderQueryMessage { query: Arc::clone(&wanted), count_max, answer })
        };
        let (answers, silent) = self.gather(only, ask).await;
        let mut recorded = Vec::new();
        for (worker, found) in answers {
            recorded.extend(found.into_iter().map(|recorded| (worker, recorded)));
        }
        recorded.sort_compact_by_key(|(_, recorded)| std::cmp::Reverse(recorded.entry.ended));
        recorded.truncate(count_max);
        FoundExchanges { recorded, silent }
    }

    /// Asks all workers, or the one that it concerns, for running sessions, or tells them which ones to end.
    pub(crate) async fn ask_running(&self, query: ConnectionQuery) -> FoundConnections {
        let (count_max, only) = (query.count_max, query.connection.map(|id| id.worker));
        let query = Arc::new(query);
        let ask = |answer| {
            WorkerQuery::Connections(connection_list::ConnectionQueryMessage {
                query: Arc::clone(&query),
                answer,
            })
        };
        let (answers, silent_workers) = self.gather(only, ask).await;
        let mut found = FoundConnections { silent_workers, ..FoundConnections::default() };
        for (_, ran) in answers {
            found.matching += ran.matching;
            found.asked += ran.asked;
            found.silent += ran.silent;
            found.connections.extend(ran.connections);
        }
        found.connections.sort_compact_by_key(|connection| connection.opened_at);
        found.connections.truncate(count_max);
        found
    }

    /// Has a worker fetch keys of tokens, each time another one.
    pub(crate) fn fetch_keys(
        &self,
        turn: usize,
        keys: &Arc<FetchedKeys>,
    ) -> oneshot::Receiver<Result<KeyDocument, KeyFetchError>> {
        let (answer, heard) = oneshot::channel();
        let _ended = self.queries[turn % self.queries.len()]
            .send(WorkerQuery::Keys(KeyFetch { keys: Arc::clone(keys), answer }));
        heard
    }

    /// Has each worker close up to `idle_max` idle client connections and end up to `slow_max` exchanges of the slowest clients, and waits until
    /// they have, or for a moment.
    pub(crate) async fn free_memory(&self, idle_max: usize, closes_idle_servers: bool, slow_max: usize) {
        let order = |done| WorkerQuery::Memory(MemoryOrder { idle_max, closes_idle_servers, slow_max, done });
        self.gather(None, order).await;
    }

    /// Has it written down as qlog for a while what happens to a connection of QUIC; nothing if there is no such connection.
    pub(crate) async fn trace(&self, connection: ConnectionId, length: Duration) -> Option<Vec<u8>> {
        let (done, written) = oneshot::channel();
        let order = TraceOrder { connection, length, done };
        self.queries.get(connection.worker)?.send(WorkerQuery::Trace(order)).ok()?;
        tokio::time::timeout(length + ANSWER_TIME, written).await.ok()?.ok()
    }

    /// Asks every worker to answer as soon as it comes to it.
    pub(crate) fn ask_progress(&self) -> Vec<oneshot::Receiver<()>> {
        let ask = |queries: &UnboundedSender<WorkerQuery>| {
            let (alive, answer) = oneshot::channel();
            let _ended = queries.send(WorkerQuery::Progress(alive));
            answer
        };
        self.queries.iter().map(ask).collect()
    }

    /// Wakes every connection, so that it notices a change of what all share.
    pub(crate) fn wake_all(&self) {
        self.send_to_all(ConnectionQuery::default());
    }

    /// Makes all workers end every connection does not wait for them.
    pub(crate) fn end_all(&self) {
        self.send_to_all(ConnectionQuery { ends: Some(Cut::Requested), ..ConnectionQuery::default() });
    }

    /// Sends a query whose answers are of no interest.
    fn send_to_all(&self, query: ConnectionQuery) {
        let query = Arc::new(query);
        for queries in &self.queries {
            let (answer, _not_awaited) = oneshot::channel();
            let _ended = queries.send(WorkerQuery::Connections(connection_list::ConnectionQueryMessage {
                query: Arc::clone(&query),
                answer,
            }));
        }
    }

    /// The answers of the workers, or of the only one that is asked, and how many did not answer in time.
    async fn gather<T>(
        &self,
        only: Option<usize>,
        ask: impl Fn(oneshot::Sender<T>) -> WorkerQuery,
    ) -> (Vec<(usize, T)>, usize) {
        let mut awaited = Vec::new();
        let workers = self.queries.iter().enumerate();
        for (worker, queries) in workers.filter(|(worker, _)| only.is_none_or(|only| only == *worker)) {
            let (answer, heard) = oneshot::channel();
            if queries.send(ask(answer)).is_ok() {
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
