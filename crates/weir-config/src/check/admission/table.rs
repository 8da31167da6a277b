//! Tables of counters: each one for itself, and where they count.

use std::cell::Cell;
use std::sync::Arc;

use weir_traffic::table::{StoredCounter, TableCounter};

use super::limit::{LimitLookup, LimitNames};
use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::config::{LimitStore, Route, TrackedTable};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan, did_you_mean};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{ConditionText, Document, TableText};
use crate::value::{OwnNames, OwnValue, TemplateValue, WhenCondition};

/// Tables that one listener or route may name: each is looked up for every request.
const NAMED_MAX: usize = 16;

/// The tables by their names, and which of them are named.
pub(in crate::check) struct TableLookup {
    /// `None`: its key leads to itself, which is reported.
    tables: Vec<(Box<str>, Option<Arc<TrackedTable>>)>,
    used: Vec<Cell<bool>>,
}

impl TableLookup {
    pub(in crate::check) fn new(
        document: &Document,
        names: &OwnNames,
        limits: &LimitLookup,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Self {
        let mut tables = Vec::new();
        for (name, text) in &document.table.0 {
            let store = limits.table_store(&name.value);
            let table = names.table(&name.value).and_then(|own| check(own, text, store, diagnostics));
            tables.push((name.value.clone(), table.map(Arc::new)));
        }
        let used = vec![Cell::new(false); tables.len()];
        Self { tables, used }
    }

    /// The tables of these names, behind those of the listener.
    pub(in crate::check) fn of(
        &self,
        around: &[Arc<TrackedTable>],
        names: &LimitNames,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<TrackedTable>> {
        let (mut found, mut named) = (around.to_vec(), Vec::new());
        let names = names.as_ref().map_or(&[][..], |names| &names.0);
        if let Some(name) = names.get(NAMED_MAX) {
            let message = format!("more than {NAMED_MAX} tables in one place");
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message));
        }
        for name in names {
            let Some(place) = self.tables.iter().position(|(known, _)| *known == name.value) else {
                let known = self.tables.iter().map(|(known, _)| &**known);
                let help = did_you_mean(&name.value, known)
                    .unwrap_or_else(|| format!("define it as `[table.{}]` with a `store`", name.value));
                let message = format!("there is no table `{}`", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, name.span, message).help(help));
                continue;
            };
            self.used[place].set(true);
            if named.contains(&place) {
                let message = format!("the table `{}` is named twice", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, name.span, message));
                continue;
            }
            named.push(place);
            // Each counts a request once, wherever it is named.
            let table = self.tables[place].1.iter();
            found.extend(table.filter(|table| !around.iter().any(|one| Arc::ptr_eq(one, table))).cloned());
        }
        found
    }

    /// All tables, in the order of the text; warns of those that count nothing, and reports counters that are asked for and not stored.
    pub(in crate::check) fn into_tables(
        self,
        document: &Document,
        names: &OwnNames,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Vec<Arc<TrackedTable>> {
        let all_found = diagnostics.iter().all(|diagnostic| diagnostic.kind != DiagnosticKind::UnknownName);
        for ((name, text), used) in document.table.0.iter().zip(&self.used) {
            if all_found && !used.get() {
                let message = format!("the table `{}` counts nothing: no `track` names it", name.value);
                diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
            }
            if let Some(own) = names.table(&name.value) {
                report_not_stored(name, text, own, diagnostics);
            }
        }
        self.tables.into_iter().filter_map(|(_, table)| table).collect()
    }
}

fn stored(text: &TableText) -> impl Iterator<Item = &Spanned<StoredCounter>> {
    text.store.iter().flat_map(|store| &store.0)
}

fn report_not_stored(
    name: &Spanned<Box<str>>,
    text: &SpannedTable<TableText>,
    own: &OwnValue,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for asked in own.asked().filter(|_| text.is_sound) {
        if !stored(&text.value).any(|stored| stored.value.counter == asked) {
            let example =
                if asked.is_rate() { format!("{}(10s)", asked.name()) } else { asked.name().into() };
            let message = format!(
                "`table.{}.{}` is asked for, and the table does not store it",
                name.value,
                asked.name()
            );
            let diagnostic = Diagnostic::new(DiagnosticKind::UnknownName, text.key_at("store"), message);
            diagnostics.push(diagnostic.help(format!("add `\"{example}\"` to `store`")));
        }
    }
}

