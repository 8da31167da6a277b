//! Directives that answer by themselves: `respond`, `redir`, `error`, `abort`.

use super::placeholders::{PlaceholderText, TextKind, translated};
use super::scope::{RouteBuilder, RouteScope};
use super::words::{arguments, behind_matcher};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// The list that closes connections.
pub(super) const ABORTED: &str = "aborted";

/// Adds the route of an answer; whether there is one.
pub(super) fn answer<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    scope: &RouteScope<'s>,
) -> bool {
    let words = behind_matcher(builder.ledger, statement);
    if statement.name() == "abort" {
        builder.ledger.exact(statement);
        builder.push(scope, statement, |route: &mut DraftTable| {
            // The list closes the connection before this is sent.
            route.set_plain("lists", vec![ABORTED]);
            route.set_plain("respond", TomlValue::inline([("status", 403_i64.into())]));
        });
        return true;
    }
    let action = match statement.name() {
        "redir" => redirect(&words),
        "respond" => respond(&words, statement, builder),
        _ => error(&words),
    };
    let (key, value) = match action {
        Ok(action) => action,
        Err(why) => {
            builder.ledger.unsupported(statement, &why);
            ("respond", TomlValue::inline([("status", 500_i64.into())]))
        }
    };
    builder.ledger.exact(statement);
    builder.push(scope, statement, |route: &mut DraftTable| route.set_plain(key, value));
    true
}

fn redirect(words: &[&str]) -> Result<(&'static str, TomlValue), String> {
    let (to, status) = match words {
        [to] => (to, 302),
        [to, "permanent"] => (to, 301),
        [to, "temporary"] => (to, 302),
        [to, code] => match code.parse::<i64>() {
            Ok(code @ (301 | 302 | 303 | 307 | 308)) => (to, code),
            _ => return Err("a redirect has a status of 301, 302, 303, 307 or 308".to_owned()),
        },
        _ => return Err("`redir` needs a target".to_owned()),
    };
    let to = template(to, TextKind::Template)?;
    let mut entries = vec![("to".to_owned(), TomlValue::from(to))];
    if status != 308 {
        entries.push(("status".to_owned(), status.into()));
    }
    Ok(("redirect", TomlValue::Inline(entries)))
}

fn template(text: &str, kind: TextKind) -> Result<String, String> {
    match translated(text, kind) {
        PlaceholderText::Text(text) => Ok(text),
        PlaceholderText::Unknown(placeholder) => Err(format!("Weir has no placeholder for `{placeholder}`")),
    }
}

fn respond(
    words: &[&str],
    statement: &Statement,
    builder: &RouteBuilder<'_, '_>,
) -> Result<(&'static str, TomlValue), String> {
    let is_status = |word: &str| word.len() == 3 && word.chars().all(|c| c.is_ascii_digit());
    let (mut body, status) = match words {
        [] => (None, 200),
        [status] if is_status(status) => (None, status.parse().unwrap_or(200)),
        [body] => (Some(*body), 200),
        [body, status] if is_status(status) => (Some(*body), status.parse().unwrap_or(200)),
        _ => return Err("`respond` has a body and a status".to_owned()),
    };
    for child in statement.children() {
        let words = arguments(builder.ledger, child);
        match (child.name(), words.as_slice()) {
            ("body", [text]) => body = Some(*text),
            ("close", []) => {
                builder.ledger.approximated(child, "the connection stays open for further requests");
                continue;
            }
            _ => {
                builder.ledger.unsupported(child, "see `respond` of the route");
                continue;
            }
        }
        builder.ledger.exact(child);
    }
    if !(200_i64..=599).contains(&status) {
        return Err("a response has a status of 200 to 599".to_owned());
    }
    let mut entries = Vec::new();
    if status != 200 {
        entries.push(("status".to_owned(), TomlValue::from(status)));
    }
    if let Some(body) = body.filter(|body| !body.is_empty()) {
        entries.push(("body".to_owned(), template(body, TextKind::Body)?.into()));
        if let Some(kind) = media_type(body) {
            entries.push(("content_type".to_owned(), kind.into()));
        }
    } else if entries.is_empty() {
        entries.push(("status".to_owned(), 200_i64.into()));
    }
    Ok(("respond", TomlValue::Inline(entries)))
}

/// What Caddy finds a body to be; without one, it is text.
fn media_type(body: &str) -> Option<&'static str> {
    let start = body.trim_start().to_ascii_lowercase();
    if serde_json::from_str::<serde_json::Value>(body)
        .is_ok_and(|value| value.is_object() || value.is_array())
    {
        return Some("application/json");
    }
    let html = [
        "<!doctype html",
        "<html",
        "<head",
        "<script",
        "<h1",
        "<div",
        "<body",
        "<p",
        "<title",
        "<a",
        "<b",
        "<table",
    ];
    if html.iter().any(|tag| start.starts_with(tag)) {
        return Some("text/html; charset=utf-8");
    }
    start.starts_with("<?xml").then_some("text/xml; charset=utf-8")
}

fn error(words: &[&str]) -> Result<(&'static str, TomlValue), String> {
    let status = match words {
        [] => 500,
        [status] | [_, status] => match status.parse::<i64>() {
            Ok(status @ 200..=599) => status,
            _ if words.len() == 1 => 500,
            _ => return Err("`error` has a message and a status".to_owned()),
        },
        _ => return Err("`error` has a message and a status".to_owned()),
    };
    Ok(("respond", TomlValue::inline([("status", status.into())])))
}
