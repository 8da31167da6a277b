//! Selects the certificate for a client: by the requested name (SNI) and the signature schemes that it offers.
//!
//! The exact name goes before a wildcard, which stands for one label, that before the longest domain, which listeners of
//! Kubernetes have, and that before the default. Of several
//! certificates for a name the cheapest to sign with comes first: a handshake costs 206 us of CPU with ECDSA P-256,
//! 423 us with RSA-2048 (lab/runs/2026-11-24-current-peers). When a file changes, all are replaced at once;
//! handshakes under way go on with what they began with.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use rustls::SignatureScheme;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use weir_config::{
    CertificateDirectory, CertificateSource, ListenerCertificate, LoadedCertificate, UnknownNames,
};
use weir_sort::CompactSort as _;

use super::issued::{CHALLENGE_PROTOCOL, ListenerIssued};
use crate::net::clock;

/// The longest name of a host (RFC 1035 section 2.3.4).
const NAME_LEN_MAX: usize = 255;

/// The certificates of a listener as they are now.
#[derive(Debug)]
pub struct Certificates {
    now: ArcSwap<ByName>,
    /// Those that Weir obtains by itself.
    issued: Option<ListenerIssued>,
    unknown_names: UnknownNames,
    provider: Arc<CryptoProvider>,
    /// Changed files that were taken over, and such that could not be used.
    reloads: [AtomicU64; 2],
}

