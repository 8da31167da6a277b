//! Sends requests at a fixed rate and counts the failed ones, how long some fail, and kept connections that are cut.
//!
//! client ADDRESS RATE SECONDS: half of the requests over kept connections, half over new ones. One line: sent, failed, longest time without a
//! response in ms, when the first failed request and the last failed one over a new connection began in ms, kept connections cut by node, responses by node, errors.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// As many as requests may wait at once: 2 000 a second for `PATIENCE`.
const THREADS: u32 = 640;
const PATIENCE: Duration = Duration::from_millis(300);

/// A kept connection, and the node that has responded over it.
type Kept = Option<(TcpStream, char)>;

fn fetch(kept: &mut Kept, address: SocketAddr, keeps: bool) -> Result<char, Failure> {
    let stream = match kept.take() {
        Some((stream, node)) => {
            return exchange(stream, kept, keeps).map_err(|error| Failure { error, cut: Some(node) });
        }
        None => TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("connect: {error}")),
    };
    stream.and_then(|stream| exchange(stream, kept, keeps)).map_err(|error| Failure { error, cut: None })
}

/// A failed request, and the node whose kept connection was cut.
struct Failure {
    error: String,
    cut: Option<char>,
}

fn exchange(mut stream: TcpStream, kept: &mut Kept, keeps: bool) -> Result<char, String> {
    stream.set_nodelay(true).ok();
    stream.set_read_timeout(Some(PATIENCE)).ok();
    let close = if keeps { "" } else { "Connection: close\r\n" };
    stream
        .write_all(format!("GET / HTTP/1.1\r\nHost: pair\r\n{close}\r\n").as_bytes())
        .map_err(|error| format!("send: {error}"))?;
    let mut text = Vec::new();
    let mut buffer = [0; 1024];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return Err(format!("closed after {} bytes", text.len())),
            Ok(len) => text.extend_from_slice(&buffer[..len]),
            Err(error) => return Err(format!("receive: {error}")),
        }
        if let Some(end) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            // The body is one byte, the name of the node.
            if let Some(node) = text.get(end + 4) {
                let head = String::from_utf8_lossy(&text[..end]).to_lowercase();
                if !head.starts_with("http/1.1 200") {
                    return Err(head.lines().next().unwrap_or_default().to_owned());
                }
                if keeps && !head.contains("connection: close") {
                    *kept = Some((stream, *node as char));
                }
                return Ok(*node as char);
            }
        }
    }
}

/// A request, when it began and when it ended after the start, and what came of it.
type Outcome = (Duration, Duration, Result<char, Failure>);

/// The requests of one thread.
fn send(number: u32, address: SocketAddr, (rate, seconds): (f64, f64), start: Instant) -> Vec<Outcome> {
    let interval = f64::from(THREADS) / rate;
    let mut own = Vec::new();
    let mut kept = None;
    let mut turn = 0;
    loop {
        let at = interval * (f64::from(turn) + f64::from(number) / f64::from(THREADS));
        turn += 1;
        if at > seconds {
            break;
        }
        let due = start + Duration::from_secs_f64(at);
        let now = Instant::now();
        if due > now {
            thread::sleep(due - now);
        } else if now - due > Duration::from_secs_f64(interval) {
            // It waited for a response for longer: those turns are lost.
            continue;
        }
        let began = Instant::now() - start;
        let outcome = fetch(&mut kept, address, number % 2 == 0);
        own.push((began, Instant::now() - start, outcome));
    }
    own
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let address: SocketAddr = arguments[1].parse().expect("an address");
    let rate: f64 = arguments[2].parse().expect("a rate");
    let seconds: f64 = arguments[3].parse().expect("seconds");
    let start = Instant::now() + Duration::from_millis(100);
    let results = Arc::new(Mutex::new(Vec::new()));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let results = Arc::clone(&results);
            let own_stack = thread::Builder::new().stack_size(128 << 10);
            own_stack.spawn(move || {
                let own = send(number, address, (rate, seconds), start);
                results.lock().expect("no thread panics").extend(own);
            }).expect("threads")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no thread panics");
    }
    let mut results = std::mem::take(&mut *results.lock().expect("all have ended"));
    results.sort_by_key(|(_, ended, _)| *ended);
    let (mut last, mut gap) = (Duration::ZERO, Duration::ZERO);
    let mut cut: BTreeMap<char, u32> = BTreeMap::new();
    let (mut first_failed, mut last_failed) = (None::<Duration>, None::<Duration>);
    let mut by_node: BTreeMap<char, u32> = BTreeMap::new();
    let mut errors: BTreeMap<String, u32> = BTreeMap::new();
    for (began, ended, outcome) in &results {
        match outcome {
            Ok(node) => {
                *by_node.entry(*node).or_default() += 1;
                gap = gap.max(*ended - last);
                last = *ended;
            }
            Err(failure) => {
                *errors.entry(failure.error.clone()).or_default() += 1;
                match failure.cut {
                    Some(node) => *cut.entry(node).or_default() += 1,
                    None => last_failed = last_failed.max(Some(*began)),
                }
                first_failed = Some(first_failed.map_or(*began, |first| first.min(*began)));
            }
        }
    }
    let at = |time: Option<Duration>| time.map_or_else(String::new, |time| format!("{:.0}", time.as_secs_f64() * 1e3));
    let counts = |counts: &BTreeMap<char, u32>| counts.iter().map(|(node, count)| format!("{node} {count}")).collect::<Vec<_>>().join(" ");
    println!(
        "{},{},{:.0},{},{},{},{},{}",
        results.len(),
        errors.values().sum::<u32>(),
        gap.as_secs_f64() * 1e3,
        at(first_failed),
        at(last_failed),
        counts(&cut),
        counts(&by_node),
        errors.iter().map(|(error, count)| format!("{count}x {error}")).collect::<Vec<_>>().join("; "),
    );
}
