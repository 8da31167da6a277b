//! Which certificate a client is shown: by the name that it asks for and the signatures that it knows.
//!
//! The exact name goes before a wildcard, which stands for one label, and that before the default. Of several certificates for a
//! name the cheapest to sign with comes first: a handshake costs a fifth with ECDSA of what it costs with RSA.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use weir_config::Certificate;

/// The longest name of a host (RFC 1035 section 2.3.4).
const NAME_LEN_MAX: usize = 255;

/// The certificates of a listener.
#[derive(Debug)]
pub(crate) struct Certificates {
    exact: HashMap<Box<str>, Candidates>,
    /// By the name without its first label, the dot included.
    wildcard: HashMap<Box<str>, Candidates>,
    default: Candidates,
}

/// Certificates for one name, in the order of preference.
type Candidates = Vec<Arc<CertifiedKey>>;

impl Certificates {
    /// The first of `certificates` is the default, with those for the same names beside it.
    ///
    /// # Errors
    /// When there is none, or rustls does not take a key.
    pub(crate) fn new(
        certificates: &[Arc<Certificate>],
        provider: &CryptoProvider,
    ) -> Result<Self, rustls::Error> {
        let mut made = Self { exact: HashMap::new(), wildcard: HashMap::new(), default: Vec::new() };
        let first = certificates
            .first()
            .ok_or_else(|| rustls::Error::General("there is no certificate".to_owned()))?;
        for certificate in certificates {
            let key = provider.key_provider.load_private_key(certificate.key.clone_key())?;
            let certified = Arc::new(CertifiedKey::new(certificate.chain.clone(), key));
            for name in &certificate.names {
                let by_name = match name.strip_prefix('*') {
                    Some(suffix) => made.wildcard.entry(suffix.into()),
                    None => made.exact.entry(name.clone()),
                };
                by_name.or_default().push(Arc::clone(&certified));
            }
            if certificate.names == first.names {
                made.default.push(certified);
            }
        }
        let by_name = made.exact.values_mut().chain(made.wildcard.values_mut());
        for candidates in by_name.chain([&mut made.default]) {
            // Stable: of two that cost the same, the first in the config.
            candidates.sort_by_key(|certified| cost(certified));
        }
        Ok(made)
    }

    fn candidates(&self, name: Option<&str>) -> &Candidates {
        let mut lower = [0; NAME_LEN_MAX];
        let Some(lower) = name.and_then(|name| {
            let lower = lower.get_mut(..name.len())?;
            lower.copy_from_slice(name.as_bytes());
            lower.make_ascii_lowercase();
            std::str::from_utf8(lower).ok()
        }) else {
            return &self.default;
        };
        let by_wildcard = || self.wildcard.get(&lower[lower.find('.')?..]);
        self.exact.get(lower).or_else(by_wildcard).unwrap_or(&self.default)
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(schemes).is_some();
        self.candidates(name).iter().find(fits).map(Arc::clone)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        self.choose(client_hello.server_name(), client_hello.signature_schemes())
    }
}

/// What a signature costs, as a rank.
fn cost(certified: &CertifiedKey) -> u8 {
    match certified.key.algorithm() {
        rustls::SignatureAlgorithm::ED25519 | rustls::SignatureAlgorithm::ECDSA => 0,
        _ => 1,
    }
}
