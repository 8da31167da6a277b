//! Lists of values: any number, at least one, or a single value without brackets.

use super::ConfigValue;
use super::bounds::OutOfBounds;
use super::reader::TreeReader;
use super::schema::{Bounds, ValueKind};
use crate::source::{Tree, TreeNode};

impl<T: ConfigValue> ConfigValue for Vec<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::List(Box::new(T::kind(bounds)))
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let Tree::List(list) = &node.tree else {
            reader.wrong_type(node, &Self::kind(bounds));
            return None;
        };
        Some(list.iter().filter_map(|item| T::read(item, bounds, reader)).collect())
    }

    fn write(&self) -> String {
        let items: Vec<String> = self.iter().map(ConfigValue::write).collect();
        format!("[{}]", items.join(", "))
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        self.iter().for_each(|item| item.check_bounds(key, bounds, found));
    }
}

/// A list of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NonEmpty<T>(pub(crate) Vec<T>);

impl<T: ConfigValue> ConfigValue for NonEmpty<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        Vec::<T>::kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        if matches!(&node.tree, Tree::List(list) if list.is_empty()) {
            reader.report_empty(node);
            return None;
        }
        Vec::read(node, bounds, reader).map(Self)
    }

    fn write(&self) -> String {
        self.0.write()
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        self.0.check_bounds(key, bounds, found);
    }
}

/// One value or a list of at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OneOrMany<T>(pub(crate) Vec<T>);

impl<T: ConfigValue> ConfigValue for OneOrMany<T> {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![T::kind(bounds), ValueKind::List(Box::new(T::kind(bounds)))])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::List(_) => NonEmpty::read(node, bounds, reader).map(|list| Self(list.0)),
            _ => T::read(node, bounds, reader).map(|value| Self(vec![value])),
        }
    }

    fn write(&self) -> String {
        match self.0.as_slice() {
            [only] => only.write(),
            _ => self.0.write(),
        }
    }

    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        self.0.check_bounds(key, bounds, found);
    }
}
