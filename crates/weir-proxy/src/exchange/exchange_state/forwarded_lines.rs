//! The lines about a client that servers of HTTP/1 get, as they were made last: nearly every request of an exchange comes from the client of the one
//! before, or at least to the same listener from the same address.
//!
//! Only what depends on the connection and the config is in them; what a request contributes stands between their two parts.

use std::net::IpAddr;

use weir_http::Version;

/// Kept behind the lines for those of a client with a longer address.
const SPARE_BYTES: usize = 16;

/// What the lines depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::exchange) struct ForwardedLinesKey {
    pub(in crate::exchange) generation: u64,
    pub(in crate::exchange) listener: usize,
    pub(in crate::exchange) client: Option<IpAddr>,
    pub(in crate::exchange) port: Option<u16>,
    pub(in crate::exchange) is_tls: bool,
    pub(in crate::exchange) version: Version,
}

/// Lines of one key.
#[derive(Debug, Default)]
pub(in crate::exchange) struct ForwardedLines {
    /// Whether the request at hand goes with them as they are.
    pub(in crate::exchange) apply: bool,
    key: Option<ForwardedLinesKey>,
    text: Vec<u8>,
    /// Where the host of the request belongs.
    host_at: usize,
}

impl ForwardedLines {
    /// Has the lines of `key`: `write` makes them where they are others, and gives the place of the host.
    #[inline]
    pub(in crate::exchange) fn prepare(
        &mut self,
        key: ForwardedLinesKey,
        write: impl FnOnce(&mut Vec<u8>) -> usize,
    ) {
        if self.key != Some(key) {
            self.text.clear();
            self.host_at = write(&mut self.text);
            // Growing has doubled it; a later client has lines of nearly the same length.
            self.text.shrink_to(self.text.len() + SPARE_BYTES);
            self.key = Some(key);
        }
        self.apply = true;
    }

    /// The lines up to the host of the request, and those behind it.
    #[inline]
    pub(in crate::exchange) fn parts(&self) -> (&[u8], &[u8]) {
        self.text.split_at(self.host_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_made_anew_for_another_key_only() {
        let key = ForwardedLinesKey {
            generation: 1,
            listener: 0,
            client: Some(IpAddr::from([10, 0, 0, 1])),
            port: Some(80),
            is_tls: false,
            version: Version::Http11,
        };
        let others = [
            ForwardedLinesKey { generation: 2, ..key },
            ForwardedLinesKey { listener: 1, ..key },
            ForwardedLinesKey { client: Some(IpAddr::from([10, 0, 0, 2])), ..key },
            ForwardedLinesKey { client: None, ..key },
            ForwardedLinesKey { port: None, ..key },
            ForwardedLinesKey { is_tls: true, ..key },
            ForwardedLinesKey { version: Version::Http10, ..key },
        ];
        let mut lines = ForwardedLines::default();
        let (mut made, mut expected) = (0, 0);
        for other in others {
            for (given, is_new) in [(key, true), (key, false), (other, true), (other, false)] {
                lines.prepare(given, |text| {
                    made += 1;
                    text.extend_from_slice(b"ab");
                    1
                });
                expected += i32::from(is_new);
                assert_eq!((made, lines.parts()), (expected, (&b"a"[..], &b"b"[..])), "{given:?}");
            }
        }
    }
}
