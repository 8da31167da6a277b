//! The authorities of client certificates, and their change while Weir runs.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::HandshakeKind;
use rustls::client::{ClientSessionMemoryCache, Resumption};
use rustls::version::{TLS12, TLS13};

use super::client_certificates::Site;
use crate::harness::tls::try_connect;
use crate::harness::{CertificateAuthority, ClientCertificate, Origin, eventually};

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];
const LISTS: &str = "listener.web.tls.client_certificates.crl = \"revoked.pem\"";

impl Site {
    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.weir.folder().join(file), text).expect("the folder takes a file");
    }

    fn accepts(&self, shown: &ClientCertificate) -> bool {
        self.get(self.client(&BOTH, Some(shown))).is_some()
    }

    fn reloads(&self, outcome: &str) -> f64 {
        let outcome = format!("outcome=\"{outcome}\"");
        self.weir.metrics().sum("weir_listener_certificate_reloads_total", &[&outcome])
    }
}

#[expect(clippy::disallowed_methods, reason = "a certificate has a date")]
fn today() -> SystemTime {
    SystemTime::now()
}

/// A client of each version of TLS with a session that it can go on with.
fn with_sessions(site: &Site, shown: &ClientCertificate) -> Vec<rustls::ClientConfig> {
    let of = |version| {
        let mut config = site.client(&[version], Some(shown));
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
        assert!(site.get(config.clone()).is_some());
        let mut again =
            try_connect(site.weir.web(), config.clone(), "a.test").expect("it was accepted before");
        assert_eq!(again.tls().session().handshake_kind(), Some(HandshakeKind::Resumed));
        again.assert_alive();
        config
    };
    BOTH.into_iter().map(of).collect()
}

/// A client may have signed its own certificate, if that is named; it still has to be valid today.
#[test]
fn a_certificate_that_signed_itself_can_be_trusted_by_name() {
    let origin = Origin::serving("x");
    let (own, old) = (CertificateAuthority::new(), CertificateAuthority::expired());
    let site = Site::start_with(&origin, "", |_, folder| {
        std::fs::write(folder.join("clients.pem"), own.pem() + &old.pem()).expect("a file");
    });
    assert!(site.accepts(&own.itself()));
    assert!(!site.accepts(&CertificateAuthority::new().itself()));
    assert!(!site.accepts(&old.itself()));
    eventually("it is counted as such", || site.refusals("tls-client-certificate-expired") >= 1.0);
}

#[test]
fn revoked_certificates_are_refused() {
    let origin = Origin::serving("x");
    let (mut good, mut bad) = (None, None);
    let site = Site::start_with(&origin, LISTS, |clients, folder| {
        let revoked = clients.certify("bad", |_| {});
        std::fs::write(folder.join("revoked.pem"), clients.revoking(&[&revoked], 4000)).expect("a file");
        (good, bad) = (Some(clients.certify("good", |_| {})), Some(revoked));
    });
    let (good, bad) = (good.expect("it was made"), bad.expect("it was made"));
    assert!(site.accepts(&good) && !site.accepts(&bad));
    eventually("it is counted as such", || site.refusals("tls-client-certificate-revoked") >= 1.0);
    assert!(site.refusals("tls-client-certificate-rejected") < 0.5);
}

#[test]
fn a_new_list_also_ends_sessions() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, LISTS, |clients, folder| {
        std::fs::write(folder.join("revoked.pem"), clients.revoking(&[], 4000)).expect("a file");
    });
    let (ann, bob) = (site.clients.certify("ann", |_| {}), site.clients.certify("bob", |_| {}));
    let sessions = with_sessions(&site, &ann);
    let mut open =
        try_connect(site.weir.web(), site.client(&BOTH, Some(&ann)), "a.test").expect("a good one");
    open.assert_alive();
    site.write("revoked.pem", &site.clients.revoking(&[&ann], 4000));
    eventually("the new list is used", || site.reloads("loaded") > 0.5);
    for config in sessions {
        assert!(site.get(config).is_none(), "the session is not accepted any more");
    }
    assert!(!site.accepts(&ann) && site.accepts(&bob));
    // Who is in stays, as with every other change of certificates.
    open.assert_alive();
    assert!(site.weir.stderr().contains("certificates of clients are verified by the changed file"));
}

