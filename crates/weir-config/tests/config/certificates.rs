//! Files of certificates and keys: which can be used, and the messages about the others.

use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, KeyPair, SignatureAlgorithm};
use tempfile::TempDir;
use weir_config::{CertificateFiles, CheckedConfig, DiagnosticKind};

/// A folder with `site.pem` and `site.key` for these names.
fn folder(names: &[&str], kind: &'static SignatureAlgorithm) -> TempDir {
    folder_with(names, kind, |_| {})
}

fn folder_with(
    names: &[&str],
    kind: &'static SignatureAlgorithm,
    change: impl FnOnce(&mut CertificateParams),
) -> TempDir {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let key = KeyPair::generate_for(kind).expect("a key can be made");
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).expect("the names are host names");
    change(&mut params);
    let certificate = params.self_signed(&key).expect("the parameters are sound");
    std::fs::write(folder.path().join("site.pem"), certificate.pem()).expect("the folder takes a file");
    std::fs::write(folder.path().join("site.key"), key.serialize_pem()).expect("the folder takes a file");
    folder
}

fn config(certificates: &str) -> String {
    format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[listener.web.tls]\ncertificates = [{certificates}]\n\
         [upstream.app]\nservers = [\"10.0.0.1:80\"]\n"
    )
}

const SITE: &str = "{ certificate = \"site.pem\", key = \"site.key\" }";

fn load(folder: &Path, certificates: &str) -> CheckedConfig {
    let file = folder.join("weir.toml");
    std::fs::write(&file, config(certificates)).expect("the folder takes a file");
    CheckedConfig::load(&file)
}

/// The message about the one mistake, with the name of the folder taken out of it.
fn said(folder: &Path, certificates: &str) -> (DiagnosticKind, usize, String) {
    let checked = load(folder, certificates);
    let diagnostics: Vec<_> = checked.diagnostics.iter().collect();
    let [diagnostic] = diagnostics[..] else { panic!("one mistake wanted: {}", checked.diagnostics) };
    assert_eq!(
        (checked.diagnostics.location(diagnostic).line, checked.config.is_none()),
        (5, !diagnostic.kind.is_warning())
    );
    let what = diagnostic.message.replace(&format!("{}/", folder.display()), "");
    let hint = diagnostic.help.as_ref().map_or(String::new(), |hint| format!(" ({hint})"));
    (diagnostic.kind, checked.diagnostics.location(diagnostic).column, format!("{what}{hint}"))
}

#[test]
fn keys_of_every_kind_and_form_belong_to_their_certificates() {
    let kinds = [
        &rcgen::PKCS_ECDSA_P256_SHA256,
        &rcgen::PKCS_ECDSA_P384_SHA384,
        &rcgen::PKCS_ED25519,
        &rcgen::PKCS_RSA_SHA256,
    ];
    for kind in kinds {
        let folder = folder(&["A.test", "*.b.test"], kind);
        let checked = load(folder.path(), SITE);
        assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
        let config = checked.config.unwrap();
        let tls = config.listeners[0].tls.as_ref().unwrap();
        let names: Vec<&str> =
            tls.certificates().next().unwrap().certificate.names.iter().map(|name| &**name).collect();
        assert_eq!(names, ["a.test", "*.b.test"]);
        // The older forms: PKCS#1 and SEC1.
        let key = folder.path().join("site.key");
        let old = folder.path().join("old.key");
        let command = if kind == &rcgen::PKCS_RSA_SHA256 { vec!["rsa", "-traditional"] } else { vec!["ec"] };
        if kind != &rcgen::PKCS_ED25519 {
            let out =
                Command::new("openssl").args(command).arg("-in").arg(&key).arg("-out").arg(&old).output();
            assert!(out.unwrap().status.success());
            assert!(!std::fs::read_to_string(&old).unwrap().contains("BEGIN PRIVATE KEY"));
            let files = CertificateFiles::new(folder.path().join("site.pem"), old);
            files.load().unwrap_or_else(|error| panic!("{error}"));
        }
    }
}

