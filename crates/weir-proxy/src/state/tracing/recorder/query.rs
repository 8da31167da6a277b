//! Questions about recorded exchanges, as they are sent to a worker, and what a worker finds.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_sort::CompactSort as _;

use super::entry::{Entry, NONE, RecordedExchange};
use super::{Recorder, Rings};
use crate::state::connection_id::ConnectionId;

/// A query for recorded exchanges.
#[derive(Debug, Clone)]
pub enum RecorderQuery {
    /// Exchanges with this request id.
    Id(Box<[u8]>),
    /// The one that a worker has given this number.
    Number {
        /// The worker.
        worker: usize,
        /// The number of the exchange on it.
        number: u64,
    },
    /// Those of this connection.
    Connection(ConnectionId),
    /// Exchanges that failed.
    Failures,
    /// Exchanges that a filter takes.
    Any(ExchangeFilter),
}

/// Where exchanges went: a place of one config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedPlace {
    /// The config.
    pub generation: u64,
    /// The place of the upstream in it.
    pub upstream: u32,
    /// The place of one of its servers, and the snapshots in which that server had it.
    pub server: Option<(u32, RangeInclusive<u64>)>,
}

impl RecordedPlace {
    fn is_of(&self, entry: &Entry) -> bool {
        self.generation == entry.served_generation
            && self.upstream == entry.upstream
            && self.server.as_ref().is_none_or(|(server, revisions)| {
                *server == entry.server && revisions.contains(&entry.served_revision)
            })
    }
}

/// Which exchanges are wanted.
#[derive(Debug, Clone, Default)]
pub struct ExchangeFilter {
    /// The places of upstream and server in each config, if only some are wanted.
    pub places: Option<Vec<RecordedPlace>>,
    /// The lowest and the highest status.
    pub status: Option<(u16, u16)>,
    /// Those that took at least this long.
    pub time_min: Duration,
}

impl ExchangeFilter {
    fn takes(&self, entry: &Entry) -> bool {
        let status = match (entry.status, entry.failure) {
            (0, Some(failure)) => failure.log_status(),
            (status, _) => status,
        };
        entry.ended.saturating_duration_since(entry.began) >= self.time_min
            && self.status.is_none_or(|(low, high)| (low..=high).contains(&status))
            && self
                .places
                .as_ref()
                .is_none_or(|places| entry.upstream != NONE && places.iter().any(|place| place.is_of(entry)))
    }
}

/// A question to one recorder.
#[derive(Debug)]
pub struct RecorderQueryMessage {
    /// The exchanges that are meant.
    pub query: Arc<RecorderQuery>,
    /// How many are returned at most.
    pub count_max: usize,
    /// Takes the answer.
    pub answer: oneshot::Sender<Vec<RecordedExchange>>,
}

impl RecorderQueryMessage {
    /// Answers from what is kept; nothing when nothing is.
    pub(crate) fn answer(self, recorder: Option<&Recorder>) {
        let found = recorder.and_then(|recorder| {
            recorder.0.try_borrow().ok().map(|rings| rings.find(&self.query, self.count_max))
        });
        let _gone = self.answer.send(found.unwrap_or_default());
    }
}

impl Rings {
    fn find(&self, query: &RecorderQuery, count_max: usize) -> Vec<RecordedExchange> {
        let mut found: Vec<RecordedExchange> = match query {
            RecorderQuery::Failures => self.failures.newest_first().take(count_max).copied().collect(),
            RecorderQuery::Id(id) => self.matching(|entry| entry.words.id() == &**id, count_max),
            RecorderQuery::Number { number, .. } => self.matching(|entry| entry.number == *number, 1),
            RecorderQuery::Connection(id) => self.matching(|entry| entry.connection == id.number, count_max),
            RecorderQuery::Any(filter) => self.matching(|entry| filter.takes(entry), count_max),
        };
        sort(&mut found);
        found.truncate(count_max);
        found
    }

    /// The newest of each ring that `takes` means.
    fn matching(&self, takes: impl Fn(&Entry) -> bool, count_max: usize) -> Vec<RecordedExchange> {
        let plain = self.exchanges.newest_first().filter(|entry| takes(entry));
        let whole = |recorded: &&RecordedExchange| takes(&recorded.entry);
        let mut found: Vec<RecordedExchange> = plain.take(count_max).map(RecordedExchange::new).collect();
        found.extend(self.retried.newest_first().filter(whole).take(count_max));
        found.extend(self.failures.newest_first().filter(whole).take(count_max));
        found
    }
}

/// The newest first.
fn sort(found: &mut [RecordedExchange]) {
    found.sort_compact_by(|a, b| b.entry.ended.cmp(&a.entry.ended).then(b.entry.number.cmp(&a.entry.number)));
}
