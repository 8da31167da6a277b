//! `mirror` of a route, or of a target of its split, in the text.

use std::time::Duration;

use weir_traffic::route::MethodMatch;

use crate::config::{ForwardHost, Mirror, MirrorPart, UpstreamIndex};
use crate::key::{Spanned, TextFormat, section, text_values};
use crate::text::ConditionText;
use crate::value::{HeaderName, Percent, ShareFraction, Size, Template, ValueError};

section! {
    /// Copies requests to another upstream as soon as their own responses have been relayed; what comes back is thrown away, or compared with
    /// the response that the client got. A copy never delays or fails the request that it is of. Upgrades and `CONNECT` are not copied.
    #[derive(Debug, Clone)]
    pub(crate) struct MirrorText at "listener.NAME.route.mirror" {
        /// The upstream that gets the copies, with its balancing, time limits and retries. Its queue is not used: a copy that finds all servers
        /// full is dropped.
        upstream: Spanned<Box<str>> = required, like "nginx `mirror`, Envoy `request_mirror_policies`, Traefik `mirroring`";
        /// The path of the copy, with [placeholders](#placeholders), and a query behind `?`: `"/mirror{path}{query}"`. Where a value of the
        /// request brings `.` or `..` into it, nothing is copied. Without it, the path and query that the server of the route gets.
        path: MirrorPath = optional, like "nginx `proxy_pass` in the location of `mirror`";
        /// The share of the requests that are copied, drawn at random.
        share: Percent = "100%", in 0..=100, like "Envoy `runtime_fraction`, Traefik `mirroring.mirrors.percent`, nginx `split_clients`";
        /// A condition: only requests for which it holds are copied. See [Conditions](#conditions).
        when: ConditionText = optional, like "nginx `mirror` with `if`, Envoy `runtime_fraction`";
        /// The methods that are copied. Others may change something twice: add them only where the upstream is a system of its own. Calls of gRPC
        /// have the method `POST`.
        methods: Vec<MethodMatch> = ["GET", "HEAD", "OPTIONS"];
        /// What is compared with the real response. Without it, nothing.
        compare: Vec<MirrorPart> = [];
        /// Headers that are not compared, beside those that differ by nature, such as `Date` and `Set-Cookie`.
        ignore_headers: Vec<HeaderName> = [];
        /// A header of the responses of the mirror that says what has made them, such as the route of a Weir behind it (`{route}`). It is not
        /// compared: differences are listed and counted by it.
        route_header: HeaderName = optional;
        /// The longest request body that is copied; requests with a longer one are not.
        body_max: Size = "64KiB", in 0..=16_777_216, like "Traefik `mirroring.maxBodySize`";
        /// Copies of this route at a time, over all workers; further requests are not copied.
        concurrent_max: u32 = 64, in 1..=1_000_000;
        /// How long a copy may take in all.
        timeout: Duration = "30s", in 1..=3_600_000;
        /// The `Host` of the copy.
        forward_host: ForwardHost = "keep", like "Envoy `disable_shadow_host_suffix_append`";
        /// The header by which servers know copies: its value is `1`.
        mark_header: HeaderName = "x-weir-mirror";
    }
}

/// The path of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MirrorPath(pub(crate) Template);

text_values! {
    MirrorPath, parse_path, |path: &MirrorPath| path.0.to_string(), TextFormat {
        name: "mirror path",
        article: "a path",
        examples: &["/mirror{path}{query}", "{path}?copy=1"],
        pattern: r"^(/|\{path\}).*$",
        about: "A path that begins with `/` or `{path}`, with [placeholders](#placeholders); what follows `?` is the query. `{{` and `}}` are braces.",
    };
}

fn parse_path(text: &str) -> Result<MirrorPath, ValueError> {
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| c.is_control() || *c == '#') {
        return Err(
            ValueError::new(format!("{wrong:?} is not allowed in a path")).range(at..at + wrong.len_utf8())
        );
    }
    let begins = text.starts_with('/') && !text.starts_with("//") || text.starts_with("{path}");
    if !begins {
        let error = ValueError::new(format!("`{text}` is not a path"));
        return Err(error.help("a path begins with one `/`, or with `{path}`"));
    }
    text.parse().map(MirrorPath)
}

impl Mirror {
    /// Copies of all requests, whatever their method, with the defaults of the product otherwise.
    pub fn of_all(upstream: UpstreamIndex, share: ShareFraction) -> Self {
        let text = MirrorText::default();
        let methods = ["GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"];
        let methods = methods.into_iter().map(|name| MethodMatch::parse(name).expect("it is a method"));
        Self {
            upstream,
            path: None,
            share,
            when: None,
            methods: methods.collect(),
            compare: text.compare,
            ignore_headers: text.ignore_headers,
            route_header: text.route_header,
            body_max: text.body_max,
            concurrent_max: text.concurrent_max,
            timeout: text.timeout,
            forward_host: text.forward_host,
            mark_header: text.mark_header,
        }
    }
}
