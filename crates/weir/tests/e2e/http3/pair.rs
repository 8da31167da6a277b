//! Two nodes with one address that moves: what clients of the first one get at the second, with the same keys and without.

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::fs::PermissionsExt as _;

use tempfile::TempDir;

use super::HTTP3;
use crate::harness::http3::{HeldHandshakes, Http3Client, KnownClient};
use crate::harness::scripts::{echo, echo_gated};
use crate::harness::tls::WEB_TLS;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::{
    CertificateAuthority, Gate, Origin, ReservedAddress, Weir, config_with, temporary_folder,
};

/// Every client proves its address (Retry).
const PROVEN: &str = "listener.web.connections_per_client_max = 100\n";

/// The long headers of QUIC by type (RFC 9000 section 17.2), without the bit that may have any value (RFC 9287).
const TYPE: u8 = 0xb0;
const INITIAL: u8 = 0x80;
const RETRY: u8 = 0xb0;

/// What both nodes have.
struct Pair {
    origin: Origin,
    authority: CertificateAuthority,
    address: ReservedAddress,
    keys: TempDir,
}

impl Pair {
    fn new(origin: Origin) -> Self {
        let keys = temporary_folder();
        for (name, seed) in [("one", 1), ("two", 2)] {
            let file = keys.path().join(name);
            fs::write(&file, (0..80).map(|byte: u8| byte ^ seed).collect::<Vec<_>>()).expect("it is ours");
            fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("it is ours");
        }
        let (authority, address) = (CertificateAuthority::new(), ReservedAddress::new());
        Self { origin, authority, address, keys }
    }

    fn web(&self) -> SocketAddr {
        self.address.address()
    }

    /// A node with keys of these names.
    fn node(&self, keys: &[&str], settings: &str) -> Weir {
        let files: Vec<_> = keys.iter().map(|name| self.keys.path().join(name)).collect();
        let http3 = if settings.contains("http3") { "" } else { HTTP3 };
        let settings =
            format!("process.workers = 2\nprocess.http3_keys = {files:?}\n{WEB_TLS}{http3}{settings}");
        let text = config_with(&[self.origin.named("a")], &settings).replace(
            "listener.web.address = \"127.0.0.1:0\"",
            &format!("listener.web.address = \"{}\"", self.web()),
        );
        Weir::start_in(self.authority.folder_for_web(), &text)
    }

    fn connect(&self) -> Http3Client {
        let mut client = Http3Client::connect(self.web(), &self.authority);
        assert_eq!(client.get("/before").text(), "/before");
        client
    }
}

/// Some of them by another ID than that of their handshake, since they move.
#[test]
fn clients_of_the_node_before_are_reset_at_once() {
    let pair = Pair::new(echo());
    let mut before = pair.node(&["one"], "");
    let mut clients: Vec<Http3Client> = (0..8).map(|_| pair.connect()).collect();
    clients.iter_mut().step_by(2).for_each(|client| {
        client.rebind();
        assert_eq!(client.get("/moved").text(), "/moved");
    });
    before.kill();
    // It uses a key of its own already, and knows that of the other one.
    let _node = pair.node(&["two", "one"], "");
    for client in &mut clients {
        let pending = client.send("GET", "/behind", b"");
        assert_eq!(client.end(), quinn::ConnectionError::Reset);
        assert!(client.try_response(pending).is_err());
    }
    assert_eq!(pair.connect().get("/anew").text(), "/anew");
}

#[test]
fn without_the_key_of_the_node_before_its_clients_hear_nothing() {
    for keys in [&[][..], &["two"]] {
        let pair = Pair::new(echo());
        let mut before = pair.node(&["one"], "");
        let mut client = pair.connect();
        before.kill();
        let node = pair.node(keys, "");
        let received = || node.metrics().sum("weir_worker_datagrams_total", &["direction=\"in\""]);
        let _pending = client.send("GET", "/behind", b"");
        client.progress_until("the packet has come", || received() > 0.5);
        assert_eq!(pair.connect().get("/anew").text(), "/anew");
        client.progress_until("what has come is read", || true);
        assert_eq!(client.connection.close_reason(), None);
    }
}

