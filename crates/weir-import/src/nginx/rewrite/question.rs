//! What is in the parentheses of `if`.

use super::{NginxTest, NginxWay, quoted};
use crate::document::DraftTable;
use crate::nginx::regexes::{ENCODED, NginxPattern, PatternSubject, encoded};
use crate::nginx::variables;
use crate::source::Statement;

/// A condition, and what its groups stand for where it holds.
pub(super) struct IfQuestion {
    pub(super) test: NginxTest,
    pub(super) captures: Vec<(String, String)>,
}

/// A value as conditions name it.
enum PlaceholderName {
    /// A text without placeholders.
    Constant(String),
    /// One value; whether it is a text (and no address or number).
    Value(String, bool),
    /// Several parts.
    Composite,
}

/// # Errors
/// What to do instead.
pub(super) fn read(way: &NginxWay<'_>, statement: &Statement) -> Result<IfQuestion, String> {
    let words = inner_words(way, statement);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["-f" | "!-f" | "-d" | "!-d" | "-e" | "!-e" | "-x" | "!-x", _] => Err(
            "a condition cannot ask for files: use `files` with `try_files` and `fallback`, or switch by a reload".to_owned(),
        ),
        [value] => {
            let empty = compared(way, value, "", true)?;
            let zero = compared(way, value, "0", true)?;
            let test = match (&empty, &zero) {
                (NginxTest::Text(text), _) if truth(text).is_some() => {
                    let name = truth(text).unwrap_or_default();
                    NginxTest::all([NginxTest::text(format!("{name} != \"\"")), zero.not()])
                }
                _ => NginxTest::all([empty.not(), zero.not()]),
            };
            Ok(IfQuestion { test, captures: Vec::new() })
        }
        [value, sign @ ("=" | "!="), expected] => {
            let test = compared(way, value, expected, false)?.negated_unless(sign == "=");
            Ok(IfQuestion { test, captures: Vec::new() })
        }
        [value, sign @ ("~" | "~*" | "!~" | "!~*"), pattern] => {
            if matches!(value, "$request_uri" | "$args" | "$query_string") {
                note_encoded(way, statement, pattern);
            }
            matched(way, value, sign, pattern)
        }
        _ => Err("this condition is none that nginx knows".to_owned()),
    }
}

/// Says that an expression for a target has what Weir's targets have percent-encoded alone.
fn note_encoded(way: &NginxWay<'_>, statement: &Statement, pattern: &str) {
    let of = |subject| NginxPattern::new(pattern, false, subject);
    if of(PatternSubject::Target) != of(PatternSubject::Text) {
        way.scope.ledger.approximated(statement, ENCODED);
    }
}

/// The name in `name == ""`.
fn truth(text: &str) -> Option<&str> {
    text.strip_suffix(" == \"\"")
}

/// The words between the parentheses.
fn inner_words(way: &NginxWay<'_>, statement: &Statement) -> Vec<String> {
    let mut words = way.scope.ledger.words(statement);
    let mut list: Vec<(String, bool)> =
        words.rest().into_iter().map(|word| (word.text.clone(), word.quoted)).collect();
    if let Some((first, false)) = list.first_mut() {
        *first = first.strip_prefix('(').unwrap_or(first).to_owned();
        if first.is_empty() {
            list.remove(0);
        }
    }
    if let Some((last, false)) = list.last_mut() {
        *last = last.strip_suffix(')').unwrap_or(last).to_owned();
        if last.is_empty() && list.len() != 3 {
            list.pop();
        }
    }
    list.into_iter().map(|(text, _)| text).collect()
}

/// Whether a variable has a value; `always` asks by value even where the expected text is constant.
fn compared(way: &NginxWay<'_>, value: &str, expected: &str, is_truth: bool) -> Result<NginxTest, String> {
    if !value.starts_with('$') {
        return Err("a condition begins with a variable".to_owned());
    }
    let advice = |unknown: variables::UnknownVariable| unknown.advice;
    let mut tests = Vec::new();
    let mut before: Vec<NginxTest> = Vec::new();
    for (test, text) in way.cases_of(value).map_err(advice)? {
        let expected = variables::template(&way.scope, expected).map_err(advice)?;
        let equal = equals(way, value, &text, &expected, is_truth)?;
        let not_before = before.iter().cloned().map(NginxTest::not);
        tests.push(NginxTest::all(not_before.chain([test.clone(), equal.clone()])));
        // A case with the same answer need not be told apart from this one.
        if !matches!(equal, NginxTest::Known(true)) {
            before.push(test);
        }
    }
    Ok(NginxTest::any(tests))
}

