//! Long bodies of clients of HTTP/3 while Weir, or the network, changes.

use super::{HTTP3, start};
use crate::harness::http2::start_with_tls;
use crate::harness::http3::{Http3Client, OpenHttp3Stream, frame};
use crate::harness::origin::Origin;
use crate::harness::scripts::{measuring, pattern};

const LEN: usize = 10 * 1024 * 1024;
const PIECE: usize = 128 * 1024;

const UPLOAD: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "https"), (":authority", "a.test"), (":path", "/upload")];

/// An upload of [`LEN`] bytes, in as many frames as there are pieces.
struct Upload {
    stream: OpenHttp3Stream,
    left: usize,
}

impl Upload {
    fn begin(client: &mut Http3Client) -> Self {
        Self { stream: client.open(&UPLOAD), left: LEN / PIECE }
    }

    fn go_on(&mut self, client: &mut Http3Client, pieces: usize) {
        for _ in 0..pieces {
            client.send_raw(&mut self.stream, &frame(0, &[b'x'; PIECE]));
        }
        self.left -= pieces;
    }

    fn end(mut self, client: &mut Http3Client) {
        self.go_on(client, self.left);
        client.finish(&mut self.stream);
        let all = client.rest(&mut self.stream);
        assert_eq!((all.status(), all.has_ended), (200, true));
        assert_eq!(all.body, LEN.to_string().as_bytes());
    }
}

#[test]
fn an_upload_goes_on_over_an_upgrade() {
    let origin = measuring();
    let (authority, mut weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut upload = Upload::begin(&mut client);
    upload.go_on(&mut client, 16);
    weir.upgrade();
    upload.go_on(&mut client, 16);
    // The socket of the client changes as well.
    client.rebind();
    weir.upgrade();
    assert_eq!(Http3Client::connect(weir.web(), &authority).get("/behind").status, 200);
    upload.end(&mut client);
}

#[test]
fn an_upload_goes_on_while_http3_is_removed_and_comes_back() {
    let origin = measuring();
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut upload = Upload::begin(&mut client);
    upload.go_on(&mut client, 16);
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&text.replace(HTTP3, ""));
    upload.go_on(&mut client, 16);
    client.rebind();
    weir.reload(&text);
    upload.go_on(&mut client, 16);
    assert_eq!(Http3Client::connect(weir.web(), &authority).get("/again").status, 200);
    upload.end(&mut client);
}

/// A removed listener ends its connections in order: what has begun is served.
#[test]
fn an_upload_ends_although_its_listener_is_removed() {
    let origin = measuring();
    let (authority, weir) = start_with_tls(&origin, HTTP3);
    let mut client = Http3Client::connect(weir.web(), &authority);
    let mut upload = Upload::begin(&mut client);
    upload.go_on(&mut client, 16);
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    weir.reload(&text.replace("listener.web.", "listener.other."));
    upload.go_on(&mut client, 16);
    client.rebind();
    upload.end(&mut client);
}

#[test]
fn a_response_goes_on_at_a_client_that_moves() {
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {LEN}\r\n\r\n"))?;
            conn.send(pattern(LEN))?;
        }
    });
    let (authority, weir) = start(&origin, "");
    let mut client = Http3Client::connect(weir.web(), &authority);
    let get = [&[(":method", "GET")], &UPLOAD[1..]].concat();
    let mut stream = client.open(&get);
    client.finish(&mut stream);
    for moves in 1..=3 {
        client.body(&mut stream, moves * LEN / 4);
        client.rebind();
    }
    let all = client.rest(&mut stream);
    assert!(all.has_ended && all.body == pattern(LEN), "{} bytes", all.body.len());
    assert_eq!(weir.metrics().sum("weir_listener_http3_connections_total", &[]), 1.0);
}
