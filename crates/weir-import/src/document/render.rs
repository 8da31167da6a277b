//! The text of a document: small tables on one line, others under a header of their own; long lists over several lines.

use super::value::KeyText;
use super::{DraftEntry, DraftStep, DraftTable, Item, TomlValue};
use crate::source::StatementId;

/// The columns of a line before a list goes over several.
const WIDTH: usize = 110;

/// The top-level tables, in the order of the reference.
const ORDER: [&str; 19] = [
    "include",
    "process",
    "log",
    "access_log",
    "dns",
    "discovery",
    "admin",
    "recorder",
    "metrics",
    "traces",
    "map",
    "list",
    "limit",
    "table",
    "store",
    "cache",
    "block",
    "listener",
    "upstream",
];

/// A text and the origin of each of its lines.
#[derive(Default)]
struct RenderedLines {
    text: String,
    origins: Vec<Option<StatementId>>,
    /// Where each line stands, if that is asked for.
    places: Option<Vec<Vec<DraftStep>>>,
    /// Where the next line stands.
    place: Vec<DraftStep>,
}

pub(super) fn render(root: &DraftTable) -> (String, Vec<Option<StatementId>>) {
    let lines = rendered(root, false);
    (lines.text, lines.origins)
}

/// For each line where it stands.
pub(super) fn places(root: &DraftTable) -> Vec<Vec<DraftStep>> {
    rendered(root, true).places.unwrap_or_default()
}

fn rendered(root: &DraftTable, with_places: bool) -> RenderedLines {
    let mut entries: Vec<&DraftEntry> = root.entries.iter().collect();
    entries.sort_by_key(|entry| ORDER.iter().position(|key| *key == entry.key).unwrap_or(ORDER.len()));
    let mut lines = RenderedLines { places: with_places.then(Vec::new), ..RenderedLines::default() };
    for comment in &root.comments {
        lines.push(&format!("# {comment}"), None);
    }
    for entry in entries {
        lines.within(DraftStep::Key(entry.key.clone()), |lines| lines.entry_of_root(entry));
    }
    lines
}

impl RenderedLines {
    fn push(&mut self, text: &str, origin: Option<StatementId>) {
        for line in text.split('\n') {
            self.text.push_str(line);
            self.text.push('\n');
            self.origins.push(origin);
            if let Some(places) = &mut self.places {
                places.push(self.place.clone());
            }
        }
    }

    fn within(&mut self, step: DraftStep, write: impl FnOnce(&mut Self)) {
        self.place.push(step);
        write(self);
        self.place.pop();
    }

    fn comments(&mut self, comments: &[String]) {
        for comment in comments {
            self.push(format!("# {comment}").trim_end(), None);
        }
    }

    /// `listener` and its like have tables only; `process` is one.
    fn entry_of_root(&mut self, entry: &DraftEntry) {
        let named = ["map", "list", "limit", "table", "store", "cache", "block", "listener", "upstream"];
        match &entry.item {
            Item::Table(table) if named.contains(&entry.key.as_str()) => {
                for child in &table.entries {
                    let path = format!("{}.{}", entry.key, KeyText(&child.key));
                    self.within(DraftStep::Key(child.key.clone()), |lines| match &child.item {
                        Item::Table(table) => lines.section(&path, table, child.origin),
                        other => lines.key_of_root(&path, other, child),
                    });
                }
            }
            Item::Table(table) => self.section(&KeyText(&entry.key).to_string(), table, entry.origin),
            other => self.key_of_root(&KeyText(&entry.key).to_string(), other, entry),
        }
    }

    fn key_of_root(&mut self, path: &str, item: &Item, entry: &DraftEntry) {
        self.comments(&entry.comments);
        match item {
            Item::Value(value) => self.value(path, value, entry.origin),
            Item::Tables(list) => self.sections(path, list),
            Item::Table(table) => self.section(path, table, entry.origin),
        }
    }

