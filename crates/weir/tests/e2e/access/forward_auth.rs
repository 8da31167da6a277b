//! Another server decides about requests: what it is asked, and what its answers do.

use crate::harness::origin::ok;
use crate::harness::scripts::tunnelling;
use crate::harness::{
    CLOSED_PORT, Client, Gate, Http2Client, Origin, Request, Response, Weir, config_with, eventually,
};

/// A server that lets `Authorization: let-in` pass, as `ann` with two groups, and answers others as their `x-wish` says.
fn judge() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            conn.send(verdict(&request))?;
        }
    })
}

fn verdict(request: &Request) -> String {
    if request.field("authorization") == Some("let-in") {
        return "HTTP/1.1 200 OK\r\nX-User: ann\r\nX-Group: a\r\nX-Group: b\r\nX-Other: c\r\nContent-Length: 4\r\n\r\nfine".to_owned();
    }
    match request.field("x-wish").unwrap_or_default() {
        "redirect" => "HTTP/1.1 302 Found\r\nLocation: https://login.test/?a=b\r\nSet-Cookie: s=1\r\nSet-Cookie: t=2\r\nConnection: x-hop\r\nX-Hop: 1\r\nContent-Length: 0\r\n\r\n".to_owned(),
        "chunked" => "HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n".to_owned(),
        "empty" => "HTTP/1.1 204 No Content\r\n\r\n".to_owned(),
        "long" => format!("HTTP/1.1 403 Forbidden\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000)),
        "long-yes" => format!("HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n{}", "x".repeat(100_000)),
        "error" => "HTTP/1.1 500 Oh\r\nContent-Length: 2\r\n\r\noh".to_owned(),
        "switch" => "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n".to_owned(),
        "early" => "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Own realm=\"x\"\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\nlog in".to_owned(),
    }
}

/// Weir with the route `/`, about which the servers of `auth` decide.
fn start(origin: &Origin, judges: &str, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "process.workers = 1
             listener.web.access_log.format = \"{{status}} {{reason}} {{auth.status}} {{auth.reason}} {{server}}\"
             listener.web.access_log.output = \"file:{{dir}}/access.log\"
             listener.web.http2.prior_knowledge = \"allowed\"
             listener.web.request_headers.remove = [\"x-group\"]
             upstream.auth.servers = [{judges}]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             [listener.web.route.forward_auth]
             upstream = \"auth\"
             path = \"/verify?x=1\"
             response_headers = [\"X-User\", \"x-group\"]
             {keys}"
        ),
    ))
}

fn send(weir: &Weir, head: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("{head} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

const LET_IN: &str = "Authorization: let-in\r\n";

#[test]
fn a_request_that_may_pass_gets_fields_of_the_answer_and_no_others_by_these_names() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let weir = start(&origin, &judge.entry(), "");
    for _ in 0..3 {
        let forged = "X-User: root\r\nx-uSeR: root\r\nX-Group: wheel\r\nConnection: x-user, close\r\n";
        let response =
            send(&weir, "POST /a/../b?c=d", &format!("{LET_IN}{forged}Content-Length: 2\r\n\r\nhi"));
        assert_eq!((response.status, response.text()), (200, "served".to_owned()));
        let request = origin.last_request();
        assert_eq!(
            (request.fields().all("x-user"), request.fields().all("x-group")),
            (vec!["ann"], vec!["a", "b"])
        );
        assert_eq!((request.field("x-other"), request.text()), (None, "hi".to_owned()));
    }
    assert_eq!(judge.connections(), 1, "its connection is used again");
    let asked = judge.last_request();
    assert_eq!(asked.head.start_line, "GET /verify?x=1 HTTP/1.1");
    for (name, value) in [
        ("host", Some("a.test")),
        ("x-forwarded-method", Some("POST")),
        ("x-forwarded-uri", Some("/b?c=d")),
        ("x-forwarded-host", Some("a.test")),
        ("x-forwarded-proto", Some("http")),
        ("x-forwarded-for", Some("127.0.0.1")),
        ("authorization", Some("let-in")),
        ("content-length", None),
        ("x-user", None),
    ] {
        assert_eq!(asked.field(name), value, "{name}");
    }
    assert!(
        asked.field("x-request-id").is_some()
            && asked.field("x-request-id") == origin.last_request().field("x-request-id")
    );
    assert!(weir.access_log(3).iter().all(|line| line == "200 - 200 - a"));
}

/// Names that servers of other products read, by values of the request, and never what a client sends by them.
#[test]
fn the_question_has_the_headers_of_the_config() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let headers = r#"headers = { X-Original-URL = "{scheme}://{authority}{path}{query}", X-Original-Method = "{method}", X-Real-IP = "{client_address}", X-Empty = "{header.x-none}" }"#;
    let entry = judge.entry();
    let weir = start(&origin, &entry, headers);
    let forged = "X-Original-URL: http://a.test/public\r\nx-real-ip: 192.0.2.1\r\nX-Empty: 1\r\n";
    send(&weir, "PUT /public/%2e%2e/secret?a", &format!("{LET_IN}{forged}Content-Length: 2\r\n\r\nhi"));
    let asked = judge.last_request();
    for (name, values) in [
        ("x-original-url", vec!["http://a.test/secret?a"]),
        ("x-original-method", vec!["PUT"]),
        ("x-real-ip", vec!["127.0.0.1"]),
        ("x-empty", vec![]),
    ] {
        assert_eq!(asked.fields().all(name), values, "{name}");
    }
    assert_eq!(
        origin.last_request().field("x-real-ip"),
        None,
        "nor does the server get what an untrusted client says"
    );
}

