//! `ssl_*`: TLS with clients, and the choices that `proxy_ssl_*` has as well.

use super::scope::Scope;
use super::units;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

// OpenSSL's names and lists of suites.
mod ciphers;

/// Certificates and settings of a server with `listen ... ssl`; called for each server, the default one first.
pub(in crate::nginx) fn apply(scope: &Scope<'_>, _draft: &mut Draft, listener: &mut DraftTable) {
    certificates(scope, listener);
    let tls = listener.table("tls");
    if let Some(statement) = scope.one("ssl_protocols") {
        versions(scope, statement, tls);
    }
    if let Some(statement) = scope.one("ssl_ciphers") {
        cipher_suites(scope, statement, tls);
    }
    if let Some((statement, text)) = scope.text("ssl_ecdh_curve") {
        groups(scope, statement, text, tls);
    }
    sessions(scope, tls);
    clients(scope, tls);
    other(scope, tls);
    if tls.is_empty() {
        listener.remove("tls");
    }
}

/// `ssl_certificate` and its key, of which a server may have several pairs.
fn certificates(scope: &Scope<'_>, listener: &mut DraftTable) {
    let certificates = scope.all("ssl_certificate");
    let keys = scope.all("ssl_certificate_key");
    let stapled = scope.text("ssl_stapling_file");
    for (index, statement) in certificates.iter().enumerate() {
        let certificate = scope.words(statement).text().unwrap_or_default();
        let Some(key_statement) = keys.get(index) else {
            scope
                .ledger
                .unsupported(statement, "its key is not in the file: name it (`key` of the certificate)");
            continue;
        };
        let key = scope.words(key_statement).text().unwrap_or_default();
        if certificate.contains('$')
            || key.contains('$')
            || certificate.starts_with("data:")
            || key.starts_with("engine:")
            || key.starts_with("store:")
        {
            let advice = "name the files, or a folder of them (`directory`)";
            scope.ledger.unsupported(statement, advice);
            scope.ledger.unsupported(key_statement, advice);
            continue;
        }
        let mut entry = vec![("certificate".to_owned(), certificate.into()), ("key".to_owned(), key.into())];
        if let Some((stapled_statement, file)) = stapled {
            entry.push(("ocsp".to_owned(), file.into()));
            scope.ledger.exact(stapled_statement);
        }
        listener.table("tls").push_once("certificates", TomlValue::Inline(entry), statement);
        scope.ledger.exact(statement);
        scope.ledger.exact(key_statement);
    }
    if let Some((statement, _)) = scope.text("ssl_password_file") {
        scope.ledger.unsupported(statement, "store the key without a password, readable for its owner only");
    }
    if let Some((statement, text)) = scope.text("ssl_reject_handshake") {
        if text == "on" {
            scope.ledger.approximated(statement, REFUSED_NAMES);
        } else {
            scope.ledger.by_default(statement, "handshakes are not refused by name");
        }
    }
}

const REFUSED_NAMES: &str = "handshakes are refused for names that no certificate is for, whatever `server_name` says, and not for others";

/// The default server of an address refuses handshakes: those of clients that name no other.
pub(in crate::nginx) fn refuse_names(scope: &Scope<'_>, listener: &mut DraftTable) {
    if let Some((statement, "on")) = scope.text("ssl_reject_handshake") {
        listener.table("tls").set("unknown_names", "refused", statement);
    }
}

/// `ssl_protocols`.
pub(super) fn versions(scope: &Scope<'_>, statement: &Statement, table: &mut DraftTable) {
    let words: Vec<String> =
        scope.ledger.words(statement).rest().iter().map(|word| word.text.to_ascii_lowercase()).collect();
    let has = |name: &str| words.iter().any(|word| word == name);
    let old =
        words.iter().any(|word| matches!(word.as_str(), "sslv2" | "sslv3" | "tlsv1" | "tlsv1.0" | "tlsv1.1"));
    let list: Vec<&str> = [("tlsv1.2", "1.2"), ("tlsv1.3", "1.3")]
        .into_iter()
        .filter(|(name, _)| has(name))
        .map(|(_, version)| version)
        .collect();
    match list.as_slice() {
        [] => {
            return scope
                .ledger
                .unsupported(statement, "versions before TLS 1.2 are not supported (RFC 8996)");
        }
        [_] => table.set("versions", list, statement),
        _ if !old => return scope.ledger.by_default(statement, "TLS 1.2 and 1.3"),
        _ => {}
    }
    if old {
        scope.ledger.approximated(statement, "clients need TLS 1.2 at least (RFC 8996)");
    } else {
        scope.ledger.exact(statement);
    }
}

