//! What passed on a connection of a test, and whether Weir's side of it is exactly a sequence of messages: an independent reader judges it when the
//! connection ends, whatever the test is about.
//!
//! Only what Weir wrote is judged. Peers of tests break rules on purpose; what they sent says which responses there may be, and nothing else.
//! Where neither a peer nor Weir speaks HTTP from the first byte, the connection is of something else: a TCP listener, the runtime socket, a probe
//! of another protocol.

use std::cell::Cell;
use std::collections::BTreeSet;

use weir_wire::http1::{self, Ending};
use weir_wire::http2::{self, FRAME_MAX, FrameHeader, PREFACE, Sender};
use weir_wire::{fastcgi, proxy_header};

use super::message::latin1;

/// More of a connection is not kept, nor judged: large bodies are counted by their tests.
const KEPT_MAX: usize = 16 << 20;

/// Which peer of Weir has the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// The bytes that a peer sent, and what has become of the record.
#[derive(Debug)]
pub(super) struct Record {
    side: Side,
    sent: Vec<u8>,
    /// Why the connection is not judged: bytes are not in the record, or they are of no protocol that is read here.
    exempt: Cell<Option<&'static str>>,
    /// Streams whose responses have no body.
    pub(super) heads: BTreeSet<u32>,
}

impl Record {
    pub(super) fn new(side: Side) -> Record {
        Record { side, sent: Vec::new(), exempt: Cell::new(None), heads: BTreeSet::new() }
    }

    pub(super) fn note_sent(&mut self, bytes: &[u8]) {
        if self.sent.len() + bytes.len() > KEPT_MAX {
            self.exempt("it is too large");
        } else {
            self.sent.extend_from_slice(bytes);
        }
    }

    /// Takes the connection out, for this reason.
    pub(super) fn exempt(&self, reason: &'static str) {
        self.exempt.set(Some(reason));
    }

    /// What is wrong with the bytes that Weir wrote.
    pub(super) fn fault(&self, received: &[u8]) -> Option<String> {
        if self.exempt.get().is_some() || received.is_empty() {
            return None;
        }
        let fault = match self.side {
            Side::Client => self.fault_of_responses(received),
            Side::Server => fault_of_requests(&self.sent, received),
        };
        let shown = || latin1(&received[..received.len().min(4_000)]);
        fault.map(|fault| format!("what Weir sent is wrong at {fault}; it sent {:?}", shown()))
    }

    fn fault_of_responses(&self, received: &[u8]) -> Option<String> {
        let header = proxy_header::len(&self.sent).unwrap_or(0);
        let sent = &self.sent[header..];
        let first_line = sent.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty());
        let asks = first_line.is_some_and(|line| latin1(line).contains(" HTTP/"));
        if !asks && !received.starts_with(b"HTTP/") && !is_http2(received) {
            return None;
        }
        if is_http2(received) {
            let reading = http2::read(received, Sender::Server, &self.heads, FRAME_MAX);
            return reading.fault.map(|fault| fault.to_string());
        }
        let (mut methods, is_exact) = http1::request_methods(sent);
        if methods.is_empty() {
            // The time for a request may be over before it came.
            methods.push("GET".to_owned());
        }
        if !is_exact {
            // How many requests there are is for the test to know.
            methods.extend(vec!["GET".to_owned(); 64]);
        }
        let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
        http1::responses(received, &methods, Ending::Open).fault.map(|fault| fault.to_string())
    }
}

/// Whether bytes begin with a frame of SETTINGS, as a server of HTTP/2 does.
fn is_http2(received: &[u8]) -> bool {
    const SETTINGS: u8 = 4;
    let first = FrameHeader::read(received);
    first.is_some_and(|header| header.kind == SETTINGS && header.stream == 0 && header.len % 6 == 0)
}

fn fault_of_requests(sent: &[u8], received: &[u8]) -> Option<String> {
    let header = match proxy_header::len(received) {
        Ok(header) => header,
        Err(_) => return None,
    };
    let received = &received[header..];
    let preface = &PREFACE[..PREFACE.len().min(received.len())];
    if !received.is_empty() && received.starts_with(preface) {
        let reading = http2::read(received, Sender::Client, &BTreeSet::new(), FRAME_MAX);
        return reading.fault.map(|fault| fault.to_string());
    }
    if received.first() == Some(&1) {
        return fastcgi::requests(received).fault.map(|fault| fault.to_string());
    }
    let reading = http1::requests(received);
    let fault = reading.fault?;
    if fault.at == 0 && !sent.starts_with(b"HTTP/") {
        return None;
    }
    // Behind a switch of protocols, what comes is not HTTP/1.
    let methods: Vec<String> = http1::request_methods(received).0;
    let methods: Vec<&str> = methods.iter().map(String::as_str).collect();
    let switched = http1::responses(sent, &methods, Ending::Open).tunnel.is_some();
    (!switched).then(|| fault.to_string())
}
