//! Responses that come from no server: fixed answers in memory, and files, which may become shorter while they are sent.

use super::client::{Ask, Got, Reading, Speech};
use super::rig::{FIXED_LENS, fixed_body};
use super::tls::TlsSides;
use super::{Failures, NO_TIME, Rig, in_event_loop, same, script, server};

/// Lengths of files: around the size of what is copied behind a head, and more than a window of HTTP/2 and than any buffer.
const FILE_LENS: [usize; 6] = [0, 3, 4_096, 4_097, 20_000, 300_000];

/// What is left of a file while it is sent.
const LEFT: u64 = 100_000;

const READINGS: [Reading; 3] = [Reading::AtOnce, Reading::Slowly, Reading::LeavesEarly];

fn file_body(len: usize) -> Vec<u8> {
    script::bytes(0..len).to_vec()
}

fn check(got: &Got, reading: Reading, body: &[u8]) -> Result<(), String> {
    match (got.status, got.is_whole) {
        _ if reading == Reading::LeavesEarly => Ok(()),
        (200, true) => same(&got.body, body),
        (status, is_whole) => Err(format!("{status} {is_whole}, {} bytes", got.body.len())),
    }
}

async fn fetch(
    rig: &mut Rig,
    client: Speech,
    reading: Reading,
    path: &str,
    body: &[u8],
) -> Result<(), String> {
    rig.begin(Reading::AtOnce, &[]);
    let ask = Ask { method: "GET", path: leak(path), number: 0, body: None, is_call: false };
    let got = rig.fetch(client, reading, ask, NO_TIME).await?;
    check(&got, reading, body)
}

/// Paths are named by constants elsewhere.
fn leak(path: &str) -> &'static str {
    Box::leak(path.to_owned().into_boxed_str())
}

/// A file becomes shorter while a slow client has some of it: the response has no end.
async fn cut(rig: &mut Rig, client: Speech) -> Result<(), String> {
    rig.begin(Reading::AtOnce, &[]);
    let (name, body) = (rig.file("shorter").join("0"), file_body(300_000));
    std::fs::create_dir_all(rig.file("shorter")).expect("the folder takes another one");
    std::fs::write(&name, &body).expect("the folder takes a file");
    let ask = Ask { method: "GET", path: "/files/shorter", number: 0, body: None, is_call: false };
    let mut clients = [rig.ask(client, Reading::Slowly, ask)];
    rig.settle(&mut clients).await;
    let file = std::fs::OpenOptions::new().write(true).open(&name).expect("it is there");
    file.set_len(LEFT).expect("it can be cut");
    rig.drive(&mut clients, NO_TIME).await?;
    let [client] = clients;
    let got = client.got;
    if got.is_whole || got.body.len() as u64 > LEFT {
        return Err(format!("{} bytes, whole: {}", got.body.len(), got.is_whole));
    }
    let is_beginning = got.status == 200 && body.starts_with(&got.body);
    is_beginning.then_some(()).ok_or_else(|| "other bytes".to_owned())
}

fn every_own_source(tls: TlsSides) {
    in_event_loop(async {
        let mut failures = Failures::default();
        let mut rig = Rig::open(server::Speech::Length, tls);
        for (client, reading) in
            [Speech::Http1, Speech::Http2].into_iter().flat_map(|one| READINGS.map(|two| (one, two)))
        {
            for len in FIXED_LENS {
                let (path, body) = (format!("/fixed-{len}"), fixed_body(len));
                let outcome = fetch(&mut rig, client, reading, &path, body.as_bytes()).await;
                failures.note(|| format!("{client:?} {reading:?} {path}"), outcome);
            }
            for len in FILE_LENS {
                let (path, body) = (format!("/files/{len}"), file_body(len));
                std::fs::create_dir_all(rig.file(&len.to_string())).expect("the folder takes another one");
                std::fs::write(rig.file(&len.to_string()).join("0"), &body).expect("the folder takes a file");
                let outcome = fetch(&mut rig, client, reading, &path, &body).await;
                failures.note(|| format!("{client:?} {reading:?} {path}"), outcome);
            }
        }
        for client in [Speech::Http1, Speech::Http2] {
            let outcome = cut(&mut rig, client).await;
            failures.note(|| format!("{client:?}, a file that becomes shorter"), outcome);
        }
        failures.check();
    });
}

#[test]
fn fixed_answers_and_files_are_the_same_for_all() {
    every_own_source(TlsSides::NEITHER);
}

#[test]
fn fixed_answers_and_files_are_the_same_over_tls() {
    every_own_source(TlsSides::CLIENTS);
}
