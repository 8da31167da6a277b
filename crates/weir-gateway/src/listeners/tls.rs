//! The certificates of a Gateway: those that its listeners show, those that they ask clients for, and the one that servers are shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::BASE64;
use weir_config::{Authorities, CertificateFiles, ClientCertificates, ClientVerification, LoadedCertificate};

use crate::api::{FrontendValidation, GROUP, Gateway, GatewayListener, SecretObject, SecretReference};
use crate::policies::load_authorities;
use crate::refusal::Refusal;
use crate::store::{ObjectKey, ObjectStore};

use super::{GatewayListenerPlan, ListenerHolder};

/// The certificates that listeners had last, by Secret: one that is damaged or deleted closes no listener.
#[derive(Debug, Default)]
pub(crate) struct ListenerCertificates {
    last: BTreeMap<ObjectKey, Arc<LoadedCertificate>>,
    /// Those that the plans have which are being made.
    next: BTreeMap<ObjectKey, Arc<LoadedCertificate>>,
}

impl ListenerCertificates {
    /// Plans are made; what they do not refer to is forgotten.
    pub(super) fn turn(&mut self) {
        self.last = std::mem::take(&mut self.next);
    }
}

pub(crate) fn load_certificates(
    plan: &mut GatewayListenerPlan,
    owner: ListenerHolder<'_>,
    written: &GatewayListener,
    (store, kept): (&ObjectStore, &mut ListenerCertificates),
) {
    let tls = written.tls.as_deref();
    if tls.is_some_and(|tls| !tls.options.is_empty()) {
        plan.accepted = Err(Refusal::unsupported("tls.options: Weir has none"));
    }
    let references = tls.map_or(&[][..], |tls| &tls.certificate_refs);
    for reference in references {
        let field = "tls.certificateRefs";
        // A reference that is not permitted any more keeps nothing.
        let key = match secret_of(field, reference, owner, store) {
            Ok(key) => key,
            Err(refusal) => {
                plan.refuse(refusal);
                continue;
            }
        };
        let certificate = match (load_certificate(field, &key, store), kept.last.get(&key)) {
            (Ok(certificate), _) => certificate,
            (Err(refusal), Some(last)) => {
                let message = format!("{}; the certificate that it had last stays in use", refusal.message);
                plan.refuse(Refusal::new(refusal.reason, message));
                Arc::clone(last)
            }
            (Err(refusal), None) => {
                plan.refuse(refusal);
                continue;
            }
        };
        kept.next.insert(key, Arc::clone(&certificate));
        plan.certificates.push(certificate);
    }
    if references.is_empty() && plan.resolved.is_ok() {
        plan.resolved = Err(Refusal::new("InvalidCertificateRef", "tls.certificateRefs: there is none"));
    }
}

/// The certificate that a Gateway presents to servers, if it has one.
pub(crate) fn certificate_for_servers(
    gateway: &Gateway,
    store: &ObjectStore,
) -> Option<Result<Arc<LoadedCertificate>, Refusal>> {
    let backend = gateway.spec.tls.as_deref()?.backend.as_deref()?;
    let reference = backend.client_certificate_ref.as_deref()?;
    let (field, owner) = ("tls.backend.clientCertificateRef", ListenerHolder::gateway(gateway));
    let loaded =
        secret_of(field, reference, owner, store).and_then(|key| load_certificate(field, &key, store));
    Some(loaded.map_err(|refusal| match refusal.reason {
        "InvalidCertificateRef" => Refusal { reason: "InvalidClientCertificateRef", ..refusal },
        _ => refusal,
    }))
}

/// The Secret that a reference names, if it may.
fn secret_of(
    field: &str,
    reference: &SecretReference,
    owner: ListenerHolder<'_>,
    store: &ObjectStore,
) -> Result<ObjectKey, Refusal> {
    let ListenerHolder { kind: owner_kind, namespace, .. } = owner;
    let group = reference.group.as_deref().unwrap_or_default();
    let kind = reference.kind.as_deref().unwrap_or("Secret");
    let key = ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
    if !group.is_empty() || kind != "Secret" {
        let message = format!("{field}: a certificate is in a Secret, not in a {kind}");
        return Err(Refusal::new("InvalidCertificateRef", message));
    }
    if !store.is_granted((GROUP, owner_kind, namespace), ("", "Secret", &key)) {
        let message = format!("{field}: no ReferenceGrant in `{}` permits the Secret {key}", key.namespace);
        return Err(Refusal::new("RefNotPermitted", message));
    }
    Ok(key)
}

