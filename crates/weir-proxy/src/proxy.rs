//! The running proxy: starts the workers, the control thread and the one that probes, stops them, and answers for
//! their figures.

use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use weir_config::{Config, WorkerCount};
use weir_observe::{CertificateFigures, Figures, Names, ShardSizes, UpstreamNames, WorkerShard};
use weir_traffic::ejection::Grounds;
use weir_traffic::limit::{ClientLimit, ConnectionLimit};
use weir_traffic::{Health, ServerId};

use crate::clock;
use crate::control::access_log::AccessLogs;
use crate::control::health::CheckThread;
use crate::control::modes::Modes;
use crate::control::{admin, certificates, ejection, names, trust};
use crate::cpus;
use crate::downstream::listener::{self, BoundAddress};
use crate::snapshot::{Snapshot, TlsError, UpstreamPlan};
use crate::worker::{self, Accepted, Listening, Load, Shared, WorkerStart};

/// Client addresses that are counted at most, for each listener that limits connections per client.
const CLIENTS_MAX: usize = 1 << 20;

/// How much longer than one DNS answer may take the start waits for names.
const NAMES_GRACE: Duration = Duration::from_millis(500);

/// Why the proxy did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// An address cannot be bound.
    #[error("listener `{listener}` cannot use {address}: {error}")]
    Bind {
        /// The listener in the config.
        listener: Box<str>,
        /// The address as the config has it.
        address: String,
        /// What the system said.
        error: io::Error,
    },
    /// The admin address cannot be bound.
    #[error("the admin listener cannot use {address}: {error}")]
    BindAdmin {
        /// The address as the config has it.
        address: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// TLS of a listener cannot be made ready.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The access log cannot be opened.
    #[error("{0}")]
    AccessLog(io::Error),
    /// The system refuses threads, event queues or random numbers.
    #[error("a worker cannot be started: {0}")]
    Worker(#[from] io::Error),
}

/// An address in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listened {
    /// The listener in the config; `admin` for the admin listener.
    pub listener: Box<str>,
    /// The address, with the port that the system chose where the config left it open.
    pub address: BoundAddress,
}

/// How the stop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stopped {
    /// Sessions that were cut because their time was up.
    pub sessions_cut: u64,
}

/// A running proxy. Dropping it stops it at once.
pub struct Proxy {
    shared: Arc<Shared>,
    shards: Vec<Arc<WorkerShard>>,
    names: Names,
    listened: Vec<Listened>,
    workers: Vec<JoinHandle<io::Result<()>>>,
    stop_workers: Vec<Arc<Notify>>,
    control: Option<JoinHandle<()>>,
    stop_control: Arc<Notify>,
    checks: Option<CheckThread>,
    logs: Option<AccessLogs>,
}

impl Proxy {
    /// Binds every address of `config` and starts the workers.
    ///
    /// # Errors
    /// When an address, a log or a thread cannot be had; nothing runs then.
    pub fn start(config: &Config) -> Result<Self, StartError> {
        raise_open_files();
        let worker_count = match config.process.workers {
            WorkerCount::Exactly(count) => count.get(),
            WorkerCount::Auto => cpus::usable().len().min(cpus::quota()).max(1),
        };
        let seed = random_seed()?;
        let via_name = match &config.process.name {
            Some(name) => name.to_string(),
            None => format!("weir-{:08x}", seed as u32),
        };
        let snapshot = Arc::new(Snapshot::new(config, &via_name, seed)?);
        let (mut listened, mut listening) = bind_all(config, worker_count)?;
        let logs = AccessLogs::open(config).map_err(StartError::AccessLog)?;

        let (senders, inboxes): (Vec<_>, Vec<_>) = (0..worker_count).map(|_| unbounded_channel()).unzip();
        let shared = Arc::new(share(config, &snapshot, senders, seed));
        let servers: Vec<usize> = config.upstreams.iter().map(|upstream| upstream.servers.len()).collect();
        let sizes = ShardSizes { listeners: config.listeners.len(), servers: &servers };
        let shards: Vec<_> = (0..worker_count).map(|_| Arc::new(WorkerShard::new(sizes))).collect();

        let mut proxy = Self {
            names: names_of(config),
            shared,
            shards,
            listened: Vec::new(),
            workers: Vec::new(),
            stop_workers: Vec::new(),
            control: None,
            stop_control: Arc::new(Notify::new()),
            checks: None,
            logs: Some(logs),
        };
        let cpus = if config.process.pin_workers { cpus::usable() } else { Vec::new() };
        for (index, handed_over) in inboxes.into_iter().enumerate() {
            let stop = Arc::new(Notify::new());
            let start = WorkerStart {
                index,
                shared: Arc::clone(&proxy.shared),
                shard: Arc::clone(&proxy.shards[index]),
                listening: std::mem::take(&mut listening[index]),
                handed_over,
                stop: Arc::clone(&stop),
                logs: proxy
                    .logs
                    .as_ref()
                    .map(|logs| logs.for_worker(&proxy.shards[index]))
                    .unwrap_or_default(),
                random_seed: seed.rotate_left(index as u32).wrapping_mul(0x9e37_79b9_7f4a_7c15),
            };
            let cpu = (!cpus.is_empty()).then(|| cpus[index % cpus.len()]);
            proxy.stop_workers.push(stop);
            proxy.workers.push(std::thread::Builder::new().name(format!("weir-worker-{index}")).spawn(
                move || {
                    if let Some(cpu) = cpu {
                        cpus::pin(cpu);
                    }
                    worker::run(start)
                },
            )?);
        }
        if let Some(admin) = proxy.start_control(config, &snapshot, seed)? {
            listened.push(admin);
        }
        proxy.listened = listened;
        Ok(proxy)
    }

