//! `buffer_requests`: the body is whole before a server gets the request, so that slow clients hold no slot.

use crate::harness::http2::H2C;
use crate::harness::scripts::echo;
use crate::harness::{Client, Http2Client, Origin, Weir, config_with, eventually};

fn start(origin: &Origin, keys: &str, upstream: &str) -> Weir {
    Weir::start(&config_with(
        &[format!("{{ name = \"a\", address = \"{}\", max_requests = 1 }}", origin.address())],
        &format!(
            "process.workers = 1\n{H2C}{upstream}\n
             listener.web.route = [{{ path = \"/\", upstream = \"app\", buffer_requests = {{ {keys} }} }}]"
        ),
    ))
}

fn buffered(weir: &Weir, place: &str) -> f64 {
    weir.metrics().sum("weir_worker_request_bodies_buffered_total", &[&format!("place=\"{place}\"")])
}

#[test]
fn a_slow_upload_holds_no_slot() {
    let origin = echo();
    let weir = start(&origin, "", "");
    let mut slow = Client::connect(weir.web());
    slow.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
    // The only slot is free for another request, which does not wait in the queue.
    assert_eq!(Client::get(weir.web(), "/quick").text(), "/quick");
    assert_eq!(origin.requests().len(), 1, "the server knows nothing of the slow one");
    slow.send("world");
    assert_eq!(slow.response().text(), "/slowhelloworld");
    assert_eq!(origin.last_request().field("content-length"), Some("10"));
    eventually("it is counted", || buffered(&weir, "memory") == 1.0);
    // So it is over HTTP/2, and for a body without length.
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/h2", &[]);
    client.data(stream, "one", false);
    assert_eq!(Client::get(weir.web(), "/quick").text(), "/quick");
    client.data(stream, "two", true);
    assert_eq!(client.response(stream).text(), "/h2onetwo");
}

#[test]
fn what_does_not_fit_into_memory_goes_into_a_file() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let sum: u64 = request.body.bytes.iter().map(|byte| u64::from(*byte)).sum();
            let answer = format!("{} {sum}", request.body.bytes.len());
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()))?;
        }
    });
    let weir = start(&origin, "memory = \"16KiB\", file = \"2MiB\"", "upstream.app.retry.attempts_max = 1");
    let content: Vec<u8> = (0..1_500_000_u32).map(|at| (at % 251) as u8).collect();
    let sum: u64 = content.iter().map(|byte| u64::from(*byte)).sum();
    let expected = format!("1500000 {sum}");
    let mut client = Client::connect(weir.web());
    client.send(format!("POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", content.len()));
    client.send(&content[..1_000_000]);
    eventually("it is in a file", || {
        weir.metrics().sum("weir_process_temporary_file_bytes", &[]) > 900_000.0
    });
    assert_eq!(origin.connections(), 0);
    client.send(&content[1_000_000..]);
    assert_eq!(client.response().text(), expected);
    eventually("the file is gone", || weir.metrics().sum("weir_process_temporary_file_bytes", &[]) == 0.0);
    assert_eq!(buffered(&weir, "file"), 1.0);
    // In chunks, with trailers.
    client.send("POST /b HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
    for part in content.chunks(100_000) {
        client.send(format!("{:x}\r\n", part.len()));
        client.send(part);
        client.send("\r\n");
    }
    client.send("0\r\n\r\n");
    assert_eq!(client.response().text(), expected);
    // More than both may hold goes on as it comes.
    let longer = [&content[..], &content[..]].concat();
    client.send(format!("POST /c HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n", longer.len()));
    client.send(&longer);
    assert_eq!(client.response().text(), format!("3000000 {}", 2 * sum));
    eventually("it is counted", || buffered(&weir, "part") == 1.0);
    assert_eq!(weir.metrics().sum("weir_process_temporary_file_bytes", &[]), 0.0);
}

