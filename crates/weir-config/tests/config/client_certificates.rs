//! Certificates of clients: the names in them, as servers get them, and the files that verify them.

use std::path::Path;
use std::process::Command;

use proptest::prelude::*;
use rcgen::{
    CertificateParams, CertificateRevocationListParams, CertifiedIssuer, DistinguishedName, DnType, DnValue,
    IsCa, KeyIdMethod, KeyPair, SerialNumber,
};
use tempfile::TempDir;
use weir_config::{CheckedConfig, DiagnosticKind, Identity, RevocationLists};

fn key() -> KeyPair {
    KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("a key can be made")
}

/// A certificate for this subject.
fn certificate(subject: DistinguishedName) -> rcgen::Certificate {
    let mut params = CertificateParams::default();
    params.distinguished_name = subject;
    params.serial_number = Some(SerialNumber::from_slice(&[0x9a, 0xbc]));
    params.self_signed(&key()).expect("the parameters are sound")
}

fn named(attributes: Vec<(DnType, DnValue)>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    for (kind, value) in attributes {
        name.push(kind, value);
    }
    name
}

fn openssl(pem: &str, arguments: &[&str]) -> String {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let file = folder.path().join("it.pem");
    std::fs::write(&file, pem).expect("the folder takes a file");
    let out = Command::new("openssl").args(["x509", "-noout", "-in"]).arg(&file).args(arguments).output();
    let out = out.expect("openssl is installed");
    assert!(out.status.success(), "{out:?}");
    let line = String::from_utf8(out.stdout).expect("openssl prints text");
    line.trim_end_matches('\n').split_once('=').expect("a name and a value").1.to_owned()
}

#[test]
fn a_subject_is_printed_as_by_openssl_and_nginx() {
    let text = |text: &str| DnValue::Utf8String(text.to_owned());
    let bmp = |text: &str| DnValue::BmpString(rcgen::string::BmpString::try_from(text).expect("of the BMP"));
    let universal = |text: &str| {
        DnValue::UniversalString(rcgen::string::UniversalString::try_from(text).expect("every text is"))
    };
    let teletex = DnValue::TeletexString(rcgen::string::TeletexString::try_from("a b").expect("ASCII is"));
    let email = DnType::CustomDnType(vec![1, 2, 840, 113549, 1, 9, 1]);
    let ia5 = DnValue::Ia5String(rcgen::string::Ia5String::try_from("ann@a.test").expect("ASCII is"));
    let other = |at: u64| DnType::CustomDnType(vec![2, 5, 4, at]);
    let domain = || DnType::CustomDnType(vec![0, 9, 2342, 19200300, 100, 1, 25]);
    let names: Vec<Vec<(DnType, DnValue)>> = vec![
        vec![],
        vec![(DnType::CommonName, text("ann"))],
        vec![
            (DnType::CountryName, text("DE")),
            (DnType::OrganizationName, text("A, B + C")),
            (DnType::CommonName, text("ann")),
        ],
        vec![(DnType::CommonName, text(" leading and trailing "))],
        vec![(DnType::CommonName, text(" "))],
        vec![(DnType::CommonName, text("#1"))],
        vec![(DnType::CommonName, text("a#b=c\"<>;\\"))],
        vec![(DnType::CommonName, text("J\u{fc}rgen \u{1F600}"))],
        vec![(DnType::CommonName, text("line\r\nX-Admin: yes\0\u{7f}"))],
        vec![(DnType::CommonName, bmp("\u{fc}ber"))],
        vec![(DnType::CommonName, universal("\u{1F600}!"))],
        vec![(DnType::CommonName, teletex)],
        vec![(email, ia5), (DnType::LocalityName, text("Ulm")), (DnType::StateOrProvinceName, text("BW"))],
        vec![
            (other(4), text("S")),
            (other(5), text("1")),
            (other(9), text("st")),
            (other(12), text("Dr")),
            (other(42), text("G")),
        ],
        vec![(domain(), text("test"))],
        vec![(DnType::CustomDnType(vec![1, 2, 3, 4]), text("x"))],
    ];
    for name in names {
        let made = certificate(named(name));
        let identity = Identity::read(made.der()).expect("it was just made");
        let expected = openssl(&made.pem(), &["-subject", "-nameopt", "RFC2253"]);
        assert_eq!(identity.subject, expected);
        assert_eq!(identity.issuer, expected, "it has signed itself");
        assert_eq!(identity.serial, "9ABC");
        let print = openssl(&made.pem(), &["-fingerprint", "-sha256"]).replace(':', "").to_lowercase();
        assert_eq!(identity.fingerprint, print);
    }
}

