//! `sub_filter`: texts in bodies of responses.

use super::super::scope::Scope;
use super::super::{response_rules, variables};
use crate::document::{DraftTable, TomlValue};

pub(super) fn apply(scope: &Scope<'_>, route: &mut DraftTable) {
    let filters = scope.all("sub_filter");
    if filters.is_empty() {
        return;
    }
    let once = scope.text("sub_filter_once").is_none_or(|(statement, text)| {
        scope.ledger.exact(statement);
        text != "off"
    });
    let mut rules: Vec<TomlValue> = Vec::new();
    for statement in &filters {
        let mut words = scope.words(statement);
        let (text, to) = (words.text().unwrap_or_default(), words.text().unwrap_or_default());
        let Some(text) = variables::constant(scope, text) else {
            scope.ledger.unsupported(statement, "what is searched for has no placeholders; write the text");
            continue;
        };
        let to = match variables::template(scope, to) {
            // Braces around anything but a placeholder are text there.
            Ok(to) => to.replace("{{", "{").replace("}}", "}"),
            Err(unknown) => {
                scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
                continue;
            }
        };
        let mut rule = vec![("text".to_owned(), text.into()), ("to".to_owned(), to.into())];
        if once {
            rule.push(("once".to_owned(), true.into()));
        }
        rule.push(("ignore_case".to_owned(), true.into()));
        rules.push(TomlValue::Inline(rule));
        scope.ledger.exact(statement);
    }
    if rules.is_empty() {
        return;
    }
    let body = route.table("rewrite_body");
    body.set("rules", TomlValue::Array(rules), filters[0]);
    if let Some(statement) = scope.one("sub_filter_types") {
        let mut types = vec!["text/html".to_owned()];
        for word in scope.words(statement).rest() {
            if !types.contains(&word.text) {
                types.push(word.text.clone());
            }
        }
        if types.iter().any(|text| text == "*") {
            types = vec!["*".to_owned()];
        }
        body.set("types", types, statement);
        scope.ledger.exact(statement);
    }
    if let Some((statement, text)) = scope.text("sub_filter_last_modified") {
        if text == "on" {
            scope.ledger.by_default(statement, "`Last-Modified` passes");
        } else {
            response_rules::removed(route, "last-modified", statement);
            scope
                .ledger
                .approximated(statement, "`Last-Modified` is removed from all responses of the place");
        }
    }
}
