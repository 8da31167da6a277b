//! Ends connections in every state: the effect on client and server, the counters, the log and the explanation.

use super::*;
use crate::harness::End;

/// Ends the connection of this client, which is in this state.
fn end(weir: &Weir, client: &Client, state: &str) {
    let before = cut(weir);
    let connection = connection(weir, client, state);
    let response = post(weir, &format!("/api/connections/{}/end", id(&connection)));
    assert_eq!(response.status, 200, "{}", response.text());
    let reply: Value = serde_json::from_str(&response.text()).expect("it is JSON");
    assert_eq!((&reply["count"], &reply["ended"][0]), (&1.into(), &connection["id"]), "{reply}");
    eventually("it is counted", || cut(weir) == before + 1.0);
    weir.line(&[
        "the connection was ended",
        &format!("connection={}", id(&connection)),
        &format!("state=\"{state}\""),
        "who=\"unix\"",
    ]);
    let gone = || connections(weir, "").iter().all(|other| other["id"] != connection["id"]);
    eventually("it is gone", gone);
}

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nAccept: application/json\r\n\r\n")
}

/// Reads the response for an ended connection, and checks that nothing follows.
fn assert_answered(client: &mut Client) -> Response {
    let response = client.response();
    assert_eq!((response.status, response.reason()), (503, Some("killed-by-operator")));
    assert!(response.closes(), "{response:?}");
    assert!(matches!(client.take_to_end(), (rest, End::Closed | End::Reset) if rest.is_empty()));
    response
}

#[test]
fn between_two_requests() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut ended = sent(&weir, get("/"));
    let mut stays = sent(&weir, get("/"));
    assert_eq!((ended.response().status, stays.response().status), (200, 200));
    end(&weir, &ended, "idle");
    assert_eq!(ended.take_to_end(), (Vec::new(), End::Closed));
    stays.send(get("/"));
    assert_eq!(stays.response().status, 200, "others go on");
    let failures = look(&weir, "/api/failures?limit=1");
    let failure = &failures["failures"][0];
    assert_eq!(
        (&failure["failure"]["reason"], &failure["kind"], &failure["method"]),
        (&"killed-by-operator".into(), &"no-request".into(), &serde_json::Value::Null)
    );
}

#[test]
fn before_a_request_is_whole() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut head = sent(&weir, "GET / HTTP/1.1\r\nHost:");
    end(&weir, &head, "request");
    assert_answered(&mut head);
    let expecting = start(&origin, "listener.web.proxy_protocol.from = [\"127.0.0.1\"]");
    let mut announcing = sent(&expecting, "PROXY ");
    end(&expecting, &announcing, "accept");
    assert!(matches!(announcing.take_to_end(), (rest, _) if rest.is_empty()));
}

#[test]
fn while_it_waits_for_a_slot_and_while_it_has_one() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "upstream.app.max_requests = 1");
    let mut served = sent(&weir, get("/left"));
    connection(&weir, &served, "response");
    let mut queued = sent(&weir, get("/queued"));
    let mut next = {
        connection(&weir, &queued, "queue");
        sent(&weir, get("/next"))
    };
    connection(&weir, &next, "queue");
    end(&weir, &queued, "queue");
    let response = assert_answered(&mut queued);
    assert_eq!(response.field("retry-after"), None, "to come again would not help");
    end(&weir, &served, "response");
    assert_answered(&mut served);
    assert!(matches!(origin.wait_for_end(0), End::Closed | End::Reset));
    assert_eq!(next.response().status, 200, "the slot is free again");
    assert_eq!(origin.targets(), ["/left", "/next"]);
    let reply = look(&weir, "/api/overview").to_string();
    assert!(reply.contains("\"killed-by-operator\""), "{reply}");
}

#[test]
fn its_report_names_the_operator() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut ended = sent(&weir, get("/left"));
    end(&weir, &ended, "response");
    let reply: Value =
        serde_json::from_str(&assert_answered(&mut ended).text()).expect("a page for programs");
    let report = weir.run_over_socket(&["why", reply["request_id"].as_str().expect("an id")]);
    let report = report.stdout;
    for part in [
        "GET /left for a.test",
        "answer     503 by Weir itself",
        "killed-by-operator: phase response, party weir",
        "The connection was closed by a command",
    ] {
        assert!(report.contains(part), "{part}: {report}");
    }
    assert_eq!(weir.metrics().sum("weir_server_failures_total", &["server=\"a\""]), 1.0);
    assert!(!weir.stderr().contains("ejected"), "the server is not to blame");
}

#[test]
fn while_a_body_is_on_its_way() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut sending = sent(&weir, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc");
    end(&weir, &sending, "send");
    assert_answered(&mut sending);
    let mut half = sent(&weir, get("/half"));
    assert_eq!(half.head().status(), Ok(200));
    assert_eq!(half.take(5), b"first");
    end(&weir, &half, "relay");
    assert_eq!(half.take_to_end(), (Vec::new(), End::Reset), "half a response must not look whole");
    gate.open();
}

