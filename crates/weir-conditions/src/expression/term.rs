//! Comparisons: a value of the caller, and what it is compared with.

use std::net::IpAddr;
use std::ops::{Range, RangeInclusive};

use memchr::memmem::Finder;
use weir_traffic::limit::AddressTable;
use weir_traffic::route::{NeededTest, RouteRegex};

/// One comparison of a condition.
#[derive(Debug, Clone)]
pub struct ExpressionTerm<V> {
    /// Its bytes in the text of the condition.
    pub span: Range<usize>,
    pub(crate) question: TermQuestion<V>,
    /// Whether the condition holds only if this does.
    pub(crate) is_needed: bool,
}

impl<V> ExpressionTerm<V> {
    /// What its names stand for.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        let (first, second) = match &self.question {
            TermQuestion::SameText(first, second) => (first, Some(second)),
            TermQuestion::Text(value, _)
            | TermQuestion::Number(value, ..)
            | TermQuestion::Address(value, ..)
            | TermQuestion::Flag(value)
            | TermQuestion::Present(value) => (value, None),
        };
        std::iter::once(first).chain(second)
    }

    /// What one of the texts of a value has to be for the condition to hold, where a comparison says that much.
    pub(crate) fn needed_text(&self) -> Option<(&V, NeededTest<'_>)> {
        let TermQuestion::Text(value, test) = &self.question else { return None };
        let prefix = |text| Some(text).filter(|text: &&[u8]| !text.is_empty()).map(NeededTest::Prefix);
        let test = match test {
            TextTest::Equal(text) => NeededTest::OneOf(vec![text]),
            TextTest::OneOf(texts) => NeededTest::OneOf(texts.iter().map(|text| &**text).collect()),
            TextTest::Prefix(text) => prefix(text)?,
            TextTest::Matches(regex) => prefix(regex.literal_start())?,
            _ => return None,
        };
        self.is_needed.then_some((value, test))
    }
}

/// What is asked of a value.
#[derive(Debug, Clone)]
pub(crate) enum TermQuestion<V> {
    /// Whether one of its texts is like this.
    Text(V, TextTest),
    /// Whether each is there once, and both are the same.
    SameText(V, V),
    /// Whether there is a number, and it is one of these.
    Number(V, NumberFrom, NumberTest),
    /// Whether there is an address, and it is in one of these networks.
    Address(V, AddressFrom, AddressTable),
    /// The value itself.
    Flag(V),
    /// Whether it is there.
    Present(V),
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NumberFrom {
    /// The value is one.
    Value,
    /// The length of a text in bytes.
    Length,
    /// The decimal digits of a text.
    Digits,
}

/// Where an address comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AddressFrom {
    /// The value is one.
    Value,
    /// A text.
    Text,
}

/// What a text is compared with. Where case does not matter, what it is compared with is in lower case.
#[derive(Debug, Clone)]
pub(crate) enum TextTest {
    Equal(Box<[u8]>),
    EqualIgnoringCase(Box<[u8]>),
    /// Sorted.
    OneOf(Box<[Box<[u8]>]>),
    /// Sorted, the shorter first.
    OneOfIgnoringCase(Box<[Box<[u8]>]>),
    Prefix(Box<[u8]>),
    PrefixIgnoringCase(Box<[u8]>),
    Suffix(Box<[u8]>),
    SuffixIgnoringCase(Box<[u8]>),
    Contains(Box<Finder<'static>>),
    Matches(RouteRegex),
}

impl TextTest {
    pub(crate) fn passes(&self, text: &[u8]) -> bool {
        match self {
            TextTest::Equal(other) => *text == **other,
            TextTest::EqualIgnoringCase(other) => text.eq_ignore_ascii_case(other),
            TextTest::OneOf(others) => others.binary_search_by(|other| (**other).cmp(text)).is_ok(),
            TextTest::OneOfIgnoringCase(others) => {
                let at = others.partition_point(|other| other.len() < text.len());
                let of_its_length = others[at..].iter().take_while(|other| other.len() == text.len());
                of_its_length.into_iter().any(|other| text.eq_ignore_ascii_case(other))
            }
            TextTest::Prefix(prefix) => text.starts_with(prefix),
            TextTest::PrefixIgnoringCase(prefix) => {
                text.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
            }
            TextTest::Suffix(suffix) => text.ends_with(suffix),
            TextTest::SuffixIgnoringCase(suffix) => {
                let start = text.len().checked_sub(suffix.len());
                start.is_some_and(|start| text[start..].eq_ignore_ascii_case(suffix))
            }
            TextTest::Contains(finder) => finder.find(text).is_some(),
            TextTest::Matches(regex) => regex.is_match(text),
        }
    }
}

/// Which numbers pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NumberTest {
    Within(RangeInclusive<i64>),
    /// Sorted.
    OneOf(Box<[i64]>),
}

impl NumberTest {
    pub(crate) fn passes(&self, number: i64) -> bool {
        match self {
            NumberTest::Within(range) => range.contains(&number),
            NumberTest::OneOf(numbers) => numbers.binary_search(&number).is_ok(),
        }
    }
}

/// The number that a text is: decimal digits, perhaps with a sign, and nothing else.
pub(crate) fn number_of(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// The address that a text is.
pub(crate) fn address_of(text: &[u8]) -> Option<IpAddr> {
    std::str::from_utf8(text).ok()?.parse().ok()
}
