//! Listeners and upstreams in the making, and the blocks of what they have in common.

use std::collections::{HashMap, HashSet};

use super::address::with_open_variables;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::{Statement, StatementId};

/// How many things that several tables have alike are looked at for a block.
const UNITS_MAX: usize = 64;

/// Keys with their values, each with the line that it comes from.
#[derive(Clone, Default)]
pub(super) struct Keys<'s> {
    entries: Vec<KeyEntry<'s>>,
    pub(super) routes: Vec<Keys<'s>>,
    /// Routes that only failures come to, which the error pages of these keys name.
    pub(super) failures: Vec<Keys<'s>>,
    /// Where the table itself comes from.
    pub(super) header: Option<&'s Statement>,
}

#[derive(Clone)]
struct KeyEntry<'s> {
    path: Vec<String>,
    value: TomlValue,
    from: Option<&'s Statement>,
}

/// Tables of one kind under their names.
pub(super) struct NamedTables<'s> {
    /// `listener` or `upstream`.
    pub(super) kind: &'static str,
    /// What a block of them is called.
    pub(super) block: &'static str,
    pub(super) tables: Vec<(String, Keys<'s>)>,
}

/// A key of the first level with all below it, or the routes (without a key), and the tables that have it so.
struct SharedUnit {
    key: Option<String>,
    lines: usize,
    tables: Vec<usize>,
}

impl<'s> Keys<'s> {
    /// Those of a table that comes from here.
    pub(super) fn of(header: &'s Statement) -> Keys<'s> {
        Keys { header: Some(header), ..Keys::default() }
    }

    /// Sets what a path such as `timeouts.connect` has.
    pub(super) fn set(
        &mut self,
        path: &str,
        value: impl Into<TomlValue>,
        from: impl Into<Option<&'s Statement>>,
    ) {
        self.set_path(&path.split('.').collect::<Vec<_>>(), value, from);
    }

    pub(super) fn set_path(
        &mut self,
        path: &[&str],
        value: impl Into<TomlValue>,
        from: impl Into<Option<&'s Statement>>,
    ) {
        let path: Vec<String> = path.iter().map(|part| (*part).to_owned()).collect();
        let (value, from) = (value.into(), from.into());
        match self.entries.iter_mut().find(|entry| entry.path == path) {
            Some(entry) => (entry.value, entry.from) = (value, from),
            None => self.entries.push(KeyEntry { path, value, from }),
        }
    }

    /// Adds to the list of a key what is not in it.
    pub(super) fn push(
        &mut self,
        key: &str,
        value: impl Into<TomlValue>,
        from: impl Into<Option<&'s Statement>>,
    ) {
        let value = value.into();
        match self.entries.iter_mut().find(|entry| entry.path == [key]) {
            Some(KeyEntry { value: TomlValue::Array(list), .. }) => {
                if !list.contains(&value) {
                    list.push(value);
                }
            }
            Some(entry) if entry.value == value => {}
            Some(entry) => entry.value = TomlValue::Array(vec![entry.value.clone(), value]),
            None => self.set_path(&[key], value, from),
        }
    }

    pub(super) fn get(&self, path: &str) -> Option<&TomlValue> {
        let path: Vec<&str> = path.split('.').collect();
        self.entries.iter().find(|entry| entry.path == path).map(|entry| &entry.value)
    }

    /// Whether a key, or something below it, is set.
    pub(super) fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.path[0] == key)
    }

    pub(super) fn remove(&mut self, key: &str) {
        self.entries.retain(|entry| entry.path[0] != key);
    }

    /// Whether what a key says has a text in it, be it in capital letters.
    pub(super) fn names(&self, key: &str, text: &str) -> bool {
        self.print(key).to_ascii_lowercase().contains(text)
    }

    /// Puts another value in place of what a key has, which comes from the same line.
    pub(super) fn replace(&mut self, key: &str, value: TomlValue) {
        if let Some(entry) = self.entries.iter_mut().find(|entry| entry.path == [key]) {
            entry.value = value;
        }
    }

    /// Takes out what a path has.
    pub(super) fn remove_path(&mut self, path: &str) {
        let path: Vec<&str> = path.split('.').collect();
        self.entries.retain(|entry| entry.path != path);
    }

    /// The keys of the first level.
    pub(super) fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for entry in &self.entries {
            if !keys.contains(&entry.path[0].as_str()) {
                keys.push(&entry.path[0]);
            }
        }
        keys
    }

    /// Takes over what the other has; what is here already stays. Where both ask for a password, users have to be of both.
    pub(super) fn extend(&mut self, other: &Keys<'s>) {
        let both_ask = self.has("basic") && other.has("basic");
        if both_ask {
            let is_user =
                |entry: &KeyEntry<'s>| entry.path.len() == 3 && entry.path[..2] == ["basic", "users"];
            let is_of_other = |entry: &KeyEntry<'s>| {
                other.entries.iter().any(|known| known.path == entry.path && known.value == entry.value)
            };
            self.entries.retain(|entry| !is_user(entry) || is_of_other(entry));
        }
        self.failures.extend(other.failures.iter().cloned());
        for entry in other.entries.iter().filter(|entry| !both_ask || entry.path[0] != "basic") {
            if !self.entries.iter().any(|own| own.path == entry.path) {
                self.entries.push(entry.clone());
            }
        }
    }

    /// What a key says, as a text that is the same where it is the same.
    fn print(&self, key: &str) -> String {
        let entries = self.entries.iter().filter(|entry| entry.path[0] == key);
        entries.map(|entry| format!("{}={}\n", entry.path.join("\0"), entry.value)).collect()
    }

    fn print_routes(&self) -> String {
        let route =
            |route: &Keys<'s>| -> String { route.keys().into_iter().map(|key| route.print(key)).collect() };
        self.routes.iter().map(|keys| format!("{}\0\n", route(keys))).collect()
    }

    fn same_routes(&self, other: &Keys<'s>) -> bool {
        self.routes.len() == other.routes.len()
            && self.routes.iter().zip(&other.routes).all(|(one, other)| one.equals(other))
    }

    pub(super) fn equals(&self, other: &Keys<'s>) -> bool {
        self.entries.len() == other.entries.len()
            && self
                .entries
                .iter()
                .zip(&other.entries)
                .all(|(a, b)| (&a.path, &a.value) == (&b.path, &b.value))
            && self.same_routes(other)
    }

    /// Writes them into a table; comments of a line are written once.
    pub(super) fn write(&self, table: &mut DraftTable, shown: &mut HashSet<StatementId>) {
        if let Some(header) = self.header {
            match shown.insert(header.id) {
                true => table.originate(header),
                false => table.originate(&without_comments(header)),
            }
        }
        for entry in &self.entries {
            let (last, before) = entry.path.split_last().expect("paths have at least one key");
            let table = before.iter().fold(&mut *table, |table, key| table.table(key));
            let value = opened(entry.value.clone());
            match entry.from {
                // What is in a table on one line has no place for comments.
                Some(from) if before.len() <= 1 && !is_of_headers(&entry.path) => {
                    let bare = !before.is_empty() || !shown.insert(from.id);
                    match bare {
                        true => table.set(last, value, &without_comments(from)),
                        false => table.set(last, value, from),
                    }
                }
                Some(from) if !shown.insert(from.id) => table.set(last, value, &without_comments(from)),
                Some(from) => table.set(last, value, from),
                None => table.set_plain(last, value),
            }
        }
        for route in &self.routes {
            let mut own = DraftTable::default();
            route.write(&mut own, shown);
            table.push_table("route", own);
        }
    }

    /// The lines that it takes, about.
    fn lines(&self) -> usize {
        self.keys().len() + self.routes.iter().map(|route| route.lines() + 2).sum::<usize>()
    }
}

