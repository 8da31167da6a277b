//! `[listener.NAME.tls.internal]` in the text.

use std::time::Duration;

use weir_traffic::route::HostPattern;

use crate::key::{Spanned, section};

section! {
    /// Certificates of an authority of Weir's own, for development: one certificate for all hosts of the listener. Clients trust it once they trust its
    /// root, `root.pem` in `directory`; the log has the command. Only for names that the public DNS does not have: `localhost`, names
    /// below `localhost`, `test`, `example`, `internal`, `local` and `home.arpa`, and private addresses; the root can sign no others.
    /// [docs/certificates.md](certificates.md#an-authority-for-development) says more.
    #[derive(Debug, Clone)]
    pub(crate) struct InternalText at "listener.NAME.tls.internal" {
        /// The names and addresses that the certificate is for. Without it, the hosts of the routes, `localhost`, `127.0.0.1` and `[::1]`.
        hosts: Vec<Spanned<HostPattern>> = optional;
        /// The folder for root and key; only the user of Weir may read the key. Without it, `internal` below `$STATE_DIRECTORY`, which systemd
        /// sets; else `~/.local/state/weir/internal`; for root `/var/lib/weir/internal`.
        directory: Spanned<Box<str>> = optional, like "Caddy `storage`";
        /// How long a certificate is valid. It is renewed after two thirds of that.
        lifetime: Duration = "24h", in 1_000..=604_800_000, like "Caddy `lifetime`";
    }
}
