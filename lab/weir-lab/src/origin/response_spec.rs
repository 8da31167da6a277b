//! The meaning of the origin's URLs: pairs of segments, in any order and number. Everything else is the page.
//!
//! - `/bytes/N` body size; `/chunks/N` the body in chunks of so many bytes; `/drip/MS` a pause after each piece of it
//! - `/delay/MS` wait before the answer, constant or drawn (`delay`); `/burn/US` CPU time spent on it
//! - `/status/N`; `/fail/KIND` how it goes wrong; `/share/PERCENT` for how many of the requests it does
//! - `/checksum` answer with length and CRC-32 of the request body, `/counters` with what the origin has seen
//! - `/hang/MS` answer this and then nothing for so long

use std::time::Duration;

use weir_stats::distribution::Distribution;

use super::{PAGE_LEN, delay};
use crate::wire::fields::decimal;

/// The content of the answer's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodySource {
    /// The body pattern, this many bytes of it.
    Pattern(u64),
    /// Length and CRC-32 of the request's body.
    Checksum,
    /// The origin's counters.
    Counters,
}

/// How an answer goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFailure {
    /// The connection is closed before the answer.
    Close,
    /// The connection is reset before the answer.
    Reset,
    /// The connection is closed in the middle of the head.
    Head,
    /// The connection is closed in the middle of the body.
    Truncate,
    /// The connection is reset in the middle of the body.
    TruncateReset,
    /// No answer ever comes; other connections are served.
    Silence,
    /// Bytes that are not HTTP.
    Garbage,
}

/// Names of the failures in a URL.
const FAILURES: [(&[u8], ResponseFailure); 7] = [
    (b"close", ResponseFailure::Close),
    (b"reset", ResponseFailure::Reset),
    (b"head", ResponseFailure::Head),
    (b"truncate", ResponseFailure::Truncate),
    (b"truncate-reset", ResponseFailure::TruncateReset),
    (b"silence", ResponseFailure::Silence),
    (b"garbage", ResponseFailure::Garbage),
];

/// The answer a URL asks for.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseSpec {
    /// Status code, 200 to 599.
    pub status: u16,
    /// The body.
    pub content: BodySource,
    /// How long to wait before answering, in nanoseconds.
    pub(crate) delay: Distribution,
    /// CPU time to spend on the answer.
    pub burn: Duration,
    /// How long to answer nothing else afterwards.
    pub hang: Duration,
    /// Bytes of each chunk; `None`: the body has a length.
    pub chunk: Option<u64>,
    /// Pause after each piece of the body.
    pub drip: Duration,
    /// How the answer goes wrong.
    pub failure: Option<ResponseFailure>,
    /// For how many of the requests it does, percent.
    pub share: u8,
}

/// The page: the answer to a URL without segments.
pub const PAGE: ResponseSpec = ResponseSpec {
    status: 200,
    content: BodySource::Pattern(PAGE_LEN),
    delay: Distribution::Constant(0),
    burn: Duration::ZERO,
    hang: Duration::ZERO,
    chunk: None,
    drip: Duration::ZERO,
    failure: None,
    share: 100,
};

/// Largest body one answer may have, in bytes.
const BYTES_MAX: u64 = 1 << 40;

/// Largest chunk: the most that is held of one answer, in bytes.
const CHUNK_MAX: u64 = 64 * 1024;

/// Longest delay one answer may have, and longest time without answers, in milliseconds.
const DELAY_MAX_MS: u64 = 600_000;

/// Most CPU time that one answer may take, in microseconds.
const BURN_MAX_US: u64 = 1_000_000;

/// Reads the path of a request target; the query, and segments it does not know, say nothing.
pub fn read(target: &[u8]) -> ResponseSpec {
    let mut spec = PAGE;
    if target.len() <= 1 {
        return spec;
    }
    let path = target.split(|&byte| byte == b'?').next().unwrap_or_default();
    let mut segments = path.split(|&byte| byte == b'/').skip(1);
    while let Some(segment) = segments.next() {
        match segment {
            b"checksum" => spec.content = BodySource::Checksum,
            b"counters" => spec.content = BodySource::Counters,
            b"bytes" | b"chunks" | b"drip" | b"delay" | b"burn" | b"status" | b"hang" | b"fail"
            | b"share" => {
                if let Some(value) = segments.next() {
                    take(&mut spec, segment, value);
                }
            }
            _ => {}
        }
    }
    spec
}

