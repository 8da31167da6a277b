//! What is a sequence of frames, and what is not.

use httlib_hpack::Encoder;

use super::*;

fn block(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in fields {
        let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec(), Encoder::NEVER_INDEXED);
        Encoder::default().encode(field, &mut bytes).expect("a literal can be written");
    }
    bytes
}

fn headers(stream: u32, ends: bool, fields: &[(&str, &str)]) -> Vec<u8> {
    frame(frame::HEADERS, frame::END_HEADERS | u8::from(ends), stream, &block(fields))
}

fn data(stream: u32, ends: bool, bytes: &[u8]) -> Vec<u8> {
    frame(frame::DATA, u8::from(ends), stream, bytes)
}

fn of_client(frames: &[Vec<u8>]) -> Reading {
    let bytes = [PREFACE, &frame(frame::SETTINGS, 0, 0, &[])[..], &frames.concat()[..]].concat();
    read(&bytes, Sender::Client, &BTreeSet::new(), FRAME_MAX)
}

fn of_server(frames: &[Vec<u8>], without_bodies: &[u32]) -> Reading {
    let bytes = [frame(frame::SETTINGS, 0, 0, &[]), frames.concat()].concat();
    read(&bytes, Sender::Server, &without_bodies.iter().copied().collect(), FRAME_MAX)
}

const POST: [(&str, &str); 4] =
    [(":method", "POST"), (":scheme", "http"), (":authority", "a.test"), (":path", "/")];

fn post_with<'a>(more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    POST.iter().chain(more).copied().collect()
}

#[test]
fn whole_messages_are_read() {
    let reading = of_client(&[
        headers(1, false, &post_with(&[("content-length", "3")])),
        headers(3, true, &POST),
        data(1, false, b"ab"),
        data(1, false, b"c"),
        headers(1, true, &[("sum", "1")]),
    ]);
    assert_eq!(reading.fault, None);
    let first = &reading.streams[&1];
    assert_eq!((&first.body[..], first.has_ended), (&b"abc"[..], true));
    assert_eq!(first.trailers.as_ref().and_then(|fields| fields.first("sum")), Some("1"));
    let reading = of_server(
        &[
            headers(1, false, &[(":status", "103"), ("link", "</a>")]),
            headers(1, true, &[(":status", "200"), ("content-length", "9")]),
            headers(3, true, &[(":status", "304"), ("content-length", "9")]),
            frame(frame::RST_STREAM, 0, 5, &[0, 0, 0, 7]),
        ],
        &[1],
    );
    assert_eq!(reading.fault, None);
    assert_eq!((reading.streams[&1].status(), reading.streams[&1].interim.len()), (200, 1));
    assert_eq!(reading.streams[&5].reset, Some(7));
}

#[test]
fn what_a_client_must_not_send_is_a_fault() {
    let cases: Vec<Vec<Vec<u8>>> = vec![
        vec![headers(1, false, &post_with(&[("content-length", "0")])), data(1, true, b"GET / HTTP/1.1\r\n")],
        vec![headers(1, false, &post_with(&[("content-length", "3")])), data(1, true, b"ab")],
        vec![headers(1, true, &POST), data(1, true, b"")],
        vec![headers(1, true, &POST), headers(1, true, &[("sum", "1")])],
        vec![headers(2, true, &POST)],
        vec![headers(3, true, &POST), headers(1, true, &POST)],
        vec![data(1, true, b"")],
        vec![headers(1, true, &post_with(&[("Sum", "1")]))],
        vec![headers(1, true, &post_with(&[("sum", "a\r\nb")]))],
        vec![headers(1, true, &post_with(&[("transfer-encoding", "chunked")]))],
        vec![headers(1, true, &post_with(&[("te", "gzip")]))],
        vec![headers(1, true, &post_with(&[("host", "b.test")]))],
        vec![headers(1, true, &post_with(&[(":path", "/x")]))],
        vec![headers(1, true, &[(":method", "GET")])],
        vec![headers(1, false, &POST), headers(1, true, &[(":status", "1")])],
        vec![headers(1, false, &POST), headers(1, false, &[("sum", "1")])],
        vec![headers(1, false, &POST), frame(frame::RST_STREAM, 0, 1, &[0; 4]), data(1, true, b"")],
        vec![frame(frame::WINDOW_UPDATE, 0, 0, &[0; 4])],
        vec![frame(frame::HEADERS, 0, 1, &block(&POST)), data(1, true, b"")],
        vec![data(1, true, &[0; FRAME_MAX + 1])],
    ];
    for case in &cases {
        assert!(of_client(case).fault.is_some(), "{case:?}");
    }
}

#[test]
fn what_a_server_must_not_send_is_a_fault() {
    let head = |fields: &[(&str, &str)]| headers(1, false, fields);
    let cases: Vec<(Vec<Vec<u8>>, &[u32])> = vec![
        (vec![head(&[(":status", "200"), ("content-length", "0")]), data(1, true, b"evil")], &[]),
        (vec![head(&[(":status", "204")]), data(1, true, b"evil")], &[]),
        (vec![head(&[(":status", "304")]), data(1, true, b"evil")], &[]),
        (vec![head(&[(":status", "200")]), data(1, true, b"evil")], &[1]),
        (vec![headers(1, true, &[(":status", "204"), ("content-length", "0")])], &[]),
        (vec![headers(1, true, &[(":status", "200"), ("content-length", "4")])], &[]),
        (vec![headers(1, true, &[(":status", "101")])], &[]),
        (vec![headers(1, true, &[("server", "x")])], &[]),
        (vec![head(&[(":status", "200"), (":status", "200")])], &[]),
        (vec![headers(1, true, &[(":status", "100")])], &[]),
        (vec![frame(frame::PUSH_PROMISE, 0, 1, &[0; 4])], &[]),
    ];
    for (case, without_bodies) in &cases {
        assert!(of_server(case, without_bodies).fault.is_some(), "{case:?}");
    }
}

#[test]
fn bytes_that_have_not_come_are_no_fault() {
    let whole = [PREFACE, &frame(frame::SETTINGS, 0, 0, &[])[..], &headers(1, true, &POST)[..]].concat();
    for len in 0..whole.len() {
        assert_eq!(read(&whole[..len], Sender::Client, &BTreeSet::new(), FRAME_MAX).fault, None, "{len}");
    }
}
