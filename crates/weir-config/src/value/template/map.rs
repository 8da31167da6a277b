//! A map of the config: where its text comes from, and what it stands for.
//!
//! Its table is replaced as a whole when its files change: an exchange that is being looked up keeps the one that it began with.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use weir_conditions::{MapEntryError, MapKind, MapMatch, ValueMap, ValueMapBuilder};

use super::database::{AddressDatabase, DatabaseField};
use super::facts::TemplateFacts;
use super::map_counts::{MapCounts, MapLookups, MapOutcome};
use super::{Template, TemplatePart, TemplateValue};
use crate::text_file::MapFileMark;

/// The entries of a map and its database, ready to be asked.
#[derive(Debug)]
pub struct MapTable {
    entries: ValueMap<Template>,
    /// Asked where no entry matches.
    database: Option<AddressDatabase>,
}

impl MapTable {
    pub(crate) fn new(entries: ValueMap<Template>, database: Option<AddressDatabase>) -> Self {
        Self { entries, database }
    }

    /// The number of entries, without what the database has.
    #[expect(clippy::len_without_is_empty, reason = "a number for the log")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes that the entries take on the heap, without the database.
    pub fn heap_bytes(&self) -> usize {
        self.entries.heap_bytes()
    }

    /// The values with placeholders.
    pub(crate) fn values(&self) -> &[Template] {
        self.entries.values()
    }

    /// Whether one of the first records of the database has the field; if not, what they have.
    pub(crate) fn find_any_field(&self) -> Result<(), Vec<String>> {
        self.database.as_ref().map_or(Ok(()), AddressDatabase::find_any)
    }

    /// Puts what the database says of an address in its place, which is from `start` on.
    fn write_by_address(&self, start: usize, out: &mut Vec<u8>) -> bool {
        let Some(database) = &self.database else { return false };
        let address = str::from_utf8(&out[start..]).ok().and_then(|text| text.parse().ok());
        let end = out.len();
        let has_value = address.is_some_and(|address| database.write(address, out));
        if has_value {
            out.drain(start..end);
        }
        has_value
    }
}

/// The database of a map, as the config names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapDatabase {
    /// Its file.
    pub(crate) file: Arc<Path>,
    /// The field of its records that is the value.
    pub(crate) field: DatabaseField,
}

/// A map as the config defines it.
#[derive(Debug)]
pub struct MapDefinition {
    /// The text that is looked up.
    pub source: Template,
    /// Whether capital letters do not count.
    pub ignore_case: bool,
    /// What it stands for where no entry matches.
    pub default: Template,
    /// The entries that stand in the config.
    pub(crate) entries: Vec<MapEntry>,
    /// The files with further entries.
    pub files: Vec<Arc<Path>>,
    /// How the keys in them are compared.
    pub file_kind: MapKind,
    /// The database that is asked where no entry matches.
    pub(crate) database: Option<MapDatabase>,
    /// How often they are looked at.
    pub reload: Option<Duration>,
    /// Whether a redirect goes where it says: then no value may begin with text of a client.
    target_check: OnceLock<fn(&Template) -> bool>,
    read: Mutex<Option<ReadMap>>,
    live: OnceLock<Arc<LiveMap>>,
}

/// A table, and the marks of its files right before they were read.
#[derive(Debug, Clone)]
pub struct ReadMap {
    /// The table.
    pub table: Arc<MapTable>,
    /// The marks, in the order of the files.
    pub marks: Vec<MapFileMark>,
}

impl ReadMap {
    fn empty() -> Self {
        Self { table: Arc::new(MapTable::new(ValueMapBuilder::new().build(), None)), marks: Vec::new() }
    }
}

/// An entry of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct MapEntry {
    pub(crate) kind: MapKind,
    pub(crate) key: Box<str>,
    pub(crate) value: Template,
}

/// What makes up a [`MapDefinition`] but for its table.
#[derive(Debug)]
pub(crate) struct MapParts {
    pub(crate) source: Template,
    pub(crate) ignore_case: bool,
    pub(crate) default: Template,
    pub(crate) entries: Vec<MapEntry>,
    pub(crate) files: Vec<Arc<Path>>,
    pub(crate) file_kind: MapKind,
    pub(crate) database: Option<MapDatabase>,
    pub(crate) reload: Option<Duration>,
}

