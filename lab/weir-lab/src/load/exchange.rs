//! A request prepared as bytes, and its expected answer.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::topology::upstream::CLIENT_HEADER;
use crate::wire::{checksum, pattern};

/// The body an answer must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExpectedBody {
    /// The body pattern, this many bytes of it.
    Pattern(u64),
    /// These bytes.
    Literal(Vec<u8>),
    /// Any, with any status, of any length: what is seen of it is told, and whether this text is in it.
    Unknown(Option<Arc<[u8]>>),
}

impl ExpectedBody {
    /// Length of the body, in bytes; of an unknown one, the most that there can be.
    pub fn len(&self) -> u64 {
        match self {
            Self::Pattern(len) => *len,
            Self::Literal(bytes) => bytes.len() as u64,
            Self::Unknown(_) => u64::MAX,
        }
    }

    /// Whether no body is expected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether `bytes` equal the body from byte `position` on.
    pub fn matches(&self, position: u64, bytes: &[u8]) -> bool {
        let end = position + bytes.len() as u64;
        match self {
            Self::Pattern(len) => end <= *len && pattern::matches(position, bytes),
            Self::Literal(whole) => whole.get(position as usize..end as usize) == Some(bytes),
            Self::Unknown(_) => true,
        }
    }
}

/// See the module.
#[derive(Debug, Clone)]
pub struct PreparedExchange {
    /// The request, head and body, or a frame.
    pub request: Vec<u8>,
    /// The answer's body; behind an opening, the whole answer.
    pub expected: ExpectedBody,
    /// What a new connection begins with: the opening of WebSocket, after which requests and answers are frames.
    pub opening: Option<Vec<u8>>,
}

/// The form of the requests of a load.
#[derive(Debug, Clone, Copy)]
pub struct RequestShape<'a> {
    /// Host field.
    pub host: &'a str,
    /// Target, for requests without a body.
    pub path: &'a str,
    /// Bytes of request body; 0 for GET, otherwise POST to the origin's `/checksum`.
    pub body_len: usize,
    /// Length of the answer's body, for requests without a body.
    pub answer_len: u64,
    /// Ask the target to close afterwards.
    pub close: bool,
    /// A cookie of the application, name and value.
    pub cookie: Option<&'a str>,
}

/// How many different POST bodies a load has: answers that went to the wrong client are found out.
const BODIES: usize = 64;

/// What every request says of the client. A tool that says nothing of itself gets them too: the same load is the same bytes.
pub const OWN_FIELDS: &str = "User-Agent: weir-lab\r\nAccept: */*\r\n";

/// Prepares the requests of a load.
pub fn prepare(shape: &RequestShape<'_>) -> Vec<PreparedExchange> {
    let connection = if shape.close { "Connection: close\r\n" } else { "" };
    let fields = format!("Host: {}\r\n{OWN_FIELDS}{connection}", shape.host);
    let cookie = shape.cookie.map_or_else(String::new, |cookie| format!("Cookie: {cookie}\r\n"));
    if shape.body_len == 0 {
        let request = format!("GET {} HTTP/1.1\r\n{fields}{cookie}\r\n", shape.path).into_bytes();
        return vec![PreparedExchange {
            request,
            expected: ExpectedBody::Pattern(shape.answer_len),
            opening: None,
        }];
    }
    let head = format!(
        "POST /checksum HTTP/1.1\r\n{fields}Content-Type: text/plain\r\nContent-Length: {}\r\n{cookie}\r\n",
        shape.body_len
    );
    (0..BODIES)
        .map(|number| {
            let body: Vec<u8> = pattern::run(0, pattern::PERIOD)
                .iter()
                .copied()
                .cycle()
                .skip(number)
                .take(shape.body_len)
                .collect();
            let expected = ExpectedBody::Literal(checksum::line_for(&body).into_bytes());
            PreparedExchange { request: [head.as_bytes(), &body].concat(), expected, opening: None }
        })
        .collect()
}

/// Requests that carry the number of their client, so that a server's journal shows which clients it served.
#[derive(Debug, Clone, Copy)]
pub struct SignedRequest {
    /// Host field.
    pub host: SocketAddr,
    /// How long a server works on each.
    pub service: Duration,
    /// Bytes of request body; 0 for GET, otherwise POST.
    pub body_len: usize,
}

/// Prepares a request that is signed with number `client`.
pub fn sign(signed: &SignedRequest, client: usize) -> PreparedExchange {
    let SignedRequest { host, service, body_len } = *signed;
    let millis = service.as_millis();
    let (method, length, expected) = match body_len {
        0 => (format!("GET /delay/{millis}"), String::new(), ExpectedBody::Pattern(crate::origin::PAGE_LEN)),
        len => {
            let expected = ExpectedBody::Literal(checksum::line_for(pattern::run(0, len)).into_bytes());
            (format!("POST /checksum/delay/{millis}"), format!("Content-Length: {len}\r\n"), expected)
        }
    };
    let head = format!(
        "{method}/client/{client} HTTP/1.1\r\nHost: {host}\r\n{OWN_FIELDS}\
         {CLIENT_HEADER}: client-{client}\r\n{length}\r\n"
    );
    PreparedExchange {
        request: [head.as_bytes(), pattern::run(0, body_len)].concat(),
        expected,
        opening: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ExpectedBody, RequestShape, prepare};
    use crate::wire::pattern;

    #[test]
    fn bodies_differ_between_clients() {
        let host = "127.0.0.1:80";
        let shape =
            RequestShape { host, path: "/", body_len: 1024, answer_len: 0, close: true, cookie: None };
        let exchanges = prepare(&shape);
        assert_eq!(exchanges.len(), 64);
        for pair in exchanges.windows(2) {
            assert_ne!(pair[0].expected, pair[1].expected);
        }
        let text = String::from_utf8(exchanges[3].request.clone()).unwrap();
        assert!(
            text.contains("\r\nConnection: close\r\n") && text.contains("\r\nContent-Length: 1024\r\n\r\n")
        );
        assert_eq!(text.split("\r\n\r\n").nth(1).map(str::len), Some(1024));
    }

    #[test]
    fn a_cookie_of_the_application_is_the_last_field() {
        let host = "127.0.0.1:80";
        for body_len in [0, 3] {
            let shape = RequestShape {
                host,
                path: "/",
                body_len,
                answer_len: 0,
                close: true,
                cookie: Some("session=5"),
            };
            let text = String::from_utf8(prepare(&shape)[0].request.clone()).unwrap();
            let head = text.split("\r\n\r\n").next().unwrap();
            assert!(head.ends_with("\r\nCookie: session=5"), "{text}");
        }
    }

    #[test]
    fn a_body_is_checked_piece_by_piece() {
        let expected = ExpectedBody::Pattern(700);
        assert!(expected.matches(0, pattern::run(0, 700)) && expected.matches(600, pattern::run(600, 100)));
        assert!(!expected.matches(600, pattern::run(600, 101)) && !expected.matches(1, pattern::run(0, 5)));
        let expected = ExpectedBody::Literal(b"abc".to_vec());
        assert!(expected.matches(1, b"bc") && !expected.matches(1, b"bcd") && !expected.matches(9, b"a"));
    }
}
