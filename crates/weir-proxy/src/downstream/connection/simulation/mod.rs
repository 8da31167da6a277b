//! Whole connections of HTTP/2, in schedules drawn from a seed: the age limit and its two GOAWAYs, tunnels by extended CONNECT, a limit on
//! bandwidth, windows that open late.
//!
//! Client and server are in memory and speak through pairs of sockets, so that the code of Weir is the real one from its sockets on; time is
//! virtual. What must hold in every schedule is checked while it runs and when all is over; what both peers have received is recorded and judged
//! by `weir-wire`. `CONNECTION_SEED=n` repeats a run,
//! `CONNECTION_RUNS=n` tries so many new ones.

mod browser;
mod judge;
pub(super) mod peer;

use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::browser::{Browser, StreamKind};
use self::peer::{LIMITED_LEN, OriginPeer};
use super::bytes::ByteConnection;
use super::exchange_pool::ExchangePool;
use crate::exchange::simulation::worker;
use crate::net::clock::{self, Instant};
use crate::net::peer::Peer;
use crate::state::shared::AcceptedConnection;
use crate::state::worker::Worker;
use crate::state::worker_config::LocalListener;

/// The limits of a run. Nothing else ends a connection before it is over.
const AGE: Duration = Duration::from_secs(2);
const RATE: u64 = 20_000;
const BURST: u64 = 4_000;
/// How long a client may take to say that it knows of the end.
const GOODBYE: Duration = Duration::from_secs(2);
/// The last stream of the first GOAWAY.
const ANY_STREAM: u32 = u32::MAX >> 1;
/// In a run nothing may last longer.
const TIME_MAX: Duration = Duration::from_secs(60);
/// Turns of the event loop without a byte after which nothing more happens by itself.
const QUIET_TURNS: usize = 6;

