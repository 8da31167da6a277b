//! Tunnels of WebSocket as a client has them: the opening on a new connection, then messages, each of which must come back.
//!
//! A message is an exchange like any other: a masked frame out, the same payload in one unmasked frame back (RFC 6455 5.1).
//! Proxies pass frames on as they are, so the answer is compared byte by byte, frame head included.

use std::fmt::Display;

use super::exchange::{ExpectedBody, PreparedExchange};
use super::fault::LoadFault;
use crate::wire::{fields, pattern, websocket};

/// How many different messages a load has: answers that went to the wrong client are found out.
const MESSAGES: usize = 64;

/// Longest answer to an opening, in bytes.
const HEAD_MAX: usize = 16 * 1024;

/// Prepares messages of `len` bytes, for tunnels to `host`.
pub fn prepare(host: impl Display, len: usize) -> Vec<PreparedExchange> {
    prepare_at(host, "/chat", len)
}

/// The same for tunnels that are opened at `path`.
pub fn prepare_at(host: impl Display, path: &str, len: usize) -> Vec<PreparedExchange> {
    let opening = format!(
        "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: weir-lab\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: {}\r\n\r\n",
        websocket::KEY
    );
    (0..MESSAGES)
        .map(|number| {
            let payload = pattern::run(number as u64, len);
            let (mut request, mut answer) = (Vec::new(), Vec::new());
            let mask = [number as u8, 0x5a, 0xc3, 0x17];
            websocket::write(&mut request, websocket::BINARY, true, Some(mask), payload);
            websocket::write(&mut answer, websocket::BINARY, true, None, payload);
            let opening = Some(opening.clone().into_bytes());
            PreparedExchange { request, expected: ExpectedBody::Literal(answer), opening }
        })
        .collect()
}

/// The answer to an opening, the part that has arrived.
#[derive(Debug, Default)]
pub(super) struct WebSocketOpening {
    head: Vec<u8>,
}

impl WebSocketOpening {
    /// Takes arrived bytes; returns whether the tunnel is open.
    ///
    /// # Errors
    /// When the answer is not that of a server that speaks WebSocket, or more than it.
    pub(super) fn feed(&mut self, bytes: &[u8]) -> Result<bool, LoadFault> {
        self.head.extend_from_slice(bytes);
        let Some(len) = fields::head_len(&self.head) else {
            return match self.head.len() > HEAD_MAX {
                true => Err(LoadFault::Malformed("a head over 16 KiB".to_owned())),
                false => Ok(false),
            };
        };
        check(&self.head[..len])?;
        if self.head.len() > len {
            return Err(LoadFault::Surplus);
        }
        Ok(true)
    }
}

/// Checks the head of an answer to the opening (RFC 6455 4.1).
fn check(head: &[u8]) -> Result<(), LoadFault> {
    let (line, lines) = fields::split_line(head)?;
    let Some(status) =
        line.strip_prefix(b"HTTP/1.1 ").and_then(|rest| rest.get(..3)).and_then(fields::decimal)
    else {
        return Err(LoadFault::Malformed("a status line is HTTP/1.1, status, reason".to_owned()));
    };
    if status != 101 {
        return Err(LoadFault::Status(status as u16, String::from_utf8_lossy(head).replace("\r\n", " | ")));
    }
    let fields = fields::read(lines)?;
    let is_whole = fields.upgrade && fields.websocket;
    if !is_whole || fields.websocket_accept != Some(websocket::ACCEPT.as_bytes()) {
        return Err(LoadFault::Malformed("an answer to an opening without what belongs to it".to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{WebSocketOpening, prepare};
    use crate::wire::websocket;

    fn read(wire: &str, piece: usize) -> Result<bool, &'static str> {
        let mut opening = WebSocketOpening::default();
        let mut is_open = Ok(false);
        for part in wire.as_bytes().chunks(piece) {
            is_open = opening.feed(part).map_err(|fault| fault.kind());
        }
        is_open
    }

    #[test]
    fn a_tunnel_is_open_after_the_right_answer_only() {
        let right = format!(
            "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\nX: y\r\n\
             sec-websocket-accept: {}\r\n\r\n",
            websocket::ACCEPT
        );
        for piece in 1..=right.len() {
            assert_eq!(read(&right, piece), Ok(true), "in pieces of {piece}");
        }
        for (wrong, kind) in [
            (right.replace("101", "200"), "status"),
            (right.replace("s3pP", "s3pp"), "malformed answer"),
            (right.replace("upgrade: websocket", "a: b"), "malformed answer"),
            (right.replace("connection: upgrade", "a: b"), "malformed answer"),
            (right.replace("HTTP/1.1", "HTTP/1.0"), "malformed answer"),
            (format!("{right}x"), "surplus bytes"),
        ] {
            assert_eq!(read(&wrong, wrong.len()), Err(kind), "{wrong}");
        }
        assert_eq!(read(&right[..right.len() - 1], 7), Ok(false));
    }

    #[test]
    fn messages_differ_between_clients_and_have_the_length_they_should() {
        let exchanges = prepare("127.0.0.1:80", 200);
        for pair in exchanges.windows(2) {
            assert_ne!(pair[0].expected, pair[1].expected);
        }
        let head = websocket::read(&exchanges[5].request).unwrap().unwrap();
        assert_eq!((head.payload_len, head.mask.is_some()), (200, true));
        assert_eq!(exchanges[5].expected.len(), 204);
    }
}