/// The table of a map that is in use, which changes with its files.
#[derive(Debug)]
pub struct LiveMap {
    now: ArcSwap<MapTable>,
    files: Mutex<MapFiles>,
    counts: MapCounts,
}

/// What was found in the files of a map last.
#[derive(Debug)]
struct MapFiles {
    marks: Vec<MapFileMark>,
    /// Why it is not in use, if it is not.
    problem: Option<Box<str>>,
}

impl LiveMap {
    fn new(ReadMap { table, marks }: ReadMap) -> Self {
        let files = Mutex::new(MapFiles { marks, problem: None });
        Self { now: ArcSwap::new(table), files, counts: MapCounts::default() }
    }

    /// How often it was asked, by what it found.
    pub fn lookups(&self) -> MapLookups {
        self.counts.sums()
    }

    /// The table that counts.
    pub fn now(&self) -> Arc<MapTable> {
        self.now.load_full()
    }

    /// Has another table count from now on.
    pub fn replace(&self, ReadMap { table, marks }: ReadMap) {
        self.now.store(table);
        *self.files() = MapFiles { marks, problem: None };
    }

    /// Notes why what the files hold now is not in use.
    pub fn note_problem(&self, problem: &str, marks: Vec<MapFileMark>) {
        *self.files() = MapFiles { marks, problem: Some(problem.into()) };
    }

    /// Why changed files are not in use, if they are not.
    pub fn problem(&self) -> Option<Box<str>> {
        self.files().problem.clone()
    }

    /// Whether these marks of its files are those that were found last.
    pub fn is_of(&self, marks: &[MapFileMark]) -> bool {
        self.files().marks == *marks
    }

    fn files(&self) -> MutexGuard<'_, MapFiles> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MapDefinition {
    pub(crate) fn new(parts: MapParts) -> Self {
        let MapParts { source, ignore_case, default, entries, files, file_kind, database, reload } = parts;
        let (target_check, read, live) = (OnceLock::new(), Mutex::default(), OnceLock::new());
        Self {
            source,
            ignore_case,
            default,
            entries,
            files,
            file_kind,
            database,
            reload,
            target_check,
            read,
            live,
        }
    }

    /// All that it is read from besides the config: its files, then its database.
    pub fn sources(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.iter().chain(self.database.iter().map(|database| &database.file))
    }

    /// Notes that a redirect goes where it says, and how to tell whether a value may stand there.
    pub(crate) fn begin_targets(&self, check: fn(&Template) -> bool) {
        self.target_check.get_or_init(|| check);
    }

    /// Whether a value may stand wherever the map is used.
    pub(crate) fn permits(&self, value: &Template) -> bool {
        self.target_check.get().is_none_or(|check| check(value))
    }

    /// A table with the entries of the config, to which those of files are added.
    ///
    /// # Errors
    /// The entry that cannot be added, with its place.
    pub(crate) fn builder(&self) -> Result<MapTableBuilder, (usize, MapEntryError)> {
        let mut builder = MapTableBuilder { map: ValueMapBuilder::new(), ignore_case: self.ignore_case };
        for (place, entry) in self.entries.iter().enumerate() {
            builder.insert(entry.kind, &entry.key, &entry.value).map_err(|error| (place, error))?;
        }
        Ok(builder)
    }

    /// Gives it the table that was read with the config.
    pub(crate) fn set_read(&self, table: MapTable, marks: Vec<MapFileMark>) {
        *self.read() = Some(ReadMap { table: Arc::new(table), marks });
    }

    fn read(&self) -> MutexGuard<'_, Option<ReadMap>> {
        self.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The table of this map in a process that serves: that of `before`, an equal map of the config before, or a new one.
    pub fn begin(&self, before: Option<&MapDefinition>) -> &Arc<LiveMap> {
        self.live.get_or_init(|| match before.and_then(|before| before.live.get()) {
            Some(live) => Arc::clone(live),
            None => Arc::new(LiveMap::new(self.read().take().unwrap_or_else(ReadMap::empty))),
        })
    }

    /// Has what was read with the config count, where [`begin`](Self::begin) took over another table.
    pub fn take_effect(&self) {
        let read = self.read().take();
        if let (Some(live), Some(read)) = (self.live.get(), read) {
            live.replace(read);
        }
    }

