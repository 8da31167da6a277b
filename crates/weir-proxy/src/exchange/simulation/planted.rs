//! Faults that are planted into the records of good runs: the judge has to find each of them.

use std::collections::{BTreeMap, BTreeSet};

use super::judge::{MeantEnd, MeantSource};
use super::{Finished, by_connection, config, finish, judge, meant_reply, meant_requests, record_of};

/// A record with a fault, and its name.
type Planted = (&'static str, Vec<u8>);

/// How often each fault was planted.
#[derive(Default)]
struct Plantings(BTreeMap<&'static str, usize>);

impl Plantings {
    fn note(&mut self, (name, record): &Planted, judge: impl Fn(&[u8]) -> Result<(), String>) {
        *self.0.entry(name).or_default() += 1;
        assert!(judge(record).is_err(), "{name} was not found: {}", record.escape_ascii());
    }
}

/// `record` with `to` in place of the first `from`, if that is there.
fn replaced(record: &[u8], from: &str, to: &str) -> Option<Vec<u8>> {
    let at = record.windows(from.len()).position(|window| window == from.as_bytes())?;
    Some([&record[..at], to.as_bytes(), &record[at + from.len()..]].concat())
}

fn is_chunked(record: &[u8]) -> bool {
    record.ends_with(b"\r\n0\r\n\r\n")
}

/// Faults of a whole response of a server, with a body.
fn plant_in_reply(record: &[u8], id: usize) -> Vec<Planted> {
    let head = record.windows(4).position(|window| window == b"\r\n\r\n").map_or(0, |at| at + 4);
    let mut changed = record.to_vec();
    let in_body = if is_chunked(record) { record.len() - 8 } else { record.len() - 1 };
    changed[in_body] ^= 1;
    let mut planted = vec![
        ("a response without its last byte", record[..record.len() - 1].to_vec()),
        ("a byte behind a response", [record, b"x"].concat()),
        ("a response twice", [record, record].concat()),
        ("an answer to no request behind it", [record, b"HTTP/1.1 400 Bad Request\r\n\r\n"].concat()),
        ("a response without a body", record[..head].to_vec()),
        ("no response", Vec::new()),
        ("another byte in the body", changed),
    ];
    let id = format!("x-id: {id}\r\n");
    let text = String::from_utf8_lossy(&record[..head]).to_lowercase();
    let at = text.find(&id).expect("the response of a server has an id");
    let other = [&record[..at], b"X-Id: 99\r\n", &record[at + id.len()..]].concat();
    planted.push(("the response of another", other));
    let cases = [
        ("another status", "HTTP/1.1 200 ", "HTTP/1.1 201 "),
        (
            "an interim response that was not sent",
            "HTTP/1.1 200 ",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ",
        ),
        ("a bare LF", "\r\n\r\n", "\n\n"),
    ];
    planted.extend(cases.iter().filter_map(|(name, from, to)| Some((*name, replaced(record, from, to)?))));
    planted
}

/// Faults of a connection that has carried several requests.
fn plant_in_requests(requests: &[Vec<u8>]) -> Vec<Planted> {
    let record = requests.concat();
    let first = &requests[0];
    let rest = &record[first.len()..];
    vec![
        ("a request without its last byte", [&first[..first.len() - 1], rest].concat()),
        ("a byte between requests", [&first[..], b"x", rest].concat()),
        ("a request twice", [&first[..], &record].concat()),
        ("a request too few", rest.to_vec()),
        ("requests in another order", [rest, &first[..]].concat()),
        ("the last request twice", [&record[..], &requests[requests.len() - 1]].concat()),
    ]
}

#[test]
fn faults_in_records_are_found() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().expect("it can be made");
    let _in_runtime = runtime.enter();
    let config = config().into_result().expect("the config is good");
    let (mut plantings, mut swapped) = (Plantings::default(), 0);
    for seed in 1..30 {
        let Finished { world, outcomes } = &finish(&config, seed);
        let mut others: Vec<(usize, Vec<u8>)> = Vec::new();
        for (number, client) in world.clients.iter().enumerate() {
            let (record, meant) =
                (client.reply.got.borrow(), meant_reply(world, number, outcomes[number].as_ref()));
            let has_body = matches!(&meant.source, MeantSource::Server(body) if !body.is_empty());
            if meant.end != MeantEnd::Whole || !has_body || meant.statuses != [200] {
                continue;
            }
            for planted in plant_in_reply(&record, client.id) {
                plantings.note(&planted, |record| judge::reply(record, &meant));
            }
            for (other, record) in &others {
                swapped += 1;
                assert!(judge::reply(record, &meant).is_err(), "client {number} got that of {other}");
            }
            others.push((number, record.clone()));
        }
        for attempts in by_connection(world).values().filter(|attempts| attempts.len() > 1) {
            let meant = meant_requests(world, attempts);
            let requests: Vec<_> =
                attempts.iter().map(|attempt| attempt.request.got.borrow().clone()).collect();
            assert_eq!(judge::requests(&record_of(attempts), &meant), Ok(()));
            let ids: BTreeSet<&String> = meant.iter().map(|request| &request.id).collect();
            if ids.len() < meant.len() || !meant.iter().all(|request| request.is_whole) {
                continue;
            }
            for planted in plant_in_requests(&requests) {
                plantings.note(&planted, |record| judge::requests(record, &meant));
            }
        }
    }
    println!("{:?}, swapped {swapped}", plantings.0);
    assert!(plantings.0.len() == 17 && plantings.0.values().all(|count| *count > 20) && swapped > 20);
}
