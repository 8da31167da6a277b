//! Status codes of responses: one, or a range.

use std::fmt;
use std::str::FromStr;

use super::ValueError;

/// The final status codes (RFC 9110 section 15): codes of the class 1xx announce another one.
pub(crate) const STATUS_MIN: u16 = 200;
pub(crate) const STATUS_MAX: u16 = 599;

/// Status codes from one to another, both included, all from 200 to 599.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusRange {
    first: u16,
    last: u16,
}

impl StatusRange {
    /// One status alone; `None` when it is not from 200 to 599.
    pub fn only(status: u16) -> Option<Self> {
        (STATUS_MIN..=STATUS_MAX).contains(&status).then_some(Self { first: status, last: status })
    }

    /// Whether a status is one of them.
    pub fn contains(self, status: u16) -> bool {
        (self.first..=self.last).contains(&status)
    }

    /// The first and the last of them.
    pub const fn bounds(self) -> (u16, u16) {
        (self.first, self.last)
    }

    /// The status, when it is one alone.
    pub(crate) fn single(self) -> Option<u16> {
        (self.first == self.last).then_some(self.first)
    }
}

impl FromStr for StatusRange {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        if let Some(class) = text.strip_suffix("xx").and_then(|class| class.parse::<u16>().ok())
            && (2..=5).contains(&class)
            && text.len() == 3
        {
            return Ok(Self { first: class * 100, last: class * 100 + 99 });
        }
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let status = |part: &str| {
            let is_number = part.len() == 3 && part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|status| is_number && (STATUS_MIN..=STATUS_MAX).contains(status))
        };
        match (status(first), status(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            (Some(_), Some(_)) => Err(ValueError::new(format!("`{text}`: the larger status comes first"))
                .help(format!("write `{last}-{first}`"))),
            _ => {
                let error =
                    ValueError::new(format!("`{text}` is neither a status nor a range of status codes"));
                Err(error.help(format!(
                    "write for example `200`, `\"2xx\"` or `\"200-299\"`; final status codes are {STATUS_MIN} to {STATUS_MAX}"
                )))
            }
        }
    }
}

impl fmt::Display for StatusRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.single() {
            Some(status) => write!(f, "{status}"),
            None => write!(f, "{}-{}", self.first, self.last),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_printed_and_asked() {
        for (text, printed, within, without) in [
            ("200-399", "200-399", [200, 399], [199, 400]),
            ("204", "204", [204, 204], [203, 205]),
            ("404-404", "404", [404, 404], [403, 405]),
            ("5xx", "500-599", [500, 599], [499, 600]),
        ] {
            let range: StatusRange = text.parse().unwrap();
            assert_eq!(range.to_string(), printed);
            assert!(within.into_iter().all(|status| range.contains(status)), "{text}");
            assert!(!without.into_iter().any(|status| range.contains(status)), "{text}");
        }
        assert_eq!((StatusRange::only(199), StatusRange::only(600)), (None, None));
    }

    #[test]
    fn diagnostics_say_what_to_write() {
        let usual = "write for example `200`, `\"2xx\"` or `\"200-299\"`; final status codes are 200 to 599";
        for (text, help) in [
            ("6xx", usual),
            ("02xx", usual),
            ("299-200", "write `200-299`"),
            ("1xx", usual),
            ("", usual),
            ("ok", usual),
            ("+200", usual),
            ("100", usual),
            ("200-", usual),
            ("200-600", usual),
            ("200 - 299", usual),
        ] {
            assert_eq!(text.parse::<StatusRange>().unwrap_err().help.as_deref(), Some(help), "{text}");
        }
    }
}
