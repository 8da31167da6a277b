//! The reference of the configuration and its JSON Schema, made from the declared keys.

mod elsewhere;
mod markdown;
mod schema;

pub use elsewhere::elsewhere_markdown;
pub use markdown::reference_markdown;
#[cfg(test)]
pub(crate) use markdown::words_of_all_keys;
pub use schema::json_schema;

use crate::key::Section;
use crate::text::Document;

/// Every table of the config once, in the order of the reference.
pub(crate) fn sections() -> &'static [&'static Section] {
    Document::vocabulary().sections()
}

/// The text of a doc comment as one line.
pub(crate) fn prose(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}
