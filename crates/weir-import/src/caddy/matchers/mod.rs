//! Matchers: which requests a directive is for. Caddy compares paths without regard to case, and so do the expressions that come of them.

mod expression;

use std::collections::HashMap;

use crate::report::Ledger;
use crate::source::Statement;

/// The named matchers of a site.
#[derive(Default)]
pub(super) struct MatcherTable<'s> {
    named: HashMap<&'s str, &'s Statement>,
}

/// What a request has to be: all of this.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CaddyMatch {
    /// One of these hosts, of the site.
    pub(super) hosts: Vec<String>,
    /// A regular expression for the path.
    pub(super) path: Option<String>,
    /// One of these methods.
    pub(super) methods: Vec<String>,
    /// All of these conditions.
    pub(super) when: Vec<String>,
    /// No request is all of this.
    pub(super) is_never: bool,
}

/// What the first word of a directive says of the requests that it is for.
pub(super) enum DirectiveMatcher {
    /// All of them.
    Any,
    /// These.
    Some(CaddyMatch),
    /// It cannot be said in Weir, for this reason.
    Unsupported(String),
}

impl<'s> MatcherTable<'s> {
    /// With the matchers that are defined in a block, beside those around it.
    pub(super) fn within(&self, block: &'s [Statement]) -> MatcherTable<'s> {
        let mut named = self.named.clone();
        let own = block.iter().filter(|statement| statement.name().starts_with('@'));
        named.extend(own.map(|statement| (statement.name(), statement)));
        MatcherTable { named }
    }

    /// The word that is the matcher of a directive, if it has one.
    pub(super) fn word_of(statement: &Statement) -> Option<&str> {
        // These have a path or a target where others have a matcher.
        let has_none = match statement.name() {
            "root" | "rewrite" | "redir" => statement.words.len() == 2,
            "try_files" => true,
            _ => false,
        };
        let word = statement.words.get(1).filter(|word| !word.quoted && !has_none)?;
        let is_matcher = word.text.starts_with(['/', '@']) || word.text == "*";
        is_matcher.then_some(word.text.as_str())
    }

    /// For sorting: the path, where it is one, and whether there is a matcher.
    pub(super) fn specificity(&self, statement: &'s Statement) -> (Option<&'s str>, bool) {
        let Some(word) = Self::word_of(statement).filter(|word| *word != "*") else { return (None, false) };
        if word.starts_with('/') {
            return (Some(word), true);
        }
        // What stands beside the path in a named matcher does not count.
        let Some(named) = self.named.get(word) else { return (None, true) };
        let mut paths: Vec<&str> = Vec::new();
        let own = (named.words.len() > 1).then_some(&named.words[1..]);
        let lines = named.children().iter().map(|child| child.words.as_slice());
        for words in own.into_iter().chain(lines) {
            if words.first().is_some_and(|word| word.text == "path") {
                paths.extend(words.iter().skip(1).map(|word| word.text.as_str()));
            }
        }
        (if let [one] = paths[..] { Some(one) } else { None }, true)
    }

    /// What a directive is for.
    pub(super) fn of(&self, statement: &'s Statement, ledger: &Ledger) -> DirectiveMatcher {
        match Self::word_of(statement) {
            None => DirectiveMatcher::Any,
            Some(word) => {
                let _itself = ledger.words(statement).next();
                self.read(word, ledger)
            }
        }
    }

    /// Of the requests of a directive whose matcher cannot be said: the parts of it that can.
    pub(super) fn known_of(&self, statement: &Statement, ledger: &Ledger) -> CaddyMatch {
        let named = Self::word_of(statement).and_then(|word| self.named.get(word));
        let Some(named) = named.filter(|named| named.words.len() == 1) else { return CaddyMatch::default() };
        let mut known = CaddyMatch::default();
        for (words, child) in kinds(named.children()) {
            if let Ok(one) = matcher(&words, child, ledger) {
                known = known.and(one);
            }
        }
        known
    }

    fn read(&self, word: &str, ledger: &Ledger) -> DirectiveMatcher {
        if matches!(word, "*" | "/*") {
            return DirectiveMatcher::Any;
        }
        let read = match word.strip_prefix('@') {
            None => {
                path_expression(&[word]).map(|path| CaddyMatch { path: Some(path), ..CaddyMatch::default() })
            }
            Some(_) => match self.named.get(word) {
                None => Err(format!("there is no matcher `{word}`")),
                Some(statement) => {
                    named(statement, ledger).inspect_err(|why| ledger.unsupported(statement, why))
                }
            },
        };
        match read {
            Ok(matcher) => DirectiveMatcher::Some(matcher),
            Err(why) => DirectiveMatcher::Unsupported(why),
        }
    }

    /// Matchers that no directive has asked for have no meaning.
    pub(super) fn settle_unused(&self, ledger: &Ledger) {
        for statement in self.named.values() {
            settle_unused(statement, ledger);
        }
    }
}

fn settle_unused(statement: &Statement, ledger: &Ledger) {
    if !ledger.is_settled(statement) {
        ledger.meaningless(statement, "no directive uses it");
        statement.children().iter().for_each(|child| settle_unused(child, ledger));
    }
}

/// The matcher `@name ...`: on its line, or in its block.
fn named(statement: &Statement, ledger: &Ledger) -> Result<CaddyMatch, String> {
    let mut all = CaddyMatch::default();
    if statement.words.len() > 1 {
        let words = ledger.words(statement).rest();
        let words: Vec<&str> = words.into_iter().map(|word| word.text.as_str()).collect();
        all = all.and(matcher(&words, statement, ledger)?);
    } else {
        all = block(statement.children(), ledger)?;
    }
    ledger.exact(statement);
    Ok(all)
}

/// All matchers of a block; of one kind, those of several lines are as those of one.
fn block(children: &[Statement], ledger: &Ledger) -> Result<CaddyMatch, String> {
    for child in children {
        ledger.words(child).rest();
    }
    let mut all = CaddyMatch::default();
    for (words, child) in kinds(children) {
        let one = matcher(&words, child, ledger).inspect_err(|why| ledger.unsupported(child, why))?;
        all = all.and(one);
    }
    children.iter().for_each(|child| ledger.exact(child));
    Ok(all)
}

/// The matchers of a block: values of one kind are alternatives.
fn kinds(children: &[Statement]) -> Vec<(Vec<&str>, &Statement)> {
    let mut kinds: Vec<(Vec<&str>, &Statement)> = Vec::new();
    for child in children {
        let words: Vec<&str> = child.words.iter().map(|word| word.text.as_str()).collect();
        // The words that have to be the same for the values behind them to be alternatives.
        let same = match words[0] {
            "path" | "method" | "host" | "remote_ip" | "client_ip" | "query" => 1,
            "header" if words.len() > 2 => 2,
            _ => usize::MAX,
        };
        let known =
            kinds.iter_mut().find(|(known, _)| words.len() > same && known.get(..same) == words.get(..same));
        match known {
            Some((known, _)) => known.extend(&words[same..]),
            None => kinds.push((words, child)),
        }
    }
    kinds
}

/// One kind of matcher with its values, of which one is enough.
fn matcher(words: &[&str], statement: &Statement, ledger: &Ledger) -> Result<CaddyMatch, String> {
    let (kind, values) = words.split_first().ok_or("a matcher needs a kind")?;
    let when = |condition: String| Ok(CaddyMatch { when: vec![condition], ..CaddyMatch::default() });
    match *kind {
        "path" => Ok(CaddyMatch { path: Some(path_expression(values)?), ..CaddyMatch::default() }),
        "path_regexp" => {
            let expression = match values {
                [expression] | [_, expression] => expression,
                _ => return Err("`path_regexp` with other than one expression".to_owned()),
            };
            Ok(CaddyMatch { path: Some((*expression).to_owned()), ..CaddyMatch::default() })
        }
        "method" => {
            let methods = values.iter().map(|method| method.to_ascii_uppercase()).collect();
            Ok(CaddyMatch { methods, ..CaddyMatch::default() })
        }
        "host" => when(any(&values.iter().map(|host| host_condition(host)).collect::<Vec<_>>())),
        "protocol" => match values {
            ["http" | "https"] => when(format!("scheme == {}", quoted(values[0])?)),
            _ => Err("conditions on versions of the protocol: use `version` in `when`".to_owned()),
        },
        "remote_ip" => when(network_condition("peer_address", values)?),
        "client_ip" => when(network_condition("client_address", values)?),
        "header" => header_condition(values).and_then(when),
        "header_regexp" => match values {
            [name, expression] | [_, name, expression] => {
                when(format!("{}.matches({})", field(name)?, raw(expression)?))
            }
            _ => Err("`header_regexp` needs a field and an expression".to_owned()),
        },
        "query" => {
            let mut by_name: Vec<(&str, Vec<String>)> = Vec::new();
            for pair in values {
                let name = pair.split_once('=').map_or(*pair, |(name, _)| name);
                let condition = query_condition(pair)?;
                match by_name.iter_mut().find(|(known, _)| *known == name) {
                    Some((_, conditions)) => conditions.push(condition),
                    None => by_name.push((name, vec![condition])),
                }
            }
            // Values of one name are alternatives, all names have to be there.
            let when = by_name.into_iter().map(|(_, conditions)| any(&conditions)).collect();
            Ok(CaddyMatch { when, ..CaddyMatch::default() })
        }
        "not" => negated(values, statement, ledger).and_then(when),
        "expression" => when(expression::condition(&values.join(" "))?),
        _ if values.is_empty() && kind.contains(['{', '(']) => when(expression::condition(kind)?),
        "file" => Err("files are looked for by `try_files` and `fallback` of `files`".to_owned()),
        other => Err(format!("Weir has no matcher `{other}`")),
    }
}

/// `not` of what stands behind it, or of all that is in its block.
fn negated(values: &[&str], statement: &Statement, ledger: &Ledger) -> Result<String, String> {
    let mut inner = CaddyMatch::default();
    if !values.is_empty() {
        inner = matcher(values, statement, ledger)?;
    }
    let children: &[Statement] =
        if statement.name() == "not" || values.is_empty() { statement.children() } else { &[] };
    inner = inner.and(block(children, ledger)?);
    if inner.is_never {
        return Err("`not` of what no request is".to_owned());
    }
    let condition = inner.condition()?.ok_or("`not` of nothing")?;
    Ok(format!("!({condition})"))
}

impl CaddyMatch {
    /// Both.
    pub(super) fn and(mut self, other: CaddyMatch) -> CaddyMatch {
        self.is_never |= other.is_never;
        match (self.path.take(), other.path) {
            (Some(known), Some(path)) => match both_paths(&known, &path) {
                PathPair::One(path) => self.path = Some(path),
                PathPair::Never => (self.path, self.is_never) = (Some(known), true),
                PathPair::Unknown => {
                    self.when.push(path_condition(&path));
                    self.path = Some(known);
                }
            },
            (known, path) => self.path = known.or(path),
        }
        if self.methods.is_empty() {
            self.methods = other.methods;
        } else if !other.methods.is_empty() && self.methods != other.methods {
            self.when.push(methods_condition(&other.methods));
        }
        for condition in other.when {
            if !self.when.contains(&condition) {
                self.when.push(condition);
            }
        }
        self
    }

