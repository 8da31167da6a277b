//! A query to the connections of one worker: they are woken in groups, so that other tasks run in between, and each answers
//! at its wait.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::least::LeastValues;
use super::slowest::SlowestClients;
use super::unfinished::LongestUnfinished;
use super::{
    Activity, ConnectionFacts, ConnectionInfo, ConnectionQuery, ConnectionQueryMessage, FoundOnWorker,
};
use crate::net::timing::deadline::Cut;
use crate::net::timing::timers::Timers;

/// Connections that are woken at once: a worker is through with them in some tens of microseconds.
const GROUP: usize = 128;

/// How often the worker goes round its tasks once more while answers are missing.
const ROUNDS: usize = 64;

/// Collects the answers of the connections of a worker.
#[derive(Debug, Default)]
pub(crate) struct ConnectionList {
    /// The number of the last query.
    number: Cell<u32>,
    /// The wait of the connection that reported last.
    waits_for: Cell<Option<Activity>>,
    open: RefCell<Option<QueryRound>>,
    /// Held for as long as a query is open: there is one at a time.
    turn: Mutex<()>,
}

/// A query in progress.
#[derive(Debug)]
struct QueryRound {
    query: Arc<ConnectionQuery>,
    /// The oldest connections that it means, by their numbers.
    listed: BTreeMap<u64, ConnectionInfo>,
    matching: usize,
    /// The slowest clients, if the query is about them.
    slowest: Option<SlowestClients>,
    /// Those without a whole request head, if the query is about them.
    unfinished: Option<LongestUnfinished>,
    /// Connections that have answered, or ended instead.
    answered_count: usize,
}

impl QueryRound {
    fn new(query: &Arc<ConnectionQuery>) -> Self {
        Self {
            query: Arc::clone(query),
            listed: BTreeMap::new(),
            matching: 0,
            slowest: None,
            unfinished: None,
            answered_count: 0,
        }
    }

    /// One that means no connection.
    fn of_none() -> Self {
        Self::new(&Arc::new(ConnectionQuery { numbers: Some(BTreeSet::new()), ..ConnectionQuery::default() }))
    }

    /// Whether a connection belongs to the oldest ones.
    fn has_room(&self, number: u64) -> bool {
        let youngest = self.listed.last_key_value().map_or(0, |(number, _)| *number);
        self.listed.len() < self.query.count_max || number < youngest
    }

    fn keep(&mut self, info: ConnectionInfo) {
        self.listed.insert(info.id.number, info);
        if self.listed.len() > self.query.count_max {
            self.listed.pop_last();
        }
    }
}

impl ConnectionList {
    /// The number of the last query: a connection that has answered it has nothing to answer.
    #[inline]
    pub(crate) fn query_number(&self) -> u32 {
        self.number.get()
    }

    /// Notes for what the connection waits that runs now.
    #[inline]
    pub(crate) fn note_wait(&self, activity: Activity) {
        self.waits_for.set(Some(activity));
    }

    /// Forgets what a connection waits for that has run before.
    pub(crate) fn forget_wait(&self) {
        self.waits_for.set(None);
    }

    /// Whether the connection that has just reported waits for more of a head or a body.
    pub(crate) fn is_wait_for_bytes(&self) -> bool {
        self.waits_for.get().is_some_and(|activity| activity == Activity::Head || activity.is_body())
    }

    /// Takes the answer of a connection; returns why the connection has to end, if it has to.
    pub(crate) fn report(
        &self,
        candidate: &ConnectionFacts<'_>,
        info: impl FnOnce() -> ConnectionInfo,
    ) -> Option<Cut> {
        let Ok(mut open) = self.open.try_borrow_mut() else { return None };
        let Some(round) = &mut *open else { return None };
        round.answered_count += 1;
        if let (Some(slowest), Some(slowness)) = (&mut round.slowest, candidate.slowness) {
            slowest.note(slowness, candidate.number);
        }
        if let (Some(longest), Some(unfinished)) = (&mut round.unfinished, candidate.unfinished)
            && longest.listener.is_none_or(|number| number == candidate.listener_number)
        {
            longest.found.note(unfinished, candidate.number);
        }
        if !round.query.takes(candidate) {
            return None;
        }
        round.matching += 1;
        if round.has_room(candidate.number) {
            round.keep(info());
        }
        round.query.ends
    }

    /// A connection ends whose last answered query is `answered`.
    pub(crate) fn leave(&self, answered: u32) {
        if answered != self.query_number()
            && let Ok(mut open) = self.open.try_borrow_mut()
            && let Some(round) = &mut *open
        {
            round.answered_count += 1;
        }
    }