#[test]
fn a_common_name_is_text_as_it_was_meant() {
    let text = |text: &str| DnValue::Utf8String(text.to_owned());
    let bmp = DnValue::BmpString(rcgen::string::BmpString::try_from("\u{fc}ber").expect("of the BMP"));
    for (name, expected) in [
        (vec![(DnType::OrganizationName, text("x"))], None),
        (vec![(DnType::OrganizationName, text("x")), (DnType::CommonName, text("J, r"))], Some("J, r")),
        (vec![(DnType::CommonName, bmp)], Some("\u{fc}ber")),
    ] {
        let identity = Identity::read(certificate(named(name)).der()).expect("it was just made");
        assert_eq!(identity.common_name.as_deref(), expected);
    }
}

proptest! {
    /// RFC 9110 section 5.5: nothing in a name can end a header or begin another.
    #[test]
    fn a_subject_is_printable_whatever_is_in_it(name in any::<String>(), unit in "[ -~]{0,40}") {
        let subject = named(vec![
            (DnType::OrganizationalUnitName, DnValue::Utf8String(unit)),
            (DnType::CommonName, DnValue::Utf8String(name)),
        ]);
        let identity = Identity::read(certificate(subject).der()).expect("it was just made");
        prop_assert!(identity.subject.bytes().all(|byte| matches!(byte, b' '..=b'~')), "{}", identity.subject);
        prop_assert!(!identity.subject.starts_with(' '), "{}", identity.subject);
        prop_assert!(!identity.subject.ends_with(' ') || identity.subject.ends_with("\\ "), "{}", identity.subject);
    }

    /// Any bytes at all are read without a panic.
    #[test]
    fn a_damaged_certificate_is_refused(at in 0_usize..300, with in any::<u8>()) {
        let made = certificate(named(vec![(DnType::CommonName, DnValue::Utf8String("ann".to_owned()))]));
        let mut der = made.der().to_vec();
        let at = at % der.len();
        der[at] = with;
        let _read_or_not = Identity::read(&der.into());
    }
}

/// A folder with an authority `ca.pem`, a site and, in `crl.pem`, the lists that `lists` makes of the authority.
fn folder(lists: impl FnOnce(&CertifiedIssuer<'static, KeyPair>) -> String) -> TempDir {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let mut params = CertificateParams::default();
    params.distinguished_name = named(vec![(DnType::CommonName, DnValue::Utf8String("root".to_owned()))]);
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, key()).expect("the parameters are sound");
    let site = key();
    let certificate = CertificateParams::new(vec!["a.test".to_owned()]).expect("that is a host name");
    let certificate = certificate.self_signed(&site).expect("the parameters are sound");
    for (file, text) in [
        ("ca.pem", authority.pem()),
        ("crl.pem", lists(&authority)),
        ("site.pem", certificate.pem()),
        ("site.key", site.serialize_pem()),
    ] {
        std::fs::write(folder.path().join(file), text).expect("the folder takes a file");
    }
    folder
}

fn list(authority: &CertifiedIssuer<'static, KeyPair>, until: i32) -> String {
    let list = CertificateRevocationListParams {
        this_update: rcgen::date_time_ymd(2001, 1, 1),
        next_update: rcgen::date_time_ymd(until, 1, 1),
        crl_number: SerialNumber::from(1),
        issuing_distribution_point: None,
        revoked_certs: Vec::new(),
        key_identifier_method: KeyIdMethod::Sha256,
    };
    list.signed_by(authority).and_then(|list| list.pem()).expect("an authority signs its list")
}

