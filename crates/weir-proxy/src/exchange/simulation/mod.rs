//! Whole exchanges over streams in memory, in schedules drawn from a seed: no socket, no parser and no writer of a protocol, no clock.
//!
//! The second pair of protocols behind the seam of streams, and the fast test of everything above it: queue, attempts, retries,
//! relays, early answers, failures, tunnels. Each run draws clients, servers and the order in which everything happens from one
//! number, and checks what must hold in every order. What both sides have received is recorded, in the form of HTTP/1, and judged by `weir-wire`:
//! exactly the messages that were meant, each response with the id of its own request. A run that fails prints that number; `SIMULATION_SEED=n` repeats it, and
//! `SIMULATION_RUNS=n` tries so many new ones.

mod client;
mod fields;
mod judge;
mod pipe;
mod server;
mod scripted;
mod tunnel;
mod order;
mod planted;
mod world;

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use weir_config::{CheckedConfig, ListenerProtocol};
use weir_observe::{Failure, WorkerShard};

use self::client::{ClientWorld, MemoryClient, is_interim};
use self::judge::{MeantEnd, MeantReply, MeantRequest, MeantSource};
use self::server::{MemoryServers, Play, ServerWorld};
use self::world::{Event, World, body_bytes};
use super::exchange_state::client::Client;
use super::{End, Exchange, run};
use crate::net::clock::{self, Instant};
use crate::net::peer::Peer;
use crate::net::timing::deadline::Deadline;
use crate::state::budgets::memory_guard::MemoryGuard;
use crate::state::datagrams::DatagramRoutes;
use crate::state::servers::plan_inputs::PlanInputs;
use crate::state::shared::Shared;
use crate::state::snapshot::Snapshot;
use crate::state::tracing::recorder::ClientTransport;
use crate::state::worker::{Worker, WorkerSeed};
use crate::state::worker_config::LocalListener;

const CONFIG: &str = r#"
listener.web.address = "127.0.0.1:0"
listener.web.route = [
    { path = "/fixed", respond = { status = 200, body = "fixed" } },
    { path = "/away", redirect = { to = "https://elsewhere.test/" } },
    { path = "/one/", upstream = "one" },
    { path = "/many/", upstream = "many" },
]
[upstream.many]
protocol = "h2c"
servers = [
    { address = "10.0.0.1:80", max_requests = 2 },
    { address = "10.0.0.2:80", max_requests = 2 },
    { address = "10.0.0.3:80", max_requests = 2 },
]
retry = { attempts_max = 3, on_status = [503], budget_per_second = 1000, body_size = "8kB" }
timeouts = { connect = "1s", response = "2s", queue = "3s", tunnel = "4s" }
[upstream.one]
servers = [{ address = "10.0.1.1:80", max_requests = 1 }]
queue = { length_max = 3 }
timeouts = { connect = "1s", response = "2s", queue = "1s", tunnel = "4s" }
"#;

/// Servers of the largest upstream.
const SERVERS: usize = 3;
/// The most that one of its servers works on at once, by upstream.
const REQUESTS_MAX: [u32; 2] = [2, 1];
/// Exchanges of one run.
const CLIENTS: usize = 24;
/// In a run nothing may last longer.
const TIME_MAX: Duration = Duration::from_secs(120);

/// One exchange that is over.
struct Outcome {
    end: End,
    /// How the tunnel ended that it had become.
    tunnelled: Option<Result<(), Failure>>,
    failure: Option<Failure>,
    status: u16,
}

struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The connection of a client, which gives back its timer when it ends.
struct MemoryConnection(Client);

impl Drop for MemoryConnection {
    fn drop(&mut self) {
        self.0.deadline.leave();
    }
}

/// A task of the simulation: an exchange, and whether it is to be polled.
struct Task {
    work: Option<Pin<Box<dyn Future<Output = Outcome>>>>,
    flag: Arc<Flag>,
    waker: Waker,
    outcome: Option<Outcome>,
    /// Whether it is dropped when it is woken next.
    is_doomed: bool,
}

impl Task {
    fn new(work: impl Future<Output = Outcome> + 'static) -> Self {
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        Self {
            work: Some(Box::pin(work)),
            waker: Waker::from(Arc::clone(&flag)),
            flag,
            outcome: None,
            is_doomed: false,
        }
    }

    /// Ends it wherever it waits, as a panic or the stop of its worker would: at once, or when it was just woken and has not yet
    /// seen why.
    fn drop_work(&mut self, when_woken: bool) {
        self.is_doomed = when_woken;
        if !when_woken {
            self.work = None;
        }
    }

