//! Lists of addresses and other keys: their entries, in the config and in files, and where they are used.

use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::files::Files;
use crate::check::names::check_name;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{
    AccessList, AccessListParts, ListAction, ListEntries, ListenerFault, NetworkTable, RuleFault, ValueFault,
    is_client_address,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::diagnostic::{FileIndex, SourceMap, SourceSpan};
use crate::key::{OneOrMany, Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{Document, ListText};
use crate::value::{ValueError, parse_network};

/// Lists that one listener or route may name: each is looked up for every request.
const NAMED_MAX: usize = 16;

/// Entries of one list, with its files.
const ENTRIES_MAX: usize = 1_000_000;

/// Errors in one list that are told: a file of another kind has one in every line.
const ERRORS_MAX: usize = 20;

/// The names in `lists`.
pub(in crate::check) type ListNames = Option<OneOrMany<Spanned<Box<str>>>>;

/// The lists by their names, and which of them are used.
pub(in crate::check) struct ListLookup {
    lists: Vec<Arc<AccessList>>,
    used: Vec<Cell<bool>>,
    /// Whether the text says what becomes of requests.
    have_action: Vec<bool>,
}

impl ListLookup {
    pub(in crate::check) fn new(
        document: &Document,
        files: &Files<'_>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut lists = Vec::new();
        for (place, (name, text)) in document.list.0.iter().enumerate() {
            check_name(name, "list", diagnostics);
            for file in text.value.file.iter().flat_map(|files| &files.0) {
                let _noted = files.path(file);
            }
            let texts = files.lists.0.get(place).map_or(&[][..], |files| files);
            lists.push(Arc::new(check(name, text, (files, texts), diagnostics)));
        }
        let used = vec![Cell::new(false); lists.len()];
        let have_action = |(_, text): &(_, SpannedTable<ListText>)| text.written("action").is_some();
        let have_action = document.list.0.iter().map(have_action).collect();
        Self { lists, used, have_action }
    }

    /// The lists of these names, each of networks alone, whatever becomes of requests from there.
    pub(in crate::check) fn of_peers(
        &self,
        names: &[Spanned<Box<str>>],
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<AccessList>> {
        let found = names.iter().filter_map(|name| {
            let list = &self.lists[self.place(name, diagnostics)?];
            if !list.says_who_a_peer_is() {
                let fault = ListenerFault::NoListOfPeers(list.name.to_string());
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, fault.to_string()));
            }
            Some(Arc::clone(list))
        });
        found.collect()
    }

    /// The place of the list of this name, which is used from now on.
    fn place(&self, name: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) -> Option<usize> {
        let place = self.lists.iter().position(|list| list.name == name.value);
        match place {
            Some(place) => self.used[place].set(true),
            None => {
                let help = did_you_mean(&name.value, self.lists.iter().map(|list| &*list.name))
                    .unwrap_or_else(|| format!("define it as `[list.{}]` with an `action`", name.value));
                let message = format!("there is no list `{}`", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
            }
        }
        place
    }

    /// The lists of these names, behind those of the listener.
    pub(in crate::check) fn named(
        &self,
        around: &[Arc<AccessList>],
        names: &ListNames,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<AccessList>> {
        let mut found = around.to_vec();
        let names = names.as_ref().map_or(&[][..], |names| &names.0);
        if let Some(name) = names.get(NAMED_MAX) {
            let message = format!("more than {NAMED_MAX} lists in one place");
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
        }
        for name in names {
            let Some(place) = self.place(name, diagnostics) else { continue };
            if !self.have_action[place] {
                let message = format!("the list `{}` has no `action`", name.value);
                let help =
                    format!("write `action = \"allow\"` or `action = \"deny\"` in `[list.{}]`", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, name.span, message).help(help));
            }
            if !found.iter().any(|known| Arc::ptr_eq(known, &self.lists[place])) {
                found.push(Arc::clone(&self.lists[place]));
            }
        }
        found
    }

    /// All lists, in the order of the text; warns of those that are not used, unless a name that could not be found may have been meant for
    /// one.
    pub(in crate::check) fn into_lists(
        self,
        document: &Document,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<AccessList>> {
        let all_found = diagnostics.iter().all(|diagnostic| diagnostic.kind != DiagnosticKind::UnknownName);
        for ((name, _), used) in document.list.0.iter().zip(&self.used) {
            if all_found && !used.get() {
                let message = format!("the list `{}` is not used: no `lists` names it", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
            }
        }
        self.lists
    }
}

fn check(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<ListText>,
    (files, texts): (&Files<'_>, &[FileIndex]),
    diagnostics: &mut Vec<Diagnostic>,
) -> AccessList {
    let value = &text.value;
    templates::check_shared(&value.key.value, value.key.span, &TemplatePlace::SHARED, diagnostics);
    templates::warn_of_variables(&value.key.value, value.key.span, diagnostics);
    let when = conditions::check(
        value.when.as_ref(),
        &ConditionPlace::shared(Stage::Identity, "when lists are asked"),
        diagnostics,
    );
    let has_entries = !text.is_missing("entries") || !text.is_missing("file");
    if when.is_none()
        && text.is_missing("when")
        && value.file.is_none()
        && value.entries.is_empty()
        && text.is_missing("entries")
        && text.is_missing("file")
    {
        let message =
            format!("the list `{}` has neither `entries` nor a `file` nor a condition (`when`)", name.value);
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, name.span, message));
    }
    let action = value.action.unwrap_or_default();
    for (key, has_effect) in [
        ("status", matches!(action, ListAction::Deny | ListAction::Tarpit)),
        ("delay", action == ListAction::Tarpit),
    ] {
        if let Some(at) = text.changed(key).filter(|_| !has_effect && value.action.is_some()) {
            let message = format!("`{key}` has no effect here: the action is `{}`", action.name());
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
        }
    }
    let inline = value.entries.iter().map(|entry| (&*entry.value, entry.span, false));
    let in_files = texts.iter().flat_map(|file| lines(files.sources, *file));
    let entries = match has_entries {
        true => entries(name, is_client_address(&value.key.value), inline.chain(in_files), diagnostics),
        false => ListEntries::All,
    };
    let list = AccessList::assume(AccessListParts {
        name: name.value.clone(),
        action,
        key: value.key.value.clone(),
        when,
        entries,
        status: value.status,
        delay: value.delay,
    });
    let of_key =
        |fault: &ValueFault| matches!(fault, ValueFault::Rule(rule) if *rule != RuleFault::NoEntries);
    for fault in list.faults().into_iter().filter(|fault| of_key(&fault.fault)) {
        let message = fault.fault.to_string();
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, value.key.span, message));
    }
    list
}

/// The lines of a file that have an entry, each with its span; `true`: a span inside is one inside the file.
fn lines(sources: &SourceMap, file: FileIndex) -> impl Iterator<Item = (&str, SourceSpan, bool)> {
    let text = &*sources.file(file).text;
    text.lines().filter_map(move |line| {
        let entry = line.split('#').next().unwrap_or_default().trim();
        let start = entry.as_ptr() as usize - text.as_ptr() as usize;
        (!entry.is_empty()).then(|| (entry, SourceSpan::new(file, start..start + entry.len()), true))
    })
}

fn entries<'a>(
    name: &Spanned<Box<str>>,
    are_networks: bool,
    written: impl Iterator<Item = (&'a str, SourceSpan, bool)>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ListEntries {
    let (mut networks, mut texts) = (Vec::new(), HashMap::new());
    let mut errors = 0;
    for (count, (entry, span, in_file)) in written.enumerate() {
        let mut words = entry.splitn(2, char::is_whitespace);
        let key = words.next().unwrap_or_default();
        let tag: Box<str> =
            words.next().map(str::trim).filter(|tag| !tag.is_empty()).unwrap_or(&name.value).into();
        let mut report = |error: ValueError| {
            // In a file, the place is that of the entry; in the config, that of the whole value with its quotes.
            let span =
                if in_file { SourceSpan::new(span.file, span.start..span.start + key.len()) } else { span };
            diagnostics
                .push(Diagnostic::new(DiagnosticKind::BadValue, span, error.message).help_if(error.help));
            errors += 1;
        };
        if count >= ENTRIES_MAX {
            report(ValueError::new(format!("the list has more than {ENTRIES_MAX} entries")));
            break;
        }
        if !tag.chars().all(|c| c == '\t' || !c.is_control()) {
            report(ValueError::new("the text behind the entry has control characters"));
        } else if are_networks {
            match parse_network(key) {
                Ok(network) => networks.push((network, tag)),
                Err(error) => report(error),
            }
        } else {
            texts.entry(key.as_bytes().into()).or_insert(tag);
        }
        if errors == ERRORS_MAX {
            break;
        }
    }
    match are_networks {
        true => ListEntries::Networks(NetworkTable::new(networks)),
        false => ListEntries::Texts(texts),
    }
}
