//! The options of the `Connection` field (RFC 9110 section 7.6.1), gathered over all its lines.
//!
//! Three options have a meaning of their own here; all others only name fields that must not be forwarded.
//! Elements that are not tokens name nothing and are passed over: they can neither frame nor route.

use crate::bytes::elements;
use crate::message::fields::{Field, Fields};
use crate::message::name::FieldName;

/// The options of the `Connection` fields of one head.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ConnectionOptions {
    flags: u8,
}

impl ConnectionOptions {
    const CLOSE: u8 = 1;
    const KEEP_ALIVE: u8 = 2;
    const UPGRADE: u8 = 4;
    const OTHERS: u8 = 8;

    /// `close`: the sender closes after this message.
    #[inline]
    pub const fn close(self) -> bool {
        self.flags & Self::CLOSE != 0
    }

    /// `keep-alive`: an HTTP/1.0 sender wants to keep the connection.
    #[inline]
    pub const fn keep_alive(self) -> bool {
        self.flags & Self::KEEP_ALIVE != 0
    }

    /// `upgrade`: the `Upgrade` field is meant for this hop.
    #[inline]
    pub const fn upgrade(self) -> bool {
        self.flags & Self::UPGRADE != 0
    }

    /// Whether further names are listed, so that each field must be held against the list before it is forwarded.
    #[inline]
    pub const fn others(self) -> bool {
        self.flags & Self::OTHERS != 0
    }

    /// Those of a request that asks for another protocol, where that is not said by a `Connection` field.
    pub(crate) const fn of_upgrade() -> Self {
        Self { flags: Self::UPGRADE }
    }

    /// Adds the options of one field value.
    #[inline]
    pub(crate) fn add(&mut self, value: &[u8]) {
        self.flags |= match value {
            b"keep-alive" | b"Keep-Alive" => Self::KEEP_ALIVE,
            b"close" => Self::CLOSE,
            _ => flags_of(value),
        };
    }
}

/// The flags of a list of options.
fn flags_of(value: &[u8]) -> u8 {
    elements(value).fold(0, |flags, option| {
        flags
            | match option.len() {
                0 => 0,
                5 if option.eq_ignore_ascii_case(b"close") => ConnectionOptions::CLOSE,
                10 if option.eq_ignore_ascii_case(b"keep-alive") => ConnectionOptions::KEEP_ALIVE,
                7 if option.eq_ignore_ascii_case(b"upgrade") => ConnectionOptions::UPGRADE,
                _ => ConnectionOptions::OTHERS,
            }
    })
}

/// Whether `field` is named in a `Connection` field of `fields` and may be stripped for it.
///
/// Known end-to-end fields are never stripped: see [`FieldName::is_strippable`].
pub(crate) fn names_field(text: &[u8], fields: &Fields, field: &Field) -> bool {
    field.known.is_strippable()
        && fields
            .all(FieldName::Connection)
            .flat_map(|connection| elements(connection.value.of(text)))
            .any(|option| option.eq_ignore_ascii_case(field.name.of(text)))
}
