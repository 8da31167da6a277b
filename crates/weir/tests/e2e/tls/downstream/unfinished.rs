//! Handshakes that never end: others are served meanwhile, memory stays bounded, and all are gone after the time limit.

use super::Site;
use crate::harness::{Client, Origin, eventually};

const MANY: usize = 400;

#[test]
fn many_unfinished_handshakes_delay_no_other_client() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, "listener.web.timeouts.tls = \"2s\"\nprocess.workers = 1");
    site.connect().assert_alive();
    let before = site.weir.resident_bytes();
    let held: Vec<Client> = (0..MANY)
        .map(|n| {
            let mut client = Client::connect(site.weir.web());
            // Some send nothing, some begin, some stop in the middle of a record.
            match n % 3 {
                0 => {}
                1 => client.send([0x16]),
                _ => client.send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"),
            }
            client
        })
        .collect();
    site.connect().assert_alive();
    let each = site.weir.resident_bytes().saturating_sub(before) / MANY as u64;
    assert!(each < 24 * 1024, "{each} bytes for each of {MANY}");
    let open = || site.weir.metrics().sum("weir_listener_connections_open", &["listener=\"web\""]);
    eventually("all are gone after the time limit", || open() < 0.5);
    drop(held);
    site.connect().assert_alive();
}
