//! `ssl` of `bind`, and the defaults of `global`.

use crate::document::TomlValue;
use crate::haproxy::certificates::{self, CertificateStores};
use crate::haproxy::output::{Keys, literal};
use crate::haproxy::process::GlobalFacts;
use crate::haproxy::proxy::ProxySection;
use crate::report::{Ledger, StatementWords};
use crate::source::{SourceFiles, Statement};

/// What the options of a `bind` say about TLS.
#[derive(Default)]
pub(super) struct TlsBind<'s> {
    ssl: bool,
    certificates: Vec<&'s str>,
    lists: Vec<&'s str>,
    pub(super) alpn: Option<&'s str>,
    ciphers: Option<&'s str>,
    ciphersuites: Option<&'s str>,
    verify: Option<&'s str>,
    ca_file: Option<&'s str>,
    crl_file: Option<&'s str>,
    no_tickets: bool,
    no_tls12: bool,
    no_tls13: bool,
    strict_sni: bool,
}

impl<'s> TlsBind<'s> {
    pub(super) fn is_used(&self) -> bool {
        self.ssl
    }

    pub(super) fn has_alpn(&self) -> bool {
        self.alpn.is_some()
    }

    /// Takes a word, if it is about TLS.
    pub(super) fn word(
        &mut self,
        ledger: &Ledger,
        statement: &Statement,
        word: &str,
        words: &mut StatementWords<'s>,
    ) -> bool {
        match word {
            "ssl" => self.ssl = true,
            "crt" => self.certificates.extend(words.text()),
            "crt-list" => self.lists.extend(words.text()),
            "alpn" => self.alpn = words.text(),
            "npn" => {
                words.next();
            }
            "ciphers" => self.ciphers = words.text(),
            "ciphersuites" => self.ciphersuites = words.text(),
            "verify" => self.verify = words.text(),
            "ca-file" => self.ca_file = words.text(),
            "crl-file" => self.crl_file = words.text(),
            "no-tls-tickets" => self.no_tickets = true,
            "no-sslv3" | "no-tlsv10" | "no-tlsv11" | "tls-tickets" => {}
            "no-tlsv12" | "force-tlsv13" => self.no_tls12 = true,
            "no-tlsv13" | "force-tlsv12" => self.no_tls13 = true,
            _ => {
                return self.about_versions(ledger, statement, word, words)
                    || without_key(ledger, statement, word, words);
            }
        }
        true
    }

    /// Takes a word about versions, or what is only nearly the same.
    fn about_versions(
        &mut self,
        ledger: &Ledger,
        statement: &Statement,
        word: &str,
        words: &mut StatementWords<'s>,
    ) -> bool {
        match word {
            "ssl-min-ver" => match words.text() {
                Some("TLSv1.3") => self.no_tls12 = true,
                Some("TLSv1.2") => {}
                _ => ledger
                    .approximated(statement, "TLS 1.2 is the oldest version that Weir speaks (RFC 8996)"),
            },
            "ssl-max-ver" => match words.text() {
                Some("TLSv1.2") => self.no_tls13 = true,
                Some("TLSv1.3") => {}
                _ => {
                    ledger
                        .unsupported(statement, "TLS 1.2 is the oldest version that Weir speaks (RFC 8996)");
                }
            },
            "force-sslv3" | "force-tlsv10" | "force-tlsv11" => {
                ledger.unsupported(statement, "TLS 1.2 is the oldest version that Weir speaks (RFC 8996)");
            }
            "prefer-client-ciphers" | "prefer-server-ciphers" => ledger
                .approximated(statement, "Weir chooses among the suites that both know by its own order"),
            "curves" | "ecdhe" | "sigalgs" | "client-sigalgs" => {
                words.next();
                ledger.approximated(statement, "key exchange and signatures are those of Weir: `tls.groups`");
            }
            "allow-0rtt" => ledger.approximated(
                statement,
                "Weir accepts no early data: such requests come after the handshake",
            ),
            "strict-sni" => self.strict_sni = true,
            _ => return false,
        }
        true
    }

