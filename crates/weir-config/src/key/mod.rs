//! Which keys exist: the single declaration from which the parser, the reference and the JSON Schema are made.
//!
//! [`section!`] declares a table with its keys: name, type, default, meaning. A type implements [`ConfigValue`] to be read and written.
//! Comparisons with other keys (does this upstream exist?) are in `check`.

mod progress;
mod map;
mod list;
mod spanned;
mod section;
mod choice;
mod values;
mod reader;
mod migration;
mod vocabulary;
mod schema;
mod bounds;

pub(crate) use bounds::OutOfBounds;
pub(crate) use choice::choice;
pub(crate) use list::{NonEmpty, OneOrMany};
pub(crate) use map::Map;
pub(crate) use migration::unsupported_features;
pub(crate) use reader::TreeReader;
pub(crate) use schema::{
    Bounds, ChoiceWord, KeySchema, Presence, SectionSchema, TextFormat, ValueKind, print_bound,
};
pub(crate) use section::{ConfigSection, default_value, key_name, presence_type, presence_value, section};
pub(crate) use spanned::{Spanned, SpannedTable};
pub(crate) use values::{quoted, text_values};
pub(crate) use vocabulary::Vocabulary;

use crate::source::TreeNode;

/// A type that a key can have.
pub(crate) trait ConfigValue: Sized {
    /// How it is written, within the bounds of the key.
    fn kind(bounds: Bounds) -> ValueKind;

    /// Reads it; `None` after an error, which has been reported.
    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self>;

    /// Writes it as TOML.
    fn write(&self) -> String;

    /// Notes everything in it that exceeds the bounds of `key`; reading reports the same.
    fn check_bounds(&self, _key: &str, _bounds: Bounds, _found: &mut Vec<OutOfBounds>) {}

    /// Writes it as lines `path = value`; a table as one line per key.
    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        lines.push(format!("{path} = {}", self.write()));
    }
}
