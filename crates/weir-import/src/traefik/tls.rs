//! `tls` of the dynamic config and `certificatesResolvers` of the static one, as `tls` of listeners.

use super::tree::{child, is_true, key, names, refuse, value, value_of, values};
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// Certificates, options and resolvers by their names.
#[derive(Default)]
pub(super) struct TraefikTls<'s> {
    certificates: Vec<(TomlValue, &'s Statement)>,
    options: Vec<(&'s str, &'s Statement)>,
    resolvers: Vec<(&'s str, &'s Statement)>,
}

/// What the routers of a listener need.
#[derive(Default)]
pub(super) struct TlsNeeds<'s> {
    /// The resolver that routers name, with the statement that does.
    pub(super) resolver: Option<(&'s str, &'s Statement)>,
    /// Hosts that need a certificate of the resolver.
    pub(super) hosts: Vec<String>,
    /// Whether there are hosts without one.
    pub(super) has_others: bool,
    pub(super) options: Option<&'s str>,
}

impl<'s> TraefikTls<'s> {
    /// Reads `tls` of a dynamic config.
    pub(super) fn read(&mut self, statement: &'s Statement, ledger: &Ledger) {
        for part in statement.children() {
            match key(part).as_str() {
                "certificates" => {
                    part.children().iter().for_each(|item| self.certificate(item, false, ledger));
                }
                "options" => self.options.extend(part.children().iter().map(|own| (own.name(), own))),
                "stores" => {
                    for store in part.children() {
                        self.store(store, ledger);
                    }
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(statement);
    }

    /// Reads `certificatesResolvers`.
    pub(super) fn read_resolvers(&mut self, statement: &'s Statement, ledger: &Ledger) {
        self.resolvers.extend(statement.children().iter().map(|own| (own.name(), own)));
        ledger.exact(statement);
    }

    fn store(&mut self, store: &'s Statement, ledger: &Ledger) {
        if !store.name().eq_ignore_ascii_case("default") {
            return refuse(ledger, store, "there is one store of certificates");
        }
        for part in store.children() {
            match key(part).as_str() {
                "defaultcertificate" => self.certificate(part, true, ledger),
                "defaultgeneratedcert" => {
                    refuse(ledger, part, "name the hosts in `tls.acme.hosts` of the listener");
                }
                _ => {}
            }
        }
        ledger.exact(store);
    }

    fn certificate(&mut self, item: &'s Statement, is_default: bool, ledger: &Ledger) {
        let file = |name: &str| {
            value_of(ledger, item, name).filter(|file| !file.is_empty() && !file.contains("-----BEGIN"))
        };
        let (Some(certificate), Some(own_key)) = (file("certfile"), file("keyfile")) else {
            return refuse(ledger, item, "name a file of the certificate and one of its key");
        };
        let mut entries = vec![
            ("certificate".to_owned(), TomlValue::from(certificate)),
            ("key".to_owned(), own_key.into()),
        ];
        if is_default {
            entries.push(("default".to_owned(), true.into()));
        }
        let is_known = |(known, _): &(TomlValue, &Statement)| *known == TomlValue::Inline(entries.clone());
        if !self.certificates.iter().any(is_known) {
            self.certificates.push((TomlValue::Inline(entries.clone()), item));
        }
        for part in item.children() {
            match key(part).as_str() {
                "certfile" | "keyfile" => ledger.exact(part),
                "stores" => match names(ledger, part).iter().all(|store| *store == "default") {
                    true => ledger.exact(part),
                    false => ledger.unsupported(part, "there is one store of certificates"),
                },
                _ => {}
            }
        }
        ledger.exact(item);
    }

    /// `tls` of a listener. An error is about clients that would get in without a certificate.
    pub(super) fn write(
        &self,
        needs: &TlsNeeds<'s>,
        origin: Option<&'s Statement>,
        table: &mut DraftTable,
        ledger: &Ledger,
    ) -> Result<(), String> {
        let mut tls = DraftTable::default();
        let result = self.options(needs.options, &mut tls, ledger);
        for (certificate, from) in &self.certificates {
            tls.push("certificates", certificate.clone(), from);
        }
        if let Some((name, from)) = needs.resolver {
            let name = name.strip_suffix("@file").unwrap_or(name);
            match self.resolvers.iter().find(|(known, _)| *known == name) {
                Some((_, resolver)) => self.acme(resolver, needs, &mut tls, ledger),
                None => {
                    ledger.approximated(
                        from,
                        "the resolver is in the static config: import that, too; here it is Let's Encrypt",
                    );
                    tls.table("acme").originate(from);
                    acme_hosts(needs, tls.table("acme"));
                }
            }
        }
        if !tls.has("certificates") && !tls.has("acme") {
            if tls.is_empty() {
                match origin {
                    Some(from) => table.set_beside("tls", "internal", from),
                    None => table.set_plain("tls", "internal"),
                }
                return result;
            }
            tls.set_plain("internal", TomlValue::Inline(Vec::new()));
        }
        *table.table("tls") = tls;
        result
    }

    fn acme(&self, resolver: &'s Statement, needs: &TlsNeeds<'s>, tls: &mut DraftTable, ledger: &Ledger) {
        let acme = tls.table("acme");
        let Some(kind) = child(resolver, "acme") else {
            return refuse(ledger, resolver, "certificates come from files, or by ACME");
        };
        acme.originate(resolver);
        for part in kind.children() {
            let text = value(ledger, part);
            match key(part).as_str() {
                "email" => acme.set_beside("email", text, part),
                "caserver" => acme.set_beside("ca", vec![text], part),
                "storage" => {
                    ledger.approximated(
                        part,
                        "certificates are in `tls.acme.directory`: those of `acme.json` are got anew",
                    );
                    continue;
                }
                "keytype" if text == "EC256" => {}
                "keytype" => {
                    ledger.approximated(part, "keys are ECDSA P-256");
                    continue;
                }
                "cacertificates" => match values(ledger, part).as_slice() {
                    [file] => acme.set_beside("ca_root", *file, part),
                    _ => continue,
                },
                "profile" => acme.set_beside("profile", text, part),
                "httpchallenge" => {
                    acme.push_once("challenges", "http-01", part);
                    for own in part.children() {
                        value(ledger, own);
                        ledger.by_default(own, "every listener without TLS answers challenges");
                    }
                }
                "tlschallenge" => {
                    values(ledger, part);
                    acme.push_once("challenges", "tls-alpn-01", part);
                }
                "dnschallenge" => {
                    refuse(
                        ledger,
                        part,
                        "a name server by `dns_update`, or a program by `dns_command`, of `tls.acme`",
                    );
                    continue;
                }
                "eab" => {
                    refuse(ledger, part, "write the key into a file: `external_account` of `tls.acme`");
                    continue;
                }
                "certificatesduration"
                | "preferredchain"
                | "disablecommonname"
                | "clienttimeout"
                | "clientresponseheadertimeout"
                | "emailaddresses" => {
                    values(ledger, part);
                    ledger.approximated(part, "Weir takes what the authority offers, and renews in time");
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(kind);
        ledger.exact(resolver);
        acme_hosts(needs, acme);
    }

    /// The options of a listener.
    fn options(&self, name: Option<&str>, tls: &mut DraftTable, ledger: &Ledger) -> Result<(), String> {
        let name = name.unwrap_or("default");
        let name = name.strip_suffix("@file").unwrap_or(name);
        let Some((_, options)) = self.options.iter().find(|(known, _)| *known == name) else {
            return match name {
                "default" => Ok(()),
                _ => Err(format!("there are no options of TLS of the name `{name}` in these files")),
            };
        };
        let mut result = Ok(());
        for part in options.children() {
            match key(part).as_str() {
                "minversion" => match value(ledger, part) {
                    "VersionTLS12" => {}
                    "VersionTLS13" => tls.set("versions", vec!["1.3"], part),
                    _ => {
                        ledger.approximated(part, "Weir speaks TLS 1.2 and 1.3 (RFC 8996)");
                        continue;
                    }
                },
                "maxversion" => match value(ledger, part) {
                    "VersionTLS13" | "" => {}
                    "VersionTLS12" => tls.set("versions", vec!["1.2"], part),
                    _ => {
                        ledger.unsupported(part, "Weir speaks TLS 1.2 and 1.3");
                        continue;
                    }
                },
                "ciphersuites" => {
                    suites(part, tls, ledger);
                    continue;
                }
                "curvepreferences" => {
                    groups(part, tls, ledger);
                    continue;
                }
                "snistrict" => {
                    if is_true(ledger, part) {
                        tls.set("unknown_names", "refused", part);
                    }
                }
                "alpnprotocols" => {
                    values(ledger, part);
                    ledger.approximated(part, "HTTP/2 and HTTP/1.1 are offered");
                    continue;
                }
                "preferservercipersuites" | "preferserverciphersuites" => {
                    is_true(ledger, part);
                    ledger.by_default(part, "the order is that of the server");
                    continue;
                }
                "disablesessiontickets" => {
                    if is_true(ledger, part) {
                        tls.set("session_tickets", false, part);
                    }
                }
                "clientauth" => {
                    result = client_auth(part, tls, ledger);
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(options);
        result
    }

    /// Options that no listener has have no meaning.
    pub(super) fn settle_unused(&self, ledger: &Ledger) {
        for (_, statement) in self.options.iter().chain(&self.resolvers) {
            super::tree::ignore_unused(ledger, statement, "no router uses it");
        }
    }

    /// Options that a router has and its listener has not.
    pub(super) fn refuse(&self, name: &str, ledger: &Ledger) {
        let name = name.strip_suffix("@file").unwrap_or(name);
        for (_, options) in self.options.iter().filter(|(known, _)| *known == name) {
            refuse(ledger, options, "a listener has the options of TLS for all of its hosts");
        }
    }

    /// Whether options ask clients for certificates.
    pub(super) fn asks_clients(&self, name: &str) -> bool {
        let name = name.strip_suffix("@file").unwrap_or(name);
        self.options.iter().any(|(known, options)| *known == name && child(options, "clientauth").is_some())
    }
}

fn acme_hosts(needs: &TlsNeeds<'_>, acme: &mut DraftTable) {
    if needs.has_others && !needs.hosts.is_empty() {
        acme.set_plain("hosts", needs.hosts.clone());
    }
}

fn suites(part: &Statement, tls: &mut DraftTable, ledger: &Ledger) {
    let known = ["AES_128_GCM_SHA256", "AES_256_GCM_SHA384", "CHACHA20_POLY1305_SHA256"];
    let mut suites: Vec<String> = known.iter().map(|name| format!("TLS_{name}")).collect();
    let mut has_others = false;
    for name in values(ledger, part) {
        let name =
            if name.ends_with("CHACHA20_POLY1305") { format!("{name}_SHA256") } else { name.to_owned() };
        let of_two =
            name.strip_prefix("TLS_ECDHE_ECDSA_WITH_").or_else(|| name.strip_prefix("TLS_ECDHE_RSA_WITH_"));
        match of_two {
            Some(rest) if known.contains(&rest) => suites.push(name),
            _ => has_others |= !suites.contains(&name),
        }
    }
    tls.set("cipher_suites", suites, part);
    match has_others {
        true => ledger
            .approximated(part, "suites without authenticated encryption or without ECDHE are not offered"),
        false => ledger.exact(part),
    }
}

fn groups(part: &Statement, tls: &mut DraftTable, ledger: &Ledger) {
    let mut groups = Vec::new();
    for name in values(ledger, part) {
        match name {
            "X25519" => groups.push("x25519"),
            "CurveP256" => groups.push("secp256r1"),
            "CurveP384" => groups.push("secp384r1"),
            "X25519MLKEM768" => groups.push("X25519MLKEM768"),
            _ => {}
        }
    }
    let has_all = groups.len() == part.words.len() - 1;
    if !groups.is_empty() {
        tls.set("groups", groups, part);
    }
    match has_all {
        true => ledger.exact(part),
        false => ledger.approximated(part, "P-521 is not offered"),
    }
}

fn client_auth(statement: &Statement, tls: &mut DraftTable, ledger: &Ledger) -> Result<(), String> {
    let files = child(statement, "cafiles").map(|part| values(ledger, part)).unwrap_or_default();
    // Authorities alone make them required.
    let usual = if files.is_empty() { "NoClientCert" } else { "RequireAndVerifyClientCert" };
    let kind = value_of(ledger, statement, "clientauthtype").filter(|kind| !kind.is_empty()).unwrap_or(usual);
    for part in statement.children() {
        if matches!(key(part).as_str(), "cafiles" | "clientauthtype") {
            ledger.exact(part);
        }
    }
    let verify = match kind {
        "NoClientCert" => {
            return {
                ledger.exact(statement);
                Ok(())
            };
        }
        "RequireAndVerifyClientCert" => "required",
        "VerifyClientCertIfGiven" => "optional",
        "RequestClientCert" => {
            ledger.approximated(statement, "clients are not asked for a certificate that nothing verifies");
            return Ok(());
        }
        _ => {
            ledger.unsupported(statement, "a certificate has to be verified by an authority: no one gets in");
            return Err("clients need a certificate that Weir cannot ask for".to_owned());
        }
    };
    let [file] = files.as_slice() else {
        ledger.unsupported(
            statement,
            "write all authorities into one file, `client_certificates.ca`: no one gets in",
        );
        return Err("clients need a certificate of several authorities".to_owned());
    };
    let mut entries = vec![("ca".to_owned(), TomlValue::from(*file))];
    if verify != "required" {
        entries.push(("verify".to_owned(), verify.into()));
    }
    tls.set("client_certificates", TomlValue::Inline(entries), statement);
    ledger.exact(statement);
    Ok(())
}
