//! The protocol version of a message. In HTTP/1 it is read from the first line (RFC 9112 section 2.3): HTTP/1.0 or HTTP/1.1, spelled exactly
//! so. Later minor versions, of which there are none so far, count as HTTP/1.1 (RFC 9110 section 2.5).

use super::rule::Rule;

/// The version of an HTTP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Version {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    #[default]
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl Version {
    /// Number of bytes of a version: `HTTP/1.1`.
    pub(crate) const LEN: usize = 8;

    /// The version as HTTP/1 writes it, and logs do.
    pub const fn as_str(self) -> &'static str {
        match self {
            Version::Http10 => "HTTP/1.0",
            Version::Http11 => "HTTP/1.1",
            Version::Http2 => "HTTP/2.0",
            Version::Http3 => "HTTP/3.0",
        }
    }

    /// The same in bytes, whose number is known.
    #[inline]
    pub(crate) const fn as_bytes(self) -> &'static [u8; Version::LEN] {
        match self {
            Version::Http10 => b"HTTP/1.0",
            Version::Http11 => b"HTTP/1.1",
            Version::Http2 => b"HTTP/2.0",
            Version::Http3 => b"HTTP/3.0",
        }
    }

    /// Reads the version at the start of `bytes`; `None` when bytes are missing.
    #[inline]
    pub(crate) fn read(bytes: &[u8]) -> Result<Option<Version>, Rule> {
        match bytes.first_chunk() {
            Some(b"HTTP/1.1") => Ok(Some(Version::Http11)),
            Some(b"HTTP/1.0") => Ok(Some(Version::Http10)),
            _ => unusual_version(bytes),
        }
    }
}

/// A later minor version, or the rule that is broken; `None` when it may still become a version.
#[cold]
fn unusual_version(bytes: &[u8]) -> Result<Option<Version>, Rule> {
    for (index, &byte) in bytes.iter().take(Version::LEN).enumerate() {
        let fits = match index {
            5 | 7 => byte.is_ascii_digit(),
            _ => byte == b"HTTP/1.1"[index],
        };
        if !fits {
            return Err(Rule::BadVersion);
        }
    }
    match bytes.get(..Version::LEN) {
        None => Ok(None),
        Some([.., b'1', b'.', b'2'..=b'9']) => Ok(Some(Version::Http11)),
        Some(_) => Err(Rule::UnsupportedVersion),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_bytes_are_the_same() {
        for version in [Version::Http10, Version::Http11, Version::Http2, Version::Http3] {
            assert_eq!(version.as_str().as_bytes(), version.as_bytes());
        }
    }
}
