//! An entry of a static table (RFC 7541 appendix A, RFC 9204 appendix A): a line with its class.

use super::line_class::{LineClass, LineName, is_connection_field};
use crate::message::name::FieldName;
use crate::message::rule::Rule;

/// One entry.
pub(crate) struct StaticLine {
    pub(crate) line: &'static [u8],
    pub(crate) name_len: usize,
    pub(crate) class: LineClass,
}

/// The name of a field that is not a known one.
pub(crate) const OTHER: LineName = LineName::Field(FieldName::Other);

/// The class of an entry with this name, whose value is sound.
pub(crate) const fn static_class(name: LineName) -> LineClass {
    let broken = match name {
        LineName::Field(known) if is_connection_field(known) => Some(Rule::ConnectionField),
        _ => None,
    };
    LineClass { name, broken }
}

/// The number of the first entry of each known name, counted from `first`; `none` where there is none.
pub(crate) const fn known_names(
    lines: &[StaticLine],
    first: u8,
    none: u8,
) -> [u8; FieldName::Other as usize + 1] {
    let mut names = [none; FieldName::Other as usize + 1];
    let mut position = lines.len();
    while position > 0 {
        position -= 1;
        if let LineName::Field(known) = lines[position].class.name {
            names[known as usize] = position as u8 + first;
        }
    }
    names[FieldName::Other as usize] = none;
    names
}
