//! Certificates of clients over QUIC: which are accepted, and the fields that servers get about them.

use std::path::Path;

use super::HTTP3;
use crate::harness::http3::{Http3Client, Http3Response};
use crate::harness::tls::WEB_TLS;
use crate::harness::{
    CertificateAuthority, ClientCertificate, Origin, Request, Weir, config_with, eventually,
};

/// A Weir that asks its clients for certificates of an authority of theirs.
struct QuicSite {
    servers: CertificateAuthority,
    clients: CertificateAuthority,
    weir: Weir,
}

impl QuicSite {
    fn start(origin: &Origin, verify: &str, more: &str) -> Self {
        Self::start_with(origin, verify, more, |_, _| {})
    }

    fn start_with(
        origin: &Origin,
        verify: &str,
        more: &str,
        prepare: impl FnOnce(&CertificateAuthority, &Path),
    ) -> Self {
        let (servers, clients) = (CertificateAuthority::new(), CertificateAuthority::new());
        let folder = servers.folder_for_web();
        std::fs::write(folder.path().join("clients.pem"), clients.pem()).expect("the folder takes a file");
        prepare(&clients, folder.path());
        let tls = format!(
            "listener.web.tls.client_certificates.ca = \"clients.pem\"\n\
             listener.web.tls.client_certificates.verify = \"{verify}\"\n{more}"
        );
        let text = config_with(&[origin.entry()], &format!("{WEB_TLS}{HTTP3}{tls}"));
        Self { servers, clients, weir: Weir::start_in(folder, &text) }
    }

    /// The response to a GET, if the client is accepted: it may learn of a refusal behind its own handshake.
    fn get(&self, shown: Option<&ClientCertificate>) -> Option<Http3Response> {
        let config = self.servers.client();
        let config = shown.map_or(config.clone(), |shown| shown.shown_by(config));
        let mut client = Http3Client::try_connect(self.weir.web(), config).ok()?;
        let pending = client.send("GET", "/", b"");
        client.try_response(pending).ok()
    }

    fn refusals(&self, reason: &str) -> f64 {
        let label = format!("reason=\"{reason}\"");
        self.weir.metrics().all("weir_listener_failures_total", &[&label]).iter().sum()
    }
}

fn fields(request: &Request) -> [Option<&str>; 2] {
    ["x-ssl-client-verify", "x-ssl-client-s-dn"].map(|name| request.field(name))
}

#[test]
fn a_server_gets_the_fields_of_the_client_certificate() {
    for verify in ["required", "optional"] {
        let origin = Origin::serving("x");
        let site = QuicSite::start(&origin, verify, "");
        let ann = site.clients.certify("ann", |_| {});
        assert!(site.get(Some(&ann)).is_some(), "{verify}");
        assert_eq!(fields(&origin.last_request()), [Some("SUCCESS"), Some("CN=ann,O=Example")]);
    }
}

/// A client cannot say these itself.
#[test]
fn fields_that_a_client_sends_itself_are_removed() {
    let origin = Origin::serving("x");
    let site = QuicSite::start(&origin, "optional", "");
    let mut client = Http3Client::connect(site.weir.web(), &site.servers);
    client.get_with("/", &[("x-ssl-client-verify", "SUCCESS"), ("x-ssl-client-s-dn", "CN=root")]);
    assert_eq!(fields(&origin.last_request()), [Some("NONE"), None]);
}

#[test]
fn clients_without_a_valid_certificate_are_rejected() {
    let origin = Origin::serving("never");
    let site = QuicSite::start(&origin, "required", "");
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    let old = site.clients.certify("old", |params| params.not_after = rcgen::date_time_ymd(2002, 1, 1));
    for (shown, reason) in [
        (None, "tls-client-certificate-missing"),
        (Some(&stranger), "tls-client-certificate-rejected"),
        (Some(&old), "tls-client-certificate-expired"),
    ] {
        assert!(site.get(shown).is_none(), "{reason}");
        eventually(reason, || site.refusals(reason) >= 1.0);
    }
    assert_eq!(origin.connections(), 0);
}

#[test]
fn an_optional_certificate_may_be_missing_but_not_bad() {
    let origin = Origin::serving("x");
    let site = QuicSite::start(&origin, "optional", "");
    assert!(site.get(None).is_some());
    assert_eq!(fields(&origin.last_request()), [Some("NONE"), None]);
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    assert!(site.get(Some(&stranger)).is_none());
    eventually("it is counted", || site.refusals("tls-client-certificate-rejected") >= 1.0);
    assert_eq!(origin.requests().len(), 1);
}

#[test]
fn a_certificate_that_is_not_valid_is_none_where_clients_are_let_in_anyway() {
    let origin = Origin::serving("x");
    let site = QuicSite::start(&origin, "optional-no-ca", "");
    let friend = site.clients.certify("ann", |_| {});
    let stranger = CertificateAuthority::new().certify("eve", |_| {});
    for (shown, verified) in [(None, "NONE"), (Some(&stranger), "FAILED"), (Some(&friend), "SUCCESS")] {
        assert!(site.get(shown).is_some(), "{verified}");
        assert_eq!(fields(&origin.last_request())[0], Some(verified));
    }
}

#[test]
fn a_revoked_certificate_is_rejected() {
    let origin = Origin::serving("x");
    let mut certificates = None;
    let site = QuicSite::start_with(
        &origin,
        "required",
        "listener.web.tls.client_certificates.crl = \"revoked.pem\"\n",
        |clients, folder| {
            let (good, bad) = (clients.certify("ann", |_| {}), clients.certify("eve", |_| {}));
            let list = clients.revoking(&[&bad], 4000);
            std::fs::write(folder.join("revoked.pem"), list).expect("the folder takes a file");
            certificates = Some((good, bad));
        },
    );
    let (good, bad) = certificates.expect("they were made");
    assert!(site.get(Some(&good)).is_some());
    assert!(site.get(Some(&bad)).is_none());
    eventually("it is counted", || site.refusals("tls-client-certificate-revoked") >= 1.0);
    assert_eq!(origin.requests().len(), 1);
}
