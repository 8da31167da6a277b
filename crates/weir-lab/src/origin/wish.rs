//! What a URL asks the origin to do: pairs of segments, in any order and number.
//!
//! `/bytes/N` body size, `/delay/MS` wait before the answer, `/status/N`, `/checksum` answer with length and CRC-32
//! of the request body, `/counters` answer with what the origin has seen, `/hang/MS` answer this and then nothing for so
//! long. Everything else is the page.

use std::time::Duration;

use super::PAGE_LEN;
use crate::wire::fields::decimal;

/// What the answer's body is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// The body pattern, so many bytes of it.
    Pattern(u64),
    /// Length and CRC-32 of the request's body.
    Checksum,
    /// The origin's counters.
    Counters,
}

/// The answer a URL asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wish {
    /// Status code, 200 to 599.
    pub status: u16,
    /// The body.
    pub content: Content,
    /// How long to wait before answering.
    pub delay: Duration,
    /// How long to answer nothing else afterwards.
    pub hang: Duration,
}

/// The page: what a URL without wishes gets.
pub const PAGE: Wish =
    Wish { status: 200, content: Content::Pattern(PAGE_LEN), delay: Duration::ZERO, hang: Duration::ZERO };

/// Largest body one answer may have, in bytes.
const BYTES_MAX: u64 = 1 << 40;

/// Longest delay one answer may have, and longest time without answers, in milliseconds.
const DELAY_MAX_MS: u64 = 600_000;

/// Reads the path of a request target; the query, and segments it does not know, say nothing.
pub fn read(target: &[u8]) -> Wish {
    let mut wish = PAGE;
    if target.len() <= 1 {
        return wish;
    }
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let mut segments = path.split(|&byte| byte == b'/').skip(1);
    while let Some(segment) = segments.next() {
        match segment {
            b"checksum" => wish.content = Content::Checksum,
            b"counters" => wish.content = Content::Counters,
            b"bytes" | b"delay" | b"status" | b"hang" => {
                let Some(number) = segments.next().and_then(decimal) else { continue };
                match segment {
                    b"bytes" => wish.content = Content::Pattern(number.min(BYTES_MAX)),
                    b"delay" => wish.delay = Duration::from_millis(number.min(DELAY_MAX_MS)),
                    b"hang" => wish.hang = Duration::from_millis(number.min(DELAY_MAX_MS)),
                    _ if (200..600).contains(&number) => wish.status = number as u16,
                    _ => {}
                }
            }
            _ => {}
        }
    }
    wish
}

#[cfg(test)]
mod tests {
    use super::{Content, PAGE, Wish, read};
    use std::time::Duration;

    #[test]
    fn urls_say_what_is_wanted() {
        for (target, wish) in [
            ("/", PAGE),
            ("*", PAGE),
            ("/api/users?bytes/3", PAGE),
            ("/bytes/1000", Wish { content: Content::Pattern(1000), ..PAGE }),
            ("/bytes/0", Wish { content: Content::Pattern(0), ..PAGE }),
            ("/bytes/x", PAGE),
            ("/bytes", PAGE),
            ("/delay/20", Wish { delay: Duration::from_millis(20), ..PAGE }),
            ("/hang/20", Wish { hang: Duration::from_millis(20), ..PAGE }),
            ("/delay/20/client/7", Wish { delay: Duration::from_millis(20), ..PAGE }),
            ("/status/503", Wish { status: 503, ..PAGE }),
            ("/status/100", PAGE),
            ("/status/999", PAGE),
            ("/checksum", Wish { content: Content::Checksum, ..PAGE }),
            ("/counters", Wish { content: Content::Counters, ..PAGE }),
            (
                "/delay/5/status/404/bytes/7?x=1",
                Wish {
                    status: 404,
                    content: Content::Pattern(7),
                    delay: Duration::from_millis(5),
                    hang: Duration::ZERO,
                },
            ),
        ] {
            assert_eq!(read(target.as_bytes()), wish, "{target}");
        }
    }
}
