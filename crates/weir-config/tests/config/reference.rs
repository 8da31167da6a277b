//! The reference, the schema and the parser say the same.
//!
//! The committed files are compared with the generated ones; `UPDATE=1` writes them anew.

use std::collections::BTreeMap;

use jsonschema::Validator;
use weir_config::{DiagnosticKind, equivalents_markdown, json_schema, order_markdown, reference_markdown};

use crate::diagnostics::{cases, diagnostics};
use crate::{checked, examples, is_current, root};

/// A value that no key accepts.
const WRONG: &str = "1979-05-27";

#[test]
fn the_reference_is_current() {
    let path = root().join("docs/configuration.md");
    assert!(is_current(&path, &reference_markdown()), "docs/configuration.md is stale: run with UPDATE=1");
}

#[test]
fn the_page_of_other_products_is_current() {
    let path = root().join("docs/elsewhere.md");
    assert!(is_current(&path, &equivalents_markdown()), "docs/elsewhere.md is stale: run with UPDATE=1");
}

/// What encloses the generated part of a page.
const GENERATED: [&str; 2] =
    ["<!-- generated: the table of stages -->\n\n", "<!-- end of the generated part -->\n"];

#[test]
fn the_page_of_the_order_is_current() {
    let path = root().join("docs/order.md");
    let page = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = page.split_once(GENERATED[0]).expect("it has the marker");
    let (_, behind) = rest.split_once(GENERATED[1]).expect("it has the marker at the end");
    let generated = [before, GENERATED[0], &order_markdown(), "\n", GENERATED[1], behind].concat();
    assert!(is_current(&path, &generated), "docs/order.md is stale: run with UPDATE=1");
}

/// The keys that the reference documents, by the heading of their table.
fn documented() -> BTreeMap<String, Vec<String>> {
    let page = reference_markdown();
    let mut tables: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut heading = "";
    for line in page.lines() {
        if let Some(title) = line.strip_prefix("### ") {
            heading = title;
        } else if let Some(row) = line.strip_prefix("| `").filter(|row| !row.starts_with('{')) {
            let key = row.split('`').next().unwrap_or_default();
            tables.entry(heading.to_owned()).or_default().push(key.to_owned());
        }
    }
    tables
}

/// The header under which a key of a documented table is written.
fn header(heading: &str) -> String {
    match heading {
        "The top of the file" => String::new(),
        "`[[listener.NAME.route]]`" => "[[listener.web.route]]".to_owned(),
        "`[[listener.NAME.route.split]]`" => {
            "[[listener.web.route]]\n[[listener.web.route.split]]".to_owned()
        }
        "`[[listener.NAME.route.rewrite_body.rules]]`" => {
            "[[listener.web.route]]\n[[listener.web.route.rewrite_body.rules]]".to_owned()
        }
        "`[[listener.NAME.route.rewrite_location]]`" => {
            "[[listener.web.route]]\n[[listener.web.route.rewrite_location]]".to_owned()
        }
        "`[[listener.NAME.route.rewrite_cookies]]`" => {
            "[[listener.web.route]]\n[[listener.web.route.rewrite_cookies]]".to_owned()
        }
        "`[listener.NAME.route.rewrite_cookies.attribute]`" => {
            "[[listener.web.route]]\n[[listener.web.route.rewrite_cookies]]\n\
             [listener.web.route.rewrite_cookies.path]"
                .to_owned()
        }
        "`[[listener.NAME.tls.certificates]]`" => "[[listener.web.tls.certificates]]".to_owned(),
        "`[[listener.NAME.tls.acme.external_account]]`" => {
            "[[listener.web.tls.acme.external_account]]".to_owned()
        }
        "`[[upstream.NAME.servers]]`" => "[[upstream.app.servers]]".to_owned(),
        "`[listener.NAME.route.expires]`" => {
            "[[listener.web.route]]\n[[listener.web.route.expires]]".to_owned()
        }
        "progress" => "[listener.web.timeouts.send]".to_owned(),
        "rule" => "[[listener.web.route]]\n[listener.web.route.header.x]".to_owned(),
        "headers" => "[[listener.web.route]]\n[listener.web.route.request_headers]".to_owned(),
        "hsts" => "[listener.web.hsts]".to_owned(),
        "error_pages" => "[[listener.web.error_pages]]".to_owned(),
        "rewrite" => "[[listener.web.rewrite]]".to_owned(),
        table if table.starts_with("`[listener.NAME.route.") => {
            let rest = table.trim_start_matches("`[listener.NAME.route.").trim_end_matches("]`");
            format!("[[listener.web.route]]\n[listener.web.route.{rest}]")
        }
        table => {
            let path = table.trim_matches(['`', '[', ']']);
            format!(
                "[{}]",
                path.replace("listener.NAME", "listener.web").replace("upstream.NAME", "upstream.app")
            )
        }
    }
}

