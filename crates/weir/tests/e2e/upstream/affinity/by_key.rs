//! Session affinity by a key of the request, such as the id of a session in a header: learned from what servers say, or from the first server that gets it;
//! what becomes of it when servers go, when a session ends, and over reload and upgrade.

use crate::harness::http2::{H2C, Http2Client};
use crate::harness::scripts::session_server;
use crate::harness::{Client, Origin, Response, Weir, config_with, eventually};

const BY_SESSION: &str = "upstream.app.balance = \"round-robin\"\nupstream.app.affinity = { mode = \"learn\", key = \"{header.mcp-session-id}\", \
    forget_when = \"method == 'DELETE' && status < 300\" }\n";

fn ask(weir: &Weir, method: &str, session: Option<&str>) -> Response {
    let field = session.map_or(String::new(), |session| format!("Mcp-Session-Id: {session}\r\n"));
    Client::exchange(
        weir.web(),
        &format!("{method} /mcp HTTP/1.1\r\nHost: a.test\r\nContent-Length: 0\r\n{field}\r\n"),
    )
}

fn post(weir: &Weir, session: &str) -> Response {
    ask(weir, "POST", Some(session))
}

/// Begins a session, and says its id.
fn begin(weir: &Weir) -> String {
    let response = ask(weir, "POST", None);
    response.field("Mcp-Session-Id").expect("the server begins a session").to_owned()
}

