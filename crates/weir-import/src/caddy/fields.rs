//! `header` and `request_header`: changes of fields, for all requests or for some.

use super::matchers::CaddyMatch;
use super::placeholders::{PlaceholderText, TextKind, translated};
use super::words::behind_matcher;
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;

/// A change of one field.
#[derive(Clone, Debug)]
pub(super) struct FieldChange<'s> {
    pub(super) kind: FieldChangeKind,
    pub(super) name: String,
    pub(super) value: String,
    /// The condition, as far as the requests of the route do not say it.
    pub(super) when: Option<String>,
    /// Whether it is for what servers answer, and not for answers of the proxy itself.
    pub(super) of_servers: bool,
    /// What its directive is for, where the condition says just that.
    pub(super) matched: Option<CaddyMatch>,
    pub(super) from: &'s Statement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldChangeKind {
    Remove,
    /// In place of what there is.
    Set,
    /// Beside what a server says.
    Add,
}

impl<'s> FieldChange<'s> {
    /// The same for requests that all are `scope`, without a condition on their path; nothing if it is for none of them.
    pub(super) fn within(&self, scope: &CaddyMatch) -> Result<Option<FieldChange<'s>>, &'static str> {
        let asks_path = self.when.as_deref().is_some_and(|when| when.contains("path."));
        if !asks_path {
            return Ok(Some(self.clone()));
        }
        let advice = "its path is compared with one that was rewritten: write the route by hand";
        let matched = self.matched.as_ref().filter(|matched| matched.condition().ok().flatten() == self.when);
        let Some(matched) = matched else { return Err(advice) };
        let path_alone = CaddyMatch { path: matched.path.clone(), ..CaddyMatch::default() };
        let both = CaddyMatch { path: scope.path.clone(), ..CaddyMatch::default() }.and(path_alone);
        if both.is_never {
            return Ok(None);
        }
        if both.path != scope.path || !both.when.is_empty() {
            return Err(advice);
        }
        let rest = CaddyMatch { path: None, ..matched.clone() };
        let when = rest.condition().map_err(|_| advice)?;
        if when.as_deref().is_some_and(|when| when.contains("path.")) {
            return Err(advice);
        }
        Ok(Some(FieldChange { when, matched: Some(rest), ..self.clone() }))
    }

    /// It is there in place of nothing that a server has said: a condition on that holds.
    pub(super) fn after_removal(&mut self) {
        let missing = format!("!has(response.header[\"{}\"])", self.name);
        let rest = self.when.as_deref().and_then(|when| when.strip_suffix(missing.as_str()));
        let Some(rest) = rest else { return };
        let inner = rest.strip_suffix(" && ").and_then(|rest| rest.strip_prefix('(')?.strip_suffix(')'));
        self.when = inner.map(str::to_owned);
    }
}

/// One line of a `header`: its first word has the sign.
struct HeaderLine<'s> {
    words: Vec<&'s str>,
    statement: &'s Statement,
}

/// Reads a `header` or `request_header`.
pub(super) fn read<'s>(
    statement: &'s Statement,
    matcher: &CaddyMatch,
    ledger: &Ledger,
    (request, response): (&mut Vec<FieldChange<'s>>, &mut Vec<FieldChange<'s>>),
) {
    let when = match matcher.condition() {
        Ok(when) => when,
        Err(why) => return ledger.unsupported(statement, &why),
    };
    let is_request = statement.name() == "request_header";
    let own = behind_matcher(ledger, statement);
    let mut lines = Vec::new();
    if !own.is_empty() {
        lines.push(HeaderLine { words: own, statement });
    }
    let mut is_deferred = is_request;
    for child in statement.children() {
        if matches!(child.name(), "defer" | "match") {
            is_deferred |= child.name() == "defer";
            if child.name() == "defer" {
                ledger.exact(child);
            }
            continue;
        }
        ledger.words(child).rest();
        let words = child.words.iter().map(|word| word.text.as_str()).collect();
        lines.push(HeaderLine { words, statement: child });
    }
    is_deferred |=
        lines.iter().any(|line| line.words[0].starts_with(['-', '?', '>']) || line.words.len() == 3);
    ledger.exact(statement);
    for line in lines {
        let list: &mut Vec<FieldChange<'s>> = if is_request { request } else { response };
        let known = list.len();
        if let Err(why) = change(&line, is_deferred, when.as_deref(), list) {
            ledger.unsupported(line.statement, &why);
            if is_request && !line.words[0].starts_with('+') {
                remove(line.words[0], when.clone(), line.statement, list);
                ledger.unsupported(line.statement, REMOVED);
            }
        } else {
            list.iter_mut().skip(known).for_each(|change| change.matched = Some(matcher.clone()));
            ledger.exact(line.statement);
        }
    }
}

