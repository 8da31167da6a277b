//! Why a response is not stored: one name each, for the log, `weir why` and `Cache-Status`.

/// Declares [`NotStored`] with the name of each reason.
macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident $name:literal,)+) => {
        /// Why a response is not stored.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum NotStored {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl NotStored {
            /// Every reason; `reason as usize` is its index.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// The name of the reason.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// The method is not GET.
    Method "method",
    /// The status is not final, or one that is never stored: 206, 304.
    Status "status",
    /// `must-understand`, and a status that is not understood.
    MustUnderstand "must-understand",
    /// The request says `no-store`.
    RequestNoStore "request-no-store",
    /// The response says `no-store`.
    NoStore "no-store",
    /// The response says `private`.
    Private "private",
    /// The request has `Authorization`, and the response does not allow shared caches to store it (RFC 9111 section 3.5).
    Authorization "authorization",
    /// The client has proven who it is by something else than `Authorization`, and the response does not allow shared caches to store it. Requests without
    /// such a proof have keys of other partitions.
    Proven "proven",
    /// The response has `Set-Cookie`.
    SetCookie "set-cookie",
    /// `Vary: *`, more fields than a key can have, or one that the server gets from Weir and not from the client.
    Vary "vary",
    /// It depends on `Accept-Encoding` and has a coding that Weir does not know, so that it cannot tell who can decode it.
    Coding "coding",
    /// It has a coding that the request does not accept.
    CodingNotAccepted "coding-not-accepted",
    /// Nothing says how long it is fresh, and there is no default.
    NoLifetime "no-lifetime",
    /// It is stale at once and has no validator, so that it could never be used.
    Stale "stale",
    /// The rule for the status says so.
    TtlZero "ttl-zero",
    /// A field of the server for the proxy in front of it says so: `X-Accel-Expires: 0`, or one that leads to another response.
    Accel "x-accel",
    /// The condition of the route on what is stored does not hold.
    Condition "condition",
    /// It is larger than an object may be.
    TooLarge "too-large",
    /// The store has no memory for it: what clients still read takes it.
    NoMemory "no-memory",
    /// It was purged while it was fetched.
    Purged "purged",
    /// It did not come to its end.
    Incomplete "incomplete",
}

impl NotStored {
    /// Whether the response itself says so, so that it will hold for the next request, too. What one client has sent must not keep others from
    /// what could be stored.
    pub const fn is_of_response(self) -> bool {
        !matches!(
            self,
            Self::Method
                | Self::RequestNoStore
                | Self::Authorization
                | Self::CodingNotAccepted
                | Self::NoMemory
                | Self::Purged
                | Self::Condition
                | Self::Incomplete
        )
    }
}
