//! The bytes of the protocols, as far as both peers need them; independent of the codecs of Weir but for HPACK.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;

use rustls::Connection;

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const SETTINGS: u8 = 4;
pub(super) const PING: u8 = 6;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;

pub(super) const END_STREAM: u8 = 1;
pub(super) const ACK: u8 = 1;
pub(super) const END_HEADERS: u8 = 4;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The window of a connection, and of a stream unless settings change that (RFC 9113 section 6.9.2).
pub(super) const WINDOW: i64 = 65_535;

/// Types of records of FastCGI.
pub(super) const BEGIN_REQUEST: u8 = 1;
pub(super) const END_REQUEST: u8 = 3;
pub(super) const PARAMS: u8 = 4;
pub(super) const STDIN: u8 = 5;
pub(super) const STDOUT: u8 = 6;

pub(super) fn put_frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// A field as a literal that enters no table (RFC 7541 section 6.2.2).
pub(super) fn put_field(block: &mut Vec<u8>, name: &str, value: &str) {
    block.extend_from_slice(&[0, name.len() as u8]);
    block.extend_from_slice(name.as_bytes());
    block.push(value.len() as u8);
    block.extend_from_slice(value.as_bytes());
}

/// Takes the first frame of `input`, if it is whole: its kind, its flags, its stream, its payload.
pub(super) fn take_frame(input: &mut Vec<u8>) -> Option<(u8, u8, u32, Vec<u8>)> {
    let header = input.get(..9)?;
    let len = usize::from(header[0]) << 16 | usize::from(header[1]) << 8 | usize::from(header[2]);
    let (kind, flags, stream) = (header[3], header[4], number(&header[5..]));
    let payload = input.get(9..9 + len)?.to_vec();
    input.drain(..9 + len);
    Some((kind, flags, stream, payload))
}

/// The number in the first four bytes.
pub(super) fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes[..4].try_into().expect("it has four bytes"))
}

/// A record of the only request of a connection, with some padding.
pub(super) fn put_record(out: &mut Vec<u8>, kind: u8, content: &[u8]) {
    let len = (content.len() as u16).to_be_bytes();
    out.extend_from_slice(&[1, kind, 0, 1, len[0], len[1], 3, 0]);
    out.extend_from_slice(content);
    out.extend_from_slice(&[0xAA; 3]);
}

/// Takes the first record of `input`, if it is whole: its kind, its content.
pub(super) fn take_record(input: &mut Vec<u8>) -> Option<(u8, Vec<u8>)> {
    let header = input.get(..8)?;
    let (kind, padding) = (header[1], usize::from(header[6]));
    let len = usize::from(u16::from_be_bytes([header[4], header[5]]));
    let content = input.get(8..8 + len)?.to_vec();
    if input.len() < 8 + len + padding {
        return None;
    }
    input.drain(..8 + len + padding);
    Some((kind, content))
}

/// A message of HTTP/1, as far as it is here.
#[derive(Debug, Default)]
pub(super) struct Http1Message {
    pub(super) head: String,
    pub(super) body: Vec<u8>,
    pub(super) has_trailers: bool,
    pub(super) is_whole: bool,
    /// Bytes of the input that are of it, once it is whole.
    pub(super) len: usize,
}

impl Http1Message {
    /// The message at the front of `input`, once its head is here; `is_closed` says whether nothing follows. A request has no body unless its head
    /// says so, as a response to HEAD.
    pub(super) fn read(input: &[u8], is_request: bool, is_closed: bool) -> Option<Self> {
        let end = input.windows(4).position(|bytes| bytes == b"\r\n\r\n")? + 4;
        let head = String::from_utf8(input[..end].to_vec()).expect("heads of Weir are text").to_lowercase();
        let rest = &input[end..];
        let mut message = Self { head, ..Self::default() };
        if let Some(len) = message.field("content-length") {
            let len: usize = len.parse().expect("a number");
            message.body = rest[..rest.len().min(len)].to_vec();
            (message.is_whole, message.len) = (message.body.len() == len, end + len);
        } else if message.field("transfer-encoding").is_some() {
            message.read_chunks(rest);
            message.len += end;
        } else if is_request || [" 204", " 304"].iter().any(|status| message.head[8..].starts_with(status)) {
            (message.is_whole, message.len) = (true, end);
        } else {
            (message.body, message.is_whole, message.len) = (rest.to_vec(), is_closed, input.len());
        }
        Some(message)
    }

