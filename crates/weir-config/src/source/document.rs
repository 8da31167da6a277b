//! Parses one TOML document to a tree: syntax, positions, variables.

use std::cell::{Cell, LazyCell, RefCell};
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use weir_sort::CompactSort as _;

use super::environment::{Environment, substitute};
use super::{Substitution, Tree, TreeEntry, TreeNode, TreeTable, TreeText};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SecretPlaces};
use crate::diagnostic::{FileIndex, SourceMap, SourceSpan};

/// Parses the text of a file and pushes a diagnostic for each syntax error and each unknown variable.
///
/// After a syntax error the tree contains the part that could be parsed.
pub(crate) fn parse_document(
    sources: &SourceMap,
    file: FileIndex,
    environment: Environment<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> TreeNode {
    let text = &sources.file(file).text;
    let (document, errors) = DeTable::parse_recoverable(text);
    let secrets = LazyCell::new(|| SecretPlaces::new(text));
    for error in errors {
        let range = error.span().unwrap_or(text.len()..text.len());
        let is_secret = |at| secrets.contains(at);
        diagnostics.push(syntax_finding(text, SourceSpan::new(file, range), error.message(), is_secret));
    }
    let mut conversion = Conversion { text, file, environment, diagnostics };
    let range = document.span();
    let table = conversion.table(document.into_inner());
    TreeNode { span: SourceSpan::new(file, range), tree: Tree::Table(table) }
}

/// Whether a text is TOML, whatever its keys are.
pub fn is_toml(text: &str) -> bool {
    DeTable::parse_recoverable(text).1.is_empty()
}

/// The diagnostic for a syntax error, with a help text for the two most common ones.
fn syntax_finding(
    text: &str,
    span: SourceSpan,
    message: &str,
    is_secret: impl Fn(usize) -> bool,
) -> Diagnostic {
    let mut sentence = message.to_owned();
    if let Some(first) = sentence.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    let diagnostic = Diagnostic::new(DiagnosticKind::Syntax, span, format!("this is not TOML: {sentence}"));
    if message.contains("quoted")
        && let Some(word) = text.get(span.range()).filter(|word| !word.contains(['"', '\'', '\n']))
    {
        return diagnostic.help(match is_secret(span.start) {
            true => "write it in quotes".to_owned(),
            false => format!("write `\"{word}\"`"),
        });
    }
    let line_start =
        text.get(..span.start).and_then(|before| before.rfind('\n')).map_or(0, |newline| newline + 1);
    let line = text.get(line_start..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    if line.trim_end().ends_with([';', '{']) {
        return diagnostic.help("the file is TOML: `key = value`, one to a line, and `[table]` headers");
    }
    diagnostic
}

struct Conversion<'a, 'f> {
    text: &'a str,
    file: FileIndex,
    environment: Environment<'a>,
    diagnostics: &'f mut Vec<Diagnostic>,
}

impl Conversion<'_, '_> {
    fn table(&mut self, table: DeTable<'_>) -> TreeTable {
        let mut entries: Vec<TreeEntry> = table
            .into_iter()
            .map(|(key, value)| TreeEntry {
                key_at: SourceSpan::new(self.file, key.span()),
                key: key.into_inner().into_owned(),
                node: self.node(value),
            })
            .collect();
        entries.sort_compact_by_key(|entry| entry.key_at.start);
        TreeTable::new(entries)
    }

    fn node(&mut self, value: Spanned<DeValue<'_>>) -> TreeNode {
        let range = value.span();
        let tree = match value.into_inner() {
            DeValue::String(value) => self.string(range.clone(), value.into_owned()),
            DeValue::Integer(value) => {
                Tree::Integer(i128::from_str_radix(value.as_str(), value.radix()).ok())
            }
            DeValue::Float(_) => Tree::Float,
            DeValue::Boolean(value) => Tree::Bool(value),
            DeValue::Datetime(_) => Tree::Datetime,
            DeValue::Array(list) => Tree::List(list.into_iter().map(|value| self.node(value)).collect()),
            DeValue::Table(table) => Tree::Table(self.table(table)),
        };
        TreeNode { span: SourceSpan::new(self.file, range), tree }
    }

    fn string(&mut self, range: Range<usize>, value: String) -> Tree {
        let written = self.text.get(range.clone()).unwrap_or_default();
        let quotes = if written.starts_with("\"\"\"") || written.starts_with("'''") { 3 } else { 1 };
        let verbatim_start =
            written.get(quotes..).filter(|rest| rest.starts_with(&value)).map(|_| range.start + quotes);
        let text = TreeText { value, verbatim_start, substitution: None };
        let place = TreeNode { span: SourceSpan::new(self.file, range), tree: Tree::Unknown };
        let found = self.diagnostics.len();
        let (has_variable, values) = (Cell::new(false), RefCell::new(Vec::new()));
        let environment = |name: &str| {
            has_variable.set(true);
            let value = (self.environment)(name)?;
            values.borrow_mut().push((name.to_owned(), value.clone()));
            Some(value)
        };
        let replaced = substitute(&text.value, &environment, &mut |part, message, help| {
            let diagnostic = Diagnostic::new(DiagnosticKind::Environment, place.part(&text, part), message);
            self.diagnostics.push(diagnostic.help(help));
        });
        match replaced {
            _ if self.diagnostics.len() > found => Tree::Unknown,
            Some(value) => {
                let written = Substitution { written: text.value, values: values.into_inner() };
                let substitution = has_variable.get().then(|| Box::new(written));
                Tree::Text(TreeText { value, verbatim_start: None, substitution })
            }
            None => Tree::Text(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> (TreeNode, Vec<Diagnostic>) {
        let mut sources = SourceMap::default();
        let file = sources.add("weir.toml", text);
        let mut diagnostics = Vec::new();
        let node = parse_document(&sources, file, &|_| None, &mut diagnostics);
        (node, diagnostics)
    }

    #[test]
    fn entries_come_in_the_order_of_the_text() {
        let (node, diagnostics) = parse("z = 1\na = 2\n[m]\nb = 3\n");
        assert!(diagnostics.is_empty());
        let Tree::Table(table) = node.tree else { panic!("a document is a table") };
        let keys: Vec<&str> = table.entries.iter().map(|entry| entry.key.as_str()).collect();
        assert_eq!(keys, ["z", "a", "m"]);
    }

    #[test]
    fn every_diagnostic_of_syntax_is_found() {
        let (_, diagnostics) = parse("a = 10s\nb = \"fine\"\nc = \n");
        assert_eq!(diagnostics.len(), 2, "{diagnostics:?}");
        assert_eq!(diagnostics[0].help.as_deref(), Some("write `\"10s\"`"));
    }

    #[test]
    fn a_text_knows_whether_it_is_in_the_file_unchanged() {
        let (node, _) = parse("a = \"b.c\"\nd = \"e\\tf\"\ng = '''h'''\n");
        let Tree::Table(table) = node.tree else { panic!("a document is a table") };
        let starts: Vec<Option<usize>> = table
            .entries
            .iter()
            .map(|entry| match &entry.node.tree {
                Tree::Text(text) => text.verbatim_start,
                other => panic!("{}", other.describe()),
            })
            .collect();
        assert_eq!(starts, [Some(5), None, Some(28)]);
    }
}
