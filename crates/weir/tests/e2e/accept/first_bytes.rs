//! Requests that come with, or soon after, the handshake: `defer_accept` and `fast_open` of a listener.

use std::fs::read_to_string;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SendFlags, SocketType, sendto, socket};

use crate::harness::{Client, Origin, Weir, eventually};

/// `MSG_FASTOPEN` of send(2): connects, with the bytes in the first packet if the kernel has a cookie for the address.
const FAST_OPEN: SendFlags = SendFlags::from_bits_retain(0x2000_0000);

fn connections(weir: &Weir) -> f64 {
    weir.metrics().sum("weir_listener_connections_total", &["listener=\"web\""])
}

/// One worker takes connections in the order in which they are there.
fn one_worker(origin: &Origin, settings: &str) -> Weir {
    Weir::proxying_with(origin, &format!("process.workers = 1\nadmin.address = \"127.0.0.1:0\"\n{settings}"))
}

#[test]
fn a_deferred_connection_is_a_connection_from_its_first_byte() {
    let origin = Origin::serving("fine");
    let weir = one_worker(&origin, "listener.web.defer_accept = \"60s\"");
    let mut silent = Client::connect(weir.web());
    assert_eq!(Client::get(weir.web(), "/").text(), "fine");
    assert_eq!(connections(&weir), 1.0, "only the one that sent something");
    assert_eq!(silent.fetch("/late").text(), "fine");
    assert_eq!(connections(&weir), 2.0);
}

#[test]
fn without_it_a_silent_connection_is_served_at_once() {
    let origin = Origin::serving("fine");
    let weir = one_worker(&origin, "");
    let _silent = Client::connect(weir.web());
    eventually("the connection is served", || connections(&weir) == 1.0);
}

/// Connections that the kernel of this machine took with data in their first packet.
fn fast_opens_taken() -> u64 {
    let text = read_to_string("/proc/net/netstat").expect("/proc is mounted");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
    let (names, values) = (lines.next().expect("names come first"), lines.next().expect("values follow"));
    let mut pairs = names.split(' ').zip(values.split(' '));
    let (_, value) = pairs.find(|(name, _)| *name == "TCPFastOpenPassive").expect("every kernel counts them");
    value.parse().expect("a count is a number")
}

fn get_with_the_first_packet(to: SocketAddr) -> u16 {
    let fd: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).expect("one more socket");
    let request = b"GET / HTTP/1.1\r\nHost: a.test\r\n\r\n";
    let sent =
        sendto(&fd, request, FAST_OPEN, &to).expect("without a cookie it is an ordinary connect and send");
    assert_eq!(sent, request.len());
    Client::over(fd.into()).response().status
}

#[test]
fn a_request_in_the_first_packet() {
    let allowed = read_to_string("/proc/sys/net/ipv4/tcp_fastopen").expect("/proc is mounted");
    let allowed: u32 = allowed.trim().parse().expect("a set of bits is a number");
    if allowed & 1 == 0 {
        // The client of this test may not do it.
        return;
    }
    let origin = Origin::serving("fine");
    let weir = one_worker(&origin, "listener.web.fast_open = 16");
    let before = fast_opens_taken();
    // The first connection brings the cookie, the second has its request in the first packet.
    for _ in 0..2 {
        assert_eq!(get_with_the_first_packet(weir.web()), 200);
    }
    let (taken, said) = (fast_opens_taken() - before, weir.stderr().contains("`fast_open` has no effect"));
    if allowed & 2 == 0 {
        assert!(said, "Weir logs that the kernel does not allow it: {}", weir.stderr());
    } else {
        assert!(taken > 0 && !said, "{taken} taken: {}", weir.stderr());
    }
}
