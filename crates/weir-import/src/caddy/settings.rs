//! Directives that answer nothing, and change what those behind them do: folders, encodings, sizes, rewrites, passwords.

use super::auth;
use super::matchers::{MatcherTable, escaped};
use super::placeholders::{PlaceholderText, TextKind, environment, translated};
use super::scope::CaddySettings;
use super::words::{arguments, behind_matcher};
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// Reads a directive into the settings; `None`: it is not supported, and the ledger says why.
pub(super) type SettingReader = for<'s> fn(&Ledger, &'s Statement, &mut CaddySettings<'s>) -> Option<()>;

pub(super) enum SettingKind {
    Plain(SettingReader),
    /// Names an upstream.
    ForwardAuth,
}

/// How a directive of this name is read, if it is one of these.
pub(super) fn of(name: &str) -> Option<SettingKind> {
    let read: SettingReader = match name {
        "root" => root,
        "encode" => encode,
        "request_body" => request_body,
        "rewrite" => rewrite,
        "uri" => uri,
        "try_files" => try_files,
        "basic_auth" | "basicauth" => auth::basic_auth,
        "log_skip" | "skip_log" => log_skip,
        "forward_auth" => return Some(SettingKind::ForwardAuth),
        _ => return None,
    };
    Some(SettingKind::Plain(read))
}

fn refuse(ledger: &Ledger, statement: &Statement, why: &str) -> Option<()> {
    ledger.unsupported(statement, why);
    None
}

fn root<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    // `root /srv` has a folder where others have a matcher.
    let folder = match statement.words.as_slice() {
        [_, folder] | [_, _, folder] => folder.text.as_str(),
        _ => return refuse(ledger, statement, "`root` needs a folder"),
    };
    ledger.words(statement).rest();
    let Some(folder) = environment(folder) else {
        return refuse(ledger, statement, "a folder of Weir has no placeholders: write a route for each");
    };
    settings.root = Some((folder, statement));
    Some(())
}

fn encode<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    let mut algorithms = Vec::new();
    let mut min_length = "512B".to_owned();
    for word in behind_matcher(ledger, statement) {
        match word {
            "gzip" | "zstd" | "br" => algorithms.push(word),
            _ => return refuse(ledger, statement, "Weir compresses with gzip, br and zstd"),
        }
    }
    let mut keys: Vec<(&str, TomlValue)> = Vec::new();
    for child in statement.children() {
        let words = arguments(ledger, child);
        match (child.name(), words.as_slice()) {
            ("gzip" | "zstd" | "br", []) => algorithms.push(child.name()),
            ("gzip", [level]) if level.parse::<i64>().is_ok_and(|level| (1..=9).contains(&level)) => {
                algorithms.push("gzip");
                keys.push(("gzip_level", level.parse::<i64>().unwrap_or(4).into()));
            }
            ("minimum_length", [length]) if length.parse::<u64>().is_ok() => {
                min_length = format!("{length}B");
            }
            _ => {
                ledger.unsupported(child, "see `compression` of the route");
                continue;
            }
        }
        ledger.exact(child);
    }
    if algorithms.is_empty() {
        algorithms = vec!["zstd", "gzip"];
    }
    let mut table: Vec<(String, TomlValue)> =
        vec![("algorithms".to_owned(), algorithms.into()), ("min_length".to_owned(), min_length.into())];
    table.extend(keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
    settings.keys.push(("compression", TomlValue::Inline(table), statement));
    ledger.exact(statement);
    Some(())
}

fn request_body<'s>(
    ledger: &Ledger,
    statement: &'s Statement,
    settings: &mut CaddySettings<'s>,
) -> Option<()> {
    behind_matcher(ledger, statement);
    for child in statement.children() {
        match (child.name(), arguments(ledger, child).as_slice()) {
            ("max_size", [size]) => match size_of(size) {
                Some(size) => {
                    let limit = TomlValue::inline([("body_size", size.into())]);
                    settings.keys.push(("limits", limit, statement));
                    ledger.exact(child);
                }
                None => ledger.unsupported(child, "the size cannot be read"),
            },
            _ => ledger.unsupported(child, "Weir has a limit on the size of bodies only here"),
        }
    }
    ledger.exact(statement);
    Some(())
}

/// `10MB`, `1MiB`, `512` as a size of Weir, whose units are powers of 1024.
fn size_of(text: &str) -> Option<String> {
    let number: String = text.chars().take_while(char::is_ascii_digit).collect();
    let amount: u64 = number.parse().ok()?;
    let factor: u64 = match text[number.len()..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1000,
        "m" | "mb" => 1_000_000,
        "g" | "gb" => 1_000_000_000,
        "ki" | "kib" => 1 << 10,
        "mi" | "mib" => 1 << 20,
        "gi" | "gib" => 1 << 30,
        _ => return None,
    };
    let bytes = amount.checked_mul(factor)?;
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let unit = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    Some(unit.map_or(format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit)))
}

