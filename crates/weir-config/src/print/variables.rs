//! What of a config came from variables of the environment: shown as the variable, since its value may be a secret wherever it is.

use std::borrow::Cow;

use weir_sort::CompactSort as _;

use crate::diagnostic::Diagnostic;
use crate::key::quoted;
use crate::source::{Substitution, Tree, TreeNode, TreeText};

/// From how many bytes on the value of a variable is not shown in any line; a shorter one only where its variable is written.
const VALUE_LEN: usize = 8;

/// From how many bytes on a part of such a value is not quoted in messages.
const PART_LEN: usize = 3;

/// The texts of a config in which variables were replaced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Variables {
    texts: Vec<VariableText>,
    /// Long values, with the variables that they are of.
    values: Vec<(String, String)>,
}

/// A text with variables.
#[derive(Debug, Clone, PartialEq, Eq)]
struct VariableText {
    /// The key that it is the value of, or of a list that it is in.
    key: String,
    /// With its variables replaced: quoted, as most values are printed, and alone, as numbers are.
    quoted: String,
    alone: String,
    /// As it is written, quoted.
    written: String,
}

impl Variables {
    /// Those of a tree.
    pub(crate) fn new(node: &TreeNode) -> Self {
        let mut variables = Self::default();
        variables.collect("", node);
        // Those that contain others first.
        variables.values.sort_compact_by_key(|(value, _)| std::cmp::Reverse(value.len()));
        variables.values.dedup();
        variables
    }

    fn collect(&mut self, key: &str, node: &TreeNode) {
        match &node.tree {
            Tree::Text(text) => self.add(key, text),
            Tree::List(items) => items.iter().for_each(|item| self.collect(key, item)),
            Tree::Table(table) => {
                table.entries.iter().for_each(|entry| self.collect(&entry.key, &entry.node));
            }
            _ => {}
        }
    }

    fn add(&mut self, key: &str, text: &TreeText) {
        // One that is not set has its default, which the file says.
        let is_of_environment = |substitution: &&Substitution| !substitution.values.is_empty();
        let Some(substitution) = text.substitution.as_deref().filter(is_of_environment) else { return };
        self.texts.push(VariableText {
            key: key.to_owned(),
            quoted: quoted(&text.value),
            alone: format!(" = {}", text.value),
            written: toml::Value::String(substitution.written.clone()).to_string(),
        });
        let long = substitution.values.iter().filter(|(_, value)| value.len() >= VALUE_LEN);
        self.values.extend(long.map(|(name, value)| (value.clone(), format!("${{{name}}}"))));
    }

    /// A line of a config with its variables.
    pub(crate) fn restore<'a>(&self, line: &'a str) -> Cow<'a, str> {
        let mut restored = Cow::Borrowed(line);
        for text in self.texts.iter().filter(|text| line.contains(&*text.key)) {
            if restored.contains(&text.quoted) {
                restored = Cow::Owned(restored.replace(&text.quoted, &text.written));
            } else if let Some(key) = restored.strip_suffix(&*text.alone) {
                restored = Cow::Owned(format!("{key} = {}", text.written));
            }
        }
        self.hide(restored)
    }

    /// Names variables in diagnostics in place of their values.
    pub(crate) fn hide_in(&self, diagnostics: &mut [Diagnostic]) {
        for text in diagnostics.iter_mut().flat_map(Diagnostic::texts) {
            *text = self.hide_parts(&self.hide(Cow::Owned(std::mem::take(text))));
        }
    }

    /// A message without the parts of long values that it quotes, such as what is no unit.
    fn hide_parts(&self, message: &str) -> String {
        let quoted = |(at, piece): (usize, &str)| {
            let is_part = |value: &str| piece.len() >= PART_LEN && value.contains(piece);
            match self.values.iter().find(|(value, _)| at % 2 == 1 && is_part(value)) {
                Some((_, variable)) => variable.clone(),
                None => piece.to_owned(),
            }
        };
        message.split('`').enumerate().map(quoted).collect::<Vec<_>>().join("`")
    }

    /// A text without long values of variables.
    fn hide<'a>(&self, mut text: Cow<'a, str>) -> Cow<'a, str> {
        for (value, variable) in &self.values {
            if text.contains(&**value) {
                text = Cow::Owned(text.replace(&**value, variable));
            }
        }
        text
    }
}
