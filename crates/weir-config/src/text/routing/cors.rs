//! `cors` of a route in the text.

use std::str::FromStr;
use std::time::Duration;

use weir_traffic::route::HostPattern;

use crate::config::{Cors, CorsOrigin, split_origin};
use crate::key::{NonEmpty, Spanned, TextFormat, section, text_values};
use crate::value::{HeaderName, Token, ValueError};

section! {
    /// Cross-origin resource sharing (the Fetch Standard's CORS protocol): Weir answers the preflights of browsers itself and tells them what
    /// scripts of other origins may do. What servers say about it is dropped. Requests without an `Origin` are as ever.
    #[derive(Debug, Clone)]
    pub(crate) struct CorsText at "listener.NAME.route.cors" {
        /// The origins that are allowed.
        origins: NonEmpty<Spanned<CorsOrigin>> = required, like "nginx `add_header Access-Control-Allow-Origin`, Traefik `accessControlAllowOriginList`";
        /// Methods that are allowed; GET, HEAD and POST need no permission.
        methods: Vec<Token> = ["PUT", "PATCH", "DELETE"], like "Traefik `accessControlAllowMethods`";
        /// Headers that requests may have. Without it, those that are asked for.
        headers: Vec<HeaderName> = optional, like "Traefik `accessControlAllowHeaders`";
        /// Headers of responses that scripts may read, beside the few that they always may.
        expose: Vec<HeaderName> = [], like "Traefik `accessControlExposeHeaders`";
        /// Whether requests may have cookies, client certificates and `Authorization` of the browser.
        credentials: bool = false, like "Traefik `accessControlAllowCredentials`";
        /// For how long browsers may remember the answer to a preflight. Chromium does so for 2 h at most.
        max_age: Duration = "10m", in 0..=86_400_000, like "Traefik `accessControlMaxAge`";
    }
}

impl Cors {
    /// What these origins may do by the defaults of the product.
    pub fn new(origins: Vec<CorsOrigin>) -> Self {
        Self { origins, ..CorsText::default().to_cors() }
    }
}

impl CorsText {
    pub(crate) fn to_cors(&self) -> Cors {
        let Self { origins, methods, headers, expose, credentials, max_age } = self;
        // These need no permission.
        let always = ["GET", "HEAD", "POST"].map(|name| name.parse().expect("it is a token")).into_iter();
        Cors {
            origins: origins
                .iter()
                .flat_map(|origins| &origins.0)
                .map(|origin| origin.value.clone())
                .collect(),
            methods: Some(always.chain(methods.iter().cloned()).collect()),
            headers: headers.clone(),
            expose: expose.clone(),
            credentials: *credentials,
            any_with_credentials: false,
            max_age: *max_age,
        }
    }
}

impl FromStr for CorsOrigin {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        parse_origin(text)
    }
}

text_values! {
    CorsOrigin, parse_origin, print_origin, TextFormat {
        name: "origin",
        article: "an origin",
        examples: &["https://app.example.com", "https://*.example.com", "*", "null"],
        pattern: r"^(\*|null|[a-z][a-z0-9+.-]*://[^/\s]+)$",
        about: "Scheme, host and port of a page, as browsers send it in `Origin`: no path, and no port where it is the usual one. \
                `https://*.example.com` is every host below `example.com`, `*` every origin, `null` that of files and sandboxed frames.",
    };
}

fn parse_origin(text: &str) -> Result<CorsOrigin, ValueError> {
    match text {
        "*" => return Ok(CorsOrigin::Any),
        "null" => return Ok(CorsOrigin::Null),
        _ => {}
    }
    let wrong =
        |message: String| ValueError::new(message).help("write for example `https://app.example.com`");
    let Some((scheme, host, port)) = split_origin(text) else {
        return Err(wrong(format!("`{text}` is not an origin: it has no scheme, or no valid port")));
    };
    if let Some(at) = text.rfind('/').filter(|at| *at > scheme.len() + 2) {
        return Err(wrong("an origin has no path".to_owned()).range(at..text.len()));
    }
    if matches!((scheme, port), ("https", Some(443)) | ("http", Some(80))) {
        return Err(wrong("browsers leave the usual port out of an origin".to_owned()));
    }
    let host =
        HostPattern::parse(host).map_err(|error| wrong(format!("`{text}` is not an origin: {error}")))?;
    if host == HostPattern::ANY {
        return Err(wrong("`*` as a host is every host of the internet".to_owned()).help("write `*` alone"));
    }
    Ok(CorsOrigin::Site { scheme: scheme.to_ascii_lowercase().into(), host, port })
}

fn print_origin(origin: &CorsOrigin) -> String {
    match origin {
        CorsOrigin::Any => "*".to_owned(),
        CorsOrigin::Null => "null".to_owned(),
        CorsOrigin::Site { scheme, host, port: None } => format!("{scheme}://{host}"),
        CorsOrigin::Site { scheme, host, port: Some(port) } => format!("{scheme}://{host}:{port}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_read_and_printed() {
        for text in [
            "*",
            "null",
            "https://a.test",
            "http://a.test:8080",
            "https://*.a.test",
            "http://[::1]:81",
            "app://own",
        ] {
            assert_eq!(print_origin(&parse_origin(text).unwrap()), text);
        }
        for text in [
            "a.test",
            "https://",
            "https://a.test/",
            "https://a.test:443",
            "https://a.test:x",
            "https://*",
            "https://a b",
        ] {
            assert!(parse_origin(text).is_err(), "{text}");
        }
    }

    #[test]
    fn origins_are_compared_whole() {
        let allows = |rule: &str, origin: &str| {
            Cors { origins: vec![parse_origin(rule).unwrap()], ..CorsText::default().to_cors() }
                .allows(origin.as_bytes())
        };
        for (rule, origin, expected) in [
            ("*", "https://any.test", true),
            ("https://a.test", "https://a.test", true),
            ("https://a.test", "https://A.test", true),
            ("https://a.test", "http://a.test", false),
            ("https://a.test", "https://a.test:8443", false),
            ("https://a.test", "https://a.test.evil.test", false),
            ("https://a.test", "https://evil.test/https://a.test", false),
            ("https://*.a.test", "https://b.a.test", true),
            ("https://*.a.test", "https://a.test", false),
            ("https://*.a.test", "https://evil.com/.a.test", false),
            ("https://*.a.test", "https://evil.com#.a.test", false),
            ("https://*.a.test", "https://evil.com?.a.test", false),
            ("https://*.a.test", "https://user@b.a.test", false),
            ("https://*.a.test", "https://evil.com:1/.a.test", false),
            ("https://*.a.test", "https://evil.com\\.a.test", false),
            ("https://*.a.test", "https://evil com.a.test", false),
            ("https://*.a.test", "https://*.a.test", false),
            ("https://*.a.test", "https://b..a.test", false),
            ("https://*.a.test", "https://b_c-d.e.a.test", true),
            ("https://*.a.test", "https://evila.test", false),
            ("https://a.test", "null", false),
            ("null", "null", true),
        ] {
            assert_eq!(allows(rule, origin), expected, "{rule} {origin}");
        }
    }
}
