//! `error_page`: what is sent in place of an answer that is an error.

use crate::document::{DraftTable, TomlValue};
use crate::nginx::scope::Scope;
use crate::nginx::variables;
use crate::source::Statement;

/// Directives by which answers of servers get such pages, too.
const INTERCEPTS: [&str; 5] = [
    "proxy_intercept_errors",
    "fastcgi_intercept_errors",
    "grpc_intercept_errors",
    "uwsgi_intercept_errors",
    "scgi_intercept_errors",
];

/// Sets the pages of a place.
pub(in crate::nginx) fn error_pages(scope: &Scope<'_>, route: &mut DraftTable) {
    let to_servers = route.has("upstream") || route.has("split");
    let mut of_servers = false;
    for statement in INTERCEPTS.iter().filter_map(|name| scope.one(name)) {
        of_servers |= scope.words(statement).text() == Some("on");
        scope.ledger.exact(statement);
    }
    if let Some(statement) = scope.one("recursive_error_pages") {
        match scope.words(statement).text() {
            Some("on") => scope.ledger.approximated(
                statement,
                "a request goes on once: a failure on that way gets the page of the first one",
            ),
            _ => scope.ledger.by_default(statement, "a request goes on once"),
        }
    }
    let mut known = Vec::new();
    for statement in scope.all("error_page") {
        let codes = statement.words.iter().skip(1).filter_map(|word| word.text.parse::<u16>().ok());
        let codes: Vec<u16> = codes.collect();
        if codes.iter().any(|code| known.contains(code)) {
            if codes.iter().all(|code| known.contains(code)) {
                scope.ledger.words(statement).rest();
                scope.ledger.meaningless(statement, "an `error_page` before it is for these statuses");
            } else {
                scope
                    .ledger
                    .unsupported(statement, "leave out the statuses that an `error_page` before it has");
            }
            continue;
        }
        known.extend(codes);
        if let Some(page) = page(scope, statement, of_servers && to_servers) {
            if let Some(name) = in_place_of_files(&page, route) {
                route.table("files").set("fallback", name, statement);
                let difference = "requests with other methods than GET, HEAD and POST go there, too, where nginx answers 405";
                scope.ledger.approximated(statement, difference);
            }
            route.push("error_pages", page, statement);
        }
    }
}

/// `error_page 404 = @app` where there are files: who answers in their place, requests with a body as well, which files alone refuse.
fn in_place_of_files(page: &TomlValue, route: &DraftTable) -> Option<String> {
    let files = route.get_table("files")?;
    let TomlValue::Inline(keys) = page else { return None };
    let of = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, value)| value);
    let is_404 = |value: &TomlValue| match value {
        TomlValue::Array(list) => list.contains(&404.into()),
        other => *other == 404.into(),
    };
    let Some(TomlValue::Text(to)) = of("then") else { return None };
    let is_name = !to.starts_with(['/', '{']);
    let fits = of("status").is_some_and(is_404) && of("status_of_target").is_some();
    (is_name && fits && !files.has("fallback") && !route.has("upstream")).then(|| to.clone())
}

fn page(scope: &Scope<'_>, statement: &Statement, of_servers: bool) -> Option<TomlValue> {
    let mut words: Vec<&str> =
        scope.ledger.words(statement).rest().iter().map(|word| word.text.as_str()).collect();
    let target = words.pop()?;
    let change = words.iter().find_map(|word| word.strip_prefix('=')).map(ToOwned::to_owned);
    words.retain(|word| !word.starts_with('='));
    let mut codes: Vec<i64> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if codes.is_empty() || codes.len() != words.len() {
        scope.ledger.unsupported(statement, "`error_page` takes statuses and a target");
        return None;
    }
    let named = codes.len();
    if codes == [497] {
        let difference = "a request without TLS to this port is answered 400, with a page that says to use `https://`, and goes no further";
        scope.ledger.approximated(statement, difference);
        return None;
    }
    codes.retain(|code| !(494..=499).contains(code) && (400..=599).contains(code));
    if codes.is_empty() {
        let advice = "these are no statuses of failures in Weir: a request without TLS to a port with TLS, or without a valid certificate, ends before it is one";
        scope.ledger.unsupported(statement, advice);
        return None;
    }
    let left_out = named > codes.len();
    let mut page = vec![("status".to_owned(), statuses(codes))];
    let to = match variables::template(scope, target.trim_start_matches('@')) {
        Ok(to) => to,
        Err(unknown) => {
            scope.ledger.unsupported(statement, &unknown.advice);
            return None;
        }
    };
    if target.starts_with('/') || target.starts_with('@') {
        let to = to.replace("{target}", "{path}{query}");
        page.push(("then".to_owned(), to.into()));
        match change.as_deref() {
            Some("") => page.push(("status_of_target".to_owned(), true.into())),
            Some(code) => match code.parse() {
                Ok(code @ (200..=203 | 206..=299 | 400..=599)) => {
                    page.push(("new_status".to_owned(), TomlValue::Integer(code)));
                }
                _ => {
                    let difference = "a page has neither the status of a redirect nor one without a body: the status is that of the failure";
                    scope.ledger.approximated(statement, difference);
                }
            },
            None => {}
        }
    } else if to.contains("://") || to.starts_with('{') {
        page.push(("redirect".to_owned(), to.into()));
        let status =
            change.and_then(|code| code.parse::<i64>().ok()).filter(|code| (301..=308).contains(code));
        page.extend(status.map(|code| ("new_status".to_owned(), code.into())));
    } else {
        scope.ledger.unsupported(
            statement,
            "write the target with a `/` at its beginning, or the name of a location",
        );
        return None;
    }
    if of_servers {
        page.push(("of_servers".to_owned(), true.into()));
    }
    if left_out {
        scope.ledger.approximated(statement, "statuses below 400 and from 494 to 499 have no page");
    } else {
        scope.ledger.exact(statement);
    }
    Some(TomlValue::Inline(page))
}

/// One status, or a list in which three and more in a row are a range.
fn statuses(mut codes: Vec<i64>) -> TomlValue {
    codes.sort_unstable();
    codes.dedup();
    let mut parts: Vec<TomlValue> = Vec::new();
    let mut at = 0;
    while at < codes.len() {
        let mut end = at;
        while codes.get(end + 1) == Some(&(codes[end] + 1)) {
            end += 1;
        }
        if end - at >= 2 {
            parts.push(format!("{}-{}", codes[at], codes[end]).into());
        } else {
            parts.extend(codes[at..=end].iter().map(|code| TomlValue::from(*code)));
        }
        at = end + 1;
    }
    if parts.len() == 1 { parts.remove(0) } else { TomlValue::Array(parts) }
}