fn counted(weir: &Weir, outcome: &str) -> f64 {
    weir.metrics().sum("weir_upstream_affinity_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn a_session_stays_on_the_server_that_has_begun_it() {
    let origins = ["a", "b", "c"].map(session_server);
    let servers = [origins[0].named("a"), origins[1].named("b"), origins[2].named("c")];
    let log = "access_log.output = \"file:{dir}/access.log\"\naccess_log.format = \"{affinity} {server}\"\n";
    let weir = Weir::start(&config_with(&servers, &format!("{BY_SESSION}{log}")));
    let sessions: Vec<String> = (0..6).map(|_| begin(&weir)).collect();
    for session in sessions.iter().rev().cycle().take(30) {
        assert_eq!(post(&weir, session).text(), session[..1]);
    }
    assert_eq!((counted(&weir, "new"), counted(&weir, "kept"), counted(&weir, "moved")), (6.0, 30.0, 0.0));
    let lines = weir.access_log(36);
    // Workers write their lines when they like.
    let count = |word: &str| lines.iter().filter(|line| line.starts_with(word)).count();
    assert_eq!((count("new "), count("kept ")), (6, 30), "{lines:?}");
}

#[test]
fn a_client_cannot_bind_what_no_server_has_said() {
    let origins = ["a", "b"].map(session_server);
    let servers = [origins[0].named("a"), origins[1].named("b")];
    let weir = Weir::start(&config_with(&servers, BY_SESSION));
    for _ in 0..6 {
        post(&weir, "made-up");
    }
    assert_eq!((counted(&weir, "new"), counted(&weir, "kept")), (6.0, 0.0));
    let seen: Vec<usize> = origins.iter().map(|origin| origin.requests().len()).collect();
    assert_eq!(seen, [3, 3], "it is balanced as any other request");
    let long = "x".repeat(6_000);
    assert_eq!(post(&weir, &long).status, 404, "a long key is no more than another");
}

#[test]
fn a_session_that_has_ended_is_forgotten() {
    let origins = ["a", "b"].map(session_server);
    let servers = [origins[0].named("a"), origins[1].named("b")];
    let weir = Weir::start(&config_with(&servers, BY_SESSION));
    let session = begin(&weir);
    assert_eq!(ask(&weir, "DELETE", Some(&session)).status, 204);
    let statuses: Vec<u16> = (0..4).map(|_| post(&weir, &session).status).collect();
    assert!(statuses.contains(&404), "it belongs to no server any more: {statuses:?}");
}

#[test]
fn it_survives_other_servers_a_reload_and_an_upgrade() {
    let origins = ["a", "b", "c", "d"].map(session_server);
    let named: Vec<String> =
        origins.iter().zip(["a", "b", "c", "d"]).map(|(origin, name)| origin.named(name)).collect();
    let mut weir = Weir::start(&config_with(&named[..3], BY_SESSION));
    let sessions: Vec<String> = (0..6).map(|_| begin(&weir)).collect();
    let check = |weir: &Weir| {
        for session in &sessions {
            assert_eq!(post(weir, session).text(), session[..1], "{session}");
        }
    };
    let others = [named[3].clone(), named[2].clone(), named[1].clone(), named[0].clone()];
    weir.reload(&config_with(&others, &BY_SESSION.replace("affinity = {", "affinity = { strict = true,")));
    check(&weir);
    weir.upgrade();
    let status = weir.wait_for_exit_of_the_first();
    assert!(status.success(), "{status}: {}", weir.stderr());
    check(&weir);
}

/// A server in the place of one that is gone has nothing of its sessions.
#[test]
fn a_new_server_does_not_inherit_the_sessions_of_one_that_is_gone() {
    let origins = ["a", "b", "c"].map(session_server);
    let named = [origins[0].named("a"), origins[1].named("b"), origins[2].named("c")];
    let weir = Weir::start(&config_with(&named[..2], BY_SESSION));
    let sessions: Vec<String> = (0..2).map(|_| begin(&weir)).collect();
    let of_a = sessions.iter().find(|session| session.starts_with('a')).expect("they take turns");
    eventually("nothing runs on it", || weir.metrics().sum("weir_worker_exchanges_open", &[]) == 0.0);
    weir.reload(&config_with(&named[1..2], BY_SESSION));
    weir.reload(&config_with(&named[1..], BY_SESSION));
    let servers = || [origins[1].requests().len(), origins[2].requests().len()];
    let before = servers();
    for _ in 0..4 {
        assert_eq!(post(&weir, of_a).status, 404, "its server is gone");
    }
    let [b, c] = servers();
    assert!(
        b - before[0] == 4 || c - before[1] == 4,
        "it stays where it went at first: {before:?}, {b}, {c}"
    );
}

#[test]
fn strict_sessions_get_no_other_server() {
    let origins = ["a", "b"].map(session_server);
    let named = [origins[0].named("a"), origins[1].named("b")];
    let strict = BY_SESSION.replace("affinity = {", "affinity = { strict = true,");
    for (keys, is_strict) in [(BY_SESSION, false), (&*strict, true)] {
        let weir = Weir::start(&config_with(&named, &format!("{keys}admin.changes = true\n")));
        let sessions: Vec<String> = (0..2).map(|_| begin(&weir)).collect();
        let of_a = sessions.iter().find(|session| session.starts_with('a')).expect("they take turns");
        let of_b = sessions.iter().find(|session| session.starts_with('b')).expect("they take turns");
        weir.set_mode("a", "maintenance");
        let response = post(&weir, of_a);
        if is_strict {
            assert_eq!((response.status, response.reason()), (503, Some("affinity-unavailable")));
            assert_eq!(counted(&weir, "unavailable"), 1.0);
        } else {
            assert_eq!(response.status, 404, "b does not know it");
            assert_eq!(counted(&weir, "moved"), 1.0);
        }
        assert_eq!(post(&weir, of_b).text(), "b");
        assert_eq!(ask(&weir, "POST", None).status, 200, "requests without a session go on");
    }
}

#[test]
fn without_a_source_the_first_server_has_the_key() {
    let origins = ["a", "b", "c"].map(Origin::serving);
    let named = [origins[0].named("a"), origins[1].named("b"), origins[2].named("c")];
    let keys = "upstream.app.balance = \"round-robin\"\n\
        map.tenant = { source = \"{query.user}\", default = \"{query.user}\", exact = { ann = \"one\", bob = \"one\" } }\n\
        upstream.app.affinity = { mode = \"stick\", key = \"{map.tenant}\" }\n";
    let weir = Weir::start(&config_with(&named, keys));
    let of = |user: &str| Client::get(weir.web(), &format!("/?user={user}")).text();
    let (one, eve) = (of("ann"), of("eve"));
    assert_ne!(one, eve, "they take turns");
    for _ in 0..4 {
        assert_eq!((of("ann"), of("bob"), of("eve")), (one.clone(), one.clone(), eve.clone()));
    }
    let unbound: std::collections::BTreeSet<String> =
        (0..6).map(|_| Client::get(weir.web(), "/").text()).collect();
    assert_eq!(unbound.len(), 3, "a request without a key belongs to no server");
}

#[test]
fn consistent_hashing_takes_placeholders() {
    let origins = ["a", "b", "c", "d"].map(Origin::serving);
    let named: Vec<String> =
        origins.iter().zip(["a", "b", "c", "d"]).map(|(origin, name)| origin.named(name)).collect();
    let keys = "upstream.app.balance = \"consistent-hash\"\nupstream.app.hash_key = \"{map.tenant}\"\n\
        upstream.app.hash_load_factor = \"off\"\n\
        map.tenant = { source = \"{query.user}\", default = \"{query.user}\", exact = { ann = \"one\", bob = \"one\" } }\n";
    let weir = Weir::start(&config_with(&named, keys));
    let of = |user: &str| Client::get(weir.web(), &format!("/?user={user}")).text();
    assert_eq!((of("ann"), of("bob")), (of("one"), of("one")));
    let servers: std::collections::BTreeSet<String> = (0..40).map(|user| of(&user.to_string())).collect();
    assert_eq!(servers.len(), 4);
}

/// A client of HTTP/2, and servers of HTTP/2, which are other processes of Weir.
#[test]
fn sessions_stay_over_http2_on_both_sides() {
    let origins = ["a", "b"].map(session_server);
    let behind =
        [&origins[0], &origins[1]].map(|origin| Weir::start(&config_with(&[origin.named("s")], H2C)));
    let named =
        |at: usize, name: &str| format!("{{ name = \"{name}\", address = \"{}\" }}", behind[at].web());
    let keys = format!("{H2C}{BY_SESSION}upstream.app.protocol = \"h2c\"\n");
    let weir = Weir::start(&config_with(&[named(0, "a"), named(1, "b")], &keys));
    let mut client = Http2Client::connect(weir.web());
    let mut begin = || {
        let stream = client.post("/mcp", &[]);
        client.data(stream, b"{}", true);
        client.response(stream).field("mcp-session-id").expect("the server begins a session").to_owned()
    };
    let sessions = [begin(), begin(), begin(), begin()];
    for session in sessions.iter().rev().cycle().take(12) {
        let stream = client.get_with("/mcp", &[("mcp-session-id", session)]);
        assert_eq!(client.response(stream).text(), session[..1]);
    }
    assert_eq!(counted(&weir, "kept"), 12.0);
}

/// A stream of events has its session as any other response, from its head on.
#[test]
fn a_stream_of_events_begins_a_session() {
    let gate = crate::harness::Gate::new();
    let of_origin = gate.clone();
    let streaming = Origin::start(move |conn| {
        conn.request()?;
        conn.send(
            "HTTP/1.1 200 OK\r\nMcp-Session-Id: s-1\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n",
        )?;
        of_origin.wait("the test has asked again");
        conn.send_last("data: 2\n\n")
    });
    let other = Origin::serving("other");
    let keys = BY_SESSION.replace("round-robin", "least-requests");
    let weir = Weir::start(&config_with(&[streaming.named("s"), other.named("o")], &keys));
    let mut client = Client::connect(weir.web());
    let mut others = 0;
    while streaming.requests().is_empty() {
        client = Client::connect(weir.web());
        client.send_get("/mcp");
        others += 1;
        eventually("a server has it", || streaming.requests().len() + other.requests().len() >= others);
    }
    eventually("it is learned", || counted(&weir, "new") >= 1.0);
    // While the stream lasts, its session is known: the next request of it goes to the same server, which is busier than the other one.
    let mut next = Client::connect(weir.web());
    next.send("GET /mcp HTTP/1.1\r\nHost: a.test\r\nMcp-Session-Id: s-1\r\n\r\n");
    streaming.wait_for_requests(2);
    gate.open();
    drop((client, next));
}
