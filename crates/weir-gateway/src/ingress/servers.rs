//! From a Service that an Ingress names to an upstream.

use std::path::PathBuf;
use std::sync::Arc;

use data_encoding::BASE64;
use rustls_pki_types::ServerName;
use weir_config::{Authorities, CertificateFiles, LoadedCertificate, ServerProtocol, UpstreamTls};

use super::annotations::{BackendProtocol, IngressDraft};
use crate::api::{BackendReference, IngressPort, ServicePort};
use crate::backends::{Backend, BackendScope, Payload};
use crate::options::settings::GatewaySettings;
use crate::store::{ObjectKey, ObjectStore};

/// Where the servers of an Ingress come from.
pub(super) struct IngressScope<'a> {
    pub(super) store: &'a ObjectStore,
    pub(super) settings: &'a GatewaySettings,
    /// The Ingress.
    pub(super) key: &'a ObjectKey,
}

impl IngressScope<'_> {
    /// The upstream of a port of a Service of the same namespace, as the annotations want it.
    pub(super) fn resolve(
        &self,
        name: &str,
        port: &IngressPort,
        draft: &IngressDraft,
        tls: Option<&UpstreamTls>,
    ) -> Result<Arc<Backend>, String> {
        let service = ObjectKey::new(&self.key.namespace, name);
        let port = self.port(&service, port)?;
        let payload = match draft.servers.protocol {
            BackendProtocol::Grpc | BackendProtocol::Grpcs => Payload::Grpc,
            _ => Payload::Http,
        };
        let own_name =
            format!("{}.{}.{}-ingress-{}", service.namespace, service.name, port.port, self.key.name);
        let protocol = match draft.servers.protocol {
            BackendProtocol::OfService => {
                let backend = self.of_service(&service, port.port, payload)?;
                return Ok(match draft.servers.is_changed {
                    false => backend,
                    true => Arc::new(backend.with_settings(&own_name, draft.upstream.clone())),
                });
            }
            BackendProtocol::Http | BackendProtocol::Https => ServerProtocol::Http1,
            BackendProtocol::Grpc => ServerProtocol::H2c,
            BackendProtocol::Grpcs => ServerProtocol::H2,
        };
        let mut settings = draft.upstream.clone();
        settings.protocol = protocol;
        let port_name = port.name.as_deref().unwrap_or_default();
        Ok(Arc::new(Backend::of_port(&own_name, (&service, port_name), settings, tls.cloned())))
    }

    /// The upstream of a port of a Service, as routes of the Gateway API have it.
    pub(super) fn of_service(
        &self,
        service: &ObjectKey,
        port: i32,
        payload: Payload,
    ) -> Result<Arc<Backend>, String> {
        let scope = BackendScope {
            store: self.store,
            settings: self.settings,
            kind: "Ingress",
            namespace: &service.namespace,
            payload,
        };
        let reference =
            BackendReference { name: service.name.clone(), port: Some(port), ..BackendReference::default() };
        let resolved = scope.resolve(&reference);
        resolved.map_err(|refusal| refusal.message.trim_start_matches("backendRefs: ").to_owned())
    }

    /// The port of a Service, which has to have servers.
    fn port(&self, key: &ObjectKey, wanted: &IngressPort) -> Result<&ServicePort, String> {
        let service = self.store.services.get(key);
        let service = service.ok_or_else(|| format!("the Service {key} does not exist"))?;
        if service.spec.r#type.as_deref() == Some("ExternalName") {
            return Err(format!("the Service {key} is an ExternalName, which could lead anywhere"));
        }
        let is_tcp = |port: &&ServicePort| port.protocol.as_deref().is_none_or(|protocol| protocol == "TCP");
        let mut ports = service.spec.ports.iter().filter(is_tcp);
        let found = match (&wanted.name, wanted.number) {
            (Some(name), _) => ports.find(|port| port.name.as_deref() == Some(name)),
            (None, Some(number)) => ports.find(|port| port.port == number),
            (None, None) => return Err(format!("the reference to the Service {key} has no port")),
        };
        found.ok_or_else(|| {
            let number = wanted.number.map(|number| number.to_string()).unwrap_or_default();
            format!("the Service {key} has no TCP port {}", wanted.name.as_deref().unwrap_or(&number))
        })
    }

    /// TLS with the servers, if the annotations want it. Certificates are verified only if they say so, as in ingress-nginx.
    pub(super) fn tls(&self, draft: &IngressDraft) -> Result<Option<UpstreamTls>, String> {
        if !matches!(draft.servers.protocol, BackendProtocol::Https | BackendProtocol::Grpcs) {
            return Ok(None);
        }
        let unverified = Arc::new(Authorities::new(None, Vec::new()));
        let name = draft.servers.tls_name.as_deref().map(|name| ServerName::try_from(name.to_owned()));
        let name = name.transpose().map_err(|error| error.to_string())?;
        let localhost = ServerName::IpAddress(std::net::Ipv4Addr::LOCALHOST.into());
        let mut tls = UpstreamTls::verifying(unverified, name.clone().unwrap_or(localhost));
        (tls.authorities, tls.server_name) = (None, name);
        let Some(key) = &draft.servers.tls_secret else { return Ok(Some(tls)) };
        let value = |name: &str| self.secret_value(key, name);
        if let (Some(chain), Some(private)) = (value("tls.crt")?, value("tls.key")?) {
            tls.certificate = Some(certificate(key, &chain, &private)?);
        }
        match (value("ca.crt")?, draft.servers.tls_verified) {
            (Some(text), true) => tls.authorities = Some(authorities(key, &text)?),
            (None, true) => return Err(format!("the Secret {key} has no `ca.crt`")),
            (_, false) => {}
        }
        Ok(Some(tls))
    }

    /// The certificate of a Secret of either type, with its key.
    pub(super) fn certificate_of(&self, key: &ObjectKey) -> Result<Arc<LoadedCertificate>, String> {
        let value = |name: &str| {
            let value = self.secret_value(key, name)?;
            value.ok_or_else(|| format!("the Secret {key} has no `{name}`"))
        };
        certificate(key, &value("tls.crt")?, &value("tls.key")?)
    }

    /// A value of a Secret of either type.
    pub(super) fn secret_value(&self, key: &ObjectKey, name: &str) -> Result<Option<Vec<u8>>, String> {
        let opaque = self.store.opaque_secrets.get(key).map(|secret| &secret.data);
        let of_tls = self.store.secrets.get(key).map(|secret| &secret.data);
        let data = opaque.or(of_tls).ok_or_else(|| format!("the Secret {key} does not exist"))?;
        let decoded = data.get(name).map(|text| BASE64.decode(text.as_bytes())).transpose();
        decoded.map_err(|_| format!("the Secret {key}: `{name}` is not base64"))
    }
}

fn certificate(key: &ObjectKey, chain: &[u8], private: &[u8]) -> Result<Arc<LoadedCertificate>, String> {
    let files = CertificateFiles::new(format!("Secret {key} tls.crt"), format!("Secret {key} tls.key"));
    files.load_texts(chain, private).map_err(|error| format!("the Secret {key}: {}", error.message))
}

fn authorities(key: &ObjectKey, text: &[u8]) -> Result<Arc<Authorities>, String> {
    let name = PathBuf::from(format!("Secret {key} ca.crt"));
    let authorities =
        Authorities::of_text(&name, text).map_err(|error| format!("the Secret {key}: {}", error.message))?;
    match authorities.unusable() {
        Some(error) => Err(format!("the Secret {key}: {}", error.message)),
        None => Ok(authorities),
    }
}
