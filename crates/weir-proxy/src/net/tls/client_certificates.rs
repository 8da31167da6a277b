//! Certificates of clients: how they are verified, and what is kept of one with its session.
//!
//! A session that is resumed has its certificate from the handshake in which it was verified. What it was verified by is part of the TLS config of the listener,
//! and so are the keys of the tickets: see `server_config`. Must not decide whether a client may do something.

use std::path::Path;
use std::sync::Arc;

use data_encoding::BASE64;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use weir_config::{
    Authorities, ClientCertificateHeaders, ClientCertificates, ClientVerification, Identity, RevocationLists,
};

use super::self_signed;

/// The files that certificates of clients are verified by.
#[derive(Debug, Clone)]
pub struct ClientAuthorities {
    /// The authorities that clients are verified by.
    pub authorities: Arc<Authorities>,
    /// The revoked certificates of clients.
    pub revocations: Option<Arc<RevocationLists>>,
}

impl ClientAuthorities {
    /// Those that the config was checked with.
    ///
    /// # Errors
    /// When it was read without its files.
    pub fn new(config: &ClientCertificates) -> Result<Self, rustls::Error> {
        let none = || rustls::Error::General("there is no authority for certificates of clients".to_owned());
        let authorities = Arc::clone(config.authorities.as_ref().ok_or_else(none)?);
        Ok(Self { authorities, revocations: config.revocations.clone() })
    }

    /// What verifies certificates by these files.
    ///
    /// # Errors
    /// When rustls does not take one of them; the file is named.
    pub(crate) fn verifier(
        &self,
        verify: ClientVerification,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<ClientVerifier>, rustls::Error> {
        let refused = |file: Option<&Path>, error: &dyn std::fmt::Display| {
            rustls::Error::General(format!("{}: {error}", file.unwrap_or(Path::new("")).display()))
        };
        let mut roots = RootCertStore::empty();
        for certificate in &self.authorities.certificates {
            let added = roots.add(certificate.clone());
            added.map_err(|error| refused(self.authorities.file.as_deref(), &error))?;
        }
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        if verify != ClientVerification::Required {
            builder = builder.allow_unauthenticated();
        }
        if let Some(revocations) = &self.revocations {
            // An outdated list says nothing about what was revoked since.
            builder = builder.with_crls(revocations.lists.iter().cloned()).enforce_revocation_expiration();
        }
        let file = self.revocations.as_ref().map(|revocations| &*revocations.file);
        let by_authority = builder.build();
        let by_authority =
            by_authority.map_err(|error| refused(file.or(self.authorities.file.as_deref()), &error))?;
        let lets_in_invalid = verify == ClientVerification::Unverified;
        Ok(Arc::new(ClientVerifier {
            by_authority,
            authorities: Arc::clone(&self.authorities),
            lets_in_invalid,
        }))
    }
}

/// Trusts what an authority has signed, and those certificates that are among the authorities themselves.
#[derive(Debug)]
pub(crate) struct ClientVerifier {
    by_authority: Arc<dyn ClientCertVerifier>,
    authorities: Arc<Authorities>,
    /// Whether the handshake goes on with a certificate that is not valid; what the client proves then is only that it has the key.
    lets_in_invalid: bool,
}

impl ClientVerifier {
    /// Whether a certificate that a handshake went on with, followed by its intermediates, is valid.
    pub(crate) fn is_valid(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> bool {
        match chain {
            _ if !self.lets_in_invalid => true,
            [end_entity, intermediates @ ..] => self.verify(end_entity, intermediates, now).is_ok(),
            [] => false,
        }
    }

    fn verify(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.by_authority.verify_client_cert(end_entity, intermediates, now).or_else(|error| {
            self_signed::verify(&self.authorities, end_entity, now, error)
                .map(|()| ClientCertVerified::assertion())
        })
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        if self.lets_in_invalid {
            return Ok(ClientCertVerified::assertion());
        }
        self.verify(end_entity, intermediates, now)
    }

    fn offer_client_auth(&self) -> bool {
        self.by_authority.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.by_authority.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.by_authority.root_hint_subjects()
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.by_authority.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.by_authority.supported_verify_schemes()
    }
}

/// Names and values of the fields that tell servers about the certificate of a client.
pub(crate) type CertificateFields = Box<[(Box<str>, Box<str>)]>;

/// The certificate of a client.
#[derive(Debug, Clone)]
pub(crate) struct ClientCertificate {
    /// Whose it is, as an authority says; `None`: it is not valid, and the client was let in without.
    pub(crate) identity: Option<Identity>,
    /// The fields for servers about it.
    pub(crate) fields: CertificateFields,
}

impl ClientCertificate {
    /// One that is not valid.
    pub(crate) fn invalid(headers: &ClientCertificateHeaders) -> Box<Self> {
        Box::new(Self {
            identity: None,
            fields: headers.verify.iter().map(|name| field(name, "FAILED")).collect(),
        })
    }

    /// Reads a certificate that was verified; `None` when that turns out to be impossible.
    pub(crate) fn read(der: &CertificateDer<'_>, headers: &ClientCertificateHeaders) -> Option<Box<Self>> {
        let identity = Identity::read(der)?;
        let mut fields = Vec::new();
        let values = [
            (&headers.verify, "SUCCESS"),
            (&headers.subject, &identity.subject),
            (&headers.issuer, &identity.issuer),
            (&headers.serial, &identity.serial),
            (&headers.fingerprint, &identity.fingerprint),
        ];
        for (name, value) in values {
            if let Some(name) = name {
                fields.push(field(name, value));
            }
        }
        if let Some(name) = &headers.certificate {
            // RFC 9440 section 2.1: a byte sequence of structured fields.
            fields.push(field(name, &format!(":{}:", BASE64.encode(der))));
        }
        Some(Box::new(Self { identity: Some(identity), fields: fields.into() }))
    }
}

/// The fields for servers about a client without a certificate.
pub(crate) fn fields_without(headers: &ClientCertificateHeaders) -> CertificateFields {
    headers.verify.iter().map(|name| field(name, "NONE")).collect()
}

fn field(name: &str, value: &str) -> (Box<str>, Box<str>) {
    (name.into(), value.into())
}
