//! A redirect, with a location made from the request.

use weir_config::{Redirect, Template};

use super::Answer;

/// The response of a route with `redirect`. `render` appends the text of a template as a URL.
pub(crate) fn answer(redirect: &Redirect, render: impl Fn(&Template, &mut Vec<u8>)) -> Answer<'_> {
    let mut location = Vec::new();
    render(&redirect.to, &mut location);
    Answer::new(redirect.status).with(b"Location", location)
}