fn check(
    own: &OwnValue,
    text: &SpannedTable<TableText>,
    store: Option<Arc<LimitStore>>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<TrackedTable> {
    let value = &text.value;
    let key = &value.key;
    templates::check_shared(&key.value, key.span, &TemplatePlace::SHARED, diagnostics);
    templates::warn_of_variables(&key.value, key.span, diagnostics);
    report_twice(value, diagnostics);
    report_open_exchanges(value, diagnostics);
    let at_end = ConditionPlace::shared(Stage::Finish, "at the end of an exchange");
    let counted = ConditionPlace::shared(Stage::Identity, "when requests are counted");
    let when = conditions::check(value.when.as_ref(), &counted, diagnostics);
    let mut increment = |condition: &Option<ConditionText>, counters: [TableCounter; 2]| {
        let condition = condition.as_ref()?;
        if text.is_sound && !stored(value).any(|stored| counters.contains(&stored.value.counter)) {
            let name = counters[0].name();
            let message = format!("`increment.{name}` has no effect: the table does not store `{name}`");
            let help = format!("add `\"{name}\"` to `store`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, condition.span, message).help(help));
        }
        conditions::check(Some(condition), &at_end, diagnostics)
    };
    let increments = [
        increment(&value.increment.gpc0, [TableCounter::General0, TableCounter::General0Rate]),
        increment(&value.increment.gpc1, [TableCounter::General1, TableCounter::General1Rate]),
    ];
    let table = TrackedTable::new(Arc::clone(own.table()?), when, increments, store);
    report_tag(table.definition.key.values(), key.span, diagnostics);
    if let Some(when) = &value.when {
        report_tag(when.value.values(), when.span, diagnostics);
    }
    Some(table)
}

/// Requests are counted before lists refuse them, so no list has tagged them.
fn report_tag<'a>(
    mut values: impl Iterator<Item = &'a TemplateValue>,
    at: SourceSpan,
    diagnostics: &mut Vec<Diagnostic>,
) {
    if values.any(|value| value.leaves().contains(&TemplateValue::Tag)) {
        let message = "`tag` is not known yet when requests are counted: lists are asked behind that";
        let help = "write the condition of the list here, or use `tag` in `increment`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
}

fn report_twice(text: &TableText, diagnostics: &mut Vec<Diagnostic>) {
    let all: Vec<_> = stored(text).collect();
    for (at, counter) in all.iter().enumerate() {
        if let Some(first) = all[..at].iter().find(|one| one.value.counter == counter.value.counter) {
            let message = format!("`{}` is stored twice", counter.value.counter.name());
            let diagnostic = Diagnostic::new(DiagnosticKind::Duplicate, counter.span, message);
            diagnostics.push(diagnostic.label(first.span, "the first"));
        }
    }
}

/// What is open on a node is known to that node alone, and would stay counted elsewhere if it ended.
fn report_open_exchanges(text: &TableText, diagnostics: &mut Vec<Diagnostic>) {
    let open = stored(text).find(|stored| stored.value.counter == TableCounter::ConnectionsNow);
    if let (Some(open), Some(shared)) = (open, &text.shared) {
        let message = "`conn_cur` is of one node, and the table is shared by several";
        let help = "store `conn_cur` in a table of its own without `shared`";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, open.span, message).help(help);
        diagnostics.push(diagnostic.label(shared.span, "shared here"));
    }
}

/// Reports tables whose keys or conditions need requests, on a listener that has none.
pub(in crate::check) fn report_of_http(
    listener: &Spanned<Box<str>>,
    routes: &[Route],
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut told: Vec<&str> = Vec::new();
    for table in routes.iter().flat_map(|route| &route.tracked) {
        let increments = table.increments.iter().flatten().flat_map(WhenCondition::values);
        let value = table.values().chain(increments).find(|value| !value.is_of_connection());
        let name = &*table.definition.name;
        if let Some(value) = value.filter(|_| !told.contains(&name)) {
            told.push(name);
            let (listener_name, value) = (&listener.value, value.name());
            let message = format!(
                "the table `{name}` cannot count on the listener `{listener_name}`: a connection of TCP has no `{value}`"
            );
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, listener.span, message));
        }
    }
}
