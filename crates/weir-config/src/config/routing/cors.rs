//! `cors`: which origins may read responses in a browser, and with which requests (Fetch Standard, CORS protocol).

use std::time::Duration;

use weir_traffic::route::HostPattern;

use crate::config::RouteFault;
use crate::value::{HeaderName, Token};

/// What Weir tells browsers about requests from other origins.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Cors {
    /// The origins.
    pub origins: Vec<CorsOrigin>,
    /// Methods that requests may have; `None`: whatever is asked for.
    pub methods: Option<Vec<Token>>,
    /// Headers that requests may have; `None`: whatever is asked for.
    pub headers: Option<Vec<HeaderName>>,
    /// Headers of responses that scripts may read beside the usual ones.
    pub expose: Vec<HeaderName>,
    /// Whether requests may have cookies and the like.
    pub credentials: bool,
    /// Whether every origin may be permitted with credentials: the origin, method and headers that a browser names are repeated, since `*` means
    /// nothing with credentials. The text has no key for it: any site could act as its visitors.
    pub any_with_credentials: bool,
    /// How long browsers may remember a permission.
    pub max_age: Duration,
}

impl Cors {
    /// What may not hold of it.
    pub(crate) fn fault(&self) -> Option<RouteFault> {
        let is_open =
            self.credentials && !self.any_with_credentials && self.origins.contains(&CorsOrigin::Any);
        is_open.then_some(RouteFault::AnyOriginWithCredentials)
    }

    /// Whether scripts of this origin may read responses.
    pub fn allows(&self, origin: &[u8]) -> bool {
        self.origins.iter().any(|one| one.is(origin))
    }

    /// Whether the answer is the same for every origin, so that caches may share it.
    pub fn allows_any(&self) -> bool {
        self.origins.contains(&CorsOrigin::Any) && !self.any_with_credentials
    }
}

/// One origin, or several of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CorsOrigin {
    /// `"*"`.
    Any,
    /// `"null"`: of files and sandboxed frames.
    Null,
    /// Scheme, host and port.
    Site {
        /// `http` or `https`, or that of an app.
        scheme: Box<str>,
        /// The host, or a pattern.
        host: HostPattern,
        /// The port if it is not the usual one.
        port: Option<u16>,
    },
}

impl CorsOrigin {
    fn is(&self, origin: &[u8]) -> bool {
        match self {
            CorsOrigin::Any => true,
            CorsOrigin::Null => origin == b"null",
            CorsOrigin::Site { scheme, host, port } => {
                std::str::from_utf8(origin).ok().and_then(split_origin).is_some_and(|(of, name, at)| {
                    of.eq_ignore_ascii_case(scheme)
                        && at == *port
                        && is_host(name)
                        && host.matches(name.as_bytes())
                })
            }
        }
    }
}

/// Scheme, host and port of an origin (RFC 6454 section 6.2).
pub(crate) fn split_origin(text: &str) -> Option<(&str, &str, Option<u16>)> {
    let (scheme, authority) = text.split_once("://")?;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port.parse().ok()?)),
        _ => (authority, None),
    };
    Some((scheme, host, port))
}

/// Whether a text is a host and nothing else: a pattern would take what stands before it, such as another host and a slash, for a part of a name.
fn is_host(text: &str) -> bool {
    HostPattern::parse(text).is_ok_and(|host| host.is_exact())
}