impl Certificates {
    /// The first certificate of `sources` is the default, with those for the same names beside it.
    ///
    /// # Errors
    /// When there is none and none will be issued or made, or rustls does not take a key.
    pub(crate) fn new(
        sources: Vec<CertificateSource>,
        issued: Option<ListenerIssued>,
        unknown_names: UnknownNames,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, rustls::Error> {
        let now = ByName::new(sources, &provider)?;
        let is_made = |source: &CertificateSource| matches!(source, CertificateSource::Internal(_));
        if now.is_empty() && issued.is_none() && !now.sources.iter().any(is_made) {
            return Err(rustls::Error::General("there is no certificate".to_owned()));
        }
        let now = ArcSwap::from_pointee(now);
        Ok(Self { now, issued, unknown_names, provider, reloads: Default::default() })
    }

    /// Those of the config that are in use, in its order, the default first.
    pub fn in_use(&self) -> Vec<ListenerCertificate> {
        self.now.load().certificates().cloned().collect()
    }

    /// The same by where they are, with those in folders that cannot be used.
    pub fn sources(&self) -> Vec<CertificateSource> {
        self.now.load().sources.clone()
    }

    /// Those that Weir obtains by itself, if it does.
    pub fn issued(&self) -> Option<&ListenerIssued> {
        self.issued.as_ref()
    }

    /// Those in use that Weir has obtained by itself, in the order of hosts.
    pub fn issued_in_use(&self) -> Vec<Arc<LoadedCertificate>> {
        self.issued.as_ref().map_or_else(Vec::new, ListenerIssued::in_use)
    }

    /// Whether a certificate of the config is for this name.
    pub(crate) fn is_configured_for(&self, name: &str) -> bool {
        let now = self.now.load();
        !std::ptr::eq(now.candidates(Some(name)), &now.default)
    }

    /// Whether there is a certificate for clients with a name that none is for.
    pub(crate) fn has_default(&self) -> bool {
        if self.unknown_names == UnknownNames::Refused {
            return false;
        }
        let configured = !self.now.load().default.is_empty();
        configured || self.issued.as_ref().is_some_and(|issued| issued.default().is_some())
    }

    /// Whether a client that asked for `asked` in its handshake has been shown a certificate that is not for `host`, although there is one.
    pub(crate) fn are_others(&self, asked: &str, host: &str) -> bool {
        let now = self.now.load();
        if now.is_single && self.issued.is_none() {
            return false;
        }
        let (shown, own) = (now.candidates(Some(asked)), now.candidates(Some(host)));
        let is_default = std::ptr::eq(own, &now.default);
        if let Some(issued) = self.issued.as_ref().filter(|_| is_default) {
            let (shown, own) = (now.issued_for(issued, asked), now.issued_for(issued, host));
            return own.is_some_and(|own| shown.is_none_or(|shown| !Arc::ptr_eq(&own, &shown)));
        }
        !is_default && own.iter().all(|own| shown.iter().all(|shown| !Arc::ptr_eq(own, shown)))
    }

    /// Whether no handshake is made with this name, since no certificate of the config is for it.
    fn refuses(&self, now: &ByName, name: Option<&str>) -> bool {
        self.unknown_names == UnknownNames::Refused && std::ptr::eq(now.candidates(name), &now.default)
    }

    /// Uses other certificates from now on, with the OCSP responses that are valid now.
    ///
    /// # Errors
    /// When rustls does not take a key; then nothing changes.
    pub fn replace(&self, sources: Vec<CertificateSource>) -> Result<(), rustls::Error> {
        self.now.store(Arc::new(ByName::new(sources, &self.provider)?));
        Ok(())
    }

    /// Counts changed files of a certificate.
    pub fn count_reload(&self, is_loaded: bool) {
        self.reloads[usize::from(!is_loaded)].fetch_add(1, Ordering::Relaxed);
    }

    /// How often changed files were taken over, and how often they could not be.
    pub fn reloads(&self) -> [u64; 2] {
        [0, 1].map(|index: usize| self.reloads[index].load(Ordering::Relaxed))
    }
}

/// Keeps the content of before of files in folders that cannot be used now, as long as they are there.
pub(super) fn keep_old(sources: &mut [CertificateSource], before: &[CertificateSource]) {
    for source in sources {
        let CertificateSource::Directory(directory) = source else { continue };
        let known = before.iter().find_map(|source| match source {
            CertificateSource::Directory(known) => Some(known).filter(|known| known.path == directory.path),
            CertificateSource::Files(_) | CertificateSource::Internal(_) => None,
        });
        if let Some(known) = known {
            keep_old_of(directory, known);
        }
    }
}

fn keep_old_of(directory: &mut CertificateDirectory, before: &CertificateDirectory) {
    fn file(shown: &ListenerCertificate) -> &std::path::Path {
        &shown.certificate.files.certificate
    }
    for unusable in &directory.unusable {
        let is_there = directory.certificates.iter().any(|shown| file(shown) == unusable.file);
        if let Some(old) = before.certificates.iter().find(|old| !is_there && file(old) == unusable.file) {
            directory.certificates.push(old.clone());
        }
    }
    directory.certificates.sort_compact_by(|one, other| file(one).cmp(file(other)));
}

thread_local! {
    /// The name in the last ClientHello that this thread has read. The connections that take it to their records have no other way to it.
    static ASKED_NAME: Cell<Option<Box<str>>> = const { Cell::new(None) };
}

/// Takes the SNI of the handshake that was just advanced, if it has read one.
pub(super) fn take_asked_name() -> Option<Box<str>> {
    ASKED_NAME.take()
}

/// Certificates by the names that they are for.
#[derive(Debug)]
struct ByName {
    sources: Vec<CertificateSource>,
    exact: HashMap<Box<str>, Candidates>,
    /// By the name without its first label, the dot included.
    wildcard: HashMap<Box<str>, Candidates>,
    /// By a domain for all hosts below it, the dot before it included.
    domain: HashMap<Box<str>, Candidates>,
    default: Candidates,
    /// Whether there is no more than one.
    is_single: bool,
}

/// Certificates for one name, in the order of preference.
type Candidates = Vec<Arc<CertifiedKey>>;

impl ByName {
    fn new(sources: Vec<CertificateSource>, provider: &CryptoProvider) -> Result<Self, rustls::Error> {
        let mut made = Self {
            sources: Vec::new(),
            exact: HashMap::new(),
            wildcard: HashMap::new(),
            domain: HashMap::new(),
            default: Vec::new(),
            is_single: false,
        };
        let certificates = || sources.iter().flat_map(CertificateSource::certificates);
        let default_names = certificates().next().map(|first| first.certificate.names.clone());
        let now = clock::date();
        for ListenerCertificate { certificate, ocsp, .. } in certificates() {
            let key = provider.key_provider.load_private_key(certificate.key.clone_key())?;
            let mut certified = CertifiedKey::new(certificate.chain.clone(), key);
            let fresh = ocsp.as_ref().filter(|ocsp| ocsp.warning(certificate, now).is_none());
            certified.ocsp = fresh.map(|ocsp| ocsp.der.clone());
            let certified = Arc::new(certified);
            for name in &certificate.names {
                let by_name = match name.strip_prefix('*') {
                    Some(suffix) => made.wildcard.entry(suffix.into()),
                    None if name.starts_with('.') => made.domain.entry(name.clone()),
                    None => made.exact.entry(name.clone()),
                };
                by_name.or_default().push(Arc::clone(&certified));
            }
            if default_names.as_ref() == Some(&certificate.names) {
                made.default.push(certified);
            }
        }
        let by_name =
            made.exact.values_mut().chain(made.wildcard.values_mut()).chain(made.domain.values_mut());
        for candidates in by_name.chain([&mut made.default]) {
            // Stable: of two that cost the same, the first in the config.
            candidates.sort_by_key(|certified| cost(certified));
        }
        made.is_single = certificates().nth(1).is_none();
        made.sources = sources;
        Ok(made)
    }