#[test]
fn a_body_that_is_kept_can_be_sent_again() {
    let broken = Origin::start(|conn| {
        conn.request()?;
        None
    });
    let good = echo();
    let weir = Weir::start(&config_with(
        &[broken.named("a"), good.named("b")],
        "upstream.app.balance = \"round-robin\"
         upstream.app.retry.attempts_max = 3
         listener.web.route = [{ path = \"/\", upstream = \"app\", buffer_requests = { memory = \"1KiB\" } }]",
    ));
    let body = "x".repeat(200_000);
    for _ in 0..4 {
        let request =
            format!("PUT /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        let response = Client::exchange(weir.web(), &request);
        assert_eq!((response.status, response.text().len()), (200, body.len() + 2));
    }
}

#[test]
fn weir_asks_for_the_body_itself() {
    let origin = echo();
    let weir = start(&origin, "", "");
    let mut client = Client::connect(weir.web());
    client.send("POST /a HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n");
    assert_eq!(client.response().status, 100);
    client.send("hello");
    assert_eq!(client.response().text(), "/ahello");
    assert_eq!(origin.last_request().field("expect"), None);
}

#[test]
fn a_client_that_stops_or_leaves_reaches_no_server() {
    let origin = echo();
    let weir = start(
        &origin,
        "",
        "listener.web.timeouts.request_body = { credit = \"200ms\", rate_min = \"1kB/s\" }",
    );
    let mut client = Client::connect(weir.web());
    client.send("POST /slow HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
    let response = client.response();
    assert_eq!(response.status, 408);
    let mut client = Client::connect(weir.web());
    client.send("POST /gone HTTP/1.1\r\nHost: a.test\r\nContent-Length: 10\r\n\r\nhello");
    client.finish();
    let (_, _) = client.take_to_end();
    assert_eq!(origin.connections(), 0);
}

/// Answers with a body of so many bytes as the path says, in one piece.
fn sized() -> Origin {
    Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let len: usize = request.target().trim_start_matches('/').parse().unwrap_or(0);
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            conn.send(body(len))?;
        }
    })
}

fn body(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at % 251) as u8).collect()
}

fn start_for_responses(origin: &Origin, keys: &str) -> Weir {
    Weir::start(&config_with(
        &[format!("{{ name = \"a\", address = \"{}\", max_requests = 1 }}", origin.address())],
        &format!(
            "process.workers = 1\n{H2C}
             listener.web.route = [{{ path = \"/\", upstream = \"app\", buffer_responses = {{ {keys} }} }}]"
        ),
    ))
}

#[test]
fn a_slow_reader_holds_no_server() {
    const LEN: usize = 20_000_000;
    let origin = sized();
    let weir = start_for_responses(&origin, "");
    let mut slow = Client::connect_narrow(weir.web());
    slow.send_get(&format!("/{LEN}"));
    slow.head();
    // The only slot is free again, and the connection, although the client has read nothing of the body.
    let mut quick = Client::connect(weir.web());
    assert_eq!(quick.fetch("/100").body.bytes, body(100));
    assert_eq!(origin.connections(), 1, "the connection to the server was used again");
    assert!(weir.metrics().sum("weir_process_temporary_file_bytes", &[]) > 1_000_000.0);
    assert!(slow.take(LEN) == body(LEN));
    let counted = |place: &str| {
        weir.metrics().sum("weir_worker_response_bodies_buffered_total", &[&format!("place=\"{place}\"")])
    };
    eventually("both are counted", || counted("memory") == 1.0 && counted("file") == 1.0);
    eventually("the file is gone", || weir.metrics().sum("weir_process_temporary_file_bytes", &[]) == 0.0);
    // The client's connection goes on.
    assert_eq!(slow.fetch("/7").body.bytes, body(7));
    let mut client = Http2Client::connect(weir.web());
    assert!(client.fetch("/3000000").body == body(3_000_000));
}

#[test]
fn a_server_waits_when_there_is_no_more_room() {
    const LEN: usize = 20_000_000;
    let origin = sized();
    for keys in ["memory = \"16KiB\", file = \"1MiB\"", "memory = \"16KiB\", file = \"0B\""] {
        let weir = start_for_responses(&origin, keys);
        let mut slow = Client::connect_narrow(weir.web());
        slow.send_get(&format!("/{LEN}"));
        slow.head();
        // The only slot is held, so the next request waits.
        let mut next = Client::connect(weir.web());
        next.send_get("/9");
        eventually("the next request waits", || weir.metrics().sum("weir_upstream_queue_length", &[]) == 1.0);
        assert!(slow.take(LEN) == body(LEN), "{keys}");
        assert_eq!(next.response().body.bytes, body(9));
        assert_eq!(slow.fetch("/7").body.bytes, body(7));
    }
}

#[test]
fn chunks_and_trailers_pass_and_a_cut_response_is_cut() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\nX-Sum: 5\r\n\r\n")?;
        conn.request()?;
        conn.send("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc")?;
        None
    });
    let weir = start_for_responses(&origin, "");
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nTE: trailers\r\n\r\n");
    let response = client.response();
    assert_eq!(response.text(), "abcde");
    assert_eq!(response.body.trailers.one("x-sum"), Some("5"));
    client.send_get("/");
    assert!(client.try_response_to("GET").is_err(), "it is not whole");
}
