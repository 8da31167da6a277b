//! The difference between two configs, by part and by key, and its effect on live connections in a reload: the output of `weir plan`.
//!
//! Compares the effective configs, with files joined, variables replaced and defaults applied; the order of tables has no meaning. The
//! contents of certificate and key files are not compared. Pure: reads no file.

mod effect;
mod part;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::diagnostic::Location;
use crate::diagnostic::SourceMap;
use crate::load::CheckedConfig;
use crate::print::LEFT_OUT;

pub use effect::{Effect, RESTART_KEYS};
pub use part::ConfigPart;
use part::{FlatPart, parts, shown_parts};
use weir_sort::CompactSort as _;

/// The placeholder for a secret.
const HIDDEN: &str = "(secret)";

/// All differences between two configs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDiff {
    /// The parts that are not the same: removed ones where they stood before, the others in the order of the new text.
    pub changes: Vec<ConfigChange>,
    /// `process.reload_grace` of the new config: how long removed parts may remain in use.
    pub grace: Duration,
}

/// A part that is not the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Which.
    pub part: ConfigPart,
    /// Its change.
    pub kind: ChangeKind,
    /// Its location in the new text, or else in the old one; `None` if neither contains it.
    pub location: Option<Location>,
}

/// The change of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// It is new.
    Added(Effect),
    /// It is removed.
    Removed(Effect),
    /// Keys of it have other values, at least one.
    Changed(Vec<KeyChange>),
}

/// A key with another value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// The key, with the tables inside its part: `timeouts.idle`.
    pub key: String,
    /// The old value as TOML, defaults included; `None` when there was none.
    pub before: Option<String>,
    /// The new value as TOML; `None` when there is none.
    pub after: Option<String>,
    /// Its location in the new text; or in the old one, if the new one does not set it.
    pub location: Option<Location>,
    /// The effect on live connections.
    pub effect: Effect,
}

impl ConfigChange {
    /// The effects on live connections, each once.
    pub fn effects(&self) -> Vec<Effect> {
        let mut effects = match &self.kind {
            ChangeKind::Added(effect) | ChangeKind::Removed(effect) => vec![*effect],
            ChangeKind::Changed(keys) => keys.iter().map(|key| key.effect).collect(),
        };
        effects.sort_compact();
        effects.dedup();
        effects
    }
}

impl ConfigDiff {
    /// The changes from `before` to `after`. Both should be without errors: text that could not be read is not compared.
    pub fn between(before: &CheckedConfig, after: &CheckedConfig) -> Self {
        let mut old = parts(before);
        let mut new = parts(after);
        if before.is_shown() || old.iter().any(FlatPart::has_left_out) {
            (old, new) = (shown_parts(before), shown_parts(after));
        }
        let (old_sources, new_sources) = (before.diagnostics.sources(), after.diagnostics.sources());
        let known: BTreeMap<_, &FlatPart<'_>> = old.iter().map(|flat| (name(flat), flat)).collect();
        let coming: BTreeMap<_, &FlatPart<'_>> = new.iter().map(|flat| (name(flat), flat)).collect();
        let mut changes = Vec::new();
        for flat in &new {
            let change = match known.get(&name(flat)) {
                None => Some((ChangeKind::Added(effect::of_new(&flat.part)), flat.location(new_sources))),
                Some(was) => {
                    let keys = keys((was, old_sources), (flat, new_sources));
                    (!keys.is_empty()).then(|| (ChangeKind::Changed(keys), flat.location(new_sources)))
                }
            };
            if let Some((kind, location)) = change {
                changes.push(ConfigChange { part: flat.part.clone(), kind, location });
            }
        }
        for flat in old.iter().filter(|flat| !coming.contains_key(&name(flat))) {
            let kind = ChangeKind::Removed(effect::of_gone(&flat.part));
            changes.push(ConfigChange {
                part: flat.part.clone(),
                kind,
                location: flat.location(old_sources),
            });
        }
        // Routes and servers stay with their listener or upstream.
        changes.sort_compact_by_key(|change| rank(&change.part, &new, &old));
        Self { changes, grace: after.document().process.value.reload_grace }
    }

    /// Whether both configs mean the same.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// The identity of a part.
fn name<'a>(flat: &'a FlatPart<'_>) -> (ConfigPart, &'a str) {
    let part = match &flat.part {
        // Its name follows from its conditions.
        ConfigPart::Route(listener, _) if !flat.identity.is_empty() => {
            ConfigPart::Route(listener.clone(), Box::default())
        }
        part => part.clone(),
    };
    (part, &flat.identity)
}

/// The order of output: a part after its owner, the new text first.
fn rank(part: &ConfigPart, new: &[FlatPart<'_>], old: &[FlatPart<'_>]) -> (usize, usize) {
    let owner = match part {
        ConfigPart::Route(listener, _) => ConfigPart::Listener(listener.clone()),
        ConfigPart::Server(upstream, _) => ConfigPart::Upstream(upstream.clone()),
        part => part.clone(),
    };
    let place = |flats: &[FlatPart<'_>], part: &ConfigPart| flats.iter().position(|flat| flat.part == *part);
    let at = |part: &ConfigPart| place(new, part).or_else(|| place(old, part).map(|at| new.len() + at));
    (
        at(&owner).unwrap_or(usize::MAX),
        if owner == *part { 0 } else { at(part).map_or(usize::MAX, |at| at + 1) },
    )
}

/// The keys by which two states of a part differ, in the order of the reference.
fn keys(
    (old, old_sources): (&FlatPart<'_>, &SourceMap),
    (new, new_sources): (&FlatPart<'_>, &SourceMap),
) -> Vec<KeyChange> {
    let learned = matches!(old.value("affinity.mode"), Some("\"learn\"" | "\"stick\""));
    let gone = old.entries.iter().filter(|(key, _)| new.value(key).is_none());
    let all = new.entries.iter().chain(gone).map(|(key, _)| key);
    // A secret that was left out is not another one.
    let is_left_out = |key: &&String| old.value(key).is_some_and(|value| value.contains(LEFT_OUT));
    all.filter(|key| old.value(key) != new.value(key) && !is_left_out(key))
        .map(|key| KeyChange {
            key: key.clone(),
            before: old.shown(key).map(|value| shown(key, value)),
            after: new.shown(key).map(|value| shown(key, value)),
            location: new.location_of(key, new_sources).or_else(|| old.location_of(key, old_sources)),
            effect: effect::of_key(&new.part, key, learned),
        })
        .collect()
}

fn shown(key: &str, value: &str) -> String {
    let last = key.rsplit('.').next().unwrap_or_default();
    if is_secret(last) { HIDDEN.to_owned() } else { value.to_owned() }
}

/// Whether the value of a key with this name is secret.
pub(crate) fn is_secret(key: &str) -> bool {
    key == "secret"
}
