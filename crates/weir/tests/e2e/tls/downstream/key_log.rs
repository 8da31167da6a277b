//! The file with the secrets of connections: there when the config says so, and never otherwise.

use std::os::unix::fs::PermissionsExt as _;

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::version::{TLS12, TLS13};

use super::Site;
use crate::harness::key_log::{OfPeer, lines};
use crate::harness::tls::connect;
use crate::harness::{CertificateAuthority, Origin, Weir, run};

#[test]
fn both_sides_have_the_same_secrets() {
    let origin = Origin::serving("x");
    let site = Site::start_with(
        &origin,
        "listener.web.tls.key_log = \"keys.log\"\n\
         listener.other = { address = \"127.0.0.1:0\", upstream = \"app\", tls = { \
         certificates = [{ certificate = \"a.pem\", key = \"a.key\" }], key_log = \"keys.log\" } }",
    );
    let file = site.weir.folder().join("keys.log");
    let mode = std::fs::metadata(&file).expect("it is made at the start").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let of_client = std::sync::Arc::new(OfPeer::default());
    for version in [&TLS12, &TLS13] {
        for listener in ["web", "other"] {
            let mut config = site.authority.client_with(default_provider(), &[version]);
            config.key_log = std::sync::Arc::clone(&of_client) as _;
            connect(site.weir.address(listener), config, "a.test").assert_alive();
        }
    }
    let expected = of_client.lines();
    assert_eq!(lines(&file), expected);
    assert!(expected.iter().any(|line| line.starts_with("CLIENT_RANDOM ")), "TLS 1.2: {expected:?}");
    assert!(site.weir.stderr().contains("this traffic can be decrypted"), "{}", site.weir.stderr());
}

#[test]
fn the_environment_alone_does_nothing() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let folder = authority.folder_for_web();
    let file = folder.path().join("keys.log");
    let text = format!(
        "listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\", \
         tls = {{ certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}] }} }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    );
    let path = file.to_str().expect("temporary paths are UTF-8").to_owned();
    let weir = Weir::start_in_environment(folder, &text, &[("SSLKEYLOGFILE", &path)]);
    authority.connect(weir.web()).assert_alive();
    assert!(!file.exists());
}

#[test]
fn a_file_that_cannot_be_opened_keeps_weir_from_starting() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let folder = authority.folder_for_web();
    let config = folder.path().join("weir.toml");
    let text = format!(
        "listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\", tls = {{ key_log = \"none/keys.log\", \
         certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}] }} }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    );
    std::fs::write(&config, text).expect("the folder takes a file");
    let done = run(&["serve", config.to_str().expect("temporary paths are UTF-8")]);
    assert_eq!(done.code, Some(1));
    let said = done.stderr;
    assert!(said.contains("error: the key log cannot be opened: "), "{said}");
    assert!(said.contains("none/keys.log: No such file or directory"), "{said}");
}
