//! The codings of a body (RFC 9110 section 8.4.1), and which of them a client accepts (section 12.5.3).

use super::weight::weight_of;
use crate::bytes::trim;

/// A coding that makes a body smaller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ContentCoding {
    /// RFC 1952.
    Gzip,
    /// RFC 7932.
    Brotli,
    /// RFC 8878.
    Zstd,
}

impl ContentCoding {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// Every coding; `coding as usize` is its index.
    pub const ALL: [Self; Self::COUNT] = [Self::Gzip, Self::Brotli, Self::Zstd];

    /// Its name in `Content-Encoding` and `Accept-Encoding`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    /// The coding of this name (RFC 9110 section 8.4.1.3: `x-gzip` is `gzip`).
    pub fn from_name(name: &[u8]) -> Option<Self> {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        Self::ALL.into_iter().find(|coding| is(coding.name())).or_else(|| is("x-gzip").then_some(Self::Gzip))
    }
}

/// Whether a field holds for a body in one coding only: its digest (RFC 9530, RFC 1864), and that parts of it can be had.
pub fn depends_on_coding(name: &[u8]) -> bool {
    let names = ["accept-ranges", "content-digest", "content-md5", "digest", "repr-digest"];
    names.iter().any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
}

/// The weights of all codings in the `Accept-Encoding` of a client, in thousandths.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AcceptedCodings {
    codings: [Option<u16>; ContentCoding::COUNT],
    identity: Option<u16>,
    any: Option<u16>,
}

impl AcceptedCodings {
    /// Reads the values of the field. Malformed members are skipped. Without a field or a member nothing is accepted but the body as it
    /// is: RFC 9110 allows any coding then, but clients that can decode say so.
    pub fn parse<'a>(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut accepted = Self::default();
        for member in values.flat_map(|value| value.split(|byte| *byte == b',')) {
            let mut parts = member.split(|byte| *byte == b';').map(trim);
            let name = parts.next().unwrap_or_default();
            let Some(weight) = parts.find_map(weight_of).unwrap_or(Some(1000)) else { continue };
            let of_name = match ContentCoding::from_name(name) {
                Some(coding) => &mut accepted.codings[coding as usize],
                None if name == b"*" => &mut accepted.any,
                None if name.eq_ignore_ascii_case(b"identity") => &mut accepted.identity,
                None => continue,
            };
            *of_name = Some(weight);
        }
        accepted
    }

    fn weight(&self, coding: ContentCoding) -> u16 {
        self.codings[coding as usize].or(self.any).unwrap_or(0)
    }

    /// Whether the client can decode it.
    pub fn accepts(&self, coding: ContentCoding) -> bool {
        self.weight(coding) > 0
    }

    /// The coding that the client wants most, of those offered; the first of several that it wants equally. `None`: it wants none of
    /// them, or the body as it is more.
    pub fn preferred(&self, offered: impl IntoIterator<Item = ContentCoding>) -> Option<ContentCoding> {
        let mut best = None;
        for coding in offered {
            let weight = self.weight(coding);
            if weight > 0 && best.is_none_or(|(_, most)| weight > most) {
                best = Some((coding, weight));
            }
        }
        // Named with a weight, or else the last choice of a client.
        best.filter(|(_, weight)| self.identity.is_none_or(|identity| *weight >= identity))
            .map(|(coding, _)| coding)
    }
}

#[cfg(test)]
mod tests {
    use super::ContentCoding::{Brotli, Gzip, Zstd};
    use super::*;

    fn parse(value: &str) -> AcceptedCodings {
        AcceptedCodings::parse(std::iter::once(value.as_bytes()))
    }

    #[test]
    fn the_coding_is_chosen_by_weight_then_by_order() {
        for (value, expected) in [
            ("", None),
            ("identity", None),
            ("gzip", Some(Gzip)),
            ("GZIP", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip;q=1.0, br;q=0.9", Some(Gzip)),
            ("gzip;q=0.5, br;q=0.501", Some(Brotli)),
            ("gzip;q=0.5 , br ; q=0.5", Some(Brotli)),
            ("gzip;q=0", None),
            ("gzip;q=0, *", Some(Zstd)),
            ("*", Some(Zstd)),
            ("*;q=0", None),
            ("*;q=0, gzip;q=0.1", Some(Gzip)),
            ("*;q=0.1, gzip;q=0.2", Some(Gzip)),
            ("zstd;q=0, *;q=0.5", Some(Brotli)),
            ("gzip;q=0.5, identity", None),
            ("gzip;q=0.5, identity;q=0.5", Some(Gzip)),
            ("gzip;q=0.1, identity;q=0", Some(Gzip)),
            ("identity;q=0", None),
            ("gzip;q=2", None),
            ("gzip;q=x, br", Some(Brotli)),
            ("deflate, compress", None),
            ("gzipped, brotli", None),
            (",,;;q=1,gzip,,", Some(Gzip)),
            ("gzip;level=9;q=0", None),
        ] {
            assert_eq!(parse(value).preferred([Zstd, Brotli, Gzip]), expected, "{value}");
        }
        assert_eq!(parse("gzip, br").preferred([Gzip]), Some(Gzip));
        assert_eq!(parse("gzip, br, zstd").preferred([Gzip, Zstd]), Some(Gzip));
        assert_eq!(parse("gzip").preferred([]), None);
        assert_eq!(AcceptedCodings::parse(std::iter::empty()).preferred(ContentCoding::ALL), None);
    }

    #[test]
    fn several_fields_are_one_list() {
        let values = [&b"gzip;q=0.1"[..], b"br, identity;q=0.2"];
        let accepted = AcceptedCodings::parse(values.into_iter());
        assert_eq!(accepted.preferred([Gzip, Brotli]), Some(Brotli));
        assert_eq!((accepted.accepts(Gzip), accepted.accepts(Zstd)), (true, false));
    }

    #[test]
    fn what_a_client_can_decode() {
        for (value, expected) in
            [("", false), ("gzip", true), ("gzip;q=0", false), ("*", true), ("*;q=0", false), ("br", false)]
        {
            assert_eq!(parse(value).accepts(Gzip), expected, "{value}");
        }
    }

    #[test]
    fn every_coding_is_found_by_its_name() {
        for (index, coding) in ContentCoding::ALL.into_iter().enumerate() {
            assert_eq!(
                (ContentCoding::from_name(coding.name().as_bytes()), coding as usize),
                (Some(coding), index)
            );
        }
        assert_eq!(ContentCoding::from_name(b"deflate"), None);
    }
}
