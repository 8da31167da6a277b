//! BackendTLSPolicy: how the servers of a service prove who they are.

use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::ServerName;
use weir_config::{Authorities, CertificateName, UpstreamTls};

use super::options::settings::GatewaySettings;
use crate::api::{BackendTlsPolicy, ConfigMap, ObjectMeta, SubjectAltName};
use crate::refusal::{Refusal, excerpt};
use crate::store::{ObjectKey, ObjectStore, in_namespace};

/// Older before younger, then by name: the order of precedence between objects of the API.
pub(crate) fn age(meta: &ObjectMeta) -> (&str, &str, &str) {
    // An object without a time is not stored yet: younger than all others.
    (meta.creation_timestamp.as_deref().unwrap_or("~"), &meta.namespace, &meta.name)
}

/// The policy for a port of a service: one that names the port before one for all of its ports, then the oldest.
pub(crate) fn policy_for<'a>(
    store: &'a ObjectStore,
    service: &ObjectKey,
    port_name: &str,
) -> Option<&'a Arc<BackendTlsPolicy>> {
    let candidates =
        in_namespace(&store.backend_tls_policies, &service.namespace).filter_map(|(_, policy)| {
            let rank = policy.spec.target_refs.iter().filter_map(|target| {
                let is_service =
                    target.group.is_empty() && *target.kind == *"Service" && target.name == service.name;
                match target.section_name.as_deref() {
                    _ if !is_service => None,
                    None => Some(false),
                    Some(section) => (!port_name.is_empty() && section == port_name).then_some(true),
                }
            });
            Some((rank.max()?, policy))
        });
    let best = candidates.min_by(|(one, policy), (other, rival)| {
        other.cmp(one).then_with(|| age(&policy.metadata).cmp(&age(&rival.metadata)))
    });
    best.map(|(_, policy)| policy)
}

/// What a policy comes to: the TLS that it asks for, and whether its references lead somewhere.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PolicyVerdict {
    pub(crate) tls: Result<UpstreamTls, Refusal>,
    pub(crate) resolved: Result<(), Refusal>,
}

/// What a policy asks for, as far as it can be applied.
pub(crate) fn read(
    policy: &BackendTlsPolicy,
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> PolicyVerdict {
    let validation = &policy.spec.validation;
    let (authorities, resolved) = authorities(policy, store, settings);
    let is_readable = Refusal::unreadable(&policy.metadata, "Invalid");
    let tls = is_readable.and(authorities).and_then(|authorities| {
        if !policy.spec.options.is_empty() {
            return Err(Refusal::new("Invalid", "options: Weir has none for this policy"));
        }
        let names = subject_alt_names(policy)?;
        let name = ServerName::try_from(validation.hostname.to_string()).map_err(|_| {
            Refusal::new(
                "Invalid",
                format!("validation.hostname: `{}` is not a host name", validation.hostname),
            )
        })?;
        let mut tls = UpstreamTls::verifying(authorities, name);
        tls.subject_alt_names = names;
        Ok(tls)
    });
    PolicyVerdict { tls, resolved }
}

/// The names of which a certificate must have one, if it is not that of the host name.
fn subject_alt_names(policy: &BackendTlsPolicy) -> Result<Vec<CertificateName>, Refusal> {
    let name = |written: &SubjectAltName| {
        let bad = |text: &str| {
            let message = format!("validation.subjectAltNames: `{}` cannot be verified", excerpt(text));
            Refusal::new("Invalid", message)
        };
        match (&*written.r#type, written.hostname.as_deref(), written.uri.as_deref()) {
            ("Hostname", Some(text), _) => match ServerName::try_from(text.to_owned()) {
                Ok(name) => Ok(CertificateName::Host(name)),
                Err(_) => Err(bad(text)),
            },
            ("URI", _, Some(text)) if !text.is_empty() => Ok(CertificateName::Uri(text.into())),
            (kind, ..) => Err(bad(kind)),
        }
    };
    policy.spec.validation.subject_alt_names.iter().map(name).collect()
}

fn authorities(
    policy: &BackendTlsPolicy,
    store: &ObjectStore,
    settings: &GatewaySettings,
) -> (Result<Arc<Authorities>, Refusal>, Result<(), Refusal>) {
    let validation = &policy.spec.validation;
    if let Some(known) = validation.well_known_ca_certificates.as_deref() {
        let authorities = match (known, &settings.system_authorities) {
            ("System", Some(authorities)) => Ok(Arc::clone(authorities)),
            ("System", None) => {
                Err(Refusal::new("Invalid", "wellKnownCACertificates: this system has no authorities"))
            }
            (other, _) => {
                Err(Refusal::new("Invalid", format!("wellKnownCACertificates: `{other}` is not known")))
            }
        };
        return (authorities, Ok(()));
    }
    let (mut found, mut first_error) = (Vec::new(), Ok(()));
    for reference in &validation.ca_certificate_refs {
        let key = ObjectKey::new(&policy.metadata.namespace, &reference.name);
        match load_authorities(&reference.group, &reference.kind, &key, store) {
            Ok(authorities) => found.push(authorities),
            Err(error) => first_error = first_error.and(Err(error)),
        }
    }
    let authorities = together(&found).map_err(|message| match &first_error {
        Err(error) if found.is_empty() => error.message.clone(),
        _ => message.to_owned(),
    });
    (authorities.map_err(|message| Refusal::new("NoValidCACertificate", message)), first_error)
}

/// What several ConfigMaps may have together, in bytes: it is put together for each route and each judgement, as that of one is not.
const TOGETHER_BYTES_MAX: usize = 256 << 10;

/// The authorities of one ConfigMap, or of several.
fn together(found: &[Arc<Authorities>]) -> Result<Arc<Authorities>, &'static str> {
    match found {
        [] => Err("validation: there is no CA certificate"),
        [only] => Ok(Arc::clone(only)),
        several => {
            let all = || several.iter().flat_map(|authorities| &authorities.certificates);
            if all().map(|certificate| certificate.len()).sum::<usize>() > TOGETHER_BYTES_MAX {
                return Err(
                    "validation.caCertificateRefs: the certificates of several ConfigMaps have more than 256 KiB; put them into one",
                );
            }
            Ok(Arc::new(Authorities::new(several[0].file.clone(), all().cloned().collect())))
        }
    }
}