    pub(super) fn field(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    pub(super) fn status(&self) -> u16 {
        self.head[9..12].parse().expect("a status")
    }

    fn read_chunks(&mut self, input: &[u8]) {
        let mut at = 0;
        while let Some(line) = input[at..].windows(2).position(|bytes| bytes == b"\r\n") {
            let size = std::str::from_utf8(&input[at..at + line]).expect("a size is text");
            let size = usize::from_str_radix(size, 16).expect("a size");
            let start = at + line + 2;
            if size == 0 {
                let Some(end) = input[at..].windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return };
                self.has_trailers = end > line;
                (self.is_whole, self.len) = (true, at + end + 4);
                return;
            }
            let end = (start + size).min(input.len());
            self.body.extend_from_slice(&input[start..end]);
            if input.len() < start + size + 2 {
                return;
            }
            at = start + size + 2;
        }
    }
}

/// One end of a connection, which never waits.
#[derive(Debug)]
pub(super) struct Pipe {
    socket: UnixStream,
    tls: Option<Box<Connection>>,
    pub(super) input: Vec<u8>,
    pub(super) output: Vec<u8>,
    /// Whether the other side has ended its direction, or broken the connection.
    pub(super) has_ended: bool,
    was_broken: bool,
    /// Whether it closes as soon as all is written.
    is_closing: bool,
}

impl Pipe {
    pub(super) fn new(socket: UnixStream, tls: Option<Connection>) -> Self {
        socket.set_nonblocking(true).expect("it can be set");
        let (input, output, tls) = (Vec::new(), Vec::new(), tls.map(Box::new));
        Self { socket, tls, input, output, has_ended: false, was_broken: false, is_closing: false }
    }

    /// Whether the other side has ended its direction in order.
    pub(super) fn has_ended_well(&self) -> bool {
        self.has_ended && !self.was_broken
    }

    /// Whether nothing waits to be written.
    pub(super) fn is_sent(&self) -> bool {
        self.output.is_empty() && (self.was_broken || self.tls.as_ref().is_none_or(|tls| !tls.wants_write()))
    }

    /// Whether both sides have not agreed on TLS yet.
    pub(super) fn is_shaking(&self) -> bool {
        !self.has_ended && self.tls.as_ref().is_some_and(|tls| tls.is_handshaking())
    }

    /// Writes what there is; whether anything has moved.
    pub(super) fn write(&mut self) -> bool {
        let mut moved = false;
        if self.tls.is_some() {
            moved |= self.write_records();
        }
        while self.tls.is_none() && !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(len) => moved = self.output.drain(..len).len() > 0,
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(_) => self.output.clear(),
            }
        }
        if self.is_closing && self.is_sent() {
            self.cut();
        }
        moved
    }

    fn write_records(&mut self) -> bool {
        let Some(tls) = self.tls.as_deref_mut().filter(|_| !self.was_broken) else { return false };
        let mut moved = false;
        loop {
            while tls.wants_write() {
                match tls.write_tls(&mut self.socket) {
                    Ok(_) => moved = true,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return moved,
                    // What has come before can be read still.
                    Err(_) => {
                        self.output.clear();
                        return moved;
                    }
                }
            }
            if self.output.is_empty() || tls.is_handshaking() {
                return moved;
            }
            let taken = tls.writer().write(&self.output).expect("it takes some in memory");
            self.output.drain(..taken);
        }
    }

    /// Agrees on TLS, as far as that needs no time; whether anything has moved.
    pub(super) fn shake(&mut self) -> bool {
        let moved = self.write();
        self.is_shaking() && self.take_records() || moved
    }

    /// Takes in some of what was received; whether there was anything.
    fn take_records(&mut self) -> bool {
        let Some(tls) = &mut self.tls else { return false };
        match tls.read_tls(&mut self.socket) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return false,
            Ok(len) if tls.process_new_packets().is_ok() && (len > 0 || !tls.is_handshaking()) => {}
            _ => (self.has_ended, self.was_broken) = (true, true),
        }
        true
    }

    /// Reads up to `len_max` bytes; whether anything has come.
    pub(super) fn read(&mut self, len_max: usize) -> bool {
        let (mut left, mut moved) = (len_max, false);
        let mut buf = [0; 16 * 1024];
        while left > 0 && !self.has_ended {
            let space = &mut buf[..left.min(16 * 1024)];
            let outcome = match &mut self.tls {
                None => self.socket.read(space),
                Some(tls) => tls.reader().read(space),
            };
            match outcome {
                Ok(0) => self.has_ended = true,
                Ok(len) => {
                    self.input.extend_from_slice(&buf[..len]);
                    left -= len;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.take_records() {
                        break;
                    }
                }
                Err(_) => (self.has_ended, self.was_broken) = (true, true),
            }
            moved = true;
        }
        moved
    }

    /// Ends both directions in order, behind what is still to be written.
    pub(super) fn close(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.send_close_notify();
        }
        self.is_closing = true;
        self.write();
    }

    /// Ends both directions at once: with TLS, the other side sees that something is missing.
    pub(super) fn cut(&mut self) {
        let _gone = self.socket.shutdown(Shutdown::Both);
        self.has_ended = true;
    }
}
