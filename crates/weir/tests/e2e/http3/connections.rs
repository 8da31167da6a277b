//! Connections of QUIC: they outlive reloads and moves of their clients, and end without losing a request.

use rustix::process::Signal;

use super::HTTP3;
use crate::harness::http2::start_with_tls;
use crate::harness::http3::{Http3Client, PendingResponse};
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::tls::WEB_TLS;
use crate::harness::{CertificateAuthority, Gate, ReservedAddress, Weir, config_with, eventually};

#[test]
fn a_stop_finishes_what_was_taken() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let (authority, mut weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let held = client.send("GET", "/held", b"");
    assert_eq!(client.get("/now").text(), "/now");
    origin.wait_for_requests(2);
    weir.signal(Signal::TERM);
    gate.open();
    assert_eq!(client.response(held).text(), "/held");
    client.leave();
    assert!(weir.wait_for_exit().success(), "it has ended by itself");
}

#[test]
fn a_client_goes_on_from_another_port() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/before").text(), "/before");
    for round in 0..5 {
        client.rebind();
        let path = format!("/behind/{round}");
        assert_eq!(client.get(&path).text(), path);
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_http3_connections_total", &[]), 1.0);
}

/// As many clients as it takes for packets to come to either worker, before and behind each move.
#[test]
fn clients_that_move_stay_with_their_worker() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let settings = format!("process.workers = 2\n{WEB_TLS}{HTTP3}");
    let weir = Weir::start_in(authority.folder_for_web(), &config_with(&[origin.named("a")], &settings));
    let mut clients: Vec<Http3Client> =
        (0..8).map(|_| Http3Client::connect(weir.web(), &authority)).collect();
    for round in 0..4 {
        for (number, client) in clients.iter_mut().enumerate() {
            let path = format!("/{round}/{number}");
            assert_eq!(client.get(&path).text(), path);
            client.rebind();
        }
    }
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_http3_connections_total", &[]), 8.0);
    assert_eq!(metrics.sum("weir_listener_http3_connections_open", &[]), 8.0);
}

/// The process before keeps its connections, the new one gets those that begin.
#[test]
fn an_upgrade_loses_no_request() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let authority = CertificateAuthority::new();
    let settings = format!("process.workers = 2\n{WEB_TLS}{HTTP3}");
    let mut weir = Weir::start_in(authority.folder_for_web(), &config_with(&[origin.named("a")], &settings));
    let mut clients: Vec<Http3Client> =
        (0..6).map(|_| Http3Client::connect(weir.web(), &authority)).collect();
    let held: Vec<_> = clients.iter_mut().map(|client| client.send("GET", "/held", b"")).collect();
    for client in &mut clients {
        assert_eq!(client.get("/now").text(), "/now");
    }
    weir.upgrade();
    let mut later: Vec<Http3Client> = (0..6).map(|_| Http3Client::connect(weir.web(), &authority)).collect();
    for client in &mut later {
        assert_eq!(client.get("/new").text(), "/new");
    }
    gate.open();
    for (client, held) in clients.iter_mut().zip(held) {
        assert_eq!(client.response(held).text(), "/held");
    }
}

/// Each process has connections that go on, whatever ends first, and however many workers the next one has.
#[test]
fn connections_of_four_processes_go_on() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let authority = CertificateAuthority::new();
    let config = |workers: usize| {
        config_with(&[origin.named("a")], &format!("process.workers = {workers}\n{WEB_TLS}{HTTP3}"))
    };
    let mut weir = Weir::start_in(authority.folder_for_web(), &config(2));
    let mut waiting: Vec<(Http3Client, PendingResponse)> = Vec::new();
    for workers in [Some(1), Some(3), Some(2), None] {
        for _ in 0..4 {
            let mut client = Http3Client::connect(weir.web(), &authority);
            let held = client.send("GET", "/held", b"");
            assert_eq!(client.get("/now").text(), "/now");
            waiting.push((client, held));
        }
        if let Some(workers) = workers {
            weir.write_config(&config(workers));
            weir.upgrade();
        }
    }
    // Connections of the second process end before those of the first.
    waiting.rotate_left(4);
    for (client, _) in &mut waiting {
        client.rebind();
    }
    gate.open();
    for (mut client, held) in waiting {
        assert_eq!(client.response(held).text(), "/held");
    }
}

