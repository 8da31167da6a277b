//! Bad configurations and their messages: each `mistakes/NAME.toml` has its `mistakes/NAME.txt`.
//!
//! `UPDATE=1` writes the expected texts anew; read the difference before committing it.

use std::path::{Path, PathBuf};

use weir_config::{CheckedConfig, Colour, Diagnostics};

use crate::{files, is_current, read};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnostics")
}

pub(crate) fn cases() -> Vec<(String, String)> {
    files(&folder(), "toml")
}

fn environment(name: &str) -> Option<String> {
    match name {
        "ADDRESS" => Some("127.0.0.1".to_owned()),
        "PORT" => Some("8080".to_owned()),
        "BROKEN" => Some("10s\"\nbacklog = 1".to_owned()),
        _ => None,
    }
}

pub(crate) fn diagnostics(text: &str) -> Diagnostics {
    CheckedConfig::parse_alone(text, "weir.toml", &environment).diagnostics
}

#[test]
fn every_diagnostic_is_shown_as_expected() {
    let mut stale = Vec::new();
    for (name, text) in cases() {
        let rendered = format!("{}\n", diagnostics(&text).render(Colour::Never));
        let path = folder().join(format!("{name}.txt"));
        if !is_current(&path, &rendered) {
            let expected = if path.exists() { read(&path) } else { String::new() };
            stale.push(format!("--- {name}.txt\n{expected}\n+++ now\n{rendered}"));
        }
    }
    assert!(stale.is_empty(), "run with UPDATE=1 if these are right:\n{}", stale.join("\n"));
}

/// Also where the file is not TOML.
#[test]
fn no_line_shows_a_secret() {
    let (_, text) = cases().into_iter().find(|(name, _)| name == "secrets").expect("there is such a case");
    for text in [
        text.clone(),
        text.replace("\"Bearer hush-2\"", "\"Bearer hush-2"),
        text.replace("\"hush-3\"", "hush-3"),
    ] {
        let diagnostics = diagnostics(&text);
        for shown in [diagnostics.render(Colour::Never), diagnostics.to_string(), diagnostics.to_json()] {
            let found =
                ["hush", "12345678", "f3a9c01b77aa"].into_iter().find(|secret| shown.contains(secret));
            assert_eq!(found, None, "{shown}");
        }
    }
}

#[test]
fn every_bad_configuration_is_refused() {
    for (name, text) in cases() {
        assert!(
            CheckedConfig::parse_alone(&text, "weir.toml", &environment).into_result().is_err(),
            "{name}"
        );
    }
}

#[test]
fn lines_and_json_say_the_same() {
    for (name, text) in cases() {
        let diagnostics = diagnostics(&text);
        let lines: Vec<String> = diagnostics.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), diagnostics.len(), "{name}: one line per mistake");
        let json: serde_json::Value = serde_json::from_str(&diagnostics.to_json()).unwrap();
        for ((line, object), diagnostic) in lines.iter().zip(json.as_array().unwrap()).zip(&diagnostics) {
            let location = &object["location"];
            let start = format!("weir.toml:{}:{}: ", location["line"], location["column"]);
            assert!(line.starts_with(&start), "{name}: {line}");
            assert!(line.contains(object["message"].as_str().unwrap()), "{name}: {line}");
            assert_eq!(object["code"], diagnostic.kind.name());
            assert!(
                text.get(diagnostics.location(diagnostic).span.clone()).is_some(),
                "{name}: a span lies in its file"
            );
        }
    }
}

#[test]
fn colour_changes_nothing_but_colour() {
    for (name, text) in cases() {
        let diagnostics = diagnostics(&text);
        let coloured = diagnostics.render(Colour::Always);
        assert!(coloured.contains("\x1b["), "{name}");
        let mut plain = String::new();
        let mut rest = coloured.as_str();
        while let Some((before, after)) = rest.split_once("\x1b[") {
            plain.push_str(before);
            rest = after.split_once('m').unwrap().1;
        }
        plain.push_str(rest);
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&plain), trimmed(&diagnostics.render(Colour::Never)), "{name}");
    }
}

#[test]
fn a_file_that_is_not_there_is_a_diagnostic() {
    let checked = CheckedConfig::load(Path::new("nowhere/weir.toml"));
    assert!(checked.config.is_none());
    let line = checked.diagnostics.to_string();
    assert!(line.starts_with("nowhere/weir.toml:1:1: error: the file cannot be read: "), "{line}");
}
