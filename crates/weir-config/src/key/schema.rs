//! The content of a declaration: tables, their keys, and the forms of values. The parser, the reference and the JSON Schema use it.

use std::time::Duration;

use crate::diagnostic::{nearest, one_of};
use crate::source::Tree;
use crate::value::{ByteRate, Size, print_duration};

/// A table with known keys.
#[derive(Debug)]
pub(crate) struct SectionSchema {
    /// Its path: `listener.NAME.timeouts`.
    pub(crate) path: &'static str,
    /// Its purpose; lines as in the source.
    pub(crate) about: &'static str,
    /// Its keys in the order of the reference.
    pub(crate) keys: &'static [KeySchema],
}

impl SectionSchema {
    pub(crate) fn key(&self, name: &str) -> Option<&'static KeySchema> {
        self.keys.iter().find(|key| key.name == name)
    }

    /// The key of which an unknown word is most likely a typo.
    pub(super) fn slip_of(&self, word: &str) -> Option<&'static str> {
        nearest(word, self.keys.iter().map(|key| key.name))
    }
}

/// A key of a table.
#[derive(Debug)]
pub(crate) struct KeySchema {
    pub(crate) name: &'static str,
    /// Its meaning; lines as in the source.
    pub(crate) about: &'static str,
    pub(crate) kind: fn() -> ValueKind,
    pub(crate) presence: Presence,
    /// Its equivalents in other products, in Markdown; empty when there is none.
    pub(crate) like: &'static str,
}

/// Whether a key has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Presence {
    /// It has to.
    Required,
    /// Without it, there is no such thing.
    Optional,
    /// Without it, this value holds, written as TOML.
    Default(&'static str),
}

/// Least and greatest value of a number, in the base unit of its kind (bytes, milliseconds, bytes per second, or itself).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    pub(crate) min: u64,
    pub(crate) max: u64,
}

impl Bounds {
    /// The bounds of a key without its own.
    pub(crate) const NONE: Bounds = Bounds { min: 0, max: u64::MAX };

    pub(crate) const fn from_range(range: std::ops::RangeInclusive<u64>) -> Self {
        Self { min: *range.start(), max: *range.end() }
    }

    pub(crate) fn contains(self, value: u64) -> bool {
        (self.min..=self.max).contains(&value)
    }

    /// The tighter of both at each end.
    pub(crate) fn intersect(self, other: Self) -> Self {
        Self { min: self.min.max(other.min), max: self.max.min(other.max) }
    }
}

/// How a value is written.
#[derive(Debug, Clone)]
pub(crate) enum ValueKind {
    /// `true` or `false`.
    Boolean,
    /// A whole number.
    Integer(Bounds),
    /// A string of a certain form.
    Text(&'static TextFormat, Bounds),
    /// One of several words.
    Choice(&'static [ChoiceWord]),
    /// Any of several kinds.
    Either(Vec<ValueKind>),
    /// A list.
    List(Box<ValueKind>),
    /// A table whose keys are names from the config.
    Map(Box<ValueKind>),
    /// A table with known keys.
    Section(&'static SectionSchema),
    /// A table whose keys are those of other tables.
    AnyTable,
}

/// A form of string.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TextFormat {
    /// The name of the form: `duration`.
    pub(crate) name: &'static str,
    /// With its article: `a duration`.
    pub(crate) article: &'static str,
    /// Well-written values, the most usual first; the tests read each.
    pub(crate) examples: &'static [&'static str],
    /// Its form as a regular expression of ECMA 262, for editors; it may allow more than the parser.
    pub(crate) pattern: &'static str,
    /// One paragraph for the reference.
    pub(crate) about: &'static str,
}

/// A bound of a key as its value would be written; `None` for kinds without bounds.
pub(crate) fn print_bound(text: &TextFormat, bound: u64) -> Option<String> {
    match text.name {
        "duration" => Some(print_duration(Duration::from_millis(bound))),
        "size" => Some(Size::from_bytes(bound).to_string()),
        "rate" => Some(ByteRate::from_bytes_per_second(bound).to_string()),
        "percentage" => Some(format!("{bound}%")),
        _ => None,
    }
}

/// A word that a key can be set to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ChoiceWord {
    pub(crate) name: &'static str,
    pub(crate) meaning: &'static str,
}

/// The value of a limit that means no limit.
pub(crate) const OFF: &[ChoiceWord] = &[ChoiceWord { name: "off", meaning: "no limit" }];

impl ValueKind {
    /// The same kind or `"off"`.
    pub(crate) fn or_off(self) -> Self {
        ValueKind::Either(vec![self, ValueKind::Choice(OFF)])
    }

    /// Its name in messages: `a duration such as "10s", or "off"`.
    pub(crate) fn describe(&self) -> String {
        match self {
            ValueKind::Boolean => "`true` or `false`".to_owned(),
            ValueKind::Integer(bounds) => match (bounds.min, bounds.max) {
                (0, u64::MAX) => "an integer".to_owned(),
                (min, u64::MAX) => format!("an integer of at least {min}"),
                (min, max) => format!("an integer from {min} to {max}"),
            },
            ValueKind::Text(text, _) => format!("{} such as `\"{}\"`", text.article, text.examples[0]),
            ValueKind::Choice(words) => {
                let quoted: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.name)).collect();
                one_of(quoted.iter().map(String::as_str))
            }
            ValueKind::Either(kinds) => match kinds.split_last() {
                Some((last, others)) => {
                    let others: Vec<String> = others.iter().map(ValueKind::describe).collect();
                    format!("{}, or {}", others.join(", "), last.describe())
                }
                None => "nothing".to_owned(),
            },
            ValueKind::List(item) => format!("a list, each item {}", item.describe()),
            ValueKind::Map(_) | ValueKind::AnyTable => "a table".to_owned(),
            ValueKind::Section(section) => match section.keys.first() {
                Some(key) => format!("a table such as `{{ {} = ... }}`", key.name),
                None => "a table".to_owned(),
            },
        }
    }

    /// Whether a value of this type can be of this kind at all.
    pub(crate) fn accepts(&self, tree: &Tree) -> bool {
        match (self, tree) {
            (ValueKind::Either(kinds), _) => kinds.iter().any(|kind| kind.accepts(tree)),
            (ValueKind::Text(..) | ValueKind::Choice(_), Tree::Text(_)) => true,
            (ValueKind::Boolean | ValueKind::Integer(_), Tree::Text(text)) => text.is_substituted(),
            (ValueKind::Boolean, Tree::Bool(_)) | (ValueKind::Integer(_), Tree::Integer(_)) => true,
            (ValueKind::List(_), Tree::List(_)) => true,
            (ValueKind::Map(_) | ValueKind::Section(_) | ValueKind::AnyTable, Tree::Table(_)) => true,
            _ => false,
        }
    }
}
