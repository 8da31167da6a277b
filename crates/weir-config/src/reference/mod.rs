//! The reference of the configuration and its JSON Schema, made from the declared keys.

mod elsewhere;
mod markdown;
mod schema;

pub use elsewhere::elsewhere_markdown;
pub use markdown::reference_markdown;
#[cfg(test)]
pub(crate) use markdown::words_of_all_keys;
pub use schema::json_schema;

use crate::key::{Kind, Section, Sectional};
use crate::text::Document;

/// Every table of the config once, in the order of the reference: each before those that it holds.
pub(crate) fn sections() -> Vec<&'static Section> {
    let mut found = Vec::new();
    visit(Document::SECTION, &mut found);
    found
}

fn visit(section: &'static Section, found: &mut Vec<&'static Section>) {
    if found.iter().any(|known| known.path == section.path) {
        return;
    }
    found.push(section);
    for key in section.keys {
        visit_kind(&(key.kind)(), found);
    }
}

fn visit_kind(kind: &Kind, found: &mut Vec<&'static Section>) {
    match kind {
        Kind::Section(section) => visit(section, found),
        Kind::List(item) | Kind::Map(item) => visit_kind(item, found),
        Kind::Either(kinds) => kinds.iter().for_each(|kind| visit_kind(kind, found)),
        Kind::Boolean | Kind::Integer(_) | Kind::Text(..) | Kind::Choice(_) => {}
    }
}

/// The text of a doc comment as one line.
pub(crate) fn prose(about: &str) -> String {
    about.split_whitespace().collect::<Vec<_>>().join(" ")
}
