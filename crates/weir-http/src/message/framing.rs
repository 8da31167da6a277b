//! What a head says about the body behind it: the one value from which readers and writers of every protocol are made.
//!
//! RFC 9112 section 6.3 and RFC 9113 section 8.1.1. Computed by `RequestHead::body` and `ResponseHead::body` alone. What writes a message is held
//! to this value, so that a body never becomes the beginning of another message.

use super::method::Method;

/// How the body behind a head is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Framing {
    /// No body may follow: 1xx, 204, 304, a response to HEAD, a success of CONNECT, a request that names none.
    #[default]
    None,
    /// Exactly this many bytes follow, which may be 0.
    Length(u64),
    /// The protocol tells where the body ends: by chunks, frames or records.
    Delimited,
    /// The body ends with its connection.
    UntilClose,
}

impl Framing {
    /// Whether no byte of a body follows.
    #[inline]
    pub const fn is_empty(self) -> bool {
        matches!(self, Framing::None | Framing::Length(0))
    }

    /// The number of bytes that follow, if the head says it.
    #[inline]
    pub const fn length(self) -> Option<u64> {
        match self {
            Framing::None => Some(0),
            Framing::Length(length) => Some(length),
            Framing::Delimited | Framing::UntilClose => None,
        }
    }

    /// That of the response with `status` to a request with `method` whose head would have this one (RFC 9110 section 6.4.1): none where no body
    /// may follow, and a length of 0 in the place of none where one may.
    #[inline]
    pub const fn in_response(self, method: Method, status: u16) -> Framing {
        let is_bodiless = match status {
            100..200 | 204 | 304 => true,
            200..300 => matches!(method, Method::Head | Method::Connect),
            _ => matches!(method, Method::Head),
        };
        match self {
            _ if is_bodiless => Framing::None,
            Framing::None => Framing::Length(0),
            framing => framing,
        }
    }

    /// By the Content-Length, or by `without_length` where there is none.
    #[inline]
    pub(crate) const fn from_length(content_length: Option<u64>, without_length: Framing) -> Framing {
        match content_length {
            Some(length) => Framing::Length(length),
            None => without_length,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Framing;

    #[test]
    fn a_length_that_is_announced_counts_first_also_when_it_is_zero() {
        for without_length in [Framing::None, Framing::Length(0), Framing::Delimited, Framing::UntilClose] {
            assert_eq!(Framing::from_length(None, without_length), without_length);
            for length in [0, 5] {
                assert_eq!(Framing::from_length(Some(length), without_length), Framing::Length(length));
            }
        }
    }

    #[test]
    fn some_responses_have_no_body_whatever_they_say() {
        use crate::Method::{Connect, Get, Head, Post};
        for framing in [Framing::None, Framing::Length(0), Framing::Length(5), Framing::Delimited] {
            for (method, status) in
                [(Get, 100), (Post, 204), (Get, 304), (Head, 200), (Head, 404), (Connect, 200)]
            {
                assert_eq!(framing.in_response(method, status), Framing::None, "{method:?} {status}");
            }
            let expected = if framing == Framing::None { Framing::Length(0) } else { framing };
            for (method, status) in [(Get, 200), (Post, 205), (Get, 416), (Connect, 403)] {
                assert_eq!(framing.in_response(method, status), expected, "{method:?} {status}");
            }
        }
    }

    #[test]
    fn only_a_length_is_known_before_the_end() {
        for (framing, is_empty, length) in [
            (Framing::None, true, Some(0)),
            (Framing::Length(0), true, Some(0)),
            (Framing::Length(5), false, Some(5)),
            (Framing::Delimited, false, None),
            (Framing::UntilClose, false, None),
        ] {
            assert_eq!((framing.is_empty(), framing.length()), (is_empty, length), "{framing:?}");
        }
    }
}
