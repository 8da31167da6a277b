//! Configs that are written in another format: their text is made by a translator, which this crate knows nothing of, and what is wrong with it is
//! shown where the original says it.

use std::fmt;
use std::path::Path;

use crate::diagnostic::{Diagnostic, DiagnosticKind, FileIndex, SourceMap, SourceSpan};

/// Makes configs of files in other formats.
pub trait ConfigTranslator: fmt::Debug + Send {
    /// What a file says, with all that it includes; `None` if it is a `weir.toml` already, or none that could be read.
    fn translate(&self, path: &Path) -> Option<ConfigTranslation>;
}

/// A config that was made from files in another format.
#[derive(Debug, Clone, Default)]
pub struct ConfigTranslation {
    /// The text of a `weir.toml`; `None`: there is none, and the findings say why.
    pub text: Option<String>,
    /// For each line of the text the place in the files that it comes from.
    pub origins: Vec<Option<OriginalPlace>>,
    /// The files that were read, by name and with their text; the first one is the config itself.
    pub files: Vec<(String, String)>,
    /// What is to be said of the files.
    pub findings: Vec<TranslationFinding>,
}

/// A place in one of the files of a [`ConfigTranslation`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginalPlace {
    /// The file, by its name.
    pub file: String,
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

/// What is to be said of a place, or of the files as a whole.
#[derive(Debug, Clone)]
pub struct TranslationFinding {
    /// Where.
    pub at: Option<OriginalPlace>,
    /// An error, with which there is no config, or a warning.
    pub kind: DiagnosticKind,
    /// In one sentence without a full stop.
    pub message: String,
    /// What to do.
    pub help: Option<String>,
}

/// Adds the files to the sources, of which the first is the text that was made of them, so that its places are shown as those of the files.
pub(crate) fn add_originals(
    sources: &mut SourceMap,
    translation: ConfigTranslation,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let ConfigTranslation { origins, mut files, findings, .. } = translation;
    if files.is_empty() {
        // Nothing could be read: what there is to say is about the file that was named.
        files.push((sources.file(FileIndex(0)).name.clone(), String::new()));
    }
    let first = FileIndex(sources.len() as u32);
    let names: Vec<String> = files.iter().map(|(name, _)| name.clone()).collect();
    for (name, text) in files {
        sources.add(name, text);
    }
    let span = |sources: &SourceMap, place: &OriginalPlace| {
        let index = names.iter().position(|name| *name == place.file)?;
        let file = FileIndex(first.0 + index as u32);
        Some(sources.file(file).statement_at(file, place.line, place.column))
    };
    let spans = origins.iter().map(|place| span(sources, place.as_ref()?)).collect();
    for TranslationFinding { at, kind, message, help } in findings {
        let at = at.and_then(|place| span(sources, &place)).unwrap_or(SourceSpan::of_file(first));
        diagnostics.push(Diagnostic::new(kind, at, message).help_if(help));
    }
    sources.show_as(first, spans);
}
