//! `map` and `vars` of a site: names of its own for values, which become maps, and texts in place of the names.

use super::placeholders::{MAP_PREFIX, PlaceholderText, TextKind, translated};
use super::words::arguments;
use crate::document::{Draft, DraftTable};
use crate::report::Ledger;
use crate::source::Statement;

/// What stands for a placeholder in all statements of a site.
type Replacements = Vec<(String, String)>;

/// Puts what `map` and `vars` of sites say in place of their placeholders.
pub(super) fn replace(sites: &mut [Statement], draft: &mut Draft, ledger: &Ledger) {
    for site in sites {
        let mut all: Replacements = Vec::new();
        for statement in site.children().iter().filter(|one| one.name() == "map") {
            all.extend(map(statement, draft, ledger));
        }
        all.extend(vars(site, ledger));
        let block = site.block.iter_mut().flatten();
        block.filter(|one| !all.is_empty() && one.name() != "map").for_each(|one| put(one, &all));
    }
}

fn put(statement: &mut Statement, all: &Replacements) {
    for word in &mut statement.words {
        for (name, value) in all {
            if word.text.contains(name) {
                word.text = word.text.replace(name, value);
            }
        }
    }
    statement.block.iter_mut().flatten().for_each(|child| put(child, all));
}

/// `map SOURCE {NAME}... { INPUT OUTPUT... }`, for all requests of a site: a map for each name.
fn map(statement: &Statement, draft: &mut Draft, ledger: &Ledger) -> Replacements {
    let words: Vec<&str> = statement.words.iter().skip(1).map(|word| word.text.as_str()).collect();
    let [source, names @ ..] = words.as_slice() else { return Vec::new() };
    let bare = |name: &str| name.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).map(str::to_owned);
    let is_name = |name: &String| {
        let is_of_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        !name.is_empty() && name.len() < 60 && name.chars().all(is_of_name)
    };
    let names: Option<Vec<String>> = names.iter().map(|name| bare(name).filter(is_name)).collect();
    let (true, Some(names)) = (source.starts_with('{'), names) else { return Vec::new() };
    let PlaceholderText::Text(source) = translated(source, TextKind::Field) else { return Vec::new() };
    let mut made = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let Some(table) = table(statement, &source, index) else { return Vec::new() };
        made.push((name, table));
    }
    let inputs = || statement.children().iter().map(Statement::name);
    let first_expression = inputs().position(|input| input.starts_with('~'));
    let last_text = inputs().rposition(|input| !input.starts_with('~') && input != "default");
    if first_expression < last_text && first_expression.is_some() {
        let difference = "whole texts go before expressions, which Caddy asks in the order of the file";
        ledger.approximated(statement, difference);
    }
    for one in std::iter::once(statement).chain(statement.children()) {
        ledger.words(one).rest();
        ledger.exact(one);
    }
    let all = made.into_iter().map(|(name, table)| {
        let own = draft.add_named("map", name, table);
        (format!("{{{name}}}"), format!("{{{MAP_PREFIX}{own}}}"))
    });
    all.collect()
}

/// The values of one name; nothing where one of them cannot be said.
fn table(statement: &Statement, source: &str, index: usize) -> Option<DraftTable> {
    let mut table = DraftTable::of(statement);
    table.set_plain("source", source);
    let mut has_entry = false;
    for entry in statement.children() {
        let output = entry.words.get(index + 1).map_or("", |word| word.text.as_str());
        // No value of this entry: the next one is asked.
        if output == "-" {
            continue;
        }
        let value = with_groups(output)?;
        match (entry.name(), entry.name().strip_prefix('~')) {
            ("default", _) => table.set_plain("default", value),
            (_, Some(pattern)) => table.table("regex").set_beside(pattern, value, entry),
            (text, None) => table.table("exact").set_beside(text, value, entry),
        }
        has_entry |= entry.name() != "default";
    }
    if !has_entry {
        let default = table.text("default").unwrap_or_default().to_owned();
        table.table("exact").set_plain("", default);
    }
    Some(table)
}

/// A value with `$1` and `${1}` as groups; nothing where Weir has not all of its placeholders.
fn with_groups(output: &str) -> Option<String> {
    let text = |text: &str| match translated(text, TextKind::Field) {
        PlaceholderText::Text(text) => Some(text),
        PlaceholderText::Unknown(_) => None,
    };
    let mut result = String::new();
    let mut rest = output;
    while let Some((before, behind)) = rest.split_once('$') {
        result.push_str(&text(before)?);
        let (name, after) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, after)) => (name, after),
            None => {
                let end = behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
                behind.split_at(end.unwrap_or(behind.len()))
            }
        };
        match name.is_empty() {
            true => result.push_str("$$"),
            false => result.push_str(&format!("{{match.{name}}}")),
        }
        rest = after;
    }
    result.push_str(&text(rest)?);
    Some(result)
}

/// `vars NAME TEXT` of a site, where nothing else in it gives the name another value.
fn vars(site: &Statement, ledger: &Ledger) -> Replacements {
    let mut all = Vec::new();
    let set = all_vars(site.children());
    for statement in site.children().iter().filter(|one| one.name() == "vars") {
        let own: Vec<&str> = statement.words.iter().skip(1).map(|word| word.text.as_str()).collect();
        let inner = statement.children().iter().map(|child| (child.name(), child.words.get(1)));
        let pairs: Vec<(&str, &str)> = match own.as_slice() {
            [name, value] => vec![(name, value)],
            [] => inner.filter_map(|(name, value)| Some((name, value?.text.as_str()))).collect(),
            _ => continue,
        };
        let is_plain = |(name, value): &(&str, &str)| {
            !name.starts_with(['@', '/', '*'])
                && !value.contains(['{', '}', '$'])
                && set.iter().filter(|known| *known == name).count() == 1
        };
        if pairs.is_empty() || !pairs.iter().all(is_plain) || statement.children().len() > pairs.len() {
            continue;
        }
        for one in std::iter::once(statement).chain(statement.children()) {
            arguments(ledger, one);
            ledger.exact(one);
        }
        for (name, value) in pairs {
            all.push((format!("{{vars.{name}}}"), value.to_owned()));
            all.push((format!("{{http.vars.{name}}}"), value.to_owned()));
        }
    }
    all
}

/// The words of all `vars` in a block, which may be names.
fn all_vars(block: &[Statement]) -> Vec<&str> {
    let mut names = Vec::new();
    for statement in block {
        if statement.name() == "vars" {
            let mut words = statement.words.iter().skip(1).map(|word| word.text.as_str()).collect::<Vec<_>>();
            // The value is none.
            words.pop();
            names.extend(words);
            names.extend(statement.children().iter().map(Statement::name));
        } else {
            names.extend(all_vars(statement.children()));
        }
    }
    names
}
