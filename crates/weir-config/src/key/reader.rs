//! Reads the tree by the declared keys and collects all errors.

use super::ConfigValue;
use super::bounds::OutOfBounds;
use super::migration::{find_unsupported, new_name, value_help, word_help};
use super::schema::{Bounds, Presence, SectionSchema, ValueKind};
use super::vocabulary::Vocabulary;
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean, one_of};
use crate::source::{Tree, TreeEntry, TreeNode, TreeTable, TreeText};
use crate::value::ValueError;

/// Keys that a message lists when there is no better help.
const KEYS_LISTED_MAX: usize = 12;

/// Reads values and collects diagnostics.
pub(crate) struct TreeReader<'a> {
    diagnostics: &'a mut Vec<Diagnostic>,
    /// Called only for an unknown key.
    vocabulary: fn() -> &'static Vocabulary,
    /// The key whose value is being read.
    key: String,
}

impl<'a> TreeReader<'a> {
    pub(crate) fn new(diagnostics: &'a mut Vec<Diagnostic>, vocabulary: fn() -> &'static Vocabulary) -> Self {
        Self { diagnostics, vocabulary, key: String::new() }
    }

    /// The number of diagnostics so far.
    pub(crate) fn found(&self) -> usize {
        self.diagnostics.len()
    }

    pub(crate) fn report(&mut self, diagnostic: Diagnostic) {
        self.diagnostics.push(diagnostic);
    }

