//! Certificates of `bind`: files, folders, lists (`crt-list`) and those of stores (`crt-store`).

use std::collections::HashMap;

use super::address::path_in;
use super::output::literal;
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::{SourceFiles, Statement};

/// The most lines of a list.
const LINES_MAX: usize = 10_000;

/// Certificates with their keys, by the names that `crt` has for them: `@STORE/FILE` or `@STORE/ALIAS`.
pub(super) type CertificateStores = HashMap<String, TomlValue>;

/// Reads `crt-store` sections.
pub(super) fn stores(ledger: &Ledger, sections: &[&Statement]) -> CertificateStores {
    let mut stores = CertificateStores::new();
    for section in sections {
        let store = ledger.words(section).text().unwrap_or_default();
        ledger.exact(section);
        let base = |name: &str| {
            let line = section.children().iter().find(|line| line.name() == name)?;
            ledger.exact(line);
            ledger.words(line).text()
        };
        let (certificates, keys) = (base("crt-base"), base("key-base"));
        for line in section.children().iter().filter(|line| line.name() == "load") {
            let mut words = ledger.words(line);
            let Some(file) = words.value_of("crt") else {
                ledger.unsupported(line, "name the file of the certificate");
                continue;
            };
            let key = words.value_of("key");
            let path = path_in(certificates, file);
            let key_path = key.map_or_else(|| path.clone(), |key| path_in(keys, key));
            let mut entries = vec![
                ("certificate".to_owned(), TomlValue::from(literal(&path))),
                ("key".to_owned(), literal(&key_path).into()),
            ];
            if let Some(response) = words.value_of("ocsp") {
                entries.push(("ocsp".to_owned(), literal(&path_in(certificates, response)).into()));
            }
            let names = [Some(file), words.value_of("alias")];
            ledger.exact(line);
            for name in names.into_iter().flatten() {
                stores.insert(format!("@{store}/{name}"), TomlValue::Inline(entries.clone()));
            }
        }
    }
    stores
}

/// What a `crt-list` comes to.
#[derive(Default)]
pub(super) struct CertificateList {
    pub(super) certificates: Vec<TomlValue>,
    /// Authorities of clients that lines ask for a certificate.
    pub(super) authorities: Vec<String>,
    /// What is not said.
    pub(super) losses: Vec<&'static str>,
    /// What is only nearly so.
    pub(super) notes: Vec<&'static str>,
}

/// Reads a `crt-list`: a certificate in each line, with options in brackets and names behind it.
pub(super) fn list(
    path: &str,
    files: &dyn SourceFiles,
    named: &dyn Fn(&str) -> TomlValue,
) -> Result<CertificateList, String> {
    let text = files.read(path).map_err(|error| format!("cannot read {path} ({error}): import it with the file, or list the certificates in `tls.certificates`"))?;
    let mut list = CertificateList::default();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let certificate = named(words.next().unwrap_or_default());
        if !list.certificates.contains(&certificate) {
            list.certificates.push(certificate);
        }
        let rest = line.split_once(char::is_whitespace).map_or("", |(_, rest)| rest.trim());
        let (options, names) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((options, names)) => (options, names),
            None => ("", rest),
        };
        list.options(options);
        if !names.trim().is_empty() {
            list.note("a certificate is for the names in it, not for those of the list");
        }
        if list.certificates.len() > LINES_MAX {
            return Err(format!("{path} has more than {LINES_MAX} certificates: put them into a folder"));
        }
    }
    Ok(list)
}

impl CertificateList {
    fn note(&mut self, note: &'static str) {
        if !self.notes.contains(&note) {
            self.notes.push(note);
        }
    }

    fn options(&mut self, options: &str) {
        let mut words = options.split_whitespace();
        while let Some(word) = words.next() {
            match word {
                "alpn" | "npn" | "ciphers" | "ciphersuites" | "curves" | "ecdhe" | "ssl-min-ver"
                | "ssl-max-ver" => {
                    words.next();
                    self.note("versions, suites and protocols are those of the listener, for all names");
                }
                "ca-file" => self.authorities.extend(words.next().map(str::to_owned)),
                "verify" => {
                    if words.next() != Some("none") && !self.losses.contains(&ALL_NAMES) {
                        self.losses.push(ALL_NAMES);
                    }
                }
                _ => {
                    if !self.losses.contains(&NO_KEY) {
                        self.losses.push(NO_KEY);
                    }
                }
            }
        }
    }
}

/// What becomes of a certificate that only clients of some names need.
pub(super) const ALL_NAMES: &str = "a listener asks the clients of all names for a certificate, or of none: until then, of all; give these names an address of their own";
const NO_KEY: &str = "`tls.certificates` has no such option for one certificate";