    /// Starts the threads that resolve names, judge servers and serve figures, and that probe servers.
    fn start_control(
        &mut self,
        config: &Config,
        snapshot: &Arc<Snapshot>,
        seed: u64,
    ) -> Result<Option<Listened>, StartError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut listened = None;
        if let Some(address) = config.admin.address {
            let (listener, bound) =
                admin::bind(address).map_err(|error| StartError::BindAdmin { address, error })?;
            listened = Some(Listened { listener: "admin".into(), address: BoundAddress::Inet(bound) });
            let (shards, names) = (self.shards.clone(), self.names.clone());
            let snapshot = Arc::clone(snapshot);
            let modes = Modes::new(&snapshot);
            let metrics = Box::new(move || {
                let mut text = String::new();
                weir_observe::prometheus::render(&collect(&names, &shards, &snapshot), &mut text);
                text
            });
            let served = admin::Served { metrics, modes, changes: config.admin.changes };
            runtime.spawn(admin::serve(listener, Arc::new(served)));
        }
        let (asked, all_asked) = channel();
        runtime.spawn(names::keep_resolved(Arc::clone(snapshot), asked));
        runtime.spawn(certificates::keep_current(Arc::clone(snapshot)));
        runtime.spawn(trust::keep_current(Arc::clone(snapshot)));
        runtime.spawn(ejection::keep_judged(Arc::clone(snapshot), self.shards.clone()));
        let stop = Arc::clone(&self.stop_control);
        let control = std::thread::Builder::new().name("weir-control".into());
        self.control = Some(control.spawn(move || runtime.block_on(stop.notified()))?);
        // Ends when every name has had its first answer, or with patience: a name may also come up later.
        let _timed_out = all_asked.recv_timeout(config.dns.timeout + NAMES_GRACE);
        // Only now: a server whose name has not been asked for yet is not dead.
        self.checks = CheckThread::start(Arc::clone(snapshot), seed)?;
        Ok(listened)
    }

    /// The addresses in use, in the order of the config.
    pub fn listened(&self) -> &[Listened] {
        &self.listened
    }

    /// How many workers run.
    pub fn worker_count(&self) -> usize {
        self.shards.len()
    }

    /// The sum of what all workers have counted.
    pub fn figures(&self) -> Figures {
        collect(&self.names, &self.shards, &self.shared.snapshot)
    }

    /// Client connections that are open.
    pub fn sessions_open(&self) -> u64 {
        let open = self.shards.iter().map(|shard| shard.sessions_open.value()).sum::<i64>();
        u64::try_from(open).unwrap_or(0)
    }

    /// Opens the files of the access log again.
    pub fn reopen_logs(&self) {
        if let Some(logs) = &self.logs {
            logs.reopen();
        }
    }

    /// Stops accepting and lets idle sessions end; running exchanges go on.
    pub fn begin_stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        for stop in &self.stop_workers {
            stop.notify_one();
        }
    }

    /// Whether every session has ended after [`Proxy::begin_stop`].
    pub fn is_drained(&self) -> bool {
        self.workers.iter().all(JoinHandle::is_finished)
    }

    /// Stops: waits up to `grace` for running exchanges, or until `hurry` says that there is no more time.
    pub fn stop(mut self, grace: Duration, mut hurry: impl FnMut() -> bool) -> Stopped {
        self.begin_stop();
        let end: Instant = clock::now() + grace;
        while !self.is_drained() && clock::now() < end && !hurry() {
            clock::pause(Duration::from_millis(5));
        }
        let sessions_cut = if self.is_drained() { 0 } else { self.sessions_open() };
        self.stop_control.notify_one();
        self.checks = None;
        if self.is_drained() {
            for worker in self.workers.drain(..) {
                let _panicked = worker.join();
            }
            if let Some(control) = self.control.take() {
                let _panicked = control.join();
            }
            // Nobody writes any more, so the writers can finish.
            if let Some(logs) = self.logs.take() {
                logs.close();
            }
        }
        Stopped { sessions_cut }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.begin_stop();
        self.stop_control.notify_one();
        for listened in &self.listened {
            if let BoundAddress::Unix(path) = &listened.address {
                let _gone_already = std::fs::remove_file(path);
            }
        }
    }
}

type AllBound = (Vec<Listened>, Vec<Vec<Listening>>);

