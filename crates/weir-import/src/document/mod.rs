//! A `weir.toml` in the making: tables and values in an order, each with the statement that it comes from.

use crate::source::Statement;
use crate::source::StatementId;

// Whether the order of routes matters.
pub(crate) mod order;
mod render;
mod value;

pub use value::TomlValue;

/// The whole file. Top-level tables are rendered in the order in which the documentation has them.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    root: DraftTable,
}

/// A table: entries in the order in which they were added.
#[derive(Clone, Debug, Default)]
pub struct DraftTable {
    entries: Vec<DraftEntry>,
    /// The comments above it.
    comments: Vec<String>,
    origin: Option<StatementId>,
}

#[derive(Clone, Debug)]
struct DraftEntry {
    key: String,
    item: Item,
    origin: Option<StatementId>,
    comments: Vec<String>,
}

/// A step from the whole file to a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DraftStep {
    Key(String),
    /// One of the tables of `[[key]]`.
    Number(usize),
}

/// What a key has.
#[derive(Clone, Debug, PartialEq)]
enum Item {
    Value(TomlValue),
    Table(DraftTable),
    /// `[[key]]`, each with a header of its own.
    Tables(Vec<DraftTable>),
}

/// Tables are the same if they say the same, wherever they come from.
impl PartialEq for DraftTable {
    fn eq(&self, other: &Self) -> bool {
        self.entries == other.entries
    }
}

/// Entries are the same if they say the same, wherever they come from.
impl PartialEq for DraftEntry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key && self.item == other.item
    }
}

impl Draft {
    /// A table by its path, made where it is not there: `document.table(&["listener", "web"])`.
    pub fn table(&mut self, path: &[&str]) -> &mut DraftTable {
        path.iter().fold(&mut self.root, |table, key| table.table(key))
    }

    /// Adds a table under a name of its kind; one that says the same is used again, one that says something else leaves the name to itself. The
    /// name that it has.
    pub fn add_named(&mut self, kind: &str, wanted: &str, table: DraftTable) -> String {
        let all = self.table(&[kind]);
        let mut name = wanted.to_owned();
        let mut number = 2;
        while let Some(known) = all.get_table(&name) {
            if known.says_the_same(&table) {
                return name;
            }
            name = format!("{wanted}-{number}");
            number += 1;
        }
        *all.table(&name) = table;
        name
    }

    /// Whether there is such a table.
    pub fn has(&self, path: &[&str]) -> bool {
        self.get(path).is_some()
    }

    /// A table by its path, if it is there.
    pub fn get(&self, path: &[&str]) -> Option<&DraftTable> {
        path.iter().try_fold(&self.root, |table, key| table.get_table(key))
    }

    /// The table of everything.
    pub fn root(&mut self) -> &mut DraftTable {
        &mut self.root
    }

    /// The text, and for each of its lines the statement that it comes from.
    pub fn render(&self) -> (String, Vec<Option<StatementId>>) {
        render::render(&self.root)
    }

    /// For each line of the text where it stands.
    pub(crate) fn places(&self) -> Vec<Vec<DraftStep>> {
        render::places(&self.root)
    }
}

impl DraftTable {
    /// One that comes from a statement, with its comments.
    pub fn of(statement: &Statement) -> DraftTable {
        DraftTable { entries: Vec::new(), comments: statement.comments.clone(), origin: Some(statement.id) }
    }

    /// One that comes from a statement whose comments stand elsewhere already.
    pub fn silently_of(statement: &Statement) -> DraftTable {
        DraftTable { origin: Some(statement.id), ..DraftTable::default() }
    }

    /// An empty one from where another one comes.
    pub fn beside(other: &DraftTable) -> DraftTable {
        DraftTable { origin: other.origin, ..DraftTable::default() }
    }

    /// Puts what another table has in front, in place of what is here under the same keys.
    pub fn prepend(&mut self, other: DraftTable) {
        self.entries.retain(|known| !other.has(&known.key));
        self.entries.splice(0..0, other.entries);
    }

    /// Adds the comments of a statement above it, before those that it has.
    pub fn comment_above(&mut self, statement: &Statement) {
        self.comments.splice(0..0, statement.comments.iter().cloned());
    }

    /// Adds a comment above it.
    pub fn comment(&mut self, text: &str) {
        self.comments.push(text.to_owned());
    }

    /// Takes the tables of `[[key]]` out.
    pub fn take_tables(&mut self, key: &str) -> Vec<DraftTable> {
        match self.entries.iter().position(|entry| entry.key == key) {
            Some(at) => match self.entries.remove(at).item {
                Item::Tables(list) => list,
                Item::Value(_) | Item::Table(_) => Vec::new(),
            },
            None => Vec::new(),
        }
    }

    /// The tables under its keys, to change.
    pub fn children_mut(&mut self) -> impl Iterator<Item = (&str, &mut DraftTable)> {
        self.entries.iter_mut().filter_map(|entry| match &mut entry.item {
            Item::Table(table) => Some((entry.key.as_str(), table)),
            Item::Value(_) | Item::Tables(_) => None,
        })
    }

