//! Cookies as fields contain them (RFC 6265 sections 4.1.1 and 4.2.1).

/// One cookie in the value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CookiePair<'a> {
    /// Name and value, as in the field.
    pub(crate) text: &'a [u8],
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// Where the value begins in the field.
    pub(crate) value_at: usize,
}

/// The cookies in the value of a Cookie field. Text that is no pair has an empty name.
pub(crate) fn cookie_pairs(field: &[u8]) -> impl Iterator<Item = CookiePair<'_>> {
    let pairs = field.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
    pairs
        .filter(|text| !text.is_empty())
        .map(|text| pair(text).unwrap_or(CookiePair { text, name: b"", value: text, value_at: 0 }))
}

/// The value of the first cookie called `name` in the value of a Cookie field.
pub fn value<'a>(field: &'a [u8], name: &[u8]) -> Option<&'a [u8]> {
    values(field, name).next()
}

/// The values of all cookies called `name` in the value of a Cookie field.
pub fn values<'a, 'n>(field: &'a [u8], name: &'n [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a, 'n> {
    cookie_pairs(field).filter(move |pair| pair.name == name).map(|pair| pair.value)
}

/// The cookie that the value of a Set-Cookie field sets.
pub(super) fn set_cookie(field: &[u8]) -> Option<CookiePair<'_>> {
    pair(field.split(|&byte| byte == b';').next()?.trim_ascii_end())
}

fn pair(text: &[u8]) -> Option<CookiePair<'_>> {
    let equals = text.iter().position(|&byte| byte == b'=')?;
    let after = &text[equals + 1..];
    let value = after.trim_ascii();
    let value_at = text.len() - after.trim_ascii_start().len();
    Some(CookiePair { text, name: text[..equals].trim_ascii(), value, value_at })
}
