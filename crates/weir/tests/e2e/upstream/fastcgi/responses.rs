//! What a server of FastCGI answers: heads of scripts, records however they are cut, connections that are kept or not.

use crate::harness::fastcgi::{FastcgiRequest, STDERR, STDOUT, end, record, response};
use crate::harness::{Client, Origin, Weir, config_with, eventually};

use super::{PAGE, page_server, server, start};

const ROUTE: &str = "fastcgi = { script = \"\" }";

fn answer(output: &'static str) -> crate::harness::Response {
    let (origin, _requests) = page_server(output);
    let weir = start(&origin, ROUTE, "");
    Client::get(weir.web(), "/")
}

#[test]
fn the_head_of_a_script_is_that_of_the_response() {
    let response = answer(
        "Content-type: text/html; charset=UTF-8\r\nX-Powered-By: PHP\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n\r\n<p>",
    );
    assert_eq!((response.status, response.text().as_str()), (200, "<p>"));
    assert_eq!(response.field("content-type"), Some("text/html; charset=UTF-8"));
    assert_eq!(response.fields().all("set-cookie").len(), 2);
    let response = answer("Status: 404 Not Found\nContent-Type: text/plain\n\nnone");
    assert_eq!((response.status, response.text().as_str()), (404, "none"));
    assert_eq!(response.field("status"), None);
    let response = answer("Location: /elsewhere\r\n\r\n");
    assert_eq!((response.status, response.field("location")), (302, Some("/elsewhere")));
    let response = answer("Status: 204 No Content\r\n\r\nnot sent");
    assert_eq!((response.status, response.text().as_str()), (204, ""));
    let response =
        answer("Content-Length: 5\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\nhello, and more");
    assert_eq!((response.field("content-length"), response.text().as_str()), (Some("5"), "hello"));
    assert!(!response.closes());
}

#[test]
fn records_may_be_cut_and_mixed_in_any_way() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read(conn)?;
        let records = [
            record(10, b"", 0),
            record(STDERR, b"PHP Notice: one\n", 5),
            record(STDOUT, b"Content-Type: text/pl", 0),
            record(STDERR, b"two\nPHP Not", 0),
            record(STDOUT, b"ain\r\n\r", 255),
            record(STDOUT, b"\nhel", 1),
            record(STDERR, b"ice: \x1b[31mthree", 0),
            record(STDOUT, b"lo", 7),
            record(STDOUT, b"", 0),
            end(1, 0),
        ];
        let mut records = records.concat();
        // The management record has the id 0.
        records[3] = 0;
        conn.send_bytewise(&records)
    });
    let weir = start(&origin, ROUTE, "");
    let response = Client::get(weir.web(), "/");
    assert_eq!((response.status, response.text().as_str()), (200, "hello"));
    for line in ["FastCGI: PHP Notice: one", "FastCGI: two", "FastCGI: PHP Notice:  [31mthree"] {
        let logged = weir.line(&[line, "upstream", "request_id"]);
        assert!(!logged.contains('\x1b'), "{logged}");
    }
    let labels = ["upstream=\"app\""];
    eventually("the lines are counted", || {
        weir.metrics().all("weir_server_error_lines_total", &labels).iter().sum::<f64>() == 3.0
    });
}

#[test]
fn a_long_response_arrives_whole() {
    let origin = Origin::start(|conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.send(record(STDOUT, b"X: 1\r\n\r\n", 0))?;
        for number in 0..200_u8 {
            conn.send(record(STDOUT, &[number; 65_535], number))?;
        }
        conn.send(end(0, 0))
    });
    let weir = start(&origin, ROUTE, "");
    let response = Client::get(weir.web(), "/");
    assert_eq!(response.body.bytes.len(), 200 * 65_535);
    assert!(
        response
            .body
            .bytes
            .chunks(65_535)
            .enumerate()
            .all(|(at, part)| part.iter().all(|byte| usize::from(*byte) == at))
    );
}

#[test]
fn connections_are_kept_only_where_the_pool_says_so() {
    for (upstream, connections) in [("", 3), ("upstream.app.pool.idle_max = 1", 1)] {
        let (origin, requests) = page_server(PAGE);
        let weir = start(&origin, ROUTE, &format!("process.workers = 1\n{upstream}"));
        for _ in 0..3 {
            assert_eq!(Client::get(weir.web(), "/").text(), "hello");
            assert_eq!(requests.recv().expect("it came").keeps_connection, connections == 1);
        }
        assert_eq!(origin.connections(), connections, "{upstream}");
    }
}

#[test]
fn a_kept_connection_that_has_died_is_replaced() {
    let origin = Origin::start(|conn| {
        // It promises to keep the connection, and closes it.
        let _request = FastcgiRequest::read(conn)?;
        conn.send(response(PAGE))?;
        conn.finish();
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin, ROUTE, "upstream.app.pool.idle_max = 1");
    for _ in 0..5 {
        assert_eq!(Client::get(weir.web(), "/").text(), "hello");
    }
}

#[test]
fn a_unix_socket_is_a_server_like_others() {
    let folder = super::site();
    let socket = folder.path().join("fpm.sock");
    let _origin = Origin::start_unix(&socket, |conn| {
        let _request = FastcgiRequest::read(conn)?;
        conn.send(response(PAGE))
    });
    let server = format!("\"unix:{}\"", socket.display());
    let settings = "upstream.app.protocol = \"fastcgi\"\nlistener.web.route = [{ path = \"/\", upstream = \"app\", fastcgi = { script = \"\" } }]\n";
    let weir = Weir::start_in(folder, &config_with(&[server], settings));
    assert_eq!(Client::get(weir.web(), "/").text(), "hello");
}

#[test]
fn head_requests_get_no_body_and_leave_the_connection_clean() {
    let (origin, _requests) = server(|_| response("X: 1\r\n\r\nnot for HEAD"));
    let weir = start(&origin, ROUTE, "process.workers = 1\nupstream.app.pool.idle_max = 1");
    let mut client = Client::connect(weir.web());
    for _ in 0..3 {
        client.send("HEAD / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.response_to("HEAD").status, 200);
        client.send("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(client.response().text(), "not for HEAD");
    }
    assert_eq!(origin.connections(), 1);
}