    fn is_over(&self) -> bool {
        self.work.is_none()
    }

    /// Polls it if it was woken; whether it was.
    fn poll(&mut self) -> bool {
        let Some(work) = self.work.as_mut().filter(|_| self.flag.0.swap(false, Ordering::Relaxed)) else {
            return false;
        };
        if self.is_doomed {
            self.work = None;
            return true;
        }
        if let Poll::Ready(outcome) = work.as_mut().poll(&mut Context::from_waker(&self.waker)) {
            (self.outcome, self.work) = (Some(outcome), None);
        }
        true
    }
}

/// The plans that all runs of a thread begin from.
fn config() -> CheckedConfig {
    CheckedConfig::parse(CONFIG, "simulation.toml")
}

/// A worker alone, for a config with one listener and so many servers of each upstream.
pub(crate) fn worker(config: &weir_config::Config, servers: &[usize], seed: u64) -> Rc<Worker> {
    let inputs = PlanInputs {
        via_name: "weir".into(),
        seed,
        workers: 1,
        due_upstreams: Arc::default(),
        issuers: Arc::default(),
    };
    let snapshot = Arc::new(Snapshot::new(config, &inputs).expect("it has no TLS"));
    let shared = Arc::new(Shared {
        memory: MemoryGuard::default(),
        buffers_max: snapshot.process.buffers_max,
        loads: Box::new([crate::state::shared::Load::default()]),
        hand_over: Box::new([]),
        datagrams: DatagramRoutes::new(1, &[], Vec::new()).expect("there are random numbers").0,
        room_requests: Box::new([]),
        connections: weir_traffic::limit::ConnectionCount::new(u32::MAX),
        passwords: Arc::default(),
        places: Default::default(),
        node_hand_over: Default::default(),
        stop_announced: AtomicBool::new(false),
        stopping: AtomicBool::new(false),
        replaced: AtomicBool::new(false),
        closed: std::sync::atomic::AtomicUsize::new(0),
    });
    let worker = Worker::new(&WorkerSeed {
        index: 0,
        shared: &shared,
        shard: &Arc::new(WorkerShard::new(weir_observe::ShardSizes { listeners: 1, servers })),
        snapshot: &snapshot,
        recorder: &config.recorder,
        random_seed: seed,
        crash: &Rc::default(),
    });
    Rc::new(worker.expect("there are descriptors"))
}

fn client(worker: &Rc<Worker>, number: usize) -> Client {
    let plan = Arc::clone(&worker.config.borrow().snapshot.listeners[0]);
    Client {
        worker: Rc::clone(worker),
        listener: LocalListener::new(&plan, 0, 0, None),
        is_tls: false,
        transport: ClientTransport::Tcp,
        protocol: ListenerProtocol::Http,
        peer: Peer::Inet(([192, 0, 2, number as u8], 5000).into()),
        origin: None,
        pinned: Default::default(),
        local_port: None,
        deadline: Deadline::new(&worker.timers),
        now: clock::now(),
        requests: 0,
        number: number as u64,
        answered_query: worker.connection_list.query_number(),
        opened_at: clock::now(),
        gives_place: Default::default(),
    }
}

/// What a client asks for.
fn draw_client(seed: u64, number: usize) -> ClientWorld {
    let world = World::new(seed ^ (number as u64) << 32, Vec::new(), 0);
    let path =
        ["/many/a", "/many/b", "/many/c", "/one/a", "/one/b", "/fixed", "/away", "/none"][world.below(8)];
    if world.below(4) == 0 {
        return ClientWorld::new(number, tunnel_head(path, number), Vec::new());
    }
    let method = ["GET", "GET", "GET", "HEAD", "PUT", "POST", "POST"][world.below(7)];
    let has_body = matches!(method, "PUT" | "POST");
    let len = if has_body { [0, 1, 500, 3_000, 30_000][world.below(5)] } else { 0 };
    let framing = match len {
        0 => String::new(),
        len if world.below(3) > 0 => format!("Content-Length: {len}\r\n"),
        _ => "Transfer-Encoding: chunked\r\n".to_owned(),
    };
    let head = format!("{method} {path} HTTP/1.1\r\nHost: a.test\r\nX-Id: {number}\r\n{framing}\r\n");
    ClientWorld::new(number, head, body_bytes(len, number))
}

/// The head of a request for another protocol.
fn tunnel_head(path: &str, number: usize) -> String {
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket";
    format!("GET {path} HTTP/1.1\r\nHost: a.test\r\nX-Id: {number}\r\n{upgrade}\r\n\r\n")
}

