//! Probes of servers of FastCGI: connections, and requests for a page such as PHP-FPM's ping.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};

use crate::harness::fastcgi::{FastcgiRequest, STDOUT, end, record, response};
use crate::harness::{Client, Origin, eventually};

use super::start;

#[test]
fn a_page_says_whether_a_server_is_well() {
    let well = Arc::new(AtomicBool::new(true));
    let (asked, answers) = (Arc::clone(&well), mpsc::channel());
    let origin = Origin::start(move |conn| {
        let request = FastcgiRequest::read(conn)?;
        let is_ping = request.param("SCRIPT_NAME") == Some("/ping");
        if is_ping {
            let _gone = answers.0.send(request);
        }
        match (is_ping, asked.load(Ordering::Relaxed)) {
            // In pieces, as servers may send it.
            (true, true) => conn.send(
                [
                    record(STDOUT, b"Content-type: text/plain\r\n", 1),
                    record(STDOUT, b"\r\npo", 0),
                    record(STDOUT, b"ng", 4),
                    end(0, 0),
                ]
                .concat(),
            ),
            (true, false) => conn.send(response("Status: 500 Not well\r\n\r\npong")),
            (false, _) => conn.send(response("X: 1\r\n\r\nhello")),
        }
    });
    let weir = start(
        &origin,
        "fastcgi = { script = \"\" }",
        "upstream.app.health = { path = \"/ping?x\", body_contains = \"pong\", interval = \"50ms\", rise = 1, fall = 1 }",
    );
    let request = answers.1.recv().expect("it is probed");
    for (name, value) in [("SCRIPT_FILENAME", "/ping"), ("QUERY_STRING", "x"), ("REQUEST_METHOD", "GET")] {
        assert_eq!(request.param(name), Some(value), "{name}");
    }
    assert!(request.param("HTTP_USER_AGENT").is_some_and(|agent| agent.starts_with("weir-health/")));
    let status = || Client::get(weir.web(), "/").status;
    eventually("it is up", || status() == 200);
    well.store(false, Ordering::Relaxed);
    eventually("it is down", || status() == 503);
    well.store(true, Ordering::Relaxed);
    eventually("it is up again", || status() == 200);
}

#[test]
fn a_connection_may_be_enough() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.send(response("X: 1\r\n\r\nhello"))
    });
    let weir = start(&origin, "fastcgi = { script = \"\" }", "upstream.app.health = { interval = \"50ms\" }");
    eventually("probes pass", || {
        weir.metrics().all("weir_server_probes_total", &["upstream=\"app\""]).iter().sum::<f64>() > 2.0
    });
    assert_eq!(Client::get(weir.web(), "/").text(), "hello");
}
