//! The credentials of `Authorization: Basic` (RFC 7617).

use std::fmt;

use data_encoding::BASE64;

/// Bytes of a name and a password together: some hashes take time in the square of them.
pub const CREDENTIALS_BYTES_MAX: usize = 1024;

/// The scheme, with the space behind it.
const SCHEME: &[u8] = b"basic ";

/// A name and a password, as a client has sent them.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicCredentials {
    decoded: Vec<u8>,
    colon: usize,
}

impl fmt::Debug for BasicCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BasicCredentials(..)")
    }
}

impl BasicCredentials {
    /// Those in the value of `Authorization`; `None` when it is of another scheme.
    ///
    /// # Errors
    /// When they are not well-formed: not base64, without a colon, with control characters, or too long.
    pub fn parse(value: &[u8]) -> Option<Result<Self, MalformedCredentials>> {
        let scheme = value.get(..SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then(|| decode(value[SCHEME.len()..].trim_ascii()))
    }

    /// The name, which has no colon.
    pub fn user(&self) -> &[u8] {
        &self.decoded[..self.colon]
    }

    /// The password.
    pub fn password(&self) -> &[u8] {
        &self.decoded[self.colon + 1..]
    }
}

/// Credentials that are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MalformedCredentials;

fn decode(encoded: &[u8]) -> Result<BasicCredentials, MalformedCredentials> {
    if encoded.len() > CREDENTIALS_BYTES_MAX.div_ceil(3) * 4 {
        return Err(MalformedCredentials);
    }
    let decoded = BASE64.decode(encoded).map_err(|_| MalformedCredentials)?;
    let colon = decoded.iter().position(|byte| *byte == b':').ok_or(MalformedCredentials)?;
    // RFC 7617 section 2: neither has control characters. A NUL would end the password for some hashes.
    let is_sound = decoded.len() <= CREDENTIALS_BYTES_MAX && !decoded.iter().any(u8::is_ascii_control);
    if is_sound { Ok(BasicCredentials { decoded, colon }) } else { Err(MalformedCredentials) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<Result<(String, String), MalformedCredentials>> {
        let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        BasicCredentials::parse(text.as_bytes()).map(|credentials| {
            credentials.map(|credentials| (owned(credentials.user()), owned(credentials.password())))
        })
    }

    fn encoded(text: &str) -> String {
        format!("Basic {}", BASE64.encode(text.as_bytes()))
    }

    #[test]
    fn names_and_passwords() {
        for (text, user, password) in [
            ("ann:s3cret", "ann", "s3cret"),
            (":", "", ""),
            ("ann:a:b:", "ann", "a:b:"),
            ("\u{e4}:\u{df}", "\u{e4}", "\u{df}"),
        ] {
            assert_eq!(parsed(&encoded(text)), Some(Ok((user.to_owned(), password.to_owned()))), "{text}");
        }
        assert_eq!(parsed("bAsIc  YTpi "), Some(Ok(("a".to_owned(), "b".to_owned()))));
        assert_eq!(format!("{:?}", BasicCredentials::parse(b"Basic YTpi")), "Some(Ok(BasicCredentials(..)))");
    }

    #[test]
    fn what_is_malformed() {
        for text in ["ann", "ann:a\0b", "a\0:b", "ann:a\nb", "ann:\u{7f}"] {
            assert_eq!(parsed(&encoded(text)), Some(Err(MalformedCredentials)), "{text:?}");
        }
        for value in ["Basic ", "Basic YTpi=", "Basic YTp", "Basic YT pi", "Basic YTpj*", "Basic _-__"] {
            assert_eq!(parsed(value), Some(Err(MalformedCredentials)), "{value}");
        }
        let long = |len: usize| parsed(&encoded(&format!("a:{}", "b".repeat(len - 2))));
        assert!(long(CREDENTIALS_BYTES_MAX).is_some_and(|parsed| parsed.is_ok()));
        for len in [CREDENTIALS_BYTES_MAX + 1, CREDENTIALS_BYTES_MAX + 3, 60_000] {
            assert_eq!(long(len), Some(Err(MalformedCredentials)), "{len}");
        }
    }

    #[test]
    fn other_schemes() {
        for value in ["", "Basic", "Bearer YTpi", "BasicYTpi ", "Digest a"] {
            assert_eq!(parsed(value), None, "{value}");
        }
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(value: Vec<u8>) {
            let _any = BasicCredentials::parse(&[&b"Basic "[..], &value].concat());
            let _other = BasicCredentials::parse(&value);
        }
    }
}