    pub(super) fn write(
        &self,
        proxy: &ProxySection<'s>,
        keys: &mut Keys<'s>,
        statement: &'s Statement,
        in_crt_base: &dyn Fn(&str) -> String,
        in_ca_base: &dyn Fn(&str) -> String,
        (files, stores): (&dyn SourceFiles, &CertificateStores),
    ) {
        let ledger = proxy.ledger;
        let named = |name: &str| match stores.get(name) {
            Some(known) => known.clone(),
            None => certificate(&in_crt_base(name), files),
        };
        for name in
            self.certificates.iter().filter(|name| name.starts_with('@') && !stores.contains_key(**name))
        {
            ledger.unsupported(statement, &format!("there is no `{name}` in a `crt-store`"));
        }
        let mut certificates: Vec<TomlValue> = self.certificates.iter().map(|name| named(name)).collect();
        let authorities = self.listed(ledger, statement, files, &named, &mut certificates);
        if certificates.is_empty() {
            ledger.unsupported(statement, "there is no certificate: name one in `tls.certificates`; until then, clients get one for `localhost`");
            keys.set("tls.internal.hosts", vec!["localhost"], statement);
        } else {
            keys.set("tls.certificates", TomlValue::Array(certificates), statement);
        }
        match (self.no_tls12, self.no_tls13) {
            (true, _) => keys.set("tls.versions", vec!["1.3"], statement),
            (false, true) => keys.set("tls.versions", vec!["1.2"], statement),
            _ => {}
        }
        if self.strict_sni {
            keys.set("tls.unknown_names", "refused", statement);
        }
        self.suites(ledger, keys, statement);
        if self.no_tickets {
            keys.set("tls.session_tickets", false, statement);
        }
        if let Some(verify @ ("required" | "optional")) = self.verify {
            if let Some(file) = self.ca_file {
                keys.set("tls.client_certificates.ca", literal(&in_ca_base(file)), statement);
            } else {
                ledger.unsupported(statement, "`tls.client_certificates` needs the authorities: `ca`");
            }
            if verify == "optional" {
                keys.set("tls.client_certificates.verify", "optional", statement);
            }
            if let Some(file) = self.crl_file {
                keys.set("tls.client_certificates.crl", literal(&in_ca_base(file)), statement);
            }
        } else if let Some(file) = authorities.first() {
            keys.set("tls.client_certificates.ca", literal(&in_ca_base(file)), statement);
        }
        match self.alpn {
            Some(alpn) if !proxy.is_tcp() && !alpn.split(',').any(|protocol| protocol == "h2") => {
                keys.set("http2.enabled", false, statement);
            }
            Some(_) if proxy.is_tcp() => {
                ledger.approximated(statement, "with `mode tcp`, Weir agrees on no protocol by ALPN");
            }
            Some(_) | None => {}
        }
    }

    /// Adds the certificates of lists; the authorities of clients that a list asks for a certificate.
    fn listed(
        &self,
        ledger: &Ledger,
        statement: &Statement,
        files: &dyn SourceFiles,
        named: &dyn Fn(&str) -> TomlValue,
        certificates: &mut Vec<TomlValue>,
    ) -> Vec<String> {
        let mut authorities = Vec::new();
        for path in &self.lists {
            let list = match certificates::list(path, files, named) {
                Ok(list) => list,
                Err(why) => {
                    ledger.unsupported(statement, &why);
                    continue;
                }
            };
            ledger
                .approximated(statement, "the certificates are those of the list at the time of the import");
            list.notes.iter().for_each(|note| ledger.approximated(statement, note));
            list.losses.iter().for_each(|loss| ledger.unsupported(statement, loss));
            certificates.extend(list.certificates);
            if list.losses.contains(&certificates::ALL_NAMES) {
                authorities.extend(list.authorities);
            }
        }
        authorities
    }