/// `ssl_ciphers`.
pub(super) fn cipher_suites(scope: &Scope<'_>, statement: &Statement, table: &mut DraftTable) {
    let text: String = scope
        .ledger
        .words(statement)
        .rest()
        .iter()
        .map(|word| word.text.as_str())
        .collect::<Vec<_>>()
        .join(":");
    let choice = ciphers::choice(&text);
    match choice.suites.len() {
        0 => {
            return scope.ledger.approximated(
                statement,
                "none of these suites is one of Weir's, which all have forward secrecy and AEAD: those of TLS 1.2 that it has stay available",
            );
        }
        6 => {}
        _ => {
            let mut suites: Vec<&str> = ciphers::TLS13.to_vec();
            suites.extend(choice.suites.iter().copied());
            table.set("cipher_suites", suites, statement);
        }
    }
    if choice.has_others {
        scope.ledger.approximated(statement, "suites with CBC, without forward secrecy or with DHE do not exist here: clients that know no others cannot connect");
    } else if choice.suites.len() == 6 {
        scope.ledger.by_default(statement, "all of these suites, and no others");
    } else {
        scope.ledger.exact(statement);
    }
}

/// `ssl_ecdh_curve`.
fn groups(scope: &Scope<'_>, statement: &Statement, text: &str, table: &mut DraftTable) {
    if text == "auto" {
        return scope.ledger.by_default(statement, "the usual groups, with ML-KEM");
    }
    let mut list = Vec::new();
    let mut others = false;
    for name in text.split(':') {
        match name.to_ascii_lowercase().as_str() {
            "x25519" => list.push("x25519"),
            "prime256v1" | "secp256r1" | "p-256" => list.push("secp256r1"),
            "secp384r1" | "p-384" => list.push("secp384r1"),
            "x25519mlkem768" => list.push("X25519MLKEM768"),
            "secp256r1mlkem768" => list.push("SecP256r1MLKEM768"),
            _ => others = true,
        }
    }
    if list.is_empty() {
        return scope.ledger.approximated(statement, "the default groups are used: Weir does not have these");
    }
    table.set("groups", list, statement);
    if others {
        scope
            .ledger
            .approximated(statement, "the groups that Weir does not have (such as secp521r1) are left out");
    } else {
        scope.ledger.exact(statement);
    }
}

/// Sessions that are resumed.
fn sessions(scope: &Scope<'_>, table: &mut DraftTable) {
    let ledger = scope.ledger;
    if let Some(statement) = scope.one("ssl_session_cache") {
        let words = scope.words(statement).rest();
        let shared = words
            .iter()
            .find_map(|word| word.text.strip_prefix("shared:")?.split(':').nth(1))
            .and_then(units::bytes);
        match (shared, words.first().map(|word| word.text.as_str())) {
            // A mebibyte has about 4000 sessions.
            (Some(bytes), _) => {
                let sessions = i64::try_from(bytes.saturating_mul(4000) >> 20)
                    .unwrap_or(10_000_000)
                    .clamp(1, 10_000_000);
                table.set("session_cache", sessions, statement);
                ledger.exact(statement);
            }
            (None, Some("off" | "none")) => {
                table.set("session_cache", "off", statement);
                ledger.exact(statement);
            }
            _ => ledger.by_default(statement, "10 000 sessions are kept"),
        }
    }
    if let Some((statement, text)) = scope.text("ssl_session_tickets") {
        if text == "off" {
            table.set("session_tickets", false, statement);
            ledger.exact(statement);
        } else {
            ledger.by_default(statement, "clients may resume sessions by ticket");
        }
    }
    for statement in scope.all("ssl_session_ticket_key") {
        let file = scope.words(statement).text().unwrap_or_default();
        table.push_once("ticket_keys", file, statement);
        ledger.exact(statement);
    }
    if let Some((statement, _)) = scope.text("ssl_session_timeout") {
        ledger.meaningless(
            statement,
            "the keys of tickets are changed every 6 hours, and a ticket is good for 12 hours at most",
        );
    }
}