fn load_certificate(
    field: &str,
    key: &ObjectKey,
    store: &ObjectStore,
) -> Result<Arc<LoadedCertificate>, Refusal> {
    let refused = |why: &str| Refusal::new("InvalidCertificateRef", format!("{field}: Secret {key}: {why}"));
    let secret = store.secrets.get(key).ok_or_else(|| refused("it does not exist"))?;
    // All listeners are planned anew with a change of any Secret or ConfigMap.
    let read = secret.certificate.get_or_init(|| read_certificate(secret, key).map_err(Into::into));
    read.clone().map_err(|why| refused(&why))
}

fn read_certificate(secret: &SecretObject, key: &ObjectKey) -> Result<Arc<LoadedCertificate>, String> {
    if *secret.r#type != *"kubernetes.io/tls" {
        return Err("its type is not kubernetes.io/tls".to_owned());
    }
    let value = |name: &str| -> Result<Vec<u8>, String> {
        let text = secret.data.get(name).ok_or_else(|| format!("it has no `{name}`"))?;
        BASE64.decode(text.as_bytes()).map_err(|_| format!("`{name}` is not base64"))
    };
    let files = CertificateFiles::new(format!("Secret {key} tls.crt"), format!("Secret {key} tls.key"));
    files.load_texts(&value("tls.crt")?, &value("tls.key")?).map_err(|error| error.message)
}

/// Certificates of clients, which a Gateway asks for by port.
pub(crate) fn require_clients(plan: &mut GatewayListenerPlan, gateway: &Gateway, store: &ObjectStore) {
    let Some(frontend) = gateway.spec.tls.as_deref().and_then(|tls| tls.frontend.as_deref()) else { return };
    let of_port = frontend.per_port.iter().find(|one| u16::try_from(one.port) == Ok(plan.port));
    let wanted = of_port.map_or(&frontend.default, |one| &one.tls);
    let Some(validation) = wanted.validation.as_deref() else { return };
    match client_authorities(validation, gateway, store, &mut plan.resolved) {
        Ok(authorities) => {
            let verify = match lets_in_invalid(validation) {
                true => ClientVerification::Unverified,
                false => ClientVerification::Required,
            };
            plan.clients = Some(ClientCertificates::new(verify, authorities));
        }
        // Without authorities nothing is served: a listener that lets everyone in is not what was asked for.
        Err(refusal) => plan.accepted = Err(refusal),
    }
}

/// Whether clients are let in although their certificates are not valid.
fn lets_in_invalid(validation: &FrontendValidation) -> bool {
    validation.mode.as_deref() == Some("AllowInsecureFallback")
}

/// Whether that is so at some port of a Gateway.
pub(crate) fn has_insecure_fallback(gateway: &Gateway) -> bool {
    let frontend = gateway.spec.tls.as_deref().and_then(|tls| tls.frontend.as_deref());
    let ports = frontend.iter().flat_map(|frontend| frontend.per_port.iter().map(|one| &one.tls));
    let mut all = ports.chain(frontend.map(|frontend| &frontend.default));
    all.any(|one| one.validation.as_deref().is_some_and(lets_in_invalid))
}

fn client_authorities(
    validation: &FrontendValidation,
    gateway: &Gateway,
    store: &ObjectStore,
    resolved: &mut Result<(), Refusal>,
) -> Result<Arc<Authorities>, Refusal> {
    if !matches!(validation.mode.as_deref(), None | Some("AllowValidOnly" | "AllowInsecureFallback")) {
        return Err(Refusal::unsupported("tls.frontend: the mode is not supported"));
    }
    let namespace = &gateway.metadata.namespace;
    let mut certificates = Vec::new();
    for reference in &validation.ca_certificate_refs {
        let key = ObjectKey::new(reference.namespace.as_deref().unwrap_or(namespace), &reference.name);
        let loaded = if store.is_granted((GROUP, "Gateway", namespace), ("", "ConfigMap", &key)) {
            load_authorities(&reference.group, &reference.kind, &key, store).map_err(|refusal| {
                let reason =
                    if refusal.reason == "InvalidKind" { "InvalidCACertificateKind" } else { refusal.reason };
                Refusal { reason, ..refusal }
            })
        } else {
            let message =
                format!("tls.frontend: no ReferenceGrant in `{}` permits the ConfigMap {key}", key.namespace);
            Err(Refusal::new("RefNotPermitted", message))
        };
        match loaded {
            Ok(authorities) => certificates.extend(authorities.certificates.iter().cloned()),
            Err(refusal) if resolved.is_ok() => *resolved = Err(refusal),
            Err(_) => {}
        }
    }
    if certificates.is_empty() {
        return Err(Refusal::new("NoValidCACertificate", "tls.frontend: no CA certificate can be used"));
    }
    Ok(Arc::new(Authorities::new(None, certificates)))
}
