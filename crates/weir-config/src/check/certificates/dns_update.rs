//! Dynamic updates of DNS: a server that can be reached, names that are names, and a key that can sign.

use std::path::Path;

use data_encoding::BASE64;

use crate::check::files::Files;
use crate::config::{AccountSecret, DnsUpdate, TsigAlgorithm, TsigKey};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{AcmeText, DnsUpdateText};
use crate::value::ServerAddress;

const ALGORITHMS: [TsigAlgorithm; 3] =
    [TsigAlgorithm::HmacSha256, TsigAlgorithm::HmacSha384, TsigAlgorithm::HmacSha512];

const DNS_PORT: u16 = 53;

/// The longest name (RFC 1035 section 2.3.4).
const NAME_LEN_MAX: usize = 253;

const LABEL_LEN_MAX: usize = 63;

pub(in crate::check) fn check(
    text: &SpannedTable<DnsUpdateText>,
    acme: &AcmeText,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<DnsUpdate> {
    let value = &text.value;
    let server = value.server.as_ref().and_then(|server| server_address(server, diagnostics));
    let zone = value.zone.as_ref().and_then(|zone| dns_name(zone, "zone", diagnostics));
    let key = key(text, files, diagnostics);
    Some(DnsUpdate {
        server: server?,
        zone,
        key: key?,
        ttl: value.ttl,
        timeout: acme.dns_timeout,
        wait: acme.dns_wait,
    })
}

/// The server, with the usual port where there is none.
fn server_address(text: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<ServerAddress> {
    let bare = text.value.trim_start_matches('[').trim_end_matches(']');
    let forms = [text.value.to_string(), format!("{bare}:{DNS_PORT}"), format!("[{bare}]:{DNS_PORT}")];
    let found = forms.iter().find_map(|form| form.parse().ok());
    let found = found.filter(|found| !matches!(found, ServerAddress::Unix(_)));
    if found.is_none() {
        let message = format!("`{}` is not the address of a name server", text.value);
        let help = "write one such as `\"192.0.2.53\"`, `\"ns1.example.com\"` or `\"[2001:db8::53]:5353\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help));
    }
    found
}

/// A name in lower case, without a dot at its end.
fn dns_name(text: &Spanned<Box<str>>, what: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Box<str>> {
    let name = text.value.trim_end_matches('.').to_ascii_lowercase();
    if is_dns_name(&name) {
        return Some(name.into());
    }
    let message = format!("`{}` is not the name of a {what}", text.value);
    let help = "names are labels of letters, digits, `-` and `_`, with dots between them";
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help));
    None
}

fn is_dns_name(name: &str) -> bool {
    let is_label = |label: &str| {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        !label.is_empty() && label.len() <= LABEL_LEN_MAX && label.bytes().all(is_plain)
    };
    name.len() <= NAME_LEN_MAX && name.split('.').all(is_label)
}

fn key(
    text: &SpannedTable<DnsUpdateText>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<TsigKey> {
    let value = &text.value;
    let named = value.key_name.as_ref().and_then(|name| dns_name(name, "key", diagnostics));
    let file = value.key_file.as_ref()?;
    let path = files.path(file);
    if !files.may_read {
        return Some(TsigKey {
            name: named?,
            algorithm: value.algorithm.unwrap_or_default(),
            secret: AccountSecret(Box::default()),
        });
    }
    let read = read_key(&path).map_err(|(kind, problem)| {
        diagnostics.push(Diagnostic::new(kind, file.span, format!("`{}`: {problem}", path.display())));
    });
    let read = read.ok()?;
    let mut conflict = |key: &str, own: &str, of_file: &str| {
        let message = format!("`{key}` is `{own}`, but the key in `{}` is for `{of_file}`", path.display());
        let help = format!("remove `{key}`, or name the file of the other key");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), message).help(help));
    };
    if let (Some(own), Some(of_file)) = (&named, &read.name)
        && own != of_file
    {
        conflict("key_name", own, of_file);
    }
    if let (Some(own), Some(of_file)) = (value.algorithm, read.algorithm)
        && own != of_file
    {
        conflict("algorithm", own.name(), of_file.name());
    }
    let Some(name) = named.or(read.name) else {
        if value.key_name.is_none() {
            let message = format!("the key has no name: `{}` has only the secret", path.display());
            let help = "write `key_name`, the name under which the server knows the key";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
        }
        return None;
    };
    let algorithm = value.algorithm.or(read.algorithm).unwrap_or_default();
    Some(TsigKey { name, algorithm, secret: AccountSecret(read.secret) })
}