/// The authorities in a ConfigMap.
pub(crate) fn load_authorities(
    group: &str,
    kind: &str,
    key: &ObjectKey,
    store: &ObjectStore,
) -> Result<Arc<Authorities>, Refusal> {
    if !group.is_empty() || kind != "ConfigMap" {
        return Err(Refusal::new(
            "InvalidKind",
            format!("a CA certificate is in a ConfigMap, not in a {kind}"),
        ));
    }
    let refused = |why: &str| Refusal::new("InvalidCACertificateRef", format!("ConfigMap {key}: {why}"));
    let map = store.config_maps.get(key).ok_or_else(|| refused("it does not exist"))?;
    // Many policies may refer to it, each of which is judged with every change.
    let read = map.authorities.get_or_init(|| read_authorities(map, key).map_err(Into::into));
    read.clone().map_err(|why| refused(&why))
}

fn read_authorities(map: &ConfigMap, key: &ObjectKey) -> Result<Arc<Authorities>, String> {
    let text = map.data.get("ca.crt").ok_or("it has no key `ca.crt`")?;
    let authorities = Authorities::of_text(Path::new(&format!("ConfigMap {key}")), text.as_bytes());
    let authorities = authorities.map_err(|error| error.message)?;
    match authorities.unusable() {
        Some(error) => Err(error.message),
        None => Ok(authorities),
    }
}

/// Whether a policy counts for some port of a service: why not.
pub(crate) fn check_effect(policy: &Arc<BackendTlsPolicy>, store: &ObjectStore) -> Result<(), Refusal> {
    let mut has_target = false;
    for target in &policy.spec.target_refs {
        let key = ObjectKey::new(&policy.metadata.namespace, &target.name);
        let Some(service) = store.services.get(&key) else { continue };
        let names = service.spec.ports.iter().map(|port| port.name.as_deref().unwrap_or_default());
        let of_section = |name: &&str| target.section_name.as_deref().is_none_or(|section| section == *name);
        for name in names.filter(of_section) {
            has_target = true;
            if policy_for(store, &key, name).is_some_and(|chosen| Arc::ptr_eq(chosen, policy)) {
                return Ok(());
            }
        }
    }
    Err(match has_target {
        true => Refusal::new("Conflicted", "an older policy is for the same service"),
        false => {
            Refusal::new("TargetNotFound", "targetRefs: there is no such Service, or no port with this name")
        }
    })
}
