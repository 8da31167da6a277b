//! Whether an Ingress asks for TLS of a host, and with which of its Secrets.
//!
//! What an Ingress asks for does not depend on what its Secrets hold at the moment: one that is damaged or gone must not have the host served
//! without TLS, and the certificate that a host had last stays until the Secret has another for it.

use std::collections::BTreeMap;
use std::sync::Arc;

use weir_config::LoadedCertificate;

use super::compile::{CompiledIngress, IngressCertificate, is_covered};
use crate::api::SharedText;
use crate::names::hosts::covers;
use crate::store::ObjectKey;

/// Which certificate a host has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HostCertificate {
    /// None that its Ingresses ask for.
    Unasked,
    /// The default certificate, which is there.
    Default,
    /// One of its own, of now or the one that it had last.
    Own,
}

/// Whether requests without TLS may be served.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TlsDemand {
    /// They may.
    #[default]
    Unasked,
    /// The names in a certificate would say, which cannot be read and never could.
    Unknown,
    /// They may not.
    Asked,
}

/// The certificates that hosts had last, by Secret and host.
#[derive(Debug, Default)]
pub(super) struct KeptCertificates(BTreeMap<ObjectKey, BTreeMap<SharedText, Arc<LoadedCertificate>>>);

impl KeptCertificates {
    pub(super) fn find(&self, secret: &ObjectKey, host: &str) -> Option<&Arc<LoadedCertificate>> {
        self.0.get(secret)?.get(host)
    }

    pub(super) fn keep(&mut self, secret: &ObjectKey, host: &str, certificate: &Arc<LoadedCertificate>) {
        let of_secret = self.0.entry(secret.clone()).or_default();
        of_secret.insert(host.into(), Arc::clone(certificate));
    }
}

impl IngressCertificate {
    /// The certificate, if it can be used for a host.
    pub(super) fn usable_for(&self, host: &str) -> Option<&Arc<LoadedCertificate>> {
        let is_for =
            |loaded: &&Arc<LoadedCertificate>| loaded.names.iter().any(|name| is_covered(name, host));
        self.certificate.as_ref().ok().filter(is_for)
    }

    /// The one for that host which was in use last.
    pub(super) fn kept_for<'k>(
        &self,
        host: &str,
        kept: &'k KeptCertificates,
    ) -> Option<&'k Arc<LoadedCertificate>> {
        kept.find(self.secret.as_ref()?, host)
    }
}

impl CompiledIngress {
    /// The entry of `tls` for a host: the one that names it, else one whose certificate is for it, or was when it could be read last.
    pub(super) fn certificate_for(&self, host: &str, kept: &KeptCertificates) -> Option<&IngressCertificate> {
        let names = |one: &&IngressCertificate| one.hosts.iter().any(|name| **name == *host);
        let is_for = |one: &&IngressCertificate| one.hosts.is_empty() || one.usable_for(host).is_some();
        let names_more = |one: &&IngressCertificate| one.hosts.iter().any(|name| covers(name, host));
        let was_for =
            |one: &&IngressCertificate| one.certificate.is_err() && one.kept_for(host, kept).is_some();
        let all = || self.certificates.iter();
        let found = all().find(names).or_else(|| all().find(is_for));
        found.or_else(|| all().find(names_more)).or_else(|| all().find(was_for))
    }

    /// Whether requests for a host may be served without TLS.
    pub(super) fn tls_demand(&self, host: &str, kept: &KeptCertificates) -> TlsDemand {
        let is_named = |name: &SharedText| covers(name, host) || self.serves_by(host, name);
        let demand = |one: &IngressCertificate| match (&one.certificate, &one.secret) {
            _ if one.hosts.is_empty() || one.hosts.iter().any(is_named) => TlsDemand::Asked,
            (Ok(_), _) if one.usable_for(host).is_some() => TlsDemand::Asked,
            (Err(_), Some(secret)) => match kept.0.get(secret) {
                Some(known) if known.contains_key(host) => TlsDemand::Asked,
                Some(_) => TlsDemand::Unasked,
                None => TlsDemand::Unknown,
            },
            _ => TlsDemand::Unasked,
        };
        self.certificates.iter().map(demand).max().unwrap_or_default()
    }

    /// Whether the rules of a host with many names are for one of its own in `tls`, which has no rule itself.
    fn serves_by(&self, host: &str, name: &SharedText) -> bool {
        let is_general = host.is_empty() || host.starts_with('*');
        is_general && covers(host, name) && !self.paths.iter().any(|path| path.host == *name)
    }

    /// The hosts of `tls` that have no rule, but are among those of one.
    pub(super) fn hosts_of_tls(&self) -> impl Iterator<Item = &str> + use<'_> {
        let named = self.certificates.iter().flat_map(|one| &one.hosts);
        let has_rule = |name: &&SharedText| {
            let rules = self.paths.iter().map(|path| &*path.host).chain(self.default_host());
            rules.into_iter().any(|host| self.serves_by(host, name))
        };
        named.filter(has_rule).map(|name| &**name)
    }

    /// Every host, if the requests of all are for the default backend.
    pub(super) fn default_host(&self) -> Option<&'static str> {
        (self.default_backend.is_some() && self.paths.is_empty()).then_some("")
    }
}