#[test]
fn a_client_cannot_mislead_the_server_that_decides() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let weir = start(&origin, &judge.entry(), "");
    let forged = "X-Forwarded-Uri: /public\r\nX-Forwarded-Method: GET\r\nX-Original-URL: http://a.test/public\r\nX-Original-URI: /public\r\n\
         X-Auth-Request-Redirect: http://evil.test/\r\n\
         X_Forwarded_Uri: /public\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Host: b.test\r\nIf-None-Match: *\r\nRange: bytes=0-1\r\n\
         Expect: 100-continue\r\nContent-Type: a/b\r\nContent-Length: 2\r\n";
    send(&weir, "PUT /public/%2e%2e/secret", &format!("{LET_IN}{forged}\r\nhi"));
    let asked = judge.last_request();
    for (name, values) in [
        ("x-forwarded-uri", vec!["/secret"]),
        ("x-forwarded-method", vec!["PUT"]),
        ("x-forwarded-for", vec!["127.0.0.1"]),
        ("x-forwarded-host", vec!["a.test"]),
        ("x-original-url", vec![]),
        ("x-original-uri", vec![]),
        ("x-auth-request-redirect", vec![]),
        ("x_forwarded_uri", vec![]),
        ("if-none-match", vec![]),
        ("range", vec![]),
        ("expect", vec![]),
        ("content-type", vec![]),
    ] {
        assert_eq!(asked.fields().all(name), values, "{name}");
    }
}

#[test]
fn other_answers_go_to_the_client() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let weir = start(&origin, &judge.entry(), "");
    let mut client = Client::connect(weir.web());
    let mut ask = |fields: &str| {
        client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"));
        client.response()
    };
    let response = ask("");
    assert_eq!((response.status, response.text()), (401, "log in".to_owned()));
    assert_eq!(response.field("www-authenticate"), Some("Own realm=\"x\""));
    assert_eq!(response.fields().all("content-length"), ["6"]);
    let response = ask("X-Wish: redirect\r\n");
    assert_eq!((response.status, response.field("location")), (302, Some("https://login.test/?a=b")));
    assert_eq!((response.fields().all("set-cookie"), response.field("x-hop")), (vec!["s=1", "t=2"], None));
    let response = ask("X-Wish: chunked\r\n");
    assert_eq!((response.status, response.text()), (403, "hello".to_owned()));
    assert_eq!(ask("X-Wish: error\r\n").status, 500);
    assert_eq!(ask("X-Wish: early\r\n").status, 401);
    assert_eq!(ask("X-Wish: empty\r\n").status, 200, "204 lets it pass");
    assert_eq!(origin.requests().len(), 1);
    let log = weir.access_log(6);
    assert_eq!((&*log[0], &*log[5]), ("401 - 401 - -", "200 - 204 - a"));
    // With a body of the request that is still to come.
    let response = send(&weir, "POST /", "Content-Length: 1000000\r\n\r\nhi");
    assert!(response.status == 401 && response.closes());
    // And HEAD.
    let mut client = Client::connect(weir.web());
    client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
    let response = client.response_to("HEAD");
    assert_eq!((response.status, response.field("content-length")), (401, Some("6")));
    client.send(format!("GET / HTTP/1.1\r\nHost: a.test\r\n{LET_IN}\r\n"));
    assert_eq!(client.response().status, 200, "the connection goes on");
}

