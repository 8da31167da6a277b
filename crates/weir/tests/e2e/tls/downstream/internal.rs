//! The authority for development: clients that trust its root accept every host of the listener, over renewals and restarts.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::{ClientConfig, RootCertStore};

use crate::harness::tls::{connect, try_connect, try_connect_stream};
use crate::harness::{Origin, Weir, config_with, eventually, temporary_folder};

fn config(origin: &Origin, folder: &Path, more: &str) -> String {
    let tls = format!("listener.web.tls.internal = {{ directory = \"{}\"{more} }}\n", folder.display());
    let route =
        "listener.web.route = [{ host = \"shop.test\", upstream = \"app\" }, { upstream = \"app\" }]\n";
    config_with(&[origin.entry()], &tls).replace("listener.web.upstream = \"app\"\n", route)
}

fn client(folder: &Path) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_file(folder.join("root.pem")).expect("the root is PEM");
    roots.add(root).expect("the root is sound");
    ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has suites of these versions")
        .with_root_certificates(roots)
        .with_no_client_auth()
}

#[test]
fn clients_that_trust_the_root_accept_all_hosts_of_the_listener() {
    let (origin, folder) = (Origin::serving("hello"), temporary_folder());
    let state = folder.path().join("internal");
    let weir = Weir::start(&config(&origin, &state, ""));
    for name in ["shop.test", "localhost", "127.0.0.1"] {
        assert_eq!(connect(weir.web(), client(&state), name).fetch("/").text(), "hello", "{name}");
    }
    assert!(try_connect(weir.web(), client(&state), "other.test").is_err());
    weir.line(&["internal authority", "update-ca-certificates", "root.pem"]);
    let mode =
        |name: &str| std::fs::metadata(state.join(name)).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode("root.key"), mode("root.pem")), (0o600, 0o644));
    let shown = &weir.admin_json("/api/certificates")[0];
    assert_eq!((shown["source"].as_str(), shown["state"].as_str()), (Some("internal"), Some("valid")));

    // Another implementation agrees, name constraints included.
    let name = format!("https://shop.test:{}/", weir.web().port());
    let mut curl = Command::new("curl");
    curl.args([
        "-sf",
        "--noproxy",
        "*",
        "--connect-to",
        &format!("::127.0.0.1:{}", weir.web().port()),
        &name,
    ]);
    let output = curl.arg("--cacert").arg(state.join("root.pem")).output().expect("curl runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "hello", "{output:?}");

    // A restart keeps the root.
    let trusting = client(&state);
    drop(weir);
    let weir = Weir::start(&config(&origin, &state, ""));
    assert_eq!(connect(weir.web(), trusting, "shop.test").fetch("/").text(), "hello");
}

#[test]
fn certificates_are_renewed_and_a_root_that_is_gone_changes_nothing() {
    let (origin, folder) = (Origin::serving("hello"), temporary_folder());
    let state = folder.path().join("internal");
    let weir = Weir::start(&config(&origin, &state, ", lifetime = \"6s\""));
    let trusting = client(&state);
    let shown = || {
        // On a machine that stands still for seconds, one may expire before its time.
        let mut tls = try_connect_stream(weir.web(), trusting.clone(), "shop.test").ok()?;
        Some(tls.session().peer_certificates()?[0].clone().into_owned())
    };
    let mut first = None;
    eventually("the first is shown", || {
        first = shown();
        first.is_some()
    });
    eventually("it is renewed", || shown().is_some_and(|now| Some(now) != first));
    std::fs::write(state.join("root.key"), "damaged").expect("it is ours");
    weir.line(&["a certificate could not be renewed", "root.key"]);
    let shown = &weir.admin_json("/api/certificates")[0];
    assert!(shown["last_error"].as_str().is_some_and(|why| why.contains("root.key")), "{shown}");
}

#[test]
fn a_folder_that_cannot_be_used_is_named_before_anything_is_served() {
    let (origin, folder) = (Origin::serving("hello"), temporary_folder());
    let taken = folder.path().join("file");
    std::fs::write(&taken, "").expect("the folder takes a file");
    let weir = Weir::start(&config_with(&[origin.entry()], ""));
    weir.reload_in_vain(&config(&origin, &taken, ""));
    weir.line(&["the folder", "of the internal authority cannot be used", "tls.internal.directory"]);
}
