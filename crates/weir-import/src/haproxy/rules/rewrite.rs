//! Changes of the path: `replace-path`, `set-path`, and the `reqrep` of long ago.

use super::RuleReader;
use crate::document::TomlValue;
use crate::haproxy::acl::{AclCondition, AclSubject, AtomTest, escaped, first_match, regex_trouble};
use crate::haproxy::format::{FormatUse, template};
use crate::haproxy::output::{Keys, literal};
use crate::report::StatementWords;
use crate::source::Statement;

impl<'s> RuleReader<'_, 's, '_> {
    /// `http-request set-path` and its like.
    pub(super) fn rewrite(&mut self, statement: &'s Statement, action: &str, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        let first = words.text().unwrap_or_default().to_owned();
        let made = match action {
            "replace-path" => Ok((first, words.text().unwrap_or_default().to_owned())),
            "replace-uri" | "replace-pathq" => with_rest(first, words.text().unwrap_or_default()),
            "set-path" => self.set_path(&first),
            _ => Err("Weir rewrites the path: the query goes on behind it".to_owned()),
        };
        let (pattern, replacement) = match made {
            Ok(made) => made,
            Err(reason) => {
                let _ = self.conditions.behind(words);
                return ledger.unsupported(statement, &reason);
            }
        };
        self.rewritten(statement, &pattern, &replacement, false, words);
    }

    /// `reqrep` on the line of the request, or on `Host`.
    pub(super) fn replaced_line(
        &mut self,
        statement: &'s Statement,
        pattern: &str,
        replacement: &str,
        words: &mut StatementWords<'s>,
    ) {
        let ignore_case = statement.name() == "reqirep";
        if let Some(host) = replacement.strip_prefix("Host:").filter(|_| pattern.starts_with("^Host:")) {
            let host = host.trim();
            let Some(condition) = self.condition(statement, words) else { return };
            if host.contains('\\') {
                return self
                    .proxy
                    .ledger
                    .unsupported(statement, "`forward_host` of a route is one name, `keep` or `server`");
            }
            let mut keys = Keys::default();
            keys.set("forward_host", literal(host), statement);
            return self.route_keys(condition, keys);
        }
        if changes_case_of_name(pattern, replacement) {
            let _ = self.conditions.behind(words);
            let why = "names of headers are in lower case on the way out (RFC 9110 section 5.1)";
            return self.proxy.ledger.by_default(statement, why);
        }
        match of_request_line(pattern, replacement) {
            Some((pattern, replacement)) => {
                self.rewritten(statement, &pattern, &replacement, ignore_case, words);
            }
            None => {
                let _ = self.conditions.behind(words);
                self.proxy.ledger.unsupported(
                    statement,
                    "write it with `rewrite` of a route, which changes the path, or with `request_headers`",
                );
            }
        }
    }

