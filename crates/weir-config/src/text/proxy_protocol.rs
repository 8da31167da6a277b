//! `[listener.NAME.proxy_protocol]` in the text.

use std::time::Duration;

use super::trusted_peers::TrustedPeersText;
use crate::key::section;
use crate::value::Size;

section! {
    /// Balancers in front that send the client address in a PROXY protocol header. That client replaces the peer everywhere: in limits,
    /// routes, hashing, `trusted_proxies`, headers and the log.
    #[derive(Debug, Clone)]
    pub(crate) struct ProxyProtocolText at "listener.NAME.proxy_protocol" {
        /// Peers whose connections have to begin with a header of version 1 or 2. Headers of other peers are not accepted. Networks,
        /// addresses, `"list.NAME"` for those of a list, and `"unix"` for every peer on a Unix socket.
        from: TrustedPeersText = required, like "nginx `set_real_ip_from`, HAProxy `accept-proxy`, `tcp-request connection expect-proxy`";
        /// From the start of the connection to the end of the header. The default tolerates three lost packets in a row.
        timeout: Duration = "10s", in 1..=3_600_000;
        /// The whole header of version 2. One of version 1 has at most 107 bytes.
        header_size: Size = "4KiB", in 256..=65_536;
    }
}
