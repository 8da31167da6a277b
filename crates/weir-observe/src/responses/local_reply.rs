//! The body of an answer that Weir gives itself: a small page for people, or an object for programs.
//!
//! It contains the status, one sentence, the reason code and the request id, and nothing about servers or config. It loads
//! nothing, so it also works where nothing else does. Everything that a peer sent is escaped.

use crate::access_log::escape;
use crate::failure::Failure;
use crate::responses::accept::ReplyFormat;

/// Appends a value, escaped for the text of a page or of an object in this format.
pub fn escape_for(format: ReplyFormat, value: &[u8], out: &mut Vec<u8>) {
    match format {
        ReplyFormat::Html => escape::html(value, out),
        ReplyFormat::Json => escape::json(value, out),
    }
}

/// The content of an answer.
#[derive(Debug, Clone, Copy)]
pub struct LocalReply<'a> {
    /// The status of the response.
    pub status: u16,
    /// One sentence for the client.
    pub text: &'a str,
    /// The stable code, also sent as `weir-reason`.
    pub reason: &'a str,
    /// The id of the request, to quote when asking for help; empty when there is none.
    pub request_id: &'a [u8],
}

impl<'a> LocalReply<'a> {
    /// The answer to an exchange that failed, or `None` when nothing can be sent.
    pub fn for_failure(failure: Failure, request_id: &'a [u8]) -> Option<LocalReply<'a>> {
        let status = failure.status()?;
        Some(LocalReply { status, text: failure.client_text(), reason: failure.reason(), request_id })
    }

    /// Appends the body; the buffer grows by its length, below 2 KiB with a request id of up to 128 bytes.
    pub fn render(&self, format: ReplyFormat, out: &mut Vec<u8>) {
        match format {
            ReplyFormat::Html => self.render_html(out),
            ReplyFormat::Json => self.render_json(out),
        }
    }

    fn render_html(&self, out: &mut Vec<u8>) {
        let title = status_text(self.status);
        let mut digits = itoa::Buffer::new();
        let status = digits.format(self.status).as_bytes();
        out.extend_from_slice(HTML_HEAD);
        out.extend_from_slice(b"<title>");
        out.extend_from_slice(status);
        out.push(b' ');
        escape::html(title.as_bytes(), out);
        out.extend_from_slice(b"</title>\n<main>\n<p class=\"status\">");
        out.extend_from_slice(status);
        out.extend_from_slice(b"</p>\n<h1>");
        escape::html(title.as_bytes(), out);
        out.extend_from_slice(b"</h1>\n<p>");
        escape::html(self.text.as_bytes(), out);
        out.extend_from_slice(b"</p>\n<dl><dt>Reason</dt><dd>");
        escape::html(self.reason.as_bytes(), out);
        out.extend_from_slice(b"</dd>");
        if !self.request_id.is_empty() {
            out.extend_from_slice(b"<dt>Request</dt><dd>");
            escape::html(self.request_id, out);
            out.extend_from_slice(b"</dd>");
        }
        out.extend_from_slice(b"</dl>\n</main>\n</html>\n");
    }

    fn render_json(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b"{\"status\":");
        out.extend_from_slice(itoa::Buffer::new().format(self.status).as_bytes());
        for (name, value) in [
            ("title", status_text(self.status).as_bytes()),
            ("detail", self.text.as_bytes()),
            ("reason", self.reason.as_bytes()),
            ("request_id", self.request_id),
        ] {
            if value.is_empty() {
                continue;
            }
            out.extend_from_slice(b",\"");
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\":\"");
            escape::json(value, out);
            out.push(b'"');
        }
        out.extend_from_slice(b"}\n");
    }
}

