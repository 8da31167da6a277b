//! `error_pages`: what clients see in place of Weir's own page of a failure.

use std::time::Duration;

use crate::config::{ForwardHost, RouteTarget, UpstreamIndex};
use crate::value::{Size, StatusRange, Template, TemplateValue, WhenCondition};

/// Pages for some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ErrorPage {
    /// The statuses.
    pub status: Vec<StatusRange>,
    /// Only failures for which it holds have it.
    pub when: Option<WhenCondition>,
    /// For browsers.
    pub html: Option<PageText>,
    /// For programs.
    pub json: Option<PageText>,
    /// Whether responses of servers with one of the statuses are replaced, too.
    pub of_servers: bool,
    /// Where the page is fetched from.
    pub remote: Option<RemotePage>,
    /// What happens instead of a page.
    pub then: Option<ErrorStep>,
    /// The status that the client gets in place of that of the failure.
    pub new_status: Option<u16>,
}

/// What happens instead of an error page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorStep {
    /// The request goes on, and the client gets the status of the failure, or that of the target.
    Target {
        /// Where.
        target: RouteTarget,
        /// Whether the client gets the status of the route that answers.
        has_own_status: bool,
    },
    /// The client is redirected.
    Redirect(Template),
}

/// A page that is fetched from a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RemotePage {
    /// The upstream.
    pub upstream: UpstreamIndex,
    /// The target of the request: a path, with or without a query.
    pub path: Template,
    /// The `Host` of the request.
    pub forward_host: ForwardHost,
    /// How long it may take.
    pub timeout: Duration,
    /// The longest page.
    pub body_size: Size,
    /// How long it is used again when it does not say; zero: it is fetched for each failure.
    pub ttl: Duration,
}

impl ErrorPage {
    /// The values of the exchange in its texts, and in the path that it is fetched from.
    pub(crate) fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        let texts = self.html.iter().chain(&self.json).flat_map(PageText::values);
        let step = self.then.iter().flat_map(|step| match step {
            ErrorStep::Target { target: RouteTarget::Path(path), .. } | ErrorStep::Redirect(path) => {
                Some(path)
            }
            ErrorStep::Target { .. } => None,
        });
        let of_step = step.flat_map(Template::values);
        let asked = self.when.iter().flat_map(WhenCondition::values);
        texts.chain(asked).chain(self.remote.iter().flat_map(|remote| remote.path.values())).chain(of_step)
    }

    /// The route that a request with such a failure goes on with, if it is named.
    pub fn target_route(&self) -> Option<&std::sync::Arc<str>> {
        match &self.then {
            Some(ErrorStep::Target { target, .. }) => target.route(),
            Some(ErrorStep::Redirect(_)) | None => None,
        }
    }

    /// Whether a request with such a failure goes on inside of the listener.
    pub fn goes_on(&self) -> bool {
        matches!(self.then, Some(ErrorStep::Target { .. }))
    }

    /// Whether it is for this status.
    pub fn is_for(&self, status: u16) -> bool {
        self.status.iter().any(|range| range.contains(status))
    }
}

/// The text of a page, with what stands for values of the exchange.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageText {
    parts: Box<[PagePart]>,
}

/// A piece of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PagePart {
    /// Text as it is.
    Literal(Box<str>),
    /// A value of the exchange.
    Value(TemplateValue),
    /// The usual phrase for the status.
    Title,
    /// The sentence for the client.
    Detail,
    /// The code of the reason.
    Reason,
}

impl PageText {
    /// The values of the exchange in it.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        self.parts.iter().filter_map(|part| match part {
            PagePart::Value(value) => Some(value),
            PagePart::Literal(_) | PagePart::Title | PagePart::Detail | PagePart::Reason => None,
        })
    }

    /// The same of a text that is about no failure; `None` without a placeholder.
    pub(crate) fn of_answer(text: &str) -> Option<Self> {
        let page = Self::parse(text);
        page.values().next()?;
        let literal = |name: &str| PagePart::Literal(format!("{{{name}}}").into());
        let parts = page.parts.into_iter().map(|part| match part {
            PagePart::Title => literal("title"),
            PagePart::Detail => literal("detail"),
            PagePart::Reason => literal("reason"),
            part => part,
        });
        Some(Self { parts: parts.collect() })
    }

    /// The pieces of a text that is about no failure: literals and values.
    pub(crate) fn of_body(text: &str) -> Vec<PagePart> {
        match Self::of_answer(text) {
            Some(page) => page.parts.into_vec(),
            None => vec![PagePart::Literal(text.into())],
        }
    }

    /// Finds the placeholders in a text. Braces around anything else are text: styles and scripts are full of them. So are braces behind a
    /// `$`, which have values of scripts.
    pub(crate) fn parse(text: &str) -> Self {
        let (mut parts, mut literal) = (Vec::new(), 0);
        let mut at = 0;
        while let Some(found) = text[at..].find('{') {
            let open = at + found;
            at = open + 1;
            if text[..open].ends_with('$') {
                continue;
            }
            let Some(len) = text[at..].find('}') else { break };
            let Some(part) = PagePart::named(&text[at..at + len]) else { continue };
            if literal < open {
                parts.push(PagePart::Literal(text[literal..open].into()));
            }
            parts.push(part);
            at += len + 1;
            literal = at;
        }
        if literal < text.len() {
            parts.push(PagePart::Literal(text[literal..].into()));
        }
        Self { parts: parts.into() }
    }

    /// Its pieces, one after the other.
    pub fn parts(&self) -> &[PagePart] {
        &self.parts
    }
}

impl PagePart {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "title" => PagePart::Title,
            "detail" => PagePart::Detail,
            "reason" => PagePart::Reason,
            name => PagePart::Value(TemplateValue::from_name(name)?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_among_the_braces_of_styles_and_scripts() {
        let literal = |text: &str| PagePart::Literal(text.into());
        for (text, expected) in [
            ("", vec![]),
            ("body{color:red}", vec![literal("body{color:red}")]),
            (
                "a{b} {status}: {title}{{request_id}}",
                vec![
                    literal("a{b} "),
                    PagePart::Value(TemplateValue::Status),
                    literal(": "),
                    PagePart::Title,
                    literal("{"),
                    PagePart::Value(TemplateValue::RequestId),
                    literal("}"),
                ],
            ),
            ("{reason}{detail}", vec![PagePart::Reason, PagePart::Detail]),
            ("{", vec![literal("{")]),
            ("{host", vec![literal("{host")]),
            ("`${path}`", vec![literal("`${path}`")]),
            ("$ {host}", vec![literal("$ "), PagePart::Value(TemplateValue::Host)]),
            ("if(a){b={reason}}", vec![literal("if(a){b="), PagePart::Reason, literal("}")]),
            (
                "\u{e9}{header.x-a}",
                vec![literal("\u{e9}"), PagePart::Value(TemplateValue::Header("x-a".into()))],
            ),
        ] {
            assert_eq!(PageText::parse(text).parts(), expected, "{text}");
        }
    }
}
