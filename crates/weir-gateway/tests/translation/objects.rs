//! Reading objects of test data; certificates in them are made for the occasion.

use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use weir_gateway::{GatewaySettings, KubernetesObject, ObjectKind, Translation, Translator};

pub(crate) const NOW: &str = "2026-11-27T00:00:00Z";

/// Settings with an address, so that Gateways are programmed.
pub(crate) fn settings() -> GatewaySettings {
    let address = weir_gateway::api::GatewayStatusAddress {
        r#type: Some("IPAddress".into()),
        value: "192.0.2.1".into(),
    };
    GatewaySettings {
        addresses: vec![address],
        ingress: Some(weir_gateway::IngressSettings::default()),
        ..GatewaySettings::default()
    }
}

/// The objects of a text of several documents.
pub(crate) fn read(text: &str) -> Vec<KubernetesObject> {
    let documents = text.split("\n---\n").filter(|document| !document.trim().is_empty());
    documents
        .map(|document| read_one(document).unwrap_or_else(|error| panic!("{error}\n{document}")))
        .collect()
}

fn read_one(document: &str) -> Result<KubernetesObject, String> {
    read_value(serde_saphyr::from_str(document).map_err(|error| error.to_string())?)
}

/// The object that a value is, if it is one.
pub(crate) fn read_value(mut value: Value) -> Result<KubernetesObject, String> {
    make_certificates(&mut value);
    let kind = match value["kind"].as_str().unwrap_or_default() {
        "GatewayClass" => ObjectKind::GatewayClass,
        "Gateway" => ObjectKind::Gateway,
        "ListenerSet" => ObjectKind::ListenerSet,
        "HTTPRoute" => ObjectKind::HttpRoute,
        "GRPCRoute" => ObjectKind::GrpcRoute,
        "TLSRoute" => ObjectKind::TlsRoute,
        "TCPRoute" => ObjectKind::TcpRoute,
        "ReferenceGrant" => ObjectKind::ReferenceGrant,
        "BackendTLSPolicy" => ObjectKind::BackendTlsPolicy,
        "Service" => ObjectKind::Service,
        "EndpointSlice" => ObjectKind::EndpointSlice,
        "Secret" if value["type"] == "Opaque" => ObjectKind::OpaqueSecret,
        "Secret" => ObjectKind::Secret,
        "Ingress" => ObjectKind::Ingress,
        "IngressClass" => ObjectKind::IngressClass,
        "ConfigMap" => ObjectKind::ConfigMap,
        "Namespace" => ObjectKind::Namespace,
        other => return Err(format!("no kind {other:?}")),
    };
    let text = serde_json::to_vec(&value).map_err(|error| error.to_string())?;
    KubernetesObject::from_json(kind, &text).map_err(|error| error.to_string())
}

/// `certificate: NAMES` in `data` becomes a certificate with its key, or an authority in a ConfigMap.
fn make_certificates(value: &mut Value) {
    let is_secret = value["kind"] == "Secret";
    let Some(data) = value["data"].as_object_mut() else { return };
    let Some(name) = data.remove("certificate") else { return };
    let key = KeyPair::generate().unwrap();
    let names: Vec<String> = name.as_str().unwrap().split(' ').map(str::to_owned).collect();
    let mut params = CertificateParams::new(names).unwrap();
    if !is_secret {
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    }
    let certificate = params.self_signed(&key).unwrap().pem();
    if is_secret {
        let encode = |text: &str| Value::String(data_encoding::BASE64.encode(text.as_bytes()));
        data.insert("tls.crt".to_owned(), encode(&certificate));
        data.insert("tls.key".to_owned(), encode(&key.serialize_pem()));
    } else {
        data.insert("ca.crt".to_owned(), Value::String(certificate));
    }
}

/// A translator with these objects, and what they come to.
pub(crate) fn translated(text: &str) -> (Translator, Translation) {
    let mut translator = Translator::new(settings());
    read(text).into_iter().for_each(|object| translator.upsert(&object));
    let translation = translator.translate(NOW);
    (translator, translation)
}
