//! `error_pages` in the text.

use std::time::Duration;

use super::redirect_target::RedirectTarget;
use crate::config::{ForwardHost, RouteTarget};
use crate::key::{NonEmpty, OneOrMany, Spanned, TextFormat, section, text_values};
use crate::order::Stage;
use crate::text::ConditionText;
use crate::value::{Size, StatusRange, Template, TemplatePart, TemplateValue, ValueError};

section! {
    /// Pages in place of Weir's own for some statuses, and as bodies of `respond` with a status from 400 on and none of its own. Placeholders in them are [those of headers](#placeholders), `{title}` (the usual
    /// phrase for the status), `{detail}` (a sentence for the client) and `{reason}`; braces around anything else are text, and so are braces behind a `$`.
    /// Status, `weir-reason` and the other headers stay as they are. Files are read when the config is loaded.
    #[derive(Debug, Clone)]
    pub(crate) struct ErrorPageText at "error_pages" {
        /// The statuses: `404`, `"500-599"`.
        status: OneOrMany<StatusRange> = required, like "nginx `error_page`, HAProxy `errorfile`, Traefik `errors`, Caddy `handle_errors`";
        /// A condition on the request and `status`, and where `of_servers` replaces a response, on its fields: the entry counts only if it holds. See
        /// [Conditions](#conditions).
        when: ConditionText = optional;
        /// The file for clients that prefer HTML, relative to the file of the config.
        html: Spanned<Box<str>> = optional;
        /// The file for clients that prefer JSON.
        json: Spanned<Box<str>> = optional;
        /// Whether responses of servers with such a status are replaced, too.
        of_servers: bool = false, like "nginx `proxy_intercept_errors`";
        /// Where the request goes on instead of a page: a path with placeholders, whose route then answers (as GET, without its body), or the `name` of a route of
        /// the listener. The status stays that of the failure, unless `new_status` or `status_of_target` says otherwise; a redirect of that route passes as it
        /// is. At most once for each request.
        then: RouteTarget = optional, like "nginx `error_page`, Caddy `handle_errors`";
        /// Where the client is redirected instead of a page, with `new_status`, which is 302 without the key.
        redirect: RedirectTarget = optional, like "nginx `error_page`";
        /// The status that the client gets.
        new_status: u16 = optional, in 200..=599, like "nginx `error_page ... =200`";
        /// With `then`, whether the client gets the status of the route that answers.
        status_of_target: bool = false, like "nginx `error_page ... =`";
        /// The upstream that the page is fetched from, for clients of every preference but calls of gRPC. When it cannot be fetched,
        /// `html` or `json` is sent, or what would be sent without this entry.
        upstream: Spanned<Box<str>> = optional, like "Traefik `errors.service`, nginx `error_page`";
        /// The path of the page there, with a query or without.
        path: PagePath = "/{status}.html", like "Traefik `errors.query`, nginx `error_page`";
        /// The `Host` of that request.
        forward_host: ForwardHost = "keep";
        /// How long the page may take in all.
        timeout: Duration = "2s", in 1..=60_000;
        /// The longest page that is taken.
        body_size: Size = "256KiB", in 1..=16_777_216;
        /// How long a fetched page is used for further failures, unless its `Cache-Control` or `Expires` says something else: `no-store` is obeyed, and more than
        /// a minute is a minute. Failures at the same time share one fetch. A page that could not be fetched is tried again after a second; one that was fetched within the
        /// last hour is sent meanwhile. `0s` fetches a page for each failure.
        ttl: Duration = "5s", in 0..=60_000;
    }
}

/// The path of a page, in which values of the exchange may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PagePath(pub(crate) Template);

text_values! {
    PagePath, parse_path, |value: &PagePath| value.0.to_string(), TextFormat {
        name: "path of a page",
        article: "a path",
        examples: &["/{status}.html", "/error?status={status}&host={host}"],
        pattern: r"^/[!\x22$-~]*$",
        about: "A path that begins with `/`, with or without a query, with `{status}` and the [placeholders](#placeholders) of a request; what is not allowed in a URL is \
                percent-encoded in values.",
    };
}

fn parse_path(text: &str) -> Result<PagePath, ValueError> {
    let allowed = |c: char| c.is_ascii_graphic() && c != '#';
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| !allowed(*c)) {
        let error = ValueError::new(format!("{wrong:?} is not allowed in a path"));
        return Err(error.help("write it percent-encoded").range(at..at + wrong.len_utf8()));
    }
    let template: Template = text.parse()?;
    let begins_with_path = match template.parts().first() {
        Some(TemplatePart::Literal(first)) => first.starts_with('/') && !first.starts_with("//"),
        Some(TemplatePart::Value(_)) | None => false,
    };
    if !begins_with_path {
        return Err(ValueError::new("a path begins with one `/`"));
    }
    // What maps and variables are made of is known when the document is whole.
    let error = template.values().filter(|value| value.own().is_none()).find_map(value_error);
    error.map_or(Ok(PagePath(template)), Err)
}

/// Why a value is not known where a page is fetched.
pub(crate) fn value_error(value: &TemplateValue) -> Option<ValueError> {
    let is_there = |leaf: &TemplateValue| {
        let is_of_request = leaf.stage() <= Stage::Identity && !matches!(leaf, TemplateValue::MatchGroup(_));
        is_of_request || *leaf == TemplateValue::Status
    };
    if value.leaves().iter().all(is_there) {
        return None;
    }
    let error = ValueError::new(format!("`{{{}}}` has no value here", value.name()));
    Some(error.help("there are `{status}` and what is known of the request"))
}

/// The lists of `error_pages`.
pub(crate) type ErrorPagesText = NonEmpty<crate::key::SpannedTable<ErrorPageText>>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_pages_are_read_and_printed() {
        for text in ["/", "/{status}.html", "/e?s={status}&h={host}", "/{header.x-a}"] {
            assert_eq!(parse_path(text).unwrap().0.to_string(), text);
        }
        for text in [
            "",
            "x",
            "{path}",
            "//a",
            "/a b",
            "/a#b",
            "/{server}",
            "/{match.1}",
            "/{response.header.x}",
            "/{nothing}",
        ] {
            assert!(parse_path(text).is_err(), "{text}");
        }
    }
}