fn config(server: &str) -> weir_config::Config {
    let text = format!(
        "listener.web.address = \"127.0.0.1:0\"
         listener.web.http2.prior_knowledge = \"only\"
         listener.web.timeouts = {{ connection_age = \"2s\", idle = \"20s\" }}
         listener.web.route = [
             {{ path = \"/limited\", upstream = \"app\", limited_by = \"slow\" }},
             {{ path = \"/\", upstream = \"app\" }},
         ]
         limit.slow = {{ bandwidth = \"{RATE}B/s\", bandwidth_burst = \"{BURST}B\" }}
         upstream.app = {{ servers = [\"unix:{server}\"], timeouts.response = \"30s\", timeouts.tunnel = \"30s\" }}"
    );
    weir_config::Config::parse(&text, "simulation.toml").expect("the config is good")
}

/// Numbers drawn from a seed (xorshift64*).
pub(super) struct Draw(u64);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }

    fn time_below(&mut self, bound: Duration) -> Duration {
        Duration::from_millis(self.below(bound.as_millis() as u64))
    }
}

/// A connection, and both of its peers.
struct ConnectionRig {
    worker: Rc<Worker>,
    listener: Rc<LocalListener>,
    client: Browser,
    server: OriginPeer,
    opened_at: Instant,
}

impl ConnectionRig {
    fn open(seed: u64) -> Self {
        clock::set(Some(Instant::test(Duration::from_secs(1_000))));
        let server = OriginPeer::listen();
        let worker = worker(&config(server.path()), &[1], seed);
        let plan = Arc::clone(&worker.config.borrow().snapshot.listeners[0]);
        let listener = LocalListener::new(&plan, 0, 0, None);
        let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
        ours.set_nonblocking(true).expect("it can be set");
        let accepted = AcceptedConnection {
            listener: Arc::clone(&listener.state),
            carrier: ours.into(),
            peer: Peer::Inet(([192, 0, 2, 1], 5000).into()),
            port: None,
        };
        assert!(worker.try_reserve(&listener.state), "there is room");
        worker.shared.loads[0].0.fetch_add(1, Ordering::Relaxed);
        let pool = ExchangePool::new(&worker);
        assert!(
            ByteConnection::start(&pool, Rc::clone(&listener), accepted, ByteConnection::run),
            "it is served"
        );
        let draw = Draw::new(seed);
        Self { worker, listener, client: Browser::new(theirs, draw), server, opened_at: clock::now() }
    }

    /// Lets everything happen that needs no time.
    async fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_TURNS {
            tokio::task::yield_now().await;
            let moved = self.client.turn() | self.server.turn();
            self.check_bandwidth();
            quiet = if moved { 0 } else { quiet + 1 };
        }
    }

    /// Runs the connection to its end.
    async fn run(&mut self) {
        self.settle().await;
        let end = clock::now() + TIME_MAX;
        while !self.client.is_over() {
            let next = [self.client.next_at(), self.worker.timers.next_due()].into_iter().flatten().min();
            let next = next.expect("the connection waits for nothing: its waker is lost");
            clock::set(Some(next.max(clock::now())));
            assert!(clock::now() < end, "the connection does not end: {:?}", self.client);
            self.worker.timers.fire();
            self.client.act();
            self.settle().await;
            self.check_age();
        }
        // Once the client has closed, nothing is left to wait for.
        self.settle().await;
    }

    /// No stream of the key gets more than its time allows.
    fn check_bandwidth(&self) {
        let since = clock::now().saturating_duration_since(self.opened_at).as_millis() as u64;
        let allowed = BURST + RATE * since / 1_000 + RATE / 8;
        let got = self.client.limited_bytes();
        assert!(got <= allowed, "{got} bytes in {since} ms, of {allowed} that the limit allows");
    }

    /// The client is told of the end when the connection is old enough, neither before nor later, and the end is final as soon as the
    /// client knows, or has had its time.
    fn check_age(&self) {
        let (now, old_at) = (clock::now(), self.opened_at + AGE);
        let goaways = &self.client.goaways;
        assert_eq!(
            !goaways.is_empty(),
            now >= old_at,
            "GOAWAY {:?} after {:?}",
            goaways,
            now - self.opened_at
        );
        let Some((first_at, first)) = goaways.first() else { return };
        assert_eq!((*first, *first_at), (ANY_STREAM, old_at));
        let known_at = self.client.ponged_at.map_or(*first_at + GOODBYE, |at| at.min(*first_at + GOODBYE));
        assert_eq!(goaways.len() > 1, now >= known_at, "{goaways:?}, known at {known_at:?}");
        if let Some((last_at, last)) = goaways.get(1) {
            assert_eq!((*last_at, *last), (known_at, self.client.last_stream_before_end()));
        }
        assert!(goaways.len() <= 2, "{goaways:?}");
    }

    /// When all is over, each stream has got what it was owed, and nothing of it is left.
    fn check(&self) {
        let responses = judge::responses(&self.client.received, &self.client.streams);
        assert_eq!(responses, Ok(()), "what the client has received: {:?}", self.client);
        let requests = judge::requests(&self.server.records(), &self.client.streams);
        assert_eq!(requests, Ok(()), "what the server has received: {:?}", self.client);
        for stream in &self.client.streams {
            let label = format!("{stream:?}");
            if stream.is_beyond_end {
                assert!(!stream.was_answered && !stream.has_ended, "served beyond the last GOAWAY: {label}");
                continue;
            }
            assert_eq!(stream.reset, None, "{label}");
            assert!(stream.was_answered && stream.has_ended, "not whole: {label}");
            match stream.kind {
                StreamKind::Short => assert_eq!(stream.got, b"short", "{label}"),
                StreamKind::ExchangeLimits => assert_eq!(stream.got.len() as u64, LIMITED_LEN, "{label}"),
                StreamKind::Tunnel => assert_eq!(stream.got, stream.sent, "{label}"),
            }
        }
        let requests = self.client.streams.iter().filter(|stream| !stream.is_beyond_end).count() as u64;
        let shard = &self.listener.shard;
        assert_eq!((shard.streams.value(), shard.http2_goaways.value()), (requests, 1));
        assert_eq!((shard.streams_open.value(), shard.http2_connections_open.value()), (0, 0));
        assert_eq!((shard.connections_open.value(), self.worker.shard.exchanges_open.value()), (0, 0));
        assert_eq!(self.worker.shard.tunnels_open.value(), 0);
        assert_eq!(self.worker.timers.len(), 0, "timers are left");
        let config = self.worker.config.borrow();
        let states = config.snapshot.upstreams[0].balancer().states();
        assert_eq!(states[0].in_flight(), 0, "slots are left taken");
        assert_eq!(self.server.tunnels_open(), 0, "a server was not told of the end");
    }
}

/// Runs a connection to its end, checks it, and has `then` look at it.
fn simulate<T>(seed: u64, then: impl FnOnce(&ConnectionRig) -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let outcome = tokio::task::LocalSet::new().block_on(&runtime, async {
        let mut rig = ConnectionRig::open(seed);
        rig.run().await;
        rig.check();
        then(&rig)
    });
    clock::set(None);
    outcome
}

/// A number from the environment, for runs by hand.
fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number, not `{text}`")))
}

#[test]
fn every_connection_keeps_the_rules() {
    let (first, count) = match (number_in("CONNECTION_SEED"), number_in("CONNECTION_RUNS")) {
        (Some(seed), _) => (seed, 1),
        (None, Some(count)) => (u64::from(std::process::id()) << 32, count),
        (None, None) => (1, 200),
    };
    let mut streams = 0;
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(|| simulate(seed, |rig| rig.client.streams.len()));
        assert!(outcome.is_ok(), "CONNECTION_SEED={seed} repeats this");
        streams += outcome.unwrap_or_default();
    }
    println!("seeds from {first}: {count} connections, {streams} streams");
}
