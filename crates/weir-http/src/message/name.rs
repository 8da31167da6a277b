//! Field names Weir knows: recognised once while a head is parsed, compared as one byte ever after.
//!
//! Recognition is one lookup in a table that the compiler fills, then one comparison without regard to case.
//! The meaning of a name for framing or forwarding is asked here (`is_hop_by_hop`, `is_strippable`), acted on elsewhere.

use crate::bytes::words::{ANSWER, WORD_BYTES, below_lowest, equal, lowest, repeat, word_of_few};

/// Declares [`FieldName`] with the canonical spelling of each name.
macro_rules! names {
    ($($variant:ident $spelling:literal,)+) => {
        /// A field name that was recognised while parsing, in any spelling of upper and lower case.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum FieldName {
            $(#[doc = concat!("`", $spelling, "`")] $variant,)+
            /// A known name written with `_` where `-` belongs (`Content_Length`). Servers with a CGI-style environment
            /// cannot tell the two apart, so such a field is never framing and is not forwarded by default.
            Underscored,
            /// Any other name that begins with `X-Forwarded-`: what proxies say of a request has no closed list of names.
            XForwardedOther,
            /// Any other name.
            Other,
        }

        impl FieldName {
            /// Every name that has a canonical spelling.
            pub const KNOWN: &[FieldName] = &[$(FieldName::$variant,)+];

            /// The canonical spelling; empty for names that have none.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(FieldName::$variant => $spelling,)+
                    FieldName::Underscored | FieldName::XForwardedOther | FieldName::Other => "",
                }
            }
        }
    };
}

names! {
    Host "Host",
    ContentLength "Content-Length",
    TransferEncoding "Transfer-Encoding",
    Connection "Connection",
    KeepAlive "Keep-Alive",
    ProxyConnection "Proxy-Connection",
    Te "TE",
    Trailer "Trailer",
    Upgrade "Upgrade",
    Expect "Expect",
    Http2Settings "HTTP2-Settings",
    ProxyAuthorization "Proxy-Authorization",
    ProxyAuthenticate "Proxy-Authenticate",
    XForwardedFor "X-Forwarded-For",
    XForwardedProto "X-Forwarded-Proto",
    XForwardedHost "X-Forwarded-Host",
    XForwardedPort "X-Forwarded-Port",
    Forwarded "Forwarded",
    Via "Via",
    XRequestId "X-Request-Id",
    XRealIp "X-Real-Ip",
    Date "Date",
    Server "Server",
    MaxForwards "Max-Forwards",
    Cookie "Cookie",
    SetCookie "Set-Cookie",
    Authorization "Authorization",
    WwwAuthenticate "WWW-Authenticate",
    UserAgent "User-Agent",
    Referer "Referer",
    Accept "Accept",
    AcceptEncoding "Accept-Encoding",
    AcceptLanguage "Accept-Language",
    CacheControl "Cache-Control",
    ContentType "Content-Type",
    ContentEncoding "Content-Encoding",
    Location "Location",
    Origin "Origin",
    LastModified "Last-Modified",
    IfModifiedSince "If-Modified-Since",
    IfNoneMatch "If-None-Match",
    Etag "ETag",
    Age "Age",
    Vary "Vary",
    SecWebsocketKey "Sec-WebSocket-Key",
    SecWebsocketAccept "Sec-WebSocket-Accept",
    SecWebsocketVersion "Sec-WebSocket-Version",
    RetryAfter "Retry-After",
    Traceparent "traceparent",
    Tracestate "tracestate",
    XAccelRedirect "X-Accel-Redirect",
    XAccelExpires "X-Accel-Expires",
    XAccelBuffering "X-Accel-Buffering",
    XAccelLimitRate "X-Accel-Limit-Rate",
    XAccelCharset "X-Accel-Charset",
    XSendfile "X-Sendfile",
}

// One bit per name: see `bit`.
const _: () = assert!(FieldName::Other as u8 <= 63);

/// Words of a line that are enough to recognise the longest known name with its colon.
const WORDS: usize = 3;