/// Exchanges that are over.
struct Finished {
    world: Rc<World>,
    /// One that was dropped has no outcome.
    outcomes: Vec<Option<Outcome>>,
}

/// Runs the exchanges of one seed to their end, and checks them. Gives a digest of all that has happened.
fn simulate(config: &weir_config::Config, seed: u64) -> u64 {
    let Finished { world, outcomes } = &finish(config, seed);
    let mut digest = 0_u64;
    for (number, client) in world.clients.iter().enumerate() {
        let outcome = outcomes[number].as_ref();
        if let Err(fault) = judge::reply(&client.reply.got.borrow(), &meant_reply(world, number, outcome)) {
            panic!("what client {number} has received: {fault}");
        }
        let Some(outcome) = outcome else { continue };
        check(world, number, outcome);
        let got = (client.reply.got.borrow().len() + client.tunnel.stream.got().len()) as u64;
        digest = digest.rotate_left(7) ^ got ^ u64::from(outcome.status) << 32;
    }
    for attempts in by_connection(world).values() {
        let (record, meant) = (record_of(attempts), meant_requests(world, attempts));
        if let Err(fault) = judge::requests(&record, &meant) {
            panic!("what server {} has received on a connection: {fault}", attempts[0].server);
        }
    }
    digest ^ world.attempts.borrow().len() as u64
}

/// The attempts on each connection to a server, in their order.
fn by_connection(world: &World) -> BTreeMap<usize, Vec<Rc<ServerWorld>>> {
    let mut connections = BTreeMap::<_, Vec<_>>::new();
    for attempt in world.attempts.borrow().iter() {
        connections.entry(attempt.connection).or_default().push(Rc::clone(attempt));
    }
    connections
}

/// All that a server has received on a connection.
fn record_of(attempts: &[Rc<ServerWorld>]) -> Vec<u8> {
    attempts.iter().map(|attempt| attempt.request.got.borrow().clone()).collect::<Vec<_>>().concat()
}

/// What a server has to have received on a connection.
fn meant_requests<'a>(world: &'a World, attempts: &[Rc<ServerWorld>]) -> Vec<MeantRequest<'a>> {
    let meant = |attempt: &Rc<ServerWorld>| {
        let client = &world.clients[attempt.client];
        let (method, target) = client.method_and_target();
        let (id, is_whole) = (client.id.to_string(), attempt.request.is_ended());
        MeantRequest { id, method, target, body: &client.body.bytes, is_whole }
    };
    attempts.iter().map(meant).collect()
}

/// What a client has to have received.
fn meant_reply<'a>(world: &'a World, number: usize, outcome: Option<&Outcome>) -> MeantReply<'a> {
    let client = &world.clients[number];
    let (method, target) = client.method_and_target();
    let of_server = world.last_attempt(number).map(|attempt| attempt.body.bytes.clone()).unwrap_or_default();
    let (end, source) = match outcome {
        Some(Outcome { tunnelled: Some(_), .. }) => (MeantEnd::Whole, MeantSource::Server(of_server)),
        Some(Outcome { end: End::Done, failure: None, .. }) => match target {
            "/fixed" => (MeantEnd::Whole, MeantSource::Weir(Some(b"fixed"))),
            target if is_relayed(target) => (MeantEnd::Whole, MeantSource::Server(of_server)),
            _ => (MeantEnd::Whole, MeantSource::Weir(None)),
        },
        Some(Outcome { end: End::Done, .. }) => (MeantEnd::Whole, MeantSource::Weir(None)),
        Some(Outcome { end: End::CutShort, .. }) => (MeantEnd::Cut, MeantSource::Server(of_server)),
        _ => (MeantEnd::Any, MeantSource::Any(of_server)),
    };
    let statuses = client.statuses.borrow().clone();
    MeantReply { id: client.id.to_string(), method, statuses, end, source }
}

/// Whether requests for this target go to servers.
fn is_relayed(target: &str) -> bool {
    target.starts_with("/many/") || target.starts_with("/one/")
}

