//! A fixed response of the config.

use weir_config::{FixedResponse, HeaderTemplate, TemplateValue};
use weir_observe::ReplyFormat;

use super::Answer;
use super::error_page::{self, PageValues};

/// The response of a route with `respond`. `render` appends the text of a template, and says whether there is any; `write`
/// appends a value.
pub(crate) fn answer(
    fixed: &FixedResponse,
    render: impl Fn(&HeaderTemplate, &mut Vec<u8>) -> bool,
    write: impl Fn(&TemplateValue, &mut Vec<u8>),
) -> Answer<'_> {
    let mut answer = Answer::new(fixed.status);
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
    answer.body = match &fixed.body_with_values {
        None => fixed.body.as_bytes().into(),
        Some(page) => {
            let values = PageValues { status: fixed.status, detail: "", reason: "" };
            error_page::render(page, format_of(&fixed.content_type), values, write).into()
        }
    };
    answer
}

/// How values are escaped in a body of this media type.
pub(crate) fn format_of(content_type: &str) -> Option<ReplyFormat> {
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match &*media_type {
        "text/html" | "application/xhtml+xml" | "application/xml" | "text/xml" => Some(ReplyFormat::Html),
        json if json == "application/json" || json.ends_with("+json") => Some(ReplyFormat::Json),
        xml if xml.ends_with("+xml") => Some(ReplyFormat::Html),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_as_the_type_of_the_body_needs_it() {
        for (kind, expected) in [
            ("text/html; charset=utf-8", Some(ReplyFormat::Html)),
            ("Text/HTML", Some(ReplyFormat::Html)),
            ("image/svg+xml", Some(ReplyFormat::Html)),
            ("application/json", Some(ReplyFormat::Json)),
            ("application/problem+json", Some(ReplyFormat::Json)),
            ("text/plain", None),
        ] {
            assert_eq!(format_of(kind), expected, "{kind}");
        }
    }
}