    fn rewritten(
        &mut self,
        statement: &'s Statement,
        pattern: &str,
        replacement: &str,
        ignore_case: bool,
        words: &mut StatementWords<'s>,
    ) {
        let ledger = self.proxy.ledger;
        let asked_before = self.asked_path;
        let Some(condition) = self.condition(statement, words) else { return };
        if let Some(reason) = regex_trouble(pattern) {
            return ledger.unsupported(statement, reason);
        }
        let replacement = match template(replacement, FormatUse::Header, &self.conditions.around) {
            Ok(made) => groups(&made.text),
            Err(reason) => return ledger.unsupported(statement, &reason),
        };
        if condition == AclCondition::Constant(false) {
            return ledger.exact(statement);
        }
        if !replacement.starts_with('/') && !replacement.starts_with('$') {
            return ledger.unsupported(statement, "a path begins with a slash");
        }
        ledger.exact(statement);
        let case = if ignore_case { "(?i)" } else { "" };
        let rule = TomlValue::inline([
            ("pattern", literal(&format!("{case}{pattern}")).into()),
            ("replacement", replacement.into()),
            ("flag", "break".into()),
        ]);
        let implied = condition == AclCondition::Constant(true) || implies(pattern, &condition);
        // Before there is a route, all conditions behind it see the new path, and none has seen the old one.
        if implied && !asked_before && self.proxy.is_frontend() && !self.proxy.is_backend() {
            self.rules.listener.push("rewrite", TomlValue::Array(Vec::new()), statement);
            if let Some(TomlValue::Array(list)) = self.rules.listener.get("rewrite") {
                let mut list: Vec<TomlValue> =
                    list.iter().filter(|rule| **rule != TomlValue::Array(Vec::new())).cloned().collect();
                list.push(rule);
                self.rules.listener.set("rewrite", TomlValue::Array(list), statement);
            }
            return;
        }
        for change in self.rules.requests.iter().filter(|change| change.asks_path()) {
            ledger.unsupported(
                change.statement,
                "a rule behind it changes the path, and headers see the new one",
            );
        }
        self.before.path = true;
        self.rules.rewrites_route = true;
        let condition = if implied { AclCondition::Constant(true) } else { condition };
        let has_one = self.rules.route.has("rewrite")
            || self.rules.variants.iter().any(|(_, keys)| keys.has("rewrite"));
        if has_one {
            return ledger.unsupported(
                statement,
                "write both in one list, `rewrite` of the route, where each sees the path of the one before",
            );
        }
        let mut keys = Keys::default();
        keys.set("rewrite", TomlValue::Array(vec![rule]), statement);
        self.route_keys(condition, keys);
    }

    /// Pattern and replacement of `set-path`.
    fn set_path(&self, format: &str) -> Result<(String, String), String> {
        if let Some(inside) = format.strip_prefix("%[path,regsub(").and_then(|rest| rest.strip_suffix(")]")) {
            let inside = inside.trim_matches(['"', '\'']);
            let parts: Vec<&str> =
                inside.split(',').map(|part| part.trim().trim_matches(['"', '\''])).collect();
            let (pattern, replacement, flags) = match parts.as_slice() {
                [pattern, replacement] => (*pattern, *replacement, ""),
                [pattern, replacement, flags @ ("" | "i")] => (*pattern, *replacement, *flags),
                _ => return Err("write it with `rewrite`: a pattern and what replaces it".to_owned()),
            };
            let (pattern, value) = first_match(pattern, replacement, flags == "i")?;
            // A path is one line.
            let pattern = pattern.replacen("(?s)", "", 1).replacen("(?is)", "(?i)", 1);
            return Ok((pattern, value.replace("{match.", "\\").replace('}', "")));
        }
        if format.matches("%[path]").count() > 1 || format.contains("%[query]") {
            return Err("the query goes on behind the path by itself".to_owned());
        }
        Ok(("^(.*)$".to_owned(), format.replace("%[path]", "\\1")))
    }
}

/// `replace-uri` changes path and query: as a change of the path alone if the rest stays.
fn with_rest(pattern: String, replacement: &str) -> Result<(String, String), String> {
    let groups = pattern.matches('(').count();
    let is_rest =
        pattern.trim_end_matches('$').ends_with("(.*)") && replacement.ends_with(&format!("\\{groups}"));
    match is_rest && !pattern.contains("\\?") {
        true => Ok((pattern, replacement.to_owned())),
        false => Err("Weir rewrites the path: the query goes on behind it".to_owned()),
    }
}

/// Whether a path that has the pattern fulfils the condition.
fn implies(pattern: &str, condition: &AclCondition) -> bool {
    let AclCondition::Atom(atom) = condition else { return false };
    if atom.subject != AclSubject::Path || atom.ignore_case {
        return false;
    }
    match &atom.test {
        AtomTest::Begins(list) if list.len() == 1 => {
            pattern.starts_with(&format!("^{}", escaped(&list[0])))
                || pattern.starts_with(&format!("^{}", list[0]))
                    && !list[0].contains(['.', '+', '*', '?', '(', '['])
        }
        _ => false,
    }
}

