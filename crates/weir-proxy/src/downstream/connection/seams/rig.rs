//! A worker between servers and clients in memory, on which one case runs behind the other; time stands still unless a case needs some.

use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tempfile::TempDir;
use tokio::sync::oneshot;

use super::client::{Ask, Client, Got, Reading, Speech};
use super::server::{self, Plan, Server};
use super::tls::{TlsFiles, TlsSides};
use super::wire::Pipe;
use crate::downstream::connection::bytes::ByteConnection;
use crate::downstream::connection::exchange_pool::ExchangePool;
use crate::exchange::features::authentication::key_fetch;
use crate::exchange::simulation::worker;
use crate::net::clock::{self, Instant};
use crate::net::peer::Peer;
use crate::state::routes::access::{KeyDocument, KeyFetch, KeyFetchError};
use crate::state::shared::AcceptedConnection;
use crate::state::snapshot::UpstreamPlan;
use crate::state::worker::Worker;
use crate::state::worker_config::LocalListener;
use crate::upstream::pooled::PooledServers;

/// Turns of the event loop without a byte after which nothing more happens by itself.
const QUIET_TURNS: usize = 3;

/// What was read from a file may be worth another file: so often nothing has to come of that before a case hangs.
const QUIET_ROUNDS: usize = 12;

/// No case takes so many packets and turns.
const STEPS_MAX: usize = 10_000;

const PAGE_FILE: &str = "page.html";

/// The page that stands for a failure of a server.
pub(super) const PAGE: &str = "a page of Weir";

/// Bytes that Weir has for a client in the kernel at most, about: a client that reads slowly is noticed.
const UNREAD_BYTES: usize = 8 * 1024;

/// Lengths of the fixed answers.
pub(super) const FIXED_LENS: [usize; 4] = [0, 5, 20_000, 300_000];

