//! Which certificate, version and cipher suite a client gets.

use std::process::{Command, Stdio};

use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::{cipher_suite as suite, default_provider, kx_group};
use rustls::version::{TLS12, TLS13};
use rustls::{ProtocolVersion, SupportedCipherSuite};

use super::Site;
use crate::harness::tls::{ECDSA, ED25519, RSA, connect, try_connect};
use crate::harness::{CertificateAuthority, Client, Origin, Weir, temporary_folder};

fn only(suites: &[SupportedCipherSuite]) -> CryptoProvider {
    CryptoProvider { cipher_suites: suites.to_vec(), ..default_provider() }
}

/// A Weir with these certificates, each by its stem, its names and the kind of its key.
fn with_certificates(
    authority: &CertificateAuthority,
    origin: &Origin,
    list: &[(&str, &[&str], &'static rcgen::SignatureAlgorithm, &str)],
) -> Weir {
    with_settings(authority, origin, list, "")
}

/// The same with other lines of the config.
fn with_settings(
    authority: &CertificateAuthority,
    origin: &Origin,
    list: &[(&str, &[&str], &'static rcgen::SignatureAlgorithm, &str)],
    settings: &str,
) -> Weir {
    let folder = temporary_folder();
    let mut entries = String::new();
    for (stem, names, kind, more) in list {
        authority.issue(folder.path(), stem, names, kind);
        entries.push_str(&format!("{{ certificate = \"{stem}.pem\", key = \"{stem}.key\"{more} }}, "));
    }
    Weir::start_in(
        folder,
        &format!(
            "listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
             listener.web.tls.certificates = [{entries}]\n{settings}upstream.app.servers = [\"{}\"]\n",
            origin.address()
        ),
    )
}

/// The name in the certificate that a client is shown which asks for `name`, by trying what it is valid for.
fn shown(weir: &Weir, name: &str) -> String {
    let out = openssl(weir, &["-servername", name, "-showcerts"]);
    let text = certificate_text(&out);
    let names = text.split("DNS:").nth(1).unwrap_or_else(|| panic!("no name in {text}"));
    names.split([',', '\n']).next().unwrap_or_default().trim().to_owned()
}

fn openssl(weir: &Weir, arguments: &[&str]) -> String {
    let out = Command::new("openssl")
        .args(["s_client", "-connect", &weir.web().to_string()])
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("openssl is installed");
    String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr)
}

fn certificate_text(pem: &str) -> String {
    use std::io::Write as _;
    let mut child = Command::new("openssl")
        .args(["x509", "-noout", "-text"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("openssl is installed");
    child.stdin.take().expect("stdin is piped").write_all(pem.as_bytes()).expect("openssl reads");
    String::from_utf8_lossy(&child.wait_with_output().expect("openssl ends").stdout).into_owned()
}

#[test]
fn a_request_over_tls_is_forwarded_as_https() {
    let origin = Origin::serving("hello");
    let site = Site::start_with(&origin, "listener.web.forwarded.rfc7239 = true");
    let mut client = site.connect();
    assert_eq!(client.tls().session().alpn_protocol(), None, "none was requested");
    assert_eq!(client.fetch("/x").text(), "hello");
    let request = origin.last_request();
    assert_eq!(request.field("x-forwarded-proto"), Some("https"));
    assert!(request.field("forwarded").is_some_and(|field| field.contains("proto=https")), "{request:?}");
    client.assert_alive();
}

#[test]
fn exact_names_go_before_wildcards_and_those_before_the_default() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let list: &[(&str, &[&str], _, _)] = &[
        ("wild", &["*.a.test"], ECDSA, ""),
        ("exact", &["www.a.test"], ECDSA, ""),
        ("other", &["b.test"], ECDSA, ", default = true"),
    ];
    let weir = with_certificates(&authority, &origin, list);
    for (name, expected) in [
        ("www.a.test", "www.a.test"),
        ("WWW.A.test", "www.a.test"),
        ("api.a.test", "*.a.test"),
        ("deep.api.a.test", "b.test"),
        ("a.test", "b.test"),
        ("b.test", "b.test"),
        ("nowhere.test", "b.test"),
    ] {
        assert_eq!(shown(&weir, name), expected, "{name}");
    }
}

#[test]
fn names_that_no_certificate_is_for_are_refused_where_the_config_says_so() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let list: &[(&str, &[&str], _, _)] =
        &[("wild", &["*.a.test"], ECDSA, ""), ("other", &["b.test"], ECDSA, ", default = true")];
    let refused = "listener.web.tls.unknown_names = \"refused\"\n";
    let weir = with_settings(&authority, &origin, list, refused);
    for (name, expected) in [("api.a.test", "*.a.test"), ("b.test", "b.test")] {
        assert_eq!(shown(&weir, name), expected, "{name}");
    }
    for arguments in
        [&["-servername", "nowhere.test"][..], &["-servername", "deep.api.a.test"], &["-noservername"]]
    {
        let out = openssl(&weir, arguments);
        assert!(out.contains("alert"), "{arguments:?}: {out}");
        assert!(!out.contains("BEGIN CERTIFICATE"), "{arguments:?}: {out}");
    }
}

#[test]
fn a_client_gets_a_key_that_fits_its_signature_schemes() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let list: &[(&str, &[&str], _, _)] = &[
        ("rsa", &["a.test"], RSA, ""),
        ("ecdsa", &["a.test"], ECDSA, ""),
        ("ed", &["ed.test"], ED25519, ""),
    ];
    let weir = with_certificates(&authority, &origin, list);
    let of = |suite: SupportedCipherSuite| authority.client_with(only(&[suite]), &[&TLS12]);
    let is_rsa = |mut client: Client| {
        let suite = client.tls().session().negotiated_cipher_suite().expect("the handshake is over").suite();
        client.assert_alive();
        format!("{suite:?}").contains("_RSA_")
    };
    let ecdsa = suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;
    let rsa = suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256;
    assert!(is_rsa(connect(weir.web(), of(rsa), "a.test")));
    assert!(!is_rsa(connect(weir.web(), of(ecdsa), "a.test")));
    // A client that supports both gets the key that is cheaper to sign with.
    let both = authority.client_with(only(&[rsa, ecdsa]), &[&TLS12]);
    assert!(!is_rsa(connect(weir.web(), both, "a.test")));
    connect(weir.web(), authority.client(), "ed.test").assert_alive();
    assert!(
        try_connect(weir.web(), of(rsa), "ed.test").is_err(),
        "RSA suites and an Ed25519 key do not go together"
    );
}

#[test]
fn every_suite_and_group_works() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let list: &[(&str, &[&str], _, _)] = &[("rsa", &["a.test"], RSA, ""), ("ecdsa", &["a.test"], ECDSA, "")];
    let weir = with_certificates(&authority, &origin, list);
    for offered in default_provider().cipher_suites {
        let version = if offered.version().version == ProtocolVersion::TLSv1_3 { &TLS13 } else { &TLS12 };
        let mut client = connect(weir.web(), authority.client_with(only(&[offered]), &[version]), "a.test");
        let agreed = client.tls().session().negotiated_cipher_suite().map(|suite| suite.suite());
        assert_eq!(agreed, Some(offered.suite()));
        client.assert_alive();
    }
    for group in [kx_group::X25519MLKEM768, kx_group::X25519, kx_group::SECP256R1, kx_group::SECP384R1] {
        let provider = CryptoProvider { kx_groups: vec![group], ..default_provider() };
        let mut client = connect(weir.web(), authority.client_with(provider, &[&TLS13]), "a.test");
        let agreed = client.tls().session().negotiated_key_exchange_group().map(|agreed| agreed.name());
        assert_eq!(agreed, Some(group.name()));
        client.assert_alive();
    }
}

/// OpenSSL by its own names for the suites that matter most.
#[test]
fn openssl_agrees_on_the_suites_by_name() {
    let (authority, origin) = (CertificateAuthority::new(), Origin::serving("x"));
    let weir = with_certificates(&authority, &origin, &[("rsa", &["a.test"], RSA, "")]);
    for (arguments, cipher) in [
        (["-tls1_2", "-cipher", "ECDHE-RSA-AES256-GCM-SHA384"], "ECDHE-RSA-AES256-GCM-SHA384"),
        (["-tls1_2", "-cipher", "ECDHE-RSA-CHACHA20-POLY1305"], "ECDHE-RSA-CHACHA20-POLY1305"),
        (["-tls1_3", "-ciphersuites", "TLS_AES_256_GCM_SHA384"], "TLS_AES_256_GCM_SHA384"),
    ] {
        let out = openssl(&weir, &arguments);
        assert!(out.contains(&format!("Cipher is {cipher}")), "{out}");
        assert!(!out.contains("Compression: zlib"), "{out}");
    }
    let secure = openssl(&weir, &["-tls1_2"]);
    assert!(secure.contains("Secure Renegotiation IS supported"), "RFC 5746: {secure}");
    for old in ["-tls1", "-tls1_1"] {
        let out = openssl(&weir, &[old, "-cipher", "DEFAULT:@SECLEVEL=0"]);
        assert!(out.contains("Cipher is (NONE)"), "{out}");
    }
}

#[test]
fn alpn_names_the_protocol_and_refuses_others() {
    let origin = Origin::serving("x");
    let site = Site::start_with(&origin, "listener.web.http2.enabled = false");
    let mut config = site.authority.client();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let mut client = connect(site.weir.web(), config.clone(), "a.test");
    assert_eq!(client.tls().session().alpn_protocol(), Some(&b"http/1.1"[..]));
    client.assert_alive();
    config.alpn_protocols = vec![b"h2".to_vec()];
    assert!(try_connect(site.weir.web(), config, "a.test").is_err());
    let count = || site.weir.metrics().all("weir_listener_failures_total", &["tls-no-shared-cipher"]);
    crate::harness::eventually("the refusal is counted", || count() == [1.0]);
}

#[test]
fn versions_can_be_restricted() {
    for (version, other, one, two) in [("1.2", "1.3", &TLS12, &TLS13), ("1.3", "1.2", &TLS13, &TLS12)] {
        let origin = Origin::serving("x");
        let site = Site::start_with(
            &origin,
            &format!(
                "process.workers = 1\nlistener.web.tls.versions = [\"{version}\"]\nlistener.web.access_log = {{ output = \"file:{{dir}}/log\", format = \"{{tls.version}} {{tls.cipher_suite}} {{tls.server_name}} {{tls.session}} {{failure}}\" }}"
            ),
        );
        let client = |version| site.authority.client_with(default_provider(), &[version]);
        connect(site.weir.web(), client(one), "a.test").assert_alive();
        assert!(try_connect(site.weir.web(), client(two), "a.test").is_err(), "{other} is off");
        let log = || std::fs::read_to_string(site.weir.folder().join("log")).unwrap_or_default();
        crate::harness::eventually("both lines are written", || log().lines().count() == 2);
        let start = format!("{version} TLS_");
        assert!(log().starts_with(&start) && log().contains(" a.test new -\n"), "{}", log());
        assert!(log().ends_with("- - - - tls/client/tls-no-shared-cipher\n"), "{}", log());
        let handshakes = site
            .weir
            .metrics()
            .sum("weir_listener_tls_handshakes_total", &[&format!("version=\"{version}\"")]);
        assert!((handshakes - 1.0).abs() < 0.5, "{handshakes}");
    }
}

#[test]
fn curl_trusts_the_certificate_and_gets_the_page() {
    let origin = Origin::serving("from the origin");
    let site = Site::start(&origin);
    let authority = site.weir.folder().join("authority.pem");
    std::fs::write(&authority, site.authority.pem()).expect("the test's own folder takes a file");
    let port = site.weir.web().port();
    let out = Command::new("curl")
        .args(["-sS", "--cacert"])
        .arg(&authority)
        .args(["--resolve", &format!("a.test:{port}:127.0.0.1"), &format!("https://a.test:{port}/")])
        .output()
        .expect("curl is installed");
    assert!(out.status.success(), "{out:?}");
    assert_eq!(out.stdout, b"from the origin");
}