#[test]
fn with_tls() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let (authority, weir) = start_with_tls(&origin);
    let connect = || authority.connect(weir.web());
    let mut silent = Client::connect(weir.web());
    end(&weir, &silent, "tls");
    assert!(matches!(silent.take_to_end(), (rest, _) if rest.is_empty()));
    let mut idle = connect();
    idle.send(get("/"));
    assert_eq!(idle.response().status, 200);
    end(&weir, &idle, "idle");
    assert_eq!(idle.take_to_end(), (Vec::new(), End::Closed), "with close_notify: nothing is missing");
    let mut held = connect();
    held.send(get("/left"));
    end(&weir, &held, "response");
    assert_answered(&mut held);
    let mut half = connect();
    half.send(get("/half"));
    assert_eq!(half.head().status(), Ok(200));
    assert_eq!(half.take(5), b"first");
    end(&weir, &half, "relay");
    assert!(matches!(half.take_to_end().1, End::Reset | End::Truncated));
    gate.open();
}

#[test]
fn in_a_tunnel() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut tunnel = sent(&weir, HANDSHAKE);
    assert_eq!(tunnel.head().status(), Ok(101));
    end(&weir, &tunnel, "tunnel");
    assert_eq!(tunnel.take_to_end(), (Vec::new(), End::Reset));
    assert_eq!(origin.wait_for_end(0), End::Reset);
    let failures = look(&weir, "/api/failures?limit=1");
    let failure = &failures["failures"][0];
    assert_eq!((&failure["kind"], &failure["path"]), (&"tunnel".into(), &"/socket".into()), "{failure}");
}

#[test]
fn of_tcp_connections() {
    let origin = Origin::start(|conn| {
        conn.send("hello")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin, "listener.web.protocol = \"tcp\"");
    let mut client = Client::connect(weir.web());
    assert_eq!(client.take(5), b"hello");
    end(&weir, &client, "tunnel");
    assert_eq!(client.take_to_end(), (Vec::new(), End::Reset));
    assert_eq!(origin.wait_for_end(0), End::Reset);
}

#[test]
fn while_it_waits_for_a_connection_or_for_memory() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("the system has a port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let text = config(&address, "upstream.app.tls.verify = false\nprocess.buffers_max = 16");
    let weir = Weir::start(&text.replace("workers = 2", "workers = 1"));
    let mut held: Vec<Client> = (0..8).map(|_| sent(&weir, get("/"))).collect();
    held.iter().for_each(|client| drop(connection(&weir, client, "connect")));
    let mut without = sent(&weir, get("/"));
    end(&weir, &without, "request");
    assert!(matches!(without.take_to_end(), (rest, _) if rest.is_empty()));
    let connecting = &mut held[0];
    end(&weir, connecting, "connect");
    assert_answered(connecting);
}

#[test]
fn all_that_are_on_a_server() {
    let gate = Gate::new();
    let (a, b) = (origin(&gate), origin(&gate));
    let servers = format!(
        "upstream.app.servers = [{{ name = \"a\", address = \"{}\" }}, {{ name = \"b\", address = \"{}\" }}]\n\
         upstream.app.balance = \"round-robin\"",
        a.address(),
        b.address()
    );
    let text = config("127.0.0.1:1", &servers);
    let text: Vec<&str> = text.lines().filter(|line| !line.contains("127.0.0.1:1\"")).collect();
    let weir = Weir::start(&text.join("\n"));
    let mut clients: Vec<Client> = (0..6).map(|_| sent(&weir, get("/held"))).collect();
    let mut idle = sent(&weir, get("/"));
    assert_eq!(idle.response().status, 200);
    let servers: Vec<bool> = clients
        .iter()
        .map(|client| connection(&weir, client, "response")["exchange"]["server"] == "a")
        .collect();
    let on_a = servers.iter().filter(|on_a| **on_a).count();
    assert!(on_a > 0 && on_a < 6, "{servers:?}");
    assert_eq!(weir.ask_socket("shutdown sessions server app/a"), "\n");
    weir.line(&["the connections on the server were ended", &format!("connections={on_a}"), "who=\"unix\""]);
    gate.open();
    for (client, on_a) in clients.iter_mut().zip(servers) {
        let response = client.response();
        assert_eq!(
            (response.status, response.reason().is_some()),
            if on_a { (503, true) } else { (200, false) }
        );
    }
    assert_eq!(cut(&weir), on_a as f64);
    idle.send(get("/"));
    assert_eq!(idle.response().status, 200, "it was on no server");
    assert_eq!(weir.ask_socket("shutdown sessions server app/a"), "\n", "there are none any more");
}
