//! Maps, variables and tables: what each is made of, before anything that uses them is checked. What leads to itself is refused.

use std::collections::HashMap;
use std::sync::Arc;

use weir_conditions::MapKind;
use weir_traffic::route::ValueMatch;
use weir_traffic::table::TableCounter;

use crate::check::files::Files;
use crate::check::names::check_name;
use crate::check::templates;
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan};
use crate::key::{ConfigSection as _, Spanned, SpannedTable};
use crate::text::{Document, MapText, TableText};
use crate::value::{
    LOOKUPS_MAX, MapDatabase, MapDefinition, MapEntry, MapParts, OwnNames, OwnValue, TableDefinition,
    Template, TemplateValue,
};
use crate::watched_files::{map_marks, read_map};

/// Gives every map, every variable and every table what it is made of; the maps in the order of the text.
pub(in crate::check) fn define(
    document: &Document,
    names: &OwnNames,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<OwnValue> {
    let mut own = Definitions { document, files, made: HashMap::new(), path: Vec::new(), diagnostics };
    let maps: Vec<OwnValue> =
        document.map.0.iter().filter_map(|(name, _)| names.map(&name.value).cloned()).collect();
    for (name, _) in &document.map.0 {
        check_name(name, "map", own.diagnostics);
    }
    let variables: Vec<OwnValue> = names.variables().cloned().collect();
    let values = maps.iter().cloned().map(TemplateValue::Map);
    for value in values.chain(variables.into_iter().map(TemplateValue::Variable)) {
        own.make(&value);
    }
    for (name, _) in &document.table.0 {
        check_name(name, "table", own.diagnostics);
        let table = names.table(&name.value).cloned();
        table
            .into_iter()
            .for_each(|table| _ = own.make(&TemplateValue::Counter(table, TableCounter::Requests)));
    }
    maps
}

/// Warns of maps that are not used.
pub(in crate::check) fn warn_unused(
    document: &Document,
    maps: &[OwnValue],
    diagnostics: &mut Vec<Diagnostic>,
) {
    if diagnostics.iter().any(|diagnostic| !diagnostic.kind.is_warning()) {
        return;
    }
    for map in maps.iter().filter(|map| !map.is_used()) {
        let named = document.map.0.iter().find(|(name, _)| *name.value == *map.name());
        if let Some((name, _)) = named {
            let message = format!("the map `{0}` is not used: nothing names `{{map.{0}}}`", map.name());
            diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, name.span, message));
        }
    }
}