/// Certificates of clients.
fn clients(scope: &Scope<'_>, table: &mut DraftTable) {
    let ledger = scope.ledger;
    let verify = scope.text("ssl_verify_client");
    let asked = verify.filter(|(_, text)| *text != "off");
    if let Some((statement, "off")) = verify {
        ledger.by_default(statement, "clients are not asked for certificates");
    }
    let authority = scope.text("ssl_client_certificate");
    let trusted = scope.text("ssl_trusted_certificate");
    let Some((statement, text)) = asked else {
        for (statement, _) in
            [authority, trusted, scope.text("ssl_crl"), scope.text("ssl_verify_depth")].into_iter().flatten()
        {
            ledger.meaningless(
                statement,
                "clients are not asked for certificates, and Weir fetches no OCSP responses",
            );
        }
        return;
    };
    let Some((authority_statement, file)) = authority.or(trusted) else {
        return ledger.unsupported(statement, "name the authorities of clients (`client_certificates.ca`)");
    };
    let clients = table.table("client_certificates");
    match text {
        "on" => {}
        "optional" => clients.set("verify", "optional", statement),
        _ => clients.set("verify", "optional-no-ca", statement),
    }
    clients.set("ca", file, authority_statement);
    ledger.exact(authority_statement);
    match text {
        "on" => ledger.approximated(
            statement,
            "a client without a valid certificate fails in the handshake, where nginx answers 400",
        ),
        "optional" => ledger.approximated(
            statement,
            "a client with a certificate that is not valid fails in the handshake, where nginx answers 400",
        ),
        _ => ledger.exact(statement),
    }
    if let (Some(_), Some((statement, _))) = (authority, trusted) {
        ledger.unsupported(
            statement,
            "put all authorities of clients into one file (`client_certificates.ca`)",
        );
    }
    if let Some((statement, file)) = scope.text("ssl_crl") {
        clients.set("crl", file, statement);
        ledger.exact(statement);
    }
    if let Some((statement, _)) = scope.text("ssl_verify_depth") {
        ledger.approximated(statement, "chains are followed as far as they lead to an authority");
    }
}

fn other(scope: &Scope<'_>, table: &mut DraftTable) {
    let ledger = scope.ledger;
    if let Some((statement, text)) = scope.text("ssl_prefer_server_ciphers") {
        if text == "on" {
            ledger.by_default(statement, "the order of Weir's suites counts");
        } else {
            ledger.approximated(statement, "the order of Weir's suites counts, which are all strong");
        }
    }
    if let Some((statement, _)) = scope.text("ssl_dhparam") {
        ledger.meaningless(statement, "suites with DHE, which it is for, do not exist here");
    }
    if let Some((statement, text)) = scope.text("ssl_stapling") {
        if text == "on" {
            ledger.approximated(statement, "Weir fetches no OCSP responses: it sends those of the file that `ocsp` of a certificate names");
        } else {
            ledger.by_default(statement, "no OCSP responses are fetched");
        }
    }
    for (name, why) in [
        ("ssl_stapling_verify", "Weir fetches no OCSP responses, and checks those of a file"),
        ("ssl_stapling_responder", "Weir fetches no OCSP responses"),
        ("ssl_buffer_size", "records have the size that suits what is sent"),
        ("ssl_certificate_cache", "certificates are in memory"),
        ("ssl_handshake_timeout", "handshakes have `timeouts.tls`"),
    ] {
        if let Some(statement) = scope.one(name) {
            ledger.meaningless(statement, why);
        }
    }
    if let Some((statement, text)) = scope.text("ssl_early_data") {
        if text == "on" {
            ledger.approximated(
                statement,
                "early data of TLS 1.3 is not taken: clients need another round trip",
            );
        } else {
            ledger.by_default(statement, "early data of TLS 1.3 is not taken");
        }
    }
    if let Some((statement, text)) = scope.text("ssl_key_log") {
        table.set("key_log", text, statement);
        ledger.exact(statement);
    }
    for statement in scope.all("ssl_conf_command") {
        conf_command(scope, statement);
    }
    if let Some((statement, text)) = scope.text("ssl_ocsp") {
        match text {
            "off" => ledger.by_default(statement, "no authority is asked about certificates of clients"),
            _ => ledger
                .unsupported(statement, "no authority is asked about certificates of clients; use `crl`"),
        }
    }
}

/// `ssl_conf_command NAME VALUE`, which goes to OpenSSL.
fn conf_command(scope: &Scope<'_>, statement: &Statement) {
    let mut words = scope.ledger.words(statement);
    let name = words.text().unwrap_or_default();
    let value = words.text().unwrap_or_default();
    match name.to_ascii_lowercase().as_str() {
        "options"
            if value.split(',').all(|option| {
                matches!(
                    option,
                    "KTLS"
                        | "PrioritizeChaCha"
                        | "NoRenegotiation"
                        | "ServerPreference"
                        | "-SessionTicket"
                        | "NoCompression"
                )
            }) =>
        {
            scope.ledger.meaningless(
                statement,
                "it is an option of OpenSSL; Weir renegotiates and compresses nothing",
            );
        }
        "ciphersuites" => {
            scope.ledger.approximated(statement, "the three suites of TLS 1.3 that Weir has are available");
        }
        "minprotocol" => {
            scope.ledger.approximated(statement, "`versions` says which versions there are: 1.2 and 1.3");
        }
        _ => scope.ledger.unsupported(
            statement,
            "it is an option of OpenSSL; `tls` of the listener has the choices of Weir",
        ),
    }
}