fn config(
    speech: server::Speech,
    tls: TlsSides,
    servers: &[String; 2],
    folder: &Path,
) -> weir_config::Config {
    let name = |name: &str| folder.join(name).to_str().expect("it has a plain name").to_owned();
    let (page, files, stored) = (name(PAGE_FILE), name("files"), name("stored"));
    let script = if speech == server::Speech::Fastcgi { ", fastcgi = { script = \"\" }" } else { "" };
    let routes = [
        "path = \"/relay\"",
        "path = \"/store\", cache = { name = \"pages\" }",
        "path = \"/buffer\", buffer_responses = {}",
        "path = \"/spill\", buffer_responses = { memory = \"1KiB\", file = \"4MiB\" }",
        "path = \"/pace\", limited_by = \"slow\"",
        "path = \"/compress\", compression = { min_length = \"1B\" }",
        "path = \"/mirror\", mirror = { upstream = \"copies\", methods = [\"GET\", \"POST\"], body_max = \"1MiB\" }",
        "path = \"/mirror-gathered\", mirror = { upstream = \"copies\", methods = [\"POST\"], body_max = \"1MiB\" }, \
         buffer_requests = { memory = \"1KiB\", file = \"4MiB\" }",
        &format!(
            "path = \"/page\", error_pages = [{{ status = 503, html = \"{page}\", of_servers = true }}]"
        ),
        "path = \"/remote-page\", error_pages = [{ status = 503, upstream = \"app\", of_servers = true, ttl = \"0s\", body_size = \"1MiB\" }]",
        "path = \"/auth\", forward_auth = { upstream = \"app\", body_size = \"1MiB\" }",
        "path = \"/token\", jwt.remote_keys.upstream = \"app\"",
        "path = \"/filed\", cache = { name = \"filed\" }",
        "path = \"/web\", grpc_web = true",
        "path = \"/gather\", buffer_requests = {}",
        "path = \"/gather-in-file\", buffer_requests = { memory = \"1KiB\", file = \"4MiB\" }",
    ];
    // Calls of gRPC are a matter of HTTP/2; what Weir asks by itself is no script.
    let is_own = |route: &str| ["remote-page", "auth", "token"].iter().any(|own| route.contains(own));
    let is_possible = |route: &&&str| match speech {
        server::Speech::Http2 => true,
        server::Speech::Fastcgi => !route.contains("grpc_web") && !is_own(route),
        _ => !route.contains("grpc_web"),
    };
    let routes: Vec<String> = routes
        .iter()
        .filter(is_possible)
        .map(|route| format!("{{ {route}, upstream = \"app\"{script} }}"))
        .collect();
    let fixed: Vec<String> = FIXED_LENS
        .iter()
        .map(|len| {
            let body = fixed_body(*len);
            format!("{{ path = \"/fixed-{len}\", respond = {{ status = 200, body = \"{body}\" }} }}")
        })
        .collect();
    let listener = match tls.clients {
        true => TlsFiles::listener(folder),
        false => "listener.web.http2.prior_knowledge = \"allowed\"".to_owned(),
    };
    let tls_of_servers = if tls.servers { TlsFiles::upstream(folder) } else { String::new() };
    let text = format!(
        "listener.web.address = \"127.0.0.1:0\"
         {listener}
         listener.web.route = [
             {},
             {{ path = \"/again\", upstream = \"again\"{script} }},
             {{ path = \"/files\", strip_prefix = true, files = {{ root = \"{files}\" }} }},
             {},
         ]
         cache.pages.memory = \"64MiB\"
         cache.filed = {{ memory = \"64MiB\", disk = {{ folder = \"{stored}\" }} }}
         limit.slow = {{ bandwidth = \"200kB/s\", bandwidth_burst = \"4kB\" }}
         [upstream.app]
         servers = [\"unix:{app}\"]
         protocol = \"{protocol}\"
         ejection = \"off\"
         retry.attempts_max = 1
         {tls_of_servers}
         [upstream.again]
         servers = [\"unix:{app}\"]
         protocol = \"{protocol}\"
         ejection = \"off\"
         retry = {{ on_status = [503], same_server = true, methods = [\"POST\"], body_size = \"1MiB\", budget_per_second = 1000 }}
         {tls_of_servers}
         [upstream.copies]
         servers = [\"unix:{copies}\"]",
        routes.join(",\n"),
        fixed.join(",\n"),
        app = servers[0],
        copies = servers[1],
        protocol = speech.protocol(tls.servers),
    );
    weir_config::Config::parse(&text, "seams.toml").expect("the config is good")
}

/// The body of a fixed answer.
pub(super) fn fixed_body(len: usize) -> String {
    "abcdefghijklmnopqrstuvw".chars().cycle().take(len).collect()
}

pub(super) struct Rig {
    worker: Rc<Worker>,
    pool: Rc<ExchangePool>,
    listener: Rc<LocalListener>,
    pub(super) server: Server,
    /// The server of the mirror.
    pub(super) copies: Server,
    /// Requests so far.
    pub(super) number: usize,
    folder: TempDir,
    /// Of its clients.
    tls: Option<TlsFiles>,
}

impl Rig {
    pub(super) fn open(speech: server::Speech, tls: TlsSides) -> Self {
        clock::set(Some(Instant::test(Duration::from_secs(1_000))));
        let folder = tempfile::tempdir().expect("there is a folder for temporary files");
        let files = (tls != TlsSides::NEITHER).then(|| TlsFiles::write(folder.path()));
        let of_servers = files.as_ref().filter(|_| tls.servers);
        let of_servers = of_servers.map(|files| files.server(speech.application_protocol()));
        let (server, copies) =
            (Server::listen(speech, of_servers), Server::listen(server::Speech::Length, None));
        std::fs::write(folder.path().join(PAGE_FILE), PAGE).expect("the folder takes a file");
        std::fs::create_dir(folder.path().join("files")).expect("the folder is new");
        let config = config(speech, tls, &[server.path(), copies.path()], folder.path());
        let worker = worker(&config, &[1, 1, 1], 1);
        let plan = Arc::clone(&worker.config.borrow().snapshot.listeners[0]);
        let listener = LocalListener::new(&plan, 0, 0, None);
        worker.listeners.borrow_mut().push(Rc::clone(&listener));
        let pool = ExchangePool::new(&worker);
        let tls = files.filter(|_| tls.clients);
        Self { worker, pool, listener, server, copies, number: 0, folder, tls }
    }

    /// Where a file is that clients get.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join("files").join(name)
    }

    /// Lets all that is stored be in files, and forgets it in memory.
    pub(super) async fn move_to_files(&self) {
        // The thread does one thing behind the other.
        tokio::task::spawn_blocking(|| ()).await.expect("the thread lives");
        let config = self.worker.config.borrow();
        let cache = config.snapshot.caches.iter().find(|cache| *cache.config.name == *"filed");
        let store = &cache.expect("it is in the config").state.store;
        let mut stored = Vec::new();
        store.for_each(|response| stored.push(Arc::clone(response)));
        assert!(stored.iter().all(|response| store.remove(response)), "they are all in memory");
    }

    /// Has the keys of tokens fetched.
    pub(super) fn fetch_keys(&self) -> oneshot::Receiver<Result<KeyDocument, KeyFetchError>> {
        let (answer, outcome) = oneshot::channel();
        let config = self.worker.config.borrow();
        let routes = &config.snapshot.listeners[0].route_plans;
        let mut keys = routes.iter().filter_map(|route| route.access.as_ref()?.keys.as_ref()?.fetched());
        let keys = Arc::clone(keys.next().expect("a route wants keys"));
        key_fetch::begin(&self.worker, PooledServers::default(), KeyFetch { keys, answer });
        outcome
    }

    /// A new case begins.
    pub(super) fn begin(&mut self, reading: Reading, plans: &[Plan]) {
        self.number += 1;
        self.server.begin(reading, plans);
        self.copies.begin(reading, &[]);
    }

    /// A client that asks.
    pub(super) fn ask(&self, speech: Speech, reading: Reading, ask: Ask) -> Client {
        let (ours, theirs) = UnixStream::pair().expect("there are descriptors");
        ours.set_nonblocking(true).expect("it can be set");
        if reading == Reading::Slowly {
            socket2::SockRef::from(&ours).set_send_buffer_size(UNREAD_BYTES).expect("it can be set");
        }
        let accepted = AcceptedConnection {
            listener: Arc::clone(&self.listener.state),
            carrier: ours.into(),
            peer: Peer::Inet(([192, 0, 2, 1], 5000).into()),
            port: None,
        };
        assert!(self.worker.try_reserve(&self.listener.state), "there is room");
        self.worker.shared.loads[0].0.fetch_add(1, Ordering::Relaxed);
        let listener = Rc::clone(&self.listener);
        assert!(ByteConnection::start(&self.pool, listener, accepted, ByteConnection::run), "it is served");
        let tls = self.tls.as_ref().map(|files| files.client(speech.application_protocol()));
        Client::new(Pipe::new(theirs, tls), speech, reading, ask)
    }

    /// Asks, and takes what comes.
    ///
    /// # Errors
    /// When nothing happens any more before all is over.
    pub(super) async fn fetch(
        &mut self,
        speech: Speech,
        reading: Reading,
        ask: Ask,
        time: Duration,
    ) -> Result<Got, String> {
        let mut clients = [self.ask(speech, reading, ask)];
        self.drive(&mut clients, time).await?;
        let [client] = clients;
        Ok(client.got)
    }

    /// Lets everything happen that needs no time and no new packet; whether anything has.
    pub(super) async fn settle(&mut self, clients: &mut [Client]) -> bool {
        let (mut quiet, mut any) = (0, false);
        while quiet < QUIET_TURNS {
            tokio::task::yield_now().await;
            let mut moved = self.server.turn() | self.copies.turn();
            for client in &mut *clients {
                moved |= client.turn();
            }
            any |= moved;
            quiet = if moved { 0 } else { quiet + 1 };
        }
        any
    }

    /// Runs a case to its end, of which `time` may be spent on waiting: the clients have what they get, and nothing of their exchanges is left.
    ///
    /// # Errors
    /// When nothing happens any more before that.
    pub(super) async fn drive(&mut self, clients: &mut [Client], time: Duration) -> Result<(), String> {
        let (end, mut quiet) = (clock::now() + time, 0);
        for _ in 0..STEPS_MAX {
            let moved = self.settle(clients).await;
            let released =
                self.server.release() || self.copies.release() || clients.iter_mut().any(Client::release);
            if moved || released {
                quiet = 0;
                continue;
            }
            let left = self.left(clients);
            if left.is_none() {
                return Ok(());
            }
            quiet += 1;
            if quiet < QUIET_ROUNDS {
                // The threads that read and write files are one, which does one thing behind the other.
                tokio::task::spawn_blocking(|| ()).await.expect("the thread lives");
                continue;
            }
            match self.worker.timers.next_due().filter(|due| *due <= end) {
                Some(due) => self.pass_time(due),
                None => return Err(format!("nothing happens any more: {}", left.unwrap_or_default())),
            }
        }
        Err("it does not come to an end".to_owned())
    }

    /// What is not over, if something is not.
    fn left(&self, clients: &[Client]) -> Option<String> {
        if let Some(client) = clients.iter().find(|client| !client.is_over()) {
            return Some(format!("a client has {} bytes", client.got.body.len()));
        }
        if self.server.is_busy() || self.copies.is_busy() {
            return Some("a server has not answered".to_owned());
        }
        let exchanges = self.worker.shard.exchanges_open.value();
        if exchanges > 0 {
            return Some(format!("{exchanges} exchanges are left open"));
        }
        let config = self.worker.config.borrow();
        let in_flight = |upstream: &Arc<UpstreamPlan>| -> u32 {
            upstream.balancer().states().iter().map(|state| state.in_flight()).sum()
        };
        let taken: u32 = config.snapshot.upstreams.iter().map(in_flight).sum();
        (taken > 0).then(|| format!("{taken} slots are left taken"))
    }

    /// It is `due`, or soon will be.
    fn pass_time(&self, due: Instant) {
        clock::set(Some(due.max(clock::now() + Duration::from_millis(1))));
        self.worker.timers.fire();
    }
}