const HTML_HEAD: &[u8] = br#"<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="robots" content="noindex">
<style>
:root{--ink:#1c2733;--soft:#5b6b7a;--line:#d5dde4;--ground:#f6f8fa;--mark:#0b6e8f}
@media(prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#93a1ae;--line:#2d3843;--ground:#11171d;--mark:#58b8d6}}
*{margin:0}
body{min-height:100vh;display:grid;place-items:center;background:var(--ground);color:var(--ink);font:1rem/1.6 system-ui,sans-serif}
main{width:min(30rem,100% - 3rem);padding:2rem 0;border-top:3px solid var(--mark)}
.status{color:var(--mark);font-weight:600;letter-spacing:.08em}
h1{margin:.1em 0 .4em;font-size:1.7rem;line-height:1.25}
dl{margin-top:1.6rem;padding-top:1rem;border-top:1px solid var(--line);display:grid;grid-template-columns:auto 1fr;gap:.2rem 1rem;color:var(--soft);font-size:.85rem}
dd{font-family:ui-monospace,monospace;overflow-wrap:anywhere}
</style>
"#;

/// The reason phrase of a status (RFC 9110 section 15 and the registry of IANA); of an unknown one, its class.
pub const fn status_text(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        102 => "Processing",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        207 => "Multi-Status",
        208 => "Already Reported",
        226 => "IM Used",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        305 => "Use Proxy",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        418 => "I'm a teapot",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        499 => "Client Closed Request",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        506 => "Variant Also Negotiates",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => class_text(status),
    }
}

const fn class_text(status: u16) -> &'static str {
    match status / 100 {
        1 => "Informational",
        2 => "Success",
        3 => "Redirection",
        4 => "Client Error",
        _ => "Server Error",
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::failure::{Cause, Reason};
    use crate::words::phase::Phase;

    fn render(page: LocalReply<'_>, format: ReplyFormat) -> String {
        let mut out = Vec::new();
        page.render(format, &mut out);
        String::from_utf8(out).expect("a page is valid UTF-8")
    }

    #[test]
    fn json_has_the_same_content_as_the_page() {
        let failure = Failure::server(Phase::Response, Cause::TimedOut);
        let page = LocalReply::for_failure(failure, b"01J9-\"quoted\"").unwrap();
        assert_eq!(
            render(page, ReplyFormat::Json),
            "{\"status\":504,\"title\":\"Gateway Timeout\",\"detail\":\"The service took too long to respond.\",\
             \"reason\":\"response-timeout\",\"request_id\":\"01J9-\\\"quoted\\\"\"}\n"
        );
        let html = render(page, ReplyFormat::Html);
        for part in [
            "<title>504 Gateway Timeout</title>",
            "<h1>Gateway Timeout</h1>",
            "<p>The service took too long to respond.</p>",
            "<dd>response-timeout</dd>",
            "<dd>01J9-&quot;quoted&quot;</dd>",
        ] {
            assert!(html.contains(part), "{part} is missing in\n{html}");
        }
    }

    #[test]
    fn request_id_is_left_out_when_there_is_none() {
        let page = LocalReply { status: 404, text: "Nothing here.", reason: "no-route", request_id: b"" };
        assert!(!render(page, ReplyFormat::Html).contains("Request</dt>"));
        assert!(!render(page, ReplyFormat::Json).contains("request_id"));
    }

    #[test]
    fn aborted_exchanges_have_no_page() {
        assert!(LocalReply::for_failure(Failure::server(Phase::Relay, Cause::Reset), b"1").is_none());
    }

    #[test]
    fn every_page_is_small_and_loads_nothing() {
        for reason in Reason::all() {
            let Some(status) = reason.status() else { continue };
            let id = [b'f'; 128];
            let page =
                LocalReply { status, text: reason.client_text(), reason: reason.code(), request_id: &id };
            let html = render(page, ReplyFormat::Html);
            assert!(html.len() < 2048, "{}: {} bytes", reason.code(), html.len());
            for part in ["src=", "href=", "url(", "@import", "<script", "http:"] {
                assert!(!html.contains(part), "{part} in\n{html}");
            }
            assert!(
                !status_text(status).ends_with("Error") || status == 500,
                "{status} has a reason phrase of its own"
            );
        }
    }

    #[test]
    fn statuses_have_their_phrase_or_that_of_their_class() {
        for (status, text) in [
            (200, "OK"),
            (226, "IM Used"),
            (308, "Permanent Redirect"),
            (199, "Informational"),
            (299, "Success"),
            (399, "Redirection"),
            (450, "Client Error"),
            (599, "Server Error"),
        ] {
            assert_eq!(status_text(status), text);
        }
    }

    proptest! {
        /// Whatever the request id holds, the page has the tags it always has and the object the keys it always has.
        #[test]
        fn request_ids_cannot_inject(id in prop::collection::vec(any::<u8>(), 1..200)) {
            let plain = LocalReply { status: 503, text: "Later.", reason: "queue-full", request_id: b"x" };
            let page = LocalReply { request_id: &id, ..plain };
            let (html, expected) = (render(page, ReplyFormat::Html), render(plain, ReplyFormat::Html));
            for tag in ["<", ">", "\"", "'"] {
                prop_assert_eq!(html.matches(tag).count(), expected.matches(tag).count());
            }
            prop_assert!(html.is_ascii());
            let json: serde_json::Value = serde_json::from_str(&render(page, ReplyFormat::Json)).unwrap();
            prop_assert_eq!(json.as_object().unwrap().len(), 5);
            let expected: String = id.utf8_chunks()
                .flat_map(|chunk| chunk.valid().chars().chain(chunk.invalid().iter().map(|byte| char::from(*byte))).collect::<Vec<_>>())
                .collect();
            prop_assert_eq!(json["request_id"].as_str(), Some(expected.as_str()));
        }
    }
}
