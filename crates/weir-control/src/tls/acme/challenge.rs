//! The answer to a challenge of an authority, from where it can be seen until it has been.

use aws_lc_rs::digest;
use data_encoding::BASE64URL_NOPAD;
use rcgen::{CertificateParams, CustomExtension, DistinguishedName, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use weir_config::{AcmeChallenge, DnsRecords};
use weir_proxy::net::tls::issued::TokenAnswer;

use super::delegation;
use super::delegation::RecordName;
use super::issuer::{IssuanceError, Issuer};
use super::{dns_hook, dns_update};

/// An answer that can be seen.
pub(super) struct PlacedChallenge<'a> {
    issuer: &'a Issuer,
    host: String,
    place: ChallengePlace,
}

/// Where an answer is.
enum ChallengePlace {
    Http {
        token: String,
    },
    Tls,
    Dns {
        record: RecordName,
        value: String,
    },
    /// Nowhere any more.
    Removed,
}

impl<'a> PlacedChallenge<'a> {
    /// Makes the answer visible. `host` is without the wildcard.
    ///
    /// # Errors
    /// When that fails.
    pub(super) async fn place(
        issuer: &'a Issuer,
        kind: AcmeChallenge,
        host: &str,
        token: &str,
        key_authorization: &str,
    ) -> Result<Self, IssuanceError> {
        let digest = digest::digest(&digest::SHA256, key_authorization.as_bytes());
        let place = match kind {
            AcmeChallenge::Http01 => {
                let answer = TokenAnswer { host: host.into(), text: key_authorization.into() };
                issuer.store.save_token(token, &answer)?;
                issuer.issuers.set_token(token, answer);
                ChallengePlace::Http { token: token.to_owned() }
            }
            AcmeChallenge::TlsAlpn01 => {
                show_certificate(issuer, host, digest.as_ref())?;
                ChallengePlace::Tls
            }
            AcmeChallenge::Dns01 => {
                let value = BASE64URL_NOPAD.encode(digest.as_ref());
                ChallengePlace::Dns { record: record_name(issuer, host).await?, value }
            }
        };
        let placed = Self { issuer, host: host.to_owned(), place };
        if let (ChallengePlace::Dns { record, value }, Some(dns)) = (&placed.place, &issuer.issued.issuer.dns)
        {
            if let Err(error) = change_record(dns, RecordAction::Present, host, record, value).await {
                // What it began may be there.
                placed.remove().await;
                return Err(error);
            }
            tokio::time::sleep(dns.wait()).await;
        }
        Ok(placed)
    }

    /// Takes the answer back.
    pub(super) async fn remove(mut self) {
        let place = std::mem::replace(&mut self.place, ChallengePlace::Removed);
        self.take_back(&place);
        if let (ChallengePlace::Dns { record, value }, Some(dns)) = (&place, &self.issuer.issued.issuer.dns)
            && let Err(error) = change_record(dns, RecordAction::Cleanup, &self.host, record, value).await
        {
            let (host, error) = (&*self.host, &*error.text);
            tracing::warn!(host, error, "the TXT record of a challenge could not be removed");
        }
    }

    fn take_back(&self, place: &ChallengePlace) {
        match place {
            ChallengePlace::Http { token } => {
                self.issuer.issuers.remove_token(token);
                self.issuer.store.remove_token(token);
            }
            ChallengePlace::Tls => self.issuer.issued.remove_challenge(&self.host),
            ChallengePlace::Dns { .. } | ChallengePlace::Removed => {}
        }
    }
}

impl Drop for PlacedChallenge<'_> {
    /// When the order is given up because the config has changed.
    fn drop(&mut self) {
        self.take_back(&self.place);
        if matches!(self.place, ChallengePlace::Dns { .. }) {
            let host = &*self.host;
            tracing::warn!(host, "the TXT record of a challenge stays: its order was given up");
        }
    }
}

/// What happens to a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordAction {
    Present,
    Cleanup,
}

/// The name of the TXT record of a host.
async fn record_name(issuer: &Issuer, host: &str) -> Result<RecordName, IssuanceError> {
    match issuer.issued.issuer.dns_follow_cname {
        true => delegation::find(&issuer.dns(), host).await,
        false => Ok(RecordName::direct(host)),
    }
}

/// Sets or removes the TXT record of a host.
async fn change_record(
    dns: &DnsRecords,
    action: RecordAction,
    host: &str,
    record: &RecordName,
    value: &str,
) -> Result<(), IssuanceError> {
    let changed = match (dns, action) {
        (DnsRecords::Command(hook), RecordAction::Present) => {
            dns_hook::run(hook, "present", host, record, value).await
        }
        (DnsRecords::Command(hook), RecordAction::Cleanup) => {
            dns_hook::run(hook, "cleanup", host, record, value).await
        }
        (DnsRecords::Update(update), RecordAction::Present) => dns_update::add(update, record, value).await,
        (DnsRecords::Update(update), RecordAction::Cleanup) => {
            dns_update::remove(update, record, value).await
        }
    };
    changed.map_err(|error| record.explain(error))
}

/// Shows the certificate that proves the host in a handshake (RFC 8737 section 3).
fn show_certificate(issuer: &Issuer, host: &str, digest: &[u8]) -> Result<(), IssuanceError> {
    let made = || -> Result<_, rcgen::Error> {
        let mut params = CertificateParams::new(vec![host.to_owned()])?;
        params.distinguished_name = DistinguishedName::new();
        params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok((certificate.der().clone(), key.serialize_der()))
    };
    let (certificate, key) = made().map_err(|error| IssuanceError::unreached(error.to_string()))?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key));
    let shown = issuer.issued.set_challenge(host, vec![certificate], key);
    shown.map_err(|error| IssuanceError::unreached(error.to_string()))
}
