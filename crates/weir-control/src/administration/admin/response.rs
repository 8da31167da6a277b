//! Answers of the admin listener.

use weir_http::http1::write;
use weir_http::{Version, date};
use weir_observe::{AdminRefusal, status_text};
use weir_proxy::net::clock;

/// On every answer: no content sniffing, no framing, no embedding in another site's page, and a page of it loads and runs nothing that
/// does not come from here. Browsers send the origin of a form only where the referrer policy allows it.
const SAFETY: [(&str, &str); 6] = [
    (
        "Content-Security-Policy",
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; \
         base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Cross-Origin-Opener-Policy", "same-origin"),
];

const PLAIN: &str = "text/plain; charset=utf-8";

/// A response, whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BufferedResponse {
    status: u16,
    content_type: &'static str,
    /// Fields beyond those that every answer has.
    fields: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl BufferedResponse {
    pub(crate) fn new(status: u16, content_type: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, content_type, fields: Vec::new(), body: body.into() }
    }

    pub(crate) fn plain(status: u16, text: impl Into<Vec<u8>>) -> Self {
        Self::new(status, PLAIN, text)
    }

    /// A value as JSON.
    pub(crate) fn json(status: u16, value: &impl serde::Serialize) -> Self {
        let mut text = serde_json::to_vec(value).expect("what is shown has string keys and no failing parts");
        text.push(b'\n');
        Self::new(status, "application/json", text)
    }

    /// A change that is not made, and why.
    pub(super) fn refused(status: u16, why: &str) -> Self {
        Self::json(status, &serde_json::json!({ "errors": [why] }))
    }

    /// The same as everything below `/api/` says what is wrong, if this is a text about it.
    pub(super) fn for_api(self) -> Self {
        if self.status < 400 || self.content_type != PLAIN {
            return self;
        }
        let why = String::from_utf8_lossy(&self.body);
        Self { fields: self.fields, ..Self::refused(self.status, why.trim_end()) }
    }

    pub(crate) fn with_field(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.fields.push((name, value.into()));
        self
    }

    /// The head and, unless it was a HEAD that asked, the body.
    pub(super) fn into_bytes(self, with_body: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.body.len() + 768);
        head_begins(&mut out, self.status, self.content_type);
        write::decimal_field(&mut out, b"Content-Length", self.body.len() as u64);
        for (name, value) in &self.fields {
            write::field(&mut out, name.as_bytes(), value.as_bytes());
        }
        write::field(&mut out, b"Connection", b"close");
        out.extend_from_slice(b"\r\n");
        if with_body {
            out.extend_from_slice(&self.body);
        }
        out
    }
}

/// Why a request is not answered as asked.
pub(super) struct RefusedRequest {
    pub(super) refusal: AdminRefusal,
    pub(super) answer: BufferedResponse,
    /// Whether it tried a password or a token: the next try has to wait.
    pub(super) guessed: bool,
}

impl RefusedRequest {
    pub(super) fn new(refusal: AdminRefusal, status: u16, text: &str) -> Self {
        Self { refusal, answer: BufferedResponse::plain(status, text), guessed: false }
    }
}

/// Appends the fields that the head of every response begins with.
pub(super) fn head_begins(out: &mut Vec<u8>, status: u16, content_type: &str) {
    write::status_line(out, Version::Http11, status, status_text(status).as_bytes());
    write::field(out, b"Date", &date(clock::unix_now().as_secs()));
    write::field(out, b"Content-Type", content_type.as_bytes());
    write::field(out, b"Cache-Control", b"no-store");
    for (name, value) in SAFETY {
        write::field(out, name.as_bytes(), value.as_bytes());
    }
}
