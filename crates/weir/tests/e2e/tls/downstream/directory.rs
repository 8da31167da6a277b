//! A folder of certificates: chosen by name, renewed, added and removed without a reload, and bad files change nothing else.

use std::path::Path;

use crate::harness::tls::{ECDSA, connect, try_connect_stream};
use crate::harness::{CertificateAuthority, Origin, Weir, config_with, eventually, temporary_folder};

const SETTINGS: &str =
    "listener.web.tls.certificates = [{ directory = \"certs\" }]\nlistener.web.tls.reload = \"100ms\"\n";

/// Whether clients that ask for `asked` are shown a certificate of this authority for it.
fn is_shown(weir: &Weir, authority: &CertificateAuthority, asked: &str) -> bool {
    let Ok(mut tls) = try_connect_stream(weir.web(), authority.client(), asked) else { return false };
    tls.session().peer_certificates().is_some()
}

fn start(origin: &Origin, authority: &CertificateAuthority, names: &[&str]) -> Weir {
    let folder = temporary_folder();
    std::fs::create_dir(folder.path().join("certs")).expect("it is new");
    for name in names {
        authority.issue(&folder.path().join("certs"), name, &[name], ECDSA);
    }
    Weir::start_in(folder, &config_with(&[origin.entry()], SETTINGS))
}

fn certs(weir: &Weir) -> std::path::PathBuf {
    weir.folder().join("certs")
}

fn remove(folder: &Path, stem: &str) {
    for ending in ["pem", "key"] {
        std::fs::remove_file(folder.join(format!("{stem}.{ending}"))).expect("it is there");
    }
}

#[test]
fn certificates_come_change_and_go_without_a_reload() {
    let (origin, authority) = (Origin::serving("x"), CertificateAuthority::new());
    let weir = start(&origin, &authority, &["a.test", "b.test"]);
    let mut held = connect(weir.web(), authority.client(), "b.test");
    assert_eq!(connect(weir.web(), authority.client(), "a.test").fetch("/").text(), "x");
    held.assert_alive();
    assert!(!is_shown(&weir, &authority, "c.test"), "only the default is there for it");

    authority.issue(&certs(&weir), "c.test", &["c.test"], ECDSA);
    eventually("the new certificate is used", || is_shown(&weir, &authority, "c.test"));
    let renewed = CertificateAuthority::new();
    renewed.issue(&certs(&weir), "a.test", &["a.test"], ECDSA);
    eventually("the renewed certificate is used", || is_shown(&weir, &renewed, "a.test"));
    remove(&certs(&weir), "b.test");
    eventually("the removed certificate is not used", || !is_shown(&weir, &authority, "b.test"));
    weir.line(&["a certificate is gone from its folder", "b.test.pem"]);
    held.assert_alive();
}

#[test]
fn a_bad_file_changes_nothing_else_and_is_named() {
    let (origin, authority) = (Origin::serving("x"), CertificateAuthority::new());
    let weir = start(&origin, &authority, &["a.test", "b.test"]);
    std::fs::write(certs(&weir).join("b.test.pem"), "half of it").expect("the folder takes a file");
    std::fs::write(certs(&weir).join("new.test.pem"), "nothing").expect("the folder takes a file");
    weir.line(&["has something that cannot be used", "b.test.pem", "no PEM block `CERTIFICATE`"]);
    weir.line(&["has something that cannot be used", "new.test.pem"]);
    assert!(is_shown(&weir, &authority, "a.test") && is_shown(&weir, &authority, "b.test"));
    let shown = || weir.admin_json("/api/certificates").as_array().cloned().unwrap_or_default();
    let state = |file: &str| {
        let shown = shown();
        let one = shown.iter().find(|one| one["file"].as_str().is_some_and(|path| path.ends_with(file)));
        one.map(|one| (one["state"].clone(), one["last_error"].is_string()))
    };
    eventually("both are reported", || {
        state("/b.test.pem") == Some(("valid".into(), true))
            && state("/new.test.pem") == Some(("unusable".into(), true))
    });
    assert_eq!(state("/a.test.pem"), Some(("valid".into(), false)));

    // Also over a reload, where the content of before is in no file any more.
    weir.reload(&config_with(
        &[origin.entry()],
        &format!("{SETTINGS}listener.web.tls.session_tickets = false\n"),
    ));
    assert!(is_shown(&weir, &authority, "a.test") && is_shown(&weir, &authority, "b.test"));
    authority.issue(&certs(&weir), "new.test", &["new.test"], ECDSA);
    eventually("it is used once it is whole", || is_shown(&weir, &authority, "new.test"));
    // And without the folder, nothing changes.
    std::fs::rename(certs(&weir), weir.folder().join("away")).expect("the folder can be renamed");
    weir.line(&["has something that cannot be used", "the folder cannot be read"]);
    assert!(is_shown(&weir, &authority, "a.test") && is_shown(&weir, &authority, "new.test"));
}
