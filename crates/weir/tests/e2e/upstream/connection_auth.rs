//! NTLM and Negotiate authenticate a connection: its handshake passes through Weir, and no other client's request is ever
//! answered as the authenticated user.

use crate::harness::{Client, Connection, Gate, Origin, Response, Weir, config_of, eventually, origin::ok};

const TWO_WORKERS: &str = "process.workers = 2\n";
const ONE_WORKER: &str = "process.workers = 1\n";

/// An origin that knows the user of each connection, like a server with NTLM: the first leg gets a challenge of the connection's own,
/// the second must name it, and every later request is answered with the name of the user.
fn ntlm(gate: &Gate) -> Origin {
    let gate = gate.clone();
    Origin::start(move |conn| serve(conn, &gate))
}

fn serve(conn: &mut Connection, gate: &Gate) -> Option<()> {
    let mut user = None;
    let mut challenge = None;
    loop {
        let request = conn.request()?;
        if request.fields().lists("connection", "close") {
            return conn.send(unauthorised("NTLM").replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
        }
        match request.target() {
            "/held" => gate.wait("the test has seen the waiting request"),
            "/last" => return conn.send(ok(user.as_deref().unwrap_or("none"))),
            _ => {}
        }
        let credentials = request.field("Authorization").and_then(|value| value.strip_prefix("NTLM "));
        match credentials.map(|token| token.split_once(' ').unwrap_or((token, ""))) {
            Some(("T1", _)) => {
                let token = format!("challenge-{:p}-{}", conn, conn.index);
                conn.send(unauthorised(&format!("NTLM {token}")))?;
                challenge = Some(token);
                continue;
            }
            Some((name, answer)) if challenge.as_deref() == Some(answer) => user = Some(name.to_owned()),
            Some(_) => user = None,
            None => {}
        }
        match &user {
            Some(name) => conn.send(ok(name))?,
            None => conn.send(unauthorised("Basic realm=\"a\", NTLM"))?,
        }
    }
}

fn unauthorised(challenges: &str) -> String {
    format!("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: {challenges}\r\nContent-Length: 0\r\n\r\n")
}

fn get(client: &mut Client, target: &str, credentials: &str) -> Response {
    let field =
        if credentials.is_empty() { String::new() } else { format!("Authorization: {credentials}\r\n") };
    client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{field}\r\n"));
    client.response()
}

/// Authenticates as `name`, in as many legs as it takes.
fn log_in(client: &mut Client, name: &str) {
    assert_eq!(get(client, "/first", "").status, 401);
    let challenge = challenge(client);
    let granted = get(client, "/login", &format!("NTLM {name} {challenge}"));
    assert_eq!((granted.status, granted.text()), (200, name.to_owned()));
}

/// The challenge that answers the first leg.
fn challenge(client: &mut Client) -> String {
    let challenged = get(client, "/", "NTLM T1 ");
    assert_eq!(challenged.status, 401);
    let challenge = challenged.field("WWW-Authenticate").expect("a challenge");
    challenge.strip_prefix("NTLM ").expect("a token").to_owned()
}

/// Two users and strangers ask in turn, each on connections of their own.
fn assert_each_client_is_itself(weir: &Weir, rounds: usize) {
    let mut users = ["alice", "bob"].map(|name| (name, Client::connect(weir.web())));
    for (name, client) in &mut users {
        log_in(client, name);
    }
    let mut stranger = Client::connect(weir.web());
    for _ in 0..rounds {
        for (name, client) in &mut users {
            let answer = get(client, "/page", "");
            assert_eq!((answer.status, answer.text()), (200, (*name).to_owned()));
        }
        assert_eq!(get(&mut stranger, "/page", "").status, 401);
        assert_eq!(Client::get(weir.web(), "/page").status, 401);
    }
}

#[test]
fn two_users_and_strangers_are_never_taken_for_each_other() {
    for workers in [ONE_WORKER, TWO_WORKERS] {
        let origin = ntlm(&Gate::new());
        assert_each_client_is_itself(&Weir::proxying_with(&origin, workers), 50);
    }
}

#[test]
fn a_handshake_stays_on_its_server_whatever_the_balancer_says() {
    for settings in [
        "balance = \"round-robin\"",
        "balance = \"random\"",
        "balance = \"round-robin\"\naffinity = {}",
        "balance = \"round-robin\"\npool.idle_max = 0",
        "balance = \"round-robin\"\npool.requests_max = 1",
        "balance = \"round-robin\"\nmax_requests = 1",
        "balance = \"consistent-hash\"\nhash_key = \"path\"",
    ] {
        let origins: Vec<Origin> = (0..3).map(|_| ntlm(&Gate::new())).collect();
        let weir = Weir::start(&config_of(&origins, settings));
        assert_each_client_is_itself(&weir, 10);
    }
}

#[test]
fn an_authenticated_client_waits_for_its_server() {
    let gate = Gate::new();
    let origins = [ntlm(&gate), ntlm(&gate)];
    let weir = Weir::start(&config_of(&origins, "max_requests = 1\nbalance = \"round-robin\""));
    let mut alice = Client::connect(weir.web());
    log_in(&mut alice, "alice");
    let own =
        origins.iter().position(|origin| !origin.requests().is_empty()).expect("one server has the request");
    // Both servers are full.
    let mut held = [Client::connect(weir.web()), Client::connect(weir.web())];
    for client in &mut held {
        client.send_get("/held");
    }
    for (number, origin) in origins.iter().enumerate() {
        origin.wait_for_requests(if number == own { 4 } else { 1 });
    }
    alice.send_get("/page");
    eventually("the request waits", || weir.queue_length() == 1);
    gate.open();
    assert_eq!(alice.response().text(), "alice");
    for client in &mut held {
        assert_eq!(client.response().status, 401);
    }
}

#[test]
fn credentials_alone_keep_a_connection_from_others() {
    // One leg is enough for Kerberos, and nothing in the answer shows that the connection is authenticated.
    for field in ["Authorization", "Proxy-Authorization"] {
        for scheme in ["Negotiate", "negotiate", "NTLM"] {
            let origin = Origin::serving("as the first client");
            let weir = Weir::proxying_with(&origin, ONE_WORKER);
            let mut user = Client::connect(weir.web());
            user.send(format!("GET /own HTTP/1.1\r\nHost: a\r\n{field}: {scheme} dG9rZW4=\r\n\r\n"));
            assert_eq!(user.response().status, 200);
            let mut stranger = Client::connect(weir.web());
            for is_stranger in [true, false, true] {
                let client = if is_stranger { &mut stranger } else { &mut user };
                assert_eq!(client.fetch("/").status, 200);
            }
            let connections: Vec<usize> =
                origin.requests().iter().map(|request| request.connection).collect();
            assert_eq!(connections, [0, 1, 0, 1], "{field}: {scheme}");
            // What belonged to a client goes with it.
            drop(user);
            origin.wait_for_end(0);
        }
    }
}

#[test]
fn challenges_alone_keep_a_connection_from_others() {
    for (status, field, is_private) in [
        (401, "WWW-Authenticate: NTLM", true),
        (401, "www-authenticate: Basic realm=\"x\"\r\nWWW-Authenticate: negotiate", true),
        (407, "Proxy-Authenticate: Digest realm=\"x\", NTLM", true),
        (401, "WWW-Authenticate: Basic realm=\"NTLM\"", false),
        (403, "WWW-Authenticate: NTLM", false),
        (200, "X-Authenticate: NTLM", false),
    ] {
        let origin =
            Origin::answering(format!("HTTP/1.1 {status} X\r\n{field}\r\nContent-Length: 0\r\n\r\n"));
        let weir = Weir::proxying_with(&origin, ONE_WORKER);
        let mut clients = [Client::connect(weir.web()), Client::connect(weir.web())];
        for _ in 0..3 {
            for client in &mut clients {
                assert_eq!(client.fetch("/").status, status);
            }
        }
        let connections: Vec<usize> = origin.requests().iter().map(|request| request.connection).collect();
        let expected = if is_private { [0, 1, 0, 1, 0, 1] } else { [0; 6] };
        assert_eq!(connections, expected, "{status} {field}");
    }
}

#[test]
fn credentials_of_requests_do_not_pin_connections() {
    let origin = Origin::serving("shared");
    let weir = Weir::proxying_with(&origin, ONE_WORKER);
    for credentials in ["Basic YTpi", "Bearer NTLM", "Digest username=\"NTLM\""] {
        assert_eq!(get(&mut Client::connect(weir.web()), "/", credentials).status, 200);
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_client_whose_connection_died_authenticates_again() {
    let origin = ntlm(&Gate::new());
    let weir = Weir::proxying_with(&origin, ONE_WORKER);
    let mut users = ["alice", "bob"].map(|name| (name, Client::connect(weir.web())));
    for (name, client) in &mut users {
        log_in(client, name);
    }
    let [(_, alice), (_, bob)] = &mut users;
    assert_eq!(get(alice, "/last", "").text(), "alice");
    assert_eq!(get(alice, "/page", "").status, 401, "the connection is gone, and that of Bob is private");
    assert_eq!(get(bob, "/page", "").text(), "bob");
    // In the middle of a handshake, too: the challenge of a dead connection is worth nothing on another one.
    let old = challenge(alice);
    assert_eq!(get(alice, "/last", "").text(), "none");
    assert_eq!(get(alice, "/page", &format!("NTLM alice {old}")).status, 401);
    log_in(alice, "alice");
    assert_eq!(get(bob, "/page", "").text(), "bob");
}

#[test]
fn a_reload_interrupts_no_handshake() {
    for settings in ["", "max_requests = 3\n"] {
        let origins = [ntlm(&Gate::new()), ntlm(&Gate::new())];
        let weir = Weir::start(&config_of(&origins, settings));
        let mut alice = Client::connect(weir.web());
        assert_eq!(get(&mut alice, "/first", "").status, 401);
        let challenge = challenge(&mut alice);
        weir.reload(&config_of(&origins, &format!("{settings}timeouts.queue = \"7s\"\n")));
        let granted = get(&mut alice, "/login", &format!("NTLM alice {challenge}"));
        assert_eq!((granted.status, granted.text()), (200, "alice".to_owned()));
    }
}

#[test]
fn applications_of_one_site_authenticate_by_themselves() {
    let origins = [ntlm(&Gate::new()), ntlm(&Gate::new())];
    let weir = Weir::start(&format!(
        "listener.web = {{ address = \"127.0.0.1:0\", route = [{{ path = \"/a\", upstream = \"a\" }}, {{ path = \"/b\", upstream = \"b\" }}] }}\n\
         upstream.a.servers = [\"{}\"]\nupstream.b.servers = [\"{}\"]\n",
        origins[0].address(),
        origins[1].address()
    ));
    let mut client = Client::connect(weir.web());
    for (target, name) in [("/a", "alice"), ("/b", "bob")] {
        let challenged = get(&mut client, target, "NTLM T1 ");
        let token = challenged.field("WWW-Authenticate").expect("a challenge").to_owned();
        assert_eq!(get(&mut client, target, &token.replace("NTLM", &format!("NTLM {name}"))).text(), name);
    }
    for _ in 0..5 {
        assert_eq!(get(&mut client, "/a", "").text(), "alice");
        assert_eq!(get(&mut client, "/b", "").text(), "bob");
    }
}
