//! The reference of scenario files, docs/scenario-files.md, has the keys and values of the parser: no more, no fewer.

use std::collections::{BTreeMap, BTreeSet};

use serde::de::DeserializeOwned;

use super::bar::Bar;
use super::clients::{LadderWork, ReloadWork, SlowClientsWork};
use super::http2::{FloodWork, SlowStreamWork};
use super::soak::SoakWork;
use super::steady::SteadyWork;
use super::work::{
    OutageWork, OverloadWork, PersistenceWork, ProbesWork, QueueWork, SlowWork, UnfinishedWork,
};
use super::{CrowdWork, IdleWork, Rounds, Scenario, Tunnels};
use crate::topology::listener::{ListenerSetup, Tls};
use crate::topology::upstream::{HealthProbes, UpstreamSetup};

const REFERENCE: &str = include_str!("../../../../docs/scenario-files.md");

/// The parser's words about a text that is no `T`.
fn told<T: DeserializeOwned>(text: &str) -> String {
    toml::from_str::<T>(text).err().map_or(String::new(), |error| error.message().to_owned())
}

type Parser = fn(&str) -> String;

const TABLES: [(&str, Parser); 24] = [
    ("The file", told::<Scenario>),
    ("rounds", told::<Rounds>),
    ("listener", told::<ListenerSetup>),
    ("listener.tls", told::<Tls>),
    ("upstream", told::<UpstreamSetup>),
    ("upstream.health", told::<HealthProbes>),
    ("steady", told::<SteadyWork>),
    ("idle", told::<IdleWork>),
    ("idle.tunnels", told::<Tunnels>),
    ("crowd", told::<CrowdWork>),
    ("queue", told::<QueueWork>),
    ("outage", told::<OutageWork>),
    ("overload", told::<OverloadWork>),
    ("slow", told::<SlowWork>),
    ("probes", told::<ProbesWork>),
    ("persistence", told::<PersistenceWork>),
    ("unfinished", told::<UnfinishedWork>),
    ("ladder", told::<LadderWork>),
    ("slow-clients", told::<SlowClientsWork>),
    ("reload", told::<ReloadWork>),
    ("slow-stream", told::<SlowStreamWork>),
    ("flood", told::<FloodWork>),
    ("soak", told::<SoakWork>),
    ("bar", told::<Bar>),
];

/// What stands between backquotes.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// The rows of each table: the cells.
fn tables() -> BTreeMap<String, Vec<Vec<String>>> {
    let mut tables: BTreeMap<String, Vec<Vec<String>>> = BTreeMap::new();
    let mut name = String::new();
    for line in REFERENCE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            name = heading.trim_matches('`').to_owned();
        } else if line.starts_with("| `") {
            let cells = line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
            tables.entry(name.clone()).or_default().push(cells);
        }
    }
    tables
}

/// The only one between backquotes.
fn key(row: &[String]) -> String {
    quoted(&row[0]).into_iter().next().unwrap()
}

#[test]
fn every_key_of_the_parser_has_a_row_and_every_row_a_key() {
    let tables = tables();
    assert_eq!(tables.len(), TABLES.len());
    for (name, parser) in TABLES {
        let mut known = quoted(&parser("no-such-key = 1"));
        known.remove("no-such-key");
        if name == "The file" {
            // Given by the file's own name, and by the command line.
            known.remove("name");
            known.remove("site");
        }
        let rows: BTreeSet<String> = tables[name].iter().map(|row| key(row)).collect();
        assert_eq!(rows, known, "{name}");
    }
}

#[test]
fn values_are_those_of_the_parser() {
    let tables = tables();
    let mut seen = 0;
    for (name, parser) in TABLES {
        for row in &tables[name] {
            let is_list = row[1].starts_with("list: `");
            if !(is_list || row[1].starts_with('`')) || row[1].contains("true") || key(row) == "of" {
                continue;
            }
            let value = if is_list { "[\"no-such\"]" } else { "\"no-such\"" };
            let said = parser(&format!("{} = {value}", key(row)));
            let mut known = quoted(&said);
            known.remove("no-such");
            assert_eq!(quoted(&row[1]), known, "{name}: {}: {said}", key(row));
            seen += 1;
        }
    }
    assert!(seen >= 9, "{seen}");
}

#[test]
fn what_is_needed_is_said_to_be() {
    let tables = tables();
    for (name, parser) in TABLES {
        let needed: Vec<String> =
            tables[name].iter().filter(|row| row[2] == "**needed**").map(|row| key(row)).collect();
        let said = parser("");
        match needed.first() {
            // The parser names one of them.
            Some(_) => assert!(quoted(&said).is_subset(&needed.iter().cloned().collect()), "{name}: {said}"),
            None => assert_eq!(said, "", "{name}"),
        }
    }
}
