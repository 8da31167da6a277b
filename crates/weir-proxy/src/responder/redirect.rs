//! A redirect, with a location made from the request.

use weir_config::{Redirect, RedirectPart};
use weir_http::RequestHead;

use super::Answer;

/// The response of a route with `redirect` to `request`, whose spans refer to `text`.
pub(crate) fn answer<'a>(redirect: &'a Redirect, request: &RequestHead, text: &[u8]) -> Answer<'a> {
    let mut location = Vec::new();
    for part in &redirect.to {
        match part {
            RedirectPart::Literal(literal) => location.extend_from_slice(literal.as_bytes()),
            RedirectPart::Host => location.extend_from_slice(request.host().of(text)),
            RedirectPart::Path => location.extend_from_slice(request.normal_path(text)),
            RedirectPart::Query => {
                if let Some(query) = request.query() {
                    location.push(b'?');
                    location.extend_from_slice(query.of(text));
                }
            }
        }
    }
    Answer::of(redirect.status).with(b"Location", location)
}