/// A known name, ready to be compared in whole words.
#[derive(Clone, Copy)]
struct Spelling {
    known: FieldName,
    /// Number of bytes. Compared as well, or a name with NUL bytes behind it would match.
    len: usize,
    /// The name in lower case, padded with zeros.
    lower: [u64; WORDS],
    /// The bit that makes lower case of upper case, at the letters of the name only.
    fold: [u64; WORDS],
}

/// Every known name in the slot of its own that [`slot`] gives; the other slots match nothing.
static SPELLINGS: [Spelling; SLOTS] = spellings();

/// Number of slots, a power of two.
const SLOTS: usize = 128;

/// The slot of a name, padded with zeros, in any mixture of upper and lower case.
#[inline]
const fn slot(name: [u64; WORDS]) -> usize {
    // Found by trial so that no two known names share a slot; the compiler refuses it when a new name spoils that.
    const FACTOR: u64 = 0x1c42_a396_ef29_2017;
    let mixed = (name[0] ^ name[1] ^ name[2]) | repeat(0x20);
    (mixed.wrapping_mul(FACTOR) >> (u64::BITS - SLOTS.ilog2())) as usize
}

const fn spellings() -> [Spelling; SLOTS] {
    let none = Spelling { known: FieldName::Other, len: 0, lower: [u64::MAX; WORDS], fold: [0; WORDS] };
    let mut table = [none; SLOTS];
    let mut index = 0;
    while index < FieldName::KNOWN.len() {
        let known = FieldName::KNOWN[index];
        let name = known.as_str().as_bytes();
        let mut spelling = Spelling { known, len: name.len(), lower: [0; WORDS], fold: [0; WORDS] };
        let mut at = 0;
        while at < name.len() {
            let (word, shift) = (at / WORD_BYTES, at % WORD_BYTES * 8);
            spelling.lower[word] |= (name[at].to_ascii_lowercase() as u64) << shift;
            spelling.fold[word] |= if name[at].is_ascii_alphabetic() { 0x20 << shift } else { 0 };
            at += 1;
        }
        let slot = slot(spelling.lower);
        assert!(matches!(table[slot].known, FieldName::Other), "two known names share a slot");
        table[slot] = spelling;
        index += 1;
    }
    table
}

impl FieldName {
    /// Recognises `name` in any mixture of upper and lower case.
    pub fn recognise(name: &[u8]) -> FieldName {
        let mut line = [0; WORDS * WORD_BYTES];
        if let Some((to, [colon, ..])) = line.split_at_mut_checked(name.len()) {
            to.copy_from_slice(name);
            *colon = b':';
            if let Some((known, len)) = FieldName::recognise_start(&line)
                && len == name.len()
            {
                return known;
            }
        }
        FieldName::of_other(name, name.contains(&b'_'))
    }

    /// What a name is that has no canonical spelling.
    #[inline]
    pub(crate) fn of_other(name: &[u8], has_underscores: bool) -> FieldName {
        match name {
            _ if has_underscores => FieldName::recognise_underscored(name),
            [b'x' | b'X', ..] if begins_with_x_forwarded(name) => FieldName::XForwardedOther,
            _ => FieldName::Other,
        }
    }

    /// Recognises the name at the start of a field line. Gives it with its length; `None` when it is not a known one
    /// right before a colon.
    #[inline(always)]
    pub(crate) fn recognise_start(line: &[u8]) -> Option<(FieldName, usize)> {
        let mut name = first_words(line);
        let colons = name.map(|word| equal(word, b':') & ANSWER);
        let len = if colons[0] != 0 {
            name = [name[0] & below_lowest(colons[0]), 0, 0];
            lowest(colons[0])
        } else if colons[1] != 0 {
            name = [name[0], name[1] & below_lowest(colons[1]), 0];
            WORD_BYTES + lowest(colons[1])
        } else if colons[2] != 0 {
            name[2] &= below_lowest(colons[2]);
            2 * WORD_BYTES + lowest(colons[2])
        } else {
            return None;
        };
        let spelling = &SPELLINGS[slot(name)];
        let same = |index| name[index] | spelling.fold[index] == spelling.lower[index];
        (spelling.len == len && (0..WORDS).all(same)).then_some((spelling.known, len))
    }

