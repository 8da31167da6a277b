//! Sound messages in every framing, cut into random pieces on both sides, come through whole and in order.
//!
//! The pieces are drawn from a seed; a failure names the seed that shows it again.

use std::sync::Arc;

use crate::harness::draw::Draw;
use crate::harness::{Client, Connection, Origin, Weir};

/// Parts of messages.
impl Draw {
    /// A length that is often 0 or 1, often near the size of a buffer, sometimes large.
    fn len(&mut self) -> usize {
        let bases = [0, 1, 2, 100, 1_000, 4_090, 16_370, 16_384, 32_760, 70_000];
        bases[self.below(bases.len())] + self.below(20)
    }

    fn content(&mut self, len: usize) -> Vec<u8> {
        let start = self.below(256);
        (0..len).map(|at| (start + at * 7 + at / 256) as u8).collect()
    }

    /// `content` in chunks of random sizes, some with extensions, some with trailers.
    fn chunked(&mut self, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut rest = content;
        while !rest.is_empty() {
            let len = (1 + self.len()).min(rest.len());
            let extension = ["", ";a", ";a=b", ";a=\"b c\""][self.below(4)];
            out.extend(format!("{len:x}{extension}\r\n").bytes());
            out.extend(&rest[..len]);
            out.extend(b"\r\n");
            rest = &rest[len..];
        }
        out.extend(["0\r\n\r\n", "00;last\r\n\r\n", "0\r\nX-Sum: 1\r\n\r\n"][self.below(3)].bytes());
        out
    }

    /// Cuts `bytes` into pieces.
    fn pieces<'a>(&mut self, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let mut pieces = Vec::new();
        while !bytes.is_empty() {
            let len = if self.below(3) == 0 { 1 + self.below(5) } else { 1 + self.len() };
            let (piece, rest) = bytes.split_at(len.min(bytes.len()));
            pieces.push(piece);
            bytes = rest;
        }
        pieces
    }
}

/// One request with the content that its response will have.
struct Round {
    target: String,
    request: Vec<u8>,
    sent: Vec<u8>,
    returned: Vec<u8>,
}

fn round(seed: u64, number: usize) -> Round {
    let mut draw = Draw::new(seed ^ (number as u64) << 32);
    let target = format!("/{seed}/{number}");
    let len = draw.len();
    let sent = draw.content(len);
    let head = |method: &str, framing: &str| {
        format!("{method} {target} HTTP/1.1\r\nHost: a.test\r\n{framing}\r\n").into_bytes()
    };
    let request = match draw.below(3) {
        0 if sent.is_empty() => head("GET", ""),
        0 | 1 => [head("POST", &format!("Content-Length: {}\r\n", sent.len())), sent.clone()].concat(),
        _ => [head("POST", "Transfer-Encoding: chunked\r\n"), draw.chunked(&sent)].concat(),
    };
    let len = draw.len();
    let returned = draw.content(len);
    Round { target, request, sent, returned }
}

fn answer(conn: &mut Connection, round: &Round, draw: &mut Draw) -> Option<bool> {
    let interim: &[u8] = if draw.below(8) == 0 { b"HTTP/1.1 103 Early Hints\r\nA: b\r\n\r\n" } else { b"" };
    let len = round.returned.len();
    let (head, body, last) = match draw.below(5) {
        0 | 1 => (format!("Content-Length: {len}\r\n"), round.returned.clone(), false),
        2 | 3 => ("Transfer-Encoding: chunked\r\n".to_owned(), draw.chunked(&round.returned), false),
        _ => ("Connection: close\r\n".to_owned(), round.returned.clone(), true),
    };
    let bytes = [interim, b"HTTP/1.1 200 OK\r\n", head.as_bytes(), b"\r\n", &body].concat();
    for piece in draw.pieces(&bytes) {
        conn.send(piece)?;
    }
    Some(last)
}

fn play(seeds: std::ops::Range<u64>, rounds_each: usize) {
    let expected = Arc::new(move |target: &str| {
        let mut parts =
            target.trim_start_matches('/').split('/').map(|part| part.parse::<u64>().unwrap_or_default());
        let (seed, number) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        (round(seed, number as usize), Draw::new(!seed ^ number << 40))
    });
    let origin = Origin::start(move |conn| {
        loop {
            let request = conn.request()?;
            let (round, mut draw) = expected(request.target());
            assert!(
                request.body.bytes == round.sent,
                "the body of {} is not what was sent",
                request.target()
            );
            if answer(conn, &round, &mut draw)? {
                return Some(());
            }
        }
    });
    let weir = Weir::proxying(&origin);
    for seed in seeds {
        let rounds: Vec<Round> = (0..rounds_each).map(|number| round(seed, number)).collect();
        let mut client = Client::connect(weir.web());
        let mut writer = client.duplicate();
        let requests: Vec<u8> = rounds.iter().flat_map(|round| round.request.clone()).collect();
        // Pipelined: the writer does not wait for any response.
        let writing = std::thread::spawn(move || {
            let mut draw = Draw::new(seed);
            draw.pieces(&requests).into_iter().for_each(|piece| writer.send(piece));
        });
        for round in &rounds {
            let response = loop {
                match client.try_response_to("GET") {
                    Ok(response) if response.status < 200 => {}
                    Ok(response) => break response,
                    Err(end) => panic!("seed {seed}, {}: {end}", round.target),
                }
            };
            assert_eq!(response.status, 200, "seed {seed}, {}: {response:?}", round.target);
            assert!(
                response.body.bytes == round.returned,
                "seed {seed}, {}: the response body differs",
                round.target
            );
        }
        writing.join().expect("the writing thread ends with the responses");
    }
    let requests = origin.requests();
    assert!(requests.iter().all(|r| r.fields().all("x-sum").is_empty()), "no trailer became a field");
}

#[test]
fn pipelines_of_ten() {
    play(1..31, 10);
}

#[test]
fn single_exchanges() {
    play(1_000..1_150, 1);
}
