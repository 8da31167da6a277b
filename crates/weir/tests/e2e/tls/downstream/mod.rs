//! TLS with clients: what is agreed on, what is refused and how that is told, and that a connection with TLS is otherwise like any.

mod choice;
mod client_certificates;
mod client_trust;
mod early_data;
mod endings;
mod idle;
mod key_log;
mod refusals;
mod records;
mod relays;
mod reload;
mod resumption;
mod stapling;
mod unfinished;

use crate::harness::tls::ECDSA;
use crate::harness::{Authority, Origin, Weir};

/// A Weir with TLS for `a.test` on the listener `web`, in front of `origin`.
struct Site {
    authority: Authority,
    weir: Weir,
}

impl Site {
    fn start(origin: &Origin) -> Site {
        Site::start_with(origin, "")
    }

    /// With more settings in the form of dotted keys, one a line.
    fn start_with(origin: &Origin, settings: &str) -> Site {
        let folder = tempfile::TempDir::new().expect("the system has a folder for temporary files");
        let authority = Authority::new();
        authority.issue(folder.path(), "a", &["a.test"], ECDSA);
        let weir = Weir::start_in(
            folder,
            &format!(
                "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
                 listener.web.tls.certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}]\n\
                 admin.address = \"127.0.0.1:0\"\nupstream.app.servers = [\"{}\"]\n{settings}\n",
                origin.address()
            ),
        );
        Site { authority, weir }
    }

    fn connect(&self) -> crate::harness::Client {
        crate::harness::tls::connect(self.weir.web(), self.authority.client(), "a.test")
    }
}
