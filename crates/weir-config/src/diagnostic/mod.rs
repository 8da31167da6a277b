//! Diagnostics of a configuration: file, line, column, message and help, as in rustc.
//!
//! Reading and checking push a [`Diagnostic`] for each rule that is broken; [`Diagnostics`] renders them as text and JSON.

mod foreign;
mod render;
mod hidden;
mod suggest;
mod source_map;

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use weir_sort::CompactSort as _;

use crate::masked_text::masked_line;

pub(crate) use hidden::SecretPlaces;
pub use render::Colour;
pub(crate) use source_map::{FileIndex, SourceMap, SourceSpan, floor_char_boundary};
pub(crate) use suggest::{did_you_mean, nearest, one_of};

/// One thing that is wrong, and where; [`Diagnostics`] knows the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Which rule is broken.
    pub kind: DiagnosticKind,
    /// The error, in one sentence without a full stop.
    pub message: String,
    /// How to fix it.
    pub help: Option<String>,
    pub(crate) span: SourceSpan,
    /// Other spans that belong to it, each with its sentence.
    pub(crate) labels: Vec<(SourceSpan, String)>,
}

/// A place in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The file as it was named, or `command line`.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The bytes of the file.
    pub span: Range<usize>,
}

impl Location {
    /// Where a span begins; of a text that was made of others, where it comes from.
    pub(crate) fn new(sources: &SourceMap, span: SourceSpan) -> Self {
        let span = sources.original(span).unwrap_or(span);
        let position = sources.position(span);
        Self {
            file: sources.file(span.file).name.clone(),
            line: position.line,
            column: position.column,
            span: span.range(),
        }
    }
}

impl fmt::Display for Location {
    /// `file:line:column`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// The kind of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DiagnosticKind {
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
    /// The key is known, but this version or this build does not support it.
    NotSupported,
    /// A key that has to be there is not.
    MissingKey,
    /// The value is of another type.
    WrongType,
    /// The value is of the right type and makes no sense.
    BadValue,
    /// The value names something that does not exist.
    UnknownName,
    /// Something is declared twice.
    Duplicate,
    /// Two things exclude each other.
    Conflict,
    /// The file of a certificate or a key cannot be used.
    Certificate,
    /// The file of users or of the keys of tokens, or a hash, cannot be used.
    Credentials,
    /// A warning: it has no effect.
    Unused,
    /// A warning: it is allowed, but probably not intended.
    Suspicious,
}

impl DiagnosticKind {
    /// Whether the configuration works nevertheless.
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::Unused | Self::Suspicious)
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
            Self::Credentials => "credentials",
            Self::Unused => "unused",
            Self::Suspicious => "suspicious",
        }
    }
}

impl Diagnostic {
    pub(crate) fn new(kind: DiagnosticKind, span: SourceSpan, message: impl Into<String>) -> Self {
        Self { kind, span, message: message.into(), help: None, labels: Vec::new() }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn help_if(mut self, help: Option<String>) -> Self {
        self.help = help.or(self.help);
        self
    }

    pub(crate) fn label(mut self, span: SourceSpan, message: impl Into<String>) -> Self {
        self.labels.push((span, message.into()));
        self
    }

    /// Replaces characters that would move the cursor of a terminal or begin a new line, and secrets: messages quote the config, and go to logs.
    fn make_printable(&mut self) {
        for text in self.texts() {
            if text.contains(char::is_control) {
                *text = text.replace(char::is_control, "\u{FFFD}");
            }
            if let Cow::Owned(masked) = masked_line(text) {
                *text = masked;
            }
        }
    }

    /// All that is said.
    pub(crate) fn texts(&mut self) -> impl Iterator<Item = &mut String> {
        let help = self.help.iter_mut();
        let labels = self.labels.iter_mut().map(|(_, message)| message);
        [&mut self.message].into_iter().chain(help).chain(labels)
    }
}

/// All diagnostics of one configuration, in the order of the text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    list: Vec<Diagnostic>,
    sources: SourceMap,
}

impl Diagnostics {
    pub(crate) fn new(sources: SourceMap, list: Vec<Diagnostic>) -> Self {
        let mut diagnostics = Self { list, sources };
        diagnostics.tidy_up();
        diagnostics
    }

    pub(crate) fn push(&mut self, diagnostic: Diagnostic) {
        self.list.push(diagnostic);
        self.tidy_up();
    }

    /// Puts them in their order, without control characters and duplicates.
    fn tidy_up(&mut self) {
        self.list.iter_mut().for_each(Diagnostic::make_printable);
        self.list.sort_compact_by_key(|diagnostic| (diagnostic.span, diagnostic.kind));
        self.list.dedup();
    }

    /// All of them, warnings included.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.list.iter()
    }

    /// What the first file looks like, if it is not TOML: the name of a product, or of a format.
    pub fn foreign_format(&self) -> Option<&'static str> {
        if self.sources.is_translated() {
            return None;
        }
        let is_broken = self.iter().any(|diagnostic| diagnostic.kind == DiagnosticKind::Syntax);
        let text = || &self.sources.file(FileIndex(0)).text;
        is_broken.then(text).and_then(|text| foreign::foreign_format(text))
    }

    pub(crate) fn sources(&self) -> &SourceMap {
        &self.sources
    }

    /// The files that were read, or could not be: the configuration itself first, then its includes.
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

    /// The errors.
    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|diagnostic| !diagnostic.kind.is_warning())
    }

    /// The warnings.
    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.list.iter().filter(|diagnostic| diagnostic.kind.is_warning())
    }

    /// Where one of them is.
    pub fn location(&self, diagnostic: &Diagnostic) -> Location {
        Location::new(&self.sources, diagnostic.span)
    }

    /// Other places that belong to one of them, each with its sentence.
    pub fn labels(&self, diagnostic: &Diagnostic) -> Vec<(Location, String)> {
        let labels = diagnostic.labels.iter();
        labels.map(|(span, message)| (Location::new(&self.sources, *span), message.clone())).collect()
    }

    /// One of them on one line: `file:line:column: error: message (help)`.
    pub fn line(&self, diagnostic: &Diagnostic) -> String {
        let level = if diagnostic.kind.is_warning() { "warning" } else { "error" };
        let line = format!("{}: {level}: {}", self.location(diagnostic), diagnostic.message);
        match &diagnostic.help {
            Some(help) => format!("{line} ({help})"),
            None => line,
        }
    }
}

impl<'a> IntoIterator for &'a Diagnostics {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl std::error::Error for Diagnostics {}

impl fmt::Display for Diagnostics {
    /// One line per diagnostic.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.list.iter().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{}", self.line(diagnostic))?;
        }
        Ok(())
    }
}
