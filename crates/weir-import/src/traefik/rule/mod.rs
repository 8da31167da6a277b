//! Rules of routers as keys of routes. What no key says becomes a condition.

mod terms;
mod parse;

pub(super) use parse::RuleTree;
pub(super) use terms::escaped;

use terms::{RuleCondition, RuleTerm, TermText};

use super::tree::literal;
use crate::document::TomlValue;

/// How many routes a rule with alternatives may become.
const ALTERNATIVES_MAX: usize = 8;

/// Which requests a route is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RuleMatch {
    /// `host`, `path_begins` and the like, in the order in which they are written.
    pub(super) keys: Vec<(&'static str, TomlValue)>,
    /// Conditions that all have to hold, beside the keys.
    pub(super) when: Vec<String>,
    /// The hosts that the rule names.
    pub(super) hosts: Vec<String>,
    /// What every path of it begins with.
    pub(super) prefix: Option<String>,
}

impl RuleMatch {
    /// The routes of a rule, of which each is for a part of its requests; `client` is the value that has the address of clients.
    pub(super) fn of_rule(text: &str, client: &str) -> Result<Vec<RuleMatch>, String> {
        let condition = RuleCondition::read(&RuleTree::parse(text)?)?;
        let alternatives = match condition {
            RuleCondition::Any(parts) if parts.len() <= ALTERNATIVES_MAX => parts,
            other => vec![other],
        };
        alternatives.iter().map(|one| RuleMatch::of(one, client)).collect()
    }

    /// Of a rule that cannot be said: requests among which all of its own are.
    pub(super) fn at_most(text: &str, client: &str) -> RuleMatch {
        let tree = RuleTree::parse(text).ok();
        let known = tree.map(|tree| RuleMatch::of(&RuleCondition::at_most(&tree), client));
        known.and_then(Result::ok).unwrap_or_default()
    }

    fn of(condition: &RuleCondition, client: &str) -> Result<RuleMatch, String> {
        let mut matched = RuleMatch::default();
        let parts = match condition {
            RuleCondition::All(parts) => parts.as_slice(),
            one => std::slice::from_ref(one),
        };
        for part in parts {
            let is_key = match part {
                RuleCondition::Term(term) => matched.take(term, client),
                _ => false,
            };
            if !is_key {
                matched.when.push(expression(part, client, false)?);
            }
        }
        let order =
            ["host", "path_exact", "path_begins", "path_regex", "method", "header", "query", "source"];
        matched.keys.sort_by_key(|(key, _)| order.iter().position(|known| known == key));
        Ok(matched)
    }

    /// Says a term by a key that is still free.
    fn take(&mut self, term: &RuleTerm, client: &str) -> bool {
        let has =
            |keys: &[(&str, TomlValue)], begin: &str| keys.iter().any(|(key, _)| key.starts_with(begin));
        match term {
            RuleTerm::Everything => {}
            RuleTerm::Hosts(hosts) if !has(&self.keys, "host") => {
                self.hosts.clone_from(hosts);
                self.keys.push(("host", one_or_list(hosts)));
            }
            RuleTerm::Paths(paths) if !has(&self.keys, "path") => match paths.as_slice() {
                [(path, true)] => self.keys.push(("path_exact", literal(path).into())),
                [(path, false)] => {
                    self.prefix = Some(path.clone());
                    self.keys.push(("path_begins", literal(path).into()));
                }
                _ => self.keys.push(("path_regex", literal(&paths_regex(paths)).into())),
            },
            RuleTerm::PathRegex(expression) if !has(&self.keys, "path") => {
                self.keys.push(("path_regex", literal(expression).into()));
            }
            RuleTerm::Methods(methods) if !has(&self.keys, "method") => {
                self.keys.push(("method", one_or_list(methods)));
            }
            RuleTerm::Clients(networks) if client == "client_address" && !has(&self.keys, "source") => {
                self.keys.push(("source", one_or_list(networks)));
            }
            RuleTerm::Header(name, text) => return self.named("header", name, text),
            RuleTerm::Query(name, text) => return self.named("query", name, text),
            _ => return false,
        }
        true
    }

    fn named(&mut self, key: &'static str, name: &str, text: &TermText) -> bool {
        let value: TomlValue = match text {
            TermText::Exact(text) => literal(text).into(),
            TermText::Regex(expression) => TomlValue::inline([("regex", literal(expression).into())]),
        };
        match self.keys.iter_mut().find(|(known, _)| *known == key) {
            Some((_, TomlValue::Inline(entries))) => {
                if entries.iter().any(|(known, _)| known == name) {
                    return false;
                }
                entries.push((name.to_owned(), value));
            }
            _ => self.keys.push((key, TomlValue::Inline(vec![(name.to_owned(), value)]))),
        }
        true
    }

    /// With its conditions as one key.
    pub(super) fn keys(&self) -> Vec<(&'static str, TomlValue)> {
        let mut keys = self.keys.clone();
        let joined = match self.when.as_slice() {
            [] => return keys,
            [one] => one.clone(),
            several => {
                let in_braces =
                    |one: &String| if one.contains("||") { format!("({one})") } else { one.clone() };
                several.iter().map(in_braces).collect::<Vec<_>>().join(" && ")
            }
        };
        keys.push(("when", literal(&joined).into()));
        keys
    }
}

fn one_or_list(texts: &[String]) -> TomlValue {
    match texts {
        [one] => one.as_str().into(),
        several => several.to_vec().into(),
    }
}

fn paths_regex(paths: &[(String, bool)]) -> String {
    let alternatives: Vec<String> = paths
        .iter()
        .map(|(path, is_exact)| format!("{}{}", escaped(path), if *is_exact { "$" } else { "" }))
        .collect();
    format!("^(?:{})", alternatives.join("|"))
}

