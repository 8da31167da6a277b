//! A name server of our own: every name has the addresses that the test gives it, for one second.
//!
//! Reads just enough of a query (RFC 1035 section 4) to answer it; there is one question in each, and nothing is
//! ever truncated. Every question is counted, so that a test can wait until Weir has asked again.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::harness::watchdog::eventually;

const HEADER_LEN: usize = 12;
const TYPE_A: u16 = 1;
const TYPE_AAAA: u16 = 28;
/// The name in the question, by its place (RFC 1035 section 4.1.4).
const NAME_OF_QUESTION: [u8; 2] = [0xc0, HEADER_LEN as u8];
const CLASS_INTERNET: [u8; 2] = [0, 1];

/// What every question is answered with.
#[derive(Debug, Clone)]
pub(crate) enum DnsAnswer {
    /// Those of these addresses that are of the family asked for.
    Addresses(Vec<IpAddr>),
    /// The server could not find out (RCODE 2).
    ServerFailure,
    /// There is no such name (RCODE 3).
    NoSuchName,
    /// The question is lost.
    Silence,
}

#[derive(Debug)]
struct State {
    answer: DnsAnswer,
    /// Those of names with answers of their own.
    own: HashMap<String, DnsAnswer>,
    /// Questions answered with the present answer.
    asked: usize,
    /// All questions about addresses of IPv4, by name.
    asked_of: HashMap<String, usize>,
    /// How long answers count.
    ttl_seconds: u32,
    stopping: bool,
}

/// A name server on a UDP port of 127.0.0.1.
pub(crate) struct NameServer {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl NameServer {
    /// Starts with the addresses of every name.
    pub(crate) fn start(addresses: &[&str]) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
        let address = socket.local_addr().expect("a bound socket has an address");
        // Checks periodically whether the test is over.
        socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a time limit is fine");
        let state = State {
            answer: parse(addresses),
            own: HashMap::new(),
            asked: 0,
            asked_of: HashMap::new(),
            ttl_seconds: 1,
            stopping: false,
        };
        let state = Arc::new(Mutex::new(state));
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            let mut query = [0; 1500];
            while !lock(&serving).stopping {
                let Ok((len, from)) = socket.recv_from(&mut query) else { continue };
                let mut state = lock(&serving);
                let (name, kind) = question(&query[..len]).expect("a query is well formed");
                if kind == TYPE_A {
                    *state.asked_of.entry(name.clone()).or_default() += 1;
                }
                let answer = state.own.get(&name).unwrap_or(&state.answer);
                let is_silent = matches!(answer, DnsAnswer::Silence);
                let response =
                    respond(&query[..len], answer, state.ttl_seconds).expect("a query is well formed");
                state.asked += 1;
                if !is_silent {
                    // A resolver that has gone needs no answer.
                    let _ = socket.send_to(&response, from);
                }
            }
        });
        NameServer { address, state }
    }

    /// The setting that makes Weir use this server.
    pub(crate) fn setting(&self) -> String {
        format!("dns.resolvers = [\"{}\"]\n", self.address)
    }

    /// Gives every name other addresses.
    pub(crate) fn move_to(&self, addresses: &[&str]) {
        self.answer(parse(addresses));
    }

    /// Changes what every question is answered with.
    pub(crate) fn answer(&self, answer: DnsAnswer) {
        let mut state = lock(&self.state);
        state.answer = answer;
        state.asked = 0;
    }

    /// Changes what questions about one name are answered with.
    pub(crate) fn answer_for(&self, name: &str, answer: DnsAnswer) {
        lock(&self.state).own.insert(name.to_owned(), answer);
    }

    /// Gives one name other addresses.
    pub(crate) fn move_name_to(&self, name: &str, addresses: &[&str]) {
        self.answer_for(name, parse(addresses));
    }

    /// Has answers count for so many seconds from now on.
    pub(crate) fn set_ttl(&self, seconds: u32) {
        lock(&self.state).ttl_seconds = seconds;
    }

    /// How often the addresses of a name were asked for.
    pub(crate) fn asked_of(&self, name: &str) -> usize {
        lock(&self.state).asked_of.get(name).copied().unwrap_or_default()
    }

    /// How many names were asked for.
    pub(crate) fn names_asked(&self) -> usize {
        lock(&self.state).asked_of.len()
    }

    /// Waits until the present answer was given `count` times.
    pub(crate) fn wait_for_questions(&self, count: usize) {
        eventually("the name server is asked", || lock(&self.state).asked >= count);
    }
}

impl Drop for NameServer {
    fn drop(&mut self) {
        lock(&self.state).stopping = true;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

fn parse(addresses: &[&str]) -> DnsAnswer {
    DnsAnswer::Addresses(
        addresses.iter().map(|text| text.parse().expect("the test gives IP addresses")).collect(),
    )
}

/// The name and the type that a query asks for.
fn question(query: &[u8]) -> Option<(String, u16)> {
    let (mut end, mut labels) = (HEADER_LEN, Vec::new());
    while *query.get(end)? != 0 {
        let label = query.get(end + 1..end + 1 + usize::from(query[end]))?;
        labels.push(String::from_utf8_lossy(label).to_lowercase());
        end += label.len() + 1;
    }
    Some((labels.join("."), u16::from_be_bytes([*query.get(end + 1)?, *query.get(end + 2)?])))
}

/// The response to a query; `None` when that is not one.
fn respond(query: &[u8], answer: &DnsAnswer, ttl_seconds: u32) -> Option<Vec<u8>> {
    let mut end = HEADER_LEN;
    while *query.get(end)? != 0 {
        end += usize::from(query[end]) + 1;
    }
    let question = query.get(HEADER_LEN..end + 5)?;
    let asked = u16::from_be_bytes([query[end + 1], query[end + 2]]);
    let (code, records) = match answer {
        DnsAnswer::Addresses(addresses) => {
            (0, addresses.iter().filter_map(|ip| record(*ip, asked, ttl_seconds)).collect())
        }
        DnsAnswer::ServerFailure => (2, Vec::new()),
        DnsAnswer::NoSuchName => (3, Vec::new()),
        DnsAnswer::Silence => (0, Vec::new()),
    };
    let mut response = query[..2].to_vec();
    // A response, recursion desired and available; one question, the answers, nothing else.
    response.extend([0x81, 0x80 | code, 0, 1, 0, records.len() as u8, 0, 0, 0, 0]);
    response.extend(question);
    response.extend(records.concat());
    Some(response)
}

/// The record of an address, if it is of the type that was asked for.
fn record(ip: IpAddr, asked: u16, ttl_seconds: u32) -> Option<Vec<u8>> {
    let (kind, bytes) = match ip {
        IpAddr::V4(ip) => (TYPE_A, ip.octets().to_vec()),
        IpAddr::V6(ip) => (TYPE_AAAA, ip.octets().to_vec()),
    };
    let ttl = ttl_seconds.to_be_bytes();
    let record =
        [&NAME_OF_QUESTION[..], &kind.to_be_bytes(), &CLASS_INTERNET, &ttl, &[0, bytes.len() as u8], &bytes];
    (kind == asked).then(|| record.concat())
}