/// What the workers share, made for as many as `hand_over` reaches.
fn share(
    config: &Config,
    snapshot: &Arc<Snapshot>,
    hand_over: Vec<UnboundedSender<Accepted>>,
    seed: u64,
) -> Shared {
    Shared {
        snapshot: Arc::clone(snapshot),
        loads: hand_over.iter().map(|_| Load::default()).collect(),
        hand_over: hand_over.into(),
        connections: ConnectionLimit::new(config.process.connections_max.resolve(open_files_max())),
        listener_connections: config
            .listeners
            .iter()
            .map(|listener| ConnectionLimit::new(listener.connections_max.unwrap_or(u32::MAX)))
            .collect(),
        clients: config
            .listeners
            .iter()
            .map(|listener| {
                listener.connections_per_client_max.map(|max| ClientLimit::new(max, CLIENTS_MAX, seed))
            })
            .collect(),
        stopping: AtomicBool::new(false),
    }
}

/// Binds everything; gives the addresses, and to each worker its sockets.
fn bind_all(config: &Config, workers: usize) -> Result<AllBound, StartError> {
    let mut listened = Vec::new();
    let mut listening: Vec<Vec<Listening>> = (0..workers).map(|_| Vec::new()).collect();
    for (index, listener) in config.listeners.iter().enumerate() {
        for address in &listener.addresses {
            let bound = listener::bind(listener, address, workers).map_err(|error| StartError::Bind {
                listener: listener.name.clone(),
                address: address.to_string(),
                error,
            })?;
            let port = match &bound.address {
                BoundAddress::Inet(addr) => Some(addr.port()),
                BoundAddress::Unix(_) => None,
            };
            for (worker, socket) in bound.sockets.into_iter().enumerate() {
                listening[worker].push(Listening { listener: index, port, socket });
            }
            listened.push(Listened { listener: listener.name.clone(), address: bound.address });
        }
    }
    Ok((listened, listening))
}

/// What the workers have counted, and what the health checks and the traffic say of the servers.
fn collect(names: &Names, shards: &[Arc<WorkerShard>], snapshot: &Snapshot) -> Figures {
    let mut figures = Figures::collect(names, shards.iter().map(|shard| &**shard));
    for (index, tls) in snapshot.listeners.iter().map(|listener| &listener.tls).enumerate() {
        let Some(tls) = tls else { continue };
        let in_use = tls.certificates.in_use();
        let in_use = in_use.iter().map(|shown| &shown.certificate).map(|certificate| CertificateFigures {
            file: certificate.files.certificate.display().to_string(),
            expiry_seconds: certificates::seconds(certificate.not_after),
        });
        figures.note_certificates(index, in_use.collect(), tls.certificates.reloads());
        if let Some(lists) = tls.trusted().and_then(|trusted| trusted.revocations.clone()) {
            let (file, expiry_seconds) =
                (lists.file.display().to_string(), certificates::seconds(lists.next_update));
            figures.note_revocations(index, CertificateFigures { file, expiry_seconds });
        }
    }
    for (upstream, plan) in snapshot.upstreams.iter().enumerate() {
        for (server, (state, probes)) in plan.balancer().states().iter().zip(&plan.probes).enumerate() {
            figures.note_mode(upstream, server, state.mode().name());
            figures.note_health(upstream, server, state.health() == Health::Up, probes.as_deref());
        }
        note_ejections(&mut figures, upstream, plan);
    }
    figures
}

fn note_ejections(figures: &mut Figures, upstream: usize, plan: &UpstreamPlan) {
    let book = plan.ejector.lock();
    figures.note_panic(upstream, book.is_in_panic());
    for (server, state) in plan.balancer().states().iter().enumerate() {
        let counts = book.ejections(ServerId(server as u32));
        let may_be = plan.config.ejection.is_some() && plan.config.servers[server].ejection;
        let ejections = Grounds::NAMES.into_iter().zip(counts).filter(|_| may_be);
        figures.note_ejection(upstream, server, state.is_ejected(), ejections);
    }
}

fn names_of(config: &Config) -> Names {
    Names {
        listeners: config.listeners.iter().map(|listener| listener.name.to_string()).collect(),
        upstreams: config
            .upstreams
            .iter()
            .map(|upstream| UpstreamNames {
                name: upstream.name.to_string(),
                servers: upstream.servers.iter().map(|server| server.name.to_string()).collect(),
            })
            .collect(),
    }
}

/// Raises the soft limit on open files to the hard one: nobody means the soft default of 1 024 for a proxy.
fn raise_open_files() {
    let resource = rustix::process::Resource::Nofile;
    let mut limit = rustix::process::getrlimit(resource);
    limit.current = limit.maximum;
    if let Err(error) = rustix::process::setrlimit(resource, limit) {
        tracing::warn!(%error, "the limit on open files cannot be raised");
    }
}

fn open_files_max() -> u64 {
    rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX)
}

fn random_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(u64::from_ne_bytes(bytes))
}

/// The number of workers that [`WorkerCount::Auto`] stands for on this machine.
pub fn workers_by_default() -> NonZeroUsize {
    NonZeroUsize::new(cpus::usable().len().min(cpus::quota())).unwrap_or(NonZeroUsize::MIN)
}