/// The messages about a document that consists of one table with one key.
fn kinds_at(heading: &str, key: &str) -> Vec<DiagnosticKind> {
    let text = format!("{}\n{key} = {WRONG}\n", header(heading));
    let place = text.rfind(key).expect("the key was just written");
    let diagnostics = checked(&text).diagnostics;
    diagnostics
        .iter()
        .filter(|diagnostic| diagnostics.location(diagnostic).span.start >= place)
        .map(|diagnostic| diagnostic.kind)
        .collect()
}

#[test]
fn every_row_of_the_reference_has_the_cells_of_its_table() {
    let cells = |row: &str| row.replace("\\|", "").matches('|').count();
    let page = reference_markdown();
    let mut columns = None;
    for line in page.lines() {
        if !line.starts_with('|') {
            columns = None;
            continue;
        }
        assert_eq!(cells(line), *columns.get_or_insert(cells(line)), "{line}");
        assert!(line.ends_with('|'), "{line}");
    }
}

#[test]
fn the_examples_of_the_reference_are_strings() {
    let page = reference_markdown();
    let examples: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("For example `")).collect();
    for example in examples.iter().flat_map(|line| line.trim_end_matches("`.").split("`, `")) {
        let parsed = format!("x = {example}").parse::<toml::Table>();
        assert!(parsed.is_ok_and(|table| table["x"].is_str()), "{example}");
    }
    assert!(examples.len() > 10, "{examples:?}");
}

#[test]
fn the_parser_knows_every_key_of_the_reference() {
    let tables = documented();
    assert!(tables.values().map(Vec::len).sum::<usize>() > 90, "{tables:?}");
    for (heading, keys) in &tables {
        for key in keys {
            assert_eq!(kinds_at(heading, key), [DiagnosticKind::WrongType], "{heading}: {key}");
        }
    }
}

#[test]
fn the_reference_knows_every_key_of_the_parser() {
    // Every key of any table, tried in every table: where the parser takes it, the reference has it.
    let tables = documented();
    let all: std::collections::BTreeSet<&String> = tables.values().flatten().collect();
    for (heading, keys) in &tables {
        for key in &all {
            let is_known = kinds_at(heading, key) == [DiagnosticKind::WrongType];
            assert_eq!(is_known, keys.contains(key), "{heading}: {key}");
        }
    }
}

#[test]
fn the_schema_has_the_keys_of_the_reference() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    for (heading, keys) in documented() {
        let path = heading.trim_matches(['`', '[', ']']).to_owned();
        let table = match path.as_str() {
            "The top of the file" => &schema,
            path => &schema["$defs"][format!("table.{path}")],
        };
        let mut in_schema: Vec<&String> =
            table["properties"].as_object().unwrap_or_else(|| panic!("{path}")).keys().collect();
        in_schema.sort();
        let mut keys: Vec<&String> = keys.iter().collect();
        keys.sort();
        assert_eq!(in_schema, keys, "{path}");
    }
}

fn validator() -> Validator {
    let schema = serde_json::from_str(&json_schema()).expect("the schema is JSON");
    jsonschema::validator_for(&schema).expect("the schema is a schema")
}

