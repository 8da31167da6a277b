//! Which certificate clients are shown at a port that several listeners of a Gateway share.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::{cluster, object, serve};
use crate::harness::reserved_address::ReservedAddress;
use crate::harness::tls::{ECDSA, RSA};
use crate::harness::{CertificateAuthority, Origin, eventually, temporary_folder};

/// The file `STEM.EXTENSION` of a certificate, as text.
fn text_of(folder: &Path, stem: &str, extension: &str) -> String {
    std::fs::read_to_string(folder.join(format!("{stem}.{extension}"))).expect("it was written")
}

fn secret(folder: &Path, stem: &str) -> Value {
    let encoded = |extension| data_encoding::BASE64.encode(text_of(folder, stem, extension).as_bytes());
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "metadata": { "name": stem, "namespace": "infra" },
        "data": { "tls.crt": encoded("pem"), "tls.key": encoded("key") },
    })
}

#[test]
fn the_listener_of_a_host_chooses_the_certificate() {
    let origin = Origin::serving("app");
    let (web, admin) = (ReservedAddress::new(), ReservedAddress::new());
    let api = cluster(web.address().port(), &origin);
    let (authority, folder) = (CertificateAuthority::new(), temporary_folder());
    // The certificate of another listener is for the host and the cheapest to sign with, that of its own listener is neither.
    authority.issue(folder.path(), "every", &["every.test", "shop.corp.test"], RSA);
    authority.issue(folder.path(), "domain", &["elsewhere.test"], RSA);
    authority.issue(folder.path(), "greedy", &["mallory.corp.test", "shop.corp.test", "every.test"], ECDSA);
    let listener = |name: &str, host: Value| {
        api.apply("secrets", secret(folder.path(), name));
        json!({
            "name": name, "port": web.address().port(), "protocol": "HTTPS", "hostname": host,
            "tls": { "certificateRefs": [{ "name": name }] },
        })
    };
    let listeners = [
        listener("every", Value::Null),
        listener("domain", json!("*.corp.test")),
        listener("greedy", json!("mallory.corp.test")),
    ];
    let spec = json!({ "gatewayClassName": "weir", "listeners": listeners });
    api.apply("gateways", object("Gateway", "web", &spec));
    let _weir = serve(&api, admin.address(), &["--kubernetes"]);
    let shown = |host: &str| {
        let output = Command::new("openssl")
            .args(["s_client", "-connect", &web.address().to_string(), "-servername", host])
            .stdin(Stdio::null())
            .output()
            .expect("openssl is installed");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ["every", "domain", "greedy"].into_iter().find(|stem| {
            let pem = text_of(folder.path(), stem, "pem").replace('\r', "");
            text.contains(pem.trim())
        })
    };
    eventually("the port is open", || shown("every.test").is_some());
    for (host, expected) in [
        ("every.test", "every"),
        ("unknown.test", "every"),
        ("shop.corp.test", "domain"),
        ("a.b.corp.test", "domain"),
        ("mallory.corp.test", "greedy"),
    ] {
        assert_eq!(shown(host), Some(expected), "{host}");
    }
}
