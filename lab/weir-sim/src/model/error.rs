//! Errors in a simulation file: the place, the cause, and a hint.

use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};

/// Columns that a rendered line may take.
const WIDTH: usize = 120;

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ModelError {
    /// The bytes it is about.
    pub(super) span: Range<usize>,
    pub(super) what: String,
    pub(super) hint: Option<String>,
}

/// All mistakes of `text`, the content of the file at `path`, for people.
pub(super) fn render(path: &str, text: &str, mistakes: &mut [ModelError]) -> String {
    mistakes.sort_by_key(|mistake| mistake.span.start);
    let renderer = Renderer::plain().term_width(WIDTH).decor_style(DecorStyle::Ascii);
    let mut rendered = String::new();
    for ModelError { span, what, hint } in mistakes.iter() {
        let snippet = Snippet::source(text).path(path);
        let snippet = snippet.annotation(AnnotationKind::Primary.span(first_line(text, span)));
        let mut group = Level::ERROR.primary_title(what.as_str()).element(snippet);
        if let Some(hint) = hint {
            group = group.element(Level::HELP.message(hint.as_str()));
        }
        rendered.push_str(renderer.render(&[group]).trim_end());
        rendered.push_str("\n\n");
    }
    let count = mistakes.len();
    rendered + &format!("{count} {} in {path}", if count == 1 { "mistake" } else { "mistakes" })
}

/// The first line of the underlined text.
fn first_line(text: &str, span: &Range<usize>) -> Range<usize> {
    let on_boundary =
        |at: usize| (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let start = on_boundary(span.start);
    let end = on_boundary(span.end).max(start);
    start..text[start..end].find(['\n', '\r']).map_or(end, |newline| start + newline)
}

/// The one of `names` that `word` is most likely a slip of.
pub(super) fn did_you_mean(word: &str, names: &[&str]) -> Option<String> {
    let edits = |name: &&&str| strsim::damerau_levenshtein(word, name);
    let nearest = names.iter().min_by_key(edits)?;
    let bound = (nearest.len().max(word.len()) / 3).max(1);
    (strsim::damerau_levenshtein(word, nearest) <= bound).then(|| format!("did you mean `{nearest}`?"))
}

/// `` `a`, `b` or `c` ``.
pub(super) fn one_of(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}
