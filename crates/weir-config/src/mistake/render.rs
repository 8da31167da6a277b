//! Mistakes for people (the text with its mistakes underlined) and for programs (JSON).

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet, renderer::DecorStyle};
use serde_json::{Value, json};

use super::{Finding, Mistakes, Place};
use crate::source_map::{Span, floor_char_boundary};

/// Columns that a rendered line may take.
const WIDTH: usize = 120;

/// Mistakes that are rendered at most; all of them are in the JSON.
const RENDERED_MAX: usize = 200;

/// Whether diagnostics are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// With ANSI escape sequences, for a terminal.
    Always,
    /// Plain text.
    Never,
}

impl Mistakes {
    /// Every mistake with the lines that it concerns, the offending text underlined and the hint below.
    pub fn render(&self, colour: Colour) -> String {
        let renderer = match colour {
            Colour::Always => Renderer::styled(),
            Colour::Never => Renderer::plain(),
        };
        let renderer = renderer.term_width(WIDTH).decor_style(DecorStyle::Ascii);
        let mut rendered = String::new();
        let shown = self.rendered();
        for finding in &shown {
            rendered.push_str(renderer.render(&[self.group(finding)]).trim_end());
            rendered.push_str("\n\n");
        }
        if let more @ 1.. = self.findings.len() - shown.len() {
            rendered.push_str(&format!("... and {more} more\n\n"));
        }
        rendered.push_str(&self.summary());
        rendered
    }

    /// Those that are rendered, in the order of the text: if there are too many, the errors before the warnings.
    fn rendered(&self) -> Vec<&Finding> {
        if self.findings.len() <= RENDERED_MAX {
            return self.findings.iter().collect();
        }
        let (warnings, errors): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.kind.is_warning());
        let mut rendered: Vec<&Finding> = errors.into_iter().chain(warnings).take(RENDERED_MAX).collect();
        rendered.sort_by_key(|finding| (finding.at, finding.kind));
        rendered
    }

    fn group<'a>(&'a self, finding: &'a Finding) -> Group<'a> {
        let level = if finding.kind.is_warning() { Level::WARNING } else { Level::ERROR };
        let title = level.primary_title(finding.what.as_str()).id(finding.kind.name());
        let mut group = Group::with_title(title);
        let mut spans = vec![(finding.at, "", AnnotationKind::Primary)];
        spans.extend(finding.related.iter().map(|(at, what)| (*at, what.as_str(), AnnotationKind::Context)));
        while let Some(&(first, ..)) = spans.first() {
            let (here, elsewhere): (Vec<_>, Vec<_>) =
                spans.into_iter().partition(|(at, ..)| at.file == first.file);
            let source = self.sources.file(first.file);
            // Only the lines that are concerned are gone through.
            let here = here.into_iter().map(|(at, label, kind)| (self.visible(at), label, kind));
            let here: Vec<_> = here.collect();
            let start = here.iter().map(|(visible, ..)| visible.start).min().unwrap_or_default();
            let end = here.iter().map(|(visible, ..)| visible.end).max().unwrap_or_default();
            let (lines, number) = source.lines_around(start, end);
            let offset = lines.start;
            let annotations = here.into_iter().map(|(visible, label, kind)| {
                kind.span(visible.start - offset..visible.end - offset).label(label)
            });
            let snippet = Snippet::source(&source.text[lines])
                .line_start(number)
                .path(source.name.as_str())
                .annotations(annotations);
            group = group.element(snippet);
            spans = elsewhere;
        }
        match &finding.hint {
            Some(hint) => group.element(Level::HELP.message(hint.as_str())),
            None => group,
        }
    }

    /// The bytes to underline: on boundaries of characters, and at most the first line of a value of several.
    fn visible(&self, at: Span) -> std::ops::Range<usize> {
        let text = &self.sources.file(at.file).text;
        let start = floor_char_boundary(text, at.start);
        let end = floor_char_boundary(text, at.end).max(start);
        let first_line = text[start..end].find(['\n', '\r']).map_or(end, |newline| start + newline);
        start..first_line
    }

    /// `2 errors, 1 warning`.
    pub fn summary(&self) -> String {
        let count = |count: usize, what: &str| match count {
            0 => None,
            1 => Some(format!("1 {what}")),
            _ => Some(format!("{count} {what}s")),
        };
        let parts = [count(self.errors().count(), "error"), count(self.warnings().count(), "warning")];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        if parts.is_empty() { "no mistakes".to_owned() } else { parts.join(", ") }
    }

    /// The mistakes as a JSON array of objects, for editors and scripts.
    pub fn to_json(&self) -> String {
        let list: Vec<Value> = self
            .iter()
            .map(|mistake| {
                let related: Vec<Value> = mistake
                    .related
                    .iter()
                    .map(|(place, what)| json!({ "place": place_json(place), "what": what }))
                    .collect();
                json!({
                    "kind": mistake.kind.name(),
                    "warning": mistake.kind.is_warning(),
                    "place": place_json(&mistake.place),
                    "what": mistake.what,
                    "hint": mistake.hint,
                    "related": related,
                })
            })
            .collect();
        Value::Array(list).to_string()
    }
}

fn place_json(place: &Place) -> Value {
    json!({
        "file": place.file,
        "line": place.line,
        "column": place.column,
        "start": place.span.start,
        "end": place.span.end,
    })
}
