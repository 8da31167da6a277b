//! `forward_auth` of a route in the text.

use std::time::Duration;

use crate::config::{ForwardAuth, ForwardHost, UpstreamIndex};
use crate::key::{Map, Spanned, SpannedTable, TextFormat, section, text_values};
use crate::masked_text::MaskedText;
use crate::value::{HeaderName, HeaderTemplate, Size, Template, ValueError};

section! {
    /// External authorization: each request is first checked by a server of another upstream, with a GET without a body, the headers of the
    /// client, `X-Forwarded-Method`, `X-Forwarded-Uri` and the headers that describe the client (`forwarded` of the listener). A 2xx lets
    /// the request pass; any other response goes to the client, with its headers and body. CORS preflights are not checked.
    #[derive(Debug, Clone)]
    pub(crate) struct ForwardAuthText at "listener.NAME.route.forward_auth" {
        /// The upstream that decides, with its balancing, queue, time limits and retries.
        upstream: Spanned<Box<str>> = required, like "nginx `auth_request`, Traefik `forwardAuth.address`";
        /// The path of the authorization request, with or without a query.
        path: AuthPath = "/", like "nginx `auth_request`, Traefik `forwardAuth.address`";
        /// The `Host` of the authorization request.
        forward_host: ForwardHost = "keep";
        /// The headers of the client that are sent with the authorization request. Without it, all except those about the body, conditions
        /// and ranges.
        request_headers: Vec<HeaderName> = optional, like "Traefik `forwardAuth.authRequestHeaders`";
        /// Headers set on the authorization request, with placeholders. Headers of these names from the client are not sent with it.
        headers: Map<HeaderTemplate> = {}, like "nginx `proxy_set_header` in the location of `auth_request`";
        /// Headers of a 2xx response that are copied to the request. Headers of these names from the client are always removed.
        response_headers: Vec<HeaderName> = [], like "nginx `auth_request_set`, Traefik `forwardAuth.authResponseHeaders`";
        /// The maximum size of the response body; a larger one is a failure.
        body_size: Size = "64KiB", in 0..=16_777_216;
        /// Time limit of the authorization, attempts and queue included. Off: the time limits of the upstream apply.
        timeout: Option<Duration> = "off", in 1..=3_600_000, like "Envoy `ext_authz.http_service.server_uri.timeout`";
        /// Answers are kept for a time, and requests like those that they were given for are not asked about. Without it, each request is.
        cache: SpannedTable<ForwardAuthCacheText> = optional, like "nginx `proxy_cache` in the location of `auth_request`";
        /// Whether requests pass when authorization fails with 5xx or without a response. They then get none of `response_headers`.
        fail_open: bool = false, like "Envoy `failure_mode_allow`";
    }
}

section! {
    /// Answers of the server of `forward_auth` that are kept, in memory and for this route alone. `Cache-Control` of an answer counts: `no-store` and `no-cache`
    /// forbid to keep it, `max-age` shortens the time.
    #[derive(Debug, Clone)]
    pub(crate) struct ForwardAuthCacheText at "listener.NAME.route.forward_auth.cache" {
        /// Everything that the server decides by, with [placeholders](#placeholders); at least one of them is a credential of the client, such as
        /// `{header.authorization}` or `{cookie.session}`. Method and host of the request, its `Authorization`, its `Cookie` unless the key names cookies,
        /// and the client certificate are part of it in any case. **The path is not:** write `{path}`, and `{query}` and `{client_address}`, where
        /// the server goes by them. Requests without any of the credentials are always asked about.
        key: Spanned<Template> = required, like "nginx `proxy_cache_key`";
        /// How long a 2xx is kept: so long, a credential that is withdrawn is still good.
        time: Duration = required, in 1..=86_400_000, like "nginx `proxy_cache_valid`";
        /// How long 401 and 403 are kept. Other answers never are, nor those that set cookies.
        denied_time: Option<Duration> = "off", in 1..=3_600_000, like "nginx `proxy_cache_valid 401 403`";
        /// How many answers are kept at most; the oldest make room. One counts once more for each 256 bytes of its headers and its body, and one of
        /// more than 4 KiB is not kept.
        entries: usize = 10_000, in 1..=1_000_000, like "nginx `keys_zone=`";
    }
}

impl ForwardAuth {
    /// An upstream that is asked by a path, with the defaults of the product.
    pub fn new(upstream: UpstreamIndex, path: MaskedText) -> Self {
        let text = ForwardAuthText::default();
        Self {
            upstream,
            path,
            forward_host: text.forward_host,
            request_headers: text.request_headers,
            headers: Vec::new(),
            response_headers: text.response_headers,
            body_size: text.body_size,
            timeout: text.timeout,
            cache: None,
            fail_open: text.fail_open,
        }
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
