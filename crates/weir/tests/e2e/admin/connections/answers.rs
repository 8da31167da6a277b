//! Queries: the commands of HAProxy, `weir ctl`, `weir why`; unknown connections, and the permission to end them.

use super::*;

/// The ids that clients send are taken.
const ACCEPT: &str = "listener.web.request_id.accept = \"always\"";

fn held(weir: &Weir, target: &str, request_id: &str) -> Client {
    sent(weir, format!("GET {target} HTTP/1.1\r\nHost: a.test\r\nX-Request-Id: {request_id}\r\n\r\n"))
}

#[test]
fn the_socket_lists_them_in_the_format_of_haproxy() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, ACCEPT);
    assert_eq!(weir.ask_socket("show sess"), "\n");
    let mut client = held(&weir, "/left?x=1", "mine");
    connection(&weir, &client, "response");
    let lines = weir.ask_socket("show sess");
    let port = client.local_port();
    let (pointer, rest) = lines.split_once(": ").expect("a pointer comes first");
    assert!(
        rest.starts_with(&format!("proto=tcpv4 src=127.0.0.1:{port} fe=web be=app srv=a age=")),
        "{lines}"
    );
    assert!(
        rest.contains(" state=response ") && rest.contains(" request_id=mine request=\"GET /left\"\n"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 2, "{lines}");
    for all in [weir.ask_socket(&format!("show sess {pointer}")), weir.ask_socket("show sess all")] {
        assert!(
            all.starts_with(pointer) && all.contains("waits for the head of the server's response"),
            "{all}"
        );
    }
    for (line, answer) in [
        ("show sess 0xdead", "Session not found.\n\n"),
        ("show sess 0x100000ffffff", "Session not found.\n\n"),
        ("shutdown session 0x100000ffffff", "No such session (use 'show sess').\n\n"),
        ("shutdown session 0x9990000000001", "No such session (use 'show sess').\n\n"),
        ("shutdown session nonsense", "No such session (use 'show sess').\n\n"),
        ("shutdown session", "Session pointer expected (use 'show sess').\n\n"),
        ("shutdown sessions server app/b", "No such server.\n\n"),
        ("shutdown sessions server other/a", "No such backend.\n\n"),
        ("shutdown sessions server app", "Require 'backend/server'.\n\n"),
    ] {
        assert_eq!(weir.ask_socket(line), answer, "{line}");
    }
    assert_eq!(cut(&weir), 0.0);
    assert_eq!(weir.ask_socket(&format!("shutdown session {pointer}")), "\n");
    assert_eq!(client.response().reason(), Some("killed-by-operator"));
    let errors = weir.ask_socket("show errors");
    assert!(errors.contains("frontend web: 1 x killed-by-operator"), "{errors}");
    assert!(
        errors.contains("] frontend web: killed-by-operator\n  backend app, server a, event #"),
        "{errors}"
    );
    let reply = format!(", src 127.0.0.1:{port}\n  phase response, party weir, after ");
    assert!(errors.contains(&reply) && errors.contains("  request \"GET /left\", id mine\n"), "{errors}");
}

#[test]
fn why_shows_what_a_running_exchange_waits_for() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, ACCEPT);
    let mut client = held(&weir, "/held", "mine");
    let running = connection(&weir, &client, "response");
    for name in ["mine", id(&running)] {
        let report = weir.run_over_socket(&["why", name]);
        let reply = report.stdout;
        assert_eq!(report.code, Some(0), "{}", report.stderr);
        for part in [
            &format!("exchange   mine ({})", id(&running)),
            "still running",
            "GET /held for a.test",
            "attempt 1  on a",
            "now        waits for the head of the server's response; state response for",
            &format!("to end it  weir ctl end {}", id(&running)),
        ] {
            assert!(reply.contains(part), "{part}: {reply}");
        }
    }
    gate.open();
    assert_eq!(client.response().status, 200);
    connection(&weir, &client, "idle");
    let over = weir.run_over_socket(&["why", "mine"]).stdout;
    assert!(over.contains(", took ") && over.contains("answer     200 by the server"), "{over}");
    let idle = weir.run_over_socket(&["why", id(&running)]).stdout;
    assert!(idle.contains("none at the moment; 1 request came before"), "{idle}");
    assert!(idle.contains("exchange   mine (") && idle.contains("GET /held for a.test"), "{idle}");
    let unknown = weir.run_over_socket(&["why", "s0-4711"]);
    assert_eq!(unknown.code, Some(1));
}