/// The definitions of a document on their way.
struct Definitions<'a> {
    document: &'a Document,
    files: &'a Files<'a>,
    /// The lookups that each that is made leads to, by its name in placeholders; `None`: it leads to itself, or to one that does.
    made: HashMap<String, Option<usize>>,
    /// Those that are being made.
    path: Vec<String>,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl Definitions<'_> {
    /// Defines a value and all that it is made of; the lookups that it leads to.
    fn make(&mut self, value: &TemplateValue) -> Option<usize> {
        let own = value.own()?;
        let name = match value {
            // All counters of a table are of one entry.
            TemplateValue::Counter(table, _) => format!("table.{}", table.name()),
            value => value.name(),
        };
        if let Some(made) = self.made.get(&name) {
            return *made;
        }
        if self.path.contains(&name) {
            self.report_circle(&name);
            return None;
        }
        // Each is a lookup at least, so that more of them within each other are too many in any case.
        if self.path.len() > LOOKUPS_MAX {
            let at = self.place(&self.path[0].clone());
            return self.check_lookups(self.path.len(), at).and(None);
        }
        self.path.push(name.clone());
        let made = match value {
            TemplateValue::Map(_) => self.make_map(own),
            TemplateValue::Counter(..) => self.make_table(own),
            _ => self.make_variable(own),
        };
        self.path.pop();
        self.made.insert(name, made);
        made
    }

    fn make_variable(&mut self, own: &OwnValue) -> Option<usize> {
        let document = self.document;
        let listeners = document.listener.0.iter().map(|(_, listener)| &listener.value);
        let texts = listeners.flat_map(|listener| {
            listener.vars.0.iter().chain(listener.route.iter().flat_map(|route| &route.value.vars.0))
        });
        let texts: Vec<&Spanned<Template>> =
            texts.filter(|(name, _)| *name.value == *own.name()).map(|(_, text)| text).collect();
        let (mut leaves, mut lookups) = (Vec::new(), 0);
        for text in &texts {
            templates::warn_of_variables(&text.value, text.span, self.diagnostics);
            lookups = lookups.max(1 + self.lookups(&text.value, &mut leaves)?);
        }
        self.check_lookups(lookups, texts.first()?.span)?;
        let values: Vec<Template> = texts.iter().map(|text| text.value.clone()).collect();
        let text = values.iter().map(|value| format!("{value}\n{}", within(value))).collect();
        own.define(leaves, text, values, None);
        Some(lookups)
    }

    fn make_map(&mut self, own: &OwnValue) -> Option<usize> {
        let document = self.document;
        let (name, table) = document.map.0.iter().find(|(name, _)| *name.value == *own.name())?;
        let text = &table.value;
        let source = text.source.as_ref()?;
        let (mut leaves, mut of_values) = (Vec::new(), 0);
        templates::warn_of_variables(&source.value, source.span, self.diagnostics);
        let of_source = self.lookups(&source.value, &mut leaves)?;
        self.refuse_groups(source, "source");
        self.refuse_groups(&text.default, "default");
        of_values = of_values.max(self.lookups(&text.default.value, &mut leaves)?);
        for (kind, (key, value)) in text.entries() {
            templates::warn_of_variables(&value.value, value.span, self.diagnostics);
            match kind {
                MapKind::Regex => self.check_groups(key, value),
                _ => self.refuse_groups(value, kind.as_str()),
            }
            of_values = of_values.max(self.lookups(&value.value, &mut leaves)?);
        }
        let lookups = 1 + of_source + of_values;
        self.check_lookups(lookups, name.span)?;
        let definition = Arc::new(self.definition(text, source));
        self.read(name, table, &definition);
        leaves.extend(definition.table().values().iter().flat_map(Template::leaves).cloned());
        // Groups in its values are those of its expressions.
        leaves.retain(|leaf| !matches!(leaf, TemplateValue::MatchGroup(_)));
        let written = text.inline();
        let files: Vec<String> = definition.sources().map(|file| file.display().to_string()).collect();
        let made_of = [written, files.join("\n"), text.templates().map(within).collect()].join("\n");
        let values = text.templates().skip(1).cloned().collect();
        own.define(leaves, made_of, values, Some(definition));
        Some(lookups)
    }

    fn make_table(&mut self, own: &OwnValue) -> Option<usize> {
        let document = self.document;
        let (name, table) = document.table.0.iter().find(|(name, _)| *name.value == *own.name())?;
        let TableText { key, prefix, store, .. } = &table.value;
        let mut leaves = Vec::new();
        let lookups = 1 + self.lookups(&key.value, &mut leaves)?;
        self.check_lookups(lookups, key.span)?;
        let stored = store.iter().flat_map(|store| &store.0).map(|counter| counter.value).collect();
        let prefixes = prefix.to_prefixes();
        let key = (key.value.clone(), prefixes);
        let definition =
            TableDefinition::new(&name.value, key, stored, (table.value.expire, table.value.keys_max));
        let text = format!("{definition:?}\n{}", within(&definition.key));
        own.define_table(leaves, text, Arc::new(definition));
        Some(lookups)
    }

    /// The lookups that a text leads to, and the values that it is made of.
    fn lookups(&mut self, text: &Template, leaves: &mut Vec<TemplateValue>) -> Option<usize> {
        let mut sum = 0_usize;
        for value in text.values() {
            if value.own().is_some() {
                sum = sum.saturating_add(self.make(value)?);
            }
            leaves.extend(value.leaves().iter().cloned());
        }
        Some(sum)
    }

    fn check_lookups(&mut self, lookups: usize, at: SourceSpan) -> Option<()> {
        if lookups <= LOOKUPS_MAX {
            return Some(());
        }
        let message = format!(
            "this leads to {lookups} maps and variables for one value; at most {LOOKUPS_MAX} are allowed"
        );
        self.diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message));
        None
    }

    fn report_circle(&mut self, name: &str) {
        let first = self.path.iter().position(|known| known == name).unwrap_or_default();
        let circle = self.path[first..].iter().chain([&self.path[first]]);
        let circle: Vec<String> = circle.map(|name| format!("`{{{name}}}`")).collect();
        let message = format!("`{{{name}}}` leads to itself: {}", circle.join(" -> "));
        let at = self.place(name);
        self.diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }

    /// Where a value is defined first.
    fn place(&self, name: &str) -> SourceSpan {
        let of_map = |name: &str| self.document.map.0.iter().find(|(known, _)| *known.value == *name);
        if let Some((map, _)) = name.strip_prefix("map.").and_then(of_map) {
            return map.span;
        }
        let of_table = |name: &str| self.document.table.0.iter().find(|(known, _)| *known.value == *name);
        if let Some((table, _)) = name.strip_prefix("table.").and_then(of_table) {
            return table.span;
        }
        let name = name.strip_prefix("vars.").unwrap_or(name);
        let listeners = self.document.listener.0.iter().map(|(_, listener)| &listener.value);
        let mut names = listeners.flat_map(|listener| {
            listener.vars.0.iter().chain(listener.route.iter().flat_map(|route| &route.value.vars.0))
        });
        names.find(|(known, _)| *known.value == *name).map_or(self.document.process.span, |(at, _)| at.span)
    }

    /// Groups of a path are those of a route, of which a map knows nothing.
    fn refuse_groups(&mut self, text: &Spanned<Template>, place: &str) {
        let group = text.value.values().find(|value| matches!(value, TemplateValue::MatchGroup(_)));
        if let Some(group) = group {
            let message =
                format!("`{{{}}}` has no value in `{place}`: only `regex` has groups", group.name());
            let help = "write an entry of `regex`, with `{path}` as the `source` for groups of a path";
            self.diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help));
        }
    }

    fn check_groups(&mut self, key: &Spanned<Box<str>>, value: &Spanned<Template>) {
        let Ok(ValueMatch::Regex(regex)) = ValueMatch::regex(&key.value) else { return };
        let regex = regex.with_groups();
        for group in value.value.values() {
            if let TemplateValue::MatchGroup(name) = group
                && !regex.has_group(name)
            {
                let message = format!("`{{{}}}` has no value: there is no group `{name}`", group.name());
                let help = "a group is `(...)`, counted from 1, or `(?<name>...)`";
                let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, value.span, message);
                self.diagnostics.push(diagnostic.label(key.span, "the expression").help(help));
            }
        }
    }

    fn definition(&self, text: &MapText, source: &Spanned<Template>) -> MapDefinition {
        let entry = |(kind, (key, value)): (MapKind, &(Spanned<Box<str>>, Spanned<Template>))| MapEntry {
            kind,
            key: key.value.clone(),
            value: value.value.clone(),
        };
        let files = text.file.iter().flat_map(|files| &files.0);
        MapDefinition::new(MapParts {
            source: source.value.clone(),
            ignore_case: text.ignore_case,
            default: text.default.value.clone(),
            entries: text.entries().map(entry).collect(),
            files: files.map(|file| Arc::from(self.files.path(file))).collect(),
            file_kind: text.file_kind.into(),
            database: self.database(text),
            reload: text.reload,
        })
    }

    fn database(&self, text: &MapText) -> Option<MapDatabase> {
        let (file, field) = (text.database.as_ref()?, text.field.as_ref()?);
        Some(MapDatabase { file: Arc::from(self.files.path(file)), field: field.value.clone() })
    }

    /// Reports a database without a field, a field without a database, and one that no record has.
    fn check_database(&mut self, table: &SpannedTable<MapText>, map: &MapDefinition) {
        let mut report = |kind, at, message: &str, help: String| {
            self.diagnostics.push(Diagnostic::new(kind, at, message).help(help));
        };
        match (&table.value.database, &table.value.field) {
            (Some(database), None) if table.is_missing("field") => {
                let help = "write the field that is the value: `field = \"country.iso_code\"`";
                report(
                    DiagnosticKind::MissingKey,
                    database.span,
                    "`database` needs a `field`",
                    help.to_owned(),
                );
            }
            (None, Some(field)) if table.is_missing("database") => {
                let help = "write the file: `database = \"GeoLite2-Country.mmdb\"`";
                report(
                    DiagnosticKind::Conflict,
                    field.span,
                    "`field` has no effect without `database`",
                    help.to_owned(),
                );
            }
            (Some(_), Some(field)) => {
                if let Err(known) = map.table().find_any_field() {
                    let known: Vec<String> = known.iter().map(|field| format!("`{field}`")).collect();
                    let help = format!("records have {}", known.join(", "));
                    let message = format!("no record has the field `{}`", field.value.as_str());
                    report(DiagnosticKind::Suspicious, field.span, &message, help);
                }
            }
            _ => {}
        }
    }

    /// Reads its table.
    fn read(&mut self, name: &Spanned<Box<str>>, table: &SpannedTable<MapText>, map: &MapDefinition) {
        let marks = map_marks(map);
        let text = &table.value;
        let mut report =
            |kind, at, message: String| self.diagnostics.push(Diagnostic::new(kind, at, message));
        match map.builder() {
            Err((place, error)) => {
                let at = text.entries().nth(place).map_or(name.span, |(_, (key, _))| key.span);
                return report(DiagnosticKind::BadValue, at, error.to_string());
            }
            Ok(_)
                if map.sources().next().is_none()
                    && map.entries.is_empty()
                    && text.database.is_none()
                    && table.is_missing("default")
                    && table.is_sound =>
            {
                let message =
                    format!("the map `{}` has neither entries nor a `file` or a `database`", name.value);
                return report(DiagnosticKind::MissingKey, name.span, message);
            }
            Ok(builder) if map.sources().next().is_none() || !self.files.may_read => {
                map.set_read(builder.build(None), marks);
            }
            Ok(_) => match read_map(map, |_| true) {
                Ok(read) => map.set_read(read, marks),
                Err(problems) => {
                    let first = text.file.as_ref().and_then(|files| files.0.first());
                    let at = first.or(text.database.as_ref()).map_or(name.span, |file| file.span);
                    problems.into_iter().for_each(|problem| report(DiagnosticKind::BadValue, at, problem));
                }
            },
        }
        for (key, has_effect) in
            [("file_kind", !map.files.is_empty()), ("reload", map.sources().next().is_some())]
        {
            if let Some(at) = table.changed(key).filter(|_| !has_effect) {
                let message = format!("`{key}` has no effect without `file`");
                report(DiagnosticKind::Unused, at, message);
            }
        }
        self.check_database(table, map);
    }
}

/// The definitions of the maps, variables and tables in a text: what they change, it changes.
fn within(text: &Template) -> String {
    let own = text.values().filter_map(TemplateValue::own);
    own.map(|own| format!("{}\n", own.definition_text())).collect()
}
