//! Writes the head of an answer, and the common answer whole.
//!
//! The head has the fields a stock web server sends (Server, Date, validators), so that a balancer has as much to pass
//! on as in life. Made once a second, when the date changes; a request then costs one copy.

use std::io::Write as _;

use super::PAGE_LEN;
use crate::clock;
use crate::wire::pattern;

/// The parts in which the heads of answers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OriginResponseHead {
    pub(super) status: u16,
    pub(super) content_type: &'static str,
    pub(super) length: BodyEnd,
    pub(super) keep_alive: bool,
}

/// How the head says where the body ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BodyEnd {
    /// This many bytes.
    Bytes(u64),
    /// By a chunk without content.
    Chunked,
    /// It must not say it (204).
    Unstated,
}

/// Answers kept ready until the second changes.
#[derive(Debug)]
pub(super) struct ReadyHeads {
    second: i64,
    date: String,
    page: Vec<u8>,
}

impl ReadyHeads {
    pub(super) fn new() -> Self {
        let mut heads = Self { second: i64::MIN, date: String::new(), page: Vec::new() };
        heads.refresh();
        heads
    }

    /// Renews the date when a second has passed.
    pub(super) fn refresh(&mut self) {
        let now = clock::today();
        if now.as_second() == self.second {
            return;
        }
        self.second = now.as_second();
        // RFC 9110 5.6.7, IMF-fixdate.
        self.date = jiff::fmt::rfc2822::DateTimePrinter::new()
            .timestamp_to_rfc9110_string(&now)
            .expect("the year has four digits");
        let mut page = Vec::with_capacity(1024);
        self.write_head(
            &mut page,
            OriginResponseHead {
                status: 200,
                content_type: "text/html",
                length: BodyEnd::Bytes(PAGE_LEN),
                keep_alive: true,
            },
        );
        page.extend_from_slice(pattern::run(0, PAGE_LEN as usize));
        self.page = page;
    }

    /// The page with status 200 on a connection that stays open, head and body.
    pub(super) fn page(&self) -> &[u8] {
        &self.page
    }

    /// Appends a head.
    pub(super) fn write_head(&self, out: &mut Vec<u8>, shape: OriginResponseHead) {
        let written = write!(
            out,
            "HTTP/1.1 {} {}\r\nServer: weir-lab\r\nDate: {}\r\nContent-Type: {}\r\n",
            shape.status,
            reason(shape.status),
            self.date,
            shape.content_type
        )
        .and_then(|()| match shape.length {
            BodyEnd::Bytes(len) => write!(out, "Content-Length: {len}\r\nETag: \"65935200-{len:x}\"\r\n"),
            BodyEnd::Chunked => write!(out, "Transfer-Encoding: chunked\r\n"),
            BodyEnd::Unstated => Ok(()),
        });
        written.expect("a Vec takes every write");
        out.extend_from_slice(b"Last-Modified: Tue, 02 Jan 2024 00:00:00 GMT\r\nAccept-Ranges: none\r\n");
        out.extend_from_slice(match shape.keep_alive {
            true => b"Connection: keep-alive\r\n\r\n",
            false => b"Connection: close\r\n\r\n",
        });
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        204 => "No Content",
        304 => "Not Modified",
        400 => "Bad Request",
        404 => "Not Found",
        500 => "Internal Server Error",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        _ => "Asked For",
    }
}
