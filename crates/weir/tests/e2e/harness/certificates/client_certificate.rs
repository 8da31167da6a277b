//! Certificates of clients, and lists of those that are revoked.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    CertificateParams, CertificateRevocationListParams, DistinguishedName, DnType, KeyIdMethod, KeyPair,
    RevokedCertParams, SerialNumber,
};
use rustls::ClientConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::{CertifiedKey, SingleCertAndKey};

use crate::harness::tls::{CertificateAuthority, ECDSA};

/// A certificate with its key.
pub(crate) struct ClientCertificate {
    pub(crate) pem: String,
    pub(crate) key_pem: String,
    der: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    serial: SerialNumber,
}

impl CertificateAuthority {
    /// A certificate for the client `name`, otherwise as `change` makes it.
    pub(crate) fn certify(
        &self,
        name: &str,
        change: impl FnOnce(&mut CertificateParams),
    ) -> ClientCertificate {
        let pair = KeyPair::generate_for(ECDSA).expect("a key can be made");
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Example");
        params.distinguished_name.push(DnType::CommonName, name);
        // Unlike each other, as far as a test can tell.
        let serial = SerialNumber::from_slice(&pair.public_key_raw()[1..9]);
        params.serial_number = Some(serial.clone());
        change(&mut params);
        let made = params.signed_by(&pair, &self.issuer).expect("the parameters are sound");
        ClientCertificate {
            pem: made.pem(),
            key_pem: pair.serialize_pem(),
            der: made.der().clone(),
            key: PrivateKeyDer::try_from(pair.serialize_der()).expect("the key was just made"),
            serial,
        }
    }

    /// Its own certificate, to be shown like that of any client.
    pub(crate) fn itself(&self) -> ClientCertificate {
        let key = self.issuer.key();
        ClientCertificate {
            pem: self.issuer.pem(),
            key_pem: key.serialize_pem(),
            der: self.issuer.der().clone(),
            key: PrivateKeyDer::try_from(key.serialize_der()).expect("the key was just made"),
            serial: SerialNumber::from(0),
        }
    }

    /// The list of these revoked certificates in PEM, outdated from the beginning of the year `until` on.
    pub(crate) fn revoking(&self, revoked: &[&ClientCertificate], until: i32) -> String {
        let long_ago = rcgen::date_time_ymd(2001, 1, 1);
        let revoked = revoked.iter().map(|certificate| RevokedCertParams {
            serial_number: certificate.serial.clone(),
            revocation_time: long_ago,
            reason_code: None,
            invalidity_date: None,
        });
        let list = CertificateRevocationListParams {
            this_update: long_ago,
            next_update: rcgen::date_time_ymd(until, 1, 1),
            crl_number: SerialNumber::from(1),
            issuing_distribution_point: None,
            revoked_certs: revoked.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let list = list.signed_by(&self.issuer).expect("an authority signs its list");
        list.pem().expect("a list can be written")
    }
}

impl ClientCertificate {
    /// `config`, showing this certificate.
    pub(crate) fn shown_by(&self, mut config: ClientConfig) -> ClientConfig {
        let provider = aws_lc_rs::default_provider();
        let certified = CertifiedKey::from_der(vec![self.der.clone()], self.key.clone_key(), &provider)
            .expect("key and certificate belong together");
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(certified));
        config
    }

    /// Writes `STEM.pem` and `STEM.key` into `folder`.
    pub(crate) fn write(&self, folder: &Path, stem: &str) {
        for (extension, text) in [("pem", &self.pem), ("key", &self.key_pem)] {
            std::fs::write(folder.join(format!("{stem}.{extension}")), text)
                .expect("the test's own folder takes a file");
        }
    }
}
