//! `Cache-Status` (RFC 9211): what the cache has done with a request, for those who look at the response.

/// Why a request went to the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum ForwardReason {
    /// The route does not want this request to be looked up.
    Bypass,
    /// The method is not GET or HEAD.
    Method,
    /// Nothing is stored under the key.
    UriMiss,
    /// What is stored under the key is for other requests.
    VaryMiss,
    /// Nothing that could be used, for another reason.
    Miss,
    /// The client asked for it.
    Request,
    /// What is stored is stale.
    Stale,
    /// Only a part is stored.
    Partial,
}

impl ForwardReason {
    /// Its token.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bypass => "bypass",
            Self::Method => "method",
            Self::UriMiss => "uri-miss",
            Self::VaryMiss => "vary-miss",
            Self::Miss => "miss",
            Self::Request => "request",
            Self::Stale => "stale",
            Self::Partial => "partial",
        }
    }
}

/// What the cache has done.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CacheOutcome<'a> {
    /// Why the request was forwarded; `None`: a hit.
    pub forwarded: Option<ForwardReason>,
    /// The status that the server answered, when it is not that of the response.
    pub forward_status: Option<u16>,
    /// How long the response is fresh, in seconds.
    pub ttl: Option<i64>,
    /// Whether the response is stored.
    pub is_stored: bool,
    /// Whether it waited for the response to another request.
    pub is_collapsed: bool,
    /// The key.
    pub key: Option<&'a [u8]>,
    /// More, such as the name of a reason.
    pub detail: Option<&'a str>,
}

/// Appends the member of this cache to a value of `Cache-Status`.
pub fn write_cache_status(to: &mut Vec<u8>, outcome: &CacheOutcome<'_>) {
    to.extend_from_slice(b"weir");
    match outcome.forwarded {
        None => to.extend_from_slice(b"; hit"),
        Some(reason) => {
            to.extend_from_slice(b"; fwd=");
            to.extend_from_slice(reason.as_str().as_bytes());
        }
    }
    if let Some(status) = outcome.forward_status {
        to.extend_from_slice(b"; fwd-status=");
        write_integer(to, i64::from(status));
    }
    if let Some(ttl) = outcome.ttl {
        to.extend_from_slice(b"; ttl=");
        write_integer(to, ttl);
    }
    if outcome.is_stored {
        to.extend_from_slice(b"; stored");
    }
    if outcome.is_collapsed {
        to.extend_from_slice(b"; collapsed");
    }
    if let Some(key) = outcome.key {
        to.extend_from_slice(b"; key=");
        write_string(to, key);
    }
    if let Some(detail) = outcome.detail {
        to.extend_from_slice(b"; detail=");
        write_string(to, detail.as_bytes());
    }
}

/// Without allocating; structured fields have at most 15 digits.
fn write_integer(to: &mut Vec<u8>, number: i64) {
    let (mut digits, mut at) = ([0; 20], 20);
    let mut rest = number.unsigned_abs().min(999_999_999_999_999);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        to.push(b'-');
    }
    to.extend_from_slice(&digits[at..]);
}

/// A string of structured fields (RFC 8941 section 4.1.6); what it cannot hold becomes `?`.
fn write_string(to: &mut Vec<u8>, text: &[u8]) {
    to.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => to.extend_from_slice(&[b'\\', *byte]),
            0x20..=0x7e => to.push(*byte),
            _ => to.push(b'?'),
        }
    }
    to.push(b'"');
}
