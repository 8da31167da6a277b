//! `return`: a status, a text, or a redirect.

use crate::document::DraftTable;
use crate::nginx::scope::Scope;
use crate::nginx::variables;
use crate::source::Statement;

/// Sets what a `return` answers.
pub(in crate::nginx) fn answer(scope: &Scope<'_>, statement: &Statement, route: &mut DraftTable) {
    let mut words = scope.ledger.words(statement);
    let (first, second) = (words.text().unwrap_or_default(), words.text());
    let code = first.parse::<i64>().ok().filter(|code| (0..=999).contains(code));
    match (code, second) {
        (None, _) => redirect_to(scope, statement, (first, 302), route),
        (Some(code @ (301 | 302 | 303 | 307 | 308)), Some(url)) => {
            redirect_to(scope, statement, (url, code), route);
        }
        (Some(444), _) => {
            // A list closes the connection before this is sent.
            scope.ledger.exact(statement);
            route.table("respond").set("status", 403, statement);
        }
        (Some(code @ 200..=599), text) => respond(scope, statement, (code, text), route),
        (Some(code), _) => {
            scope
                .ledger
                .unsupported(statement, &format!("answers have a status from 200 to 599, not {code}"));
            unavailable(statement, route);
        }
    }
}

/// `empty_gif`: a picture of one transparent pixel, in bytes that a text can have.
pub(in crate::nginx) fn empty_picture(scope: &Scope<'_>, statement: &Statement, route: &mut DraftTable) {
    let picture = "GIF89a\u{1}\0\u{1}\0\0\0\0,\0\0\0\0\u{1}\0\u{1}\0\0\u{2}\0;";
    let respond = route.table("respond");
    respond.set("body", picture, statement);
    respond.set("content_type", "image/gif", statement);
    let difference =
        "the transparent pixel has other bytes, no `Last-Modified`, and is sent for every method";
    scope.ledger.approximated(statement, difference);
}

/// Whether a `return` closes the connection without an answer.
pub(in crate::nginx) fn closes(statement: &Statement) -> bool {
    statement.words.get(1).is_some_and(|word| word.text == "444")
}

fn redirect_to(scope: &Scope<'_>, statement: &Statement, (url, status): (&str, i64), route: &mut DraftTable) {
    match variables::expand(scope, url, variables::TemplateUse::Exchange) {
        Ok(template) => {
            scope.ledger.exact(statement);
            template
                .differences
                .iter()
                .for_each(|difference| scope.ledger.approximated(statement, difference));
            redirect(scope, route, statement, (&template.text, status));
        }
        Err(unknown) => {
            scope.ledger.unsupported(statement, &unknown.advice);
            unavailable(statement, route);
        }
    }
}

/// Sets a redirect to a URL or a path with placeholders.
pub(in crate::nginx) fn redirect(
    scope: &Scope<'_>,
    route: &mut DraftTable,
    statement: &Statement,
    (to, status): (&str, i64),
) {
    // Behind a host, the target as it was received could lead to another one.
    let to = match to.split_once("{target}") {
        Some((before, after)) if !before.ends_with('/') => format!("{before}{{path}}{{query}}{after}"),
        _ => to.to_owned(),
    };
    // nginx writes the host in front of a path; one that begins with a value needs that here, too.
    let begins_with_value = ["/{", "{path}", "{match."].iter().any(|begin| to.starts_with(begin));
    let to = if begins_with_value { format!("{{scheme}}://{{authority}}{to}") } else { to };
    let fault = match to.split_once("://") {
        Some((_, rest)) if !is_safe_host(rest) => Some(
            "a redirect names a host that is written out, or that of the request: write a route for each host",
        ),
        None if !to.starts_with('/') && !to.starts_with("{map.") => {
            Some("a redirect leads to a URL or to a path that begins with `/`")
        }
        _ if !is_followed_by_path(&to) => Some(
            "only the path and the query may follow a map at the beginning of a redirect: write the scheme and the host",
        ),
        _ => None,
    };
    if let Some(advice) = fault {
        scope.ledger.unsupported(statement, advice);
        return unavailable(statement, route);
    }
    route.table("redirect").set("to", to, statement);
    route.table("redirect").set("status", status, statement);
}

/// Whether nothing but a path and a query follows a map at the beginning.
fn is_followed_by_path(to: &str) -> bool {
    let Some((_, rest)) = to.strip_prefix("{map.").and_then(|rest| rest.split_once('}')) else { return true };
    rest.replace("{path}", "").replace("{query}", "").is_empty()
}

/// Whether the host of a URL is written out, or that of the request.
fn is_safe_host(rest: &str) -> bool {
    let ends = ["/", "?", "{path}", "{target}", "{query}"];
    let end = ends.iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    let host = &rest[..end];
    let of_request = ["{host}", "{authority}"].iter().find_map(|name| host.strip_prefix(name));
    let behind = of_request.unwrap_or(host);
    let begins = of_request.is_some() || host.starts_with(|c: char| c.is_ascii_alphanumeric());
    let inner = behind
        .replace("{host}", "")
        .replace("{authority}", "")
        .replace("{local_port}", "")
        .replace("{port}", "");
    begins && !inner.contains(['{', '}'])
}

fn respond(
    scope: &Scope<'_>,
    statement: &Statement,
    (status, text): (i64, Option<&str>),
    route: &mut DraftTable,
) {
    let respond = route.table("respond");
    respond.set("status", status, statement);
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        scope.ledger.exact(statement);
        return;
    };
    if matches!(status, 204 | 205 | 304) {
        scope.ledger.approximated(statement, "an answer with this status has no body");
        return;
    }
    match variables::expand(scope, text, variables::TemplateUse::Exchange) {
        Ok(template) => {
            template
                .differences
                .iter()
                .for_each(|difference| scope.ledger.approximated(statement, difference));
            // Braces around anything but a placeholder are text in a body.
            let body = template.text.replace("{{", "{").replace("}}", "}");
            respond.set("body", body, statement);
            let default_type = scope.one("default_type").and_then(|one| scope.ledger.words(one).text());
            respond.set("content_type", default_type.unwrap_or("text/plain"), statement);
            scope.ledger.exact(statement);
        }
        Err(unknown) => {
            scope.ledger.unsupported(statement, &unknown.advice);
            unavailable(statement, route);
        }
    }
}

/// Keys of answers, and of servers, which have no meaning without one.
const OF_ANSWERS: [&str; 12] = [
    "upstream",
    "split",
    "files",
    "redirect",
    "respond",
    "fastcgi",
    "forward_host",
    "forward_headers",
    "rewrite_location",
    "rewrite_cookies",
    "request_headers",
    "x_accel",
];

/// What a location answers whose way to answer is not supported: nothing else must have its requests.
pub(in crate::nginx) fn unavailable(statement: &Statement, route: &mut DraftTable) {
    for key in OF_ANSWERS {
        route.remove(key);
    }
    route.table("respond").set("status", 501, statement);
}

/// `deny all` alone: every request is answered 403.
pub(in crate::nginx) fn denied<'s>(scope: &Scope<'s>) -> Option<&'s Statement> {
    let deny = scope.innermost(&["allow", "deny"])?;
    let level = scope.level_of(deny);
    let rules = level.iter().filter(|one| matches!(one.name(), "allow" | "deny")).count();
    let any = scope.one("satisfy").is_some_and(|one| scope.words(one).text() == Some("any"));
    let mut words = scope.words(deny);
    let is_all = deny.name() == "deny" && words.text() == Some("all") && rules == 1 && !any;
    is_all.then_some(deny)
}