#[test]
fn http_2_and_upgrades() {
    let (origin, judge) = (tunnelling(), judge());
    let weir = start(&origin, &judge.entry(), "");
    let upgrade =
        "Connection: upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    assert_eq!(send(&weir, "GET /", upgrade).status, 401);
    assert_eq!(send(&weir, "GET /", &format!("{upgrade}{LET_IN}")).status, 101);
    let asked = judge.last_request();
    assert_eq!((asked.field("upgrade"), asked.field("sec-websocket-key")), (None, None));
    let origin = Origin::serving("served");
    let weir = start(&origin, &judge.entry(), "");
    let mut client = Http2Client::connect(weir.web());
    let streams: Vec<(u32, u16)> = (0..20)
        .map(|number| match number % 2 {
            0 => (client.get_with("/x", &[("authorization", "let-in"), ("x-user", "root")]), 200),
            _ => (client.get_with("/x", &[("x-wish", "chunked")]), 403),
        })
        .collect();
    for (stream, status) in streams {
        let response = client.response(stream);
        assert_eq!(response.status, status);
        assert_eq!(response.text(), if status == 200 { "served" } else { "hello" });
    }
    let stream = client.post("/", &[("authorization", "let-in")]);
    client.data(stream, "body", true);
    assert_eq!(client.response(stream).status, 200);
    let requests = origin.requests();
    assert_eq!(requests.len(), 11);
    assert!(requests.iter().all(|request| request.fields().all("x-user") == ["ann"]));
    assert_eq!(requests[10].text(), "body");
}

#[test]
fn without_an_answer_nothing_passes() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let silent = Origin::start(|conn| {
        conn.request()?;
        conn.wait_for_end();
        None
    });
    let broken = Origin::answering("HTTP/1.1 2x0 Oh\r\n\r\n");
    let closed = format!("\"{CLOSED_PORT}\"");
    for (judges, wish, keys, status, reason, inner) in [
        (closed, "", "", 502, "auth-failed", "connect-refused"),
        (broken.entry(), "", "", 502, "auth-failed", "response-bad-status-line"),
        (silent.entry(), "", "", 504, "auth-timed-out", "response-timeout"),
        (judge.entry(), "long", "", 502, "auth-failed", "response-excess-data"),
        (judge.entry(), "switch", "", 502, "auth-failed", "response-unexpected-upgrade"),
        (judge.entry(), "long", "body_size = \"99999B\"", 502, "auth-failed", "response-excess-data"),
    ] {
        let times = "[upstream.auth.timeouts]\nresponse = \"300ms\"\n[upstream.auth.retry]\nattempts_max = 1";
        let weir = start(&origin, &judges, &format!("{keys}\n{times}"));
        let response = send(&weir, "GET /", &format!("X-Wish: {wish}\r\n"));
        assert_eq!((response.status, response.reason()), (status, Some(reason)), "{judges} {wish}");
        assert_eq!(weir.access_log(1), [format!("{status} {reason} - {inner} -")]);
        assert_eq!(origin.connections(), 0);
    }
    let weir = start(&origin, &judge.entry(), "body_size = \"100000B\"");
    assert_eq!(send(&weir, "GET /", "X-Wish: long\r\n").text().len(), 100_000);
    // Of an answer that lets the request pass, the body does not matter.
    let weir = start(&origin, &judge.entry(), "");
    assert_eq!(send(&weir, "GET /", "X-Wish: long-yes\r\n").status, 200);
}

#[test]
fn an_answer_has_a_time_of_its_own() {
    let (origin, gate) = (Origin::serving("served"), Gate::new());
    let held = gate.clone();
    let judge = Origin::start(move |conn| {
        loop {
            if conn.request()?.field("x-wish").is_some() {
                held.wait("the time is over");
            }
            conn.send(ok("fine"))?;
        }
    });
    let weir = start(&origin, &judge.entry(), "timeout = \"300ms\"");
    let response = send(&weir, "GET /", "X-Wish: late\r\n");
    assert_eq!((response.status, response.reason()), (504, Some("auth-timed-out")));
    assert_eq!(weir.access_log(1), ["504 auth-timed-out - response-timeout -"]);
    gate.open();
    // It bounds the answer, not the exchange behind it.
    assert_eq!(send(&weir, "GET /", "").text(), "served");
}

#[test]
fn with_fail_open_requests_pass_without_an_answer() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let forged = "X-User: root\r\n";
    for (judges, wish, status) in
        [(format!("\"{CLOSED_PORT}\""), "", 200), (judge.entry(), "error", 200), (judge.entry(), "", 401)]
    {
        let weir = start(&origin, &judges, "fail_open = true");
        let response = send(&weir, "GET /", &format!("X-Wish: {wish}\r\n{forged}"));
        assert_eq!(response.status, status, "{judges} {wish}");
    }
    assert_eq!(origin.requests().len(), 2);
    assert!(
        origin.requests().iter().all(|request| request.field("x-user").is_none()),
        "no one vouches for it"
    );
}