    /// The tables under its keys.
    pub fn children(&self) -> impl Iterator<Item = (&str, &DraftTable)> {
        self.entries.iter().filter_map(|entry| match &entry.item {
            Item::Table(table) => Some((entry.key.as_str(), table)),
            Item::Value(_) | Item::Tables(_) => None,
        })
    }

    /// The statement that it comes from.
    pub const fn origin(&self) -> Option<StatementId> {
        self.origin
    }

    /// The statement that a key comes from.
    pub(crate) fn origin_of(&self, key: &str) -> Option<StatementId> {
        self.entries.iter().find(|entry| entry.key == key)?.origin
    }

    /// Changes all texts in it, at any depth; `change` gets the key.
    pub fn change_texts(&mut self, change: &impl Fn(&str, &str) -> Option<String>) {
        for entry in &mut self.entries {
            match &mut entry.item {
                Item::Value(value) => value.change_texts(&entry.key, change),
                Item::Table(table) => table.change_texts(change),
                Item::Tables(list) => list.iter_mut().for_each(|table| table.change_texts(change)),
            }
        }
    }

    /// Adds what another table has, in place of what is here under the same keys.
    pub fn extend(&mut self, other: DraftTable) {
        for entry in other.entries {
            self.entries.retain(|known| known.key != entry.key);
            self.entries.push(entry);
        }
    }

    /// Moves a key with what it has to another table.
    pub fn move_to(&mut self, key: &str, other: &mut DraftTable) {
        if let Some(at) = self.entries.iter().position(|entry| entry.key == key) {
            other.entries.push(self.entries.remove(at));
        }
    }

    /// Has of a key what another table has.
    pub fn copy_from(&mut self, key: &str, other: &DraftTable) {
        if let Some(entry) = other.entries.iter().find(|entry| entry.key == key) {
            self.remove(key);
            self.entries.push(entry.clone());
        }
    }

    /// Sets a key that no single statement has asked for, in front of all others.
    pub fn set_first(&mut self, key: &str, value: impl Into<TomlValue>) {
        self.remove(key);
        let item = Item::Value(value.into());
        self.entries.insert(0, DraftEntry { key: key.to_owned(), item, origin: None, comments: Vec::new() });
    }

    /// What a key has, as one value: tables are inline.
    pub fn value(&self, key: &str) -> Option<TomlValue> {
        let entry = self.entries.iter().find(|entry| entry.key == key)?;
        Some(render::as_value(&entry.item))
    }

    /// A key as it is written, over one line or several.
    pub fn text_of(&self, key: &str) -> String {
        let mut alone = DraftTable::default();
        let own = self.entries.iter().find(|entry| entry.key == key);
        alone.entries.extend(own.cloned());
        let mut draft = Draft::default();
        *draft.table(&["listener", "x"]) = alone;
        let (text, _) = draft.render();
        text.lines().filter(|line| *line != "[listener.x]" && !line.is_empty()).collect::<Vec<_>>().join("\n")
    }

    /// Whether comments stand above it.
    pub fn has_comments(&self) -> bool {
        !self.comments.is_empty()
    }

    /// Whether another table has the same under a key.
    pub fn agrees(&self, key: &str, other: &DraftTable) -> bool {
        let find = |table: &DraftTable| table.entries.iter().position(|entry| entry.key == key);
        match (find(self), find(other)) {
            (Some(ours), Some(theirs)) => self.entries[ours] == other.entries[theirs],
            (None, None) => true,
            _ => false,
        }
    }

    /// Where it comes from, and the comments there, unless it has that already.
    pub fn originate(&mut self, statement: &Statement) {
        if self.origin.is_none() {
            self.origin = Some(statement.id);
            self.comments.extend(statement.comments.iter().cloned());
        }
    }

    /// Sets a key, in place of what it had.
    pub fn set(&mut self, key: &str, value: impl Into<TomlValue>, from: &Statement) {
        self.put(key, Item::Value(value.into()), Some(from));
    }

    /// Sets a key by a statement whose comments stand elsewhere.
    pub fn set_beside(&mut self, key: &str, value: impl Into<TomlValue>, from: &Statement) {
        let origin = Some(from.id);
        self.put(key, Item::Value(value.into()), None);
        self.entries.iter_mut().filter(|entry| entry.key == key).for_each(|entry| entry.origin = origin);
    }

    /// Sets a key by a statement that is known by its name alone.
    pub(crate) fn set_by(&mut self, key: &str, value: impl Into<TomlValue>, from: StatementId) {
        self.put(key, Item::Value(value.into()), None);
        self.entries.iter_mut().filter(|entry| entry.key == key).for_each(|entry| entry.origin = Some(from));
    }