    /// As one condition, without the hosts of the site; `None`: it always holds.
    pub(super) fn condition(&self) -> Result<Option<String>, String> {
        let mut all = Vec::new();
        if let Some(path) = &self.path {
            raw(path)?;
            all.push(path_condition(path));
        }
        if !self.methods.is_empty() {
            all.push(methods_condition(&self.methods));
        }
        all.extend(
            self.when.iter().map(|one| if one.contains("||") { format!("({one})") } else { one.clone() }),
        );
        Ok((!all.is_empty()).then(|| all.join(" && ")))
    }

    /// Whether it asks for the path.
    pub(super) fn asks_path(&self) -> bool {
        self.path.is_some() || self.when.iter().any(|condition| condition.contains("path"))
    }

    /// What holds for all of its requests, without what it says of the path.
    pub(super) fn without_path(&self) -> CaddyMatch {
        let mut rest = CaddyMatch { path: None, ..self.clone() };
        rest.when.retain(|condition| !condition.contains("path"));
        rest
    }

    /// Whether every request matches.
    pub(super) fn is_any(&self) -> bool {
        self.path.is_none() && self.methods.is_empty() && self.when.is_empty()
    }
}

/// What two expressions for one path come to.
enum PathPair {
    /// The same as this one.
    One(String),
    Never,
    Unknown,
}

fn both_paths(one: &str, other: &str) -> PathPair {
    if one == other {
        return PathPair::One(one.to_owned());
    }
    let (Some(first), Some(second)) = (plain_path(one), plain_path(other)) else { return PathPair::Unknown };
    let begins = |(long, _): &(String, bool), (short, is_exact): &(String, bool)| {
        long.starts_with(short.as_str()) && !is_exact
    };
    if begins(&first, &second) {
        PathPair::One(one.to_owned())
    } else if begins(&second, &first) {
        PathPair::One(other.to_owned())
    } else {
        PathPair::Never
    }
}

/// The text that a path begins with, or is, if an expression says no more.
fn plain_path(expression: &str) -> Option<(String, bool)> {
    let text = expression.strip_prefix("(?i)^")?;
    let (text, is_exact) = match text.strip_suffix('$') {
        Some(text) => (text, true),
        None => (text, false),
    };
    let mut plain = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => plain.push(characters.next().filter(|c| !c.is_ascii_alphanumeric())?),
            special if ".+*?()|[]{}^$".contains(special) => return None,
            other => plain.extend(other.to_lowercase()),
        }
    }
    Some((plain, is_exact))
}