/// Runs the exchanges of one seed to their end. What must hold while they run and of what they leave is checked.
fn finish(config: &weir_config::Config, seed: u64) -> Finished {
    clock::set(Some(Instant::test(Duration::from_secs(1_000))));
    let worker = worker(config, &[SERVERS, 1], seed);
    let clients: Vec<Rc<ClientWorld>> =
        (0..CLIENTS).map(|number| Rc::new(draw_client(seed, number))).collect();
    let world = World::new(seed, clients, SERVERS);
    let mut tasks: Vec<Task> = (0..CLIENTS).map(|number| begin(&worker, &world, number)).collect();
    let end = clock::now() + TIME_MAX;
    loop {
        while tasks.iter_mut().fold(false, |any, task| task.poll() | any) {
            check_load(&worker);
        }
        for (task, client) in tasks.iter().zip(&world.clients) {
            if task.is_over() {
                client.end();
            }
        }
        if tasks.iter().all(Task::is_over) {
            break;
        }
        for (number, when_woken) in world.dropped.take() {
            tasks[number].drop_work(when_woken);
        }
        let next = [world.next_at(), worker.timers.next_due()].into_iter().flatten().min();
        let next = next.expect("an exchange waits for nothing: its waker is lost");
        clock::set(Some(next.max(clock::now())));
        assert!(clock::now() < end, "an exchange does not end");
        worker.timers.fire();
        if world.next_at().is_some_and(|at| at <= clock::now()) {
            world.step();
        }
    }
    check_idle(&worker);
    check_counters(&worker, &world);
    clock::set(None);
    Finished { world, outcomes: tasks.into_iter().map(|task| task.outcome).collect() }
}

/// The exchange of a client, and what happens to it whatever becomes of it.
fn begin(worker: &Rc<Worker>, world: &Rc<World>, number: usize) -> Task {
    let start = world.below(30_000);
    world.after(start, Event::ClientSends(number));
    world.after(start, Event::ClientReads(number));
    if world.below(8) == 0 {
        world.after(start + world.below(60_000), Event::ClientLeaves(number));
    }
    if world.below(16) == 0 {
        world.after(start + world.below(60_000), Event::TaskDropped(number, world.below(2) == 0));
    }
    exchange_task(worker, world, number)
}

/// The exchange of a client, and the tunnel that it may become.
fn exchange_task(worker: &Rc<Worker>, world: &Rc<World>, number: usize) -> Task {
    let mut connection = MemoryConnection(client(worker, number));
    let mut stream = MemoryClient::new(&world.clients[number]);
    let mut servers = MemoryServers { world: Rc::clone(world), client: number };
    let world = Rc::clone(world);
    Task::new(async move {
        poll_fn(|cx| {
            connection.0.deadline.enter(cx);
            Poll::Ready(())
        })
        .await;
        let mut exchange = Exchange::new();
        let end = run(&mut connection.0, &mut stream, &mut servers, &mut exchange).await;
        let End::Tunnel(tunnel) = end else {
            let (failure, status) = (exchange.record.failure, exchange.record.status);
            return Outcome { end, tunnelled: None, failure, status };
        };
        world.begin_tunnel(number);
        let outcome = tunnel::run(&mut connection, &world.clients[number], tunnel).await;
        Outcome { end: End::Closed, tunnelled: Some(outcome), failure: outcome.err(), status: 101 }
    })
}

/// No server works on more than it may.
fn check_load(worker: &Worker) {
    let config = worker.config.borrow();
    for upstream in &config.snapshot.upstreams {
        let max = if &*upstream.config.name == "many" { REQUESTS_MAX[0] } else { REQUESTS_MAX[1] };
        for state in upstream.balancer().states() {
            assert!(state.in_flight() <= max, "{} on a server that may have {max}", state.in_flight());
        }
    }
}

/// When all is over, every slot and every place in a queue is free again.
fn check_idle(worker: &Worker) {
    let config = worker.config.borrow();
    for (index, upstream) in config.snapshot.upstreams.iter().enumerate() {
        let in_flight: u32 = upstream.balancer().states().iter().map(|state| state.in_flight()).sum();
        assert_eq!(in_flight, 0, "slots of `{}` are left taken", upstream.config.name);
        assert_eq!(
            config.upstream_shard(index).queue_length.value(),
            0,
            "places in the queue are left taken"
        );
    }
    assert_eq!(worker.timers.len(), 0, "timers are left");
    assert_eq!(worker.shard.tunnels_open.value(), 0, "tunnels count as open");
}

/// No server is credited with more than it has sent.
fn check_counters(worker: &Worker, world: &World) {
    let config = worker.config.borrow();
    let attempts = world.attempts.borrow();
    for (index, upstream) in config.snapshot.upstreams.iter().enumerate() {
        let path = format!("/{}/", upstream.config.name);
        for server in 0..upstream.config.servers.len() {
            let of_server = attempts.iter().filter(|attempt| {
                attempt.server == server && world.clients[attempt.client].head.contains(&path)
            });
            let sent: usize =
                of_server.map(|attempt| attempt.body.bytes.len() + attempt.tunnel.stream.sent().len()).sum();
            let counted = config.server(index, server).shard.bytes_in.value();
            assert!(counted <= sent as u64, "{counted} bytes of {path}{server}, which has sent {sent}");
        }
    }
}