#[test]
fn each_diagnostic_names_its_file_and_reason() {
    let site = folder(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let other = folder(&["b.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let path = site.path();
    std::fs::copy(other.path().join("site.key"), path.join("other.key")).unwrap();
    std::fs::write(path.join("empty"), "").unwrap();
    std::fs::write(path.join("binary"), [0x30, 0x82, 0, 1, 0xff]).unwrap();
    let body = "AAAA\n";
    let block = |label: &str| format!("-----BEGIN {label}-----\n{body}-----END {label}-----\n");
    std::fs::write(path.join("damaged.pem"), block("CERTIFICATE")).unwrap();
    std::fs::write(path.join("damaged.key"), block("PRIVATE KEY")).unwrap();
    std::fs::write(path.join("cut.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n").unwrap();
    std::fs::write(path.join("locked.key"), block("ENCRYPTED PRIVATE KEY")).unwrap();
    std::fs::write(path.join("large"), vec![b'#'; (1 << 20) + 1]).unwrap();
    let (certificate, key) = (33, 51);
    for (certificate_file, key_file, is_key, expected) in [
        (
            "none.pem",
            "site.key",
            false,
            "`none.pem`: the file cannot be read: No such file or directory (os error 2)",
        ),
        (
            "site.pem",
            "none.key",
            true,
            "`none.key`: the file cannot be read: No such file or directory (os error 2)",
        ),
        ("empty", "site.key", false, "`empty`: the file has no PEM block `CERTIFICATE` (PEM is text"),
        ("binary", "site.key", false, "`binary`: the file has no PEM block `CERTIFICATE` (PEM is text"),
        ("large", "site.key", false, "`large`: the file is larger than 1 MiB"),
        (
            "site.key",
            "site.key",
            false,
            "`site.key`: the file has no PEM block `CERTIFICATE` (is this the key file?)",
        ),
        (
            "site.pem",
            "site.pem",
            true,
            "`site.pem`: the file has no PEM block `PRIVATE KEY` (is this the certificate file?)",
        ),
        ("site.pem", "empty", true, "`empty`: the file has no PEM block `PRIVATE KEY` (PEM is text"),
        ("damaged.pem", "site.key", false, "`damaged.pem`: the certificate is damaged"),
        ("cut.pem", "site.key", false, "`cut.pem`: the file is not PEM: "),
        (
            "site.pem",
            "damaged.key",
            true,
            "`damaged.key`: the key is damaged or of a kind that is not supported (RSA from 2048",
        ),
        ("site.pem", "locked.key", true, "`locked.key`: the key is encrypted (`openssl pkey"),
        (
            "site.pem",
            "other.key",
            true,
            "`other.key`: the key does not belong to the certificate in site.pem (was one of the two files renewed without the other?)",
        ),
    ] {
        let text = format!("{{ certificate = \"{certificate_file}\", key = \"{key_file}\" }}");
        let (kind, column, what) = said(path, &text);
        assert_eq!(kind, DiagnosticKind::Certificate, "{what}");
        assert!(what.starts_with(expected), "expected {expected}\ngot      {what}");
        let expected = if is_key { key + certificate_file.len() - 8 } else { certificate };
        assert_eq!(column, expected, "{what}");
    }
}

#[test]
fn a_missing_key_is_reported_beside_its_missing_certificate() {
    let folder = TempDir::new().unwrap();
    let said: Vec<String> =
        load(folder.path(), SITE).diagnostics.iter().map(|diagnostic| diagnostic.message.clone()).collect();
    let [certificate, key] = &said[..] else { panic!("{said:?}") };
    assert!(certificate.contains("site.pem`: the file cannot be read"), "{certificate}");
    assert!(key.contains("site.key`: the file cannot be read"), "{key}");
}

#[test]
fn a_certificate_out_of_its_time_is_a_warning() {
    for (from, to, expected) in [
        ((2001, 1, 1), (2002, 1, 1), "`site.pem`: the certificate expired "),
        ((4000, 1, 1), (4001, 1, 1), "`site.pem`: the certificate is not valid yet"),
    ] {
        let date = |(year, month, day)| rcgen::date_time_ymd(year, month, day);
        let folder = folder_with(&["a.test"], &rcgen::PKCS_ED25519, |params| {
            (params.not_before, params.not_after) = (date(from), date(to));
        });
        let (kind, _, what) = said(folder.path(), SITE);
        assert_eq!(kind, DiagnosticKind::Suspicious);
        assert!(what.starts_with(expected), "{what}");
    }
    let nameless = folder(&[], &rcgen::PKCS_ED25519);
    assert!(said(nameless.path(), SITE).2.contains("matches no host name"));
}

#[test]
fn a_chain_in_the_wrong_order_is_reported() {
    let site = folder(&["a.test"], &rcgen::PKCS_ED25519);
    let other = folder(&["b.test"], &rcgen::PKCS_ED25519);
    let chain =
        [&other, &site].map(|folder| std::fs::read_to_string(folder.path().join("site.pem")).unwrap());
    std::fs::write(site.path().join("site.pem"), chain.concat()).unwrap();
    assert!(said(site.path(), SITE).2.ends_with(
        "(it belongs to a later certificate of that file: its own certificate has to come first)"
    ));
}

#[test]
fn the_default_is_first() {
    let site = folder(&["a.test"], &rcgen::PKCS_ED25519);
    let other = folder(&["b.test"], &rcgen::PKCS_ED25519);
    for file in ["site.pem", "site.key"] {
        std::fs::copy(other.path().join(file), site.path().join(format!("b-{file}"))).unwrap();
    }
    let both = format!("{SITE}, {{ certificate = \"b-site.pem\", key = \"b-site.key\", default = true }}");
    let config = load(site.path(), &both).config.unwrap();
    let tls = config.listeners[0].tls.as_ref().unwrap();
    let firsts: Vec<&str> = tls.certificates().map(|shown| &*shown.certificate.names[0]).collect();
    assert_eq!(firsts, ["b.test", "a.test"]);
}

/// The messages about the `tls` table with these certificates and `settings`, each behind its line.
fn doubts(folder: &Path, certificates: &str, settings: &str) -> Vec<String> {
    let file = folder.join("weir.toml");
    let text = config(certificates).replace("[upstream.app]", &format!("{settings}\n[upstream.app]"));
    std::fs::write(&file, text).expect("the folder takes a file");
    let checked = CheckedConfig::load(&file);
    assert!(checked.config.is_some(), "{}", checked.diagnostics);
    checked
        .diagnostics
        .iter()
        .map(|diagnostic| {
            format!("{}: {}", checked.diagnostics.location(diagnostic).line, diagnostic.message)
        })
        .collect()
}

#[test]
fn suites_of_tls_1_2_that_fit_no_key_are_doubted() {
    const RSA_ONLY: &str =
        r#"cipher_suites = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"]"#;
    const ECDSA_ONLY: &str =
        r#"cipher_suites = ["TLS_AES_128_GCM_SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"]"#;
    let site = folder(&["a.test"], &rcgen::PKCS_ECDSA_P256_SHA256);
    let other = folder(&["a.test", "b.test"], &rcgen::PKCS_RSA_SHA256);
    let path = site.path();
    for file in ["site.pem", "site.key"] {
        std::fs::copy(other.path().join(file), path.join(format!("rsa-{file}"))).unwrap();
    }
    let rsa = "{ certificate = \"rsa-site.pem\", key = \"rsa-site.key\" }";
    let both = format!("{SITE}, {rsa}");
    let only_1_3 = r#"versions = ["1.3"]
        cipher_suites = ["TLS_AES_128_GCM_SHA256"]"#;
    for (certificates, settings, doubted) in [
        (SITE, "", None),
        (SITE, RSA_ONLY, Some("ECDSA or Ed25519")),
        (SITE, ECDSA_ONLY, None),
        (rsa, ECDSA_ONLY, Some("RSA")),
        (rsa, RSA_ONLY, None),
        // The RSA certificate has the name too, but not the other way round.
        (&both, RSA_ONLY, None),
        (&both, ECDSA_ONLY, Some("RSA")),
        (SITE, only_1_3, None),
    ] {
        let expected = doubted.map(|kind| {
            format!("5: TLS 1.2 cannot use this certificate: its key is for {kind}, and no suite of that version in `cipher_suites` is")
        });
        assert_eq!(
            doubts(path, certificates, settings),
            Vec::from_iter(expected),
            "{certificates} {settings}"
        );
    }
}

#[test]
fn groups_without_one_for_tls_1_2_are_doubted() {
    let site = folder(&["a.test"], &rcgen::PKCS_ED25519);
    for (settings, is_doubted) in [
        (r#"groups = ["X25519MLKEM768", "SecP256r1MLKEM768"]"#, true),
        (r#"groups = ["X25519MLKEM768", "x25519"]"#, false),
        (
            r#"groups = ["X25519MLKEM768"]
            versions = ["1.3"]
            cipher_suites = ["TLS_AES_128_GCM_SHA256"]"#,
            false,
        ),
    ] {
        let expected = "6: no group of `groups` is for TLS 1.2: connections of that version fail".to_owned();
        assert_eq!(
            doubts(site.path(), SITE, settings),
            Vec::from_iter(is_doubted.then_some(expected)),
            "{settings}"
        );
    }
}
