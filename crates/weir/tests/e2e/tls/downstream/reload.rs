//! Certificates that change while Weir runs.

use super::Site;
use crate::harness::tls::{ECDSA, connect, try_connect};
use crate::harness::{CertificateAuthority, Origin, eventually, temporary_folder};

const OFTEN: &str = "listener.web.tls.reload = \"100ms\"";

fn expiry(site: &Site) -> f64 {
    site.weir.metrics().sum("weir_listener_certificate_expiry_timestamp_seconds", &["certificate=", "a.pem"])
}

fn reloads(site: &Site, outcome: &str) -> f64 {
    site.weir.metrics().sum("weir_listener_certificate_reloads_total", &[&format!("outcome=\"{outcome}\"")])
}

#[test]
fn a_new_certificate_is_used_and_no_connection_is_lost() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, OFTEN);
    let mut before = site.connect();
    before.assert_alive();
    let renewed = CertificateAuthority::new();
    renewed.issue(site.weir.folder(), "a", &["a.test"], ECDSA);
    eventually("the new certificate is used", || {
        try_connect(site.weir.web(), renewed.client(), "a.test").is_ok()
    });
    assert!(try_connect(site.weir.web(), site.authority.client(), "a.test").is_err(), "the old one is gone");
    before.assert_alive();
    assert!(reloads(&site, "loaded") > 0.5 && expiry(&site) > 4e9, "{}", expiry(&site));
    assert!(site.weir.stderr().contains("a certificate has changed"), "{}", site.weir.stderr());
}

#[test]
fn a_bad_file_changes_nothing_and_the_log_names_it() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, OFTEN);
    // The key alone, as in the middle of a renewal.
    let (folder, renewed) = (temporary_folder(), CertificateAuthority::new());
    renewed.issue(folder.path(), "a", &["a.test"], ECDSA);
    let copy =
        |file: &str| std::fs::copy(folder.path().join(file), site.weir.folder().join(file)).expect("a copy");
    copy("a.key");
    eventually("the failure is counted", || reloads(&site, "failed") > 0.5);
    eventually("the log names it", || {
        let log = site.weir.stderr();
        log.contains("a.key") && log.contains("does not belong to the certificate")
    });
    site.authority.connect(site.weir.web()).assert_alive();
    // And then its certificate.
    copy("a.pem");
    eventually("both together are used", || try_connect(site.weir.web(), renewed.client(), "a.test").is_ok());
    std::fs::remove_file(site.weir.folder().join("a.pem")).expect("it is there");
    let failed = reloads(&site, "failed");
    eventually("the missing file is counted", || reloads(&site, "failed") > failed + 0.5);
    connect(site.weir.web(), renewed.client(), "a.test").assert_alive();
}
