//! The documents about the metrics, compared with the metrics: `docs/metrics.md` is made here, and the dashboard for Grafana asks for
//! nothing that does not exist. `UPDATE=1` writes the page anew.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::{ParsedFamily, read, rendered, small_fixture};

const HEAD: &str = include_str!("metrics_head.md");

/// The parts of the page: the beginning of the names after `weir_`, and the text about them.
const PARTS: &[(&str, &str)] = &[
    ("build", "The program"),
    ("config", "The config and its reloads"),
    ("admin", "The admin listener"),
    ("acme", "Certificates by ACME"),
    ("trace", "Traces"),
    ("process", "The process"),
    ("log", "Weir's own log"),
    ("worker", "Workers"),
    ("listener", "Listeners"),
    ("route", "Routes"),
    ("map", "Maps"),
    ("limit", "Limits by key"),
    ("table", "Tables of counters"),
    ("cache", "Caches"),
    ("upstream", "Upstreams"),
    ("server", "Servers"),
];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The unit of the values, as the name says it.
fn unit(family: &ParsedFamily) -> &'static str {
    let name = family.name.strip_suffix("_total").unwrap_or(&family.name);
    match name {
        _ if name.ends_with("_timestamp_seconds") || name == "process_start_time_seconds" => {
            "seconds since 1970"
        }
        _ if name.ends_with("_seconds") => "seconds",
        _ if name.ends_with("_bytes") => "bytes",
        _ => "",
    }
}

fn labels(family: &ParsedFamily) -> Vec<&str> {
    let mut labels: Vec<&str> = Vec::new();
    for name in family.samples.iter().flat_map(|sample| sample.labels.keys()) {
        if name != "le" && !labels.contains(&name.as_str()) {
            labels.push(name);
        }
    }
    // Labels of the owner come first.
    let rank = |label: &&str| {
        ["worker", "listener", "route", "map", "limit", "table", "cache", "upstream", "server"]
            .iter()
            .position(|first| first == label)
            .unwrap_or(10)
    };
    labels.sort_by_key(rank);
    labels
}

/// The names of the process are those of other programs too, without ours in front. What is wrong with the program itself is of the process.
fn is_of(family: &ParsedFamily, part: &str) -> bool {
    if family.name == "weir_framing_violations_total" {
        return part == "process";
    }
    family.name.strip_prefix("weir_").unwrap_or(&family.name).starts_with(&format!("{part}_"))
}

fn page(families: &[ParsedFamily]) -> String {
    let mut page = HEAD.to_owned();
    for (part, heading) in PARTS {
        let of_part: Vec<&ParsedFamily> = families.iter().filter(|family| is_of(family, part)).collect();
        if of_part.is_empty() {
            continue;
        }
        page.push_str(&format!(
            "\n## {heading}\n\n| family | type | unit | labels | meaning |\n|---|---|---|---|---|\n"
        ));
        for family in of_part {
            let labels: Vec<String> = labels(family).iter().map(|label| format!("`{label}`")).collect();
            let ParsedFamily { name, kind, help, .. } = family;
            page.push_str(&format!(
                "| `{name}` | {kind} | {} | {} | {help} |\n",
                unit(family),
                labels.join(" ")
            ));
        }
    }
    page
}

#[test]
fn the_page_of_metrics_is_current() {
    let text = rendered(&small_fixture());
    let families = read(&text);
    for family in &families {
        assert!(!family.samples.is_empty(), "{} has no sample here, so its labels stay unknown", family.name);
        let known = PARTS.iter().any(|(part, _)| is_of(family, part));
        assert!(known, "{} belongs to no part of the page", family.name);
    }
    let (page, file) = (page(&families), docs().join("metrics.md"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(found == page, "docs/metrics.md is stale: run `cargo xtask generate`");
}

/// Every `expr` and `query` of the dashboard, however deep.
fn queries<'a>(value: &'a serde_json::Value, found: &mut Vec<&'a str>) {
    match value {
        serde_json::Value::Object(object) => {
            for (key, value) in object {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "definition" => found.push(text),
                    _ => queries(value, found),
                }
            }
        }
        serde_json::Value::Array(list) => list.iter().for_each(|value| queries(value, found)),
        _ => {}
    }
}

/// The words of a query that could be names.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|char: char| !char.is_ascii_alphanumeric() && char != '_').filter(|word| !word.is_empty())
}

/// The labels that a query groups by.
fn grouped_by(query: &str) -> BTreeSet<&str> {
    let lists = query.split("by (").skip(1).map(|rest| rest.split(')').next().unwrap_or_default());
    lists.flat_map(|list| list.split(',')).map(str::trim).collect()
}

#[test]
fn the_dashboard_asks_for_existing_metrics() {
    let text = rendered(&small_fixture());
    let families: BTreeMap<String, ParsedFamily> =
        read(&text).into_iter().map(|family| (family.name.clone(), family)).collect();
    let file = std::fs::read_to_string(docs().join("grafana/weir.json")).unwrap();
    let dashboard: serde_json::Value = serde_json::from_str(&file).unwrap();
    let mut found = Vec::new();
    queries(&dashboard, &mut found);
    assert!(found.len() > 45, "only {} queries", found.len());
    for family in [
        "weir_upstream_status_responses_total",
        "process_open_fds",
        "weir_worker_local_connect_errors_total",
        "weir_log_lines_dropped_total",
    ] {
        assert!(found.iter().any(|query| query.contains(family)), "{family} is not shown");
    }
    for query in found {
        let mut known: BTreeSet<&str> = BTreeSet::from(["le", "instance", "job"]);
        let mut asked = 0;
        for word in words(query).filter(|word| word.starts_with("weir_") || word.starts_with("process_")) {
            let base = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| word.strip_suffix(suffix));
            let histogram =
                base.and_then(|base| families.get(base)).filter(|family| family.kind == "histogram");
            let family = histogram.or_else(|| families.get(word).filter(|family| family.kind != "histogram"));
            let family = family.unwrap_or_else(|| panic!("there is no metric {word}: {query}"));
            known.extend(labels(family));
            asked += 1;
        }
        assert!(asked > 0, "{query} asks for nothing");
        let unknown: Vec<&str> = grouped_by(query).difference(&known).copied().collect();
        assert!(unknown.is_empty(), "{unknown:?} are no labels in {query}");
    }
}
