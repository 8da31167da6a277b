//! The JSON Schema of `weir.toml`, for completion and validation in editors.
//!
//! It accepts everything that the parser accepts and rejects every unknown key and wrong type; checks beyond a single value (does this
//! upstream exist?) are left to `weir check`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{prose, sections};
use crate::key::{Bounds, KeySchema, Presence, SectionSchema, ValueKind};

/// The JSON Schema (2020-12) of the configuration.
pub fn json_schema() -> String {
    let mut definitions = Map::new();
    definitions.insert(
        "variable".to_owned(),
        json!({
            "description": "A string with environment variables, `${NAME}` or `${NAME:-default}`.",
            "type": "string",
            "pattern": r"\$\{[A-Za-z_]",
        }),
    );
    let (root, others) =
        sections().split_first().map(|(root, others)| (*root, others.to_vec())).expect("there is a document");
    for section in others {
        let schema = section_schema(section, &mut definitions);
        definitions.insert(definition_name(section), schema);
    }
    let Value::Object(mut schema) = section_schema(root, &mut definitions) else {
        unreachable!("a section is an object")
    };
    schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    schema.insert("title".to_owned(), json!("weir.toml"));
    schema.insert("$defs".to_owned(), Value::Object(definitions));
    let mut text =
        serde_json::to_string_pretty(&sorted(Value::Object(schema))).expect("a value is always JSON");
    text.push('\n');
    text
}

fn definition_name(section: &SectionSchema) -> String {
    format!("table.{}", section.path)
}

fn section_schema(section: &SectionSchema, definitions: &mut Map<String, Value>) -> Value {
    let mut properties = Map::new();
    for key in section.keys {
        properties.insert(key.name.to_owned(), key_schema(key, definitions));
    }
    let required: Vec<&str> =
        section.keys.iter().filter(|key| key.presence == Presence::Required).map(|key| key.name).collect();
    json!({
        "description": prose(section.about),
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn key_schema(key: &KeySchema, definitions: &mut Map<String, Value>) -> Value {
    let mut schema = match kind_schema(&(key.kind)(), definitions) {
        Value::Object(schema) => schema,
        other => Map::from_iter([("allOf".to_owned(), json!([other]))]),
    };
    schema.insert("description".to_owned(), json!(prose(key.about)));
    if let Presence::Default(default) = key.presence {
        schema.insert("default".to_owned(), default_json(default));
    }
    Value::Object(schema)
}

/// A default, written as TOML, as JSON.
fn default_json(text: &str) -> Value {
    let document: toml::Table = format!("value = {text}").parse().expect("every default is TOML");
    serde_json::to_value(&document["value"]).expect("a TOML value is a JSON value")
}

fn kind_schema(kind: &ValueKind, definitions: &mut Map<String, Value>) -> Value {
    match kind {
        ValueKind::Boolean => or_variable(&json!({ "type": "boolean" })),
        ValueKind::Integer(bounds) => or_variable(&integer_schema(*bounds)),
        ValueKind::Text(text, _) => {
            let name = text.name.replace(' ', "-");
            if !definitions.contains_key(&name) {
                let mut schema =
                    json!({ "description": prose(text.about), "type": "string", "examples": text.examples });
                if !text.pattern.is_empty() {
                    schema["pattern"] = json!(text.pattern);
                    schema = or_variable(&schema);
                }
                definitions.insert(name.clone(), schema);
            }
            reference(&name)
        }
        ValueKind::Choice(words) => {
            let word = |word: &crate::key::ChoiceWord| json!({ "const": word.name, "description": prose(word.meaning) });
            let mut choices: Vec<Value> = words.iter().map(word).collect();
            choices.push(reference("variable"));
            json!({ "anyOf": choices })
        }
        ValueKind::Either(kinds) => {
            let choices: Vec<Value> = kinds.iter().map(|kind| kind_schema(kind, definitions)).collect();
            json!({ "anyOf": choices })
        }
        ValueKind::List(item) => json!({ "type": "array", "items": kind_schema(item, definitions) }),
        ValueKind::Map(item) => {
            json!({ "type": "object", "additionalProperties": kind_schema(item, definitions) })
        }
        ValueKind::Section(section) => reference(&definition_name(section)),
        ValueKind::AnyTable => json!({ "type": "object" }),
    }
}

fn integer_schema(bounds: Bounds) -> Value {
    let mut schema = json!({ "type": "integer", "minimum": bounds.min });
    // Numbers of TOML end at 2^63 - 1.
    if bounds.max < i64::MAX as u64 {
        schema["maximum"] = json!(bounds.max);
    }
    schema
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn or_variable(schema: &Value) -> Value {
    json!({ "anyOf": [schema, reference("variable")] })
}

/// The same value with the keys of every object in order, whatever map the JSON crate was built with.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(object) => {
            let ordered: BTreeMap<String, Value> =
                object.into_iter().map(|(key, value)| (key, sorted(value))).collect();
            Value::Object(ordered.into_iter().collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(sorted).collect()),
        other => other,
    }
}
