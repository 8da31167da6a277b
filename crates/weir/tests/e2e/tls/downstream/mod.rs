//! TLS with clients: negotiation, refusals and their alerts, and that a connection with TLS is otherwise like any.

mod choice;
mod client_certificates;
mod client_trust;
mod directory;
mod early_data;
mod endings;
mod idle;
mod internal;
mod key_log;
mod refusals;
mod records;
mod relays;
mod reload;
mod resumption;
mod stapling;
mod unfinished;

use crate::harness::tls::WEB_TLS;
use crate::harness::{CertificateAuthority, Client, Origin, Weir, config_with};

/// A Weir with TLS for `a.test` on the listener `web`, in front of `origin`.
struct Site {
    authority: CertificateAuthority,
    weir: Weir,
}

impl Site {
    fn start(origin: &Origin) -> Site {
        Site::start_with(origin, "")
    }

    /// With more settings in the form of dotted keys, one a line.
    fn start_with(origin: &Origin, settings: &str) -> Site {
        let authority = CertificateAuthority::new();
        let folder = authority.folder_for_web();
        let text = config_with(&[origin.entry()], &format!("{WEB_TLS}{settings}"));
        Site { weir: Weir::start_in(folder, &text), authority }
    }

    fn connect(&self) -> Client {
        self.authority.connect(self.weir.web())
    }
}