    fn section(&mut self, path: &str, table: &DraftTable, origin: Option<StatementId>) {
        self.headed(&format!("[{path}]"), path, table, table.origin.or(origin));
    }

    fn sections(&mut self, path: &str, list: &[DraftTable]) {
        for (number, table) in list.iter().enumerate() {
            self.within(DraftStep::Number(number), |lines| {
                lines.headed(&format!("[[{path}]]"), path, table, table.origin);
            });
        }
    }

    /// A header, then what fits under it, then the tables that have headers of their own.
    fn headed(&mut self, header: &str, path: &str, table: &DraftTable, origin: Option<StatementId>) {
        let (own, apart): (Vec<&DraftEntry>, Vec<&DraftEntry>) =
            table.entries.iter().partition(|entry| fits_under(entry));
        let needed =
            !own.is_empty() || apart.is_empty() || header.starts_with("[[") || !table.comments.is_empty();
        if needed {
            if !self.text.is_empty() {
                self.push("", None);
            }
            self.comments(&table.comments);
            self.push(header, origin);
        }
        for entry in own {
            self.comments(&entry.comments);
            self.within(DraftStep::Key(entry.key.clone()), |lines| lines.own(entry, table.origin));
        }
        for entry in apart {
            let path = format!("{path}.{}", KeyText(&entry.key));
            self.within(DraftStep::Key(entry.key.clone()), |lines| match &entry.item {
                Item::Table(child) => lines.section(&path, child, entry.origin.or(table.origin)),
                Item::Tables(list) => lines.sections(&path, list),
                Item::Value(_) => unreachable!("values fit under their table"),
            });
        }
    }

    fn own(&mut self, entry: &DraftEntry, origin: Option<StatementId>) {
        let origin = entry.origin.or(origin);
        let key = KeyText(&entry.key).to_string();
        match &entry.item {
            Item::Value(value) => self.value(&key, value, origin),
            Item::Table(table) => match table.entries.as_slice() {
                [DraftEntry { key: child, item: Item::Value(value), origin: own, .. }] => {
                    self.value(&format!("{key}.{}", KeyText(child)), value, own.or(origin));
                }
                entries => {
                    let own = table.origin.or_else(|| entries.iter().find_map(|entry| entry.origin));
                    self.value(&key, &inline(table), own.or(origin));
                }
            },
            Item::Tables(_) => unreachable!("lists of tables have headers of their own"),
        }
    }

    fn value(&mut self, key: &str, value: &TomlValue, origin: Option<StatementId>) {
        let line = format!("{key} = {value}");
        match value {
            TomlValue::Array(list) if line.chars().count() > WIDTH && list.len() > 1 => {
                let items: Vec<String> = list.iter().map(|item| format!("    {item},")).collect();
                self.push(&format!("{key} = [\n{}\n]", items.join("\n")), origin);
            }
            _ => self.push(&line, origin),
        }
    }
}

/// Whether an entry is one line (or one list) under the header of its table.
fn fits_under(entry: &DraftEntry) -> bool {
    match &entry.item {
        Item::Value(_) => true,
        Item::Tables(_) => false,
        Item::Table(table) => {
            let plain =
                |entry: &DraftEntry| matches!(entry.item, Item::Value(_)) && entry.comments.is_empty();
            let width = inline(table).to_string().chars().count() + entry.key.chars().count();
            table.comments.is_empty()
                && table.entries.iter().all(plain)
                && (table.entries.len() == 1 || width < WIDTH)
        }
    }
}

fn inline(table: &DraftTable) -> TomlValue {
    let entries = table.entries.iter().map(|entry| (entry.key.clone(), as_value(&entry.item)));
    TomlValue::Inline(entries.collect())
}

/// Tables as they are on one line.
pub(super) fn as_value(item: &Item) -> TomlValue {
    match item {
        Item::Value(value) => value.clone(),
        Item::Table(table) => inline(table),
        Item::Tables(list) => TomlValue::Array(list.iter().map(inline).collect()),
    }
}
