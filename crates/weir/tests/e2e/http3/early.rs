//! Requests before the handshake is over (0-RTT, RFC 8470).

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::harness::http2::start_with_tls;
use crate::harness::http3::Http3Client;
use crate::harness::origin::{Origin, ok, status};
use crate::harness::scripts::echo;
use crate::harness::{Gate, WrittenConfig, eventually, run};

pub(super) const EARLY: &str = "listener.web.http3.early_data = true\n";

/// The way of one client to Weir: nothing comes back before the gate is open.
pub(super) struct SilentWay {
    pub(super) address: SocketAddr,
    /// What the client has sent.
    pub(super) sent: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl SilentWay {
    pub(super) fn to(weir: SocketAddr, gate: &Gate) -> Self {
        let bind = || Arc::new(UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a port"));
        let (front, back) = (bind(), bind());
        back.connect(weir).expect("a UDP socket connects at once");
        let address = front.local_addr().expect("it is bound");
        let (sent, gate) = (Arc::<Mutex<Vec<Vec<u8>>>>::default(), gate.clone());
        let (there, kept) = ((Arc::clone(&front), Arc::clone(&back)), Arc::clone(&sent));
        let client = Arc::new(Mutex::new(None));
        let known = Arc::clone(&client);
        thread::spawn(move || {
            let mut datagram = [0; 65_535];
            while let Ok((len, from)) = there.0.recv_from(&mut datagram) {
                *known.lock().expect("no thread panics with it") = Some(from);
                kept.lock().expect("no thread panics with it").push(datagram[..len].to_vec());
                let _gone = there.1.send(&datagram[..len]);
            }
        });
        thread::spawn(move || {
            let mut datagram = [0; 65_535];
            while let Ok(len) = back.recv(&mut datagram) {
                gate.wait("the test lets answers pass");
                let client = *client.lock().expect("no thread panics with it");
                let _gone = front.send_to(&datagram[..len], client.expect("it has sent something"));
            }
        });
        Self { address, sent }
    }
}

#[test]
fn a_request_in_the_first_packet_is_served_at_once() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, EARLY);
    let known = Http3Client::get_known(weir.web(), &authority);
    let gate = Gate::new();
    let way = SilentWay::to(weir.web(), &gate);
    let mut client = Http3Client::connect_early(way.address, &known).expect("the session takes early data");
    let post = client.send("POST", "/post", b"body");
    let get = client.send("GET", "/get", b"");
    client.progress_until("the origin has the early request", || origin.requests().len() == 2);
    let early = origin.last_request();
    assert_eq!((early.target(), early.field("early-data")), ("/get", Some("1")));
    gate.open();
    assert_eq!(client.response(get).text(), "/get");
    assert_eq!(client.response(post).text(), "/postbody");
    let late = origin.last_request();
    assert_eq!((late.target(), late.field("early-data")), ("/post", None), "it has waited for the handshake");
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_listener_http3_early_requests_total", &[]), 2.0);
    assert_eq!(metrics.sum("weir_listener_tls_handshakes_total", &["resumed=\"yes\""]), 1.0);
}

/// Answers 425 to what is early.
pub(super) fn careful() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(if request.field("early-data").is_some() {
                status(425)
            } else {
                ok(request.target())
            })?;
        }
    })
}

#[test]
fn a_server_that_does_not_take_it_early_gets_it_again_behind_the_handshake() {
    let origin = careful();
    let (authority, weir) = start_with_tls(&origin, EARLY);
    let known = Http3Client::get_known(weir.web(), &authority);
    let gate = Gate::new();
    let way = SilentWay::to(weir.web(), &gate);
    let mut client = Http3Client::connect_early(way.address, &known).expect("the session takes early data");
    let get = client.send("GET", "/get", b"");
    let request = http::Request::builder().method("GET").uri("https://a.test/said").header("early-data", "1");
    let said = client.send_with(request, b"");
    client.progress_until("both were refused", || origin.requests().len() == 3);
    gate.open();
    assert_eq!(client.response(get).text(), "/get");
    assert_eq!(client.response(said).status, 425, "the client has said so, and repeats it by itself");
    let targets = origin.targets();
    let asked = |target: &str| targets.iter().filter(|asked| *asked == target).count();
    assert_eq!((asked("/get"), asked("/said")), (2, 1));
}

#[test]
fn a_recorded_first_packet_counts_once() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, EARLY);
    let known = Http3Client::get_known(weir.web(), &authority);
    let gate = Gate::new();
    let way = SilentWay::to(weir.web(), &gate);
    let mut client = Http3Client::connect_early(way.address, &known).expect("the session takes early data");
    let get = client.send("GET", "/once", b"");
    client.progress_until("the origin has the early request", || origin.requests().len() == 2);
    let recorded = way.sent.lock().expect("no thread panics with it").clone();
    gate.open();
    assert_eq!(client.response(get).text(), "/once");
    client.leave();
    eventually("the connection is over", || {
        weir.metrics().sum("weir_listener_http3_connections_open", &[]) == 0.0
    });
    let attacker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a port");
    let before = weir.metrics().sum("weir_worker_datagrams_total", &["direction=\"in\""]);
    for datagram in &recorded {
        attacker.send_to(datagram, weir.web()).expect("loopback takes it");
    }
    eventually("all of it was received", || {
        let received = weir.metrics().sum("weir_worker_datagrams_total", &["direction=\"in\""]);
        received >= before + recorded.len() as f64
    });
    attacker.recv(&mut [0; 65_535]).expect("Weir begins a handshake with it");
    assert_eq!(Http3Client::connect(weir.web(), &authority).get("/behind").status, 200);
    assert_eq!(origin.targets(), ["/first", "/once", "/behind"]);
}

/// Otherwise a client could pass lists and limits with the address of another.
#[test]
fn a_client_without_proof_of_its_address_waits_for_the_handshake() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, EARLY);
    let mut known = Http3Client::get_known(weir.web(), &authority);
    known.tokens = Arc::default();
    let gate = Gate::new();
    let way = SilentWay::to(weir.web(), &gate);
    let mut client = Http3Client::connect_early(way.address, &known).expect("the session takes early data");
    let get = client.send("GET", "/get", b"");
    client.progress_until("Weir has the early request", || {
        weir.metrics().sum("weir_listener_http3_early_requests_total", &[]) == 1.0
    });
    assert_eq!(Http3Client::connect(weir.web(), &authority).get("/meanwhile").status, 200);
    assert_eq!(origin.targets(), ["/first", "/meanwhile"]);
    gate.open();
    assert_eq!(client.response(get).text(), "/get");
    assert_eq!(origin.last_request().field("early-data"), None);
}

#[test]
fn no_session_takes_early_data_unless_it_is_switched_on() {
    let origin = echo();
    let (authority, weir) = start_with_tls(&origin, "listener.web.http3 = {}\n");
    let known = Http3Client::get_known(weir.web(), &authority);
    assert!(Http3Client::connect_early(weir.web(), &known).is_none());
}

#[test]
fn early_data_and_client_certificates_exclude_each_other() {
    let file = WrittenConfig::new(
        "listener.web = { address = \"127.0.0.1:0\", http3.early_data = true, tls = { internal = [\"a.test\"], client_certificates.authorities = [\"none.pem\"] }, route = [{ path = \"/\", respond = { status = 200 } }] }\n",
    );
    let done = run(&["check", "--format", "short", file.path()]);
    assert_eq!(done.code, Some(2), "{done:?}");
    assert!(done.stdout.contains("`early_data` does not go with `client_certificates`"), "{done:?}");
}
