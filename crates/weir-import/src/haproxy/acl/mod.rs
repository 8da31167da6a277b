//! Conditions: what `acl` lines and `if` say, as conditions of Weir.

mod pattern;
mod url;
mod sample;
mod map;
mod value;
mod regex;
mod atom;

pub(super) use atom::{AclSubject, Atom, AtomTest, escaped};
pub(super) use map::first_match;
pub(super) use pattern::AclConditions;
pub(super) use regex::regex_trouble;
pub(super) use sample::{counter_of, sample};
pub(super) use value::{
    AclSample, HaproxyMapEntries, MapUse, SampleKind, Surroundings, TableFacts, VariableValue,
};

use crate::document::TomlValue;

/// What has to hold.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AclCondition {
    Constant(bool),
    All(Vec<AclCondition>),
    Any(Vec<AclCondition>),
    Not(Box<AclCondition>),
    Atom(Atom),
    /// What Weir has no condition for: why, and what to do.
    Unknown(String),
}

/// What is known of a listener before it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListenerFacts {
    pub(super) tls: bool,
    /// Its port, if it has one only.
    pub(super) port: Option<u16>,
    pub(super) tcp: bool,
}

impl AclCondition {
    pub(super) fn negated(self) -> AclCondition {
        match self {
            AclCondition::Not(inner) => *inner,
            AclCondition::Constant(value) => AclCondition::Constant(!value),
            AclCondition::Unknown(reason) => AclCondition::Unknown(reason),
            other => AclCondition::Not(Box::new(other)),
        }
    }

    /// That the path is this.
    pub(super) fn path_is(path: &str) -> AclCondition {
        AclCondition::Atom(Atom::new(AclSubject::Path, AtomTest::Equal(vec![path.to_owned()])))
    }

    pub(super) fn and(self, other: AclCondition) -> AclCondition {
        AclCondition::All(vec![self, other]).simplified(&|_| None)
    }

    /// With what is known of the listener put in.
    pub(super) fn on(self, facts: ListenerFacts) -> AclCondition {
        self.simplified(&|atom| atom.known(facts))
    }

    /// Without constants, and without lists in lists.
    fn simplified(self, known: &dyn Fn(&Atom) -> Option<bool>) -> AclCondition {
        match self {
            AclCondition::All(list) => AclCondition::joined(list, known, true),
            AclCondition::Any(list) => AclCondition::joined(list, known, false),
            AclCondition::Not(inner) => inner.simplified(known).negated(),
            AclCondition::Atom(atom) => match known(&atom) {
                Some(value) => AclCondition::Constant(value),
                None => AclCondition::Atom(atom),
            },
            other => other,
        }
    }

    /// `all`: joined by "and", in which `true` says nothing and `false` decides; else the other way round.
    fn joined(list: Vec<AclCondition>, known: &dyn Fn(&Atom) -> Option<bool>, all: bool) -> AclCondition {
        let mut parts = Vec::new();
        for part in list {
            match (part.simplified(known), all) {
                (AclCondition::Constant(value), all) if value == all => {}
                (AclCondition::Constant(value), _) => return AclCondition::Constant(value),
                (AclCondition::All(inner), true) | (AclCondition::Any(inner), false) => {
                    parts.extend(
                        inner.into_iter().filter(|part| !parts_contain(&parts, part)).collect::<Vec<_>>(),
                    );
                }
                (other, _) if parts.contains(&other) => {}
                (other, _) => parts.push(other),
            }
        }
        match (parts.len(), all) {
            (0, all) => AclCondition::Constant(all),
            (1, _) => parts.remove(0),
            (_, true) => AclCondition::All(parts),
            (_, false) => AclCondition::Any(parts),
        }
    }

    /// Why it cannot be said, if so.
    pub(super) fn unknown(&self) -> Option<&str> {
        match self {
            AclCondition::Unknown(reason) => Some(reason),
            AclCondition::All(list) | AclCondition::Any(list) => list.iter().find_map(AclCondition::unknown),
            AclCondition::Not(inner) => inner.unknown(),
            AclCondition::Constant(_) | AclCondition::Atom(_) => None,
        }
    }

