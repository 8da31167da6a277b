//! DATA that the head of a response does not allow (RFC 9110 section 6.4.1, RFC 9113 section 8.1.1): behind `content-length: 0`, 204, 304 and
//! in answer to HEAD, none of it may reach a client, which would take it for the next response.

use super::start;
use crate::harness::http2::server::Http2Server;
use crate::harness::{Client, Http2Client, Origin, Weir};

/// What a client would take for a response.
const SPLIT: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nEVIL!";

/// Answers with the status that the path begins with, a length if it ends with one, and DATA behind it; `/fine` rightly.
fn origin() -> Origin {
    Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let path = asked.path().to_owned();
            let mut words = path.rsplit('/');
            match (words.next(), words.next()) {
                (Some("fine"), _) => server.respond(asked.stream, "200", b"fine")?,
                (Some(length), Some(status)) => {
                    let length = ("content-length", length);
                    let fields = [(":status", status), length, ("cache-control", "max-age=60")];
                    let fields =
                        if length.1 == "none" { [fields[0], fields[2], ("x-a", "b")] } else { fields };
                    server.send_head(asked.stream, &fields, false)?;
                    server.send_data(asked.stream, SPLIT, true)?;
                }
                _ => return None,
            }
        }
    })
}

/// Ways on which more than relaying happens.
const WAYS: [&str; 4] = ["plain", "buffered", "compressed", "cached"];

const ROUTES: &str = "cache.pages.memory = \"1MiB\"\ncache.pages.response_max = \"64KiB\"\n\
    listener.web.route = [\n\
      { path = \"/\", upstream = \"app\" },\n\
      { path = \"/buffered\", upstream = \"app\", buffer_responses = { memory = \"64KiB\" } },\n\
      { path = \"/compressed\", upstream = \"app\", compression = { min_length = \"0B\" } },\n\
      { path = \"/cached\", upstream = \"app\", cache = { name = \"pages\" } },\n\
    ]\n";

fn start_ways(origin: &Origin) -> Weir {
    let upstream = super::config(origin, "retry.attempts_max = 1\nejection = \"off\"");
    Weir::start(&format!("{upstream}\n{ROUTES}"))
}

/// Methods, statuses and lengths behind which no body may follow.
const HEADS: [(&str, &str, &str); 8] = [
    ("GET", "200", "0"),
    ("POST", "201", "0"),
    ("GET", "404", "0"),
    ("GET", "204", "none"),
    ("GET", "304", "none"),
    ("GET", "304", "40"),
    ("HEAD", "200", "none"),
    ("HEAD", "200", "40"),
];

#[test]
fn no_body_that_is_not_allowed_reaches_a_client_of_http1() {
    let origin = origin();
    let weir = start_ways(&origin);
    for way in WAYS {
        for (method, status, length) in HEADS {
            let mut client = Client::connect(weir.web());
            // Both at once, so that what stands behind the first response is taken for the second.
            client.send(format!(
                "{method} /{way}/{status}/{length} HTTP/1.1\r\nHost: a.test\r\nAccept-Encoding: gzip\r\n\
                 Content-Length: 0\r\n\r\nGET /fine HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"
            ));
            let what = format!("{way}: {method} {status} {length}");
            let (bytes, _) = client.take_to_end();
            let text = String::from_utf8_lossy(&bytes);
            assert!(!text.contains("EVIL"), "{what}: {text}");
        }
        assert_eq!(Client::get(weir.web(), "/fine").text(), "fine");
    }
}

#[test]
fn no_body_that_is_not_allowed_reaches_a_client_of_http2() {
    let origin = origin();
    let weir = start_ways(&origin);
    for way in WAYS {
        for (method, status, length) in HEADS {
            let mut client = Http2Client::connect(weir.web());
            let target = format!("/{way}/{status}/{length}");
            let head = client.request(method, &target);
            let stream = client.open(&head, true);
            let response = client.outcome(stream);
            assert!(!response.text().contains("EVIL"), "{way}: {method} {status} {length}: {response:?}");
            assert_eq!(client.fetch("/fine").text(), "fine");
        }
    }
}

/// Trailers and empty frames behind such heads are no body.
#[test]
fn an_end_that_comes_late_is_no_violation() {
    let origin = Origin::start(|conn| {
        let mut server = Http2Server::accept(conn, &[])?;
        loop {
            let asked = server.request()?;
            let path = asked.path().to_owned();
            let (status, end) = path[1..].split_once('/')?;
            let fields = [(":status", status), ("content-length", "0")];
            let fields = if status == "200" { &fields[..] } else { &fields[..1] };
            server.send_head(asked.stream, fields, false)?;
            match end {
                "trailers" => server.send_head(asked.stream, &[("x-a", "1")], true)?,
                _ => {
                    server.send_data(asked.stream, b"", false)?;
                    server.send_data(asked.stream, b"", true)?;
                }
            }
        }
    });
    let weir = start(&origin, "retry.attempts_max = 1");
    let mut client = Client::connect(weir.web());
    let mut http2 = Http2Client::connect(weir.web());
    for method in ["GET", "HEAD"] {
        for status in ["200", "204", "304"] {
            for end in ["trailers", "frames"] {
                client.send(format!("{method} /{status}/{end} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
                assert_eq!(client.response_to(method).status.to_string(), status, "{method} {end}");
                let target = format!("/{status}/{end}");
                let head = http2.request(method, &target);
                let stream = http2.open(&head, true);
                assert_eq!(http2.response(stream).status.to_string(), status, "{method} {end}");
            }
        }
    }
    assert_eq!(origin.connections(), 1);
}
