//! The cookie that a simulated client was given, and its requests with it (RFC 6265 5.2, 5.4).
//!
//! Holds one cookie, whatever its name: a target gives out one at most, and the lab's servers none. Path, domain and lifetime
//! are ignored, since a run has one host and is short. As long as there is no cookie, requests are sent as prepared.

use super::exchange::PreparedExchange;
use crate::wire::fields;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct CookieJar {
    /// Name and value; empty without a cookie.
    cookie: Vec<u8>,
    /// The request with it.
    request: Vec<u8>,
    /// Which of the prepared exchanges that is.
    made_for: Option<usize>,
}

impl CookieJar {
    /// Replaces the cookie by that of a Set-Cookie field. An empty value removes it.
    /// Says whether there is one now.
    pub(super) fn keep(&mut self, set_cookie: &[u8]) -> bool {
        let pair = set_cookie.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
        let is_given = matches!(memchr::memchr(b'=', pair), Some(at) if at > 0 && at + 1 < pair.len());
        self.cookie.clear();
        self.cookie.extend_from_slice(if is_given { pair } else { b"" });
        self.made_for = None;
        is_given
    }

    /// Makes exchange `number` ready to be sent with the cookie. Costs nothing when it is the same as last time.
    pub(super) fn prepare(&mut self, number: usize, exchange: &PreparedExchange) {
        if self.cookie.is_empty() || self.made_for == Some(number) {
            return;
        }
        let head_len = fields::head_len(&exchange.request).unwrap_or_default();
        let (head, body) = exchange.request.split_at(head_len);
        let Some(lines) = head.strip_suffix(b"\r\n\r\n") else { return };
        // A client sends one Cookie field at most. A prepared one is the last of its head.
        let last = memchr::memmem::rfind(lines, b"\r\n").map_or(lines, |at| &lines[at + 2..]);
        let joint: &[u8] = if last.starts_with(b"Cookie: ") { b"; " } else { b"\r\nCookie: " };
        self.request.clear();
        for part in [lines, joint, &self.cookie, b"\r\n\r\n", body] {
            self.request.extend_from_slice(part);
        }
        self.made_for = Some(number);
    }

    /// The bytes to send for exchange `number`.
    pub(super) fn request<'a>(&'a self, number: usize, exchange: &'a PreparedExchange) -> &'a [u8] {
        if self.made_for == Some(number) { &self.request } else { &exchange.request }
    }
}

#[cfg(test)]
mod tests {
    use super::CookieJar;
    use crate::load::exchange::{ExpectedBody, PreparedExchange};

    fn exchange(request: &str) -> PreparedExchange {
        PreparedExchange {
            request: request.as_bytes().to_vec(),
            expected: ExpectedBody::Pattern(0),
            opening: None,
        }
    }

    fn sent(jar: &mut CookieJar, number: usize, request: &str) -> String {
        let exchange = exchange(request);
        jar.prepare(number, &exchange);
        String::from_utf8(jar.request(number, &exchange).to_vec()).unwrap()
    }

    #[test]
    fn the_latest_cookie_is_sent_with_every_request() {
        let (mut jar, plain) = (CookieJar::default(), "POST / HTTP/1.1\r\nHost: a\r\n\r\nbody\r\n\r\n");
        assert_eq!(sent(&mut jar, 0, plain), plain);
        for (given, line) in [
            ("SRV=one; path=/; HttpOnly", "Cookie: SRV=one\r\n"),
            ("weir-server=aGk=;Path=/", "Cookie: weir-server=aGk=\r\n"),
            ("SRV=two", "Cookie: SRV=two\r\n"),
            // Taken away, or none at all.
            ("SRV=; Expires=Thu, 01-Jan-1970 00:00:01 GMT", ""),
            ("SRV=three", "Cookie: SRV=three\r\n"),
            ("=nameless", ""),
        ] {
            assert_eq!(jar.keep(given.as_bytes()), !line.is_empty(), "{given}");
            let with = format!("POST / HTTP/1.1\r\nHost: a\r\n{line}\r\nbody\r\n\r\n");
            for _ in 0..2 {
                assert_eq!(sent(&mut jar, 0, plain), with, "{given}");
            }
        }
    }

    #[test]
    fn a_client_has_one_cookie_field_and_as_many_requests_as_it_likes() {
        let mut jar = CookieJar::default();
        assert!(jar.keep(b"SRV=one"));
        let own = "GET /a HTTP/1.1\r\nHost: a\r\nCookie: session=5\r\n\r\n";
        assert_eq!(
            sent(&mut jar, 0, own),
            "GET /a HTTP/1.1\r\nHost: a\r\nCookie: session=5; SRV=one\r\n\r\n"
        );
        let other = "GET /b HTTP/1.1\r\nHost: a\r\n\r\n";
        assert_eq!(sent(&mut jar, 1, other), "GET /b HTTP/1.1\r\nHost: a\r\nCookie: SRV=one\r\n\r\n");
    }
}
