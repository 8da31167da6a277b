//! Which fragments are in use: those that a store offers, as far as they fit the file and each other. A fragment with a mistake changes
//! nothing: the last one of its key that was sound stays. Pure: reading is passed in.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::{Config, RouteSource, RouteStore};
use crate::diagnostic::FileIndex;
use crate::diagnostic::{Diagnostic, Diagnostics};
use crate::load::{CheckedConfig, Fragment};

/// The keys of a store with their texts, or why a text cannot be used.
pub type OfferedFragments = BTreeMap<Box<str>, Result<Arc<str>, Box<str>>>;

/// The texts of a store that are in use, by key.
pub type FragmentTexts = BTreeMap<Box<str>, Arc<str>>;

/// A source and a key of it.
type FragmentKey = (Box<str>, Box<str>);

/// What became of the fragments of one source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FragmentReport {
    /// The fragments in use.
    pub in_use: FragmentTexts,
    /// The keys with a mistake, each with its lines.
    pub problems: BTreeMap<Box<str>, Vec<String>>,
}

/// The fragments of all sources of a config.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fragments {
    sources: BTreeMap<Box<str>, FragmentsOfSource>,
}

#[derive(Debug, Clone)]
struct FragmentsOfSource {
    store: RouteStore,
    offered: OfferedFragments,
    in_use: FragmentTexts,
    /// What would be in use if the config that was read last is taken over.
    chosen: FragmentReport,
    problems: BTreeMap<Box<str>, Vec<String>>,
}

/// A fragment whose text would not be the one in use.
#[derive(Debug)]
struct Change {
    source: Box<str>,
    key: Box<str>,
    /// `None`: the key is gone.
    after: Option<Arc<str>>,
    /// Why it is not taken over.
    refused: Option<Vec<String>>,
}

impl Fragments {
    /// Goes over to the sources of a config; those that it begins with have what `restore` gives.
    pub(crate) fn follow(
        &mut self,
        sources: &[RouteSource],
        restore: &dyn Fn(&RouteSource) -> FragmentTexts,
    ) {
        let mut before = std::mem::take(&mut self.sources);
        for source in sources {
            let kept = before.remove(&source.name).filter(|known| known.store == source.store);
            let known = kept.unwrap_or_else(|| FragmentsOfSource {
                store: source.store.clone(),
                offered: restore(source).into_iter().map(|(key, text)| (key, Ok(text))).collect(),
                in_use: FragmentTexts::new(),
                chosen: FragmentReport::default(),
                problems: BTreeMap::new(),
            });
            self.sources.insert(source.name.clone(), known);
        }
    }

    /// Takes in all that a store has now; whether that is something else.
    pub(crate) fn offer(&mut self, source: &str, offered: OfferedFragments) -> bool {
        match self.sources.get_mut(source) {
            Some(known) if known.offered != offered => {
                known.offered = offered;
                true
            }
            _ => false,
        }
    }

    /// The config of `base` with as many of the fragments as fit.
    ///
    /// # Errors
    /// When the fragments in use do not fit the file.
    pub(crate) fn join(&mut self, base: &CheckedConfig) -> Result<Config, Diagnostics> {
        let mut changes = self.changes();
        let config = loop {
            let fragments = self.texts(&changes);
            let names: Vec<FragmentKey> = fragments.iter().map(|(owner, _)| owner.clone()).collect();
            let texts: Vec<Fragment> = fragments.into_iter().map(|(_, fragment)| fragment).collect();
            let joined = base.with_fragments(&texts);
            match joined.config {
                Some(config) => break config,
                None if blame(&mut changes, &joined.diagnostics, base, &names) => {}
                None => return Err(joined.diagnostics),
            }
        };
        for (name, source) in &mut self.sources {
            let mut report = FragmentReport { in_use: source.in_use.clone(), problems: BTreeMap::new() };
            for (key, offered) in &source.offered {
                if let Err(why) = offered {
                    report
                        .problems
                        .insert(key.clone(), vec![format!("{}: {why}", source.store.shown_key(key))]);
                }
            }
            for change in changes.iter().filter(|change| change.source == *name) {
                match (&change.refused, &change.after) {
                    (Some(lines), _) => drop(report.problems.insert(change.key.clone(), lines.clone())),
                    (None, Some(text)) => drop(report.in_use.insert(change.key.clone(), Arc::clone(text))),
                    (None, None) => drop(report.in_use.remove(&change.key)),
                }
            }
            source.chosen = report;
        }
        Ok(config)
    }

    /// Whether other texts were chosen than those in use.
    pub(crate) fn has_other(&self) -> bool {
        self.sources.values().any(|source| source.chosen.in_use != source.in_use)
    }

    /// What was chosen last is in use.
    pub(crate) fn commit(&mut self) {
        for source in self.sources.values_mut() {
            source.in_use.clone_from(&source.chosen.in_use);
            source.problems.clone_from(&source.chosen.problems);
        }
    }

