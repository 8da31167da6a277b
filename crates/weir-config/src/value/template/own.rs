//! Values that a config defines itself: `{map.NAME}`, `{vars.NAME}` and `{table.NAME.COUNTER}`.
//!
//! A template that is read while a document is ([`OwnNames::while_reading`]) gets links to the names that the document defines. Once the document is
//! whole, each name gets what it is made of ([`OwnValue::define`]), so that everything that asks a value for its stage or its secrets is right about
//! these too, wherever the template stands. Outside of a document there are no such names.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use weir_traffic::table::TableCounter;

use super::map::MapDefinition;
use super::table::TableDefinition;
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
    /// The counters of a table that templates name, a bit for each.
    asked: AtomicU32,
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
    table: Option<Arc<TableDefinition>>,
}

impl OwnValue {
    fn new(name: &str) -> Self {
        let (is_used, asked) = (AtomicBool::new(false), AtomicU32::new(0));
        Self(Arc::new(Named { name: name.into(), is_used, asked, made_of: OnceLock::new() }))
    }

    /// Its name, without `map.` or `vars.`.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Whether a template names it.
    pub(crate) fn is_used(&self) -> bool {
        self.0.is_used.load(Ordering::Relaxed)
    }

    /// Notes that something is made of a counter of the table.
    pub(super) fn ask(&self, counter: TableCounter) {
        self.0.asked.fetch_or(counter.bit(), Ordering::Relaxed);
    }

    /// The counters of the table that something is made of.
    pub(crate) fn asked(&self) -> impl Iterator<Item = TableCounter> {
        let asked = self.0.asked.load(Ordering::Relaxed);
        TableCounter::ALL.iter().copied().filter(move |counter| asked & counter.bit() != 0)
    }

    /// The same for a table of counters.
    pub(crate) fn define_table(&self, leaves: Vec<TemplateValue>, text: String, table: Arc<TableDefinition>) {
        self.define_as(leaves, text, Vec::new(), (None, Some(table)));
    }

    /// Says what it is made of, once.
    pub(crate) fn define(
        &self,
        leaves: Vec<TemplateValue>,
        text: String,
        values: Vec<Template>,
        map: Option<Arc<MapDefinition>>,
    ) {
        self.define_as(leaves, text, values, (map, None));
    }

    fn define_as(
        &self,
        leaves: Vec<TemplateValue>,
        text: String,
        values: Vec<Template>,
        (map, table): (Option<Arc<MapDefinition>>, Option<Arc<TableDefinition>>),
    ) {
        let mut known: Vec<TemplateValue> = Vec::new();
        for leaf in leaves {
            if !known.contains(&leaf) {
                known.push(leaf);
            }
        }
        let made_of = MadeOf { leaves: known.into(), text: text.into(), values: values.into(), map, table };
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

    /// The table, if it is one.
    #[inline]
    pub fn table(&self) -> Option<&Arc<TableDefinition>> {
        self.0.made_of.get()?.table.as_ref()
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
    tables: BTreeMap<Box<str>, OwnValue>,
    variables: BTreeMap<Box<str>, OwnValue>,
    /// Whether something asks for values of PROXY headers.
    asks_for_proxy_values: Arc<AtomicBool>,
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
    Table,
}

impl OwnNames {
    pub(crate) fn new<'a>(
        maps: impl IntoIterator<Item = &'a str>,
        variables: impl IntoIterator<Item = &'a str>,
        tables: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let links = |names: BTreeSet<&str>| {
            names.into_iter().map(|name| (Box::from(name), OwnValue::new(name))).collect()
        };
        Self {
            maps: links(maps.into_iter().collect()),
            variables: links(variables.into_iter().collect()),
            asks_for_proxy_values: Arc::default(),
            tables: links(tables.into_iter().collect()),
        }
    }

    /// Reads something in which these names may stand.
    pub(crate) fn while_reading<T>(&self, read: impl FnOnce() -> T) -> T {
        let outer = READING.replace(Some(self.clone()));
        let value = read();
        READING.set(outer);
        value
    }

    /// Notes that what is being read asks for a value of PROXY headers.
    pub(super) fn note_proxy_value() {
        READING.with_borrow(|reading| {
            if let Some(names) = reading {
                names.asks_for_proxy_values.store(true, Ordering::Relaxed);
            }
        });
    }

    /// Whether anything that was read so far of the document that this thread is reading does.
    pub(crate) fn proxy_values_are_asked_for() -> bool {
        READING.with_borrow(|reading| {
            reading.as_ref().is_some_and(|names| names.asks_for_proxy_values.load(Ordering::Relaxed))
        })
    }

    /// The map of this name.
    pub(crate) fn map(&self, name: &str) -> Option<&OwnValue> {
        self.maps.get(name)
    }

    /// The table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<&OwnValue> {
        self.tables.get(name)
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
                OwnKind::Table => &names.tables,
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