/// What to do in place of a pattern of names.
pub(super) const BY_PATTERN: &str = "name each field: Weir removes no fields by a pattern";

/// Whether fields of requests are removed by a pattern of their names: what clients say in them must not come to a server.
pub(super) fn removes_by_pattern(statement: &Statement) -> bool {
    let is_pattern = |word: Option<&crate::source::Word>| {
        word.is_some_and(|word| word.text.starts_with('-') && word.text.contains('*'))
    };
    match statement.name() {
        "request_header" => {
            statement.words.iter().skip(1).take(2).any(|word| is_pattern(Some(word)))
                || statement.children().iter().any(|child| is_pattern(child.words.first()))
        }
        "reverse_proxy" | "php_fastcgi" => statement
            .children()
            .iter()
            .any(|child| child.name() == "header_up" && is_pattern(child.words.get(1))),
        _ => false,
    }
}

/// Fields that a `request_header` which cannot be said may set or remove: servers do not get them, so that nothing that only a client says takes
/// the place of what Caddy says.
pub(super) fn remove_named<'s>(
    statement: &'s Statement,
    known: &CaddyMatch,
    ledger: &Ledger,
    request: &mut Vec<FieldChange<'s>>,
) {
    let own = behind_matcher(ledger, statement);
    let of_block = statement.children().iter().map(Statement::name);
    for name in own.first().copied().into_iter().chain(of_block) {
        remove(name, known.condition().ok().flatten(), statement, request);
    }
    ledger.unsupported(statement, REMOVED);
}

/// A field whose value cannot be said is not taken from the client.
pub(super) fn not_set<'s>(
    name: &str,
    from: &'s Statement,
    ledger: &Ledger,
    request: &mut Vec<FieldChange<'s>>,
) {
    remove(name, None, from, request);
    ledger.unsupported(from, REMOVED);
}

/// What becomes of a field that is not set.
const REMOVED: &str = "until then, servers do not get the field";

fn remove<'s>(name: &str, when: Option<String>, from: &'s Statement, request: &mut Vec<FieldChange<'s>>) {
    let name = name.trim_start_matches(['-', '?', '>']).to_ascii_lowercase();
    let is_field = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if is_field && name != "host" {
        let kind = FieldChangeKind::Remove;
        let value = String::new();
        request.push(FieldChange { kind, name, value, when, of_servers: false, matched: None, from });
    }
}

fn change<'s>(
    line: &HeaderLine<'s>,
    is_deferred: bool,
    when: Option<&str>,
    list: &mut Vec<FieldChange<'s>>,
) -> Result<(), String> {
    let (sign, name) = match line.words[0].chars().next() {
        Some(sign @ ('+' | '-' | '?' | '>')) => (sign, &line.words[0][1..]),
        _ => ('=', line.words[0]),
    };
    if name.contains('*') {
        return Err(BY_PATTERN.to_owned());
    }
    let name = name.to_ascii_lowercase();
    let value = match line.words.as_slice() {
        [_] => "",
        [_, value] => value,
        _ => return Err("a part of a value is replaced by no key of Weir: set the whole value".to_owned()),
    };
    let value = match translated(value, TextKind::Field) {
        PlaceholderText::Text(value) => value,
        PlaceholderText::Unknown(placeholder) => {
            return Err(format!("Weir has no placeholder for `{placeholder}`"));
        }
    };
    let kind = match sign {
        '-' => FieldChangeKind::Remove,
        '+' => FieldChangeKind::Add,
        '?' => return set_default(name, value, when, line, list),
        _ if is_deferred => FieldChangeKind::Set,
        // What a server says of the field comes beside it.
        _ => FieldChangeKind::Add,
    };
    // A later one takes the place of those before it, where both are for a request.
    if sign == '=' {
        replace_earlier(&name, when, list);
    }
    let when = when.map(str::to_owned);
    let from = line.statement;
    list.push(FieldChange { kind, name, value, when, of_servers: false, matched: None, from });
    Ok(())
}