/// A rewrite of the whole path; what is behind it compares paths with the new one.
fn rewrite<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    let words = behind_matcher(ledger, statement);
    let [to] = words.as_slice() else { return refuse(ledger, statement, "`rewrite` needs one target") };
    let text = match translated(to, TextKind::Template) {
        PlaceholderText::Text(text) if text.starts_with(['/', '{']) && !text.contains('$') => text,
        PlaceholderText::Text(_) => return refuse(ledger, statement, "see `rewrite` of the route"),
        PlaceholderText::Unknown(placeholder) => {
            return refuse(ledger, statement, &format!("Weir has no placeholder for `{placeholder}`"));
        }
    };
    // A query in the target is all of the new one.
    let drops_query = text.contains('?') && !text.contains("{query}") && !text.contains("{args}");
    let replacement = format!("{text}{}", if drops_query { "?" } else { "" });
    let rule = TomlValue::inline([
        ("pattern", "^".into()),
        ("replacement", replacement.into()),
        ("flag", "break".into()),
    ]);
    let rule = match (settings.is_rewritten, behind_stripped(settings, &text, drops_query)) {
        (false, _) => rule,
        (true, Some(both)) => both,
        (true, None) => {
            return refuse(ledger, statement, "a second rewrite of one request: write the route by hand");
        }
    };
    settings.stripped = None;
    settings.keys.push(("rewrite", TomlValue::Array(vec![rule]), statement));
    settings.is_rewritten = true;
    ledger.exact(statement);
    Some(())
}

/// A rewrite of what `handle_path` has left of the path, as one rule with that.
fn behind_stripped(settings: &CaddySettings<'_>, text: &str, drops_query: bool) -> Option<TomlValue> {
    let Some(TomlValue::Array(rules)) = &settings.stripped else { return None };
    let [TomlValue::Inline(entries)] = rules.as_slice() else { return None };
    let of = |name: &str| match entries.iter().find(|(key, _)| key == name) {
        Some((_, TomlValue::Text(text))) => Some(text.as_str()),
        _ => None,
    };
    let (pattern, rest) = (of("pattern")?, of("replacement")?);
    let is_other = settings.keys.iter().any(|(key, ..)| matches!(*key, "rewrite" | "replace_regex"));
    let others = text.replace("{path}", "").replace("{query}", "");
    if is_other || others.contains(['{', '}']) {
        return None;
    }
    let replacement = format!("{}{}", text.replace("{path}", rest), if drops_query { "?" } else { "" });
    Some(TomlValue::inline([
        ("pattern", pattern.into()),
        ("replacement", replacement.into()),
        ("flag", "break".into()),
    ]))
}

fn uri<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    let words = behind_matcher(ledger, statement);
    let (pattern, replacement) = match words.as_slice() {
        ["strip_prefix", prefix] => (format!("(?i)^/?{}/?", escaped(prefix.trim_matches('/'))), "/"),
        ["strip_suffix", suffix] => (format!("(?i){}$", escaped(suffix)), ""),
        _ => return refuse(ledger, statement, "see `rewrite` and `replace_regex` of the route"),
    };
    if settings.is_rewritten || words.iter().any(|word| word.contains(['{', '$'])) {
        return refuse(ledger, statement, "see `rewrite` of the route");
    }
    // `strip_prefix /a` makes of `/ab` the path `b`, which Weir does not send.
    let rule = TomlValue::inline([("pattern", pattern.into()), ("replacement", replacement.into())]);
    settings.keys.push(("replace_regex", rule, statement));
    settings.is_rewritten = true;
    let difference = "a path that would not begin with a slash any more gets one: `/ab` without `/a` is `/b`";
    ledger.approximated(statement, difference);
    Some(())
}

/// `handle_path /api/*` takes `/api` off.
pub(super) fn strip_handled_path(
    statement: &Statement,
    settings: &mut CaddySettings<'_>,
    ledger: &Ledger,
) -> bool {
    let word = MatcherTable::word_of(statement).and_then(|word| word.strip_prefix('/'));
    // Without an asterisk it is one path, of which nothing is left.
    let (prefix, end) = match word.map(|word| (word.strip_suffix("/*"), word)) {
        Some((Some(prefix), _)) => (Some(prefix), "/(.*)$"),
        Some((None, word)) if word.ends_with('*') => (word.strip_suffix('*'), "/?(.*)$"),
        Some((None, word)) => (Some(word), "$"),
        None => (None, "$"),
    };
    let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty() && !prefix.contains(['*', '{', '$', '%']))
    else {
        return MatcherTable::word_of(statement) == Some("/*");
    };
    if settings.is_rewritten {
        return false;
    }
    if end.starts_with("/?") {
        ledger.approximated(statement, "a path that would not begin with a slash any more gets one");
    }
    let pattern = format!("(?i)^/{}{end}", escaped(prefix));
    settings.is_rewritten = true;
    let rule = TomlValue::inline([
        ("pattern", pattern.into()),
        ("replacement", if end == "$" { "/" } else { "/$1" }.into()),
        ("flag", "break".into()),
    ]);
    settings.stripped = Some(TomlValue::Array(vec![rule]));
    true
}

fn try_files<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    let mut files = Vec::new();
    for word in behind_matcher(ledger, statement) {
        match translated(word, TextKind::Template) {
            PlaceholderText::Text(text) => files.push(text),
            PlaceholderText::Unknown(placeholder) => {
                return refuse(ledger, statement, &format!("Weir has no placeholder for `{placeholder}`"));
            }
        }
    }
    if let Some(child) = statement.children().first() {
        ledger.unsupported(child, "Weir tries files in their order, and the first one counts");
    }
    settings.try_files = Some((files, statement));
    Some(())
}

fn log_skip<'s>(ledger: &Ledger, statement: &'s Statement, settings: &mut CaddySettings<'s>) -> Option<()> {
    behind_matcher(ledger, statement);
    settings.keys.push(("access_log", false.into(), statement));
    ledger.approximated(statement, "failures have a line all the same");
    Some(())
}
