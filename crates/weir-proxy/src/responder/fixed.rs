//! A fixed response of the config.

use weir_config::{FixedResponse, HeaderTemplate};

use super::Answer;

/// The response of a route with `respond`. `render` appends the text of a template, and says whether there is any.
pub(crate) fn answer(
    fixed: &FixedResponse,
    render: impl Fn(&HeaderTemplate, &mut Vec<u8>) -> bool,
) -> Answer<'_> {
    let mut answer = Answer::of(fixed.status);
    if !fixed.body.is_empty() {
        answer = answer.with(b"Content-Type", fixed.content_type.as_bytes());
    }
    for (name, value) in &fixed.headers {
        match value.literal() {
            Some(text) => answer = answer.with(name.as_bytes(), text.as_bytes()),
            None => {
                let mut text = Vec::new();
                if render(value, &mut text) {
                    answer = answer.with(name.as_bytes(), text);
                }
            }
        }
    }
    answer.body = fixed.body.as_bytes().into();
    answer
}