#[test]
fn another_authority_takes_over_without_a_restart() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin, "");
    let (ann, next) = (site.clients.certify("ann", |_| {}), CertificateAuthority::new());
    let anne = next.certify("anne", |_| {});
    let sessions = with_sessions(&site, &ann);
    // Both for a while, then the new one alone.
    site.write("clients.pem", &(site.clients.pem() + &next.pem()));
    eventually("the new one is trusted as well", || site.accepts(&anne));
    assert!(site.accepts(&ann));
    site.write("clients.pem", &next.pem());
    eventually("the old one is not trusted any more", || !site.accepts(&ann));
    for config in sessions {
        assert!(site.get(config).is_none());
    }
    assert!(site.accepts(&anne));
}

#[test]
fn a_bad_file_changes_nothing_and_the_log_names_it() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, LISTS, |clients, folder| {
        std::fs::write(folder.join("revoked.pem"), clients.revoking(&[], 4000)).expect("a file");
    });
    let ann = site.clients.certify("ann", |_| {});
    for (count, file) in [(1.0, "clients.pem"), (2.0, "revoked.pem")] {
        site.write(file, "no PEM");
        eventually("the failure is counted", || site.reloads("failed") >= count);
        eventually("the log names it", || {
            let log = site.weir.stderr();
            log.contains(file) && log.contains("has changed and cannot be used")
        });
        assert!(site.accepts(&ann));
    }
    assert!(site.reloads("loaded") < 0.5);
}

/// Certificates revoked since are unknown: that is logged, and not the fault of the client.
#[test]
fn an_outdated_list_rejects_every_client_and_is_logged() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, LISTS, |clients, folder| {
        std::fs::write(folder.join("revoked.pem"), clients.revoking(&[], 2002)).expect("a file");
    });
    let ann = site.clients.certify("ann", |_| {});
    assert!(!site.accepts(&ann));
    eventually("it is counted as such", || site.refusals("tls-revocation-unknown") >= 1.0);
    site.weir.line(&["revoked.pem", "a list of revoked certificates is outdated"]);
    let expiry = || site.weir.metrics().sum("weir_listener_crl_expiry_timestamp_seconds", &["revoked.pem"]);
    assert!(expiry() < 1.1e9, "2002: {}", expiry());
    site.write("revoked.pem", &site.clients.revoking(&[], 4000));
    eventually("a new list makes it accepted again", || site.accepts(&ann));
    eventually("the figures tell until when", || expiry() > 6e10);
    // A list signed by another authority is not used either.
    site.write("revoked.pem", &CertificateAuthority::new().revoking(&[], 4000));
    eventually("the list is not used", || !site.accepts(&ann));
}

/// A list that becomes outdated while Weir runs ends what was allowed by it.
#[test]
fn sessions_end_with_the_list_that_allowed_them() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, LISTS, |clients, folder| {
        std::fs::write(folder.join("revoked.pem"), clients.revoking(&[], 4000)).expect("a file");
    });
    let sessions = with_sessions(&site, &site.clients.certify("ann", |_| {}));
    site.write("revoked.pem", &site.clients.revoking(&[], 2002));
    site.weir.line(&["revoked.pem", "a list of revoked certificates is outdated"]);
    for config in sessions {
        assert!(site.get(config).is_none());
    }
}

/// In a handshake that goes on with an earlier session, the date of the certificate counts as well.
#[test]
fn a_session_does_not_outlive_its_certificate() {
    let origin = Origin::serving("x");
    let site = Site::start(&origin, "");
    // As short as this machine lets a handshake finish in time.
    for seconds in [2, 4, 8, 16] {
        let ann = site
            .clients
            .certify("ann", |params| params.not_after = (today() + Duration::from_secs(seconds)).into());
        let mut config = site.client(&[&TLS12], Some(&ann));
        config.resumption = Resumption::store(Arc::new(ClientSessionMemoryCache::new(64)));
        if site.get(config.clone()).is_none() {
            continue;
        }
        eventually("the session is not resumed any more", || site.get(config.clone()).is_none());
        assert!(site.refusals("tls-client-certificate-expired") > 0.5);
        return;
    }
    panic!("no handshake in 16 seconds");
}
