//! What may not hold of a route and of a cache.

use std::fmt;

use crate::value::{FRAMING, HeaderName, Size, TemplateValue};

/// A rule about routes that does not hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RouteFault {
    /// Of the targets of a split.
    NoShare,
    ShareTooLarge(u32),
    NotARedirect(u16),
    LocationByRegex,
    NotAStatus(u16),
    BodyWithStatus(u16),
    AnyOriginWithCredentials,
    H2cUpgrade,
    /// Of a condition: it is not the one that the route table shows.
    OtherCondition,
    LateValue(Box<str>),
    TooManyRules {
        count: usize,
        max: usize,
    },
    TooManyCachedRules {
        count: usize,
        max: usize,
    },
    /// Of a rule for requests on a route with a cache: it asks for the request and for the server.
    MixedCachedRule,
    Framing(Box<str>),
    MarkOfCopies(Box<str>),
    CopyOfTunnel,
    SameResponseForAll,
    OverrideWithoutTtl,
    ResponseAboveMemory {
        response: Size,
        memory: Size,
    },
}

impl RouteFault {
    /// Of a header that is to be changed: Weir alone says how a message is framed, and what is about the connection.
    pub(crate) fn of_changed_header(name: &HeaderName) -> Option<Self> {
        FRAMING.contains(&&**name).then(|| Self::Framing((**name).into()))
    }

    /// Of a value in the condition of a route.
    pub(crate) fn late_value(value: &TemplateValue) -> Self {
        Self::LateValue(value.name().into())
    }
}

impl fmt::Display for RouteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoShare => f.write_str("every weight of the split is 0: no upstream would get a request"),
            Self::ShareTooLarge(max) => write!(f, "a weight is larger than {max}"),
            Self::NotARedirect(status) => write!(f, "{status} is not a redirect"),
            Self::LocationByRegex => f.write_str(
                "a path that `replace_regex` has made may begin with two slashes, and could lead to any host",
            ),
            Self::NotAStatus(status) => write!(f, "{status} is not the status of a final response"),
            Self::BodyWithStatus(status) => {
                write!(f, "a response with status {status} has no body (RFC 9110)")
            }
            Self::AnyOriginWithCredentials => {
                f.write_str("`credentials` with every origin would let any site act as its visitors")
            }
            Self::OtherCondition => f.write_str("the condition of the route is not that of its match"),
            Self::LateValue(name) => write!(f, "`{name}` is not known when the route is chosen"),
            Self::H2cUpgrade => {
                f.write_str("`h2c` cannot be forwarded: requests in the tunnel would bypass every rule")
            }
            Self::TooManyRules { count, max } => {
                write!(
                    f,
                    "{count} rules for the headers of one message, with those of the listener: there may be {max}"
                )
            }
            Self::MixedCachedRule => f.write_str("a rule for requests on a route with a cache asks for the server and for something else: two rules, since which responses are kept apart is decided before a server is chosen"),
            Self::TooManyCachedRules { count, max } => {
                write!(
                    f,
                    "{count} rules for requests with conditions on a route with a cache: there may be {max}, since each combination of them has stored responses of its own"
                )
            }
            Self::Framing(name) => {
                write!(f, "`{name}` cannot be changed: Weir sets it for each connection")
            }
            Self::MarkOfCopies(name) => {
                write!(f, "`{name}` cannot mark copies: it is about framing, the connection or the target")
            }
            Self::CopyOfTunnel => f.write_str("`CONNECT` cannot be copied: it opens a tunnel"),
            Self::SameResponseForAll => f.write_str("every request of the route would get the same response"),
            Self::OverrideWithoutTtl => f.write_str("`override_ttl` has no effect here: there is no `ttl`"),
            Self::ResponseAboveMemory { response, memory } => {
                write!(f, "`response_max` ({response}) is larger than `memory` ({memory})")
            }
        }
    }
}
