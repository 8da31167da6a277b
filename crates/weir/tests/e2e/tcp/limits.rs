//! The limits of a connection: silence, age, rates, and the end of the process.

use std::time::Duration;

use super::{address, config, echo};
use crate::harness::watchdog::now;
use crate::harness::{Client, End, Origin, Weir, eventually};

#[test]
fn silence_ends_a_tunnel_and_bytes_keep_it() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "timeouts.tunnel = \"300ms\"", ""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    let began = now();
    let mut moved = began;
    while began.elapsed() < Duration::from_millis(700) {
        client.send([1]);
        moved = now();
        assert_eq!(client.take(1), [2]);
        crate::harness::watchdog::pause();
    }
    assert_eq!(client.take_to_end(), (Vec::new(), End::Reset));
    assert!(moved.elapsed() >= Duration::from_millis(300), "silence had to last");
    assert!(weir.access_log(1)[0].ends_with("weir tunnel-idle-timeout"));
}

#[test]
fn the_age_of_a_connection_is_bounded_even_in_use() {
    let server = echo();
    let weir = Weir::start(&config(&[&address(&server)], "", "timeouts.connection_age = \"400ms\""));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    eventually("the connection is too old", || {
        client.send_what_is_taken([1]).is_err()
            || weir.metrics().sum("weir_listener_tunnels_open", &[]) == 0.0
    });
    assert!(weir.access_log(1)[0].ends_with("weir connection-max-age"));
}

#[test]
fn rates_hold_in_each_direction() {
    const BYTES: usize = 60_000;
    let server = Origin::start(|conn| {
        let received = conn.take(BYTES)?;
        conn.send(received)?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = Weir::start(&config(
        &[&address(&server)],
        "",
        "limits = { upload_rate = \"100kB/s\", download_rate = \"50kB/s\" }",
    ));
    let mut client = Client::connect(weir.web());
    let sent: Vec<u8> = (0..BYTES).map(|at| (at / 7) as u8).collect();
    let began = now();
    client.send(&sent);
    client.finish();
    assert_eq!(client.take_to_end(), (sent, End::Closed));
    // Less than 0.6 s and 1.2 s, for each bucket begins full.
    assert!(began.elapsed() >= Duration::from_millis(400 + 1000), "{:?}", began.elapsed());
}

/// At a stop, tunnels have until shortly before the grace ends, and their end is a proper one.
#[test]
fn a_stop_drains_tunnels_and_ends_them_in_time() {
    let server = echo();
    let mut weir =
        Weir::start(&format!("process.stop_grace = \"1500ms\"\n{}", config(&[&address(&server)], "", "")));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    let began = now();
    weir.signal(rustix::process::Signal::TERM);
    while began.elapsed() < Duration::from_millis(500) {
        client.send([1]);
        assert_eq!(client.take(1), [2], "it goes on meanwhile");
        crate::harness::watchdog::pause();
    }
    assert_eq!(client.take_to_end(), (Vec::new(), End::Closed));
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    assert_eq!(weir.wait_for_exit().code(), Some(3), "a tunnel was cut");
    let line = weir.access_log(1).remove(0);
    assert!(line.ends_with("weir relay-draining"), "{line}");
}
