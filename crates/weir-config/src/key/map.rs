//! Tables whose keys are names from the config.

use super::ConfigValue;
use super::reader::TreeReader;
use super::schema::{Bounds, ValueKind};
use super::spanned::Spanned;
use crate::source::{Tree, TreeNode};

/// A table whose keys are names from the config, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map<T>(pub(crate) Vec<(Spanned<Box<str>>, T)>);

impl<T> Default for Map<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T: ConfigValue> ConfigValue for Map<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Map(Box::new(T::kind(bounds)))
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let Tree::Table(table) = &node.tree else {
            reader.wrong_type(node, &Self::kind(bounds));
            return None;
        };
        let mut map = Vec::new();
        for entry in &table.entries {
            let name = entry.key.as_str();
            if let Some(value) = reader.named(name, |reader| T::read(&entry.node, bounds, reader)) {
                map.push((Spanned { value: name.into(), span: entry.key_at }, value));
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
