//! Which keys exist: the one declaration that the parser, the reference and the JSON Schema are made from.
//!
//! [`section!`] declares a table with its keys: name, type, default, meaning. A type says through [`Value`] how it is written and read.
//! What a value means for others (does this upstream exist?) is not decided here but in `check`.

mod progress;
mod map;
mod list;
mod spanned;
mod section;
mod choice;
mod values;
mod reader;
mod foreign;
mod vocabulary;
mod schema;

pub(crate) use choice::choice;
pub(crate) use foreign::all_missing;
pub(crate) use list::{Many, OneOrMany};
pub(crate) use map::Map;
pub(crate) use reader::Reader;
pub(crate) use schema::{Bounds, Key, Kind, Presence, Section, TextKind, Word, print_bound};
pub(crate) use section::{Sectional, default_value, presence_type, presence_value, section};
pub(crate) use spanned::{Located, Spanned};
pub(crate) use values::text_values;
pub(crate) use vocabulary::Vocabulary;

use crate::source::Node;

/// A type that a key can have.
pub(crate) trait Value: Sized {
    /// How it is written, within the bounds of the key.
    fn kind(bounds: Bounds) -> Kind;

    /// Reads it; `None` after a mistake, which has been reported.
    fn read(node: &Node, bounds: Bounds, reader: &mut Reader<'_>) -> Option<Self>;

    /// Writes it as TOML.
    fn write(&self) -> String;

    /// Writes it as lines `path = value`; a table as one line per key.
    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        lines.push(format!("{path} = {}", self.write()));
    }
}
