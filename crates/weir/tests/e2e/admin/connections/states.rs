//! Each state, as the list shows it for a connection in that state.

use std::net::TcpListener;

use super::*;

#[test]
fn what_comes_before_an_exchange() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut idle = sent(&weir, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(idle.response().status, 200);
    let reply = connection(&weir, &idle, "idle");
    assert_eq!((&reply["requests"], &reply["exchange"]), (&1.into(), &Value::Null), "{reply}");
    assert_eq!(
        (&reply["listener"], &reply["protocol"], &reply["tls"]),
        (&"web".into(), &"http".into(), &false.into())
    );
    let head = sent(&weir, "GET /part?secret=1 HTTP/1.1\r\nHost:");
    let reply = connection(&weir, &head, "request");
    assert_eq!(reply["waits_for"], "the rest of the request head");
    assert_eq!(reply["exchange"]["path"], Value::Null, "{reply}");

    let expecting = start(&origin, "listener.web.proxy_protocol.from = [\"127.0.0.1\"]");
    let reply = connection(&expecting, &sent(&expecting, "PROXY "), "accept");
    assert_eq!(reply["waits_for"], "the PROXY header of the connection");
}

#[test]
fn a_handshake_that_does_not_begin() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let (authority, weir) = start_with_tls(&origin);
    let silent = Client::connect(weir.web());
    assert_eq!(connection(&weir, &silent, "tls")["waits_for"], "the TLS handshake");
    let mut client = authority.connect(weir.web());
    client.send_get("/held");
    let reply = connection(&weir, &client, "response");
    assert_eq!((&reply["tls"], &reply["exchange"]["path"]), (&true.into(), &"/held".into()));
    gate.open();
}

#[test]
fn an_exchange_on_its_way() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let held = sent(&weir, "GET /held?secret=1 HTTP/1.1\r\nHost: a.test\r\nx-request-id: mine\r\n\r\n");
    let reply = connection(&weir, &held, "response");
    assert_eq!(reply["waits_for"], "the head of the server's response");
    let exchange = &reply["exchange"];
    for (key, value) in
        [("method", "GET"), ("path", "/held"), ("host", "a.test"), ("upstream", "app"), ("server", "a")]
    {
        assert_eq!(exchange[key], value, "{reply}");
    }
    assert_eq!((&exchange["status"], &exchange["attempts"]), (&Value::Null, &1.into()), "{reply}");
    assert!(!reply.to_string().contains("secret"), "the query is not shown: {reply}");

    let body = sent(&weir, "POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nabc");
    let reply = connection(&weir, &body, "send");
    assert_eq!(reply["waits_for"], "the client to send more of the request body");
    let mut half = sent(&weir, "GET /half HTTP/1.1\r\nHost: a.test\r\n\r\n");
    assert_eq!(half.head().status(), Ok(200));
    let reply = connection(&weir, &half, "relay");
    assert_eq!(reply["waits_for"], "the server to send more of the response body");
    assert_eq!(reply["exchange"]["status"], 200, "{reply}");
    let mut tunnel = sent(&weir, HANDSHAKE);
    assert_eq!(tunnel.head().status(), Ok(101));
    tunnel.send("xyz");
    assert_eq!(tunnel.take(3), b"xyz");
    for _ in 0..3 {
        let reply = connection(&weir, &tunnel, "tunnel");
        let exchange = &reply["exchange"];
        assert_eq!((&exchange["path"], &exchange["server"]), (&"/socket".into(), &"a".into()), "{reply}");
        let bytes = exchange["bytes_in"].as_u64().expect("a number");
        assert_eq!(bytes, HANDSHAKE.len() as u64 + 3, "{reply}");
    }
    let on_a = connections(&weir, "?server=a");
    assert_eq!(on_a.len(), 4, "{}", weir.ask_socket("show sess"));
    assert_eq!(connections(&weir, "?server=a&min_age=1h").len(), 0);
    assert_eq!(connections(&weir, "?upstream=other").len(), 0);
    assert_eq!(connections(&weir, "?listener=web&limit=2").len(), 2);
    assert_eq!(connections(&weir, "?listener=other").len(), 0);
    gate.open();
}

#[test]
fn a_client_that_takes_nothing() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")?;
        while conn.send([0; 65_536]).is_some() {}
        Some(())
    });
    let weir = start(&origin, "");
    let mut client = Client::connect_narrow(weir.web());
    client.send_get("/");
    let mut waits_for = String::new();
    eventually("the exchange waits for the client", || {
        let reply = connection(&weir, &client, "relay");
        waits_for = reply["waits_for"].as_str().unwrap_or_default().to_owned();
        waits_for == "the client to take more of the response"
    });
}

#[test]
fn a_request_that_waits_for_a_slot() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "upstream.app.max_requests = 1");
    let first = sent(&weir, "GET /held HTTP/1.1\r\nHost: a.test\r\n\r\n");
    connection(&weir, &first, "response");
    let second = sent(&weir, "GET /next HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let reply = connection(&weir, &second, "queue");
    assert_eq!(reply["waits_for"], "a server with a free slot");
    assert_eq!((&reply["exchange"]["upstream"], &reply["exchange"]["server"]), (&"app".into(), &Value::Null));
    gate.open();
}

