//! Requests that go on while a test changes something: not one may fail.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use super::client::Client;
use super::watchdog::eventually;

/// Some clients that keep their connections and some that do not, until the test has seen enough.
pub(crate) struct BackgroundTraffic {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicU64>,
    clients: Vec<JoinHandle<()>>,
}

impl BackgroundTraffic {
    /// Starts them all; they ask for `/work`.
    pub(crate) fn start(web: SocketAddr) -> BackgroundTraffic {
        Self::with(web, false)
    }

    /// The same; a connection may end with a response, as in an upgrade.
    pub(crate) fn through_upgrades(web: SocketAddr) -> BackgroundTraffic {
        Self::with(web, true)
    }

    fn with(web: SocketAddr, may_close: bool) -> BackgroundTraffic {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let client = |keeps: bool| {
            let (stop, done) = (Arc::clone(&stop), Arc::clone(&done));
            thread::spawn(move || {
                let mut client = Client::connect(web);
                while !stop.load(Ordering::SeqCst) {
                    if !keeps {
                        client = Client::connect(web);
                    }
                    let response = client.fetch("/work");
                    assert_eq!(response.status, 200, "{response:?}");
                    assert!(may_close || !response.closes(), "the connection goes on: {response:?}");
                    if response.closes() {
                        client = Client::connect(web);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                }
            })
        };
        let clients = [true, false, true, false].into_iter().map(client).collect();
        BackgroundTraffic { stop, done, clients }
    }

    /// Waits until requests that began after this moment have been answered.
    pub(crate) fn goes_on(&self) {
        let enough = self.done.load(Ordering::SeqCst) + 2 * self.clients.len() as u64;
        let fails = || self.clients.iter().any(JoinHandle::is_finished);
        eventually("requests go on", || self.done.load(Ordering::SeqCst) >= enough || fails());
    }

    /// Stops them; panics when a request has failed.
    pub(crate) fn end(self) {
        self.stop.store(true, Ordering::SeqCst);
        for client in self.clients {
            client.join().expect("no request has failed");
        }
    }
}
