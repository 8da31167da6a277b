//! A second transport and a second driver of streams, in memory: what a protocol with streams but without connection bytes needs of `downstream`.
//!
//! The proof that the seam of transports holds: whole exchanges run over it, through the loop of connections, the pool of exchanges and every phase, and
//! nothing above `downstream` knows of it. Time is virtual; servers speak HTTP/1 on Unix sockets.

pub(super) mod stream;
mod driver;
mod transport;
mod wire;
mod tests;
mod schedules;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use self::driver::MemoryDriver;
use self::transport::MemoryTransport;
use self::wire::Wire;
use super::ClientConnection;
use super::exchange_pool::ExchangePool;
use super::simulation::peer::OriginPeer;
use super::streams::StreamLoop;
use crate::exchange::simulation::worker;
use crate::net::clock::{self, Instant};
use crate::net::peer::Peer;
use crate::state::shared::AcceptedConnection;
use crate::state::worker::Worker;
use crate::state::worker_config::LocalListener;

/// Turns of the event loop without a byte at a server after which nothing more happens by itself.
const QUIET_TURNS: usize = 8;

/// A client connection without bytes.
type MemoryConnection = ClientConnection<MemoryTransport>;

impl MemoryConnection {
    /// Serves the connection to its end, as a worker would have it: the handshake is over when it is accepted.
    async fn run(mut self: Box<Self>) {
        self.enter().await;
        StreamLoop::<MemoryDriver>::run(self).await;
    }
}

/// A worker with a listener, and a server.
struct MemoryRig {
    worker: Rc<Worker>,
    listener: Rc<LocalListener>,
    pool: Rc<ExchangePool>,
    server: OriginPeer,
}

impl MemoryRig {
    /// With these lines for the listener.
    fn new(lines: &str) -> Self {
        clock::set(Some(Instant::test(Duration::from_secs(1_000))));
        let server = OriginPeer::listen();
        let text = format!(
            "[listener.web]
             address = \"127.0.0.1:0\"
             route = [{{ upstream = \"app\", upgrades = [\"websocket\"] }}]
             {lines}
             [upstream.app]
             servers = [\"unix:{}\"]
             timeouts = {{ response = \"3s\", tunnel = \"30s\" }}",
            server.path()
        );
        let config = weir_config::Config::parse(&text, "memory.toml").expect("the config is good");
        let worker = worker(&config, &[1], 1);
        let plan = Arc::clone(&worker.config.borrow().snapshot.listeners[0]);
        let listener = LocalListener::new(&plan, 0, 0, None);
        let pool = ExchangePool::new(&worker);
        Self { worker, listener, pool, server }
    }

    /// A client that has connected, and acknowledged how Weir begins; `None` when it is not served.
    fn connect(&self) -> Option<Rc<Wire>> {
        let wire = Rc::new(Wire::default());
        wire.acknowledge();
        self.accept(Rc::clone(&wire)).then_some(wire)
    }

    /// Whether a connection is served.
    fn accept(&self, carrier: Rc<Wire>) -> bool {
        let accepted = AcceptedConnection {
            listener: Arc::clone(&self.listener.state),
            carrier,
            peer: Peer::Inet(([192, 0, 2, 1], 5000).into()),
            port: Some(443),
        };
        assert!(self.worker.try_reserve(&self.listener.state), "there is room");
        self.worker.shared.loads[0].0.fetch_add(1, Ordering::Relaxed);
        MemoryConnection::start(&self.pool, Rc::clone(&self.listener), accepted, MemoryConnection::run)
    }

    /// Lets everything happen that needs no time.
    async fn settle(&mut self) {
        let mut quiet = 0;
        while quiet < QUIET_TURNS {
            tokio::task::yield_now().await;
            quiet = if self.server.turn() { 0 } else { quiet + 1 };
        }
    }

    /// Lets so much time pass, and everything happen that happens in it.
    async fn pass(&mut self, time: Duration) {
        self.settle().await;
        let end = clock::now() + time;
        while let Some(due) = self.worker.timers.next_due().filter(|due| *due <= end) {
            clock::set(Some(due.max(clock::now() + Duration::from_millis(1))));
            self.worker.timers.fire();
            self.settle().await;
        }
        clock::set(Some(end.max(clock::now())));
        self.worker.timers.fire();
        self.settle().await;
    }

    /// The process stops.
    fn stop(&self) {
        self.worker.shared.places.ends.store(true, Ordering::Relaxed);
        self.worker.shared.stopping.store(true, Ordering::Relaxed);
        self.worker.stopped_at.set(Some(clock::now()));
        self.worker.timers.wake_all();
    }

    /// Nothing is left of any connection, stream or exchange.
    fn check_idle(&self) {
        let shard = &self.listener.shard;
        assert_eq!((shard.connections_open.value(), shard.streams_open.value()), (0, 0));
        assert_eq!(self.worker.shard.connections_open.value(), 0);
        assert_eq!(self.worker.shard.exchanges_open.value(), 0);
        assert_eq!(self.worker.shard.tunnels_open.value(), 0);
        assert_eq!(self.worker.timers.len(), 0, "timers are left");
        let config = self.worker.config.borrow();
        let states = config.snapshot.upstreams[0].balancer().states();
        assert_eq!(states[0].in_flight(), 0, "slots are left taken");
    }
}

/// Runs a test on a worker of its own.
fn run<F: Future<Output = MemoryRig>>(lines: &str, test: impl FnOnce(MemoryRig) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let rig = test(MemoryRig::new(lines)).await;
        rig.check_idle();
    });
    clock::set(None);
}
