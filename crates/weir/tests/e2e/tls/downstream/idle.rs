//! The memory of an idle client with TLS, and what remains of it after the close.

use std::time::Duration;

use super::Site;
use crate::harness::{Client, Origin, watchdog};

/// As many exchanges as the flight recorder keeps, of any client: they must not count as memory of clients.
const EXCHANGES_KEPT: usize = 4_096;

fn site() -> (Origin, Site) {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, "process.workers = 1");
    let mut client = site.connect();
    for _ in 0..EXCHANGES_KEPT.div_ceil(64) {
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n".repeat(64));
        for _ in 0..64 {
            assert_eq!(client.response().text(), "x");
        }
    }
    (origin, site)
}

fn clients(site: &Site, count: usize) -> Vec<Client> {
    let one = |_| {
        let mut client = site.connect();
        assert_eq!(client.fetch("/").text(), "x");
        client
    };
    (0..count).map(one).collect()
}

/// Half of what it was with the buffer that rustls keeps for what it receives.
#[test]
fn an_idle_client_with_tls_takes_less_than_5_000_bytes() {
    const CLIENTS: usize = 500;
    let (_origin, site) = site();
    let mut open = clients(&site, CLIENTS);
    let before = site.weir.resident_bytes();
    open.extend(clients(&site, CLIENTS));
    let each = site.weir.resident_bytes().saturating_sub(before) / CLIENTS as u64;
    assert!(each < 5_000, "{each} bytes");
}

/// The last clients of a crowd leave their memory to the system, not to the next crowd.
#[test]
fn memory_of_clients_that_have_gone_is_given_back() {
    const CLIENTS: usize = 2_000;
    let (_origin, site) = site();
    // What the first few leave is no crowd's.
    drop(clients(&site, 50));
    let before = site.weir.anonymous_bytes();
    let open = clients(&site, CLIENTS);
    let taken = site.weir.anonymous_bytes() - before;
    drop(open);
    let is_back = || site.weir.anonymous_bytes().saturating_sub(before) < taken / 3;
    for _ in 0..100 {
        if is_back() {
            return;
        }
        watchdog::work(Duration::from_millis(100));
    }
    panic!("{} of {taken} bytes stay", site.weir.anonymous_bytes().saturating_sub(before));
}