fn path_condition(path: &str) -> String {
    format!("path.matches({})", raw(path).unwrap_or_default())
}

fn methods_condition(methods: &[String]) -> String {
    let list: Vec<String> = methods.iter().map(|method| format!("\"{method}\"")).collect();
    match list.as_slice() {
        [one] => format!("method == {one}"),
        _ => format!("method in [{}]", list.join(", ")),
    }
}

fn any(conditions: &[String]) -> String {
    conditions.join(" || ")
}

/// A text in a condition.
fn quoted(text: &str) -> Result<String, String> {
    match text.contains(['"', '\\', '{']) || text.chars().any(char::is_control) {
        true => Err(format!("`{text}` cannot be written in a condition")),
        false => Ok(format!("\"{text}\"")),
    }
}

/// A regular expression in a condition.
fn raw(text: &str) -> Result<String, String> {
    match (text.contains('"'), text.contains('\'')) {
        (false, _) => Ok(format!("r\"{text}\"")),
        (true, false) => Ok(format!("r'{text}'")),
        (true, true) => Err(format!("`{text}` has both kinds of quotation marks")),
    }
}

fn host_condition(host: &str) -> String {
    let host = host.to_ascii_lowercase();
    match host.strip_prefix("*.") {
        // One label, as Caddy has it.
        Some(rest) => format!("host.matches(r\"^[^.]+\\.{}$\")", escaped(rest)),
        None => format!("host == \"{}\"", host.replace(['"', '\\'], "")),
    }
}