#[test]
fn a_client_that_leaves_ends_the_question() {
    let (origin, gate) = (Origin::serving("served"), Gate::new());
    let held = gate.clone();
    let judge = Origin::start(move |conn| {
        conn.request()?;
        held.wait("the client has left");
        conn.wait_for_end();
        None
    });
    let weir = start(&origin, &judge.entry(), "");
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    judge.wait_for_requests(1);
    client.reset();
    gate.open();
    judge.wait_for_end(0);
    assert_eq!(weir.access_log(1), ["499 client-reset - client-reset -"]);
    assert_eq!(origin.connections(), 0);
}

#[test]
fn the_question_takes_a_slot_and_waits_for_one() {
    let (origin, gate) = (Origin::serving("served"), Gate::new());
    let held = gate.clone();
    let judge = Origin::start(move |conn| {
        loop {
            conn.request()?;
            held.wait("the test goes on");
            conn.send(ok("fine"))?;
        }
    });
    let server = format!("{{ address = \"{}\", max_requests = 1 }}", judge.address());
    let weir = start(&origin, &server, "");
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(weir.web())).collect();
    clients.iter_mut().for_each(|client| client.send_get("/"));
    eventually("two questions wait in the queue", || {
        weir.metrics().sum("weir_upstream_queue_length", &["upstream=\"auth\""]) > 1.5
    });
    gate.open();
    for client in &mut clients {
        assert_eq!(client.response().status, 200);
    }
    eventually("the questions are counted", || {
        weir.metrics().sum("weir_upstream_requests_total", &["upstream=\"auth\""]) > 2.5
    });
}

/// What a trusted proxy says of its client is in each question, whatever `request_headers` names; what a client says of itself is not.
#[test]
fn a_question_tells_of_the_client_behind_a_proxy() {
    let (origin, judge) = (Origin::serving("served"), judge());
    for (trusted, expected) in [
        ("127.0.0.1", [Some("192.0.2.7, 127.0.0.1"), Some("https"), Some("site.test"), Some("444")]),
        ("192.0.2.1", [Some("127.0.0.1"), Some("http"), Some("a.test"), None]),
    ] {
        let weir = Weir::start(&config_with(
            &[origin.named("a")],
            &format!(
                "listener.web.trusted_proxies = [\"{trusted}\"]
                 upstream.auth.servers = [{}]
                 [[listener.web.route]]
                 path = \"/\"
                 upstream = \"app\"
                 forward_auth = {{ upstream = \"auth\", request_headers = [\"authorization\"] }}",
                judge.entry()
            ),
        ));
        let said = "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-Proto: https\r\nX-Forwarded-Host: site.test\r\n\
                    X-Forwarded-Port: 444\r\nForwarded: for=192.0.2.8\r\nX-Other: 1\r\n";
        assert_eq!(send(&weir, "GET /", &format!("{LET_IN}{said}")).status, 200);
        let question = judge.last_request();
        let names = ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "x-forwarded-port"];
        let told = names.map(|name| question.field(name));
        assert_eq!(told[..3], expected[..3], "{trusted}");
        assert_eq!(told[3] == Some("444"), expected[3].is_some(), "{trusted}");
        assert_eq!((question.field("forwarded"), question.field("x-other")), (None, None), "{trusted}");
    }
}

#[test]
fn passwords_come_first_and_preflights_are_not_asked_about() {
    let (origin, judge) = (Origin::serving("served"), judge());
    let weir = Weir::start(&config_with(
        &[origin.named("a")],
        &format!(
            "upstream.auth.servers = [{}]
             [[listener.web.route]]
             path = \"/\"
             upstream = \"app\"
             basic = {{ users = {{ ann = \"$$2y$$05$$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm\" }} }}
             forward_auth = {{ upstream = \"auth\", request_headers = [\"x-wish\"] }}
             cors = {{ origins = [\"https://app.test\"] }}",
            judge.entry()
        ),
    ));
    assert_eq!(send(&weir, "GET /", "").reason(), Some("credentials-missing"));
    let preflight = "Origin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n";
    assert_eq!(send(&weir, "OPTIONS /", preflight).status, 204);
    assert_eq!(judge.connections(), 0);
    let right = "Authorization: Basic YW5uOnMzY3JldA==\r\nX-Wish: chunked\r\nOrigin: https://app.test\r\n";
    let response = send(&weir, "GET /", right);
    assert_eq!((response.status, response.text()), (403, "hello".to_owned()));
    assert_eq!(response.field("access-control-allow-origin"), Some("https://app.test"));
    assert_eq!(
        (judge.last_request().field("x-wish"), judge.last_request().field("authorization")),
        (Some("chunked"), None)
    );
}
