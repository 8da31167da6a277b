//! A steady load: the same request over and over, in a closed loop or at a constant rate. Describes it; must not drive it.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::load::tool::grpc_client::GrpcCalls;
use crate::topology::listener::{CertificateKey, ListenerSetup, Suite};
use crate::topology::target::LabTarget;
use crate::topology::upstream::{OriginProtocol, UpstreamSetup};
use crate::wire::websocket;

/// From here on an answer is counted by its bytes.
const BULK_MIN: u64 = 1 << 20;

/// See the module.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SteadyWork {
    /// Simulated clients.
    pub clients: usize,
    /// Whether a client keeps its connection.
    #[serde(default = "yes")]
    pub keep_alive: bool,
    /// Bytes of request body; 0 is a GET.
    #[serde(default)]
    pub body: usize,
    /// Bytes of the answer, for GET.
    #[serde(default = "page_len")]
    pub answer: u64,
    /// How long the origin works on each, as its URLs say it, in milliseconds: `20`, `lognormal-10-0.4`; without it, not at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<String>,
    /// A cookie of the application in every request, name and value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cookie: Option<String>,
    /// Clients have a WebSocket tunnel each, and send messages of this many bytes that come back; each counts as a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<usize>,
    /// Clients speak HTTP/2 and have so many requests under way at once, each on a stream of their connection; played by `h2load`. With
    /// `http3`, they speak that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<usize>,
    /// Clients with `streams` speak HTTP/3 with a listener that has `tls`; played by the driver, or by an `h2load` that was built for that.
    #[serde(default, skip_serializing_if = "is_false")]
    pub http3: bool,
    /// These requests are calls of gRPC with messages of `body` and `answer` bytes; played by grpc-go's benchmark client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grpc: Option<GrpcCalls>,
    /// A constant rate; without it the loop is closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RequestRate>,
    /// Suites of TLS, each a case of its own, in the place of the listener's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suites: Vec<Suite>,
}

impl SteadyWork {
    /// The page, over and over, for this many clients that keep their connections.
    pub fn of(clients: usize) -> Self {
        Self {
            clients,
            keep_alive: true,
            body: 0,
            answer: page_len(),
            service: None,
            cookie: None,
            message: None,
            streams: None,
            http3: false,
            grpc: None,
            rate: None,
            suites: Vec::new(),
        }
    }

    /// Whether it asks for the page and nothing else.
    pub(super) fn is_of_the_page(&self) -> bool {
        let is_plain = self.service.is_none() && self.message.is_none();
        is_plain && self.body == 0 && self.answer == page_len()
    }

    /// Bytes of the body of a request and of its answer: only one of them has any worth mentioning.
    pub fn body_bytes(&self) -> u64 {
        if self.body > 0 { self.body as u64 } else { self.answer }
    }

    /// Whether bodies are so large that they dominate the cost.
    pub(super) fn is_bulk(&self) -> bool {
        self.body_bytes() >= BULK_MIN
    }

    /// Whether these are the bodies of requests.
    pub(super) fn is_upload(&self) -> bool {
        self.is_bulk() && self.body > 0
    }

    pub(super) fn check(&self, listener: &ListenerSetup, upstream: &UpstreamSetup) -> anyhow::Result<()> {
        ensure!(self.clients > 0, "no clients");
        let is_pair = |cookie: &String| cookie.contains('=') && !cookie.contains(['\r', '\n']);
        ensure!(self.cookie.iter().all(is_pair), "a cookie is a name, `=` and a value");
        let is_known = |service: &String| crate::origin::delay::is_known(service);
        ensure!(self.service.iter().all(is_known), "a service time is as `/delay/` of the origin has it");
        if let Some(message) = self.message {
            check_message(message)?;
            let is_alone = Self { message: None, ..self.clone() }.is_of_the_page() && self.keep_alive;
            ensure!(
                is_alone && self.cookie.is_none(),
                "a message is all there is: no body, answer, cookie or end of the connection"
            );
        }
        if let Some(streams) = self.streams {
            let is_alone = self.message.is_none() && self.cookie.is_none();
            ensure!(streams > 0, "`streams` is at least 1");
            ensure!(
                is_alone && self.keep_alive && self.suites.is_empty() && (self.rate.is_none() || self.http3),
                "`streams` are requests of a closed loop on kept connections: no message, cookie, rate or suites"
            );
        }
        if self.http3 {
            let is_secure = listener.tls.is_some_and(|tls| tls.suite.is_tls13() && !tls.resume);
            ensure!(
                self.streams.is_some()
                    && is_secure
                    && self.service.is_none()
                    && upstream.protocol == OriginProtocol::Http1,
                "`http3` needs `streams`, and a listener with a suite of TLS 1.3 and full handshakes; servers speak HTTP/1.1"
            );
        }
        self.check_protocol(listener, upstream.protocol)?;
        match self.rate {
            Some(RequestRate::Fixed(rate)) => ensure!(rate > 0.0, "the rate is not positive"),
            Some(RequestRate::OfPeak { share, .. }) => ensure!(share > 0.0, "the share is not positive"),
            None => {}
        }
        ensure!(
            self.suites.is_empty() || listener.tls.is_some_and(|tls| tls.key == CertificateKey::Rsa2048),
            "`suites` are of a listener with `tls` and an RSA key, which all of them can have"
        );
        Ok(())
    }
}

impl SteadyWork {
    /// The protocol of the servers fits the requests.
    fn check_protocol(&self, listener: &ListenerSetup, protocol: OriginProtocol) -> anyhow::Result<()> {
        ensure!(
            self.grpc.is_some() == (protocol == OriginProtocol::Grpc),
            "calls of gRPC are for servers of gRPC, which answer nothing else"
        );
        ensure!(
            self.grpc.is_none() || (self.streams.is_some() && listener.tls.is_none()),
            "calls of gRPC need `streams`, and their client speaks no TLS here"
        );
        ensure!(
            protocol != OriginProtocol::Http2 || (self.streams.is_some() && self.is_of_the_page()),
            "servers of HTTP/2 are for GETs of the page with `streams`"
        );
        Ok(())
    }
}

/// A constant rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(untagged, deny_unknown_fields, rename_all_fields = "kebab-case")]
pub enum RequestRate {
    /// Requests per second.
    Fixed(f64),
    /// A share of the closed-loop peak of one target, found at the start of the run.
    OfPeak {
        /// The share, 0 to 1.
        share: f64,
        /// Whose peak.
        of_peak: LabTarget,
    },
}

fn is_false(value: &bool) -> bool {
    !value
}

fn yes() -> bool {
    true
}

fn page_len() -> u64 {
    crate::origin::PAGE_LEN
}

/// A message is one frame.
pub(super) fn check_message(len: usize) -> anyhow::Result<()> {
    ensure!((1..websocket::PAYLOAD_MAX).contains(&len), "a message has 1 byte to 65535");
    Ok(())
}