fn equals(
    way: &NginxWay<'_>,
    variable: &str,
    text: &str,
    expected: &str,
    is_truth: bool,
) -> Result<NginxTest, String> {
    let constant = match condition_name(expected) {
        PlaceholderName::Constant(constant) => Some(constant),
        _ => None,
    };
    let (name, is_text) = match condition_name(text) {
        PlaceholderName::Constant(known) => {
            return match constant {
                Some(constant) => Ok(NginxTest::Known(known == constant)),
                None => Err("a condition compares a value of the request with a text".to_owned()),
            };
        }
        PlaceholderName::Value(name, is_text) => (name, is_text),
        PlaceholderName::Composite => (made_value(way, variable, text), true),
    };
    check_known(&name)?;
    let Some(constant) = constant else {
        return match condition_name(expected) {
            PlaceholderName::Value(other, true) if is_text => {
                Ok(NginxTest::text(format!("{name} == {other}")))
            }
            _ => {
                let other = made_value(way, &format!("{variable}_expected"), expected);
                let name = if is_text { name } else { made_value(way, variable, text) };
                Ok(NginxTest::text(format!("{name} == {other}")))
            }
        };
    };
    if !is_text {
        // Neither addresses nor numbers are ever empty or `0`.
        if is_truth || constant.is_empty() {
            return Ok(NginxTest::Known(false));
        }
        if constant.parse::<std::net::IpAddr>().is_ok() && name.ends_with("_address") {
            return Ok(NginxTest::text(format!("{name} in [\"{constant}\"]")));
        }
        if constant.parse::<u32>().is_ok() {
            return Ok(NginxTest::text(format!("{name} == {constant}")));
        }
        return Ok(NginxTest::Known(false));
    }
    if let ("scheme", Some(tls)) = (name.as_str(), way.scope.has_tls) {
        return Ok(NginxTest::Known(constant == if tls { "https" } else { "http" }));
    }
    let constant = if name == "path" { encoded(&constant) } else { constant };
    Ok(NginxTest::text(format!("{name} == {}", quoted(&constant))))
}

fn matched(way: &NginxWay<'_>, value: &str, sign: &str, pattern: &str) -> Result<IfQuestion, String> {
    let wanted = !sign.starts_with('!');
    let ignores_case = sign.ends_with('*');
    let cases = way.cases_of(value).map_err(|unknown| unknown.advice)?;
    let [(_, text)] = cases.as_slice() else {
        return matched_by_case(way, value, &cases, (wanted, ignores_case, pattern));
    };
    let name = match condition_name(text) {
        PlaceholderName::Constant(_) => {
            return matched_by_case(way, value, &cases, (wanted, ignores_case, pattern));
        }
        PlaceholderName::Value(name, true) => name,
        PlaceholderName::Value(..) | PlaceholderName::Composite => made_value(way, value, text),
    };
    check_known(&name)?;
    let pattern = NginxPattern::new(pattern, ignores_case, PatternSubject::of(&name))?;
    let test = NginxTest::matches(&name, &pattern).negated_unless(wanted);
    let mut captures: Vec<(String, String)> =
        (1..=9).map(|group| (group.to_string(), String::new())).collect();
    if wanted && pattern.groups() > 0 {
        let names = (1..=pattern.groups().min(9)).map(|group| group.to_string()).chain(pattern.group_names());
        for group in names {
            let mut table = DraftTable::default();
            table.set_plain("source", text.as_str());
            let mut entries = DraftTable::default();
            entries.set_plain(&pattern.text, format!("{{match.{group}}}"));
            *table.table("regex") = entries;
            let map = way.scope.make_map(&format!("{}_{group}", value.trim_start_matches('$')), table);
            captures.retain(|(known, _)| *known != group);
            captures.push((group, format!("{{map.{map}}}")));
        }
    } else if !wanted || !statement_uses_groups(way) {
        captures.clear();
    }
    Ok(IfQuestion { test, captures })
}

/// A variable that `if` has set, with several values, or with one that is known.
fn matched_by_case(
    way: &NginxWay<'_>,
    value: &str,
    cases: &[(NginxTest, String)],
    (wanted, ignores_case, source): (bool, bool, &str),
) -> Result<IfQuestion, String> {
    let mut tests = Vec::new();
    let mut before: Vec<NginxTest> = Vec::new();
    for (test, text) in cases {
        let matches = match condition_name(text) {
            PlaceholderName::Constant(known) => {
                let pattern = NginxPattern::new(source, ignores_case, PatternSubject::Text)?;
                if pattern.groups() > 0 && wanted {
                    return Err("groups of a value that is known beforehand: write what they are".to_owned());
                }
                let known = pattern
                    .has_match(&known)
                    .ok_or("the value is known beforehand: write what follows from it")?;
                NginxTest::Known(known)
            }
            PlaceholderName::Value(name, true) => {
                check_known(&name)?;
                let pattern = NginxPattern::new(source, ignores_case, PatternSubject::of(&name))?;
                if pattern.groups() > 0 && wanted {
                    return Err("compare a variable that `if` has set without groups".to_owned());
                }
                NginxTest::matches(&name, &pattern)
            }
            PlaceholderName::Value(..) | PlaceholderName::Composite => {
                let pattern = NginxPattern::new(source, ignores_case, PatternSubject::Text)?;
                if pattern.groups() > 0 && wanted {
                    return Err("compare a variable that `if` has set without groups".to_owned());
                }
                NginxTest::matches(&made_value(way, value, text), &pattern)
            }
        };
        let not_before = before.iter().cloned().map(NginxTest::not);
        tests.push(NginxTest::all(not_before.chain([test.clone(), matches])));
        before.push(test.clone());
    }
    Ok(IfQuestion { test: NginxTest::any(tests).negated_unless(wanted), captures: Vec::new() })
}