    /// Puts another value in place of what a key has, which comes from the same statement.
    pub(crate) fn replace_value(&mut self, key: &str, value: TomlValue) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.key == key) {
            entry.item = Item::Value(value);
        }
    }

    /// Adds a text to a list that is there.
    pub(crate) fn push_text(&mut self, key: &str, text: &str) {
        let list = self.entries.iter_mut().find(|entry| entry.key == key);
        if let Some(DraftEntry { item: Item::Value(TomlValue::Array(list)), .. }) = list {
            list.push(text.into());
        }
    }

    /// Sets a key that no single statement has asked for.
    pub fn set_plain(&mut self, key: &str, value: impl Into<TomlValue>) {
        self.put(key, Item::Value(value.into()), None);
    }

    /// Adds to the list that a key has.
    pub fn push(&mut self, key: &str, value: impl Into<TomlValue>, from: &Statement) {
        let value = value.into();
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(DraftEntry { item: Item::Value(TomlValue::Array(list)), .. }) => list.push(value),
            _ => self.set(key, TomlValue::Array(vec![value]), from),
        }
    }

    /// Adds to the list of a key what is not in it yet.
    pub fn push_once(&mut self, key: &str, value: impl Into<TomlValue>, from: &Statement) {
        let value = value.into();
        let known = matches!(self.get(key), Some(TomlValue::Array(list)) if list.contains(&value));
        if !known {
            self.push(key, value, from);
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&TomlValue> {
        match &self.entries.iter().find(|entry| entry.key == key)?.item {
            Item::Value(value) => Some(value),
            Item::Table(_) | Item::Tables(_) => None,
        }
    }

    /// The text of a key.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(TomlValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// Whether a key has anything.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether it has no key.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Whether another one has the same keys and values, wherever they come from.
    pub fn says_the_same(&self, other: &DraftTable) -> bool {
        self.entries == other.entries
    }

    /// Its keys, in their order.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.key.as_str())
    }

    /// The same without the comments above it: those stand where it was first.
    pub fn drop_comments(&mut self) {
        self.comments.clear();
    }

    /// Takes over what another table has: tables key by key, all else in place of what is there.
    pub fn merge(&mut self, other: &DraftTable) {
        for entry in &other.entries {
            match (&entry.item, self.entries.iter_mut().find(|own| own.key == entry.key)) {
                (Item::Table(table), Some(DraftEntry { item: Item::Table(own), .. })) => own.merge(table),
                (_, Some(own)) => *own = entry.clone(),
                (_, None) => self.entries.push(entry.clone()),
            }
        }
    }

    /// Takes all keys out.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Takes a key out.
    pub fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.key != key);
    }

    /// The table of a key, made where it is not there. A value of that key is replaced.
    pub fn table(&mut self, key: &str) -> &mut DraftTable {
        let index = self.entries.iter().position(|entry| entry.key == key).unwrap_or_else(|| {
            let item = Item::Table(DraftTable::default());
            self.entries.push(DraftEntry { key: key.to_owned(), item, origin: None, comments: Vec::new() });
            self.entries.len() - 1
        });
        let item = &mut self.entries[index].item;
        if !matches!(item, Item::Table(_)) {
            *item = Item::Table(DraftTable::default());
        }
        let Item::Table(table) = item else { unreachable!("it was just made one") };
        table
    }

    /// The table of a key, if it has one.
    pub fn get_table(&self, key: &str) -> Option<&DraftTable> {
        match &self.entries.iter().find(|entry| entry.key == key)?.item {
            Item::Table(table) => Some(table),
            Item::Value(_) | Item::Tables(_) => None,
        }
    }

    /// Adds a table to the list of a key: `[[key]]`.
    pub fn push_table(&mut self, key: &str, table: DraftTable) {
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(DraftEntry { item: Item::Tables(list), .. }) => list.push(table),
            _ => {
                let item = Item::Tables(vec![table]);
                self.entries.push(DraftEntry {
                    key: key.to_owned(),
                    item,
                    origin: None,
                    comments: Vec::new(),
                });
            }
        }
    }

    /// The tables of `[[key]]`.
    pub fn tables(&self, key: &str) -> &[DraftTable] {
        match self.entries.iter().find(|entry| entry.key == key).map(|entry| &entry.item) {
            Some(Item::Tables(list)) => list,
            _ => &[],
        }
    }

    /// The tables of `[[key]]`, to change.
    pub fn tables_mut(&mut self, key: &str) -> &mut [DraftTable] {
        match self.entries.iter_mut().find(|entry| entry.key == key).map(|entry| &mut entry.item) {
            Some(Item::Tables(list)) => list,
            _ => &mut [],
        }
    }

    fn put(&mut self, key: &str, item: Item, from: Option<&Statement>) {
        let origin = from.map(|statement| statement.id);
        let comments = from.map(|statement| statement.comments.clone()).unwrap_or_default();
        match self.entries.iter_mut().find(|entry| entry.key == key) {
            Some(entry) => (entry.item, entry.origin) = (item, origin),
            None => self.entries.push(DraftEntry { key: key.to_owned(), item, origin, comments }),
        }
    }
}