/// The messages about a config with this table, with the name of the folder taken out of it.
fn said(folder: &Path, table: &str) -> Vec<(DiagnosticKind, String)> {
    let file = folder.join("weir.toml");
    let text = format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[listener.web.tls]\n\
         certificates = [{{ certificate = \"site.pem\", key = \"site.key\" }}]\n\
         client_certificates = {table}\n[upstream.app]\nservers = [\"10.0.0.1:80\"]\n"
    );
    std::fs::write(&file, text).expect("the folder takes a file");
    let checked = CheckedConfig::load(&file);
    let what = |what: &str| what.replace(&format!("{}/", folder.display()), "");
    checked.diagnostics.iter().map(|it| (it.kind, what(&it.message))).collect()
}

#[test]
fn each_diagnostic_names_its_file_and_reason() {
    let folder = folder(|authority| list(authority, 4000));
    let path = folder.path();
    assert_eq!(said(path, "{ ca = \"ca.pem\", crl = \"crl.pem\" }"), []);
    std::fs::write(path.join("bad.pem"), "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n").unwrap();
    for (table, expected) in [
        ("{ ca = \"none.pem\" }", "`none.pem`: the file cannot be read: No such file"),
        ("{ ca = \"crl.pem\" }", "`crl.pem`: the file has no PEM block `CERTIFICATE`"),
        ("{ ca = \"ca.pem\", crl = \"ca.pem\" }", "`ca.pem`: the file has no PEM block `X509 CRL`"),
        ("{ ca = \"ca.pem\", crl = \"weir.toml\" }", "`weir.toml`: the file has no PEM block `X509 CRL`"),
        ("{ ca = \"ca.pem\", crl = \"bad.pem\" }", "`bad.pem`: list 1: the list is damaged"),
    ] {
        let [(kind, what)] = &said(path, table)[..] else { panic!("one mistake wanted: {table}") };
        assert_eq!(*kind, DiagnosticKind::Certificate, "{what}");
        assert!(what.starts_with(expected), "expected {expected}\ngot      {what}");
    }
}

#[test]
fn revocation_lists_that_reject_every_certificate_are_a_warning() {
    let files = "{ ca = \"ca.pem\", crl = \"crl.pem\" }";
    let outdated = folder(|authority| list(authority, 2002));
    assert_eq!(
        said(outdated.path(), files),
        [(
            DiagnosticKind::Suspicious,
            "`crl.pem`: a list is outdated: all certificates of its authority are rejected until there is a new one"
                .to_owned()
        )]
    );
    let of_another = folder(|_| {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        list(&CertifiedIssuer::self_signed(params, key()).expect("the parameters are sound"), 4000)
    });
    assert_eq!(
        said(of_another.path(), files),
        [(
            DiagnosticKind::Suspicious,
            "`crl.pem`: there is no list of `CN=root`: all certificates that it issued are rejected"
                .to_owned()
        )]
    );
}

/// The output of `openssl ca` without further settings.
#[test]
fn a_list_of_version_1_is_explained() {
    let folder = folder(|_| String::new());
    let path = folder.path();
    std::fs::write(path.join("index.txt"), "").unwrap();
    let settings = "[ca]\ndefault_ca=it\n[it]\ndatabase=index.txt\ndefault_md=sha256\ndefault_crl_days=9\n";
    std::fs::write(path.join("ca.cnf"), settings).unwrap();
    let run = |arguments: &[&str]| {
        let out = Command::new("openssl").current_dir(path).args(arguments).output();
        let out = out.expect("openssl is installed");
        assert!(out.status.success(), "{out:?}");
    };
    run(&[
        "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "root.key", "-out", "root.pem", "-subj",
        "/CN=root",
    ]);
    run(&[
        "ca", "-config", "ca.cnf", "-gencrl", "-keyfile", "root.key", "-cert", "root.pem", "-out", "crl.pem",
    ]);
    let error = RevocationLists::load(&path.join("crl.pem")).expect_err("it is of version 1");
    assert_eq!(error.message, "list 1: the list has version 1: version 2 is required");
    assert!(error.help.is_some_and(|help| help.contains("crlnumber")));
}
