//! Responses about certificates (OCSP), made by `openssl`.

use std::path::Path;
use std::process::Command;

use crate::harness::tls::CertificateAuthority;

fn openssl(folder: &Path, arguments: &[&str]) -> String {
    let out = Command::new("openssl").current_dir(folder).args(arguments).output();
    let out = out.expect("openssl is installed");
    assert!(out.status.success(), "openssl {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8(out.stdout).expect("openssl prints text")
}

impl CertificateAuthority {
    /// The OCSP response of this authority for the certificate in `STEM.pem` of `folder`, valid for a week.
    pub(crate) fn vouch(&self, folder: &Path, stem: &str) -> Vec<u8> {
        let work = tempfile::TempDir::new().expect("the system has a folder for temporary files");
        let path = work.path();
        std::fs::copy(folder.join(format!("{stem}.pem")), path.join("it.pem")).expect("a copy");
        let serial = openssl(path, &["x509", "-in", "it.pem", "-noout", "-serial"]);
        let serial = serial.trim().trim_start_matches("serial=");
        for (file, text) in [
            ("ca.pem", self.pem()),
            ("ca.key", self.issuer.key().serialize_pem()),
            // What `openssl ca` keeps: valid until 2049, and never revoked.
            ("index.txt", format!("V\t491231235959Z\t\t{serial}\tunknown\t/CN=it\n")),
        ] {
            std::fs::write(path.join(file), text).expect("the folder takes a file");
        }
        let ask = ["ocsp", "-issuer", "ca.pem", "-cert", "it.pem", "-no_nonce", "-reqout", "request.der"];
        openssl(path, &ask);
        let mut answer =
            vec!["ocsp", "-index", "index.txt", "-CA", "ca.pem", "-rsigner", "ca.pem", "-rkey", "ca.key"];
        answer.extend(["-reqin", "request.der", "-respout", "response.der", "-ndays", "7", "-resp_no_certs"]);
        openssl(path, &answer);
        std::fs::read(path.join("response.der")).expect("openssl has written it")
    }
}

/// The same response, but outdated from `until` on, which `date` understands. The signature is invalid then.
pub(crate) fn outdated_from(mut response: Vec<u8>, until: &str) -> Vec<u8> {
    let out =
        Command::new("date").args(["-u", "-d", until, "+%Y%m%d%H%M%SZ"]).output().expect("date is installed");
    let date = String::from_utf8(out.stdout).expect("date prints text");
    // A GeneralizedTime of 15 bytes; the last is the end of the response.
    let mut places = response.windows(2).enumerate().filter(|(_, bytes)| *bytes == [0x18, 15]);
    let (at, _) = places.next_back().expect("the response has a time");
    response[at + 2..at + 17].copy_from_slice(date.trim().as_bytes());
    response
}