fn as_json(text: &str) -> Option<serde_json::Value> {
    let table: toml::Table = text.parse().ok()?;
    serde_json::to_value(table).ok()
}

#[test]
fn the_schema_accepts_whatever_the_parser_accepts() {
    let validator = validator();
    let sample = reference_markdown()
        .split("```toml\n")
        .nth(1)
        .and_then(|rest| rest.split("```").next())
        .unwrap()
        .to_owned();
    let texts = examples().into_iter().chain([("sample".to_owned(), sample)]);
    for (name, text) in texts {
        let checked = checked(&text);
        assert!(checked.diagnostics.is_empty(), "{name}: {}", checked.diagnostics);
        for text in [text, checked.print()] {
            let errors: Vec<String> = validator
                .iter_errors(&as_json(&text).unwrap())
                .map(|error| format!("{}: {error}", error.instance_path()))
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:#?}\n{text}");
        }
    }
}

#[test]
fn the_schema_rejects_unknown_keys_and_wrong_types() {
    let validator = validator();
    let mut rejected = 0;
    for (name, text) in cases() {
        let has_kind = |kind| diagnostics(&text).iter().any(|diagnostic| diagnostic.kind == kind);
        let kinds = [
            DiagnosticKind::UnknownKey,
            DiagnosticKind::MisplacedKey,
            DiagnosticKind::NotSupported,
            DiagnosticKind::WrongType,
        ];
        if let Some(json) = as_json(&text).filter(|_| kinds.into_iter().any(has_kind)) {
            assert!(!validator.is_valid(&json), "{name}");
            rejected += 1;
        }
    }
    assert!(rejected >= 3, "{rejected}");
}

#[test]
fn the_schema_takes_variables_for_values_of_any_type() {
    let text = "[process]\nworkers = \"${N:-4}\"\npin_workers = \"${PIN}\"\nstop_grace = \"${GRACE}\"\n";
    assert!(validator().is_valid(&as_json(text).unwrap()));
}

/// The schemas that a value may have, references followed and alternatives taken apart.
fn alternatives<'a>(
    root: &'a serde_json::Value,
    schema: &'a serde_json::Value,
) -> Vec<&'a serde_json::Value> {
    if let Some(reference) = schema["$ref"].as_str() {
        let pointer = reference.strip_prefix('#').expect("the schema refers to itself only");
        return alternatives(root, root.pointer(pointer).expect("the schema is whole"));
    }
    let inner = schema["anyOf"].as_array().into_iter().flatten().chain(schema.get("items"));
    let mut found = vec![schema];
    found.extend(inner.flat_map(|inner| alternatives(root, inner)));
    found
}

/// Whether a key such as `listener.NAME.timeouts.idle` may be written.
fn exists(root: &serde_json::Value, key: &str) -> bool {
    let mut places = alternatives(root, root);
    for part in key.split('.') {
        let inner = places.into_iter().filter_map(|place| match part {
            "NAME" => place.get("additionalProperties").filter(|schema| schema.is_object()),
            _ => place.get("properties")?.get(part),
        });
        places = inner.flat_map(|place| alternatives(root, place)).collect();
    }
    !places.is_empty()
}

#[test]
fn the_explanations_of_failures_name_keys_that_exist() {
    let schema: serde_json::Value = serde_json::from_str(&json_schema()).unwrap();
    for key in ["dns.ttl_min", "listener.NAME.route.limits.body_size", "upstream.NAME.servers.weight"] {
        assert!(exists(&schema, key), "{key}");
    }
    for key in
        ["dns.ttl", "listener.timeouts", "listener.NAME.route.NAME", "upstream.NAME.timeouts.send.idle"]
    {
        assert!(!exists(&schema, key), "{key}");
    }
    let named = weir_observe::config_keys_named();
    let unknown: Vec<&str> = named.iter().copied().filter(|key| !exists(&schema, key)).collect();
    assert!(named.len() > 40 && unknown.is_empty(), "no such keys: {unknown:?}");
}
