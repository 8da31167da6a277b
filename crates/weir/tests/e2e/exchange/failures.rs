//! The error responses of Weir: a page for people, an object for programs, a documented reason code.

use crate::harness::{Client, Origin, Response, Weir, eventually};

fn weir_with_nothing_behind() -> Weir {
    Weir::start(
        "listener.web.address = \"127.0.0.1:0\"\nadmin.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"unix:{dir}/none.sock\"]\n\
         listener.web.route = [{ path = \"/app\", upstream = \"app\" }]\n",
    )
}

fn ask(weir: &Weir, target: &str, fields: &str) -> Response {
    Client::exchange(weir.web(), &format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n{fields}\r\n"))
}

#[test]
fn a_page_by_accept() {
    let weir = weir_with_nothing_behind();
    for (accept, kind) in [
        ("Accept: text/html\r\n", "text/html"),
        ("Accept: application/json\r\n", "application/json"),
        ("Accept: text/html;q=0.5, application/json\r\n", "application/json"),
        ("Accept: text/html,application/xhtml+xml,*/*;q=0.8\r\n", "text/html"),
    ] {
        let response = ask(&weir, "/none", accept);
        assert_eq!(response.status, 404);
        let content_type = response.field("content-type").unwrap_or_default().to_owned();
        assert!(content_type.starts_with(kind), "{accept:?}: {content_type}");
        let body = response.text();
        assert!(body.contains("no-route") && body.len() < 4096, "{accept:?}: {body}");
        if kind == "application/json" {
            let json: serde_json::Value = serde_json::from_str(&body).expect("the body is JSON");
            assert_eq!((json["status"].as_u64(), json["reason"].as_str()), (Some(404), Some("no-route")));
        }
        assert_eq!(
            response.field("cache-control"),
            Some("no-store"),
            "an error of now must not be served later"
        );
    }
}

/// Failure pages reveal nothing about the servers: neither addresses nor names of upstreams.
#[test]
fn nothing_is_given_away() {
    let weir = weir_with_nothing_behind();
    let response = ask(&weir, "/app", "");
    assert_eq!((response.status, response.reason()), (502, Some("connect-socket-missing")));
    let text = format!("{:?} {}", response.head, response.text());
    assert!(!text.contains("none.sock") && !text.contains("upstream"), "{text}");
}

/// An answer that does not break the framing leaves the connection open.
#[test]
fn the_connection_goes_on_after_an_answer() {
    let weir = weir_with_nothing_behind();
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        assert_eq!(client.fetch("/none").status, 404);
        assert_eq!(client.fetch("/app").status, 502);
    }
}

#[test]
fn every_code_is_explained_and_counted() {
    let weir = weir_with_nothing_behind();
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/failures.md"))
        .expect("the repository has docs/failures.md");
    let requests = [
        "GET /none HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET /app HTTP/1.1\r\nHost: a.test\r\n\r\n",
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost : a.test\r\n\r\n",
        "GET / HTTP/9.9\r\nHost: a.test\r\n\r\n",
        "CONNECT a.test:443 HTTP/1.1\r\nHost: a.test:443\r\n\r\n",
    ];
    let counted = |reason: &str| {
        let label = if reason.is_empty() { String::new() } else { format!("reason=\"{reason}\"") };
        weir.metrics().all("weir_listener_failures_total", &[&label, "listener=\"web\""]).iter().sum::<f64>()
    };
    for (answers, request) in requests.iter().enumerate() {
        let response = Client::exchange(weir.web(), request);
        let reason = response.reason().unwrap_or_else(|| panic!("no reason: {response:?}")).to_owned();
        let explained = docs.contains(&format!("### {reason}\n")) || docs.contains(&format!("`{reason}`"));
        assert!(explained, "docs/failures.md does not explain {reason}");
        eventually(&format!("{reason} is counted"), || counted(&reason) >= 1.0);
        eventually("each failure is counted once", || counted("") as usize == answers + 1);
    }
}

#[test]
fn sound_exchanges_are_counted_too() {
    let origin = Origin::serving("fine");
    let weir = Weir::proxying_with(&origin, "admin.address = \"127.0.0.1:0\"");
    let mut client = Client::connect(weir.web());
    for _ in 0..5 {
        assert_eq!(client.fetch("/").status, 200);
    }
    eventually("five requests are counted", || {
        let metrics = weir.metrics();
        metrics.sum("weir_listener_requests_total", &["listener=\"web\""]) == 5.0
            && metrics.sum("weir_listener_responses_total", &["listener=\"web\"", "class=\"2xx\""]) == 5.0
            && metrics.sum("weir_upstream_requests_total", &["upstream=\"app\""]) == 5.0
            && metrics.sum("weir_server_connects_total", &["upstream=\"app\""]) == 1.0
            && metrics.sum("weir_server_reuses_total", &["upstream=\"app\""]) == 4.0
            && metrics.sum("weir_server_response_time_seconds_count", &["upstream=\"app\""]) == 5.0
    });
}
