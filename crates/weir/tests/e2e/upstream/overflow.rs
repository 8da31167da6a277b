//! Backups that get requests while the other servers are full (`when_full`), over each protocol, and what still waits.

use crate::harness::http2::server::Http2Server;
use crate::harness::scripts::{gated, tunnelling};
use crate::harness::websocket::{assert_byte_comes_back, open_tunnel};
use crate::harness::{Client, Gate, Http2Client, Origin, Weir, eventually, origin::ok};

/// Weir with one slot on `primary`, and one on `backup`.
fn weir(primary: &Origin, backup: &Origin, settings: &str) -> Weir {
    Weir::start(&config(primary, backup, settings))
}

fn config(primary: &Origin, backup: &Origin, settings: &str) -> String {
    format!(
        r#"
        admin.address = "127.0.0.1:0"
        listener.web = {{ address = "127.0.0.1:0", upstream = "app", http2.prior_knowledge = "allowed" }}
        [upstream.app]
        servers = [
            {{ name = "main", address = "{}" }},
            {{ name = "spare", address = "{}", backup = true }},
        ]
        max_requests = 1
        {settings}
        "#,
        primary.address(),
        backup.address()
    )
}

/// A server of HTTP/1 that answers with `name` once the gate is open.
fn named(name: &'static str, gate: &Gate) -> Origin {
    gated(gate, "/", name)
}

/// The same for HTTP/2.
fn named_http2(name: &'static str, gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            gate.wait("the test lets the request go on");
            server.respond(asked.stream, "200", name.as_bytes())?;
        }
    })
}

fn waiting(weir: &Weir) -> usize {
    weir.metrics().sum("weir_upstream_queue_length", &[]) as usize
}

/// Waits until nothing runs on the primary.
fn wait_until_idle(weir: &Weir) {
    let is_idle = || weir.metrics().sum("weir_server_attempts_open", &["server=\"main\""]) == 0.0;
    eventually("the primary is free", is_idle);
}

/// HTTP/1 and HTTP/2 on both sides: the second request goes to the backup while the first is on the primary, and the third waits for
/// whichever is free first.
#[test]
fn a_backup_takes_what_would_wait() {
    for (origin, protocol) in [(named as fn(_, &_) -> _, "http1"), (named_http2, "h2c")] {
        let (main_gate, spare_gate) = (Gate::new(), Gate::new());
        let (main, spare) = (origin("main", &main_gate), origin("spare", &spare_gate));
        let settings = format!("when_full = \"backup\"\nprotocol = \"{protocol}\"");
        let weir = weir(&main, &spare, &settings);
        let mut client = Http2Client::connect(weir.web());
        let first = client.get("/");
        client.settle();
        main.wait_for_connections(1);
        let mut second = Client::connect(weir.web());
        second.send_get("/");
        spare.wait_for_connections(1);
        let third = client.get("/");
        eventually("the third waits", || waiting(&weir) == 1);
        let mut gone = Client::connect(weir.web());
        gone.send_get("/");
        eventually("a fourth waits", || waiting(&weir) == 2);
        drop(gone);
        eventually("its client has gone", || waiting(&weir) == 1);
        spare_gate.open();
        assert_eq!(second.response().text(), "spare", "{protocol}");
        assert_eq!(client.response(third).text(), "spare", "{protocol}: the backup was free first");
        main_gate.open();
        assert_eq!(client.response(first).text(), "main", "{protocol}");
        wait_until_idle(&weir);
        let primary_again = client.fetch("/");
        assert_eq!(primary_again.text(), "main", "{protocol}: the primary has room");
        assert!(Client::get_by_address(weir.address("admin"), "/").text().contains("backups when full"));
    }
}

/// By default, a backup is only for when the others cannot take requests; a reload changes that for those that wait.
#[test]
fn requests_wait_for_a_primary_by_default_until_a_reload_says_otherwise() {
    let (main_gate, spare_gate) = (Gate::new(), Gate::new());
    spare_gate.open();
    let (main, spare) = (named("main", &main_gate), named("spare", &spare_gate));
    let weir = weir(&main, &spare, "");
    let mut first = Client::connect(weir.web());
    first.send_get("/");
    main.wait_for_connections(1);
    let mut second = Client::connect(weir.web());
    second.send_get("/");
    eventually("the second waits", || waiting(&weir) == 1);
    assert_eq!(spare.connections(), 0);
    weir.reload(&config(&main, &spare, "when_full = \"backup\""));
    assert_eq!(second.response().text(), "spare");
    main_gate.open();
    assert_eq!(first.response().text(), "main");
}

