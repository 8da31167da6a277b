//! The clients of a soak, each kind with a driver of its own. All but those in tunnels may meet servers that die.

use std::time::Duration;

use crate::load::exchange::{RequestShape, prepare};
use crate::load::{Connections, ExchangeOrder, Faults, LoadPattern, LoadPlan, PreparedExchange, websocket};
use crate::origin::PAGE_LEN;
use crate::run::configurations::STILL;
use crate::run::outage::TIMEOUT;
use crate::run::slow_clients::slow_plan;
use crate::run::steady;
use crate::run::testbed::Testbed;
use crate::scenario::clients::SlowClientsWork;
use crate::scenario::soak::SoakWork;
use crate::scenario::{Rounds, SteadyWork};

/// Bytes of a request with a body.
const BODY: usize = 1024;

/// Bytes of a message in a tunnel.
const MESSAGE: usize = 64;

/// Bytes of the answer that a slow client reads, and how many of them in a second: it takes some four seconds.
const SLOW_ANSWER: u64 = 64 * 1024;
const SLOW_PACE: u64 = 16 * 1024;

/// How long clients that leave wait, and how long the answer would take.
const PATIENCE: Duration = Duration::from_millis(100);
const LATE: &str = "/delay/1000";

/// The word for a client that was not answered in time, or left.
const LEFT: &str = "timeout";

/// A kind of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SoakKind {
    /// They keep their connections.
    Kept,
    /// A connection for each request.
    Short,
    /// They send a body.
    Posting,
    /// They read slowly.
    Slow,
    /// They leave before the answer.
    Leaving,
    /// Messages in tunnels.
    Tunnels,
}

impl SoakKind {
    /// The words of a note, after a number of requests.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kept => "on kept connections",
            Self::Short => "on connections of their own",
            Self::Posting => "with a body",
            Self::Slow => "read slowly",
            Self::Leaving => "leaving",
            Self::Tunnels => "in tunnels",
        }
    }

    /// The beginning of the ids of its requests.
    pub(super) fn id(self) -> &'static str {
        match self {
            Self::Kept => "kept",
            Self::Short => "short",
            Self::Posting => "post",
            Self::Slow => "slow",
            Self::Leaving => LEAVING,
            Self::Tunnels => "tunnel",
        }
    }

    /// The faults that are failures, and how many are none: faults of clients that left.
    pub(super) fn failures(self, mut faults: Faults) -> (Faults, u64) {
        if self != Self::Leaving {
            return (faults, 0);
        }
        let left = faults.kinds.remove(LEFT).unwrap_or(0);
        faults.total -= left;
        if left > 0 {
            // All may be of clients that left.
            faults.examples.clear();
        }
        (faults, left)
    }
}

/// The beginning of the ids of clients that leave.
pub(super) const LEAVING: &str = "leaving";

/// Clients of one kind.
#[derive(Debug)]
pub(super) struct SoakLoad {
    pub(super) kind: SoakKind,
    pub(super) plan: LoadPlan,
}

/// Connections of clients that there can be.
pub(super) fn clients(work: &SoakWork) -> u64 {
    let all = 3 * work.clients + work.tunnels + work.slow + leaving(work);
    2 * all as u64
}

/// Clients that take turns at leaving.
fn leaving(work: &SoakWork) -> usize {
    (work.leaving_rate.ceil() as usize).max(4)
}

/// All loads; clients that keep their connections come first.
pub(super) fn of(testbed: &Testbed, work: &SoakWork, rounds: &Rounds) -> Vec<SoakLoad> {
    let host = &testbed.authority;
    let usual = steady::plan(testbed, &SteadyWork::of(work.clients), rounds, Some(work.rate));
    let usual = LoadPlan { timeout: TIMEOUT, faults_max: u64::MAX, ..usual };
    let get = |path, close| {
        prepare(&RequestShape { host, path, body_len: 0, answer_len: PAGE_LEN, close, cookie: None })
    };
    let post =
        RequestShape { host, path: "", body_len: BODY, answer_len: PAGE_LEN, close: false, cookie: None };
    let at = |exchanges: Vec<PreparedExchange>, rate| LoadPlan {
        exchanges,
        arrival: LoadPattern::Rate(rate),
        ..usual.clone()
    };
    let slow = SlowClientsWork {
        rate: work.rate,
        clients: work.clients,
        readers: work.slow,
        answer: SLOW_ANSWER,
        writers: 0,
        body: 0,
        pace: SLOW_PACE,
    };
    let short = LoadPlan { connections: Connections::PerExchange, ..at(get("/", true), work.short_rate) };
    let leaves = LoadPlan {
        clients: leaving(work),
        timeout: PATIENCE,
        connections: Connections::PerExchange,
        ..at(get(LATE, true), work.leaving_rate)
    };
    let tunnels = LoadPlan {
        clients: work.tunnels,
        choice: ExchangeOrder::ByClient,
        ..at(websocket::prepare_at(host, STILL, MESSAGE), work.messages)
    };
    let slow = slow_plan(testbed, &slow, &usual);
    let posting = LoadPlan { choice: ExchangeOrder::InTurn, ..at(prepare(&post), work.post_rate) };
    let plans = [
        (SoakKind::Kept, usual),
        (SoakKind::Short, short),
        (SoakKind::Posting, posting),
        (SoakKind::Slow, slow),
        (SoakKind::Leaving, leaves),
        (SoakKind::Tunnels, tunnels),
    ];
    plans
        .map(|(kind, plan)| SoakLoad { kind, plan: LoadPlan { name: Some(kind.id().to_owned()), ..plan } })
        .into()
}
