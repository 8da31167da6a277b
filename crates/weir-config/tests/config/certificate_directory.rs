//! `certificates = [{ directory = ... }]`: those that can be used are, and the others are named.

use std::path::Path;

use rcgen::generate_simple_self_signed;
use tempfile::TempDir;
use weir_config::{CheckedConfig, DiagnosticKind};

fn issue(folder: &Path, stem: &str, name: &str) {
    let made = generate_simple_self_signed([name.to_owned()]).expect("the name is one of a host");
    std::fs::write(folder.join(format!("{stem}.pem")), made.cert.pem()).expect("the folder takes a file");
    std::fs::write(folder.join(format!("{stem}.key")), made.signing_key.serialize_pem())
        .expect("the folder takes a file");
}

fn load(folder: &Path, certificates: &str) -> CheckedConfig {
    let text = format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[listener.web.tls]\ncertificates = [{certificates}]\n\
         [upstream.app]\nservers = [\"10.0.0.1:80\"]\n"
    );
    let file = folder.join("weir.toml");
    std::fs::write(&file, text).expect("the folder takes a file");
    CheckedConfig::load(&file)
}

/// The first names of the certificates, in their order.
fn names(checked: &CheckedConfig) -> Vec<String> {
    let config = checked.config.as_ref().expect("the config can be used");
    let tls = config.listeners[0].tls.as_ref().expect("the listener has TLS");
    tls.certificates().map(|shown| shown.certificate.names[0].to_string()).collect()
}

#[test]
fn all_of_a_folder_are_used_and_the_default_goes_first() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    std::fs::create_dir(folder.path().join("certs")).expect("it is new");
    for (stem, name) in [("b", "b.test"), ("a", "a.test"), ("c", "c.test")] {
        issue(&folder.path().join("certs"), stem, name);
    }
    issue(folder.path(), "own", "own.test");
    let own = "{ certificate = \"own.pem\", key = \"own.key\"";
    let checked = load(folder.path(), &format!("{{ directory = \"certs\" }}, {own} }}"));
    assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
    assert_eq!(names(&checked), ["a.test", "b.test", "c.test", "own.test"]);
    let checked = load(folder.path(), &format!("{{ directory = \"certs\" }}, {own}, default = true }}"));
    assert_eq!(names(&checked), ["own.test", "a.test", "b.test", "c.test"]);
}

#[test]
fn a_file_that_cannot_be_used_is_a_warning_and_a_folder_without_any_an_error() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let certs = folder.path().join("certs");
    std::fs::create_dir(&certs).expect("it is new");
    let of = "{ directory = \"certs\" }";
    let found = |checked: &CheckedConfig| {
        let messages = checked.diagnostics.iter().map(|one| (one.kind, one.message.clone()));
        messages.collect::<Vec<_>>()
    };
    let checked = load(folder.path(), of);
    assert!(checked.config.is_none());
    assert!(
        found(&checked)[0].1.contains("there is no certificate that can be used in"),
        "{:?}",
        found(&checked)
    );

    issue(&certs, "a", "a.test");
    issue(&certs, "b", "b.test");
    std::fs::copy(certs.join("a.key"), certs.join("b.key")).expect("it is there");
    let checked = load(folder.path(), of);
    assert_eq!(names(&checked), ["a.test"]);
    let [(kind, message)] = &found(&checked)[..] else { panic!("one warning: {}", checked.diagnostics) };
    assert_eq!(*kind, DiagnosticKind::Suspicious);
    assert!(message.contains("b.key`: the key does not belong to the certificate in"), "{message}");
    assert!(message.ends_with("; the certificate is left out"), "{message}");

    // Many of them are summed up.
    for name in 0..20 {
        std::fs::write(certs.join(format!("bad{name}.pem")), "nothing").expect("the folder takes a file");
    }
    let messages = found(&load(folder.path(), of));
    assert_eq!(messages.len(), 11);
    assert!(messages[10].1.contains("11 more findings"), "{messages:?}");

    let checked = load(folder.path(), "{ directory = \"none\" }");
    assert!(found(&checked)[0].1.contains("the folder cannot be read"), "{:?}", found(&checked));
}