impl<'s> NamedTables<'s> {
    /// Writes them, with blocks for what several have in common where that is shorter.
    pub(super) fn write(mut self, draft: &mut Draft) {
        let mut blocks = 0;
        let shown = &mut HashSet::new();
        while let Some(tables) = self.best_share() {
            blocks += 1;
            let name = match blocks {
                1 => self.block.to_owned(),
                _ => format!("{}-{blocks}", self.block),
            };
            self.make_block(&name, &tables, draft, shown);
            if blocks == 4 {
                break;
            }
        }
        for (name, keys) in &self.tables {
            keys.write(draft.table(&[self.kind, name]), shown);
        }
    }

    /// The set of tables by whose block most lines are saved.
    fn best_share(&self) -> Option<Vec<usize>> {
        let units = self.units();
        let mut best: Option<(usize, &Vec<usize>)> = None;
        for unit in &units {
            let tables = &unit.tables;
            let lines: usize =
                units.iter().filter(|other| covers(&other.tables, tables)).map(|other| other.lines).sum();
            let new_uses = tables.iter().filter(|index| !self.tables[**index].1.has("use")).count();
            let saved = (lines * (tables.len() - 1)).saturating_sub(1 + new_uses);
            if saved > best.map_or(0, |(most, _)| most) {
                best = Some((saved, tables));
            }
        }
        best.map(|(_, tables)| tables.clone())
    }

    /// What several tables have alike, the most frequent first.
    fn units(&self) -> Vec<SharedUnit> {
        let mut found: HashMap<(Option<&str>, String), SharedUnit> = HashMap::new();
        for (index, (_, keys)) in self.tables.iter().enumerate() {
            for key in keys.keys().into_iter().filter(|key| !["use", "address"].contains(key)) {
                let unit = || SharedUnit { key: Some(key.to_owned()), lines: 1, tables: Vec::new() };
                found.entry((Some(key), keys.print(key))).or_insert_with(unit).tables.push(index);
            }
            if !keys.routes.is_empty() {
                let lines = keys.routes.iter().map(|route| route.lines() + 2).sum();
                let unit = || SharedUnit { key: None, lines, tables: Vec::new() };
                found.entry((None, keys.print_routes())).or_insert_with(unit).tables.push(index);
            }
        }
        let mut units: Vec<SharedUnit> = found.into_values().filter(|unit| unit.tables.len() > 1).collect();
        units.sort_by(|one, other| {
            let weight = |unit: &SharedUnit| unit.lines * (unit.tables.len() - 1);
            weight(other)
                .cmp(&weight(one))
                .then_with(|| one.tables.cmp(&other.tables))
                .then_with(|| self.place(one).cmp(&self.place(other)))
        });
        units.truncate(UNITS_MAX);
        units
    }

