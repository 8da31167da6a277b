//! Bodies that are moved inside the kernel arrive as they were sent: up and down, with and without pauses, and however they end.

use std::thread;

use crate::harness::scripts::pattern;
use crate::harness::{Client, End, Origin, Weir};

const BYTES: usize = 3 << 20;

fn assert_same(got: &[u8], expected: &[u8]) {
    assert_eq!(got.len(), expected.len());
    let first = got.iter().zip(expected).position(|(left, right)| left != right);
    assert_eq!(first, None, "the first byte that differs");
}

/// An origin that answers every request with `len` bytes, in pieces of `piece`.
fn large(len: usize, piece: usize) -> Origin {
    Origin::start(move |conn| {
        let body = pattern(len);
        loop {
            let request = conn.request()?;
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {len}\r\n\r\n"))?;
            if request.method() != "HEAD" {
                body.chunks(piece).try_for_each(|piece| conn.send(piece))?;
            }
        }
    })
}

#[test]
fn responses_of_many_sizes_follow_each_other_on_one_connection() {
    for len in [65_535, 65_536, 65_537, 81_920, 131_072, 1_000_003, BYTES] {
        for piece in [1_460, 70_000, BYTES] {
            let origin = large(len, piece);
            let weir = Weir::proxying(&origin);
            let mut client = Client::connect(weir.web());
            let expected = pattern(len);
            for _ in 0..3 {
                assert_same(&client.fetch("/").body.bytes, &expected);
            }
            assert_eq!(origin.connections(), 1, "{len} bytes in pieces of {piece}");
        }
    }
}

#[test]
fn a_large_request_body_arrives_whole_and_the_connection_goes_on() {
    let origin = Origin::start(|conn| {
        loop {
            let request = conn.request()?;
            let same = request.body.bytes == pattern(request.body.bytes.len());
            let answer = format!("{} {same}", request.body.bytes.len());
            conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{answer}", answer.len()))?;
        }
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    let body = pattern(BYTES);
    for _ in 0..3 {
        client.send(format!("POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: {BYTES}\r\n\r\n"));
        client.send(&body);
        assert_eq!(client.response().text(), format!("{BYTES} true"));
    }
    assert_eq!(origin.connections(), 1);
}

#[test]
fn a_large_body_that_is_cut_short_is_not_taken_for_whole() {
    let origin = Origin::start(|conn| {
        conn.request()?;
        conn.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\n\r\n"))?;
        conn.send(&pattern(BYTES)[..BYTES - 1])?;
        conn.finish();
        Some(())
    });
    let weir = Weir::proxying(&origin);
    let mut client = Client::connect(weir.web());
    client.send_get("/");
    assert_eq!(client.head().status(), Ok(200));
    let (body, end) = client.take_to_end();
    assert_eq!((body.len(), end), (BYTES - 1, End::Closed));
}

#[test]
fn slow_readers_of_large_bodies_do_not_hold_up_others() {
    let origin = large(BYTES, BYTES);
    let weir = Weir::proxying(&origin);
    let slow: Vec<Client> = (0..40)
        .map(|_| {
            let mut client = Client::connect_narrow(weir.web());
            client.send_get("/");
            client
        })
        .collect();
    let quick = Client::get(weir.web(), "/");
    assert_same(&quick.body.bytes, &pattern(BYTES));
    let readers: Vec<_> = slow
        .into_iter()
        .map(|mut client| thread::spawn(move || assert_same(&client.response().body.bytes, &pattern(BYTES))))
        .collect();
    for reader in readers {
        reader.join().expect("every byte is right");
    }
}