    /// The table in use, once there is one.
    pub fn live(&self) -> Option<&Arc<LiveMap>> {
        self.live.get()
    }

    /// Its table, in use or as it was read.
    pub fn table(&self) -> Arc<MapTable> {
        match self.live.get() {
            Some(live) => live.now(),
            None => self.read().clone().unwrap_or_else(ReadMap::empty).table,
        }
    }

    /// Appends what it stands for, by one of the texts that its source comes to.
    pub fn write(&self, facts: &impl TemplateFacts, nth: usize, out: &mut Vec<u8>) {
        match self.live.get() {
            Some(live) => live.counts.count(self.write_by(&live.now.load(), facts, nth, out)),
            None => _ = self.write_by(&self.table(), facts, nth, out),
        }
    }

    fn write_by(
        &self,
        table: &MapTable,
        facts: &impl TemplateFacts,
        nth: usize,
        out: &mut Vec<u8>,
    ) -> MapOutcome {
        let start = out.len();
        self.source.write_nth(facts, nth, out);
        let end = out.len();
        let entries = &table.entries;
        let found = match self.ignore_case {
            true => find_in_lower_case(entries, out, start),
            false => entries.get(&out[start..]),
        };
        match found {
            None if table.write_by_address(start, out) => return MapOutcome::Database,
            None => {
                out.truncate(start);
                self.default.write_first(facts, out);
                return MapOutcome::Default;
            }
            Some(MapMatch::Text(text)) => {
                out.truncate(start);
                out.extend_from_slice(text);
            }
            Some(MapMatch::Value(value, regex)) => {
                for part in value.parts() {
                    match (part, regex) {
                        (TemplatePart::Literal(text), _) => out.extend_from_slice(text.as_bytes()),
                        (TemplatePart::Value(TemplateValue::MatchGroup(name)), Some(regex)) => {
                            let group = regex.group_range(&out[start..end], name);
                            let group = group.map(|group| start + group.start..start + group.end);
                            out.extend_from_within(group.unwrap_or_default());
                        }
                        (TemplatePart::Value(value), _) => facts.write_first(value, out),
                    }
                }
                out.drain(start..end);
            }
        }
        MapOutcome::Entry
    }
}

/// Looks up what stands in `out` from `start` on: its lower case among the texts of the map, itself among its regular expressions, which know of case
/// themselves, so that their groups are as they came.
fn find_in_lower_case<'t>(
    table: &'t ValueMap<Template>,
    out: &mut Vec<u8>,
    start: usize,
) -> Option<MapMatch<'t, Template>> {
    let end = out.len();
    out.extend_from_within(start..);
    out[end..].make_ascii_lowercase();
    let found = table.get_text(&out[end..]);
    out.truncate(end);
    found.or_else(|| table.get_regex(&out[start..]))
}

/// A table that is being made.
pub(crate) struct MapTableBuilder {
    map: ValueMapBuilder<Template>,
    ignore_case: bool,
}

impl MapTableBuilder {
    /// Makes room, so that many entries are added quickly.
    pub(crate) fn reserve(&mut self, kind: MapKind, entries: usize) {
        self.map.reserve(kind, entries);
    }

    pub(crate) fn insert(&mut self, kind: MapKind, key: &str, value: &Template) -> Result<(), MapEntryError> {
        match value.literal() {
            Some(text) => self.insert_text(kind, key, text),
            None => match self.cased(kind, key) {
                Some(key) => self.map.insert_value(kind, &key, value.clone()),
                None => self.map.insert_value(kind, key, value.clone()),
            },
        }
    }

    pub(crate) fn insert_text(&mut self, kind: MapKind, key: &str, text: &str) -> Result<(), MapEntryError> {
        match self.cased(kind, key) {
            Some(key) => self.map.insert_text(kind, &key, text.as_bytes()),
            None => self.map.insert_text(kind, key, text.as_bytes()),
        }
    }

    /// The key as it is kept where capital letters do not count.
    fn cased(&self, kind: MapKind, key: &str) -> Option<String> {
        self.ignore_case.then(|| match kind {
            MapKind::Regex => format!("(?i){key}"),
            _ => key.to_ascii_lowercase(),
        })
    }

    pub(crate) fn build(self, database: Option<AddressDatabase>) -> MapTable {
        MapTable::new(self.map.build(), database)
    }
}
