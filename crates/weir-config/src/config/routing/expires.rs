//! `expires`: how long clients may keep responses, by media type, status and origin.

use std::time::Duration;

use super::compression::MediaPattern;

/// How long clients may keep a response: `Cache-Control` and `Expires`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Expires {
    /// The media types; empty: all, and responses without one.
    pub types: Vec<MediaPattern>,
    /// For how long.
    pub time: ExpiresTime,
    /// Whether the fields of a server that say `no-store`, `no-cache` or `private` give way, too.
    pub overrides: bool,
}

/// For how long a response may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpiresTime {
    /// What the response says itself stays.
    Off,
    /// It has to be confirmed before each use: `Cache-Control: no-cache`, and a date in 1970.
    Epoch,
    /// As long as this, from when the client gets it.
    After(Duration),
    /// As long as this, from when it was last changed (`Last-Modified`); without that, nothing is said.
    Modified(Duration),
}

impl ExpiresTime {
    /// Ten years, as nginx has it.
    pub const MAX: Duration = Duration::from_secs(315_360_000);
}

impl Expires {
    /// Whether it is for this `Content-Type`.
    pub fn is_for_type(&self, content_type: Option<&[u8]>) -> bool {
        self.types.is_empty()
            || content_type.is_some_and(|content_type| {
                let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
                self.types.iter().any(|pattern| pattern.matches(media))
            })
    }
}