/// A reset tells nothing about connections that the process before has, and comes for those that no process has.
#[test]
fn an_upgrade_beside_resets_only_what_is_gone() {
    let gate = Gate::new();
    let pair = Pair::new(echo_gated(&gate, "/held"));
    let mut before = pair.node(&["one"], "");
    let mut gone: Vec<Http3Client> = (0..2).map(|_| pair.connect()).collect();
    before.kill();
    let mut node = pair.node(&["one"], "");
    let mut staying: Vec<Http3Client> = (0..4).map(|_| pair.connect()).collect();
    let held: Vec<_> = staying.iter_mut().map(|client| client.send("GET", "/held", b"")).collect();
    staying.iter_mut().for_each(|client| assert_eq!(client.get("/now").text(), "/now"));
    pair.origin.wait_for_requests(2 + 4 * 3);
    node.upgrade();
    for client in &mut gone {
        let _pending = client.send("GET", "/behind", b"");
        assert_eq!(client.end(), quinn::ConnectionError::Reset);
    }
    staying.iter_mut().step_by(2).for_each(Http3Client::rebind);
    gate.open();
    for (client, held) in staying.iter_mut().zip(held) {
        assert_eq!(client.response(held).text(), "/held");
    }
}

#[test]
fn clients_of_a_process_that_dies_behind_an_upgrade_are_reset() {
    let gate = Gate::new();
    let pair = Pair::new(echo_gated(&gate, "/held"));
    let mut node = pair.node(&["one"], "");
    let mut client = pair.connect();
    let _held = client.send("GET", "/held", b"");
    assert_eq!(client.get("/now").text(), "/now");
    pair.origin.wait_for_requests(3);
    node.upgrade();
    node.kill();
    let _pending = client.send("GET", "/behind", b"");
    assert_eq!(client.end(), quinn::ConnectionError::Reset);
    gate.open();
}

/// A path to the web that holds what comes until it is asked for.
struct HeldPath {
    front: UdpSocket,
    back: UdpSocket,
}

impl HeldPath {
    fn new(pair: &Pair) -> Self {
        let socket = || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a port");
            socket.set_read_timeout(Some(WATCHDOG)).expect("it can be set");
            socket
        };
        let (front, back) = (socket(), socket());
        back.connect(pair.web()).expect("it is loopback");
        Self { front, back }
    }

    fn address(&self) -> SocketAddr {
        self.front.local_addr().expect("it is bound")
    }

    /// The next first packet of the client, with a token or without, is passed on.
    fn pass_first(&self, with_token: bool) -> SocketAddr {
        let mut packet = [0; 2048];
        loop {
            let (len, from) = self.front.recv_from(&mut packet).expect("the client sends");
            if packet[0] & TYPE == INITIAL && has_token(&packet[..len]) == with_token {
                self.back.send(&packet[..len]).expect("it is loopback");
                return from;
            }
        }
    }

    fn answer(&self) -> Vec<u8> {
        let mut packet = [0; 2048];
        let len = self.back.recv(&mut packet).expect("Weir answers");
        packet[..len].to_vec()
    }
}

/// Whether a first packet has a token (RFC 9000 section 17.2.2).
fn has_token(packet: &[u8]) -> bool {
    let after = |at: usize| at + 1 + usize::from(packet[at]);
    packet[after(after(5))] != 0
}

#[test]
fn a_proof_that_the_node_before_has_asked_for_counts_with_its_key() {
    for (keys, answer) in [(&["two", "one"][..], INITIAL), (&[], RETRY), (&["two"], RETRY)] {
        let pair = Pair::new(echo());
        let mut before = pair.node(&["one"], PROVEN);
        let path = HeldPath::new(&pair);
        let _client = HeldHandshakes::begin(path.address(), &pair.authority, 1);
        let client = path.pass_first(false);
        let retry = path.answer();
        assert_eq!(retry[0] & TYPE, RETRY);
        before.kill();
        let _node = pair.node(keys, PROVEN);
        path.front.send_to(&retry, client).expect("it is loopback");
        path.pass_first(true);
        assert_eq!(path.answer()[0] & TYPE, answer, "{keys:?}");
    }
}

/// It would prove an address for early data, and only the node that has given it knows whether it was used.
#[test]
fn a_token_for_later_counts_at_its_own_node_alone() {
    let pair = Pair::new(echo());
    let settings = format!("{PROVEN}listener.web.http3.early_data = true\n");
    let mut before = pair.node(&["one"], &settings);
    let answer = |known: &KnownClient| {
        let path = HeldPath::new(&pair);
        let _client = HeldHandshakes::begin_known(path.address(), known);
        path.pass_first(true);
        path.answer()[0] & TYPE
    };
    let known = Http3Client::get_known(pair.web(), &pair.authority);
    assert_eq!(answer(&known), INITIAL);
    let known = Http3Client::get_known(pair.web(), &pair.authority);
    before.kill();
    let _node = pair.node(&["one"], &settings);
    assert_eq!(answer(&known), RETRY);
}
