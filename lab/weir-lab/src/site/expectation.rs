//! What the user expects of an answer: status, length, text. By default, a status below 400.

use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context as _, ensure};

use crate::load::LoadFault;
use crate::load::seen::SeenAnswer;

/// Statuses that are as expected: ranges, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatusSet(Vec<(u16, u16)>);

/// Every status there is.
const ANY: (u16, u16) = (100, 999);

impl FromStr for StatusSet {
    type Err = anyhow::Error;

    /// Reads `200`, `2xx`, `200-204`, several of them with commas, or `any`.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        if text == "any" {
            return Ok(Self(vec![ANY]));
        }
        let number = |text: &str| -> anyhow::Result<u16> {
            let status = text.parse().ok().filter(|status| (100..1000).contains(status));
            status.with_context(|| format!("`{text}` is no status: such as 200, 2xx, 200-204, any"))
        };
        let range = |text: &str| match (text.strip_suffix("xx"), text.split_once('-')) {
            (Some(class), _) => number(&format!("{class}00")).map(|first| (first, first + 99)),
            (None, Some((first, last))) => Ok((number(first)?, number(last)?)),
            (None, None) => number(text).map(|status| (status, status)),
        };
        let ranges = text.split(',').map(str::trim).map(range).collect::<anyhow::Result<Vec<_>>>()?;
        ensure!(ranges.iter().all(|(first, last)| first <= last), "`{text}`: a range rises");
        Ok(Self(ranges))
    }
}

impl StatusSet {
    /// Those that a client is glad of: below 400.
    pub fn usual() -> Self {
        Self(vec![(200, 399)])
    }

    /// Those that are like one of a log: below 400 where that was, otherwise of its class.
    pub fn like(status: u16) -> Self {
        if status < 400 { Self::usual() } else { Self(vec![(status / 100 * 100, status / 100 * 100 + 99)]) }
    }

    fn has(&self, status: u16) -> bool {
        self.0.iter().any(|(first, last)| (*first..=*last).contains(&status))
    }
}

impl std::fmt::Display for StatusSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let range = |(first, last): &(u16, u16)| match (*first, *last) {
            ANY => "any".to_owned(),
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        };
        f.write_str(&self.0.iter().map(range).collect::<Vec<_>>().join(","))
    }
}

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerExpectation {
    /// The statuses that are right.
    pub status: StatusSet,
    /// The length of the body, if that is known.
    pub len: Option<u64>,
    /// A text that must be in it.
    pub text: Option<Arc<[u8]>>,
}

impl AnswerExpectation {
    /// Whether an answer that is complete is right.
    ///
    /// # Errors
    /// The first thing that is not.
    pub fn check(&self, seen: &SeenAnswer) -> Result<(), LoadFault> {
        if !self.status.has(seen.status) {
            return Err(LoadFault::Status(seen.status, format!("expected is {}", self.status)));
        }
        if let Some(len) = self.len.filter(|len| *len != seen.len) {
            return Err(LoadFault::Length(len, seen.len));
        }
        match &self.text {
            Some(text) if !seen.has_text => {
                let text = String::from_utf8_lossy(text);
                Err(LoadFault::Unexpected(format!("`{text}` is not in the body of {} bytes", seen.len)))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{AnswerExpectation, StatusSet};
    use crate::load::seen::SeenAnswer;

    #[test]
    fn statuses_are_read() {
        for (text, yes, no) in
            [("200", 200, 201), ("2xx,404", 404, 403), ("301-303, 5xx", 302, 304), ("any", 599, 99)]
        {
            let set: StatusSet = text.parse().unwrap();
            assert!(set.has(yes) && !set.has(no), "{text}");
        }
        for wrong in ["", "20", "abc", "300-200", "2x", "-"] {
            assert!(wrong.parse::<StatusSet>().is_err(), "{wrong}");
        }
        assert!(StatusSet::like(301).has(200) && !StatusSet::like(404).has(200));
    }

    #[test]
    fn each_part_is_checked() {
        let mut seen = SeenAnswer { status: 200, ..SeenAnswer::default() };
        seen.body(b"hello", Some(b"ell"));
        let all = AnswerExpectation {
            status: StatusSet::usual(),
            len: Some(5),
            text: Some(b"ell".as_slice().into()),
        };
        assert_eq!(all.check(&seen), Ok(()));
        let kind = |expected: AnswerExpectation| expected.check(&seen).unwrap_err().kind();
        assert_eq!(kind(AnswerExpectation { status: "404".parse().unwrap(), ..all.clone() }), "status");
        assert_eq!(kind(AnswerExpectation { len: Some(6), ..all.clone() }), "body length");
        let other = SeenAnswer { has_text: false, ..seen.clone() };
        assert_eq!(all.check(&other).unwrap_err().kind(), "not as expected");
    }
}
