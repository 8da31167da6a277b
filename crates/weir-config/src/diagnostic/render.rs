//! Diagnostics as text, with the source lines underlined, and as JSON.

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};
use weir_sort::CompactSort as _;

use super::hidden::SecretPlaces;
use super::{Diagnostic, Diagnostics, Location};
use crate::diagnostic::{FileIndex, SourceSpan, floor_char_boundary};

/// Columns that a rendered line may take.
const WIDTH: usize = 120;

/// The maximum number of rendered diagnostics; the JSON has all of them.
const RENDERED_MAX: usize = 200;

/// Whether diagnostics are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// With ANSI escape sequences, for a terminal.
    Always,
    /// Plain text.
    Never,
}

/// The secrets of each file of which lines are shown.
type Secrets = HashMap<FileIndex, SecretPlaces>;

impl Diagnostics {
    /// Every diagnostic with its source lines, the text underlined and the help below.
    pub fn render(&self, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Always => Renderer::styled(),
            Colour::Never => Renderer::plain(),
        };
        let renderer = renderer.term_width(WIDTH).decor_style(DecorStyle::Ascii);
        let mut rendered = String::new();
        let shown = self.rendered();
        let mut secrets = Secrets::new();
        for diagnostic in &shown {
            rendered.push_str(renderer.render(&[self.group(diagnostic, &mut secrets)]).trim_end());
            rendered.push_str("\n\n");
        }
        if let more @ 1.. = self.list.len() - shown.len() {
            rendered.push_str(&format!("... and {more} more\n\n"));
        }
        rendered.push_str(&self.summary());
        rendered
    }

    /// The diagnostics that are rendered, in the order of the text: if there are too many, the errors before the warnings.
    fn rendered(&self) -> Vec<&Diagnostic> {
        if self.list.len() <= RENDERED_MAX {
            return self.list.iter().collect();
        }
        let (warnings, errors): (Vec<_>, Vec<_>) =
            self.list.iter().partition(|diagnostic| diagnostic.kind.is_warning());
        let mut rendered: Vec<&Diagnostic> = errors.into_iter().chain(warnings).take(RENDERED_MAX).collect();
        rendered.sort_compact_by_key(|diagnostic| (diagnostic.span, diagnostic.kind));
        rendered
    }

    fn group<'a>(&'a self, diagnostic: &'a Diagnostic, secrets: &mut Secrets) -> Group<'a> {
        let level = if diagnostic.kind.is_warning() { Level::WARNING } else { Level::ERROR };
        let title = level.primary_title(diagnostic.message.as_str()).id(diagnostic.kind.name());
        let mut group = Group::with_title(title);
        let mut spans = vec![(diagnostic.span, "", AnnotationKind::Primary)];
        spans.extend(
            diagnostic.labels.iter().map(|(at, message)| (*at, message.as_str(), AnnotationKind::Context)),
        );
        if let Some(original) = self.sources.original(diagnostic.span) {
            // Where the user has written it; then what that has become.
            spans.insert(0, (original, "", AnnotationKind::Primary));
            spans.retain(|(at, ..)| at.file != FileIndex(0) || at.end > 0);
            spans.iter_mut().skip(1).for_each(|(.., kind)| *kind = AnnotationKind::Context);
        }
        while let Some(&(first, ..)) = spans.first() {
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                spans.into_iter().partition(|(at, ..)| at.file == first.file);
            let source = self.sources.file(first.file);
            // Only the affected lines are passed to the renderer.
            let here = here.into_iter().map(|(at, label, kind)| (self.visible(at), label, kind));
            let here: Vec<_> = here.collect();
            let start = here.iter().map(|(visible, ..)| visible.start).min().unwrap_or_default();
            let end = here.iter().map(|(visible, ..)| visible.end).max().unwrap_or_default();
            let (lines, number) = source.lines_around(start, end);
            let offset = lines.start;
            let annotations = here.into_iter().map(|(visible, label, kind)| {
                kind.span(visible.start - offset..visible.end - offset).label(label)
            });
            let is_foreign = self.sources.is_original(first.file);
            let places = || {
                if is_foreign {
                    SecretPlaces::of_foreign(&source.text)
                } else {
                    SecretPlaces::new(&source.text)
                }
            };
            let secrets = secrets.entry(first.file).or_insert_with(places);
            let text = secrets.starred(&source.text, lines);
            let name = match self.sources.is_translated() && first.file == FileIndex(0) {
                true => Cow::Owned(format!("{} as weir.toml", source.name)),
                false => Cow::Borrowed(source.name.as_str()),
            };
            let snippet = Snippet::source(text).line_start(number).path(name).annotations(annotations);
            group = group.element(snippet);
            spans = elsewhere;
        }
        match &diagnostic.help {
            Some(help) => group.element(Level::HELP.message(help.as_str())),
            None => group,
        }
    }

    /// The bytes to underline: on boundaries of characters, and at most the first line of a value of several.
    fn visible(&self, span: SourceSpan) -> Range<usize> {
        let text = &self.sources.file(span.file).text;
        let start = floor_char_boundary(text, span.start);
        let end = floor_char_boundary(text, span.end).max(start);
        let first_line = text[start..end].find(['\n', '\r']).map_or(end, |newline| start + newline);
        start..first_line
    }

    /// `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let count = |count: usize, noun: &str| match count {
            0 => None,
            1 => Some(format!("1 {noun}")),
            _ => Some(format!("{count} {noun}s")),
        };
        let parts = [count(self.errors().count(), "error"), count(self.warnings().count(), "warning")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no errors".to_owned() } else { parts.join(", ") }
    }

    /// A JSON array of objects, for editors and scripts.
    pub fn to_json(&self) -> String {
        let list: Vec<Value> = self
            .iter()
            .map(|diagnostic| {
                let labels: Vec<Value> = self
                    .labels(diagnostic)
                    .iter()
                    .map(|(location, message)| json!({ "location": location_json(location), "message": message }))
                    .collect();
                json!({
                    "code": diagnostic.kind.name(),
                    "level": if diagnostic.kind.is_warning() { "warning" } else { "error" },
                    "location": location_json(&self.location(diagnostic)),
                    "message": diagnostic.message,
                    "help": diagnostic.help,
                    "labels": labels,
                })
            })
            .collect();
        Value::Array(list).to_string()
    }
}

fn location_json(location: &Location) -> Value {
    json!({
        "file": location.file,
        "line": location.line,
        "column": location.column,
        "start": location.span.start,
        "end": location.span.end,
    })
}
