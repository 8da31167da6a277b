//! `handle_errors`: what clients get in place of Weir's own pages.

use super::options::refuse_whole;
use super::proxy::UpstreamDraft;
use super::scope::RouteBuilder;
use super::words::{arguments, behind_matcher};
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// What a block answers with.
#[derive(Default)]
struct ErrorAnswer<'s> {
    /// The path that the request is rewritten to.
    path: Option<String>,
    root: Option<&'s str>,
    upstream: Option<&'s Statement>,
    serves_files: bool,
    /// A text of its own.
    text: Option<&'s Statement>,
}

/// Reads the block; the table for `error_pages`, if there is one.
pub(super) fn read<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    site_root: Option<&'s str>,
) -> Option<TomlValue> {
    let ledger = builder.ledger;
    let statuses = statuses(&arguments(ledger, statement));
    let Some(statuses) = statuses else {
        refuse_whole(statement, "the statuses are not understood: see `error_pages`", ledger);
        return None;
    };
    let mut answer = ErrorAnswer { root: site_root, ..ErrorAnswer::default() };
    for child in statement.children() {
        if let Err(why) = part(child, &mut answer, ledger) {
            refuse_whole(statement, &why, ledger);
            return None;
        }
    }
    let mut entries = vec![("status".to_owned(), statuses)];
    if let Some(text) = answer.text {
        ledger.approximated(
            text,
            "Weir's own page has the status, its phrase and the reason: see `error_pages`",
        );
        ledger.exact(statement);
        return None;
    }
    let path = answer.path.unwrap_or_default();
    match (answer.upstream, answer.serves_files, answer.root) {
        (Some(proxy), false, _) => {
            let upstream = proxied(builder, proxy)?;
            entries.push(("upstream".to_owned(), upstream.into()));
            if !path.is_empty() {
                entries.push(("path".to_owned(), path.into()));
            }
            entries.push(("forward_host".to_owned(), "server".into()));
        }
        (None, true, Some(root)) if !path.is_empty() && !path.contains('{') => {
            entries.push(("html".to_owned(), format!("{}{path}", root.trim_end_matches('/')).into()));
        }
        (None, true, Some(_)) if !path.is_empty() => {
            entries.push(("then".to_owned(), path.into()));
            ledger.approximated(statement, "the file is sent by the route that its path has");
        }
        _ => {
            refuse_whole(statement, "a page is a file, or comes from a server: see `error_pages`", ledger);
            return None;
        }
    }
    ledger.exact(statement);
    Some(TomlValue::Inline(entries))
}

fn part<'s>(child: &'s Statement, answer: &mut ErrorAnswer<'s>, ledger: &Ledger) -> Result<(), String> {
    let words = behind_matcher(ledger, child);
    match (child.name(), words.as_slice()) {
        ("rewrite", [to]) if to.starts_with('/') => {
            let path =
                to.replace("{err.status_code}", "{status}").replace("{http.error.status_code}", "{status}");
            if path.replace("{status}", "").contains(['{', '$', '?']) {
                return Err("the path of a page has the status at most".to_owned());
            }
            answer.path = Some(path);
        }
        ("root", [root]) if !root.contains('{') => answer.root = Some(root),
        ("file_server", []) if child.children().is_empty() => answer.serves_files = true,
        ("reverse_proxy", [_]) => answer.upstream = Some(child),
        ("respond", [_] | [_, "{err.status_code}" | "{http.error.status_code}"]) => answer.text = Some(child),
        _ => return Err(format!("`{}` in `handle_errors`: see `error_pages` of the route", child.name())),
    }
    ledger.exact(child);
    Ok(())
}

fn proxied<'s>(builder: &mut RouteBuilder<'s, '_>, statement: &'s Statement) -> Option<String> {
    let ledger = builder.ledger;
    let mut upstream = UpstreamDraft::default();
    for word in behind_matcher(ledger, statement) {
        upstream.add_server(word, statement, ledger);
    }
    for child in statement.children() {
        match (child.name(), arguments(ledger, child).as_slice()) {
            ("header_up", ["Host", "{upstream_hostport}" | "{http.reverse_proxy.upstream.hostport}"]) => {
                ledger.exact(child);
            }
            ("replace_status", ["{err.status_code}" | "{http.error.status_code}"]) => {
                ledger.by_default(child, "the status stays that of the failure");
            }
            _ => upstream.option(child, ledger),
        }
    }
    builder.upstream(upstream, statement)
}

/// The statuses behind `handle_errors`; all from 400 on without any.
fn statuses(words: &[&str]) -> Option<TomlValue> {
    if words.is_empty() {
        return Some("400-599".into());
    }
    let one = |word: &&str| -> Option<TomlValue> {
        match word.strip_suffix("xx") {
            Some(class @ ("4" | "5")) => Some(format!("{class}00-{class}99").into()),
            Some(_) => None,
            None => {
                word.parse::<i64>().ok().filter(|status| (400..600).contains(status)).map(TomlValue::from)
            }
        }
    };
    words.iter().map(one).collect::<Option<Vec<_>>>().map(TomlValue::Array)
}
