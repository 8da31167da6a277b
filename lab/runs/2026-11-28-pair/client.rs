//! Sends requests at a fixed rate and counts the failed ones and the longest time without a response.
//!
//! client ADDRESS RATE SECONDS: half of the requests over kept connections, half over new ones, and tunnels at port 443. One line: sent, failed,
//! longest gap in ms, when it began after the start in ms, when the first failed request began, tunnels cut, responses by node, errors.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// As many as requests may wait at once: 2 000 a second for `PATIENCE`.
const THREADS: u32 = 640;
const PATIENCE: Duration = Duration::from_millis(300);
/// Connections that carry a byte and its echo every `TUNNEL_INTERVAL`.
const TUNNELS: u32 = 20;
const TUNNEL_INTERVAL: Duration = Duration::from_millis(50);

/// Exchanges bytes until the end, or an error.
fn tunnel(address: SocketAddr, end: Instant) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    while Instant::now() < end {
        stream.write_all(b"x")?;
        stream.read_exact(&mut [0])?;
        thread::sleep(TUNNEL_INTERVAL);
    }
    Ok(())
}

fn fetch(kept: &mut Option<TcpStream>, address: SocketAddr, keeps: bool) -> Result<char, String> {
    let mut stream = match kept.take() {
        Some(stream) => stream,
        None => TcpStream::connect_timeout(&address, PATIENCE).map_err(|error| format!("connect: {error}"))?,
    };
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
                    *kept = Some(stream);
                }
                return Ok(*node as char);
            }
        }
    }
}

/// A request, when it began and when it ended after the start, and what came of it.
type Outcome = (Duration, Duration, Result<char, String>);

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
    let tunnels: Vec<_> = (0..TUNNELS)
        .map(|_| {
            let address = SocketAddr::new(address.ip(), 443);
            thread::spawn(move || {
                let ended = tunnel(address, start + Duration::from_secs_f64(seconds));
                ended.map_err(|error| format!("tunnel after {} ms: {error}", (Instant::now() - start).as_millis()))
            })
        })
        .collect();
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
    let tunnels = tunnels.into_iter().map(|tunnel| tunnel.join().expect("no thread panics"));
    let cut: Vec<String> = tunnels.filter_map(Result::err).collect();
    let mut results = std::mem::take(&mut *results.lock().expect("all have ended"));
    results.sort_by_key(|(_, ended, _)| *ended);
    let (mut last, mut gap, mut at) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut by_node: BTreeMap<char, u32> = BTreeMap::new();
    let mut errors: BTreeMap<String, u32> = BTreeMap::new();
    let mut first_failed = None;
    for (began, ended, outcome) in &results {
        match outcome {
            Ok(node) => {
                *by_node.entry(*node).or_default() += 1;
                if *ended - last > gap {
                    (gap, at) = (*ended - last, last);
                }
                last = *ended;
            }
            Err(error) => {
                *errors.entry(error.clone()).or_default() += 1;
                first_failed.get_or_insert(*began);
            }
        }
    }
    println!(
        "{},{},{:.0},{:.0},{},{},{},{}",
        results.len(),
        errors.values().sum::<u32>(),
        gap.as_secs_f64() * 1e3,
        at.as_secs_f64() * 1e3,
        first_failed.map_or_else(String::new, |at: Duration| format!("{:.0}", at.as_secs_f64() * 1e3)),
        cut.len(),
        by_node.iter().map(|(node, count)| format!("{node} {count}")).collect::<Vec<_>>().join(" "),
        errors.iter().map(|(error, count)| format!("{count}x {error}")).chain(cut).collect::<Vec<_>>().join("; "),
    );
}