/// What a file says of a key.
#[derive(Debug, PartialEq, Eq)]
struct KeyFile {
    name: Option<Box<str>>,
    algorithm: Option<TsigAlgorithm>,
    secret: Box<[u8]>,
}

fn read_key(path: &Path) -> Result<KeyFile, (DiagnosticKind, String)> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| (DiagnosticKind::Unreadable, format!("the key cannot be read: {error}")))?;
    parse_key(&text).map_err(|problem| (DiagnosticKind::BadValue, problem))
}

/// Reads the secret alone, or a clause `key` of BIND or Knot DNS: both are words with their values behind them.
fn parse_key(text: &str) -> Result<KeyFile, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#') && !line.starts_with("//"));
    let words: Vec<&str> = lines
        .flat_map(|line| line.split(|c: char| c.is_whitespace() || "{};\"".contains(c)))
        .map(|word| word.trim_end_matches(':'))
        .filter(|word| !word.is_empty() && *word != "-")
        .collect();
    let behind = |word: &str| {
        let place = words.iter().position(|known| *known == word)?;
        words.get(place + 1).copied()
    };
    let (name, algorithm, secret) = match &words[..] {
        [] => return Err("the file is empty".to_owned()),
        [only] => (None, None, *only),
        _ => {
            let secret = behind("secret").ok_or("this is no key: there is no `secret` in it")?;
            (behind("id").or_else(|| behind("key")), behind("algorithm"), secret)
        }
    };
    if words.iter().filter(|word| **word == "secret").count() > 1 {
        return Err("there are several keys in it".to_owned());
    }
    let decoded = BASE64.decode(secret.as_bytes()).ok().filter(|secret| !secret.is_empty());
    let name = name.map(|name| name.trim_end_matches('.').to_ascii_lowercase());
    if let Some(name) = name.as_ref().filter(|name| !is_dns_name(name)) {
        return Err(format!("`{name}` is not the name of a key"));
    }
    let algorithm = algorithm.map(|word| {
        let word = word.trim_end_matches('.').to_ascii_lowercase();
        let known = ALGORITHMS.into_iter().find(|known| known.name() == word);
        known.ok_or_else(|| format!("`{word}` cannot be used: use hmac-sha256, hmac-sha384 or hmac-sha512"))
    });
    Ok(KeyFile {
        name: name.map(Into::into),
        algorithm: algorithm.transpose()?,
        secret: decoded.ok_or("the secret is not base64")?.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_bind_and_knot_and_bare_secrets_are_read() {
        let whole = KeyFile {
            name: Some("acme".into()),
            algorithm: Some(TsigAlgorithm::HmacSha512),
            secret: (*b"secret//").into(),
        };
        let bind = "# made by tsig-keygen\nkey \"acme\" {\n\talgorithm hmac-sha512;\n\tsecret \"c2VjcmV0Ly8=\";\n};\n";
        let knot = "# hmac-sha512:acme.:c2VjcmV0Ly8=\nkey:\n  - id: acme.\n    algorithm: hmac-sha512\n    secret: c2VjcmV0Ly8=\n";
        assert_eq!(parse_key(bind).unwrap(), whole);
        assert_eq!(parse_key(knot).unwrap(), whole);
        let bare = KeyFile { name: None, algorithm: None, secret: (*b"secret//").into() };
        assert_eq!(parse_key("c2VjcmV0Ly8=\n").unwrap(), bare);
        for (text, expected) in [
            ("", "is empty"),
            ("hello world", "no `secret`"),
            ("not+base64!", "not base64"),
            ("key k { algorithm hmac-md5; secret \"c2VjcmV0\"; };", "`hmac-md5` cannot be used"),
        ] {
            let error = parse_key(text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let two = format!("{bind}{}", bind.replace("acme", "other"));
        assert!(parse_key(&two).unwrap_err().contains("several keys"));
    }
}