    /// [`FieldName::Underscored`] when `name` is a known name with `_` for `-`, or one of `X-Forwarded-`, else [`FieldName::Other`].
    #[cold]
    pub(crate) fn recognise_underscored(name: &[u8]) -> FieldName {
        let mut dashed = [0; WORDS * WORD_BYTES];
        if begins_with_x_forwarded(name) {
            return FieldName::Underscored;
        }
        let Some(dashed) = dashed.get_mut(..name.len()) else { return FieldName::Other };
        for (to, from) in dashed.iter_mut().zip(name) {
            *to = if *from == b'_' { b'-' } else { *from };
        }
        match FieldName::recognise(dashed) {
            FieldName::Other => FieldName::Other,
            _ => FieldName::Underscored,
        }
    }

    /// A bit of its own for every name, for sets of names in one word.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether the field concerns one connection only and never passes a proxy as it came (RFC 9110 section 7.6.1; RFC
    /// 7540 section 3.2.1 for `HTTP2-Settings`). A proxy that needs one of them writes its own.
    #[inline]
    pub const fn is_hop_by_hop(self) -> bool {
        const SET: u64 = FieldName::Connection.bit()
            | FieldName::KeepAlive.bit()
            | FieldName::ProxyConnection.bit()
            | FieldName::Te.bit()
            | FieldName::TransferEncoding.bit()
            | FieldName::Upgrade.bit()
            | FieldName::Http2Settings.bit();
        SET & self.bit() != 0
    }

    /// Whether a peer may have this field removed by naming it in `Connection`.
    ///
    /// Known end-to-end fields (`Host`, `Content-Length`, `Authorization`, `X-Forwarded-For` ...) never are: a client
    /// that lists them would strip fields that the server behind relies on (CVE-2022-31813).
    #[inline]
    pub const fn is_strippable(self) -> bool {
        self.is_hop_by_hop() || matches!(self, FieldName::Other | FieldName::Underscored | FieldName::Trailer)
    }

    /// Whether a trailer section may contain a field of this name (RFC 9110 section 6.5.1): framing, routing,
    /// authentication, content and forwarding fields are not allowed.
    #[inline]
    pub const fn is_allowed_in_trailers(self) -> bool {
        matches!(self, FieldName::Other | FieldName::Etag | FieldName::Date | FieldName::LastModified)
    }
}

/// Whether a name begins with `X-Forwarded-`, with any signs in place of the dashes that servers with a CGI-style environment take for them.
#[inline(never)]
fn begins_with_x_forwarded(name: &[u8]) -> bool {
    let alike =
        |(one, other): (&u8, &u8)| one.eq_ignore_ascii_case(other) || (*one == b'_' && *other == b'-');
    let prefix = b"x-forwarded-";
    name.len() > prefix.len() && name.iter().zip(prefix).all(alike)
}

/// The first words of `line`, padded with zeros when it is shorter.
#[inline(always)]
fn first_words(line: &[u8]) -> [u64; WORDS] {
    match line.as_chunks() {
        ([first, second, third, ..], _) => [first, second, third].map(|word| u64::from_le_bytes(*word)),
        (words, rest) => first_words_of_few(words, rest),
    }
}

#[inline(never)]
fn first_words_of_few(words: &[[u8; WORD_BYTES]], rest: &[u8]) -> [u64; WORDS] {
    let last = word_of_few(rest);
    match words {
        [] => [last, 0, 0],
        [first] => [u64::from_le_bytes(*first), last, 0],
        [first, second, ..] => [u64::from_le_bytes(*first), u64::from_le_bytes(*second), last],
    }
}

#[cfg(test)]
mod tests {
    use super::FieldName;

    /// The expected results of `recognise`, one by one.
    fn naive(name: &[u8]) -> FieldName {
        let same = |known: &&FieldName| known.as_str().as_bytes().eq_ignore_ascii_case(name);
        let known = FieldName::KNOWN.iter().find(same).copied();
        let is_forwarded = |name: &[u8]| {
            let name = name.to_ascii_lowercase();
            name.len() > 12 && name.starts_with(b"x-forwarded-")
        };
        let dashed: Vec<u8> = name.iter().map(|&byte| if byte == b'_' { b'-' } else { byte }).collect();
        known.unwrap_or(match (is_forwarded(name), is_forwarded(&dashed)) {
            (_, true) if name.contains(&b'_') => FieldName::Underscored,
            (true, _) => FieldName::XForwardedOther,
            _ => FieldName::Other,
        })
    }

