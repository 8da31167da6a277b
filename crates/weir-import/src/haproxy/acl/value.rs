//! What samples are made of: a value of an exchange, and what is known around it.

use std::cell::RefCell;
use std::collections::HashMap;

use super::{AclCondition, AclSubject, Atom, AtomTest};
use crate::source::SourceFiles;

/// A value of an exchange.
#[derive(Clone, Debug)]
pub(in crate::haproxy) struct AclSample {
    pub(in crate::haproxy) kind: SampleKind,
    /// The same in texts with placeholders.
    pub(in crate::haproxy) placeholder: Option<String>,
    /// In lower case.
    pub(in crate::haproxy) lower: bool,
    /// What it is only nearly.
    pub(in crate::haproxy) note: Option<&'static str>,
    /// In which form HAProxy compares it, and Weir does not.
    pub(in crate::haproxy) form: SampleForm,
}

/// The form in which a text is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::haproxy) enum SampleForm {
    /// As it is.
    Whole,
    /// Each of its parts between commas.
    Parts,
    /// As a client has encoded it.
    Encoded,
}

#[derive(Clone, Debug)]
pub(in crate::haproxy) enum SampleKind {
    Text(AclSubject),
    Number(AclSubject),
    Address(AclSubject),
    Boolean(AclCondition),
    /// A text that is known now.
    Literal(String),
    /// The text of the last of these conditions that holds.
    Chosen(Vec<(AclCondition, String)>),
    Unknown(String),
}

/// What a condition may refer to.
pub(in crate::haproxy) struct Surroundings<'c> {
    pub(in crate::haproxy) files: &'c dyn SourceFiles,
    /// The tables of counters by the names of their sections.
    pub(in crate::haproxy) tables: &'c HashMap<String, TableFacts>,
    /// Whether it is known by now what counts in them.
    pub(in crate::haproxy) tables_are_known: bool,
    /// The section itself.
    pub(in crate::haproxy) section: &'c str,
    /// The name of the section, where it faces clients.
    pub(in crate::haproxy) frontend: Option<&'c str>,
    /// The table that each slot of `track-sc0` and so on counts in.
    pub(in crate::haproxy) slots: HashMap<u8, String>,
    /// Maps that are asked for.
    pub(in crate::haproxy) maps: &'c RefCell<Vec<MapUse>>,
    /// Variables, and what they stand for.
    pub(in crate::haproxy) variables: &'c RefCell<HashMap<String, VariableValue>>,
    /// Whether a listener lets some peers say who the client is.
    pub(in crate::haproxy) trusts_peers: bool,
    /// What is captured of requests, by the numbers of the slots.
    pub(in crate::haproxy) captures: &'c [String],
}

/// What a variable stands for.
#[derive(Clone, Debug)]
pub(in crate::haproxy) enum VariableValue {
    /// A variable of Weir, by its name.
    Named(String),
    /// The text of the last of these conditions that holds; where none does, there is none.
    Chosen(Vec<(AclCondition, String)>),
}

/// A table of counters.
#[derive(Clone, Debug, Default)]
pub(in crate::haproxy) struct TableFacts {
    /// Its key as a text with placeholders, if anything counts in it.
    pub(in crate::haproxy) key: Option<String>,
    /// Its counters, without periods.
    pub(in crate::haproxy) store: Vec<String>,
}

impl AclSample {
    pub(super) fn of(kind: SampleKind, placeholder: Option<String>) -> AclSample {
        AclSample { kind, placeholder, lower: false, note: None, form: SampleForm::Whole }
    }

    pub(super) fn text(name: &str, placeholder: &str) -> AclSample {
        AclSample::of(SampleKind::Text(AclSubject::Text(name.to_owned())), Some(format!("{{{placeholder}}}")))
    }

    pub(super) fn number(name: &str) -> AclSample {
        AclSample::of(SampleKind::Number(AclSubject::Number(name.to_owned())), Some(format!("{{{name}}}")))
    }

    pub(super) fn unknown(reason: impl Into<String>) -> AclSample {
        AclSample::of(SampleKind::Unknown(reason.into()), None)
    }

    pub(super) fn boolean(condition: AclCondition) -> AclSample {
        AclSample::of(SampleKind::Boolean(condition), None)
    }

    pub(super) fn found(subject: AclSubject) -> AclSample {
        AclSample::boolean(AclCondition::Atom(Atom::new(subject, AtomTest::Found)))
    }

    /// The placeholder, unless its value would need a change that no placeholder makes.
    pub(in crate::haproxy) fn plain_placeholder(&self) -> Option<String> {
        let text = self.placeholder.clone()?;
        let is_lower = ["{authority}", "{host}"].contains(&text.as_str()) || text.starts_with("{map.");
        (!self.lower || is_lower).then_some(text)
    }

    pub(super) fn noted(mut self, note: &'static str) -> AclSample {
        self.note = Some(note);
        self
    }
}

/// A map that something is looked up in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::haproxy) struct MapUse {
    pub(in crate::haproxy) name: String,
    pub(in crate::haproxy) source: String,
    pub(in crate::haproxy) entries: HaproxyMapEntries,
    /// A text with placeholders.
    pub(in crate::haproxy) default: Option<String>,
    pub(in crate::haproxy) ignore_case: bool,
    /// A part of the line that asks for it.
    pub(in crate::haproxy) written: String,
}

/// What is in a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::haproxy) enum HaproxyMapEntries {
    /// Those of a file, compared so.
    File { path: String, kind: &'static str },
    /// Keys without values, compared so.
    Listed { keys: Vec<String>, kind: &'static str },
    /// A regular expression, and what a text becomes that has it.
    Regex { pattern: String, value: String },
}

impl Surroundings<'_> {
    /// Notes that a map is used, and says what it is called: one that says the same is used again.
    pub(in crate::haproxy) fn use_map(&self, used: MapUse) -> String {
        let mut maps = self.maps.borrow_mut();
        let same = |known: &&MapUse| {
            MapUse { name: used.name.clone(), written: used.written.clone(), ..(*known).clone() } == used
        };
        if let Some(known) = maps.iter().find(same) {
            return known.name.clone();
        }
        let (mut name, mut number) = (used.name.clone(), 1);
        while maps.iter().any(|known| known.name == name) {
            number += 1;
            name = format!("{}-{number}", used.name);
        }
        maps.push(MapUse { name: name.clone(), ..used });
        name
    }
}
