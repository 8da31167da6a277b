//! The changes that a route makes to the fields of a head.

use weir_config::HeaderChanges;
use weir_http::FieldWriter;

/// Whether the changes of a route take this field out.
pub(super) fn is_changed_away(changes: &HeaderChanges, name: &[u8]) -> bool {
    let named = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
    changes.remove.iter().any(|other| named(other)) || changes.set.iter().any(|(other, _)| named(other))
}

/// Whether the changes of a route leave a field of this name that Weir itself adds.
#[inline]
pub(super) fn leave(changes: &HeaderChanges, name: &[u8]) -> bool {
    changes.is_empty() || !is_changed_away(changes, name)
}

/// Adds what a route sets and adds.
pub(crate) fn write_changes(out: &mut impl FieldWriter, changes: &HeaderChanges) {
    for (name, value) in changes.set.iter().chain(&changes.add) {
        out.field(name.as_bytes(), value.as_bytes());
    }
}