    /// What was chosen last cannot be used, for a reason that is not in the texts: those of before stay.
    pub(crate) fn refuse(&mut self, why: &[String]) {
        for source in self.sources.values_mut() {
            let chosen = &source.chosen.in_use;
            let keys = chosen.keys().chain(source.in_use.keys());
            let changed = keys.filter(|key| chosen.get(*key) != source.in_use.get(*key));
            for key in changed.cloned().collect::<Vec<_>>() {
                source.problems.insert(key, why.to_vec());
            }
        }
    }

    /// What is in use of each source.
    pub(crate) fn reports(&self) -> impl Iterator<Item = (&str, FragmentReport)> {
        self.sources.iter().map(|(name, source)| {
            let (in_use, problems) = (source.in_use.clone(), source.problems.clone());
            (&**name, FragmentReport { in_use, problems })
        })
    }

    /// The differences between what is offered and what is in use; a text that cannot be used is none.
    fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, source) in &self.sources {
            let mut push = |key: &str, before: Option<&Arc<str>>, after: Option<&Arc<str>>| {
                if before != after {
                    let (source, key) = (name.clone(), key.into());
                    changes.push(Change { source, key, after: after.cloned(), refused: None });
                }
            };
            for (key, offered) in &source.offered {
                if let Ok(text) = offered {
                    push(key, source.in_use.get(key), Some(text));
                }
            }
            for (key, text) in &source.in_use {
                if !source.offered.contains_key(key) {
                    push(key, Some(text), None);
                }
            }
        }
        changes
    }

    /// The texts with the changes that are not refused: those in use first, so that what clashes with one is the newcomer.
    fn texts(&self, changes: &[Change]) -> Vec<(FragmentKey, Fragment)> {
        let (mut old, mut new) = (Vec::new(), Vec::new());
        for (name, source) in &self.sources {
            let mut texts = source.in_use.clone();
            for change in changes.iter().filter(|change| change.source == *name && change.refused.is_none()) {
                match &change.after {
                    Some(text) => texts.insert(change.key.clone(), Arc::clone(text)),
                    None => texts.remove(&change.key),
                };
            }
            for (key, text) in texts {
                let is_known = source.in_use.get(&key) == Some(&text);
                let fragment = Fragment { name: source.store.shown_key(&key), text };
                let list = if is_known { &mut old } else { &mut new };
                list.push(((name.clone(), key), fragment));
            }
        }
        old.append(&mut new);
        old
    }
}

/// Refuses the changes that the errors are about; `false`: there is none left.
fn blame(
    changes: &mut [Change],
    diagnostics: &Diagnostics,
    base: &CheckedConfig,
    names: &[FragmentKey],
) -> bool {
    let first = base.diagnostics.sources().len();
    let owner = |file: FileIndex| names.get((file.0 as usize).checked_sub(first)?);
    let mut refused: BTreeMap<FragmentKey, Vec<String>> = BTreeMap::new();
    for error in diagnostics.errors() {
        let spans = std::iter::once(error.span).chain(error.labels.iter().map(|(span, _)| *span));
        let guilty = spans.filter_map(|span| owner(span.file)).find(|owner| {
            let is_it = |change: &&Change| (&change.source, &change.key) == (&owner.0, &owner.1);
            changes.iter().any(|change| is_it(&change) && change.refused.is_none() && change.after.is_some())
        });
        if let Some(guilty) = guilty {
            refused.entry(guilty.clone()).or_default().push(described(diagnostics, error));
        }
    }
    if !refused.is_empty() {
        // Errors that others have only because of these are not found again.
        for change in changes.iter_mut() {
            let lines = refused.remove(&(change.source.clone(), change.key.clone()));
            change.refused = lines.or_else(|| change.refused.take());
        }
        return true;
    }
    // Nothing of it is wrong in itself: a key that is gone is missed, or one that is there is too much.
    let lines: Vec<String> = diagnostics.errors().map(|error| described(diagnostics, error)).collect();
    for is_gone in [true, false] {
        let mut found = false;
        for change in changes.iter_mut().filter(|change| change.refused.is_none()) {
            if change.after.is_none() == is_gone {
                let what =
                    if is_gone { "the key is gone, and is missed" } else { "it does not fit the others" };
                change.refused = Some(std::iter::once(what.to_owned()).chain(lines.clone()).collect());
                found = true;
            }
        }
        if found {
            return true;
        }
    }
    false
}

/// An error with the other places that it is about.
fn described(diagnostics: &Diagnostics, error: &Diagnostic) -> String {
    let labels = diagnostics.labels(error).into_iter();
    let labels: String = labels.map(|(location, message)| format!("; {location}: {message}")).collect();
    diagnostics.line(error) + &labels
}
