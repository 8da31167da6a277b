//! Field names Weir knows: recognised once while a head is parsed, compared as one byte ever after.
//!
//! Recognition is one lookup in a table that the compiler fills, then one comparison without regard to case.
//! What a name means for framing or forwarding is asked here (`is_hop_by_hop`, `is_strippable`), acted on elsewhere.

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
            /// Any other name.
            Other,
        }

        impl FieldName {
            /// Every name that has a canonical spelling.
            pub const KNOWN: &[FieldName] = &[$(FieldName::$variant,)+];

            /// The canonical spelling; empty for [`FieldName::Underscored`] and [`FieldName::Other`].
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(FieldName::$variant => $spelling,)+
                    FieldName::Underscored | FieldName::Other => "",
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
}

// One bit per name: see `bit`.
const _: () = assert!(FieldName::Other as u8 <= 63);

/// Length of the longest known name, in bytes.
const LEN_MAX: usize = 21;

impl FieldName {
    /// Recognises `name` in any mixture of upper and lower case.
    #[inline]
    pub fn recognise(name: &[u8]) -> FieldName {
        let (Some(first), Some(last)) = (name.first(), name.last()) else { return FieldName::Other };
        if name.len() > LEN_MAX {
            return FieldName::Other;
        }
        for &known in candidates(name.len()) {
            let spelling = known.as_str().as_bytes();
            if spelling[0] | 0x20 == first | 0x20
                && spelling[spelling.len() - 1] | 0x20 == last | 0x20
                && name.eq_ignore_ascii_case(spelling)
            {
                return known;
            }
        }
        if name.contains(&b'_') { underscored(name) } else { FieldName::Other }
    }

    /// A bit of its own for every name, for sets of names in one word.
    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self as u8
    }

    /// Whether the field concerns one connection only and never passes a proxy (RFC 9110 section 7.6.1, RFC 9113
    /// section 3.2.1 for `HTTP2-Settings`). `TE`, `Trailer` and `Upgrade` are among them: a proxy writes its own.
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
    /// that lists them would strip what the server behind relies on (CVE-2022-31813).
    #[inline]
    pub const fn is_strippable(self) -> bool {
        self.is_hop_by_hop() || matches!(self, FieldName::Other | FieldName::Underscored | FieldName::Trailer)
    }

    /// Whether a field of this name may stand in a trailer section (RFC 9110 section 6.5.1): framing, routing,
    /// authentication, content and forwarding fields may not.
    #[inline]
    pub const fn is_allowed_in_trailers(self) -> bool {
        matches!(self, FieldName::Other | FieldName::Etag | FieldName::Date | FieldName::LastModified)
    }
}

/// The known names of `len` bytes.
fn candidates(len: usize) -> impl Iterator<Item = &'static FieldName> {
    FieldName::KNOWN.iter().filter(move |known| known.as_str().len() == len)
}

/// [`FieldName::Underscored`] when `name` is a known name with `_` for `-`.
#[cold]
fn underscored(name: &[u8]) -> FieldName {
    let mut dashed = [0; LEN_MAX];
    let Some(dashed) = dashed.get_mut(..name.len()) else { return FieldName::Other };
    for (to, from) in dashed.iter_mut().zip(name) {
        *to = if *from == b'_' { b'-' } else { *from };
    }
    match FieldName::recognise(dashed) {
        FieldName::Other => FieldName::Other,
        _ => FieldName::Underscored,
    }
}