fn network_condition(value: &str, networks: &[&str]) -> Result<String, String> {
    let networks = super::networks(networks)?;
    let list: Vec<String> = networks.iter().map(|network| format!("\"{network}\"")).collect();
    Ok(format!("{value} in [{}]", list.join(", ")))
}

fn field(name: &str) -> Result<String, String> {
    Ok(format!("header[{}]", quoted(&name.to_ascii_lowercase())?))
}

/// `header Field value`: with `*` at an end, the rest is what it begins or ends with.
fn header_condition(values: &[&str]) -> Result<String, String> {
    let [name, values @ ..] = values else { return Err("`header` of what?".to_owned()) };
    if let Some(name) = name.strip_prefix('!') {
        return Ok(format!("!has({})", field(name)?));
    }
    let field = field(name)?;
    let one = |value: &&str| match (value.strip_prefix('*'), value.strip_suffix('*')) {
        _ if *value == "*" => Ok(format!("has({field})")),
        (Some(_), Some(_)) => Ok(format!("{field}.contains({})", quoted(value.trim_matches('*'))?)),
        (Some(end), None) => Ok(format!("{field}.endsWith({})", quoted(end)?)),
        (None, Some(start)) => Ok(format!("{field}.startsWith({})", quoted(start)?)),
        (None, None) => Ok(format!("{field} == {}", quoted(value)?)),
    };
    match values {
        [] => Ok(format!("has({field})")),
        values => Ok(any(&values.iter().map(one).collect::<Result<Vec<String>, String>>()?)),
    }
}