#[test]
fn a_client_that_leaves_is_noticed() {
    let gate = Gate::new();
    let origin = echo_gated(&gate, "/held");
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let _held = client.send("GET", "/held", b"");
    assert_eq!(client.get("/now").status, 200);
    origin.wait_for_requests(2);
    client.leave();
    eventually("the connection is over", || {
        weir.metrics().sum("weir_listener_http3_connections_open", &[]) == 0.0
    });
    gate.open();
}

#[test]
fn a_reload_changes_what_is_served_and_not_the_connection() {
    let (one, other) = (echo(), echo());
    let (authority, weir) = start_with_tls(&one, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/one").text(), "/one");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&text.replace(&one.address().to_string(), &other.address().to_string()));
    assert_eq!(client.get("/other").text(), "/other");
    assert_eq!((one.targets(), other.targets()), (vec!["/one".to_owned()], vec!["/other".to_owned()]));
    assert_eq!(weir.metrics().sum("weir_listener_http3_connections_total", &[]), 1.0);
}

/// Behind the sandbox of the process, which is complete by then.
#[test]
fn a_reload_switches_http3_on() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&format!("{text}\n{HTTP3}"));
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/one").text(), "/one");
}

/// With two addresses of one port, and packets that come to the other worker.
#[test]
fn clients_that_move_stay_at_their_address() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let port = ReservedAddress::new().address().port();
    let settings = format!("process.workers = 2\n{WEB_TLS}{HTTP3}");
    let text = config_with(&[origin.named("a")], &settings).replace(
        "listener.web.address = \"127.0.0.1:0\"",
        &format!("listener.web.address = [\"127.0.0.1:{port}\", \"127.0.0.2:{port}\"]"),
    );
    let weir = Weir::start_in(authority.folder_for_web(), &text);
    for host in [[127, 0, 0, 1], [127, 0, 0, 2]] {
        let mut clients: Vec<Http3Client> =
            (0..4).map(|_| Http3Client::connect((host, port).into(), &authority)).collect();
        for client in &mut clients {
            client.rebind();
            assert_eq!(client.get("/moved").text(), "/moved");
        }
    }
    assert_eq!(weir.metrics().sum("weir_listener_http3_connections_total", &[]), 8.0);
}

#[test]
fn a_reload_switches_http3_off_and_on_again() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    assert_eq!(client.get("/one").text(), "/one");
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&text.replace(HTTP3, ""));
    assert!(Http3Client::try_connect(weir.web(), authority.client()).is_err(), "none begins");
    assert_eq!(client.get("/two").text(), "/two", "those that there are go on");
    weir.reload(&text);
    let mut again = Http3Client::connect(weir.web(), &authority);
    assert_eq!(again.get("/again").text(), "/again");
}

/// Sockets of the process before close one by one, and the kernel moves others into their places meanwhile.
#[test]
fn clients_that_come_while_the_process_before_ends_are_served() {
    let origin = echo();
    let authority = CertificateAuthority::new();
    let settings = format!("process.workers = 2\n{WEB_TLS}{HTTP3}");
    let mut weir = Weir::start_in(authority.folder_for_web(), &config_with(&[origin.named("a")], &settings));
    let mut before = Http3Client::connect(weir.web(), &authority);
    assert_eq!(before.get("/before").text(), "/before");
    weir.upgrade();
    before.leave();
    for number in 0..16 {
        let mut client = Http3Client::connect(weir.web(), &authority);
        let path = format!("/{number}");
        assert_eq!(client.get(&path).text(), path);
    }
}
