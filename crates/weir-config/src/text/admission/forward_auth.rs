//! `forward_auth` of a route in the text.

use std::time::Duration;

use crate::config::ForwardHost;
use crate::key::{Map, Spanned, TextFormat, section, text_values};
use crate::value::{HeaderName, HeaderTemplate, Size, ValueError};

section! {
    /// Asks a server of another upstream about each request, before it goes to its own: with a GET without a body, the headers of the client,
    /// `X-Forwarded-Method`, `X-Forwarded-Uri` and what the listener says of the client (`forwarded`). An answer with 2xx lets the request
    /// pass; the client gets any other one, with its headers and its body. Preflights of CORS pass without.
    #[derive(Debug, Clone)]
    pub(crate) struct ForwardAuthText at "listener.NAME.route.forward_auth" {
        /// The upstream that decides, with its balancing, queue, time limits and retries.
        upstream: Spanned<Box<str>> = required, like "nginx `auth_request`, Traefik `forwardAuth.address`";
        /// The path of the question, with a query or without.
        path: AuthPath = "/", like "nginx `auth_request`, Traefik `forwardAuth.address`";
        /// The `Host` of the question.
        forward_host: ForwardHost = "keep";
        /// The headers of the client that the question has. Without it, all but those about the body, conditions and ranges.
        request_headers: Vec<HeaderName> = optional, like "Traefik `forwardAuth.authRequestHeaders`";
        /// Further headers of the question, by values of the request. What the client sends by these names is not in the question.
        headers: Map<HeaderTemplate> = {}, like "nginx `proxy_set_header` in the location of `auth_request`";
        /// Headers of an answer with 2xx that the request gets. What the client sends by these names is dropped in any case.
        response_headers: Vec<HeaderName> = [], like "nginx `auth_request_set`, Traefik `forwardAuth.authResponseHeaders`";
        /// The body of an answer at most; a longer one is a failure.
        body_size: Size = "64KiB", in 0..=16_777_216;
        /// How long the answer may take in all, attempts and the wait in the queue included. Off: as long as the time limits of the upstream
        /// allow.
        timeout: Option<Duration> = "off", in 1..=3_600_000, like "Envoy `ext_authz.http_service.server_uri.timeout`";
        /// Whether requests pass when there is no answer, or one with 5xx. They have none of `response_headers` then.
        fail_open: bool = false, like "Envoy `failure_mode_allow`";
    }
}

/// A path with or without a query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AuthPath(pub(crate) Box<str>);

text_values! {
    AuthPath, parse_path, |value: &AuthPath| value.0.clone(), TextFormat {
        name: "path of a question",
        article: "a path",
        examples: &["/verify", "/api/authz/forward-auth?mode=basic"],
        pattern: r"^/[!\x22$-~]*$",
        about: "A path that begins with `/`, with or without a query; other characters than those of a URL percent-encoded.",
    };
}

fn parse_path(text: &str) -> Result<AuthPath, ValueError> {
    let allowed = |c: char| c.is_ascii_graphic() && c != '#';
    match text.char_indices().find(|(_, c)| !allowed(*c)) {
        Some((at, wrong)) => {
            let error = ValueError::new(format!("{wrong:?} is not allowed in a path"));
            Err(error.help("write it percent-encoded").range(at..at + wrong.len_utf8()))
        }
        None if !text.starts_with('/') => Err(ValueError::new("a path begins with `/`")),
        None => Ok(AuthPath(text.into())),
    }
}
