//! The upstreams of a document by their names.

use std::cell::Cell;
use std::collections::HashMap;

use crate::config::{ServerProtocol, UpstreamIndex};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::Spanned;
use crate::text::Document;

/// The names of the upstreams, and which of them are used.
pub(in crate::check) struct UpstreamLookup<'a> {
    pub(in crate::check) names: &'a [&'a str],
    places: HashMap<&'a str, usize>,
    document: &'a Document,
    used: Vec<Cell<bool>>,
    unknown: Cell<usize>,
}

/// Names that are compared with all others for a suggestion: the first unknown ones, since a thousand are no slip.
pub(in crate::check) const GUESSES_MAX: usize = 100;

impl<'a> UpstreamLookup<'a> {
    pub(in crate::check) fn new(names: &'a [&'a str], document: &'a Document) -> Self {
        Self {
            names,
            document,
            places: names.iter().copied().zip(0..).collect(),
            used: vec![Cell::new(false); names.len()],
            unknown: Cell::new(0),
        }
    }

    /// What the servers of the upstream of this name speak.
    pub(in crate::check) fn protocol(&self, name: &str) -> Option<ServerProtocol> {
        let index = *self.places.get(name)?;
        self.document.upstream.0.get(index).map(|(_, text)| text.value.protocol)
    }

    /// The same as [`find`](Self::find) where no client asks, or something else than its request: reports an upstream whose servers requests name.
    pub(in crate::check) fn find_fixed(
        &self,
        name: &Spanned<Box<str>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> UpstreamIndex {
        let named = self.places.get(&*name.value).and_then(|place| self.document.upstream.0.get(*place));
        if let Some(dynamic) = named.and_then(|(_, text)| text.value.dynamic.as_ref()) {
            let message =
                format!("`{}` cannot be used here: its servers are those that requests name", name.value);
            let conflict = Diagnostic::new(DiagnosticKind::Conflict, name.span, message);
            let help =
                "only routes lead to an upstream with `dynamic`: name one with `servers` or `discovery`";
            diagnostics.push(conflict.label(dynamic.span, "the servers are dynamic").help(help));
        }
        self.find(name, diagnostics)
    }

    pub(in crate::check) fn is_used(&self, index: usize) -> bool {
        self.used[index].get()
    }

    /// The upstream of this name; after an error, a placeholder.
    pub(in crate::check) fn find(
        &self,
        name: &Spanned<Box<str>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> UpstreamIndex {
        match self.places.get(&*name.value) {
            Some(&index) => {
                self.used[index].set(true);
                UpstreamIndex(index)
            }
            None => {
                let message = format!("there is no upstream `{}`", name.value);
                let guesses = self.unknown.replace(self.unknown.get() + 1);
                let known = self.names.iter().copied().take_while(|_| guesses < GUESSES_MAX);
                let help = match name.value.contains('{') {
                    true => format!(
                        "write `split_by = \"{}\"`, and in `split` the upstreams that it may name",
                        name.value
                    ),
                    false => did_you_mean(&name.value, known).unwrap_or_else(|| {
                        format!("define it as `[upstream.{}]` with a list `servers`", name.value)
                    }),
                };
                diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
                UpstreamIndex(0)
            }
        }
    }
}