    fn suites(&self, ledger: &Ledger, keys: &mut Keys<'s>, statement: &'s Statement) {
        if self.ciphers.is_none() && self.ciphersuites.is_none() {
            return;
        }
        let list = |text: Option<&str>| -> (Vec<&'static str>, bool) {
            let names: Vec<&str> =
                text.unwrap_or_default().split(':').filter(|name| !name.is_empty()).collect();
            let known: Vec<&'static str> = names.iter().filter_map(|name| suite(name)).collect();
            let all = known.len() == names.len();
            (known, all)
        };
        let (mut new, all_new) = list(self.ciphersuites);
        let (old, all_old) = list(self.ciphers);
        if !all_new || !all_old {
            ledger.approximated(
                statement,
                "of the cipher suites, Weir has those with ECDHE and AES-GCM or ChaCha20",
            );
        }
        if self.ciphersuites.is_none() || new.is_empty() {
            new = SUITES[..3].iter().map(|(_, name)| *name).collect();
        }
        let old: Vec<&str> = if self.ciphers.is_none() || old.is_empty() {
            SUITES[3..].iter().map(|(_, name)| *name).collect()
        } else {
            old
        };
        if new.len() + old.len() < SUITES.len() {
            keys.set("tls.cipher_suites", new.into_iter().chain(old).collect::<Vec<_>>(), statement);
        }
    }
}

/// The suites of Weir, with the names that OpenSSL has for them.
const SUITES: [(&str, &str); 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
];

fn suite(name: &str) -> Option<&'static str> {
    SUITES.iter().find(|(openssl, iana)| *openssl == name || *iana == name).map(|(_, iana)| *iana)
}

/// A file with certificate and key, or a folder of such.
fn certificate(path: &str, files: &dyn SourceFiles) -> TomlValue {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_folder = path.ends_with('/')
        || !files.matching(&format!("{path}/*")).is_empty()
        || (!is_file_name(name) && files.read(path).is_err());
    if is_folder {
        return TomlValue::inline([("directory", literal(path.trim_end_matches('/')).into())]);
    }
    let path = literal(path);
    TomlValue::inline([("certificate", path.as_str().into()), ("key", path.as_str().into())])
}

fn is_file_name(name: &str) -> bool {
    [".pem", ".crt", ".cer", ".cert", ".key", ".ecdsa", ".rsa"].iter().any(|end| name.ends_with(end))
}

/// What `global` says for all `bind`s with `ssl`.
pub(super) fn tls_default<'s>(ledger: &'s Ledger, global: &GlobalFacts<'s>, tls: &mut TlsBind<'s>) {
    for line in &global.bind_defaults {
        let mut words = ledger.words(line);
        ledger.exact(line);
        match line.name() {
            "ssl-default-bind-options" => {
                while let Some(word) = words.text() {
                    if !tls.word(ledger, line, word, &mut words) {
                        ledger.unsupported(line, &format!("`{word}`"));
                    }
                }
            }
            "ssl-default-bind-ciphers" => {
                let ciphers = words.text();
                tls.ciphers = tls.ciphers.or(ciphers);
                note_suites(ledger, line, ciphers);
            }
            "ssl-default-bind-ciphersuites" => {
                let suites = words.text();
                tls.ciphersuites = tls.ciphersuites.or(suites);
                note_suites(ledger, line, suites);
            }
            _ => {
                words.rest();
                ledger.approximated(line, "key exchange is by the groups of Weir: `tls.groups`");
            }
        }
    }
}

fn note_suites(ledger: &Ledger, line: &Statement, list: Option<&str>) {
    let all =
        list.unwrap_or_default().split(':').filter(|name| !name.is_empty()).all(|name| suite(name).is_some());
    if !all {
        ledger.approximated(line, "of the cipher suites, Weir has those with ECDHE and AES-GCM or ChaCha20");
    }
}

/// Takes a word that Weir has no key for.
fn without_key(ledger: &Ledger, statement: &Statement, word: &str, words: &mut StatementWords<'_>) -> bool {
    let advice = match word {
        "tls-ticket-keys" => "keys of tickets are files of 80 random bytes: `tls.ticket_keys`",
        "ocsp-update" => "`ocsp` of a certificate is a file with the response",
        "generate-certificates"
        | "ca-sign-file"
        | "ca-sign-pass"
        | "ca-verify-file"
        | "ca-ignore-err"
        | "crt-ignore-err"
        | "ssl-f-use" => "`tls` of a listener has no such key",
        _ => return false,
    };
    if word != "generate-certificates" {
        words.next();
    }
    ledger.unsupported(statement, advice);
    true
}