    /// Queries all connections of the worker that has these timers.
    pub(crate) async fn query_all(&self, timers: &Timers, message: ConnectionQueryMessage) {
        let asked = timers.len();
        let Some(round) = self.run(timers, QueryRound::new(&message.query)).await else { return };
        let silent = asked.saturating_sub(round.answered_count);
        let connections = round.listed.into_values().collect();
        // The receiver may be gone.
        let _gone =
            message.answer.send(FoundOnWorker { connections, matching: round.matching, asked, silent });
    }

    /// Ends up to `count_max` exchanges of the worker that has these timers, those of the slowest clients; returns how many.
    pub(crate) async fn end_slowest(&self, timers: &Timers, count_max: usize) -> usize {
        let slowest = Some(SlowestClients::new(count_max));
        let Some(round) = self.run(timers, QueryRound { slowest, ..QueryRound::of_none() }).await else {
            return 0;
        };
        let numbers = round.slowest.map(SlowestClients::into_numbers).unwrap_or_default();
        self.end(timers, numbers, Cut::MemoryShort).await
    }

    /// Ends up to `count_max` clients of the worker that has these timers, of a listener or of all: those that have been longest without a whole
    /// request head; returns how many.
    pub(crate) async fn end_unfinished(
        &self,
        timers: &Timers,
        count_max: usize,
        listener: Option<u16>,
    ) -> usize {
        let unfinished = Some(LongestUnfinished { listener, found: LeastValues::new(count_max) });
        let Some(round) = self.run(timers, QueryRound { unfinished, ..QueryRound::of_none() }).await else {
            return 0;
        };
        let numbers = round.unfinished.map(|longest| longest.found.into_numbers()).unwrap_or_default();
        self.end(timers, numbers, Cut::PlaceNeeded).await
    }

    /// Ends the connections with these numbers; returns how many there were.
    async fn end(&self, timers: &Timers, numbers: BTreeSet<u64>, why: Cut) -> usize {
        if numbers.is_empty() {
            return 0;
        }
        let query = ConnectionQuery {
            numbers: Some(numbers),
            // Its head may have come meanwhile: that is a request then.
            is_unfinished: why == Cut::PlaceNeeded,
            ends: Some(why),
            ..ConnectionQuery::default()
        };
        self.run(timers, QueryRound::new(&Arc::new(query))).await.map_or(0, |round| round.matching)
    }

    /// Wakes all connections, and waits for their answers.
    async fn run(&self, timers: &Timers, round: QueryRound) -> Option<QueryRound> {
        let _turn = self.turn.lock().await;
        let (list, asked) = (self, timers.len());
        list.open.replace(Some(round));
        list.number.set(list.query_number().wrapping_add(1));
        let mut next = Some(0);
        while let Some(from) = next {
            next = timers.wake_some(from, GROUP);
            tokio::task::yield_now().await;
        }
        let answered_count = || list.open.borrow().as_ref().map_or(0, |round| round.answered_count);
        for _ in 0..ROUNDS {
            if answered_count() >= asked {
                break;
            }
            tokio::task::yield_now().await;
        }
        list.open.take()
    }
}

#[cfg(test)]
mod tests {
    use weir_config::ListenerProtocol;

    use super::*;
    use crate::net::clock;
    use crate::net::peer::Peer;
    use crate::state::connections::connection_list::ConnectionId;
    use crate::state::tracing::recorder::ClientTransport;

    fn info(number: u64) -> ConnectionInfo {
        let now = clock::now();
        ConnectionInfo {
            id: ConnectionId { worker: 0, number },
            opened_at: now,
            since: now,
            activity: Activity::Idle,
            phase: None,
            protocol: ListenerProtocol::Http,
            listener: "web".into(),
            peer: Peer::Unix,
            sender: None,
            transport: ClientTransport::Tcp,
            requests: 0,
            recorded: None,
        }
    }

    #[test]
    fn of_many_connections_the_oldest_are_listed_up_to_the_limit() {
        let query = Arc::new(ConnectionQuery { count_max: 1000, ..ConnectionQuery::default() });
        let mut round = QueryRound::new(&query);
        // In an order that is none: 7919 and 10 007 are prime.
        for number in (0..10_007).map(|at| at * 7919 % 10_007 + 1) {
            if round.has_room(number) {
                round.keep(info(number));
            }
            assert!(round.listed.len() <= 1000);
        }
        assert!(round.listed.keys().copied().eq(1..=1000));
    }

    #[test]
    fn a_limit_of_zero_lists_none() {
        let mut round = QueryRound::new(&Arc::new(ConnectionQuery::default()));
        assert!(!round.has_room(1));
        round.keep(info(1));
        assert!(round.listed.is_empty());
    }
}
