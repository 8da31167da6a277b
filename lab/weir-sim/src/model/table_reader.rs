//! One table of a simulation file while it is read: every key is requested by name, and any other key is a mistake.
//!
//! A mistake is noted and reading continues with a placeholder value, so that all mistakes are reported at once.

use std::cell::RefCell;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::value::{FromValue, ModelValueError};
use crate::model::error::{ModelError, did_you_mean, one_of};

/// Mistakes found so far.
pub(super) type ModelErrors = RefCell<Vec<ModelError>>;

/// A table and which of its keys have been requested.
#[derive(Debug)]
pub(super) struct TableReader<'a> {
    pub(super) name: &'static str,
    table: &'a DeTable<'a>,
    pub(super) span: Range<usize>,
    mistakes: &'a ModelErrors,
    known: RefCell<Vec<&'static str>>,
}

impl<'a> TableReader<'a> {
    pub(super) fn new(
        name: &'static str,
        table: &'a DeTable<'a>,
        span: Range<usize>,
        mistakes: &'a ModelErrors,
    ) -> Self {
        Self { name, table, span, mistakes, known: RefCell::default() }
    }

    /// The value of a key, if it is there and right.
    pub(super) fn optional<T: FromValue>(&self, key: &'static str) -> Option<T> {
        let value = self.find(key)?;
        self.note(value.span(), T::from_value(value.get_ref()))
    }

    /// The value of a key, or its default.
    pub(super) fn or<T: FromValue>(&self, key: &'static str, default: T) -> T {
        self.optional(key).unwrap_or(default)
    }

    /// The value of a key that must be there; `placeholder` when it is not.
    pub(super) fn required<T: FromValue>(&self, key: &'static str, placeholder: T) -> T {
        if self.find(key).is_none() {
            let what = format!("`{key}` is missing in {}", self.name);
            self.mistake(self.span.clone(), what, Some(T::example(key)));
            return placeholder;
        }
        self.or(key, placeholder)
    }

    /// A key whose value may be `"off"`.
    pub(super) fn or_off<T: FromValue>(&self, key: &'static str, default: Option<T>) -> Option<T> {
        match self.find(key) {
            Some(_) if self.is_off(key) => None,
            Some(_) => self.optional(key),
            None => default,
        }
    }

    /// Whether the value of a key is `"off"`.
    pub(super) fn is_off(&self, key: &'static str) -> bool {
        self.find(key).is_some_and(|value| value.get_ref().as_str() == Some("off"))
    }

    /// A number with bounds, both included.
    pub(super) fn within(&self, key: &'static str, bounds: (u64, u64), default: u64) -> u64 {
        let Some(value) = self.optional::<u64>(key) else { return default };
        let (min, max) = bounds;
        if value < min || value > max {
            let span = self.span_of(key);
            self.mistake(span, format!("`{key}` is {value}; it is {min} to {max}"), None);
            return default;
        }
        value
    }

    /// The table at a key.
    pub(super) fn section(&self, key: &'static str, name: &'static str) -> Option<TableReader<'a>> {
        let value = self.find(key)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(TableReader::new(name, table, value.span(), self.mistakes)),
            other => {
                let what = format!("`{key}` is a table, not {}", other.type_str());
                self.mistake(value.span(), what, Some(format!("write `{key} = {{ ... }}`")));
                None
            }
        }
    }

    /// The tables of an array of tables; at least one if it is `needed`.
    pub(super) fn sections(
        &self,
        key: &'static str,
        name: &'static str,
        need: Occurrence,
    ) -> Vec<TableReader<'a>> {
        let hint = || Some(format!("write `[[{key}]]` above each of them"));
        let Some(value) = self.find(key) else {
            if need == Occurrence::AtLeastOne {
                self.mistake(self.span.clone(), format!("there is no {name}"), hint());
            }
            return Vec::new();
        };
        let DeValue::Array(items) = value.get_ref() else {
            let what = format!("`{key}` is a list of tables, not {}", value.get_ref().type_str());
            self.mistake(value.span(), what, hint());
            return Vec::new();
        };
        let mut sections = Vec::new();
        for item in items.iter() {
            match item.get_ref() {
                DeValue::Table(table) => {
                    sections.push(TableReader::new(name, table, item.span(), self.mistakes));
                }
                other => {
                    self.mistake(item.span(), format!("{name} is a table, not {}", other.type_str()), hint());
                }
            }
        }
        sections
    }

    /// Whether a key is there.
    pub(super) fn has(&self, key: &'static str) -> bool {
        self.find(key).is_some()
    }

    /// Where the value of a key stands; the whole table when it is not there.
    pub(super) fn span_of(&self, key: &'static str) -> Range<usize> {
        self.find(key).map_or_else(|| self.span.clone(), Spanned::span)
    }

    /// Notes a mistake.
    pub(super) fn mistake(&self, span: Range<usize>, what: String, hint: Option<String>) {
        self.mistakes.borrow_mut().push(ModelError { span, what, hint });
    }

    /// No more keys are requested: all others are mistakes.
    pub(super) fn finish(self) {
        let known = self.known.into_inner();
        for key in self.table.keys() {
            let name: &str = key.get_ref();
            if !known.contains(&name) {
                let what = format!("{} has no key `{name}`", self.name);
                let hint =
                    did_you_mean(name, &known).unwrap_or_else(|| format!("there are {}", one_of(&known)));
                self.mistakes.borrow_mut().push(ModelError { span: key.span(), what, hint: Some(hint) });
            }
        }
    }

    fn find(&self, key: &'static str) -> Option<&'a Spanned<DeValue<'a>>> {
        let mut known = self.known.borrow_mut();
        if !known.contains(&key) {
            known.push(key);
        }
        self.table.iter().find(|(name, _)| name.get_ref() == key).map(|(_, value)| value)
    }

    fn note<T>(&self, span: Range<usize>, value: Result<T, ModelValueError>) -> Option<T> {
        match value {
            Ok(value) => Some(value),
            Err(ModelValueError { what, hint, at }) => {
                self.mistake(at.unwrap_or(span), what, hint);
                None
            }
        }
    }
}

/// Whether a list may be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occurrence {
    AtLeastOne,
    Any,
}
