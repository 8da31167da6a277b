//! Whatever the objects are, the config that they come to holds together: objects of all cases in any company, each changed at random places.

use std::fs;
use std::path::Path;

use serde_json::Value;
use weir_gateway::Translator;

use crate::objects::{NOW, read_value, settings};

/// Clusters that are made; the same in each run, so that a failure can be repeated.
const CLUSTERS: u64 = 100;

/// Of so many places of an object, one is changed.
const PLACES_PER_CHANGE: u64 = 40;

/// Values at the edges of what fields may hold, and beyond.
const EDGES: [&str; 12] =
    ["0", "-1", "65535", "65536", "2147483648", "true", "null", "\"\"", "\"*\"", "\"a.test\"", "[]", "{}"];

/// Draws from a seed (splitmix64).
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (word ^ (word >> 31)) % bound
    }

    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len() as u64) as usize]
    }
}

/// The objects of all cases.
fn objects() -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/translation/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.iter().filter(|file| file.extension().is_some_and(|end| end == "yaml"));
    let texts: Vec<String> = texts.map(|file| fs::read_to_string(file).unwrap()).collect();
    let documents = texts.iter().flat_map(|text| text.split("\n---\n"));
    let documents = documents.filter(|document| !document.trim().is_empty());
    documents.map(|document| serde_saphyr::from_str(document).unwrap()).collect()
}

/// Changes some of what is inside a value. Kind and name stay, so that it is an object.
fn change(value: &mut Value, draws: &mut Draws) {
    let change_one = |inner: &mut Value, draws: &mut Draws| {
        if draws.below(PLACES_PER_CHANGE) == 0 {
            *inner = serde_json::from_str(EDGES[draws.below(EDGES.len() as u64) as usize]).unwrap();
        } else {
            change(inner, draws);
        }
    };
    match value {
        Value::Object(fields) => {
            for (name, inner) in fields.iter_mut() {
                if !matches!(name.as_str(), "kind" | "metadata" | "data" | "type") {
                    change_one(inner, draws);
                }
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|inner| change_one(inner, draws));
            match draws.below(PLACES_PER_CHANGE) {
                0 => drop(items.pop()),
                1 => items.extend(items.last().cloned()),
                _ => {}
            }
        }
        _ => {}
    }
}

#[test]
fn any_objects_come_to_a_config_that_holds_together() {
    let all = objects();
    let base = ["GatewayClass", "IngressClass"];
    let (mut configs, mut read, mut refused) = (0, 0, 0);
    for seed in 0..CLUSTERS {
        let mut draws = Draws(seed);
        let mut translator = Translator::new(settings());
        let class = serde_json::json!({"kind": "GatewayClass", "metadata": {"name": "weir", "generation": 1},
            "spec": {"controllerName": "weir.dev/gateway"}});
        translator.upsert(&read_value(class).unwrap());
        // Half of all, each time others, in an order of their own.
        for _ in 0..all.len() / 2 {
            let mut object = draws.one_of(&all).clone();
            if !base.iter().any(|kind| object["kind"] == *kind) {
                change(&mut object, &mut draws);
            }
            match read_value(object) {
                Ok(object) => {
                    read += 1;
                    translator.upsert(&object);
                }
                Err(_) => refused += 1,
            }
            // Also between two objects: what refers to one that is not there yet.
            if draws.below(8) != 0 {
                continue;
            }
            let translation = translator.translate(NOW);
            assert_eq!(translation.faults, [], "seed {seed}: what was left out");
            if let Some(config) = translation.config {
                configs += 1;
                for listener in &config.listeners {
                    assert!(
                        listener.route_table().is_ok(),
                        "seed {seed}: routes of {} are tied",
                        listener.name
                    );
                }
            }
        }
    }
    assert!(
        configs > CLUSTERS && read > 10 * refused,
        "{configs} configs of {read} objects, {refused} refused"
    );
}