    /// A condition that holds whenever this one does: what cannot be said, and what `is_unknown`, is taken as if it always held.
    pub(super) fn at_most(self, is_unknown: &dyn Fn(&Atom) -> bool) -> AclCondition {
        self.bounded(is_unknown, true).simplified(&|_| None)
    }

    fn bounded(self, is_unknown: &dyn Fn(&Atom) -> bool, holds: bool) -> AclCondition {
        let all = |list: Vec<AclCondition>| -> Vec<AclCondition> {
            list.into_iter().map(|part| part.bounded(is_unknown, holds)).collect()
        };
        match self {
            AclCondition::Unknown(_) => AclCondition::Constant(holds),
            AclCondition::Atom(atom) if is_unknown(&atom) => AclCondition::Constant(holds),
            AclCondition::All(list) => AclCondition::All(all(list)),
            AclCondition::Any(list) => AclCondition::Any(all(list)),
            AclCondition::Not(inner) => inner.bounded(is_unknown, !holds).negated(),
            known => known,
        }
    }

    /// A condition that holds whenever this one does, and that a condition of Weir has room for.
    pub(super) fn shortened(self) -> AclCondition {
        if self.is_short() {
            return self;
        }
        let AclCondition::All(parts) = self else { return AclCondition::Constant(true) };
        parts.into_iter().fold(AclCondition::Constant(true), |kept, part| {
            let both = kept.clone().and(part);
            if both.is_short() { both } else { kept }
        })
    }

    /// Whether each path that it is for begins as the other one wants it.
    pub(super) fn implies_prefix(&self, other: &AclCondition) -> bool {
        let AclCondition::Atom(Atom {
            subject: AclSubject::Path,
            test: AtomTest::Begins(wanted),
            ignore_case: false,
            ..
        }) = other
        else {
            return false;
        };
        let parts = match self {
            AclCondition::All(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        };
        parts.iter().any(|part| match part {
            AclCondition::Atom(Atom {
                subject: AclSubject::Path,
                test: AtomTest::Begins(own) | AtomTest::Equal(own),
                ignore_case: false,
                ..
            }) => own.iter().all(|text| wanted.iter().any(|prefix| text.starts_with(prefix.as_str()))),
            _ => false,
        })
    }

    /// Whether two of its parts want paths that no path begins with both.
    pub(super) fn is_impossible(&self) -> bool {
        let AclCondition::All(parts) = self else { return false };
        let beginnings = |part: &AclCondition| match part {
            AclCondition::Atom(Atom {
                subject: AclSubject::Path,
                test: AtomTest::Begins(list) | AtomTest::Equal(list),
                ignore_case: false,
                ..
            }) => Some(list.clone()),
            _ => None,
        };
        let lists: Vec<Vec<String>> = parts.iter().filter_map(beginnings).collect();
        let meet =
            |one: &String, other: &String| one.starts_with(other.as_str()) || other.starts_with(one.as_str());
        let are_apart = |one: &Vec<String>, other: &Vec<String>| {
            !one.iter().any(|text| other.iter().any(|other| meet(text, other)))
        };
        lists.iter().enumerate().any(|(at, one)| lists[at + 1..].iter().any(|other| are_apart(one, other)))
    }

    /// Whether it asks for counters.
    pub(super) fn counts(&self) -> bool {
        self.asks(&|atom| matches!(&atom.subject, AclSubject::Number(name) if name.starts_with("table")))
    }

    /// Whether any part of it asks for such a thing.
    pub(super) fn asks(&self, fits: &dyn Fn(&Atom) -> bool) -> bool {
        match self {
            AclCondition::Atom(atom) => fits(atom),
            AclCondition::All(list) | AclCondition::Any(list) => list.iter().any(|part| part.asks(fits)),
            AclCondition::Not(inner) => inner.asks(fits),
            AclCondition::Constant(_) | AclCondition::Unknown(_) => false,
        }
    }

    /// What it is only nearly.
    pub(super) fn notes(&self) -> Vec<&'static str> {
        match self {
            AclCondition::Atom(atom) => atom.note.into_iter().collect(),
            AclCondition::All(list) | AclCondition::Any(list) => {
                list.iter().flat_map(AclCondition::notes).collect()
            }
            AclCondition::Not(inner) => inner.notes(),
            AclCondition::Constant(_) | AclCondition::Unknown(_) => Vec::new(),
        }
    }