/// Takes one pair of segments into account; a value that is none says nothing.
fn take(spec: &mut ResponseSpec, name: &[u8], value: &[u8]) {
    match name {
        b"delay" => spec.delay = delay::read(value, DELAY_MAX_MS).unwrap_or(PAGE.delay),
        b"fail" => {
            let named = FAILURES.iter().find(|(name, _)| *name == value);
            spec.failure = named.map(|(_, failure)| *failure);
        }
        _ => {
            let Some(number) = decimal(value) else { return };
            match name {
                b"bytes" => spec.content = BodySource::Pattern(number.min(BYTES_MAX)),
                b"chunks" => spec.chunk = Some(number.clamp(1, CHUNK_MAX)),
                b"drip" => spec.drip = Duration::from_millis(number.min(DELAY_MAX_MS)),
                b"burn" => spec.burn = Duration::from_micros(number.min(BURN_MAX_US)),
                b"hang" => spec.hang = Duration::from_millis(number.min(DELAY_MAX_MS)),
                b"share" => spec.share = number.min(100) as u8,
                _ if (200..600).contains(&number) => spec.status = number as u16,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BodySource, CHUNK_MAX, FAILURES, PAGE, ResponseSpec, read};
    use std::time::Duration;
    use weir_stats::distribution::Distribution;

    fn ms(count: u64) -> Distribution {
        Distribution::Constant(count * 1_000_000)
    }

    #[test]
    fn segments_of_urls_are_read() {
        for (target, spec) in [
            ("/", PAGE),
            ("*", PAGE),
            ("/api/users?bytes/3", PAGE),
            ("/bytes/1000", ResponseSpec { content: BodySource::Pattern(1000), ..PAGE }),
            ("/bytes/0", ResponseSpec { content: BodySource::Pattern(0), ..PAGE }),
            ("/bytes/x", PAGE),
            ("/bytes", PAGE),
            ("/delay/20", ResponseSpec { delay: ms(20), ..PAGE }),
            (
                "/delay/exponential-20",
                ResponseSpec { delay: Distribution::Exponential { mean: 20_000_000 }, ..PAGE },
            ),
            ("/delay/often", PAGE),
            ("/hang/20", ResponseSpec { hang: Duration::from_millis(20), ..PAGE }),
            ("/delay/20/client/7", ResponseSpec { delay: ms(20), ..PAGE }),
            ("/burn/50", ResponseSpec { burn: Duration::from_micros(50), ..PAGE }),
            ("/status/503", ResponseSpec { status: 503, ..PAGE }),
            ("/status/100", PAGE),
            ("/status/999", PAGE),
            ("/checksum", ResponseSpec { content: BodySource::Checksum, ..PAGE }),
            ("/counters", ResponseSpec { content: BodySource::Counters, ..PAGE }),
            ("/chunks/100/drip/3", ResponseSpec { chunk: Some(100), drip: Duration::from_millis(3), ..PAGE }),
            ("/chunks/0", ResponseSpec { chunk: Some(1), ..PAGE }),
            ("/chunks/1000000000", ResponseSpec { chunk: Some(CHUNK_MAX), ..PAGE }),
            ("/fail/often", PAGE),
            (
                "/delay/5/status/404/bytes/7?x=1",
                ResponseSpec { status: 404, content: BodySource::Pattern(7), delay: ms(5), ..PAGE },
            ),
        ] {
            assert_eq!(read(target.as_bytes()), spec, "{target}");
        }
    }

    #[test]
    fn every_failure_has_a_name() {
        for (name, failure) in FAILURES {
            let target = [b"/bytes/9/share/30/fail/", name].concat();
            let content = BodySource::Pattern(9);
            assert_eq!(read(&target), ResponseSpec { content, failure: Some(failure), share: 30, ..PAGE });
        }
    }
}