/// A value for responses that have none.
fn set_default<'s>(
    name: String,
    value: String,
    when: Option<&str>,
    line: &HeaderLine<'s>,
    list: &mut Vec<FieldChange<'s>>,
) -> Result<(), String> {
    let missing = format!("!has(response.header[\"{name}\"])");
    let when = Some(when.map_or(missing.clone(), |when| format!("({when}) && {missing}")));
    let kind = FieldChangeKind::Set;
    let from = line.statement;
    list.push(FieldChange { kind, name, value, when, of_servers: false, matched: None, from });
    Ok(())
}

fn replace_earlier(name: &str, when: Option<&str>, list: &mut Vec<FieldChange<'_>>) {
    let Some(when) = when else {
        list.retain(|change| change.name != name || change.kind == FieldChangeKind::Remove);
        return;
    };
    let is_same = |change: &FieldChange<'_>| change.name == name && change.kind != FieldChangeKind::Remove;
    list.retain(|change| !is_same(change) || change.when.as_deref() != Some(when));
    for change in list.iter_mut().filter(|change| is_same(change)) {
        let other = format!("!({when})");
        change.when = Some(match &change.when {
            Some(known) => format!("({known}) && {other}"),
            None => other,
        });
    }
}

/// Puts changes into a route: one table for each run of changes with one condition.
pub(super) fn set(route: &mut DraftTable, key: &str, changes: &[FieldChange<'_>]) {
    let mut tables: Vec<(Option<&str>, Vec<&FieldChange<'_>>)> = Vec::new();
    for change in changes {
        match tables.last_mut() {
            Some((when, list)) if *when == change.when.as_deref() && fits(list, change) => list.push(change),
            _ => tables.push((change.when.as_deref(), vec![change])),
        }
    }
    let is_response = key == "response_headers";
    let of_servers = |list: &[&FieldChange<'_>]| is_response && list.iter().any(|change| change.of_servers);
    let values: Vec<TomlValue> =
        tables.iter().map(|(when, list)| table(*when, list, (is_response, of_servers(list)))).collect();
    let Some(first) = changes.first() else { return };
    match values.as_slice() {
        [one] => route.set(key, one.clone(), first.from),
        _ => route.set(key, TomlValue::Array(values), first.from),
    }
}

/// Whether a table, which removes, then sets, then adds, says the same as the changes one after the other.
fn fits(list: &[&FieldChange<'_>], change: &FieldChange<'_>) -> bool {
    list.iter().all(|known| known.name != change.name && known.of_servers == change.of_servers)
}

fn table(
    when: Option<&str>,
    changes: &[&FieldChange<'_>],
    (is_response, of_servers): (bool, bool),
) -> TomlValue {
    let mut entries: Vec<(String, TomlValue)> = Vec::new();
    if of_servers {
        entries.push(("from".to_owned(), "server".into()));
    }
    // Failures have such fields only where that is said.
    if is_response && changes.iter().any(|change| matches!(change.name.as_str(), "cache-control" | "expires"))
    {
        entries.push(("status".to_owned(), "always".into()));
    }
    if let Some(when) = when {
        entries.push(("when".to_owned(), when.into()));
    }
    let removed: Vec<&str> =
        of_kind(changes, FieldChangeKind::Remove).map(|change| change.name.as_str()).collect();
    if !removed.is_empty() {
        entries.push(("remove".to_owned(), removed.into()));
    }
    for (kind, key) in [(FieldChangeKind::Set, "set"), (FieldChangeKind::Add, "add")] {
        let values: Vec<(String, TomlValue)> = of_kind(changes, kind)
            .map(|change| (change.name.clone(), change.value.as_str().into()))
            .collect();
        if !values.is_empty() {
            entries.push((key.to_owned(), TomlValue::Inline(values)));
        }
    }
    TomlValue::Inline(entries)
}

fn of_kind<'c, 's>(
    changes: &'c [&'c FieldChange<'s>],
    kind: FieldChangeKind,
) -> impl Iterator<Item = &'c FieldChange<'s>> {
    changes.iter().copied().filter(move |change| change.kind == kind)
}
