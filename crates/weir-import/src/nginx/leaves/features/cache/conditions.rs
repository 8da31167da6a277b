//! `proxy_cache_bypass` and `proxy_no_cache`: when a stored response is not used, and when one is not stored.

use super::super::super::scope::Scope;
use super::super::super::variables;
use crate::document::DraftTable;
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, prefix: &str, table: &mut DraftTable) {
    let bypass = scope.one(&format!("{prefix}_cache_bypass"));
    let no_store = scope.one(&format!("{prefix}_no_cache"));
    let texts = |statement: Option<&Statement>| -> Vec<String> {
        statement
            .map(|statement| {
                scope.ledger.words(statement).rest().iter().map(|word| word.text.clone()).collect()
            })
            .unwrap_or_default()
    };
    let (bypass_texts, no_store_texts) = (texts(bypass), texts(no_store));
    let mut both = Vec::new();
    for text in &bypass_texts {
        let upgrade = text == "$http_upgrade" || text == "$http_connection";
        if no_store_texts.contains(text) && !upgrade {
            both.push(text.clone());
        }
    }
    for (statement, texts, key, negated) in
        [(bypass, &bypass_texts, "refresh_when", false), (no_store, &no_store_texts, "store_when", true)]
    {
        let Some(statement) = statement else { continue };
        let mut conditions = Vec::new();
        let mut failed = None;
        for text in texts.iter().filter(|text| !both.contains(text)) {
            // Upgrades never go to the cache.
            if matches!(text.as_str(), "$http_upgrade") {
                continue;
            }
            match condition(scope, text) {
                Ok(Some(condition)) => conditions.push(condition),
                Ok(None) => {}
                Err(advice) => failed = Some(advice),
            }
        }
        if let Some(advice) = failed {
            scope.ledger.unsupported(statement, &advice);
            continue;
        }
        if !conditions.is_empty() {
            let any = conditions.join(" || ");
            let text = if negated { format!("!({any})") } else { any };
            table.set(key, text, statement);
        }
        let mut templates = Vec::new();
        for text in &both {
            match variables::template(scope, text) {
                Ok(template) => templates.push(template),
                Err(unknown) => {
                    scope.ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice));
                }
            }
        }
        if !templates.is_empty() {
            table.set("bypass", templates, statement);
        }
        scope.ledger.exact(statement);
    }
}

/// The condition that a variable is neither empty nor `0`. A text that is constant holds or does not.
fn condition(scope: &Scope<'_>, text: &str) -> Result<Option<String>, String> {
    let said = |unknown: variables::UnknownVariable| format!("`${}`: {}", unknown.name, unknown.advice);
    let template = variables::template(scope, text).map_err(said)?;
    if let Some(text) = variables::literal(&template) {
        return match text.as_str() {
            "" | "0" => Ok(None),
            _ => Err("it holds for every request: leave the cache out".to_owned()),
        };
    }
    let Some(name) = name(&template) else {
        return Err("a condition of the cache asks for one value; use `bypass`".to_owned());
    };
    Ok(Some(format!("({name} != \"\" && {name} != \"0\")")))
}

/// `{header.x-a}` as conditions write it.
fn name(template: &str) -> Option<String> {
    let inner = template.strip_prefix('{')?.strip_suffix('}')?;
    if inner.contains(['{', '}', '"']) {
        return None;
    }
    for family in ["response.header", "header", "cookie", "query"] {
        if let Some(rest) = inner.strip_prefix(&format!("{family}.")) {
            return Some(format!("{family}[\"{rest}\"]"));
        }
    }
    Some(inner.to_owned())
}
