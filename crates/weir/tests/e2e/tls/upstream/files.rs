//! The authorities for servers: files that change while Weir runs, and those of the system.

use std::path::Path;

use super::{folder, start, telling};
use crate::harness::key_log::{OfPeer, lines};
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, Client, Weir, config_with, eventually};

/// A connection for each request, and files that are looked at again and again.
const SETTINGS: &str = "upstream.app.pool.idle_max = 0";

fn write(folder: &Path, file: &str, text: &str) {
    // Swapped in whole, as tools that renew certificates do.
    let new = folder.join("new");
    std::fs::write(&new, text).expect("the folder takes a file");
    std::fs::rename(new, folder.join(file)).expect("the folder takes a file");
}

fn response_text(weir: &Weir) -> String {
    Client::get(weir.web(), "/").text()
}

#[test]
fn a_new_authority_and_a_new_certificate_are_taken_over() {
    let (old, new, clients) =
        (CertificateAuthority::new(), CertificateAuthority::new(), CertificateAuthority::new());
    let origin = |authority: &CertificateAuthority| {
        telling(authority.server_with(&["app.test"], rustls::ALL_VERSIONS, Some(&clients)))
    };
    let (first, second) = (origin(&old), origin(&new));
    let folder = folder(&old);
    // Servers that ask for one from `clients` refuse this one.
    old.issue(folder.path(), "weir", &["weir.test"], ECDSA);
    let servers = format!("\"{}\"", first.address());
    let tls = "ca = \"ca.pem\", server_name = \"app.test\", certificate = \"weir.pem\", key = \"weir.key\", reload = \"100ms\"";
    let weir = start(folder, &servers, tls, SETTINGS);
    assert_eq!(Client::get(weir.web(), "/").reason(), Some("server-tls-alert"));

    clients.issue(weir.folder(), "weir", &["weir.test"], ECDSA);
    eventually("the new certificate is shown", || response_text(&weir) == "app.test Full 1");
    weir.line(&["a file has changed: it holds", "weir.pem"]);

    write(weir.folder(), "ca.pem", "no certificate");
    weir.line(&["a file has changed and cannot be used", "ca.pem", "no PEM block"]);
    assert!(response_text(&weir).starts_with("app.test"), "the old authority stays in use");

    write(weir.folder(), "ca.pem", &new.pem());
    eventually("the old authority is not trusted any more", || {
        Client::get(weir.web(), "/").reason() == Some("connect-tls-certificate-rejected")
    });
    assert!(second.requests().is_empty());
}

/// The secrets of both sides are the same, and the file is for its owner alone.
#[test]
fn the_secrets_of_connections_go_to_a_file_if_it_is_named() {
    let authority = CertificateAuthority::new();
    let mut config = authority.server(&["app.test"]);
    let of_origin = std::sync::Arc::new(OfPeer::default());
    config.key_log = std::sync::Arc::clone(&of_origin) as _;
    let origin = telling(config);
    let tls = "ca = \"ca.pem\", server_name = \"app.test\", key_log = \"keys.log\"";
    let weir = start(folder(&authority), &origin.entry(), tls, SETTINGS);
    assert_eq!(response_text(&weir), "app.test Full 0");
    assert_eq!(lines(&weir.folder().join("keys.log")), of_origin.lines());
    weir.line(&["this traffic can be decrypted"]);
}

/// Without `ca`, those that the system trusts are trusted; where there are none, the check says what to do.
#[test]
fn the_authorities_of_the_system_are_trusted() {
    let authority = CertificateAuthority::new();
    let origin = telling(authority.server(&["app.test"]));
    let text = config_with(&[origin.entry()], "upstream.app.tls = { server_name = \"app.test\" }");
    let with = |file: &str| {
        let folder = folder(&authority);
        let path = folder.path().join(file).display().to_string();
        (folder, path)
    };
    let (folder, ca) = with("ca.pem");
    let weir = Weir::start_in_environment(folder, &text, &[("SSL_CERT_FILE", &ca), ("SSL_CERT_DIR", "")]);
    assert_eq!(response_text(&weir), "app.test Full 0");

    let (folder, none) = with("none.pem");
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, &text).expect("the folder takes a file");
    let checked =
        crate::harness::program::command(&["check", file.to_str().expect("temporary paths are UTF-8")])
            .env("SSL_CERT_FILE", none)
            .env("SSL_CERT_DIR", "")
            .output()
            .expect("weir runs");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && said.contains("install the package `ca-certificates`"), "{said}");
}
