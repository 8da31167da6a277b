//! `gzip`, `brotli`, `zstd` and `gunzip`.

use super::super::scope::Scope;
use super::super::units;
use crate::document::{DraftTable, TomlValue};

/// The directives of an algorithm: its name in nginx, in Weir, and the key and default of its level there.
const ALGORITHMS: [(&str, &str, &str, i64, i64); 3] = [
    ("gzip", "gzip", "gzip_level", 1, 9),
    ("brotli", "br", "brotli_level", 6, 6),
    ("zstd", "zstd", "zstd_level", 3, 9),
];

pub(super) fn apply(scope: &Scope<'_>, route: &mut DraftTable) {
    let mut algorithms = Vec::new();
    let mut own: Vec<(&str, TomlValue)> = Vec::new();
    for (name, algorithm, level_key, default, most) in ALGORITHMS {
        let Some((statement, text)) = scope.text(name) else { continue };
        if text != "on" {
            scope.ledger.by_default(statement, "responses pass as they are");
            continue;
        }
        algorithms.push(algorithm);
        scope.ledger.exact(statement);
        let written = scope.text(&format!("{name}_comp_level"));
        let level = written.and_then(|(_, text)| text.parse::<i64>().ok()).unwrap_or(default);
        if let Some((statement, _)) = written {
            if level > most {
                scope.ledger.approximated(
                    statement,
                    "the level is the highest that Weir has for what is compressed as it passes",
                );
            } else {
                scope.ledger.exact(statement);
            }
        }
        own.push((level_key, level.clamp(0, most).into()));
    }
    if let Some((statement, text)) = scope.text("gunzip") {
        if text == "on" {
            own.push(("decompress", true.into()));
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "what servers have compressed stays so");
        }
    }
    if algorithms.is_empty() {
        if let Some((key, value)) = own.into_iter().find(|(key, _)| *key == "decompress") {
            // Nothing is compressed: there is no type for it.
            route.table("compression").set_plain("types", Vec::<TomlValue>::new());
            route.table("compression").set_plain(key, value);
        }
        return;
    }
    // The first one that clients want equally: zstd and br are smaller than gzip.
    algorithms.reverse();
    let table = route.table("compression");
    if algorithms.len() < 3 {
        table.set_plain("algorithms", algorithms.clone());
    }
    for (key, value) in own {
        let default = matches!(
            (key, &value),
            ("gzip_level" | "brotli_level", TomlValue::Integer(4)) | ("zstd_level", TomlValue::Integer(3))
        );
        if !default {
            table.set_plain(key, value);
        }
    }
    lengths_and_types(scope, route);
}

fn lengths_and_types(scope: &Scope<'_>, route: &mut DraftTable) {
    let mut least = 20;
    for name in ["gzip_min_length", "brotli_min_length", "zstd_min_length"] {
        if let Some((statement, text)) = scope.text(name)
            && let Some(bytes) = units::bytes(text)
        {
            least = bytes;
            scope.ledger.exact(statement);
        }
    }
    if least != 1024 {
        route.table("compression").set_plain("min_length", units::size(least));
    }
    let mut types = vec!["text/html".to_owned()];
    let mut source = None;
    for name in ["gzip_types", "brotli_types", "zstd_types"] {
        let Some(statement) = scope.one(name) else { continue };
        let mut all_known = true;
        for word in scope.words(statement).rest() {
            let text = word.text.to_ascii_lowercase();
            if text != "*" && !text.contains('/') {
                all_known = false;
            } else if !types.contains(&text) {
                types.push(text);
            }
        }
        source = Some(statement);
        if all_known {
            scope.ledger.exact(statement);
        } else {
            scope.ledger.approximated(statement, "what is no media type is left out");
        }
    }
    if types.iter().any(|text| text == "*") {
        types = vec!["*".to_owned()];
    }
    match source {
        Some(statement) => route.table("compression").set("types", types, statement),
        None => route.table("compression").set_plain("types", types),
    }
    if let Some((statement, text)) = scope.text("gzip_vary") {
        if text == "on" {
            scope
                .ledger
                .by_default(statement, "responses that may be compressed say `Vary: Accept-Encoding`");
        } else {
            scope.ledger.approximated(
                statement,
                "responses that may be compressed say `Vary: Accept-Encoding` all the same",
            );
        }
    }
    if let Some(statement) = scope.one("gzip_proxied") {
        let words = scope.words(statement).rest();
        if words.iter().any(|word| word.text == "any") {
            scope.ledger.by_default(statement, "clients behind proxies get compressed responses, too");
        } else {
            scope.ledger.approximated(statement, "requests with `Via` get compressed responses, too");
        }
    }
}