fn query_condition(pair: &str) -> Result<String, String> {
    let (name, value) = pair.split_once('=').ok_or_else(|| format!("`{pair}` is no `name=value`"))?;
    let name = quoted(name)?;
    match value {
        "*" => Ok(format!("has(query[{name}])")),
        value => Ok(format!("query[{name}] == {}", quoted(value)?)),
    }
}

/// The expression for paths of which one is enough.
pub(super) fn path_expression(paths: &[&str]) -> Result<String, String> {
    let each: Result<Vec<(bool, String, bool)>, String> = paths.iter().map(|path| path_parts(path)).collect();
    let each = each?;
    let whole = |(starts, text, ends): &(bool, String, bool)| {
        format!("{}{text}{}", if *starts { "^" } else { "" }, if *ends { "$" } else { "" })
    };
    match each.as_slice() {
        [] => Err("`path` without a path".to_owned()),
        [one] => Ok(format!("(?i){}", whole(one))),
        all => {
            let all: Vec<String> = all.iter().map(whole).collect();
            Ok(format!("(?i)(?:{})", all.join("|")))
        }
    }
}

/// Whether it is bound to the beginning, the expression, and whether it is bound to the end.
fn path_parts(path: &str) -> Result<(bool, String, bool), String> {
    if path.contains("//") || path.contains('%') || path.contains('{') {
        return Err(format!(
            "`{path}`: paths with `//`, `%` or placeholders are compared in a way of Caddy's own"
        ));
    }
    let inner = path.trim_matches('*');
    let stars = (path.starts_with('*'), path.ends_with('*'));
    if inner.contains('*') || inner.contains(['?', '[', '\\']) {
        // A pattern of Go's `path.Match`, which is for the whole path.
        if path.contains(['[', '\\']) {
            return Err(format!("`{path}`: write it as `path_regexp`"));
        }
        let parts: Vec<String> = path.split('*').map(|part| escaped(part).replace("\\?", "[^/]")).collect();
        return Ok((true, parts.join("[^/]*"), true));
    }
    match stars {
        (true, true) => Ok((false, escaped(inner), false)),
        (true, false) => Ok((false, escaped(inner), true)),
        (false, true) => Ok((true, escaped(inner), false)),
        (false, false) => Ok((true, escaped(inner), true)),
    }
}

/// A text as a regular expression that matches it alone.
pub(super) fn escaped(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&~".contains(character) {
            result.push('\\');
        }
        result.push(character);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_compared_as_caddy_does() {
        for (path, expected) in [
            ("/api/*", "(?i)^/api/"),
            ("/api*", "(?i)^/api"),
            ("/api", "(?i)^/api$"),
            ("*.php", "(?i)\\.php$"),
            ("*/admin/*", "(?i)/admin/"),
            ("/a/*/b", "(?i)^/a/[^/]*/b$"),
            ("*", "(?i)"),
        ] {
            assert_eq!(path_expression(&[path]).as_deref(), Ok(expected), "{path}");
        }
        assert_eq!(path_expression(&["/a", "/b/*"]).as_deref(), Ok("(?i)(?:^/a$|^/b/)"));
        assert!(path_expression(&["/a%2fb"]).is_err());
    }

    #[test]
    fn two_matchers_are_both_asked() {
        let path = |path: &str| CaddyMatch { path: Some(path.to_owned()), ..CaddyMatch::default() };
        let both =
            path("^/a").and(path("b$")).and(CaddyMatch { methods: vec!["GET".into()], ..Default::default() });
        let prefix = |text: &str| path(&path_expression(&[text]).unwrap());
        assert_eq!(prefix("/a/*").and(prefix("/a/b/*")), prefix("/a/b/*"));
        assert_eq!(prefix("/a/b").and(prefix("/A/*")), prefix("/a/b"));
        assert!(prefix("/a/*").and(prefix("/b/*")).is_never && prefix("/a").and(prefix("/ab")).is_never);
        assert_eq!(
            both.condition().unwrap().as_deref(),
            Some("path.matches(r\"^/a\") && method == \"GET\" && path.matches(r\"b$\")")
        );
    }
}
