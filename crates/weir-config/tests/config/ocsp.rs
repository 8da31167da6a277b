//! Responses for stapling: which files are some, and when they are of use.

use std::path::Path;
use std::process::Command;

use rcgen::{CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use tempfile::TempDir;
use weir_config::{CheckedConfig, DiagnosticKind, OcspResponse};

fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let out = Command::new("openssl").current_dir(folder).args(arguments).output();
    let out = out.expect("openssl is installed");
    assert!(out.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("openssl prints text")
}

/// A folder with a site and its authority; `other.pem` is another certificate of the same authority.
fn folder() -> TempDir {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let key = || KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).expect("a key can be made");
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "root");
    params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(params, key()).expect("the parameters are sound");
    let write = |file: &str, text: String| std::fs::write(folder.path().join(file), text).expect("a file");
    for stem in ["site", "other"] {
        let key = key();
        let params = CertificateParams::new(vec!["a.test".to_owned()]).expect("that is a host name");
        let certificate = params.signed_by(&key, &authority).expect("the parameters are sound");
        write(&format!("{stem}.pem"), certificate.pem());
        write(&format!("{stem}.key"), key.serialize_pem());
    }
    write("ca.pem", authority.pem());
    write("ca.key", authority.key().serialize_pem());
    folder
}

/// Makes an OCSP response about `STEM.pem`, from a line of the authority's index that begins with `index`, and writes it to `site.ocsp`.
fn respond(folder: &Path, stem: &str, index: &str, digest: &str) -> Vec<u8> {
    let certificate = format!("{stem}.pem");
    let serial = openssl(folder, &["x509", "-in", &certificate, "-noout", "-serial"]);
    let line = format!("{index}\t{}\tunknown\t/CN=it\n", serial.trim().trim_start_matches("serial="));
    std::fs::write(folder.join("index.txt"), if index.is_empty() { String::new() } else { line })
        .expect("a file");
    // `openssl` takes the digest for the certificates that follow it.
    let ask =
        ["ocsp", digest, "-issuer", "ca.pem", "-cert", &certificate, "-no_nonce", "-reqout", "request.der"];
    openssl(folder, &ask);
    let mut answer =
        vec!["ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key"];
    answer.extend(["-reqin", "request.der", "-respout", "site.ocsp", "-ndays", "7", "-resp_no_certs"]);
    openssl(folder, &answer);
    std::fs::read(folder.join("site.ocsp")).expect("openssl has written it")
}

const GOOD: &str = "V\t491231235959Z\t";
const REVOKED: &str = "R\t491231235959Z\t200101000000Z";

/// Puts another year into the times of a response: the last is the end, the one before it the beginning.
fn with_year(response: &[u8], from_behind: usize, year: &[u8; 4]) -> Vec<u8> {
    let mut response = response.to_vec();
    let places = response.windows(2).enumerate().filter(|(_, bytes)| *bytes == [0x18, 15]);
    let places: Vec<usize> = places.map(|(at, _)| at).collect();
    let at = places[places.len() - 1 - from_behind];
    response[at + 2..at + 6].copy_from_slice(year);
    response
}

/// The messages about the config, with the name of the folder taken out of it.
fn said(folder: &Path) -> Vec<(DiagnosticKind, String)> {
    let file = folder.join("weir.toml");
    let text = "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[listener.web.tls]\n\
                certificates = [{ certificate = \"site.pem\", key = \"site.key\", ocsp = \"site.ocsp\" }]\n\
                [upstream.app]\nservers = [\"10.0.0.1:80\"]\n";
    std::fs::write(&file, text).expect("the folder takes a file");
    let checked = CheckedConfig::load(&file);
    let what = |what: &str| what.replace(&format!("{}/", folder.display()), "");
    checked.diagnostics.iter().map(|it| (it.kind, what(&it.message))).collect()
}

#[test]
fn a_response_is_of_use_for_its_certificate_and_in_its_time() {
    let folder = folder();
    let path = folder.path();
    for digest in ["-sha1", "-sha256", "-sha512"] {
        respond(path, "site", GOOD, digest);
        assert_eq!(said(path), [], "{digest}");
    }
    let good = respond(path, "site", GOOD, "-sha1");
    let not_shown = |why: &str| format!("`site.ocsp`: the OCSP response is not sent to clients: {why}");
    for (response, expected) in [
        (with_year(&good, 0, b"2002"), not_shown("it is outdated")),
        (with_year(&good, 1, b"4000"), not_shown("it is not valid yet")),
        (respond(path, "other", GOOD, "-sha1"), not_shown("it is for another certificate")),
        (respond(path, "site", "", "-sha1"), not_shown("its authority reports the certificate as unknown")),
        (
            respond(path, "site", REVOKED, "-sha1"),
            "`site.ocsp`: the certificate has been revoked: clients reject it".to_owned(),
        ),
    ] {
        std::fs::write(path.join("site.ocsp"), response).expect("the folder takes a file");
        assert_eq!(said(path), [(DiagnosticKind::Suspicious, expected)]);
    }
}

#[test]
fn a_file_without_a_response_is_a_diagnostic() {
    let folder = folder();
    let path = folder.path();
    let none = "`site.ocsp`: the file cannot be read: No such file or directory (os error 2)";
    assert_eq!(said(path), [(DiagnosticKind::Certificate, none.to_owned())]);
    for (bytes, expected) in [
        (&b""[..], "`site.ocsp`: the file is not an OCSP response"),
        (b"-----BEGIN OCSP RESPONSE-----", "`site.ocsp`: the file is not an OCSP response"),
        // RFC 6960 section 4.2.1
        (&[0x30, 3, 0x0a, 1, 3], "`site.ocsp`: the response is an error: tryLater"),
        (&[0x30, 3, 0x0a, 1, 0], "`site.ocsp`: the file is not an OCSP response"),
    ] {
        std::fs::write(path.join("site.ocsp"), bytes).expect("the folder takes a file");
        assert_eq!(said(path), [(DiagnosticKind::Certificate, expected.to_owned())]);
    }
}

/// No byte of a response can make it anything but usable or refused.
#[test]
fn damaged_responses_are_read_without_a_panic() {
    let folder = folder();
    let good = respond(folder.path(), "site", GOOD, "-sha1");
    let file = folder.path().join("damaged.ocsp");
    for at in 0..good.len() {
        for with in [0x00, 0x7f, 0x84, 0xff] {
            let mut damaged = good.clone();
            damaged[at] = with;
            std::fs::write(&file, &damaged).expect("the folder takes a file");
            let _read_or_not = OcspResponse::load(&file);
        }
        std::fs::write(&file, &good[..at]).expect("the folder takes a file");
        assert!(OcspResponse::load(&file).is_err(), "cut at {at}");
    }
}