    /// The table that a node has to be; reports each key that does not belong there and each that is missing and not
    /// just misspelt.
    pub(crate) fn open<'n>(
        &mut self,
        node: &'n TreeNode,
        section: &'static SectionSchema,
    ) -> Option<&'n TreeTable> {
        let Tree::Table(table) = &node.tree else {
            self.wrong_type(node, &ValueKind::Section(section));
            return None;
        };
        for entry in table.entries.iter().filter(|entry| section.key(&entry.key).is_none()) {
            self.unknown_key(entry, section);
        }
        for key in section.keys.iter().filter(|key| key.presence == Presence::Required) {
            if table.find(key.name).is_none() && !self.is_misspelt(section, key.name, table) {
                let message = format!("`{}` is missing", key.name);
                let help = format!("`{}` is {}", key.name, (key.kind)().describe());
                self.report(Diagnostic::new(DiagnosticKind::MissingKey, node.span, message).help(help));
            }
        }
        Some(table)
    }

    /// Whether the table sets a key under a name that a help text corrects: then it is not reported as missing too.
    fn is_misspelt(&self, section: &SectionSchema, key: &str, table: &TreeTable) -> bool {
        table.entries.iter().any(|entry| self.meant_by(section, &entry.key) == Some(key))
    }

    /// The key of `section` that an unknown word is most likely meant for.
    pub(super) fn meant_by(&self, section: &SectionSchema, word: &str) -> Option<&'static str> {
        let meant = || new_name(section.path, word).or_else(|| (self.vocabulary)().meant_by(section, word));
        section.key(word).is_none().then(meant)?
    }

    /// The value of a key; `None` when it is not there or wrong.
    pub(crate) fn value<T: ConfigValue>(
        &mut self,
        table: &TreeTable,
        key: &str,
        bounds: Bounds,
    ) -> Option<T> {
        let entry = table.find(key)?;
        self.named(key, |reader| T::read(&entry.node, bounds, reader))
    }

    /// Reads something under the name of its key, which messages mention.
    pub(crate) fn named<T>(&mut self, key: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let outer = std::mem::replace(&mut self.key, key.to_owned());
        let value = read(self);
        self.key = outer;
        value
    }

    /// The string that a node has to be.
    pub(crate) fn text<'n>(&mut self, node: &'n TreeNode, kind: &ValueKind) -> Option<&'n TreeText> {
        match &node.tree {
            Tree::Text(text) => Some(text),
            _ => {
                self.wrong_type(node, kind);
                None
            }
        }
    }

    /// Reads a string through its parser.
    pub(crate) fn parsed<T>(
        &mut self,
        node: &TreeNode,
        kind: &ValueKind,
        parse: impl FnOnce(&str) -> Result<T, ValueError>,
    ) -> Option<T> {
        let text = self.text(node, kind)?;
        match parse(&text.value) {
            Ok(value) => Some(value),
            Err(error) => {
                self.report_value(node, error);
                None
            }
        }
    }

    /// Reports the error of a parser of the string at `node`, with the span of the part if there is one.
    pub(crate) fn report_value(&mut self, node: &TreeNode, error: ValueError) {
        let at = match (&node.tree, error.range) {
            (Tree::Text(text), Some(range)) => node.part(text, range),
            _ => node.span,
        };
        self.report(Diagnostic::new(DiagnosticKind::BadValue, at, error.message).help_if(error.help));
    }

    /// Reports a value outside the bounds of its key.
    pub(crate) fn report_bounds(&mut self, node: &TreeNode, error: &OutOfBounds) {
        self.report(Diagnostic::new(DiagnosticKind::BadValue, node.span, error.to_string()));
    }

    /// Whether a value is within the bounds of its key; one that is not is reported.
    pub(crate) fn is_within<T: ConfigValue>(&mut self, node: &TreeNode, value: &T, bounds: Bounds) -> bool {
        let mut found = Vec::new();
        value.check_bounds(&self.key, bounds, &mut found);
        found.iter().for_each(|error| self.report_bounds(node, error));
        found.is_empty()
    }

    /// A number that no key takes, since it is negative or too large for any.
    pub(crate) fn report_number(&mut self, node: &TreeNode, found: String, bounds: Bounds) {
        let max = (bounds.max < u64::MAX).then(|| bounds.max.to_string());
        self.report_bounds(node, &OutOfBounds::new(&self.key, found, &bounds.min.to_string(), max));
    }

    /// Reports a list that must not be empty.
    pub(crate) fn report_empty(&mut self, node: &TreeNode) {
        self.report(Diagnostic::new(
            DiagnosticKind::BadValue,
            node.span,
            format!("`{}` is an empty list", self.key),
        ));
    }

    /// Reports a word that is not among the choices.
    pub(crate) fn report_word(&mut self, node: &TreeNode, found: &str, kind: &ValueKind) {
        let mut words = Vec::new();
        collect_words(kind, &mut words);
        let message = format!("`{}` cannot be `{found}`", self.key);
        let help = value_help(found, &words).or_else(|| did_you_mean(found, words.iter().copied()));
        let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, node.span, message);
        self.report(diagnostic.help(help.unwrap_or_else(|| format!("it is {}", kind.describe()))));
    }

    /// Reports a value of another type; unknown keys have been reported already.
    pub(crate) fn wrong_type(&mut self, node: &TreeNode, kind: &ValueKind) {
        if matches!(node.tree, Tree::Unknown) {
            return;
        }
        let message = format!("`{}` is {}; this is {}", self.key, kind.describe(), node.tree.describe());
        let diagnostic = Diagnostic::new(DiagnosticKind::WrongType, node.span, message);
        let unquote = Some("write it without quotes".to_owned());
        let help = match (&node.tree, kind) {
            (Tree::Text(text), ValueKind::Boolean) if matches!(text.value.as_str(), "true" | "false") => {
                unquote
            }
            (Tree::Text(text), ValueKind::Integer(_)) if text.value.parse::<u64>().is_ok() => unquote,
            (Tree::Integer(Some(number)), ValueKind::Text(text, _)) => unit_help(*number, text.name),
            (Tree::Integer(Some(number)), ValueKind::Either(kinds)) => {
                kinds.iter().find_map(|kind| match kind {
                    ValueKind::Text(text, _) => unit_help(*number, text.name),
                    _ => None,
                })
            }
            (Tree::Table(_), ValueKind::List(_)) => {
                Some("is a pair of brackets missing: `[[...]]`?".to_owned())
            }
            _ => None,
        };
        self.report(diagnostic.help_if(help));
    }

    fn unknown_key(&mut self, entry: &TreeEntry, section: &'static SectionSchema) {
        let (key, vocabulary) = (entry.key.as_str(), (self.vocabulary)());
        let place =
            if section.path.is_empty() { "the file".to_owned() } else { format!("`{}`", section.path) };
        let unknown =
            Diagnostic::new(DiagnosticKind::UnknownKey, entry.key_at, format!("{place} has no key `{key}`"));
        if let Some(new) = new_name(section.path, key) {
            self.report(unknown.help(format!("`{key}` was renamed to `{new}`")));
            return;
        }
        let near = || section.slip_of(key).map(|near| format!("did you mean `{near}`?"));
        // An option of HAProxy that is written as a table is known by its name.
        let option = || nested_help(entry, vocabulary).filter(|_| key == "option");
        let advice = || option().or_else(|| word_help(key).map(str::to_owned));
        if let Some(help) = vocabulary.help_here(section, key).or_else(near).or_else(advice) {
            self.report(unknown.help(help));
            return;
        }
        if let Some((message, instead)) = find_unsupported(key) {
            let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message);
            self.report(diagnostic.help_if(instead.map(str::to_owned)));
            return;
        }
        let homes: Vec<&str> = vocabulary
            .sections()
            .iter()
            .filter(|other| other.key(key).is_some())
            .map(|other| if other.path.is_empty() { "the top of the file" } else { other.path })
            .collect();
        if homes.is_empty() {
            if let Some(help) = vocabulary.help(key).or_else(|| nested_help(entry, vocabulary)) {
                self.report(unknown.help(help));
                return;
            }
            let listed = section.keys.len() <= KEYS_LISTED_MAX;
            let help =
                listed.then(|| format!("its keys are {}", one_of(section.keys.iter().map(|key| key.name))));
            self.report(unknown.help_if(help.map(|help| help.replace(" or ", " and "))));
        } else {
            let message = format!("`{key}` does not belong to {place}");
            let help = format!("it is a key of {}", one_of(homes));
            self.report(Diagnostic::new(DiagnosticKind::MisplacedKey, entry.key_at, message).help(help));
        }
    }
}

/// The equivalent of a term of two words that was written as a table: `timeout.server`.
fn nested_help(entry: &TreeEntry, vocabulary: &Vocabulary) -> Option<String> {
    let Tree::Table(table) = &entry.node.tree else { return None };
    table.entries.iter().find_map(|inner| vocabulary.help(&format!("{} {}", entry.key, inner.key)))
}

/// The suggestion for a bare number of a kind with units.
fn unit_help(number: i128, kind: &str) -> Option<String> {
    match kind {
        "duration" => Some(format!("a duration has a unit: `\"{number}s\"`, `\"{number}ms\"`")),
        "size" => Some(format!("a size has a unit: `\"{number}B\"`, `\"{number}KiB\"`")),
        "rate" => Some(format!("a rate has a unit: `\"{number}B/s\"`")),
        _ => None,
    }
}

fn collect_words(kind: &ValueKind, words: &mut Vec<&'static str>) {
    match kind {
        ValueKind::Choice(choice) => words.extend(choice.iter().map(|word| word.name)),
        ValueKind::Either(kinds) => kinds.iter().for_each(|kind| collect_words(kind, words)),
        _ => {}
    }
}