    fn certificates(&self) -> impl Iterator<Item = &ListenerCertificate> {
        self.sources.iter().flat_map(CertificateSource::certificates)
    }

    fn is_empty(&self) -> bool {
        self.certificates().next().is_none()
    }

    /// The certificate for a name that Weir has obtained, where the config has none for exactly that name.
    fn issued_for(&self, issued: &ListenerIssued, name: &str) -> Option<Arc<CertifiedKey>> {
        let name = name.to_ascii_lowercase();
        if self.exact.contains_key(&*name) {
            return None;
        }
        issued.exact(&name).or_else(|| {
            let suffix = &name[name.find('.')?..];
            (!self.wildcard.contains_key(suffix)).then(|| issued.wildcard(&name))?
        })
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
        let by_domain = || {
            let mut dots = lower.match_indices('.').filter(|_| !self.domain.is_empty());
            dots.find_map(|(dot, _)| self.domain.get(&lower[dot..]))
        };
        self.exact.get(lower).or_else(by_wildcard).or_else(by_domain).unwrap_or(&self.default)
    }

    fn choose(&self, name: Option<&str>, schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let fits = |certified: &&Arc<CertifiedKey>| certified.key.choose_scheme(schemes).is_some();
        let candidates = self.candidates(name);
        // When none fits, rustls detects that and sends the proper alert.
        candidates.iter().find(fits).or(candidates.first()).map(Arc::clone)
    }
}

impl ResolvesServerCert for Certificates {
    fn resolve(&self, client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        ASKED_NAME.set(client_hello.server_name().map(|name| name.to_ascii_lowercase().into()));
        if let Some(issued) = &self.issued {
            let name = client_hello.server_name();
            if is_challenge(&client_hello) {
                return issued.issued.challenge(&name?.to_ascii_lowercase());
            }
            let now = self.now.load();
            let own = name.and_then(|name| now.issued_for(issued, name));
            if own.is_some() || self.refuses(&now, name) {
                return own;
            }
            let configured = now.choose(name, client_hello.signature_schemes());
            return configured.or_else(|| issued.default());
        }
        let now = self.now.load();
        let name = client_hello.server_name();
        if self.refuses(&now, name) { None } else { now.choose(name, client_hello.signature_schemes()) }
    }
}

/// Whether an authority proves a host (RFC 8737 section 3): it offers that protocol and no other.
fn is_challenge(client_hello: &ClientHello<'_>) -> bool {
    let mut offered = client_hello.alpn().into_iter().flatten();
    offered.next() == Some(CHALLENGE_PROTOCOL) && offered.next().is_none()
}

/// What a signature costs, as a rank.
fn cost(certified: &CertifiedKey) -> u8 {
    match certified.key.algorithm() {
        rustls::SignatureAlgorithm::ED25519 | rustls::SignatureAlgorithm::ECDSA => 0,
        _ => 1,
    }
}
