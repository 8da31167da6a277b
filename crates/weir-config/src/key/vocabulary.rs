//! The vocabulary of a config: its tables, and an index of the terms of other products in the "elsewhere" column of the reference (`like`).
//!
//! The column is the only source. Terms whose equivalent needs a sentence, and those without an equivalent, are in `migration`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::schema::{KeySchema, SectionSchema, ValueKind};
use crate::diagnostic::one_of;

/// Products in the column, as it writes them.
const PRODUCTS: [&str; 7] = ["nginx", "HAProxy", "Envoy", "Traefik", "Apache httpd", "Caddy", "Consul"];

/// Prefixes of terms that name their kind; users often omit them or write them as a table.
const KINDS: [&str; 8] =
    ["option", "bind", "server", "listen", "http-request", "http-response", "http-check", "health_check"];

/// Words that introduce an explanation of the term before them.
const ASIDES: [&str; 3] = ["(in", "(of", "with"];

/// The maximum number of keys in a help text; a term with more equivalents is too general.
const KEYS_MAX: usize = 3;

/// How well a term matches a word; the better match hides the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The whole term.
    Whole,
    /// The term without the word for its kind, or a parameter without its directive: `fails` of `health_check fails=`.
    Parameter,
    /// The directive without its arguments: `return` of `return 308`.
    Directive,
}

#[derive(Debug)]
struct Term {
    fit: Fit,
    product: &'static str,
    text: &'static str,
    section: &'static str,
    key: &'static str,
}

/// The declared tables, and the equivalents of their keys in other products.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    sections: Vec<&'static SectionSchema>,
    /// The terms by their forms.
    index: HashMap<String, Vec<Term>>,
}

impl Vocabulary {
    /// The vocabulary of a document whose top is `root`.
    pub(crate) fn new(root: &'static SectionSchema) -> Self {
        let mut vocabulary = Self::default();
        visit(root, &mut vocabulary.sections);
        let mut index: HashMap<String, Vec<Term>> = HashMap::new();
        for (product, text, section, key) in vocabulary.terms() {
            for (form, fit) in forms(product, text) {
                index.entry(form).or_default().push(Term { fit, product, text, section, key });
            }
        }
        for terms in index.values_mut() {
            let best = terms.iter().map(|term| term.fit).min();
            terms.retain(|term| Some(term.fit) == best);
        }
        vocabulary.index = index;
        vocabulary
    }

    /// The vocabulary of a text in which every key is known, as in the defaults.
    pub(super) fn none() -> &'static Self {
        static NONE: LazyLock<Vocabulary> = LazyLock::new(Vocabulary::default);
        &NONE
    }

    /// Every table once, in the order of the reference: each before those that it holds.
    pub(crate) fn sections(&self) -> &[&'static SectionSchema] {
        &self.sections
    }

    /// Every term of the column: product, term, section and key, in the order of the reference.
    pub(crate) fn terms(&self) -> Vec<(&'static str, &'static str, &'static str, &'static str)> {
        let keys =
            self.sections.iter().flat_map(|section| section.keys.iter().map(move |key| (section, key)));
        let of_key = |(section, key): (&&'static SectionSchema, &'static KeySchema)| {
            let (path, name) = (section.path, key.name);
            terms(key.like).into_iter().map(move |(product, term)| (product, term, path, name))
        };
        keys.flat_map(of_key).collect()
    }

    /// The key of `section` that an unknown word is meant for: a term of another product, or a typo.
    pub(super) fn meant_by(&self, section: &SectionSchema, word: &str) -> Option<&'static str> {
        self.key_in(section, word).or_else(|| section.slip_of(word))
    }

    /// The key of a section with this term of another product.
    fn key_in(&self, section: &SectionSchema, word: &str) -> Option<&'static str> {
        let here = self.index.get(&squashed(word))?;
        let mut keys = here.iter().filter(|term| term.section == section.path && term.fit == Fit::Whole);
        let first = keys.next()?;
        keys.all(|other| other.key == first.key).then_some(first.key)
    }

    /// The help text for a term of another product with an equivalent in this section.
    pub(super) fn help_here(&self, section: &SectionSchema, word: &str) -> Option<String> {
        let terms = self.index.get(&squashed(word))?;
        help_text(terms.iter().filter(|term| term.section == section.path))
    }

    /// The help text for a term of another product with equivalents in any section.
    pub(super) fn help(&self, word: &str) -> Option<String> {
        help_text(self.index.get(&squashed(word))?.iter())
    }
}

