//! The pages of the config in place of Weir's own, or of those of servers.

use weir_config::{ErrorPage, PagePart, PageText, TemplateValue};
use weir_observe::{ReplyFormat, escape_for, status_text};

use super::Answer;

/// What a page says about a failure, beside values of the exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageValues<'a> {
    pub(crate) status: u16,
    pub(crate) detail: &'a str,
    pub(crate) reason: &'a str,
}

/// A page that a server has.
#[derive(Debug, Default)]
pub(crate) struct FetchedPage {
    /// The fields that describe it.
    pub(crate) fields: Vec<(&'static [u8], Vec<u8>)>,
    pub(crate) body: Vec<u8>,
}

impl FetchedPage {
    /// The same answer with this page as its body.
    pub(crate) fn instead_of(self, mut answer: Answer<'_>) -> Answer<'_> {
        answer.fields.retain(|(name, _)| !name.eq_ignore_ascii_case(b"Content-Type"));
        answer.fields.extend(self.fields.into_iter().map(|(name, value)| (name, value.into())));
        answer.body = self.body.into();
        answer
    }
}

/// The first page for a status in a format; `None` without one.
pub(crate) fn page_of(page: &ErrorPage, format: ReplyFormat) -> Option<&PageText> {
    match format {
        ReplyFormat::Html => page.html.as_ref(),
        ReplyFormat::Json => page.json.as_ref(),
    }
}

/// The body of a page. `write` appends a value of the exchange, which is escaped for the format, if it has one: it may come from a peer.
pub(crate) fn render(
    page: &PageText,
    format: Option<ReplyFormat>,
    values: PageValues<'_>,
    write: impl Fn(&TemplateValue, &mut Vec<u8>),
) -> Vec<u8> {
    let mut body = Vec::new();
    let escape = |value: &[u8], body: &mut Vec<u8>| match format {
        Some(format) => escape_for(format, value, body),
        None => body.extend_from_slice(value),
    };
    let mut value = Vec::new();
    for part in page.parts() {
        match part {
            PagePart::Literal(text) => body.extend_from_slice(text.as_bytes()),
            PagePart::Title => escape(status_text(values.status).as_bytes(), &mut body),
            PagePart::Detail => escape(values.detail.as_bytes(), &mut body),
            PagePart::Reason => escape(values.reason.as_bytes(), &mut body),
            PagePart::Value(named) => {
                value.clear();
                write(named, &mut value);
                escape(&value, &mut body);
            }
        }
    }
    body
}