/// A part of a rule as a condition.
fn expression(condition: &RuleCondition, client: &str, is_inner: bool) -> Result<String, String> {
    let joined = |parts: &[RuleCondition], sign: &str| {
        let parts = parts.iter().map(|part| expression(part, client, true)).collect::<Result<Vec<_>, _>>()?;
        let joined = parts.join(sign);
        Ok(if is_inner { format!("({joined})") } else { joined })
    };
    match condition {
        RuleCondition::All(parts) => joined(parts, " && "),
        RuleCondition::Any(parts) => joined(parts, " || "),
        RuleCondition::Not(inner) => {
            let inner = expression(inner, client, false)?;
            Ok(if inner == "true" { "!(path.startsWith(\"/\"))".to_owned() } else { format!("!({inner})") })
        }
        RuleCondition::Term(term) => term_expression(term, client),
    }
}

fn term_expression(term: &RuleTerm, client: &str) -> Result<String, String> {
    match term {
        RuleTerm::Everything => Ok("path.startsWith(\"/\")".to_owned()),
        RuleTerm::Hosts(hosts) => {
            let (below, exact): (Vec<&String>, Vec<&String>) =
                hosts.iter().partition(|host| host.starts_with("*."));
            let mut parts = Vec::new();
            if !exact.is_empty() {
                parts.push(one_of("host", &exact)?);
            }
            for host in below {
                parts.push(format!("host.endsWith({})", quoted(&host[1..])?));
            }
            Ok(match parts.as_slice() {
                [one] => one.clone(),
                _ => format!("({})", parts.join(" || ")),
            })
        }
        RuleTerm::HostRegex(expression) => Ok(format!("host.matches({})", raw(expression)?)),
        RuleTerm::Paths(paths) => match paths.as_slice() {
            [(path, true)] => Ok(format!("path == {}", quoted(path)?)),
            [(path, false)] => Ok(format!("path.startsWith({})", quoted(path)?)),
            _ => Ok(format!("path.matches({})", raw(&paths_regex(paths))?)),
        },
        RuleTerm::PathRegex(expression) => Ok(format!("path.matches({})", raw(expression)?)),
        RuleTerm::Methods(methods) => one_of("method", &methods.iter().collect::<Vec<_>>()),
        RuleTerm::Clients(networks) => {
            let networks = networks.iter().map(|network| quoted(network)).collect::<Result<Vec<_>, _>>()?;
            Ok(format!("{client} in [{}]", networks.join(", ")))
        }
        RuleTerm::Header(name, text) => text_expression(&format!("header[{}]", quoted(name)?), text),
        RuleTerm::Query(name, text) => text_expression(&format!("query[{}]", quoted(name)?), text),
    }
}

fn text_expression(value: &str, text: &TermText) -> Result<String, String> {
    match text {
        // A value that is missing is an empty text, too.
        TermText::Exact(text) if text.is_empty() => Ok(format!("(has({value}) && {value} == \"\")")),
        TermText::Exact(text) => Ok(format!("{value} == {}", quoted(text)?)),
        TermText::Regex(expression) => Ok(format!("{value}.matches({})", raw(expression)?)),
    }
}

fn one_of(value: &str, texts: &[&String]) -> Result<String, String> {
    let list = texts.iter().map(|text| quoted(text)).collect::<Result<Vec<_>, _>>()?;
    Ok(match list.as_slice() {
        [one] => format!("{value} == {one}"),
        _ => format!("{value} in [{}]", list.join(", ")),
    })
}

/// A text in a condition.
fn quoted(text: &str) -> Result<String, String> {
    match text.contains(['"', '\\', '{']) || text.chars().any(char::is_control) {
        true => Err(format!("`{text}` cannot be written in a condition")),
        false => Ok(format!("\"{text}\"")),
    }
}

/// A regular expression in a condition.
pub(super) fn raw(text: &str) -> Result<String, String> {
    match (text.contains('"'), text.contains('\'')) {
        (false, _) => Ok(format!("r\"{text}\"")),
        (true, false) => Ok(format!("r'{text}'")),
        (true, true) => Err(format!("`{text}` has both kinds of quotation marks")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, expected: &[&str]) {
        let routes = RuleMatch::of_rule(rule, "client_address").unwrap();
        let shown = |route: &RuleMatch| {
            let keys: Vec<String> =
                route.keys().iter().map(|(key, value)| format!("{key} = {value}")).collect();
            keys.join("; ")
        };
        assert_eq!(routes.iter().map(shown).collect::<Vec<_>>(), expected, "{rule}");
    }

    #[test]
    fn rules_become_keys_and_conditions() {
        check("PathPrefix(`/api`) && Host(`a.test`)", &["host = \"a.test\"; path_begins = \"/api\""]);
        check(
            "Host(`a.test`) && (Path(`/x`) || PathPrefix(`/y.z`))",
            &["host = \"a.test\"; path_regex = '^(?:/x$|/y\\.z)'"],
        );
        check("Host(`a.test`) || PathPrefix(`/b`)", &["host = \"a.test\"", "path_begins = \"/b\""]);
        check(
            "Host(`a.test`) && !PathPrefix(`/b`) && ClientIP(`10.0.0.0/8`)",
            &["host = \"a.test\"; source = \"10.0.0.0/8\"; when = '!(path.startsWith(\"/b\"))'"],
        );
        check(
            "Headers(`X-A`, `1`) && (Method(`GET`) || Query(`q`, `1`))",
            &["header = { x-a = \"1\" }; when = 'method == \"GET\" || query[\"q\"] == \"1\"'"],
        );
    }
}
