//! What clients may send that no one reads.

use super::start;
use crate::harness::http3::{Http3Client, PendingResponse};
use crate::harness::scripts::echo_gated;
use crate::harness::{CertificateAuthority, Gate, Origin, Weir};

/// One request of `/held` is with its server, and no body of another is read: those wait for a place.
struct UnreadUploads {
    weir: Weir,
    authority: CertificateAuthority,
    gate: Gate,
    first: (Http3Client, PendingResponse),
    _origins: [Origin; 2],
}

impl UnreadUploads {
    fn start(settings: &str) -> Self {
        let gate = Gate::new();
        let (origin, held) = (echo_gated(&gate, "no target begins so"), echo_gated(&gate, "/held"));
        let settings = format!(
            "{settings}upstream.held = {{ servers = [{{ name = \"h\", address = \"{}\", max_requests = 1 }}], timeouts.queue = \"1h\" }}\n\
             listener.web.route = [{{ path = \"/held\", upstream = \"held\" }}, {{ path = \"/\", upstream = \"app\" }}]\n",
            held.address()
        );
        let (authority, weir) = start(&origin, &settings);
        let mut client = Http3Client::connect(weir.web(), &authority);
        let pending = client.send("GET", "/held", b"");
        client.progress_until("the server has it", || held.connections() == 1);
        Self { weir, authority, gate, first: (client, pending), _origins: [origin, held] }
    }

    fn connect(&self) -> Http3Client {
        Http3Client::connect(self.weir.web(), &self.authority)
    }
}

/// Sends what it may, until nothing more leaves.
fn send_all(client: &mut Http3Client) {
    let connection = client.connection.clone();
    let (mut before, mut times) = (0, 0);
    client.progress_until("it has sent all that it may", || {
        let sent = connection.stats().udp_tx.bytes;
        times = if sent == before { times + 1 } else { 0 };
        before = sent;
        times > 20
    });
}

/// One stream that is not read holds up no other stream of its connection, as long as there is memory.
#[test]
fn streams_that_are_not_read_hold_up_no_others() {
    let unread = UnreadUploads::start("");
    let mut client = unread.connect();
    let uploads: Vec<_> = (0..3).map(|_| client.send("POST", "/held", &[b'x'; 600_000])).collect();
    send_all(&mut client);
    for _ in 0..10 {
        assert_eq!(client.get("/quick").text(), "/quick");
    }
    unread.gate.open();
    for upload in uploads {
        assert_eq!(client.response(upload).body.len(), "/held".len() + 600_000);
    }
    let (mut client, pending) = unread.first;
    assert_eq!(client.response(pending).text(), "/held");
}

/// 32 clients that may send a window of 1 MiB each would need 32 MiB.
#[test]
fn what_clients_may_send_unread_is_bounded_for_all_of_them() {
    let unread = UnreadUploads::start("process.buffers_max = 1200\n");
    let mut other = unread.connect();
    assert_eq!(other.get("/quick").text(), "/quick");
    let before = unread.weir.anonymous_bytes();
    let mut clients = Vec::new();
    for _ in 0..32 {
        let mut client = unread.connect();
        let uploads: Vec<_> = (0..4).map(|_| client.send("POST", "/held", &[b'x'; 300_000])).collect();
        send_all(&mut client);
        clients.push((client, uploads));
    }
    let grown = unread.weir.anonymous_bytes().saturating_sub(before);
    let sent: u64 = clients.iter().map(|(client, _)| client.connection.stats().udp_tx.bytes).sum();
    // Each has 64 KiB, and all of them together the bytes of 600 buffers beside.
    assert!(sent < 32 * 80 * 1024 + 600 * 16 * 1024 + 1_200_000, "{sent} bytes were sent");
    assert!(grown < 24 * 1024 * 1024, "{grown} bytes are held");
    assert_eq!(other.get("/quick").text(), "/quick", "others are served");
    let mut last = unread.connect();
    assert_eq!(last.post("/quick", &[], &[b'x'; 300_000]).body.len(), "/quick".len() + 300_000);
    // The others leave: to end them in order, all had to make progress at once.
    unread.gate.open();
}
