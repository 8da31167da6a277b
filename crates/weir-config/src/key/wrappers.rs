//! Values with something around them: a position, a list, a name.

use super::{Bounds, Kind, Reader, Sectional, Value};
use crate::source::{Node, Span, Tree};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spanned<T> {
    pub(crate) value: T,
    pub(crate) at: Span,
}

impl<T: Value> Value for Spanned<T> {
    fn kind(bounds: Bounds) -> Kind {
        T::kind(bounds)
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        Some(Self { value: T::read(node, bounds, reader)?, at: node.at })
    }

    fn write(&self) -> String {
        self.value.write()
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.value.lines(path, lines);
    }
}

/// A table, where it stands and where each of its keys does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) at: Span,
    /// Whether everything in it could be read: otherwise it is not worth comparing with others.
    pub(crate) is_sound: bool,
    keys: Vec<(String, Span)>,
    /// Keys that something in it is probably a slip of.
    misspelt: Vec<&'static str>,
}

impl<T> Located<T> {
    /// A table that no text has.
    pub(crate) fn unwritten(value: T, at: Span) -> Self {
        Self { value, at, is_sound: true, keys: Vec::new(), misspelt: Vec::new() }
    }

    /// Where a key stands; `None` when the text does not set it.
    pub(crate) fn written(&self, key: &str) -> Option<Span> {
        self.keys.iter().find(|(known, _)| known == key).map(|(_, at)| *at)
    }

    /// The keys that the text sets, in its order.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().map(|(key, _)| &**key)
    }

    /// Whether the text does not even try to set a key.
    pub(crate) fn is_missing(&self, key: &str) -> bool {
        self.written(key).is_none() && !self.misspelt.contains(&key)
    }

    /// Where a key stands; `None` when the text does not set it, or to what holds anyway.
    pub(crate) fn changed(&self, key: &str) -> Option<Span>
    where
        T: Sectional + Default,
    {
        let entry =
            |table: &T| table.entries().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value);
        self.written(key).filter(|_| entry(&self.value) != entry(&T::default()))
    }

    /// Where a key stands; the table when it is not set.
    pub(crate) fn key_at(&self, key: &str) -> Span {
        self.written(key).unwrap_or(self.at)
    }
}

impl<T: Sectional> Value for Located<T> {
    fn kind(bounds: Bounds) -> Kind {
        T::kind(bounds)
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        let found = reader.found();
        let value = T::read(node, bounds, reader)?;
        let is_sound = reader.found() == found;
        let entries = match &node.tree {
            Tree::Table(table) => table.entries.as_slice(),
            _ => &[],
        };
        let keys = entries.iter().map(|entry| (entry.key.clone(), entry.key_at)).collect();
        let misspelt = entries.iter().filter_map(|entry| T::SECTION.meant_by(&entry.key)).collect();
        Some(Self { value, at: node.at, is_sound, keys, misspelt })
    }

    fn write(&self) -> String {
        self.value.write()
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        self.value.lines(path, lines);
    }
}

impl<T: Value> Value for Vec<T> {
    fn kind(bounds: Bounds) -> Kind {
        Kind::List(Box::new(T::kind(bounds)))
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        let Tree::List(list) = &node.tree else {
            reader.wrong_type(node, &Self::kind(bounds));
            return None;
        };
        Some(list.iter().filter_map(|item| T::read(item, bounds, reader)).collect())
    }

    fn write(&self) -> String {
        let items: Vec<String> = self.iter().map(Value::write).collect();
        format!("[{}]", items.join(", "))
    }
}

/// A list of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Many<T>(pub(crate) Vec<T>);

impl<T: Value> Value for Many<T> {
    fn kind(bounds: Bounds) -> Kind {
        Vec::<T>::kind(bounds)
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        if matches!(&node.tree, Tree::List(list) if list.is_empty()) {
            reader.report_empty(node);
            return None;
        }
        Vec::read(node, bounds, reader).map(Self)
    }

    fn write(&self) -> String {
        self.0.write()
    }
}

/// One value or a list of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<T: Value> Value for OneOrMany<T> {
    fn kind(bounds: Bounds) -> Kind {
        Kind::Either(vec![T::kind(bounds), Kind::List(Box::new(T::kind(bounds)))])
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::List(_) => Many::read(node, bounds, reader).map(|list| Self(list.0)),
            _ => T::read(node, bounds, reader).map(|value| Self(vec![value])),
        }
    }

    fn write(&self) -> String {
        match self.0.as_slice() {
            [only] => only.write(),
            _ => self.0.write(),
        }
    }
}

/// A table whose keys are names given by the author of the config, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map<T>(pub(crate) Vec<(Spanned<Box<str>>, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: Value> Value for Map<T> {
    fn kind(bounds: Bounds) -> Kind {
        Kind::Map(Box::new(T::kind(bounds)))
    }

    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self> {
        let Tree::Table(table) = &node.tree else {
            reader.wrong_type(node, &Self::kind(bounds));
            return None;
        };
        let mut map = Vec::new();
        for entry in &table.entries {
            let name = entry.key.as_str();
            if let Some(value) = reader.named(name, |reader| T::read(&entry.node, bounds, reader)) {
                map.push((Spanned { value: name.into(), at: entry.key_at }, value));
            }
        }
        Some(Self(map))
    }

    fn write(&self) -> String {
        let entries: Vec<String> = self
            .0
            .iter()
            .map(|(name, value)| format!("{} = {}", name.value.write(), value.write()))
            .collect();
        if entries.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", entries.join(", ")) }
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        for (name, value) in &self.0 {
            value.lines(&format!("{path}.{}", name.value.write()), lines);
        }
    }
}