    #[test]
    fn known_names_are_recognised_in_any_case_and_nothing_else_is() {
        for known in FieldName::KNOWN {
            let name = known.as_str();
            for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(FieldName::recognise(spelling.as_bytes()), *known);
                let line = [spelling.as_bytes(), b": a value that is long enough"].concat();
                for len in name.len() + 1..line.len() {
                    assert_eq!(FieldName::recognise_start(&line[..len]), Some((*known, name.len())));
                }
                assert_eq!(FieldName::recognise_start(spelling.as_bytes()), None);
            }
            for at in 0..name.len() {
                for byte in 0..=255 {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let expected = match naive(&other) {
                        FieldName::Other if name.as_bytes()[at] == b'-' && byte == b'_' => {
                            FieldName::Underscored
                        }
                        // A colon ends a name; one within is none of this function's business.
                        known => known,
                    };
                    assert_eq!(
                        FieldName::recognise(&other),
                        expected,
                        "{:?}",
                        String::from_utf8_lossy(&other)
                    );
                }
                assert_eq!(FieldName::recognise(&name.as_bytes()[..at]), naive(&name.as_bytes()[..at]));
            }
            for more in ["x", "-", "_", " ", "\0"] {
                let longer = format!("{name}{more}");
                assert_eq!(FieldName::recognise(longer.as_bytes()), naive(longer.as_bytes()));
            }
        }
    }

    #[test]
    fn whatever_proxies_forward_is_recognised() {
        for (name, expected) in [
            ("X-Forwarded-Prefix", FieldName::XForwardedOther),
            ("x-forwarded-preferred-username", FieldName::XForwardedOther),
            ("X-FORWARDED-S", FieldName::XForwardedOther),
            ("X-Forwarded-For", FieldName::XForwardedFor),
            ("X_Forwarded-Prefix", FieldName::Underscored),
            ("x-forwarded-preferred_username", FieldName::Underscored),
            ("X_FORWARDED_PREFERRED_USERNAME", FieldName::Underscored),
            ("X-Forwarded", FieldName::Other),
            ("X-Forwarded-", FieldName::Other),
            ("X-Forwarder-For", FieldName::Other),
            ("Y-Forwarded-Prefix", FieldName::Other),
        ] {
            assert_eq!(FieldName::recognise(name.as_bytes()), expected, "{name}");
        }
        assert!(!FieldName::XForwardedOther.is_allowed_in_trailers());
        assert!(!FieldName::XForwardedOther.is_strippable());
    }

    #[test]
    fn dangerous_underscored_names_are_recognised() {
        for name in
            ["Content_Length", "transfer_encoding", "X_Forwarded-For", "x-forwarded_for", "Set_Cookie"]
        {
            assert_eq!(FieldName::recognise(name.as_bytes()), FieldName::Underscored, "{name}");
        }
        for name in [
            "my_field",
            "_",
            "Content__Length",
            "_Content-Length",
            "a_very_long_name_with_underscores_in_it",
            "",
        ] {
            assert_eq!(FieldName::recognise(name.as_bytes()), FieldName::Other, "{name}");
        }
    }

    #[test]
    fn fields_that_a_peer_may_have_stripped() {
        for known in FieldName::KNOWN {
            if known.is_hop_by_hop() {
                assert!(known.is_strippable() && !known.is_allowed_in_trailers(), "{known:?}");
            }
        }
        for known in
            [FieldName::Host, FieldName::ContentLength, FieldName::Authorization, FieldName::XForwardedFor]
        {
            assert!(!known.is_strippable() && !known.is_allowed_in_trailers(), "{known:?}");
        }
        assert!(FieldName::Other.is_strippable() && FieldName::Other.is_allowed_in_trailers());
        assert!(!FieldName::Underscored.is_allowed_in_trailers());
    }
}
