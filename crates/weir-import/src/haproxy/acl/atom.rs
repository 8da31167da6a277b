//! A single comparison: of what, with what, and how it is said in Weir.

use super::{AclCondition, ListenerFacts};
use crate::document::TomlValue;
use crate::haproxy::output::literal;

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::haproxy) enum AclSubject {
    Host,
    Path,
    Method,
    Source,
    Sni,
    /// Whether the client speaks TLS.
    Tls,
    LocalPort,
    /// Any other text, by its name in conditions.
    Text(String),
    /// Any other number.
    Number(String),
    /// Any other address.
    Address(String),
    /// A user of this list has proved to be one.
    User(String),
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::haproxy) enum AtomTest {
    Equal(Vec<String>),
    Begins(Vec<String>),
    Ends(Vec<String>),
    Contains(Vec<String>),
    Regex(Vec<String>),
    Networks(Vec<String>),
    /// Each a relation and a number, or two numbers as `1:5`.
    Numbers(Vec<(&'static str, i64)>),
    Between(i64, i64),
    /// There is one.
    Found,
}

#[derive(Clone, Debug, PartialEq)]
pub(in crate::haproxy) struct Atom {
    pub(in crate::haproxy) subject: AclSubject,
    pub(in crate::haproxy) test: AtomTest,
    pub(in crate::haproxy) ignore_case: bool,
    /// What it is only nearly.
    pub(in crate::haproxy) note: Option<&'static str>,
}

impl AtomTest {
    /// Whether it holds for a number.
    pub(super) fn holds(&self, number: i64) -> bool {
        match self {
            AtomTest::Numbers(list) => list.iter().any(|(relation, other)| match *relation {
                "<" => number < *other,
                "<=" => number <= *other,
                ">" => number > *other,
                ">=" => number >= *other,
                _ => number == *other,
            }),
            AtomTest::Between(low, high) => (*low..=*high).contains(&number),
            _ => false,
        }
    }
}

impl Atom {
    pub(in crate::haproxy) fn new(subject: AclSubject, test: AtomTest) -> Atom {
        Atom { subject, test, ignore_case: false, note: None }
    }

    /// What is known of it before a request is there.
    pub(super) fn known(&self, facts: ListenerFacts) -> Option<bool> {
        match (&self.subject, &self.test) {
            (AclSubject::Tls, _) => Some(facts.tls),
            (AclSubject::LocalPort, test) => {
                let port = i64::from(facts.port?);
                matches!(test, AtomTest::Numbers(_) | AtomTest::Between(..)).then(|| test.holds(port))
            }
            (AclSubject::Sni, AtomTest::Found) if !facts.tls && !facts.tcp => Some(false),
            _ => None,
        }
    }

    fn name(&self) -> &str {
        match &self.subject {
            AclSubject::Host => "host",
            AclSubject::Path => "path",
            AclSubject::Method => "method",
            AclSubject::Source => "client_address",
            AclSubject::Sni => "tls.server_name",
            AclSubject::Tls => "scheme",
            AclSubject::LocalPort => "local_port",
            AclSubject::Text(name) | AclSubject::Number(name) | AclSubject::Address(name) => name,
            AclSubject::User(_) => "user",
        }
    }

    /// Its length in bytes, in a condition.
    pub(super) fn size(&self) -> String {
        format!("size({})", self.name())
    }

    /// Hosts and server names are in lower case whatever the client has sent.
    fn is_always_lower(&self) -> bool {
        matches!(self.subject, AclSubject::Host | AclSubject::Sni)
    }

    fn value(&self, text: &str) -> String {
        if self.is_always_lower() || self.ignore_case { text.to_ascii_lowercase() } else { text.to_owned() }
    }

    /// Whether its expression is several joined by `||`.
    pub(super) fn is_several(&self) -> bool {
        match &self.test {
            AtomTest::Begins(list)
            | AtomTest::Ends(list)
            | AtomTest::Contains(list)
            | AtomTest::Regex(list) => list.len() > 1,
            AtomTest::Numbers(list) => list.len() > 1 && list.iter().any(|(relation, _)| *relation != "=="),
            _ => false,
        }
    }

    pub(super) fn comparisons(&self) -> usize {
        match &self.test {
            AtomTest::Begins(list)
            | AtomTest::Ends(list)
            | AtomTest::Contains(list)
            | AtomTest::Regex(list) => list.len(),
            AtomTest::Between(..) => 2,
            AtomTest::Numbers(list) => list.len(),
            AtomTest::Equal(_) | AtomTest::Networks(_) | AtomTest::Found => 1,
        }
    }

    pub(super) fn negated_expression(&self) -> String {
        match &self.test {
            AtomTest::Equal(list) if list.len() == 1 && self.subject != AclSubject::Tls => {
                format!("{} != {}", self.subject_text(), quoted(&self.value(&list[0])))
            }
            AtomTest::Equal(_) | AtomTest::Networks(_) | AtomTest::Numbers(_) | AtomTest::Between(..) => {
                format!("!({})", self.expression())
            }
            _ if self.is_several() => format!("!({})", self.expression()),
            _ => format!("!{}", self.expression()),
        }
    }

    fn subject_text(&self) -> String {
        let lower = if self.ignore_case && !self.is_always_lower() { ".lowerAscii()" } else { "" };
        format!("{}{lower}", self.name())
    }

    pub(super) fn expression(&self) -> String {
        if self.subject == AclSubject::Tls {
            return "scheme == \"https\"".to_owned();
        }
        let subject = self.subject_text();
        let any = |list: &[String], function: &str| {
            let calls =
                list.iter().map(|text| format!("{subject}.{function}({})", quoted(&self.value(text))));
            calls.collect::<Vec<_>>().join(" || ")
        };
        match &self.test {
            AtomTest::Equal(list) if list.len() == 1 => {
                format!("{subject} == {}", quoted(&self.value(&list[0])))
            }
            AtomTest::Equal(list) => {
                let texts: Vec<String> = list.iter().map(|text| quoted(&self.value(text))).collect();
                format!("{subject} in [{}]", texts.join(", "))
            }
            AtomTest::Begins(list) => any(list, "startsWith"),
            AtomTest::Ends(list) => any(list, "endsWith"),
            AtomTest::Contains(list) => any(list, "contains"),
            AtomTest::Regex(list) => {
                let calls =
                    list.iter().map(|regex| format!("{}.matches({})", self.name(), raw(&self.regex(regex))));
                calls.collect::<Vec<_>>().join(" || ")
            }
            AtomTest::Networks(list) => {
                let name = match &self.subject {
                    AclSubject::Text(name) => format!("ip({name})"),
                    _ => self.name().to_owned(),
                };
                let texts: Vec<String> = list.iter().map(|network| quoted(network)).collect();
                format!("{name} in [{}]", texts.join(", "))
            }
            AtomTest::Numbers(list) => self.numbers(list),
            AtomTest::Between(low, high) => format!("{0} >= {low} && {0} <= {high}", self.number_name()),
            AtomTest::Found => format!("has({})", self.name()),
        }
    }

    fn number_name(&self) -> String {
        match &self.subject {
            AclSubject::Text(name) => format!("int({name})"),
            _ => self.name().to_owned(),
        }
    }

    fn numbers(&self, list: &[(&'static str, i64)]) -> String {
        let name = self.number_name();
        if list.len() > 1 && list.iter().all(|(relation, _)| *relation == "==") {
            let numbers: Vec<String> = list.iter().map(|(_, number)| number.to_string()).collect();
            return format!("{name} in [{}]", numbers.join(", "));
        }
        let relations = list.iter().map(|(relation, number)| format!("{name} {relation} {number}"));
        relations.collect::<Vec<_>>().join(" || ")
    }

    fn regex(&self, regex: &str) -> String {
        if self.ignore_case || self.is_always_lower() { format!("(?i){regex}") } else { regex.to_owned() }
    }

    /// The key of a route that says the same.
    pub(super) fn route_key(&self, facts: ListenerFacts) -> Option<(&'static str, TomlValue)> {
        match (&self.subject, &self.test) {
            (AclSubject::Host, _) => Some(("host", self.host_patterns()?)),
            (AclSubject::Sni, _) if facts.tcp => Some(("sni", self.host_patterns()?)),
            (AclSubject::Path, AtomTest::Equal(list)) if list.len() == 1 && !self.ignore_case => {
                Some(("path_exact", literal(&list[0]).into())).filter(|_| is_plain_path(&list[0]))
            }
            (AclSubject::Path, AtomTest::Begins(list)) if list.len() == 1 && !self.ignore_case => {
                let prefix = &list[0];
                let key = if prefix.ends_with('/') { "path" } else { "path_begins" };
                Some((key, literal(prefix).into())).filter(|_| is_plain_path(prefix))
            }
            (AclSubject::Path, _) => Some(("path_regex", literal(&self.path_regex()?).into())),
            (AclSubject::Method, AtomTest::Equal(list)) => Some(("method", one_or_list(list))),
            (AclSubject::Source, AtomTest::Networks(list)) => Some(("source", one_or_list(list))),
            _ => None,
        }
    }

    fn host_patterns(&self) -> Option<TomlValue> {
        let is_host = |text: &String| {
            let good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
            !text.is_empty() && !text.starts_with('.') && !text.ends_with('.') && text.chars().all(good)
        };
        let patterns: Vec<String> = match &self.test {
            AtomTest::Equal(list) if list.iter().all(is_host) => {
                list.iter().map(|host| host.to_ascii_lowercase()).collect()
            }
            AtomTest::Ends(list) => {
                let suffixes: Option<Vec<String>> = list
                    .iter()
                    .map(|text| text.strip_prefix('.').map(str::to_owned).filter(is_host))
                    .collect();
                suffixes?.iter().map(|suffix| format!("*.{}", suffix.to_ascii_lowercase())).collect()
            }
            _ => return None,
        };
        Some(one_or_list(&patterns))
    }

    /// A regular expression that says the same of the path.
    fn path_regex(&self) -> Option<String> {
        let case = if self.ignore_case { "(?i)" } else { "" };
        let (list, before, after) = match &self.test {
            AtomTest::Begins(list) => (list, "^", ""),
            AtomTest::Ends(list) => (list, "", "$"),
            AtomTest::Contains(list) => (list, "", ""),
            AtomTest::Equal(list) => (list, "^", "$"),
            AtomTest::Regex(list) if list.len() == 1 => return Some(format!("{case}{}", list[0])),
            _ => return None,
        };
        let texts: Vec<String> = list.iter().map(|text| escaped(text)).collect();
        Some(match texts.as_slice() {
            [text] => format!("{case}{before}{text}{after}"),
            _ => format!("{case}{before}({}){after}", texts.join("|")),
        })
    }
}

/// One expression for several comparisons of the path of which one has to hold.
pub(super) fn path_regex_of_any(list: &[AclCondition]) -> Option<(&'static str, TomlValue)> {
    let mut parts = Vec::new();
    for part in list {
        match part {
            AclCondition::Atom(atom) if atom.subject == AclSubject::Path && !atom.ignore_case => {
                parts.push(atom.path_regex()?);
            }
            _ => return None,
        }
    }
    Some(("path_regex", literal(&parts.join("|")).into()))
}

/// The hosts or server names of which one has to be asked for.
pub(super) fn hosts_of_any(list: &[AclCondition], facts: ListenerFacts) -> Option<(&'static str, TomlValue)> {
    let mut patterns: Vec<String> = Vec::new();
    let mut found = None;
    for part in list {
        let AclCondition::Atom(atom) = part else { return None };
        let (key, value) = atom.route_key(facts).filter(|(key, _)| matches!(*key, "host" | "sni"))?;
        if found.is_some_and(|known| known != key) {
            return None;
        }
        found = Some(key);
        match value {
            TomlValue::Text(text) => patterns.push(text),
            TomlValue::Array(texts) => patterns.extend(
                texts
                    .into_iter()
                    .filter_map(|text| if let TomlValue::Text(text) = text { Some(text) } else { None }),
            ),
            _ => return None,
        }
    }
    Some((found?, one_or_list(&patterns)))
}

fn one_or_list(list: &[String]) -> TomlValue {
    match list {
        [one] => one.as_str().into(),
        _ => list.to_vec().into(),
    }
}

fn is_plain_path(text: &str) -> bool {
    text.starts_with('/')
        && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#%\"<>\\^`{}|".contains(&byte))
}

/// With a backslash before each sign that means something in a regular expression.
pub(in crate::haproxy) fn escaped(text: &str) -> String {
    let mut result = String::new();
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&~".contains(character) {
            result.push('\\');
        }
        result.push(character);
    }
    result
}

/// A text in quotes; where it has backslashes, as it stands.
fn quoted(text: &str) -> String {
    if text.contains(['\\', '"']) || text.chars().any(char::is_control) {
        raw(text)
    } else {
        format!("\"{text}\"")
    }
}

fn raw(text: &str) -> String {
    let controls = text.chars().any(char::is_control);
    match (controls || text.contains('"'), controls || text.contains('\'')) {
        (false, _) if !text.contains('\\') => format!("\"{text}\""),
        (false, _) => format!("r\"{text}\""),
        (true, false) => format!("r'{text}'"),
        _ => {
            let escape = |c: char| match c {
                '"' => "\\\"".to_owned(),
                '\\' => "\\\\".to_owned(),
                '\n' => "\\n".to_owned(),
                '\t' => "\\t".to_owned(),
                '\r' => "\\r".to_owned(),
                control if control.is_control() => format!("\\u{:04x}", u32::from(control)),
                other => other.to_string(),
            };
            format!("\"{}\"", text.chars().map(escape).collect::<String>())
        }
    }
}
