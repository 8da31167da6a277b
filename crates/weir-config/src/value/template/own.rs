//! Values that a config defines itself: `{map.NAME}` and `{vars.NAME}`.
//!
//! A template that is read while a document is ([`OwnNames::while_reading`]) gets links to the names that the document defines. Once the document is
//! whole, each name gets what it is made of ([`OwnValue::define`]), so that everything that asks a value for its stage or its secrets is right about
//! these too, wherever the template stands. Outside of a document there are no such names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::map::MapDefinition;
use super::{Template, TemplateValue};

/// Maps and variables that one value may lead to, itself included: what a request costs is known when the config is read.
pub(crate) const LOOKUPS_MAX: usize = 64;

/// A value that the config defines, by its name. Cheap to clone.
#[derive(Debug, Clone)]
pub struct OwnValue(Arc<Named>);

#[derive(Debug)]
struct Named {
    name: Box<str>,
    is_used: AtomicBool,
    made_of: OnceLock<MadeOf>,
}

/// What a value is made of.
#[derive(Debug)]
struct MadeOf {
    /// The values in it that are no other value of the config, each once.
    leaves: Box<[TemplateValue]>,
    /// Its definition as text, for comparisons.
    text: Box<str>,
    /// What it may stand for, as the config says: the files of a map have more.
    values: Box<[Template]>,
    map: Option<Arc<MapDefinition>>,
}

impl OwnValue {
    fn new(name: &str) -> Self {
        Self(Arc::new(Named { name: name.into(), is_used: AtomicBool::new(false), made_of: OnceLock::new() }))
    }

    /// Its name, without `map.` or `vars.`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether a template names it.
    pub(crate) fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Says what it is made of, once.
    pub(crate) fn define(
        &self,
        leaves: Vec<TemplateValue>,
        text: String,
        values: Vec<Template>,
        map: Option<Arc<MapDefinition>>,
    ) {
        let mut known: Vec<TemplateValue> = Vec::new();
        for leaf in leaves {
            if !known.contains(&leaf) {
                known.push(leaf);
            }
        }
        let made_of = MadeOf { leaves: known.into(), text: text.into(), values: values.into(), map };
        debug_assert!(self.0.made_of.get().is_none(), "a value is defined once");
        self.0.made_of.get_or_init(|| made_of);
    }

    /// The values that it is made of in the end; of a variable, those of all its definitions.
    pub fn leaves(&self) -> &[TemplateValue] {
        self.0.made_of.get().map_or(&[], |made_of| &made_of.leaves)
    }

    /// Its definition as text: that of a map with all that its author wrote, but not what its files hold.
    pub(crate) fn definition_text(&self) -> &str {
        self.0.made_of.get().map_or("", |made_of| &made_of.text)
    }

    /// What it may stand for, as the config says: the files of a map have more.
    pub(crate) fn values(&self) -> &[Template] {
        self.0.made_of.get().map_or(&[], |made_of| &made_of.values)
    }

    /// Whether it was defined: what leads to itself is not.
    pub(crate) fn is_defined(&self) -> bool {
        self.0.made_of.get().is_some()
    }

    /// The map, if it is one.
    #[inline]
    pub fn map(&self) -> Option<&Arc<MapDefinition>> {
        self.0.made_of.get()?.map.as_ref()
    }
}

impl PartialEq for OwnValue {
    /// The same name with the same definition: what a file holds does not count, since it changes by itself.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
            || self.0.name == other.0.name
                && match (self.0.made_of.get(), other.0.made_of.get()) {
                    (Some(one), Some(two)) => one.text == two.text && one.leaves == two.leaves,
                    (None, None) => true,
                    _ => false,
                }
    }
}

impl Eq for OwnValue {}

impl Hash for OwnValue {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.name.hash(state);
    }
}

/// The names that a document defines.
#[derive(Debug, Clone, Default)]
pub(crate) struct OwnNames {
    maps: BTreeMap<Box<str>, OwnValue>,
    variables: BTreeMap<Box<str>, OwnValue>,
}

thread_local! {
    /// Those of the document that this thread is reading. Parsers of values know no document, and a template may stand in any of them.
    static READING: RefCell<Option<OwnNames>> = const { RefCell::new(None) };
}

/// Which names a prefix stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OwnKind {
    Map,
    Variable,
}

impl OwnNames {
    pub(crate) fn new<'a>(
        maps: impl IntoIterator<Item = &'a str>,
        variables: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let links = |names: BTreeSet<&str>| {
            names.into_iter().map(|name| (Box::from(name), OwnValue::new(name))).collect()
        };
        Self { maps: links(maps.into_iter().collect()), variables: links(variables.into_iter().collect()) }
    }

    /// Reads something in which these names may stand.
    pub(crate) fn while_reading<T>(&self, read: impl FnOnce() -> T) -> T {
        let outer = READING.replace(Some(self.clone()));
        let value = read();
        READING.set(outer);
        value
    }

    /// The map of this name.
    pub(crate) fn map(&self, name: &str) -> Option<&OwnValue> {
        self.maps.get(name)
    }

    /// The variables, in the order of their names.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &OwnValue> {
        self.variables.values()
    }

    /// The value of this name in the document that is being read, or the names that there are.
    pub(super) fn find(kind: OwnKind, name: &str) -> Result<OwnValue, Vec<Box<str>>> {
        READING.with_borrow(|reading| {
            let Some(names) = reading else { return Err(Vec::new()) };
            let names = match kind {
                OwnKind::Map => &names.maps,
                OwnKind::Variable => &names.variables,
            };
            match names.get(name) {
                Some(found) => {
                    found.0.is_used.store(true, Ordering::Relaxed);
                    Ok(found.clone())
                }
                None => Err(names.keys().cloned().collect()),
            }
        })
    }
}
