//! `[listener.NAME.tls.acme.dns_update]` in the text.

use std::time::Duration;

use crate::config::TsigAlgorithm;
use crate::key::{Spanned, section};

section! {
    /// Sets the TXT records of `dns-01` by dynamic updates (RFC 2136) signed with a shared key (TSIG, RFC 8945), over TCP: BIND, Knot DNS, PowerDNS and others
    /// take them. No program is started.
    #[derive(Debug, Clone)]
    pub(crate) struct DnsUpdateText at "listener.NAME.tls.acme.dns_update" {
        /// The primary server of the zone: an address or name, with a port if that is not 53.
        server: Spanned<Box<str>> = required, like "Traefik `RFC2136_NAMESERVER`, certbot `dns_rfc2136_server`";
        /// The zone that is changed. Without it, the server is asked which one the record belongs to.
        zone: Spanned<Box<str>> = optional;
        /// A file with the key, as `tsig-keygen` (BIND) or `keymgr -t` (Knot DNS) writes it, or with the secret alone, in base64.
        key_file: Spanned<Box<str>> = required, like "Traefik `RFC2136_TSIG_SECRET`, `RFC2136_TSIG_FILE`, certbot `dns_rfc2136_secret`";
        /// The name of the key at the server. Without it, the one in the file.
        key_name: Spanned<Box<str>> = optional, like "Traefik `RFC2136_TSIG_KEY`, certbot `dns_rfc2136_name`";
        /// The algorithm of the key. Without it, the one in the file, or `hmac-sha256`.
        algorithm: TsigAlgorithm = optional, like "Traefik `RFC2136_TSIG_ALGORITHM`, certbot `dns_rfc2136_algorithm`";
        /// How long resolvers may keep the record.
        ttl: Duration = "60s", in 0..=86_400_000, like "Traefik `RFC2136_TTL`";
    }
}
