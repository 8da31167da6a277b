//! One direction of a connection of HTTP/1.1: exactly a sequence of messages (RFC 9112).
//!
//! `head` reads a head, `body` what follows it. Requests delimit themselves; of responses, the methods of their requests decide as well.

mod body;
mod head;
#[cfg(test)]
mod tests;

use crate::WireFault;
use crate::fields::Fields;

pub use head::{StartLine, request_methods};

/// How the body of a message is delimited (RFC 9112 section 6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framing {
    /// There is none.
    Empty,
    /// So many bytes.
    Length(u64),
    /// Chunks.
    Chunked,
    /// Everything until the connection ends.
    UntilClose,
}

/// One message, as far as it came.
#[derive(Debug, Clone)]
pub struct Message {
    /// Where it begins, and where what came of it ends.
    pub bytes: std::ops::Range<usize>,
    /// The request line or the status line.
    pub start: StartLine,
    /// The fields of its head.
    pub fields: Fields,
    /// How its body is delimited.
    pub framing: Framing,
    /// Its body, decoded.
    pub body: Vec<u8>,
    /// The fields behind a chunked body.
    pub trailers: Fields,
    /// Whether all of it came.
    pub is_complete: bool,
}

impl Message {
    /// The status of a response; 0 of a request.
    pub fn status(&self) -> u16 {
        match self.start {
            StartLine::Response { status } => status,
            StartLine::Request { .. } => 0,
        }
    }

    /// Whether it is a response before the final one.
    pub fn is_interim(&self) -> bool {
        (100..200).contains(&self.status()) && self.status() != 101
    }
}

/// How the sender ended its direction, as far as is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Not at all, or not seen.
    Open,
    /// In order (FIN, with TLS `close_notify`).
    Closed,
    /// By a reset, or with TLS without `close_notify`.
    Broken,
}

/// What the bytes of one direction are.
#[derive(Debug, Clone, Default)]
pub struct Reading {
    /// The messages, the last of which may be incomplete.
    pub messages: Vec<Message>,
    /// What comes behind a switch of protocols or the response to CONNECT, where HTTP ends.
    pub tunnel: Option<usize>,
    /// Where a head begins that did not come as a whole.
    pub unfinished_head: Option<usize>,
    /// The first rule that is broken; nothing behind it is read.
    pub fault: Option<WireFault>,
}

impl Reading {
    fn stop(mut self, fault: WireFault) -> Self {
        self.fault = Some(fault);
        self
    }
}

/// Reads what a client has sent: requests, one behind the other.
pub fn requests(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    let mut at = 0;
    while at < bytes.len() {
        if let Err(fault) = head::check_beginning(&bytes[at..], head::Kind::Request) {
            return reading.stop(WireFault::new(at, fault));
        }
        let (start, fields, len) = match head::read(&bytes[at..], head::Kind::Request) {
            Ok(Some(head)) => head,
            Ok(None) => {
                reading.unfinished_head = Some(at);
                return reading;
            }
            Err(what) => return reading.stop(WireFault::new(at, what)),
        };
        let framing = match head::request_framing(&start, &fields) {
            Ok(framing) => framing,
            Err(what) => return reading.stop(WireFault::new(at, what)),
        };
        let switches = head::asks_for_tunnel(&start, &fields);
        let message = Message {
            bytes: at..at + len,
            start,
            fields,
            framing,
            body: Vec::new(),
            trailers: Fields::default(),
            is_complete: false,
        };
        let message = match body::read(bytes, message, Ending::Open) {
            Ok(message) => message,
            Err(fault) => return reading.stop(fault),
        };
        at = message.bytes.end;
        let is_complete = message.is_complete;
        reading.messages.push(message);
        if !is_complete {
            return reading;
        }
        // What follows is HTTP only if the server does not switch, which these bytes do not say.
        if switches && at < bytes.len() && head::check_beginning(&bytes[at..], head::Kind::Request).is_err() {
            reading.tunnel = Some(at);
            return reading;
        }
    }
    reading
}

/// Reads what a server has sent to requests with these `methods`, in their order, and how it ended.
pub fn responses(bytes: &[u8], methods: &[&str], ending: Ending) -> Reading {
    let mut reading = Reading::default();
    let (mut at, mut answered, mut closes) = (0, 0, false);
    while at < bytes.len() {
        let Some(method) = methods.get(answered) else {
            let what = format!("{} bytes behind the response to the last request", bytes.len() - at);
            return reading.stop(WireFault::new(at, what));
        };
        if closes {
            return reading.stop(WireFault::new(at, "bytes behind a response with `connection: close`"));
        }
        if let Err(fault) = head::check_beginning(&bytes[at..], head::Kind::Response) {
            return reading.stop(WireFault::new(at, fault));
        }
        let (start, fields, len) = match head::read(&bytes[at..], head::Kind::Response) {
            Ok(Some(head)) => head,
            Ok(None) => {
                reading.unfinished_head = Some(at);
                return reading;
            }
            Err(what) => return reading.stop(WireFault::new(at, what)),
        };
        let framing = match head::response_framing(&start, &fields, method) {
            Ok(framing) => framing,
            Err(what) => return reading.stop(WireFault::new(at, what)),
        };
        let message = Message {
            bytes: at..at + len,
            start,
            fields,
            framing,
            body: Vec::new(),
            trailers: Fields::default(),
            is_complete: false,
        };
        let message = match body::read(bytes, message, ending) {
            Ok(message) => message,
            Err(fault) => return reading.stop(fault),
        };
        at = message.bytes.end;
        let (status, is_complete, is_interim) = (message.status(), message.is_complete, message.is_interim());
        closes = !is_interim && message.fields.lists("connection", "close");
        reading.messages.push(message);
        if !is_complete {
            return reading;
        }
        if status == 101 || (*method == "CONNECT" && (200..300).contains(&status)) {
            reading.tunnel = Some(at);
            return reading;
        }
        answered += usize::from(!is_interim);
    }
    reading
}
