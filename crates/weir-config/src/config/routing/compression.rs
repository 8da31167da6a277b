//! `compression`: which responses are compressed, how, and for whom.

use weir_http::ContentCoding;

/// How the responses of a route are compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Compression {
    /// The codings, the first choice first among those that a client wants equally.
    pub algorithms: Vec<ContentCoding>,
    /// The level of each coding, by its index.
    pub levels: [u32; ContentCoding::COUNT],
    /// Bodies that are known to be shorter pass as they are.
    pub length_min: u64,
    /// The media types of bodies that are compressed.
    pub types: Vec<MediaPattern>,
    /// Whether event streams are, too: each event at once.
    pub event_streams: bool,
    /// Whether a body that the client cannot decode is decoded.
    pub decompress: bool,
}

impl Compression {
    /// Whether bodies of this media type are compressed: a `Content-Type`, with or without parameters.
    pub fn covers(&self, content_type: &[u8]) -> bool {
        let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        if is_event_stream(media) {
            return self.event_streams;
        }
        self.types.iter().any(|pattern| pattern.matches(media))
    }
}

/// Whether a `Content-Type` is that of server-sent events (HTML Living Standard section 9.2).
pub fn is_event_stream(content_type: &[u8]) -> bool {
    let media = content_type.split(|byte| *byte == b';').next().unwrap_or_default();
    media.trim_ascii().eq_ignore_ascii_case(b"text/event-stream")
}

/// Media types: one, those of a kind (`text/*`), those with a suffix (`application/*+json`), or all (`*`).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MediaPattern {
    /// What stands before the `*`; the whole without one.
    pub(crate) start: Box<str>,
    /// What stands behind the `*`; `None` without one.
    pub(crate) end: Option<Box<str>>,
}

impl MediaPattern {
    /// Whether it is `*`: for every media type.
    pub(super) fn is_any(&self) -> bool {
        self.start.is_empty() && self.end.as_deref() == Some("")
    }

    /// Whether it is for a media type without parameters.
    pub(super) fn matches(&self, media: &[u8]) -> bool {
        let (start, end) = (self.start.as_bytes(), self.end.as_deref().map(str::as_bytes));
        match end {
            None => media.eq_ignore_ascii_case(start),
            Some(end) => {
                media.len() >= start.len() + end.len()
                    && media[..start.len()].eq_ignore_ascii_case(start)
                    && media[media.len() - end.len()..].eq_ignore_ascii_case(end)
            }
        }
    }
}
