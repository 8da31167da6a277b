//! What is wrong with a configuration, with enough to find and mend it: file, line, column, text and a hint.
//!
//! Reading and checking push [`Finding`]s; at the end they become [`Mistakes`], which can be shown to people and programs.

mod render;
mod suggest;

use std::fmt;
use std::ops::Range;

use crate::source_map::{Sources, Span};

pub use render::Colour;
pub(crate) use suggest::{did_you_mean, nearest, one_of};

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// What sort of mistake it is.
    pub kind: MistakeKind,
    /// Where it is.
    pub place: Place,
    /// What is wrong, in one sentence without a full stop.
    pub what: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// Other places that belong to it, each with its sentence.
    pub related: Vec<(Place, String)>,
}

/// A place in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file as it was named, or `command line`.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The bytes of the file.
    pub span: Range<usize>,
}

impl Place {
    /// Where a span begins.
    pub(crate) fn of(sources: &Sources, at: Span) -> Self {
        let position = sources.position(at);
        Self {
            file: sources.file(at.file).name.clone(),
            line: position.line,
            column: position.column,
            span: at.range(),
        }
    }
}

impl fmt::Display for Place {
    /// `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// What sort of mistake it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MistakeKind {
    /// The file cannot be read.
    Unreadable,
    /// The text is not TOML.
    Syntax,
    /// An `include` does not work.
    Include,
    /// An environment variable is not set or not well written.
    Environment,
    /// No key has this name.
    UnknownKey,
    /// The key exists, but somewhere else.
    MisplacedKey,
    /// The key is known and this version cannot do what it asks.
    NotSupported,
    /// A key that has to be there is not.
    MissingKey,
    /// The value is of another type.
    WrongType,
    /// The value is of the right type and makes no sense.
    BadValue,
    /// The value names something that does not exist.
    UnknownName,
    /// The same thing stands there twice.
    Duplicate,
    /// Two things exclude each other.
    Conflict,
    /// The file of a certificate or a key cannot be used.
    Certificate,
    /// A warning: it is there and nothing uses it.
    Unused,
    /// A warning: it is allowed and probably not what is meant.
    Doubtful,
}

impl MistakeKind {
    /// Whether the configuration works nevertheless.
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::Unused | Self::Doubtful)
    }

    /// The stable kebab-case name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unreadable => "unreadable",
            Self::Syntax => "syntax",
            Self::Include => "include",
            Self::Environment => "environment",
            Self::UnknownKey => "unknown-key",
            Self::MisplacedKey => "misplaced-key",
            Self::NotSupported => "not-supported",
            Self::MissingKey => "missing-key",
            Self::WrongType => "wrong-type",
            Self::BadValue => "bad-value",
            Self::UnknownName => "unknown-name",
            Self::Duplicate => "duplicate",
            Self::Conflict => "conflict",
            Self::Certificate => "certificate",
            Self::Unused => "unused",
            Self::Doubtful => "doubtful",
        }
    }
}

/// A mistake on its way: it knows bytes, not yet lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finding {
    pub(crate) kind: MistakeKind,
    pub(crate) at: Span,
    pub(crate) what: String,
    pub(crate) hint: Option<String>,
    pub(crate) related: Vec<(Span, String)>,
}

impl Finding {
    pub(crate) fn new(kind: MistakeKind, at: Span, what: impl Into<String>) -> Self {
        Self { kind, at, what: what.into(), hint: None, related: Vec::new() }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(crate) fn hint_if(mut self, hint: Option<String>) -> Self {
        self.hint = hint.or(self.hint);
        self
    }

    /// Takes out what would move the cursor of a terminal or begin a new line: sentences quote what the config holds.
    fn make_printable(&mut self) {
        let hint = self.hint.iter_mut();
        let related = self.related.iter_mut().map(|(_, what)| what);
        for text in [&mut self.what].into_iter().chain(hint).chain(related) {
            if text.contains(char::is_control) {
                *text = text.replace(char::is_control, "\u{FFFD}");
            }
        }
    }

    pub(crate) fn related(mut self, at: Span, what: impl Into<String>) -> Self {
        self.related.push((at, what.into()));
        self
    }
}

/// Everything that is wrong with one configuration, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mistakes {
    list: Vec<Mistake>,
    findings: Vec<Finding>,
    sources: Sources,
}

impl Mistakes {
    pub(crate) fn new(sources: Sources, mut findings: Vec<Finding>) -> Self {
        findings.iter_mut().for_each(Finding::make_printable);
        findings.sort_by_key(|finding| (finding.at, finding.kind));
        findings.dedup();
        let list = findings.iter().map(|finding| locate(&sources, finding)).collect();
        Self { list, findings, sources }
    }

    /// The mistakes, warnings included.
    pub fn iter(&self) -> std::slice::Iter<'_, Mistake> {
        self.list.iter()
    }

    pub(crate) fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The files that were read, or could not be: the configuration itself first, then those that it includes.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        self.sources.files().map(|file| &*file.name)
    }

    /// How many there are, warnings included.
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// Whether there is not even a warning.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Those that keep the configuration from working.
    pub fn errors(&self) -> impl Iterator<Item = &Mistake> {
        self.list.iter().filter(|mistake| !mistake.kind.is_warning())
    }

    /// Those that do not.
    pub fn warnings(&self) -> impl Iterator<Item = &Mistake> {
        self.list.iter().filter(|mistake| mistake.kind.is_warning())
    }
}

impl<'a> IntoIterator for &'a Mistakes {
    type Item = &'a Mistake;
    type IntoIter = std::slice::Iter<'a, Mistake>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::error::Error for Mistakes {}

fn locate(sources: &Sources, finding: &Finding) -> Mistake {
    Mistake {
        kind: finding.kind,
        place: Place::of(sources, finding.at),
        what: finding.what.clone(),
        hint: finding.hint.clone(),
        related: finding.related.iter().map(|(at, what)| (Place::of(sources, *at), what.clone())).collect(),
    }
}

impl fmt::Display for Mistake {
    /// `file:line:column: error: what (hint)`, on one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.kind.is_warning() { "warning" } else { "error" };
        write!(f, "{}: {level}: {}", self.place, self.what)?;
        if let Some(hint) = &self.hint {
            write!(f, " ({hint})")?;
        }
        Ok(())
    }
}

impl fmt::Display for Mistakes {
    /// One line per mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.list.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{mistake}")?;
        }
        Ok(())
    }
}
