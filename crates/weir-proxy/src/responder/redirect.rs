//! A redirect, with a location made from the request.

use weir_config::{Redirect, Template};

use super::Answer;

/// The response of a route with `redirect`; `None` where its target comes to nothing, such as that of a map without the entry. `render` appends the text of a
/// template as a URL; `complete` makes a URL of a path, where that is wanted.
pub(crate) fn answer(
    redirect: &Redirect,
    render: impl Fn(&Template, &mut Vec<u8>),
    complete: impl Fn(Vec<u8>) -> Vec<u8>,
) -> Option<Answer<'_>> {
    let mut location = Vec::new();
    render(&redirect.to, &mut location);
    // A path is no host, whatever its first part has ended with.
    if location.starts_with(b"/") {
        let more = location[1..].iter().take_while(|byte| matches!(byte, b'/' | b'\\')).count();
        location.drain(1..1 + more);
    }
    (!location.is_empty()).then(|| Answer::new(redirect.status).with(b"Location", complete(location)))
}
