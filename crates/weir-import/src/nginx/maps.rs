//! `map`, `geo` and `split_clients`: those that something names.

use super::regexes::{ENCODED, NginxPattern, PatternSubject, encoded, escaped};
use super::scope::{NginxVariable, Scope};
use super::variables::{self, TemplateUse};
use crate::document::{Draft, DraftTable};
use crate::source::Statement;

/// Adds the maps that the config names by now, and those that they name.
pub(super) fn translate(scope: &Scope<'_>, draft: &mut Draft) {
    let mut done: Vec<String> = Vec::new();
    loop {
        let (text, _) = draft.render();
        let before = done.len();
        for (name, statement) in scope.maps() {
            if statement.name() != "split_clients"
                && !done.iter().any(|known| known == name)
                && is_named(&text, name)
            {
                done.push(name.to_owned());
                let table =
                    if statement.name() == "geo" { geo(scope, statement) } else { map(scope, statement) };
                *draft.table(&["map", name]) = table;
            }
        }
        for (name, table) in scope.made_maps() {
            if !done.contains(&name) && is_named(&text, &name) {
                *draft.table(&["map", &name]) = table;
                done.push(name);
            }
        }
        if done.len() == before {
            break;
        }
    }
    for (name, statement) in scope.maps() {
        if !done.iter().any(|known| known == name) && !scope.ledger.is_settled(statement) {
            unused(scope, name, statement);
        }
    }
}

/// Whether a text names a map.
fn is_named(text: &str, name: &str) -> bool {
    let wanted = format!("map.{name}");
    text.match_indices(&wanted).any(|(at, _)| {
        let next = text[at + wanted.len()..].chars().next();
        !text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '[' | '_'))
            && !next.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    })
}

fn unused(scope: &Scope<'_>, name: &str, statement: &Statement) {
    let source = scope.words(statement).text();
    let why = match (statement.name(), source) {
        ("map", Some("$http_upgrade")) => "Weir passes upgrades by itself".to_owned(),
        _ => format!("nothing that Weir has a key for names `${name}`"),
    };
    scope.ledger.meaningless(statement, &why);
    statement.children().iter().for_each(|child| scope.ledger.meaningless(child, &why));
}

/// Entries of a map by how they are compared.
#[derive(Default)]
struct MapEntries {
    exact: Vec<(String, String)>,
    hosts: Vec<(String, String)>,
    regexes: Vec<(String, String)>,
    /// `a.*`, which go before the others, the longest first.
    endings: Vec<(String, String)>,
    default: Option<String>,
    /// Expressions of what the last one leaves out.
    left_out: Vec<String>,
    /// What is looked up.
    subject: PatternSubject,
}

fn map(scope: &Scope<'_>, statement: &Statement) -> DraftTable {
    let mut table = DraftTable::of(statement);
    let mut words = scope.words(statement);
    let source = words.text().unwrap_or_default();
    words.next();
    match variables::expand(scope, source, TemplateUse::Exchange) {
        Ok(source) => {
            table.set("source", source.text, statement);
            source.differences.iter().for_each(|one| scope.ledger.approximated(statement, one));
        }
        Err(unknown) => {
            table.set("source", "", statement);
            scope.ledger.unsupported(statement, &unknown.advice);
        }
    }
    scope.ledger.exact(statement);
    let subject = subject(table.text("source").unwrap_or_default());
    let mut entries = MapEntries { subject, ..MapEntries::default() };
    let by_host = statement.children().iter().any(|child| child.name() == "hostnames");
    let last = statement.children().iter().rfind(|child| child.name().starts_with('~'));
    for child in statement.children() {
        let is_last = last.is_some_and(|last| last.id == child.id);
        entries.read(scope, child, (by_host, is_last));
    }
    entries.put(by_host, &mut table);
    table
}

/// What the source of a map is, for expressions.
fn subject(source: &str) -> PatternSubject {
    let has = |names: &[&str]| names.iter().any(|name| source.contains(name));
    if source == "{path}" {
        PatternSubject::Path
    } else if has(&["{target}", "{args}"]) && !has(&["{header.", "{user_agent}", "{referer}", "{cookie."]) {
        PatternSubject::Target
    } else {
        PatternSubject::Text
    }
}

