//! Windows that are used up come back, whatever becomes of the bytes: otherwise a connection stands still after some time.

use crate::harness::http2::frame::{self, CANCEL, END_STREAM, PADDED};
use crate::harness::http2::{H2C, start, start_with};
use crate::harness::scripts::echo;
use crate::harness::{Http2Client, Origin, Weir, config_with};

const PIECE: [u8; 16_000] = [b'x'; 16_000];

/// More than the window of a connection has at first, and than it may grow to.
const ROUNDS: usize = 700;

/// Sends a piece as soon as the window of the connection lets it, whether or not the stream is over.
fn send_piece(client: &mut Http2Client, stream: u32, ends_stream: bool) {
    client.wait("the window of the connection opens", |client| client.connection_room() >= 16_000);
    client.data(stream, PIECE, ends_stream);
}

#[test]
fn bodies_that_weir_answers_itself() {
    let origin = echo();
    let routes = "listener.web.route = [{ path = \"/\", respond = { status = 200, body = \"fixed\" } }]\n";
    let text = config_with(&[origin.entry()], &format!("process.workers = 1\n{H2C}{routes}"));
    let weir = Weir::start(&text.replace("listener.web.upstream = \"app\"\n", ""));
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..ROUNDS {
        let stream = client.post("/", &[]);
        send_piece(&mut client, stream, true);
        assert_eq!(client.response(stream).status, 200);
    }
}

#[test]
fn bodies_of_streams_that_the_client_gives_up() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let mut clients = Vec::new();
    // As many as the budget of resets allows on each connection.
    for _ in 0..3 {
        let mut client = Http2Client::connect(weir.web());
        for _ in 0..190 {
            let stream = client.post("/", &[]);
            send_piece(&mut client, stream, false);
            client.reset(stream, CANCEL);
        }
        client.settle();
        assert!(client.goaways.is_empty());
        clients.push(client);
    }
}

#[test]
fn bodies_of_streams_that_are_refused() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start_with(&origin, "listener.web.http2.streams_max = 1");
    let mut client = Http2Client::connect(weir.web());
    let stays = client.post("/", &[]);
    for _ in 0..190 {
        let stream = client.post("/", &[]);
        send_piece(&mut client, stream, true);
        client.wait_for_reset(stream);
    }
    client.settle();
    assert!(client.goaways.is_empty() && !client.received(stays).is_over());
}

#[test]
fn bodies_of_malformed_requests() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..190 {
        let stream = client.post("/", &[("connection", "close")]);
        send_piece(&mut client, stream, false);
        client.wait_for_reset(stream);
        // And one behind the reset, as it may be on its way.
        send_piece(&mut client, stream, true);
    }
    assert_eq!(client.fetch("/fine").status, 200);
}

#[test]
fn bodies_behind_an_early_answer() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.send("HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")?;
        conn.wait_for_end();
        Some(())
    });
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..300 {
        let stream = client.post("/", &[]);
        send_piece(&mut client, stream, false);
        assert_eq!(client.head(stream).status, 403);
        for _ in 0..3 {
            send_piece(&mut client, stream, false);
        }
        client.wait_for_reset(stream);
    }
    assert!(client.goaways.is_empty(), "resets of Weir's own making cost the client nothing");
}

#[test]
fn bodies_whose_server_goes() {
    let origin = Origin::start(|conn| {
        conn.head()?;
        conn.take(16_000)?;
        conn.reset();
        None
    });
    let weir = start_with(&origin, "upstream.app.retry.attempts_max = 1");
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..300 {
        let stream = client.post("/", &[]);
        for _ in 0..3 {
            send_piece(&mut client, stream, false);
        }
        client.outcome(stream);
    }
    client.settle();
    assert!(client.goaways.is_empty());
}

#[test]
fn padding() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    let stream = client.post("/", &[]);
    let payload = [&[255][..], b"x", &[0; 255]].concat();
    for _ in 0..20_000 {
        client.wait("both windows open", |client| client.connection_room() >= 300);
        while client.send_room(stream) < 300 {
            client.read_frame();
        }
        client.count_sent(stream, payload.len());
        client.send(frame::frame(frame::DATA, PADDED, stream, &payload));
    }
    client.data(stream, "", true);
    assert_eq!(client.response(stream).body.len(), 20_001);
}

#[test]
fn windows_of_streams_that_end_with_their_last_frame() {
    let origin = echo();
    let weir = start(&origin);
    let mut client = Http2Client::connect(weir.web());
    for _ in 0..ROUNDS {
        let (stream, opening) = client.opening(&client.request("POST", "/"), false);
        client.wait("the window of the connection opens", |client| client.connection_room() >= 16_000);
        client.count_sent(stream, PIECE.len());
        client.send([opening, frame::frame(frame::DATA, END_STREAM, stream, &PIECE)].concat());
        assert_eq!(client.response(stream).body.len(), 16_001);
    }
}
