//! Why an object, or a part of one, is not applied: the reason for programs and the message for people.

use std::sync::Arc;

use weir_config::{ConfigFault, Route, RouteParts};

use crate::api::ObjectMeta;

/// A reason of the API and a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

impl Refusal {
    pub(crate) fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: shortened(&message.into()) }
    }

    /// Of an object of which a part cannot be read.
    pub(crate) fn unreadable(meta: &ObjectMeta, reason: &'static str) -> Result<(), Self> {
        let refusal = |why: &str| Self::new(reason, format!("the object cannot be read: {why}"));
        meta.unreadable.as_deref().map_or(Ok(()), |why| Err(refusal(why)))
    }

    /// A value that this version of Weir cannot apply: it is never ignored.
    pub(crate) fn unsupported(message: impl Into<String>) -> Self {
        Self::new("UnsupportedValue", message)
    }
}

/// The longest message of a condition; the API server takes 32 768 bytes, and messages are repeated for each parent.
const MESSAGE_BYTES_MAX: usize = 512;

/// One line of bounded length.
fn shortened(message: &str) -> String {
    let mut message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    if message.len() > MESSAGE_BYTES_MAX {
        let end = (0..=MESSAGE_BYTES_MAX - 3).rev().find(|end| message.is_char_boundary(*end)).unwrap_or(0);
        message.truncate(end);
        message.push_str("...");
    }
    message
}

/// The start of a value in a message.
pub(crate) fn excerpt(value: &str) -> String {
    const CHARS_MAX: usize = 60;
    match value.char_indices().nth(CHARS_MAX) {
        Some((end, _)) => format!("{}...", &value[..end]),
        None => value.to_owned(),
    }
}

/// A route; requests of one that cannot be as it was meant to are answered 500.
pub(crate) fn checked_route(parts: RouteParts, faults: &mut Vec<ConfigFault>) -> Arc<Route> {
    let (name, matches) = (Arc::clone(&parts.name), Arc::clone(&parts.matches));
    let route = Route::from_parts(parts).unwrap_or_else(|found| {
        faults.extend(found);
        Route::refusing(&name, matches)
    });
    Arc::new(route)
}
