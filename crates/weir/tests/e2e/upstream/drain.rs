//! Servers taken out of service while Weir runs: the requests they still get, the deadline, and the permission for it.

use crate::harness::scripts::numbered;
use crate::harness::{Client, Gate, Origin, Response, Weir, config_with, entries, eventually, of_upstream};

fn start(origins: &[Origin], settings: &str) -> Weir {
    let servers: Vec<String> =
        origins.iter().enumerate().map(|(number, origin)| origin.named(&format!("s{number}"))).collect();
    let keys = of_upstream(&format!("balance = \"round-robin\"\n{settings}"));
    Weir::start(&config_with(&servers, &format!("admin.changes = true\n{keys}")))
}

fn get(weir: &Weir, cookie: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"))
}

/// The line of a server in the table, as words.
fn row(weir: &Weir, server: &str) -> Vec<String> {
    let table = Client::get_by_address(weir.address("admin"), "/servers").text();
    let rows = table.lines().map(|line| line.split('\t').map(str::to_owned).collect::<Vec<_>>());
    rows.into_iter().find(|row| row[1] == server).unwrap_or_else(|| panic!("no {server} in {table}"))
}

#[test]
fn a_draining_server_keeps_its_own_clients_and_gets_no_others() {
    let origins = numbered(2, &Gate::new());
    let weir = start(&origins, "affinity = {}");
    let mine = [get(&weir, ""), get(&weir, "")].into_iter().find(|response| response.text() == "0");
    let mine = mine.expect("round robin has been at both").cookie();
    weir.set_mode("s0", "draining");
    for _ in 0..4 {
        assert_eq!(get(&weir, "").text(), "1");
        assert_eq!(get(&weir, &mine).text(), "0");
    }
    assert_eq!(row(&weir, "s0")[2..4], ["draining", "up"]);
    assert_eq!(weir.metrics().sum("weir_server_mode", &["server=\"s0\"", "mode=\"draining\""]), 1.0);
    weir.set_mode("s0", "maintenance");
    let moved = get(&weir, &mine);
    assert_eq!((moved.text(), moved.cookie() == mine), ("1".to_owned(), false));
    weir.set_mode("s0", "serving");
    eventually("it is back", || get(&weir, "").text() == "0");
}

#[test]
fn a_deadline_ends_a_drain_for_all() {
    let origins = numbered(2, &Gate::new());
    let weir = start(&origins, "affinity = {}");
    let mine = [get(&weir, ""), get(&weir, "")].into_iter().find(|response| response.text() == "0");
    let mine = mine.expect("round robin has been at both").cookie();
    weir.set_mode("s0", "draining&deadline=300ms");
    assert_eq!(get(&weir, &mine).text(), "0");
    eventually("the deadline is over", || row(&weir, "s0")[2] == "maintenance");
    assert_eq!(get(&weir, &mine).text(), "1");
    eventually("the log tells", || weir.stderr().contains("nothing is left on the server"));
}

#[test]
fn what_runs_runs_on_and_is_counted() {
    let gate = Gate::new();
    let origins = numbered(2, &gate);
    let weir = start(&origins, "");
    let mut held = Client::connect(weir.web());
    held.send_get("/held");
    eventually("it runs", || origins.iter().any(|origin| origin.targets() == ["/held"]));
    let busy = if origins[0].requests().is_empty() { "s1" } else { "s0" };
    weir.set_mode(busy, "maintenance");
    assert_eq!(row(&weir, busy)[5], "1", "one is left");
    gate.open();
    assert_eq!(held.response().status, 200);
    eventually("nothing is left", || row(&weir, busy)[5] == "0");
    eventually("the log tells", || weir.stderr().contains("nothing is left on the server"));
}

#[test]
fn a_request_that_waits_for_a_leaving_server_takes_another() {
    let gate = Gate::new();
    let origins = numbered(2, &gate);
    let weir = start(&origins, "affinity = {}\nmax_requests = 1\nqueue.affinity_wait = \"10s\"");
    let first = get(&weir, "");
    let own = format!("s{}", first.text());
    eventually("its slot is free", || row(&weir, &own)[5] == "0");
    let mut held = Client::connect(weir.web());
    held.send(format!("GET /held HTTP/1.1\r\nHost: a\r\nCookie: {}\r\n\r\n", first.cookie()));
    let mut waiting = Client::connect(weir.web());
    eventually("its own server is busy", || row(&weir, &own)[5] == "1");
    waiting.send(format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {}\r\n\r\n", first.cookie()));
    eventually("it waits", || weir.queue_length() == 1);
    weir.set_mode(&own, "maintenance");
    assert_ne!(waiting.response().text(), first.text());
    gate.open();
    assert_eq!(held.response().text(), first.text());
}

#[test]
fn with_every_server_in_maintenance_requests_are_answered_at_once() {
    let origins = numbered(1, &Gate::new());
    let weir = start(&origins, "");
    weir.set_mode("s0", "maintenance");
    let response = get(&weir, "");
    assert_eq!((response.status, response.reason()), (503, Some("no-server")));
}

#[test]
fn the_config_can_start_a_server_out_of_service() {
    let origins = numbered(2, &Gate::new());
    let address = |number: usize| origins[number].address();
    let weir = Weir::start(&format!(
        "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n[upstream.app]\nservers = [\"{}\", \
         {{ address = \"{}\", mode = \"maintenance\" }}]\n",
        address(0),
        address(1)
    ));
    for _ in 0..4 {
        assert_eq!(get(&weir, "").text(), "0");
    }
}

#[test]
fn a_change_without_permission_is_refused_with_a_reason() {
    let origins = numbered(1, &Gate::new());
    let weir = start(&origins, "");
    let wish = "upstream=app&server=s0&mode=maintenance";
    for (query, status, what) in [
        (
            "upstream=no&server=s0&mode=draining",
            404,
            "there is no upstream `no`; `GET /servers` lists them\n",
        ),
        (
            "upstream=app&server=s9&mode=draining",
            404,
            "the upstream `app` has no server `s9`; `GET /servers` lists them\n",
        ),
        (
            "upstream=app&server=s0",
            400,
            "`mode` is missing; give upstream, server, mode and if need be deadline\n",
        ),
    ] {
        let response = weir.admin_post(&format!("/servers?{query}"));
        assert_eq!((response.status, &*response.text()), (status, what));
    }
    let from_page = format!(
        "POST /servers?{wish} HTTP/1.1\r\nHost: a\r\nOrigin: http://a.test\r\nContent-Length: 0\r\n\r\n"
    );
    assert_eq!(Client::exchange(weir.address("admin"), &from_page).status, 403);
    assert_eq!(
        Client::get_by_address(weir.address("admin"), &format!("/servers?{wish}")).status,
        200,
        "GET changes nothing"
    );
    assert_eq!(row(&weir, "s0")[2], "serving");
    let closed = Weir::start(&config_with(&entries(&origins), ""));
    assert_eq!(closed.admin_post(&format!("/servers?{wish}")).status, 403);
}
