//! Affinity that two nodes share through a real Redis: the sessions of one are known to the other, and each has its own without the store.

use super::limit_store::{ask as ask_store, redis};
use crate::harness::foreign_program::free_address;
use crate::harness::scripts::session_server;
use crate::harness::{Client, Response, Weir, config_with, eventually};

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

#[test]
fn nodes_share_what_they_have_learned() {
    let origins = ["a", "b", "c"].map(session_server);
    let named = [origins[0].named("a"), origins[1].named("b"), origins[2].named("c")];
    let at = free_address();
    let store = redis(at, &[]);
    let shared = BY_SESSION.replace("affinity = {", "affinity = { shared = \"nodes\",");
    let keys = format!("{shared}store.nodes.address = \"redis://{at}\"\n");
    let reordered = [named[2].clone(), named[1].clone(), named[0].clone()];
    let (one, other) =
        (Weir::start(&config_with(&named, &keys)), Weir::start(&config_with(&reordered, &keys)));
    let count = || ask_store(at, &["DBSIZE"]).parse::<usize>().unwrap_or(0);
    eventually("sessions of both nodes are in the store", || {
        [&one, &other].iter().for_each(|node| drop(begin(node)));
        count() >= 4
    });
    for (node, others) in [(&one, &other), (&other, &one)] {
        for _ in 0..6 {
            let before = count();
            let session = begin(node);
            eventually("it is in the store", || count() > before);
            assert_eq!(post(others, &session).text(), session[..1], "{session}");
        }
    }
    let names = ask_store(at, &["--raw", "KEYS", "*"]);
    assert!(
        names.lines().all(|name| name.starts_with("weir:affinity:app:") && !name.contains("a-0")),
        "{names}"
    );
    // The end of a session ends it on all nodes that do not remember it themselves.
    let (before, session) = (count(), begin(&one));
    eventually("it is in the store", || count() > before);
    assert_eq!(ask(&one, "DELETE", Some(&session)).status, 204);
    eventually("it is in the store no more", || count() == before);
    // Without the store, a node knows its own sessions, and answers as it would without sharing.
    drop(store);
    one.line(&["affinity is not shared any more", "store=\"nodes\""]);
    let own = begin(&one);
    for _ in 0..3 {
        assert_eq!(post(&one, &own).text(), own[..1]);
    }
    assert_eq!(post(&one, "made-up").status, 404);
}