    /// Whether a condition of Weir has room for it: 4096 bytes and 64 comparisons.
    pub(super) fn is_short(&self) -> bool {
        self.comparisons() <= 64 && self.expression().len() <= 4096
    }

    fn comparisons(&self) -> usize {
        match self {
            AclCondition::Atom(atom) => atom.comparisons(),
            AclCondition::All(list) | AclCondition::Any(list) => {
                list.iter().map(AclCondition::comparisons).sum()
            }
            AclCondition::Not(inner) => inner.comparisons(),
            AclCondition::Constant(_) | AclCondition::Unknown(_) => 0,
        }
    }

    /// In the language of Weir's conditions.
    pub(super) fn expression(&self) -> String {
        match self {
            AclCondition::Constant(value) => value.to_string(),
            AclCondition::All(list) => {
                list.iter().map(AclCondition::in_parentheses).collect::<Vec<_>>().join(" && ")
            }
            AclCondition::Any(list) => {
                list.iter().map(AclCondition::expression_in_any).collect::<Vec<_>>().join(" || ")
            }
            AclCondition::Not(inner) => match inner.as_ref() {
                AclCondition::Atom(atom) => atom.negated_expression(),
                other => format!("!({})", other.expression()),
            },
            AclCondition::Atom(atom) => atom.expression(),
            AclCondition::Unknown(_) => "false".to_owned(),
        }
    }

    fn in_parentheses(&self) -> String {
        match self {
            AclCondition::Any(_) => format!("({})", self.expression()),
            AclCondition::Atom(atom) if atom.is_several() => format!("({})", self.expression()),
            _ => self.expression(),
        }
    }

    fn expression_in_any(&self) -> String {
        match self {
            AclCondition::All(_) => format!("({})", self.expression()),
            _ => self.expression(),
        }
    }

    /// The keys of a route that matches by it; what no key says is its `when`.
    pub(super) fn route_keys(&self, facts: ListenerFacts) -> Vec<(&'static str, TomlValue)> {
        let parts = match self {
            AclCondition::Constant(true) => return Vec::new(),
            AclCondition::All(list) => list.clone(),
            other => vec![other.clone()],
        };
        let (mut keys, mut rest): (Vec<(&'static str, TomlValue)>, Vec<AclCondition>) =
            (Vec::new(), Vec::new());
        for part in parts {
            let found = match &part {
                AclCondition::Atom(atom) => atom.route_key(facts),
                AclCondition::Any(list) => {
                    atom::path_regex_of_any(list).or_else(|| atom::hosts_of_any(list, facts))
                }
                _ => None,
            };
            let is_path = |key: &str| key.starts_with("path");
            let taken =
                |key: &str| keys.iter().any(|(known, _)| *known == key || is_path(known) && is_path(key));
            match found {
                Some((key, value)) if !taken(key) => keys.push((key, value)),
                _ => rest.push(part),
            }
        }
        let order = ["host", "sni", "path", "path_exact", "path_begins", "path_regex", "method", "source"];
        keys.sort_by_key(|(key, _)| order.iter().position(|known| known == key));
        match rest.len() {
            0 => {}
            1 => keys.push(("when", super::output::literal(&rest[0].expression()).into())),
            _ => keys.push(("when", super::output::literal(&AclCondition::All(rest).expression()).into())),
        }
        keys
    }
}

fn parts_contain(parts: &[AclCondition], part: &AclCondition) -> bool {
    parts.contains(part)
}