    /// Where a unit is in its first table.
    fn place(&self, unit: &SharedUnit) -> Option<usize> {
        let keys = self.tables[unit.tables[0]].1.keys();
        unit.key.as_ref().and_then(|key| keys.iter().position(|known| known == key))
    }

    fn make_block(
        &mut self,
        name: &str,
        tables: &[usize],
        draft: &mut Draft,
        shown: &mut HashSet<StatementId>,
    ) {
        let mut shared: Vec<SharedUnit> =
            self.units().into_iter().filter(|unit| covers(&unit.tables, tables)).collect();
        shared.sort_by_key(|unit| self.place(unit).unwrap_or(usize::MAX));
        let mut block = Keys::default();
        let first = self.tables[tables[0]].1.clone();
        for unit in &shared {
            match &unit.key {
                Some(key) => {
                    let entries = first.entries.iter().filter(|entry| entry.path[0] == *key);
                    block.entries.extend(entries.cloned());
                }
                None => block.routes.clone_from(&first.routes),
            }
        }
        for index in tables {
            let keys = &mut self.tables[*index].1;
            for unit in &shared {
                match &unit.key {
                    Some(key) => keys.remove(key),
                    None => keys.routes.clear(),
                }
            }
            keys.push("use", name, None);
        }
        block.write(draft.table(&["block", name]), shown);
    }
}

/// Whether a set of tables has all of another; both are sorted.
fn covers(all: &[usize], some: &[usize]) -> bool {
    let mut rest = all.iter();
    some.iter().all(|index| rest.any(|known| known == index))
}

/// The line for its place alone.
fn without_comments(statement: &Statement) -> Statement {
    let at = statement.at.clone();
    Statement { id: statement.id, at, words: Vec::new(), block: None, comments: Vec::new() }
}

/// Headers have lines of their own.
fn is_of_headers(path: &[String]) -> bool {
    path[0].ends_with("_headers")
}

/// With variables that were not set, for who runs the result.
fn opened(value: TomlValue) -> TomlValue {
    match value {
        TomlValue::Text(text) => TomlValue::Text(with_open_variables(&text)),
        TomlValue::Array(list) => TomlValue::Array(list.into_iter().map(opened).collect()),
        TomlValue::Inline(entries) => {
            TomlValue::Inline(entries.into_iter().map(|(key, value)| (key, opened(value))).collect())
        }
        other => other,
    }
}

/// A body as Weir takes it literally; nothing if there is a placeholder in it.
pub(super) fn literal_body(text: &str) -> Option<String> {
    (!has_placeholder(text)).then(|| literal(text))
}

/// How names of placeholders begin.
const PLACEHOLDERS: [&str; 54] = [
    "affinity",
    "args",
    "attempts",
    "authority",
    "body_bytes_sent",
    "bytes",
    "cache",
    "client",
    "compression",
    "content",
    "cookie",
    "date",
    "detail",
    "duration",
    "forwarded",
    "fragment",
    "geo",
    "haproxy",
    "header",
    "host",
    "jwt",
    "limit",
    "listener",
    "load",
    "local",
    "map",
    "match",
    "method",
    "path",
    "peer",
    "phase",
    "port",
    "proxy",
    "query",
    "queue",
    "reason",
    "referer",
    "request",
    "response",
    "retries",
    "route",
    "scheme",
    "server",
    "servers",
    "status",
    "table",
    "tag",
    "target",
    "time",
    "title",
    "tls",
    "trace",
    "upstream",
    "user",
];

/// Whether braces of a text would be a placeholder: something like the name of one between them.
fn has_placeholder(text: &str) -> bool {
    text.split('{').skip(1).any(|part| {
        let inside = part.split('}').next().unwrap_or_default();
        let first = inside.split(['.', '_', '|', ':']).next().unwrap_or_default();
        part.contains('}')
            && (PLACEHOLDERS.contains(&first)
                || first.starts_with("timer")
                || matches!(first, "vars" | "version" | "termination"))
    })
}

/// A text as Weir takes it literally: `${` would be a variable of the environment, and `$$` one dollar.
pub(super) fn literal(text: &str) -> String {
    text.replace("$$", "$$$$").replace("${", "$${")
}

/// The same for texts with placeholders, in which braces are doubled.
pub(super) fn literal_in_template(text: &str) -> String {
    literal(&text.replace('{', "{{").replace('}', "}}"))
}
