//! `dynamic` of an upstream in the text.

use std::time::Duration;

use crate::config::AllowedServer;
use crate::key::{NonEmpty, Spanned, section};
use crate::value::Template;

section! {
    /// The server that each request names, in place of `servers`. Its name is resolved when it is asked for, and again when its TTL is over. Requests reach
    /// nothing but what `allow` lists: other names, and names with other addresses, are answered 502. See [docs/dynamic.md](dynamic.md).
    #[derive(Debug, Clone)]
    pub(crate) struct DynamicText at "upstream.NAME.dynamic" {
        /// The server, `HOST:PORT`: a text with placeholders, such as `{map.backend}:8080`. It is made once for each request, after authentication.
        server: Spanned<Template> = required, like "nginx `proxy_pass http://$upstream:$port`, Envoy `dynamic_forward_proxy`";
        /// All that `server` may come to: hosts, and networks that their addresses have to be in. Without networks, the addresses may be any but those of this
        /// machine, of its link, and special ones (loopback, `169.254.0.0/16`, `fe80::/10`, multicast, unspecified); those need a network that names them.
        /// Where the port in `server` is a placeholder, each host has to say its ports.
        allow: NonEmpty<Spanned<AllowedServer>> = required;
        /// Names that are known at once, those that lead nowhere included. The one that was used least lately makes room for another; none makes room on which
        /// requests run.
        names_max: usize = 1024, in 1..=10_000, like "Envoy `max_hosts`";
        /// How long a name is known that no request asks for.
        idle: Duration = "5m", in 1_000..=86_400_000, like "Envoy `host_ttl`";
    }
}
