//! `Caddyfile`: read as Caddy reads it, and said in the words of Weir.
//!
//! Sites become listeners by their ports, and routes by their hosts. Directives are taken in the order in which Caddy carries them out, so routes
//! stand in that order and the listener goes by it (`route_order = "file"`), unless no two of them are for one host.

mod sites;
mod routes;
mod settings;
mod auth;
mod responses;
mod errors;
mod logs;
mod files;
mod proxy;
mod scope;
mod fields;
mod order;
mod address;
mod options;
mod variables;
mod words;
mod matchers;
mod placeholders;
mod parse;

use crate::document::Draft;
use crate::report::Ledger;
use crate::source::{ImportError, SourceFiles};

use options::CaddyOptions;

/// Networks of private addresses, as Caddy's `private_ranges` has them.
const PRIVATE: [&str; 6] =
    ["192.168.0.0/16", "172.16.0.0/12", "10.0.0.0/8", "127.0.0.0/8", "fd00::/8", "::1"];

pub(crate) fn translate(
    names: &[&str],
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Draft, ImportError> {
    let mut draft = Draft::default();
    let Some(name) = names.first() else { return Ok(draft) };
    let mut text = parse::parse(name, files, ledger)?;
    variables::replace(&mut text.sites, &mut draft, ledger);
    let options = match &text.options {
        Some(statement) => options::read(statement, &mut draft, ledger),
        None => CaddyOptions::default(),
    };
    sites::translate(&text.sites, &options, &mut draft, ledger);
    Ok(draft)
}

/// Networks in the words of Weir.
fn networks(words: &[&str]) -> Result<Vec<String>, String> {
    let mut networks: Vec<String> = Vec::new();
    for word in words {
        let own = match *word {
            "private_ranges" => PRIVATE.map(str::to_owned).to_vec(),
            word => {
                let (address, bits) = word.split_once('/').unwrap_or((word, "32"));
                if address.parse::<std::net::IpAddr>().is_err() || bits.parse::<u8>().is_err() {
                    return Err(format!("`{word}` is no network"));
                }
                vec![crate::networks::network(word)]
            }
        };
        networks.extend(own);
    }
    let mut known = std::collections::HashSet::new();
    networks.retain(|network| known.insert(network.clone()));
    Ok(networks)
}

/// A time of Go, such as `1m30s` or `1d`, in the largest unit that says it.
fn duration(text: &str) -> Option<String> {
    let mut milliseconds: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let amount: u64 = rest[..digits].parse().ok()?;
        let unit_len = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let factor = match &rest[digits..digits + unit_len] {
            "ms" => 1,
            "s" => 1000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            _ => return None,
        };
        milliseconds = milliseconds.checked_add(amount.checked_mul(factor)?)?;
        rest = &rest[digits + unit_len..];
    }
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let (unit, name) =
        units.into_iter().find(|(unit, _)| milliseconds >= *unit && milliseconds.is_multiple_of(*unit))?;
    Some(format!("{}{name}", milliseconds / unit))
}

/// A text as a name of Weir: letters, digits, `-`, `_` and `.`, at most 64 of them.
fn name(text: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = text.chars().map(|c| if is_of_name(c) { c } else { '-' }).take(60).collect();
    match name.trim_matches(['-', '.']) {
        "" => "app".to_owned(),
        name => name.to_owned(),
    }
}

/// Whether a text without a telling name begins like a Caddyfile.
pub(crate) fn looks_like(text: &str) -> bool {
    let directives =
        ["reverse_proxy", "file_server", "php_fastcgi", "encode", "respond", "handle", "tls", "root"];
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let has_block = lines().any(|line| line.ends_with('{') && !line.contains(';'));
    let has_directive = lines().any(|line| {
        let word = line.split_whitespace().next().unwrap_or_default();
        directives.contains(&word) && !line.ends_with(';')
    });
    has_directive && (has_block || lines().next().is_some_and(|line| line.contains(['.', ':'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_one_unit() {
        for (text, expected) in
            [("90s", "90s"), ("1m30s", "90s"), ("60s", "1m"), ("1d", "1d"), ("500ms", "500ms")]
        {
            assert_eq!(duration(text).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "s", "5", "1w", "99999999999999999999s"] {
            assert_eq!(duration(bad), None, "{bad}");
        }
    }
}
