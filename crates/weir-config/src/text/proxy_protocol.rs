//! `[listener.NAME.proxy_protocol]` as it is written.

use std::time::Duration;

use crate::config::TrustedProxies;
use crate::key::section;
use crate::value::Size;

section! {
    /// Balancers in front that say with the PROXY protocol whose connection it is. The client that they name counts everywhere in place of the
    /// peer: for limits, routes, hashing, `trusted_proxies`, in headers and in the log.
    #[derive(Debug, Clone)]
    pub(crate) struct ProxyProtocolText at "listener.NAME.proxy_protocol" {
        /// Peers whose connections begin with a header of version 1 or 2, and have to. Of all others none is believed. Networks, addresses,
        /// and `"unix"` for every peer on a Unix socket.
        from: TrustedProxies = required, like "nginx `set_real_ip_from`, HAProxy `accept-proxy`, `tcp-request connection expect-proxy`";
        /// From the beginning of the connection to the end of the header. With the default, three lost packets in a row still make it.
        timeout: Duration = "10s", in 1..=3_600_000;
        /// The whole header of version 2. One of version 1 never has more than 107 bytes.
        header_size: Size = "4KiB", in 256..=65_536;
    }
}