impl MapEntries {
    fn read(&mut self, scope: &Scope<'_>, child: &Statement, (by_host, is_last): (bool, bool)) {
        let ledger = scope.ledger;
        let key = child.name();
        let is_quoted = child.words.first().is_some_and(|word| word.quoted);
        if child.words.len() == 1 && matches!(key, "hostnames" | "volatile") {
            return match key {
                "hostnames" => ledger.exact(child),
                _ => ledger.by_default(child, "a map is looked up each time"),
            };
        }
        let Some(value) = ledger.words(child).text() else {
            return ledger.unsupported(child, "an entry has a key and a value");
        };
        let pattern = key.strip_prefix("~*").map(|source| (source, true));
        let pattern = pattern.or_else(|| key.strip_prefix('~').map(|source| (source, false)));
        let pattern =
            match pattern.map(|(source, flag)| NginxPattern::new(source, flag, self.subject)).transpose() {
                Ok(pattern) => pattern.filter(|_| key.len() > 1),
                Err(advice) => return ledger.unsupported(child, &advice),
            };
        if self.subject == PatternSubject::Target {
            let as_text = NginxPattern::new(key.trim_start_matches(['~', '*']), false, PatternSubject::Text);
            let same = |known: &NginxPattern| {
                as_text.as_ref().is_ok_and(|text| known.text.trim_start_matches("(?i)") == text.text)
            };
            if !pattern.as_ref().is_none_or(same) {
                ledger.approximated(child, ENCODED);
            }
        }
        let beside = pattern.as_ref().map(|pattern| pattern.beside.as_slice()).unwrap_or_default();
        // What the last expression leaves out has the default, so it may say so first.
        let left_out = if is_last && beside.iter().all(|(_, wanted)| !wanted) { beside } else { &[] };
        if left_out.len() < beside.len() {
            return ledger.unsupported(child, "Weir's regular expressions have no look-around such as `(?!...)`: write an entry of its own before this one for what is left out");
        }
        let mut inner = scope.clone();
        if let Some(pattern) = &pattern {
            let numbers = (1..=pattern.groups().min(9)).map(|group| group.to_string());
            for group in numbers.chain(pattern.group_names()) {
                inner.define(&group, NginxVariable::Text(format!("{{match.{group}}}")));
            }
        }
        let value = match variables::template(&inner, value) {
            Ok(value) => value,
            Err(unknown) => return ledger.unsupported(child, &unknown.advice),
        };
        ledger.exact(child);
        self.left_out.extend(left_out.iter().map(|(text, _)| text.clone()));
        match pattern {
            Some(pattern) => self.regexes.push((pattern.text, value)),
            None if key == "default" && !is_quoted => self.default = Some(value),
            None => self.plain(key.strip_prefix('\\').unwrap_or(key), value, by_host),
        }
    }

    fn plain(&mut self, key: &str, value: String, by_host: bool) {
        match key.strip_suffix(".*").filter(|_| by_host) {
            Some(begin) => self.endings.push((format!("^{}\\.", escaped(begin)), value)),
            None if by_host && !key.is_empty() => self.hosts.push((key.to_ascii_lowercase(), value)),
            None if self.subject == PatternSubject::Path => self.exact.push((encoded(key), value)),
            None => self.exact.push((key.to_owned(), value)),
        }
    }

    fn put(mut self, by_host: bool, table: &mut DraftTable) {
        let at = self.regexes.len().saturating_sub(1);
        let default = self.default.clone().unwrap_or_default();
        self.regexes.splice(at..at, self.left_out.drain(..).map(|text| (text, default.clone())));
        if let Some(default) = self.default.filter(|default| !default.is_empty()) {
            table.set_plain("default", default);
        }
        let has_letters = |text: &str| text.bytes().any(|byte| byte.is_ascii_alphabetic());
        let lower = matches!(table.text("source"), Some("{host}" | "{scheme}"));
        let letters = !lower && !by_host && self.exact.iter().any(|(key, _)| has_letters(key));
        // Case counts for expressions, so texts for which it does not are expressions, too.
        if letters && !self.regexes.is_empty() {
            let (texts, plain) = self.exact.into_iter().partition(|(key, _)| has_letters(key));
            self.exact = plain;
            let texts: Vec<(String, String)> = texts;
            self.regexes.splice(
                0..0,
                texts.into_iter().map(|(key, value)| (format!("(?i)^{}$", escaped(&key)), value)),
            );
        } else if letters {
            table.set_plain("ignore_case", true);
            self.exact.iter_mut().for_each(|(key, _)| key.make_ascii_lowercase());
        } else if lower {
            self.exact.iter_mut().for_each(|(key, _)| key.make_ascii_lowercase());
        }
        self.endings.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
        self.regexes.splice(0..0, self.endings);
        for (kind, entries) in [("exact", self.exact), ("host", self.hosts), ("regex", self.regexes)] {
            for (key, value) in entries {
                let entries = table.table(kind);
                let key = key.replace("${", "$${");
                // Of two entries, nginx refuses the second.
                if !entries.has(&key) {
                    entries.set_plain(&key, value);
                }
            }
        }
    }
}

fn geo(scope: &Scope<'_>, statement: &Statement) -> DraftTable {
    let ledger = scope.ledger;
    let mut table = DraftTable::of(statement);
    let words = ledger.words(statement).rest();
    let source = match words.as_slice() {
        [source, _] => variables::template(scope, &source.text),
        _ => Ok("{client_address}".to_owned()),
    };
    match source {
        Ok(source) => table.set("source", source, statement),
        Err(unknown) => {
            table.set("source", "{client_address}", statement);
            ledger.unsupported(statement, &unknown.advice);
        }
    }
    ledger.exact(statement);
    for child in statement.children() {
        let key = child.name();
        let value = ledger.words(child).text().unwrap_or_default();
        match key {
            "ranges" | "delete" | "proxy_recursive" => {
                ledger.unsupported(child, "write networks (`10.0.0.0/8`) in `network` of the map");
            }
            "proxy" => {
                ledger.unsupported(child, "name trusted proxies in `trusted_proxies` of the listener");
            }
            "default" => {
                if !value.is_empty() {
                    table.set("default", value, child);
                }
                ledger.exact(child);
            }
            network => {
                table.table("network").set(&crate::networks::network(network), value, child);
                ledger.exact(child);
            }
        }
    }
    table
}
