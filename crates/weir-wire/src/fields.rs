//! Field lines of every protocol: names and values as text, one `char` per byte.

use std::fmt;

/// Every byte as the `char` of the same number, so that nothing is lost and everything prints.
pub fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&byte| char::from(byte)).collect()
}

/// Names and values in order of arrival, in the case they arrived in.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Vec<(String, String)>);

impl Fields {
    /// All values of the field `name`, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v.as_str()).collect()
    }

    /// The value of the first field `name`.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// Whether the comma-separated list in `name` holds `member`, in any case.
    pub fn lists(&self, name: &str, member: &str) -> bool {
        let members = self.0.iter().filter(|(known, _)| known.eq_ignore_ascii_case(name));
        members.flat_map(|(_, value)| value.split(',')).any(|one| one.trim().eq_ignore_ascii_case(member))
    }

    /// The length that `content-length` declares.
    ///
    /// # Errors
    /// The field is there twice, or is no plain number.
    pub(crate) fn content_length(&self) -> Result<Option<u64>, String> {
        match self.all("content-length").as_slice() {
            [] => Ok(None),
            [length] if !length.is_empty() && length.bytes().all(|byte| byte.is_ascii_digit()) => {
                length.parse().map(Some).map_err(|_| format!("content-length {length:?} is too large"))
            }
            lengths => Err(format!("content-length is not one number: {lengths:?}")),
        }
    }
}

impl fmt::Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, value)| (name, value))).finish()
    }
}

/// A byte of a token (RFC 9110 section 5.6.2).
pub(crate) fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Whether `name` is a token.
pub(crate) fn is_token(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(is_token_byte) && name.is_ascii()
}

/// Whether a value has no white space around it and no control characters in it (RFC 9110 section 5.5).
pub(crate) fn is_clean_value(value: &str) -> bool {
    value.trim_matches([' ', '\t']) == value
        && !value.chars().any(|c| c == '\u{7f}' || (c < ' ' && c != '\t'))
}