#[test]
fn a_server_that_does_not_shake_hands() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("the system has a port");
    let address = silent.local_addr().expect("it is bound").to_string();
    let weir = Weir::start(&config(&address, "upstream.app.tls.verify = false"));
    let client = sent(&weir, "GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let reply = connection(&weir, &client, "connect");
    assert_eq!(
        (&reply["waits_for"], &reply["exchange"]["server"]),
        (&"the connection to the server".into(), &"a".into())
    );
}

/// A Weir all of whose memory is taken by requests that are held.
fn without_memory(origin: &Origin, settings: &str) -> (Weir, Vec<Client>) {
    let route = "{ path = \"/given\", respond = { status = 204 } }";
    let settings = format!("process.buffers_max = 16\nlistener.web.route = [{route}]\n{settings}");
    let text = config(&origin.address().to_string(), &settings);
    let weir = Weir::start(&text.replace("workers = 2", "workers = 1"));
    let held: Vec<Client> =
        (0..8).map(|_| sent(&weir, "GET /held HTTP/1.1\r\nHost: a.test\r\n\r\n")).collect();
    held.iter().for_each(|client| drop(connection(&weir, client, "response")));
    (weir, held)
}

/// A client whose request waits for memory; no server is needed for its answer.
fn waiting_for_memory(weir: &Weir) -> Client {
    let client = sent(weir, "GET /given HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let reply = connection(weir, &client, "request");
    assert_eq!(reply["waits_for"], "a buffer of Weir to become free");
    client
}

#[test]
fn requests_that_wait_for_memory_go_on_when_others_end_together() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let (weir, mut held) = without_memory(&origin, "");
    let mut waiting: Vec<Client> = (0..3).map(|_| waiting_for_memory(&weir)).collect();
    assert_eq!(weir.ask_socket("shutdown sessions server app/a"), "\n");
    waiting.iter_mut().for_each(|client| assert_eq!(client.response().status, 204));
    held.iter_mut().for_each(|client| assert_eq!(client.response().reason(), Some("killed-by-operator")));
    gate.open();
}

#[test]
fn a_request_that_waits_for_memory_for_too_long() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let (weir, mut held) = without_memory(&origin, "listener.web.timeouts.request = \"1s\"");
    let mut client = sent(&weir, "GET /given HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let response = client.response();
    assert_eq!((response.status, response.reason()), (503, Some("buffer-limit")), "{response:?}");
    client.assert_closed();
    gate.open();
    held.iter_mut().for_each(|client| assert_eq!(client.response().status, 200));
    assert_eq!(Client::get(weir.web(), "/").status, 200, "what that one had beyond the limit is given back");
}

#[test]
fn a_client_that_leaves_while_it_waits_for_memory() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let (weir, held) = without_memory(&origin, "");
    waiting_for_memory(&weir).reset();
    eventually("its connection is over", || connections(&weir, "").len() == held.len());
    drop(waiting_for_memory(&weir));
    eventually("the close is noticed", || connections(&weir, "").len() == held.len());
    let mut half_closed = waiting_for_memory(&weir);
    half_closed.finish();
    let (answer, _end) = half_closed.take_to_end();
    assert!(answer.is_empty(), "it has left: {}", String::from_utf8_lossy(&answer));
    gate.open();
}

#[test]
fn tcp_connections_with_and_without_an_access_log() {
    let echo = Origin::start(|conn| {
        loop {
            let byte = conn.take(1)?;
            conn.send(byte)?;
        }
    });
    let log = "listener.web.access_log = { format = \"{bytes_in} {bytes_out}\", output = \"file:{dir}/access.log\" }";
    for settings in ["", log] {
        let weir = start(&echo, &format!("listener.web.protocol = \"tcp\"\n{settings}"));
        let mut client = sent(&weir, "abc");
        assert_eq!(client.take(3), b"abc");
        for _ in 0..2 {
            let reply = connection(&weir, &client, "tunnel");
            let exchange = &reply["exchange"];
            assert_eq!((&reply["protocol"], &exchange["kind"]), (&"tcp".into(), &"connection".into()));
            assert_eq!((&exchange["bytes_in"], &exchange["bytes_out"]), (&3.into(), &3.into()), "{reply}");
            assert_eq!((&exchange["path"], &exchange["server"]), (&Value::Null, &"a".into()), "{reply}");
        }
        drop(client);
        if !settings.is_empty() {
            assert_eq!(weir.access_log(1), ["3 3"]);
        }
    }
}

#[test]
fn of_more_than_one_group_all_answer_and_the_oldest_are_listed() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let clients: Vec<Client> = (0..500).map(|_| Client::connect(weir.web())).collect();
    let mut reply = Value::Null;
    eventually("all are there", || {
        reply = look(&weir, "/api/connections?limit=7");
        reply["matching"] == clients.len() && reply["asked"] == clients.len()
    });
    assert_eq!((&reply["silent"], &reply["silent_workers"]), (&0.into(), &0.into()));
    let opened: Vec<&str> = reply["connections"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|one| one["opened"].as_str())
        .collect();
    assert!(opened.len() == 7 && opened.is_sorted(), "{opened:?}");
    assert!(weir.ask_socket("show sess").lines().filter(|line| line.contains(" state=idle ")).count() == 500);
}