/// `\1` as `$1`, with braces where a letter or digit follows. What is a dollar stays one.
fn groups(text: &str) -> String {
    let text = text.replace("$$$$", "$$").replace('$', "$$$$");
    let mut result = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match rest.peek() {
            Some(digit) if character == '\\' && digit.is_ascii_digit() => {
                let digit = *digit;
                rest.next();
                match rest.peek().is_some_and(|next| next.is_ascii_alphanumeric() || *next == '_') {
                    true => result.push_str(&format!("$${{{digit}}}")),
                    false => result.extend(['$', digit]),
                }
            }
            _ => result.push(character),
        }
    }
    result
}

/// Whether `^(Name:)(.*)$` becomes `name:\2`.
fn changes_case_of_name(pattern: &str, replacement: &str) -> bool {
    let pattern = pattern.trim_start_matches('^').trim_end_matches('$').replace("\\ ", " ");
    let parts = pattern.strip_prefix('(').and_then(|rest| rest.split_once(":)(")).map(|parts| (parts, "\\2"));
    let Some(((name, value), group)) = parts.or(pattern.split_once(":(").map(|parts| (parts, "\\1"))) else {
        return false;
    };
    let new = replacement.replace("\\ ", " ");
    let new = new.split_once(':').filter(|(_, value)| *value == group);
    value == ".*)" && new.is_some_and(|(new, _)| new.eq_ignore_ascii_case(name))
}

/// A pattern for the whole line of a request as one for its path.
fn of_request_line(pattern: &str, replacement: &str) -> Option<(String, String)> {
    let heads = ["^([^ :]*) ", "^([^ ]*) ", r"^([^\ :]*)\ ", r"^([^\ ]*)\ ", "^([A-Z]*) ", "^(.*?) "];
    let with_slash = ["^([^ ]* /)", "^([^ :]* /)"];
    let (path, new) = if let Some(path) = heads.iter().find_map(|head| pattern.strip_prefix(head)) {
        (path.to_owned(), replacement.strip_prefix("\\1 ")?.to_owned())
    } else {
        let path = with_slash.iter().find_map(|head| pattern.strip_prefix(head))?;
        (format!("/{path}"), format!("/{}", replacement.strip_prefix("\\1")?))
    };
    let path = path.replace("\\ ", " ");
    // The version behind the path goes with the last group.
    if path.contains(' ') || !path.ends_with("(.*)") {
        return None;
    }
    // Groups count from one less, since the method was the first.
    let mut shifted = String::new();
    let mut rest = new.chars().peekable();
    while let Some(character) = rest.next() {
        match rest.peek().and_then(|next| next.to_digit(10)) {
            Some(digit) if character == '\\' => {
                rest.next();
                shifted.push_str(&format!("\\{}", digit.checked_sub(1).filter(|digit| *digit > 0)?));
            }
            _ => shifted.push(character),
        }
    }
    Some((format!("^{path}"), shifted))
}

#[cfg(test)]
mod tests {
    use super::{changes_case_of_name, groups, of_request_line};

    #[test]
    fn lines_of_requests_become_paths() {
        for (pattern, replacement, expected) in [
            ("^([^ :]*) /webcam/(.*)", "\\1 /\\2", Some(("^/webcam/(.*)", "/\\1"))),
            ("^([^ ]* /)bin[/]?(.*)", "\\1\\2", Some(("^/bin[/]?(.*)", "/\\1"))),
            ("^Host: a", "Host: b", None),
        ] {
            let expected = expected.map(|(a, b): (&str, &str)| (a.to_owned(), b.to_owned()));
            assert_eq!(of_request_line(pattern, replacement), expected, "{pattern}");
        }
    }

    #[test]
    fn names_in_other_letters_are_the_same() {
        assert!(changes_case_of_name("^(X-Date:)(.*)$", "x-date:\\2"));
        assert!(changes_case_of_name("^X-Date:(.*)", "x-date:\\1"));
        assert!(!changes_case_of_name("^(X-Date:)(.*)$", "x-data:\\2"));
        assert!(!changes_case_of_name("^X-Date:(.*)", "x-date:a\\1"));
    }

    #[test]
    fn groups_have_a_dollar() {
        assert_eq!(groups("/a/\\1"), "/a/$1");
        assert_eq!(groups("/\\1x"), "/$${1}x");
    }
}
