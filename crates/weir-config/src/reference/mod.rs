//! The reference of the configuration and its JSON Schema, generated from the declared keys.

mod equivalents;
mod markdown;
mod tables;
mod schema;

pub use equivalents::equivalents_markdown;
pub use markdown::reference_markdown;
#[cfg(test)]
pub(crate) use markdown::words_of_all_keys;
pub use schema::json_schema;

use crate::key::SectionSchema;
use crate::text::Document;

/// Every table of the config once, in the order of the reference.
pub(crate) fn sections() -> &'static [&'static SectionSchema] {
    Document::vocabulary().sections()
}

/// The text of a doc comment as one line.
pub(crate) fn prose(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}
