//! What a request that changes something makes of stored responses (RFC 9111 section 4.4).

use weir_http::Method;

use super::authority::without_default_port;
use crate::head::HeadView;

/// Whether an answer with this status to a request with this method invalidates what is stored under its target.
pub fn invalidates(method: Method, status: u16) -> bool {
    !method.is_safe() && method != Method::Connect && (200..400).contains(&status)
}

/// The other targets that such an answer invalidates: those of `Location` and `Content-Location` on the same origin, as paths with their queries.
/// `scheme` and `authority` are those of the request.
pub fn invalidated_targets<'a>(
    response: HeadView<'a>,
    scheme: &[u8],
    authority: &[u8],
    mut each: impl FnMut(&'a [u8]),
) {
    for name in ["location", "content-location"] {
        if let Some(target) = response.first(name).and_then(|uri| target_on_origin(uri, scheme, authority)) {
            each(target);
        }
    }
}

/// The path and query of a URI on this origin. A relative path is none: it would have to be resolved first.
fn target_on_origin<'a>(uri: &'a [u8], scheme: &[u8], authority: &[u8]) -> Option<&'a [u8]> {
    let uri = uri.split(|byte| *byte == b'#').next().unwrap_or_default();
    let after_scheme = if let Some(rest) = uri.strip_prefix(b"//") {
        rest
    } else if uri.starts_with(b"/") {
        return Some(uri);
    } else {
        let (start, rest) = uri.split_at_checked(scheme.len())?;
        let rest = rest.strip_prefix(b"://")?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)?
    };
    let end = after_scheme.iter().position(|byte| matches!(byte, b'/' | b'?')).unwrap_or(after_scheme.len());
    let (host, target) = after_scheme.split_at(end);
    let is_same =
        without_default_port(host, scheme).eq_ignore_ascii_case(without_default_port(authority, scheme));
    match target.first() {
        _ if !is_same => None,
        None => Some(b"/"),
        Some(b'/') => Some(target),
        Some(_) => None,
    }
}
