//! `mirror` of a route or of a target of its split: copies of requests go to another upstream.

use std::time::Duration;

use weir_traffic::route::MethodMatch;

use crate::config::RouteFault;
use crate::config::{ForwardHost, UpstreamIndex};
use crate::key::choice;
use crate::value::{FRAMING, HeaderName, ShareFraction, Size, Template, WhenCondition};

/// Copies of requests for another upstream, whose responses no client gets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Mirror {
    /// The upstream.
    pub upstream: UpstreamIndex,
    /// The path of the copy; `None`: that of the request to the server.
    pub path: Option<Template>,
    /// The share of the requests that are copied, drawn at random.
    pub share: ShareFraction,
    /// Only requests for which it holds are copied.
    pub when: Option<WhenCondition>,
    /// The methods that are copied.
    pub methods: Vec<MethodMatch>,
    /// What is compared with the real response; empty: nothing.
    pub compare: Vec<MirrorPart>,
    /// Headers that are not compared, beside those that differ by nature.
    pub ignore_headers: Vec<HeaderName>,
    /// The header of the mirror's responses by which differences are counted.
    pub route_header: Option<HeaderName>,
    /// The longest request body that is copied.
    pub body_max: Size,
    /// Copies at a time, over all workers.
    pub concurrent_max: u32,
    /// How long a copy may take in all.
    pub timeout: Duration,
    /// The `Host` of the copy.
    pub forward_host: ForwardHost,
    /// The header by which servers know copies.
    pub mark_header: HeaderName,
}

impl Mirror {
    /// What may not hold of it.
    pub(crate) fn faults(&self) -> impl Iterator<Item = RouteFault> {
        let mark = &*self.mark_header;
        let is_taken = FRAMING.contains(&mark) || mark == "host";
        let copies_tunnels = self.methods.iter().any(|method| method.as_str() == "CONNECT");
        let mark = is_taken.then(|| RouteFault::MarkOfCopies(mark.into()));
        mark.into_iter().chain(copies_tunnels.then_some(RouteFault::CopyOfTunnel))
    }

    /// Whether bodies are compared, in whatever form.
    pub fn compares_bodies(&self) -> bool {
        self.compares(MirrorPart::Body) || self.compares(MirrorPart::DecodedBody)
    }

    /// Whether a part of the responses is compared.
    pub fn compares(&self, part: MirrorPart) -> bool {
        self.compare.contains(&part)
    }
}

choice! {
    /// A part of a response that is compared.
    pub enum MirrorPart {
        /// the status code
        #[default]
        Status = "status",
        /// the headers, but those that differ by nature
        Headers = "headers",
        /// the body as it is sent, by its length and a digest
        Body = "body",
        /// the body without its content coding (gzip, br, zstd), in place of `"body"`: for two programs that compress
        DecodedBody = "decoded-body",
    }
}