#[test]
fn tunnels_and_tcp_connections_go_to_the_backup() {
    let (main, spare) = (tunnelling(), tunnelling());
    let tcp = "[listener.tcp]\naddress = \"127.0.0.1:0\"\nprotocol = \"tcp\"\nupstream = \"app\"";
    let weir = weir(&main, &spare, &format!("when_full = \"backup\"\n{tcp}"));
    let mut first = open_tunnel(weir.web());
    assert_byte_comes_back(&mut first);
    let mut second = open_tunnel(weir.address("tcp"));
    assert_byte_comes_back(&mut second);
    assert_eq!((main.connections(), spare.connections()), (1, 1));
    drop(first);
    wait_until_idle(&weir);
    let mut third = open_tunnel(weir.web());
    assert_byte_comes_back(&mut third);
    assert_eq!((main.connections(), spare.connections()), (2, 1));
}

/// A failed attempt on the primary goes to the backup, as without `when_full`; one on a second primary that is full does, too, instead of
/// waiting for it.
#[test]
fn a_retry_goes_to_the_backup_when_the_other_primary_is_full() {
    let gate = Gate::new();
    let (busy, spare) = (named("busy", &gate), Origin::serving("spare"));
    let failing = Origin::start(|conn| {
        conn.request()?;
        conn.reset();
        None
    });
    let weir = Weir::start(&format!(
        r#"
        admin.address = "127.0.0.1:0"
        listener.web = {{ address = "127.0.0.1:0", upstream = "app" }}
        [upstream.app]
        servers = [
            {{ address = "{}" }},
            {{ address = "{}" }},
            {{ address = "{}", backup = true, max_requests = "off" }},
        ]
        max_requests = 1
        balance = "round-robin"
        ejection = "off"
        when_full = "backup"
        "#,
        busy.address(),
        failing.address(),
        spare.address()
    ));
    let mut clients: Vec<Client> = (0..2).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(|client| client.send_get("/"));
    busy.wait_for_connections(1);
    failing.wait_for_connections(1);
    spare.wait_for_requests(1);
    assert_eq!(Client::get(weir.web(), "/").text(), "spare");
    gate.open();
    let mut answers: Vec<String> = clients.iter_mut().map(|client| client.response().text()).collect();
    answers.sort_unstable();
    assert_eq!(answers, ["busy", "spare"]);
    assert_eq!(waiting(&weir), 0);
}

/// A session waits for its server for `affinity_wait`, then goes to the backup and stays there; with no wait it goes at once.
#[test]
fn a_session_goes_to_the_backup_when_it_no_longer_waits_for_its_server() {
    for wait in ["\"off\"", "\"50ms\""] {
        let gate = Gate::new();
        let held = gate.clone();
        let main = Origin::start(move |conn| {
            loop {
                if conn.request()?.target() == "/held" {
                    held.wait("the test lets the request go on");
                }
                conn.send(ok("main"))?;
            }
        });
        let spare = Origin::serving("spare");
        let settings =
            format!("when_full = \"backup\"\naffinity = {{ cookie = \"at\" }}\nqueue.affinity_wait = {wait}");
        let weir = weir(&main, &spare, &settings);
        let mut client = Client::connect(weir.web());
        let cookie = client.fetch("/").cookie();
        wait_until_idle(&weir);
        let mut busy = Client::connect(weir.web());
        busy.send_get("/held");
        main.wait_for_requests(2);
        let ask = format!("GET / HTTP/1.1\r\nHost: a.test\r\nCookie: {cookie}\r\n\r\n");
        client.send(&ask);
        let moved = client.response();
        assert_eq!(moved.text(), "spare", "{wait}");
        assert_ne!(moved.cookie(), cookie, "{wait}: the session is on the backup now");
        gate.open();
        assert_eq!(busy.response().text(), "main");
    }
}