/// What must hold of an exchange, however it went.
fn check(world: &World, number: usize, outcome: &Outcome) {
    let client = &world.clients[number];
    let statuses = client.statuses.borrow();
    let attempts = world.attempts.borrow();
    let attempts: Vec<_> = attempts.iter().filter(|attempt| attempt.client == number).collect();
    let finals = statuses.iter().filter(|status| !is_interim(**status)).count();
    assert!(finals <= 1, "{statuses:?}");
    let label = format!(
        "client {number} {} {:?} {statuses:?}",
        client.head.lines().next().unwrap_or(""),
        outcome.failure
    );
    if let Some(tunnelled) = outcome.tunnelled {
        return tunnel::check(world, number, tunnelled);
    }
    match &outcome.end {
        End::Done => {
            assert_eq!(statuses.last(), Some(&outcome.status), "{label}");
            if outcome.failure.is_none() && is_relayed(client.method_and_target().1) {
                let last = attempts.last().expect("a server has answered");
                assert_eq!(outcome.status, last.status, "{label}");
                assert!(
                    last.play != Play::CutBody || last.body.bytes.len() < 2,
                    "{label}: a cut body passed for whole"
                );
                assert!(
                    last.play != Play::Answer || last.request.is_ended(),
                    "{label}: an answer to a request that has not come whole"
                );
            }
        }
        End::CutShort => assert!(!attempts.is_empty(), "{label}: no server has begun to answer"),
        End::Aborted | End::Closed => {
            assert!(client.is_gone(), "{label}: nothing was said to a client that is there");
        }
        End::Tunnel(_) => unreachable!("it was run to its end"),
    }
    for (at, earlier) in attempts.iter().enumerate() {
        // A server that has broken the connection, or has not taken the request, may have it again; one that has answered, or was silent,
        // never.
        let is_unprocessed = earlier.play.unprocessed().is_some();
        let answers = !matches!(earlier.play, Play::Close | Play::Garbage) && !is_unprocessed;
        let again = attempts[at + 1..].iter().any(|later| later.server == earlier.server);
        assert!(!(answers && again), "{label}: sent again to server {}", earlier.server);
    }
    let unprocessed = attempts.iter().filter(|attempt| attempt.play.unprocessed().is_some()).count();
    assert!(unprocessed <= 6, "{label}: left alone {unprocessed} times, and sent again each time");
    if client.head.starts_with("POST") {
        // What may have had an effect is never sent twice, unless a kept connection was dead.
        let reached = attempts.iter().filter(|attempt| attempt.id().is_some());
        let acts = |play: Play| play != Play::Close && play.unprocessed().is_none();
        let acted = reached.filter(|attempt| acts(attempt.play)).count();
        assert!(acted <= 1, "{label}: sent to {acted} servers");
    }
}

/// Runs `count` seeds from `first` on.
fn simulate_many(first: u64, count: u64) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let _in_runtime = runtime.enter();
    let config = config().into_result().expect("the config is good");
    for seed in first..first + count {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| simulate(&config, seed)));
        assert!(outcome.is_ok(), "SIMULATION_SEED={seed} repeats this");
    }
}

/// A number from the environment, for runs by hand.
fn number_in(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{variable} has to be a number, not `{text}`")))
}

#[test]
fn every_schedule_keeps_the_rules() {
    if let Some(seed) = number_in("SIMULATION_SEED") {
        return simulate_many(seed, 1);
    }
    // Always the same seeds, so that a change can be blamed for a failure; others on demand.
    let (first, count) = match number_in("SIMULATION_RUNS") {
        Some(count) => (u64::from(std::process::id()) << 32, count),
        None => (1, 1_000),
    };
    let began = clock::now();
    simulate_many(first, count);
    let seconds = (clock::now() - began).as_secs_f64();
    println!(
        "seeds from {first}: {count} runs, {:.0} exchanges a second",
        (count * CLIENTS as u64) as f64 / seconds
    );
}

#[test]
fn a_seed_repeats_its_run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let _in_runtime = runtime.enter();
    let config = config().into_result().expect("the config is good");
    for seed in 1..20 {
        assert_eq!(simulate(&config, seed), simulate(&config, seed), "{seed}");
    }
}
