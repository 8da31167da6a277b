//! Trailers, both ways (RFC 9113 section 8.1).

use crate::harness::http2::start;
use crate::harness::message::Fields;
use crate::harness::{Http2Client, Origin};

fn fields(fields: &[(&str, &str)]) -> Fields {
    Fields(fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
}

#[test]
fn trailers_of_a_response_end_its_stream() {
    let origin = Origin::start(|conn| {
        loop {
            let body = if conn.request()?.target() == "/empty" { "" } else { "5\r\nhello\r\n" };
            conn.send(format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Grpc-Status\r\n\r\n{body}\
                 0\r\nGrpc-Status: 0\r\nX-Sum: a b\r\n\r\n"
            ))?;
        }
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for (target, body) in [("/", "hello"), ("/empty", "")] {
        let stream = client.get_with(target, &[("te", "trailers")]);
        let response = client.response(stream);
        assert_eq!(response.text(), body);
        assert_eq!(response.trailers, Some(fields(&[("grpc-status", "0"), ("x-sum", "a b")])));
    }
}

#[test]
fn trailers_of_a_request_go_to_the_server() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for body in ["hello", ""] {
        let stream = client.post("/", &[("trailer", "x-sum")]);
        if !body.is_empty() {
            client.data(stream, body, false);
        }
        client.trailers(stream, &[("x-sum", "1"), ("x-other", "2")]);
        assert_eq!(client.response(stream).status, 200);
        let request = origin.last_request();
        assert_eq!(request.text(), body);
        assert_eq!(
            (request.body.trailers.all("x-sum"), request.body.trailers.all("x-other")),
            (vec!["1"], vec!["2"])
        );
    }
}

/// HTTP/1 has no place for them.
#[test]
fn trailers_behind_a_body_of_a_known_length_are_dropped() {
    let origin = Origin::serving("fine");
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[("content-length", "5")]);
    client.data(stream, "hello", false);
    client.trailers(stream, &[("x-sum", "1")]);
    assert_eq!(client.response(stream).status, 200);
    assert_eq!(origin.last_request().text(), "hello");
    assert_eq!(client.fetch("/next").status, 200);
    assert_eq!(origin.targets(), ["/", "/next"]);
}
