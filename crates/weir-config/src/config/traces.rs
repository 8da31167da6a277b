//! `[traces]`: which exchanges are sampled, and the destination of their spans.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::AcceptFrom;
use crate::certificate::Authorities;
use crate::masked_text::masked;
use crate::value::{Fraction, HeaderName, HeaderValue};

/// Traces by OpenTelemetry.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct TraceSettings {
    /// The share of the traces begun here that are sampled.
    pub ratio: Fraction,
    /// The maximum number of sampled exchanges per second.
    pub rate: u32,
    /// The peers whose `traceparent` is accepted.
    pub accept: AcceptFrom,
    /// The maximum number of sampled exchanges that wait to be sent.
    pub queue_max: usize,
    /// The destination of the spans.
    pub collector: Collector,
}

/// The destination of spans.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Collector {
    /// Where it takes them.
    pub url: CollectorUrl,
    /// The service name of the spans.
    pub service_name: Box<str>,
    /// Headers of the requests to it.
    pub headers: CollectorHeaders,
    /// The authorities for its certificate; present whenever its URL has `https`.
    pub authorities: Option<Arc<Authorities>>,
    /// How long one request may take.
    pub timeout: Duration,
}

/// The URL of a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollectorUrl {
    /// Whether it is one of `https`.
    pub is_tls: bool,
    /// The host, with a port unless it is the usual one.
    pub authority: Box<str>,
    /// Path and query; may be empty.
    pub path: Box<str>,
}

impl CollectorUrl {
    /// As it is shown and logged: without the values of parameters that say that they are secrets. It holds no user and no password.
    pub fn without_secrets(&self) -> Self {
        Self { path: masked(&self.path).into(), ..self.clone() }
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http{}://{}{}", if self.is_tls { "s" } else { "" }, self.authority, self.path)
    }
}

/// Headers that may be secrets: never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CollectorHeaders(pub Vec<(HeaderName, HeaderValue)>);

impl fmt::Debug for CollectorHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CollectorHeaders(..)")
    }
}