/// Whether groups of an earlier expression could still be named.
fn statement_uses_groups(way: &NginxWay<'_>) -> bool {
    way.scope.variable("1").is_some()
}

/// Groups of `path_regex` are known once the route is chosen.
fn check_known(name: &str) -> Result<(), String> {
    if name.starts_with("match") {
        return Err(
            "a condition cannot ask for groups of the location: write locations of their own".to_owned()
        );
    }
    Ok(())
}

/// A map whose value is a text of several parts, or one that is no text.
fn made_value(way: &NginxWay<'_>, variable: &str, text: &str) -> String {
    let mut table = DraftTable::default();
    table.set_plain("source", text);
    table.set_plain("default", text);
    // A map has entries.
    table.table("exact").set_plain("", "");
    let name = variable.trim_matches(|c: char| !c.is_ascii_alphanumeric()).replace(['{', '}', '$'], "");
    format!("map.{}", way.scope.make_map(&name, table))
}

/// A text with placeholders as conditions name it.
fn condition_name(text: &str) -> PlaceholderName {
    let plain = text.replace("{{", "").replace("}}", "");
    if !plain.contains(['{', '}']) {
        return PlaceholderName::Constant(text.replace("{{", "{").replace("}}", "}"));
    }
    let one = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let Some(inner) = one.filter(|inner| !inner.contains(['{', '}', '|'])) else {
        return PlaceholderName::Composite;
    };
    for prefix in ["header", "cookie", "query"] {
        if let Some(name) = inner.strip_prefix(prefix).and_then(|rest| rest.strip_prefix('.')) {
            return PlaceholderName::Value(format!("{prefix}[\"{name}\"]"), true);
        }
    }
    let is_number = inner.ends_with("_port")
        || matches!(inner, "port" | "content_length" | "status" | "connection_requests")
        || inner.starts_with("time")
        || inner.starts_with("duration");
    PlaceholderName::Value(inner.to_owned(), !is_number && !inner.ends_with("_address"))
}

/// The idiom `if (!-f $request_filename) { rewrite ^(.*)$ /index.php?q=$1 last; }`: where requests go for which there is no file.
pub(super) fn missing_file<'s>(
    way: &NginxWay<'s>,
    statement: &'s Statement,
    inner: &[&'s Statement],
) -> Option<String> {
    let words = inner_words(way, statement);
    let asks = matches!(words.as_slice(), [sign, file]
        if matches!(sign.as_str(), "!-f" | "!-e")
            && matches!(file.as_str(), "$request_filename" | "$document_root$uri" | "$document_root$fastcgi_script_name"));
    if !asks || way.block.is_some() || inner.len() != statement.children().len() {
        return None;
    }
    let target = match inner {
        [rewrite] if rewrite.name() == "rewrite" => rewrite,
        [rewrite, end] if rewrite.name() == "rewrite" && end.name() == "break" => {
            way.scope.ledger.exact(end);
            rewrite
        }
        [answer] if answer.name() == "return" => {
            let mut words = way.scope.words(answer);
            let code = words.text().and_then(|code| code.parse::<u16>().ok()).filter(|code| *code >= 400)?;
            if words.next().is_some() {
                return None;
            }
            settle(way.scope.ledger, statement, answer);
            return Some(format!("={code}"));
        }
        _ => return None,
    };
    let rule = super::NginxRewrite::read(&way.scope, target).ok()?;
    let keeps_rest = !rule.pattern.matches_all() && rule.replacement.contains('$');
    if !rule.covers(&way.scope.place) || keeps_rest || rule.replacement.contains("://") {
        return None;
    }
    settle(way.scope.ledger, statement, target);
    let text = &rule.pattern.text;
    let mut to = rule.replacement.clone();
    if text.contains("^/(") || text.starts_with("/(") {
        to = to.replace("/$1", "{path}");
        if to.contains("$1") {
            way.scope.ledger.approximated(target, "the path is in the query with its slash");
            to = to.replace("$1", "{path}");
        }
    } else {
        to = to.replace("$1", "{path}");
    }
    Some(match to.strip_suffix('?') {
        Some(whole) => whole.to_owned(),
        None if to.contains("{args}") || to.contains("{query}") => to,
        None if to.contains('?') => format!("{to}&{{args}}"),
        None => format!("{to}{{query}}"),
    })
}

fn settle(ledger: &crate::report::Ledger, statement: &Statement, inner: &Statement) {
    let difference = "a folder without an index file goes the same way as what is not there";
    ledger.approximated(statement, difference);
    ledger.exact(inner);
}
