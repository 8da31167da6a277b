//! What is a sequence of messages, and what is not.

use super::*;

const GET: &str = "GET /a HTTP/1.1\r\nhost: a.test\r\n\r\n";

fn fault_of_requests(text: &str) -> Option<String> {
    requests(text.as_bytes()).fault.map(|fault| fault.what)
}

fn fault_of_responses(text: &str, methods: &[&str]) -> Option<String> {
    responses(text.as_bytes(), methods, Ending::Closed).fault.map(|fault| fault.what)
}

#[test]
fn requests_one_behind_the_other() {
    let text = format!(
        "{GET}POST /b HTTP/1.1\r\nhost: a.test\r\ncontent-length: 3\r\n\r\nabc\
         PUT /c HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nde\r\n0\r\nsum: 1\r\n\r\n{GET}"
    );
    let reading = requests(text.as_bytes());
    assert_eq!(reading.fault, None);
    let bodies: Vec<&[u8]> = reading.messages.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [&b""[..], b"abc", b"de", b""]);
    assert!(reading.messages.iter().all(|message| message.is_complete));
    assert_eq!(reading.messages[2].trailers.first("sum"), Some("1"));
    assert_eq!(reading.messages[3].bytes.end, text.len());
}

#[test]
fn every_beginning_of_what_is_sound_is_sound_and_incomplete() {
    let text =
        "POST /b HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nde\r\n0\r\nsum: 1\r\n\r\n";
    for len in 1..text.len() {
        let reading = requests(&text.as_bytes()[..len]);
        assert_eq!(reading.fault, None, "{len}");
        assert!(reading.messages.iter().all(|message| !message.is_complete), "{len}");
        assert_eq!(reading.messages.is_empty(), reading.unfinished_head.is_some(), "{len}");
    }
}

#[test]
fn what_two_recipients_could_read_in_two_ways_is_a_fault() {
    let head = |lines: &str| format!("POST / HTTP/1.1\r\nhost: a\r\n{lines}\r\n");
    let cases = [
        head("content-length: 1\r\ntransfer-encoding: chunked\r\n"),
        head("content-length: 1\r\ncontent-length: 1\r\n"),
        head("content-length: +1\r\n"),
        head("content-length: 1, 1\r\n"),
        head("transfer-encoding: gzip, chunked\r\n"),
        head("x : 1\r\n"),
        head("x: a\rb\r\n"),
        head("x: a\nb: c\r\n"),
        head(" folded\r\n"),
        head("host: b\r\n"),
        "GET / HTTP/1.1\r\n\r\n".to_owned(),
        "GET / HTTP/1.0\r\nhost: a\r\n\r\n".to_owned(),
        "GET /a b HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        format!("{GET}\r\n{GET}"),
        format!("{GET}\0"),
        head("transfer-encoding: chunked\r\n") + "2\nab\r\n",
        head("transfer-encoding: chunked\r\n") + "2\r\nabc\r\n",
        head("transfer-encoding: chunked\r\n") + "0x2\r\nab\r\n",
        head("transfer-encoding: chunked\r\n") + "0\r\ncontent-length: 4\r\n\r\n",
    ];
    for case in &cases {
        assert!(fault_of_requests(case).is_some(), "{case:?}");
    }
}

#[test]
fn responses_answer_requests_in_their_order() {
    let text = "HTTP/1.1 103 Early\r\nlink: </a>\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nab\
                HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nHTTP/1.1 304 X\r\ncontent-length: 9\r\n\r\nHTTP/1.1 204 X\r\n\r\n\
                HTTP/1.1 200 OK\r\n\r\nuntil the end";
    let reading = responses(text.as_bytes(), &["GET", "HEAD", "GET", "DELETE", "GET"], Ending::Closed);
    assert_eq!(reading.fault, None);
    let statuses: Vec<u16> = reading.messages.iter().map(Message::status).collect();
    assert_eq!(statuses, [103, 200, 200, 304, 204, 200]);
    assert!(reading.messages.iter().all(|message| message.is_complete));
    assert_eq!(reading.messages[5].body, b"until the end");
    let broken = responses(b"HTTP/1.1 200 OK\r\n\r\nuntil", &["GET"], Ending::Broken);
    assert!(!broken.messages[0].is_complete);
}

#[test]
fn split_responses_are_a_fault() {
    let evil = "HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil";
    let zero = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    for (text, methods) in [
        (format!("{zero}{evil}"), &["GET"][..]),
        (format!("HTTP/1.1 204 X\r\n\r\n{evil}"), &["GET"]),
        (format!("HTTP/1.1 304 X\r\n\r\n{evil}"), &["GET"]),
        (evil.to_owned(), &["HEAD"]),
        (format!("{zero}left over"), &["GET", "GET"]),
        (format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n{evil}"), &["GET", "GET"]),
        ("HTTP/1.1 204 X\r\ncontent-length: 0\r\n\r\n".to_owned(), &["GET"]),
        ("HTTP/1.1 204 X\r\ntransfer-encoding: chunked\r\n\r\n".to_owned(), &["GET"]),
        ("HTTP/1.1 99 X\r\n\r\n".to_owned(), &["GET"]),
        ("HTTP/1.1 200\r\n\r\n".to_owned(), &["GET"]),
    ] {
        assert!(fault_of_responses(&text, methods).is_some(), "{text:?}");
    }
}

#[test]
fn a_switch_ends_the_reading() {
    let text = "HTTP/1.1 101 X\r\nupgrade: websocket\r\n\r\n\x01\x02";
    let reading = responses(text.as_bytes(), &["GET"], Ending::Open);
    assert_eq!((reading.fault, reading.tunnel), (None, Some(text.len() - 2)));
    let text = "GET / HTTP/1.1\r\nhost: a\r\nupgrade: websocket\r\n\r\n\x01\x02";
    assert_eq!(requests(text.as_bytes()).tunnel, Some(text.len() - 2));
}

#[test]
fn methods_are_found_as_far_as_possible() {
    let told = |text: &str| request_methods(text.as_bytes());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    assert_eq!(told(&format!("{GET}HEAD / HTTP/1.1\r\nx")), (words(&["GET", "HEAD"]), true));
    assert_eq!(told("HEAD  / HTTP/1.1\r\n\r\n"), (words(&["HEAD"]), false));
}
