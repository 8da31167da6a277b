//! Reloads and upgrades under load, while clients move: no request that was taken fails.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use h3::error::StreamError;

use super::HTTP3;
use crate::harness::http3::{Http3Client, PendingResponse};
use crate::harness::scripts::echo;
use crate::harness::tls::WEB_TLS;
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, eventually};

const CLIENTS: usize = 4;

/// How often there is a reload or an upgrade, and requests before each: more, for a longer try, by the environment.
const RELOADS: &str = "SURVIVING_RELOADS";
const UPGRADES: &str = "SURVIVING_UPGRADES";
const REQUESTS: &str = "SURVIVING_REQUESTS";

fn count(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).ok().and_then(|count| count.parse().ok()).unwrap_or(usual)
}

/// After how many requests a client moves to another port.
const MOVE_EVERY: u64 = 3;

/// What all clients share.
struct Load {
    web: SocketAddr,
    authority: CertificateAuthority,
    origin: Origin,
    is_over: AtomicBool,
    done: AtomicU64,
    /// Connections that ended for a client that goes on.
    ended: AtomicU64,
}

impl Load {
    fn run(&self, number: usize) {
        let mut client = Http3Client::connect(self.web, &self.authority);
        for count in 0.. {
            if self.is_over.load(Ordering::SeqCst) {
                return;
            }
            if count % MOVE_EVERY == 0 {
                client.rebind();
            }
            let path = format!("/{number}/{count}");
            loop {
                let pending = client.send("GET", &path, b"");
                if self.is_answered(&mut client, pending, &path) {
                    break;
                }
                self.ended.fetch_add(1, Ordering::SeqCst);
                client = Http3Client::connect(self.web, &self.authority);
            }
            self.done.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Whether there is a response; `false`: the connection has ended, and the request was not taken.
    fn is_answered(&self, client: &mut Http3Client, pending: PendingResponse, path: &str) -> bool {
        let error = match client.try_response(pending) {
            Ok(response) => {
                assert_eq!((response.status, response.text()), (200, path.to_owned()));
                return true;
            }
            Err(error) => error,
        };
        let is_end = match &error {
            StreamError::RemoteTerminate { code, .. } => *code == h3::error::Code::H3_REQUEST_REJECTED,
            other => other.is_h3_no_error() || matches!(other, StreamError::RemoteClosing { .. }),
        };
        assert!(is_end, "the request fails: {error:?}");
        assert!(!self.origin.targets().iter().any(|target| target == path), "a request is lost: {error:?}");
        false
    }
}

struct RunningLoad {
    load: Arc<Load>,
    clients: Vec<JoinHandle<()>>,
}

impl RunningLoad {
    fn start(weir: &Weir, authority: CertificateAuthority, origin: Origin) -> Self {
        let load = Arc::new(Load {
            web: weir.web(),
            authority,
            origin,
            is_over: AtomicBool::new(false),
            done: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        });
        let client = |number| {
            let load = Arc::clone(&load);
            thread::spawn(move || load.run(number))
        };
        let clients = (0..CLIENTS).map(client).collect();
        Self { load, clients }
    }

    /// Waits for some more requests.
    fn goes_on(&self) {
        let enough = self.load.done.load(Ordering::SeqCst) + count(REQUESTS, 2 * CLIENTS as u64);
        let fails = || self.clients.iter().any(JoinHandle::is_finished);
        eventually("requests go on", || self.load.done.load(Ordering::SeqCst) >= enough || fails());
    }

    /// How many requests were answered, and how many connections ended before.
    fn end(self) -> (u64, u64) {
        self.load.is_over.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("no request has failed");
        }
        (self.load.done.load(Ordering::SeqCst), self.load.ended.load(Ordering::SeqCst))
    }
}

fn start() -> (Weir, RunningLoad, String) {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let settings = format!("process.workers = 2\n{WEB_TLS}{HTTP3}");
    let config = config_with(&[origin.named("a")], &settings);
    let weir = Weir::start_in(authority.folder_for_web(), &config);
    let load = RunningLoad::start(&weir, authority, origin);
    (weir, load, config)
}

#[test]
fn reloads_cost_no_request_and_no_connection() {
    let (weir, load, config) = start();
    let reloads = count(RELOADS, 10);
    for round in 0..reloads {
        load.goes_on();
        weir.reload(&format!("{config}\n# {round}\n"));
    }
    load.goes_on();
    let (done, ended) = load.end();
    println!("{reloads} reloads, {done} requests, {ended} connections ended");
    assert_eq!(ended, 0);
    assert_eq!(weir.metrics().sum("weir_listener_http3_connections_total", &[]), CLIENTS as f64);
}

#[test]
fn upgrades_cost_no_request() {
    let (mut weir, load, _) = start();
    let upgrades = count(UPGRADES, 3);
    for _ in 0..upgrades {
        load.goes_on();
        weir.upgrade();
    }
    load.goes_on();
    let (done, ended) = load.end();
    println!("{upgrades} upgrades, {done} requests, {ended} connections ended");
}