#[test]
fn why_finds_a_closed_connection_by_its_id() {
    let origin = origin(&Gate::new());
    let weir = start(&origin, "");
    let mut client = Client::connect(weir.web());
    for target in ["/first", "/second"] {
        client.send(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!(client.response().status, 200);
    }
    let name = id(&connection(&weir, &client, "idle")).to_owned();
    drop(client);
    eventually("the connection is over", || connections(&weir, "").is_empty());
    let reply = weir.run_over_socket(&["why", &name]).stdout;
    assert!(reply.starts_with("2 exchanges go by this name; the last one first.\n"), "{reply}");
    let order = ["/second", "/first"].map(|target| reply.find(&format!("GET {target} for a.test")));
    assert!(order[0].is_some() && order[0] < order[1], "{reply}");
    let one = look(&weir, "/api/exchanges?limit=1");
    assert_eq!(one["exchanges"][0]["connection"], name.as_str(), "{one}");
}

#[test]
fn ctl_lists_and_ends() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut client = held(&weir, "/left", "mine");
    let running = connection(&weir, &client, "response");
    let listed = weir.run_over_socket(&["ctl", "connections", "--server", "a", "--upstream", "app"]).stdout;
    let row = listed.lines().nth(1).unwrap_or_default();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!((cells[0], cells[2], cells[6]), (id(&running), "response", "app/a"), "{listed}");
    assert!(row.ends_with("GET a.test/left"), "{listed}");
    let json = weir.run_over_socket(&["ctl", "connections", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&json).expect("it is JSON")["matching"], 1, "{json}");
    let unknown = weir.run_over_socket(&["ctl", "end", "s0-4711"]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("there is no connection `s0-4711`"), "{}", unknown.stderr);
    assert_eq!(weir.run_over_socket(&["ctl", "end"]).code, Some(2));
    assert_eq!(weir.run_over_socket(&["ctl", "end", id(&running)]).stdout, "1 connection was ended\n");
    assert_eq!(client.response().reason(), Some("killed-by-operator"));
    let none = weir.run_over_socket(&["ctl", "end", "--upstream", "app", "--server", "a"]);
    assert_eq!(none.stdout, "0 connections were ended\n", "{}", none.stderr);
    let other = weir.run_over_socket(&["ctl", "end", "--upstream", "app", "--server", "b"]);
    assert!(other.stderr.contains("upstream `app` has no server `b`"), "{}", other.stderr);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let _idle = Client::connect(weir.web());
    for (target, status, part) in [
        ("/api/connections/nonsense/end", 404, "there is no connection `nonsense`"),
        ("/api/connections/s7-1/end", 404, "there is no connection `s7-1`"),
        ("/api/connections/s0-1", 400, "the path is"),
        ("/api/connections/end", 400, "are both needed"),
        ("/api/connections/end?upstream=app", 400, "are both needed"),
        ("/api/connections/end?upstream=app&server=a&age=1", 400, "`age` is not known here"),
        ("/api/connections/end?upstream=app&server=b", 404, "no server `b`"),
        ("/api/connections/end?upstream=other&server=a", 404, "no upstream `other`"),
    ] {
        let response = post(&weir, target);
        assert_eq!(response.status, status, "{target}: {}", response.text());
        assert!(response.text().contains(part), "{target}: {}", response.text());
    }
    let get = |target: &str| {
        Client::exchange(weir.socket(), &format!("GET {target} HTTP/1.1\r\nHost: weir\r\n\r\n"))
    };
    assert_eq!(get("/api/connections?colour=red").status, 400);
    assert_eq!(get("/api/connections/s0-4711").status, 404);
    assert_eq!(get("/api/raw?command=shutdown%20session%20s0-1").status, 405);
    assert_eq!(cut(&weir), 0.0);
}

#[test]
fn read_only_access_lists_and_does_not_end() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = Weir::start(&config(&origin.address().to_string(), "admin.socket_changes = false"));
    let mut client = held(&weir, "/held", "mine");
    let running = connection(&weir, &client, "response");
    for line in [&format!("shutdown session {}", id(&running)), "shutdown sessions server app/a"] {
        assert!(weir.ask_socket(line).starts_with("Permission denied: `admin.socket_changes`"), "{line}");
    }
    for target in
        [&format!("/api/connections/{}/end", id(&running)), "/api/connections/end?upstream=app&server=a"]
    {
        assert_eq!(post(&weir, target).status, 403, "{target}");
        let request = format!("POST {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(Client::exchange(weir.address("admin"), &request).status, 403, "{target}");
    }
    gate.open();
    assert_eq!(client.response().status, 200, "it was not ended");
    assert_eq!(cut(&weir), 0.0);
}

#[test]
fn connections_older_than_a_reload_have_the_names_of_their_config() {
    let gate = Gate::new();
    let origin = origin(&gate);
    let weir = start(&origin, "");
    let mut client = held(&weir, "/held", "mine");
    connection(&weir, &client, "response");
    weir.reload(&config(&origin.address().to_string(), "").replace("name = \"a\"", "name = \"b\""));
    let reply = connection(&weir, &client, "response");
    assert_eq!(reply["exchange"]["server"], "a", "{reply}");
    gate.open();
    assert_eq!(client.response().status, 200);
}
