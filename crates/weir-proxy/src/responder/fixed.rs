//! A fixed response of the config.

use weir_config::FixedResponse;

use super::Answer;

/// The response of a route with `respond`.
pub(crate) fn answer(fixed: &FixedResponse) -> Answer<'_> {
    let mut answer = Answer::of(fixed.status);
    if !fixed.body.is_empty() {
        answer = answer.with(b"Content-Type", fixed.content_type.as_bytes());
    }
    for (name, value) in &fixed.headers {
        answer = answer.with(name.as_bytes(), value.as_bytes());
    }
    answer.body = fixed.body.as_bytes().into();
    answer
}