fn visit(section: &'static SectionSchema, found: &mut Vec<&'static SectionSchema>) {
    if found.iter().any(|known| known.path == section.path) {
        return;
    }
    found.push(section);
    for key in section.keys {
        visit_kind(&(key.kind)(), found);
    }
}

fn visit_kind(kind: &ValueKind, found: &mut Vec<&'static SectionSchema>) {
    match kind {
        ValueKind::Section(section) => visit(section, found),
        ValueKind::List(item) | ValueKind::Map(item) => visit_kind(item, found),
        ValueKind::Either(kinds) => kinds.iter().for_each(|kind| visit_kind(kind, found)),
        ValueKind::Boolean
        | ValueKind::Integer(_)
        | ValueKind::Text(..)
        | ValueKind::Choice(_)
        | ValueKind::AnyTable => {}
    }
}

/// The terms of a cell of the column, each with its product.
fn terms(like: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut found = Vec::new();
    let mut product = "";
    let mut is_aside = false;
    for (index, part) in like.split('`').enumerate() {
        if index % 2 == 1 {
            if !is_aside {
                found.push((product, part));
            }
            continue;
        }
        is_aside = ASIDES.iter().any(|aside| part.trim_end().ends_with(aside));
        if let Some(named) = PRODUCTS.into_iter().find(|name| part.contains(name)) {
            product = named;
        }
    }
    found
}

/// The words under which a term is found.
fn forms(product: &str, term: &str) -> Vec<(String, Fit)> {
    let words: Vec<&str> = term.split_whitespace().collect();
    let mut forms = vec![(squashed(term), Fit::Whole)];
    if let [first, .., last] = words[..] {
        if KINDS.contains(&first) || last.ends_with('=') {
            forms.push((squashed(last), Fit::Parameter));
        }
        if product == "nginx" {
            forms.push((squashed(first), Fit::Directive));
        }
    }
    forms.retain(|(form, _)| !form.is_empty());
    forms
}

/// A word without case and separators: `healthCheck`, `health-check` and `health_check` are equal.
pub(super) fn squashed(word: &str) -> String {
    word.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect()
}

fn help_text<'a>(terms: impl Iterator<Item = &'a Term>) -> Option<String> {
    let terms: Vec<&Term> = terms.collect();
    let mut places: Vec<String> = Vec::new();
    for term in &terms {
        let place = match term.section {
            "" => term.key.to_owned(),
            section => format!("{section}.{}", term.key),
        };
        if !places.contains(&place) {
            places.push(place);
        }
    }
    let first = terms.first().filter(|_| places.len() <= KEYS_MAX)?;
    let shown = first.text.trim_end_matches('=');
    Some(format!("{} `{shown}` is {} here", first.product, one_of(places.iter().map(String::as_str))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::Document;

    #[test]
    fn terms_are_taken_out_of_the_column() {
        assert_eq!(
            terms("nginx `hash`, `ip_hash`; HAProxy `balance source`, `hdr()`"),
            [("nginx", "hash"), ("nginx", "ip_hash"), ("HAProxy", "balance source"), ("HAProxy", "hdr()")]
        );
        assert_eq!(terms("Envoy cluster, Traefik service"), []);
        assert_eq!(
            terms("nginx `keepalive` (in `upstream`), HAProxy `ssl` (of `server`)"),
            [("nginx", "keepalive"), ("HAProxy", "ssl")]
        );
    }

    #[test]
    fn a_word_is_found_however_it_is_written() {
        for (word, expected) in [
            ("limit_conn", "nginx `limit_conn` is `listener.NAME.connections_per_client_max`"),
            ("limit-conn", "nginx `limit_conn` is `listener.NAME.connections_per_client_max`"),
            ("proxy_connect_timeout", "nginx `proxy_connect_timeout` is `upstream.NAME.timeouts.connect`"),
            ("timeout connect", "HAProxy `timeout connect` is `upstream.NAME.timeouts.connect`"),
            ("forwardfor", "HAProxy `option forwardfor` is "),
            ("StripPrefix", "Traefik `StripPrefix` is `listener.NAME.route.strip_prefix`"),
        ] {
            let help = Document::vocabulary().help(word).unwrap_or_default();
            assert!(help.starts_with(expected), "{word}: {help}");
        }
        assert_eq!(Document::vocabulary().help("nonsense"), None);
    }

    #[test]
    fn every_term_has_its_product() {
        for term in Document::vocabulary().index.values().flatten() {
            assert!(PRODUCTS.contains(&term.product), "{}.{}: `{}`", term.section, term.key, term.text);
        }
    }
}
