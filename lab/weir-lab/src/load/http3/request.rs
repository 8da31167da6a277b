//! A request of HTTP/3 prepared as bytes, and its expected answer: the same requests as those of HTTP/1.1.

use std::sync::Arc;

use bytes::Bytes;

use crate::load::exchange::ExpectedBody;
use crate::wire::{checksum, http3, pattern};

/// How many different bodies a load has: answers that went to the wrong stream are found out.
const BODIES: usize = 64;

/// See the module.
#[derive(Debug, Clone)]
pub struct Http3Request {
    /// The frame with its head; with a body, the head of the frame with that as well.
    pub(super) head: Bytes,
    /// The body.
    pub(super) body: Bytes,
    /// The body of the answer.
    pub(super) expected: ExpectedBody,
}

/// GETs of `path` from `authority`, which are answered with `answer` bytes.
pub fn get(authority: &str, path: &str, answer: u64) -> Http3Request {
    let head = frame(&http3::request(authority, path, None)).into();
    Http3Request { head, body: Bytes::new(), expected: ExpectedBody::Pattern(answer) }
}

/// POSTs of bodies of `len` bytes to `/checksum` of `authority`.
pub fn posts(authority: &str, len: usize) -> Vec<Http3Request> {
    let mut head = frame(&http3::request(authority, "/checksum", Some(len as u64)));
    http3::write_frame_head(&mut head, http3::kind::DATA, len as u64);
    let head = Bytes::from(head);
    // Each body begins one byte later than the one before; all of them are parts of one.
    let all =
        pattern::run(0, pattern::PERIOD).iter().copied().cycle().take(len + BODIES).collect::<Vec<u8>>();
    let all = Bytes::from(all);
    let post = |number: usize| {
        let body = all.slice(number..number + len);
        let expected = ExpectedBody::Literal(checksum::line_for(&body).into_bytes());
        Http3Request { head: head.clone(), body, expected }
    };
    (0..BODIES).map(post).collect()
}

/// Any request with this field section and body, whose answer is not known; whether `text` is in it is looked at.
pub fn unknown(section: &[u8], body: Bytes, text: Option<Arc<[u8]>>) -> Http3Request {
    let mut head = frame(section);
    if !body.is_empty() {
        http3::write_frame_head(&mut head, http3::kind::DATA, body.len() as u64);
    }
    Http3Request { head: head.into(), body, expected: ExpectedBody::Unknown(text) }
}

/// A HEADERS frame.
fn frame(section: &[u8]) -> Vec<u8> {
    let mut frame = Vec::with_capacity(section.len() + 8);
    http3::write_frame_head(&mut frame, http3::kind::HEADERS, section.len() as u64);
    frame.extend_from_slice(section);
    frame
}

#[cfg(test)]
mod tests {
    use super::{get, posts};
    use crate::load::exchange::ExpectedBody;
    use crate::wire::http3::{self, kind};

    #[test]
    fn a_get_is_one_frame() {
        let request = get("a:1", "/", 612);
        let (frame, len, rest) = http3::frame_head(&request.head).unwrap();
        assert_eq!((frame, len as usize), (kind::HEADERS, rest.len()));
        assert!(request.body.is_empty() && request.expected == ExpectedBody::Pattern(612));
    }

    #[test]
    fn bodies_differ_and_are_parts_of_one() {
        let requests = posts("a:1", 100_000);
        assert_eq!(requests.len(), 64);
        for pair in requests.windows(2) {
            assert_ne!(pair[0].expected, pair[1].expected);
            assert_eq!((pair[0].body.len(), pair[0].body[1]), (100_000, pair[1].body[0]));
        }
        let (_, len, rest) = http3::frame_head(&requests[0].head).unwrap();
        assert_eq!(http3::frame_head(&rest[len as usize..]), Some((kind::DATA, 100_000, &[][..])));
    }
}
