//! Matchers of rules, those of version 2 and 3 of Traefik.

use super::parse::RuleTree;

/// What one matcher asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleTerm {
    /// Every request.
    Everything,
    /// One of these hosts; `*.` for all below one.
    Hosts(Vec<String>),
    HostRegex(String),
    /// One of these paths, or what begins so; whether it is the whole path.
    Paths(Vec<(String, bool)>),
    PathRegex(String),
    Methods(Vec<String>),
    Header(String, TermText),
    Query(String, TermText),
    /// One of these networks.
    Clients(Vec<String>),
}

/// What a value has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TermText {
    Exact(String),
    Regex(String),
}

/// A rule of terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RuleCondition {
    All(Vec<RuleCondition>),
    Any(Vec<RuleCondition>),
    Not(Box<RuleCondition>),
    Term(RuleTerm),
}

impl RuleCondition {
    /// Reads the matchers of a rule.
    pub(super) fn read(tree: &RuleTree) -> Result<RuleCondition, String> {
        let all = |parts: &[RuleTree]| parts.iter().map(RuleCondition::read).collect::<Result<Vec<_>, _>>();
        Ok(match tree {
            RuleTree::All(parts) => RuleCondition::all(all(parts)?),
            RuleTree::Any(parts) => RuleCondition::any(all(parts)?),
            RuleTree::Not(inner) => RuleCondition::Not(Box::new(RuleCondition::read(inner)?)),
            RuleTree::Matcher(name, texts) => matcher(name, texts)?,
        })
    }

    /// What holds wherever a rule does, of which some matchers cannot be said.
    pub(super) fn at_most(tree: &RuleTree) -> RuleCondition {
        match tree {
            RuleTree::All(parts) => RuleCondition::all(parts.iter().map(RuleCondition::at_most).collect()),
            RuleTree::Any(parts) => RuleCondition::any(parts.iter().map(RuleCondition::at_most).collect()),
            other => RuleCondition::read(other).unwrap_or(RuleCondition::Term(RuleTerm::Everything)),
        }
    }

    fn all(mut parts: Vec<RuleCondition>) -> RuleCondition {
        parts.retain(|part| *part != RuleCondition::Term(RuleTerm::Everything));
        match parts.len() {
            0 => RuleCondition::Term(RuleTerm::Everything),
            1 => parts.remove(0),
            _ => RuleCondition::All(parts),
        }
    }

    /// One of these; terms of one kind are one.
    fn any(parts: Vec<RuleCondition>) -> RuleCondition {
        let mut joined: Vec<RuleCondition> = Vec::new();
        for part in parts {
            if part == RuleCondition::Term(RuleTerm::Everything) {
                return part;
            }
            let taken = joined.iter_mut().any(|known| match (known, &part) {
                (RuleCondition::Term(known), RuleCondition::Term(part)) => known.take_in(part),
                _ => false,
            });
            if !taken {
                joined.push(part);
            }
        }
        match joined.len() {
            1 => joined.remove(0),
            _ => RuleCondition::Any(joined),
        }
    }
}

impl RuleTerm {
    /// Adds what another term of the same kind asks for, of which one is enough.
    fn take_in(&mut self, other: &RuleTerm) -> bool {
        match (self, other) {
            (RuleTerm::Hosts(own), RuleTerm::Hosts(new))
            | (RuleTerm::Methods(own), RuleTerm::Methods(new))
            | (RuleTerm::Clients(own), RuleTerm::Clients(new)) => {
                let new: Vec<_> = new.iter().filter(|one| !own.contains(one)).cloned().collect();
                own.extend(new);
                true
            }
            (RuleTerm::Paths(own), RuleTerm::Paths(new)) => {
                own.extend(new.iter().cloned());
                true
            }
            _ => false,
        }
    }
}

fn matcher(name: &str, texts: &[String]) -> Result<RuleCondition, String> {
    let term = |term| Ok(RuleCondition::Term(term));
    let one = || match texts {
        [text] => Ok(text.as_str()),
        _ => Err(format!("`{name}` needs one text")),
    };
    if texts.is_empty() {
        return Err(format!("`{name}` needs a text"));
    }
    match name {
        "host" | "hostheader" => {
            let hosts = texts.iter().map(|host| host.trim_end_matches('.').to_ascii_lowercase());
            term(RuleTerm::Hosts(hosts.collect()))
        }
        "hostregexp" => Ok(RuleCondition::any(texts.iter().map(|text| host_regex(text)).collect())),
        "path" | "pathprefix" => {
            let own = texts.iter().map(|text| path(text, name == "path"));
            Ok(RuleCondition::any(own.collect::<Result<_, _>>()?))
        }
        "pathregexp" => term(RuleTerm::PathRegex(one()?.to_owned())),
        "method" => term(RuleTerm::Methods(texts.iter().map(|text| text.to_ascii_uppercase()).collect())),
        "header" | "headers" | "headerregexp" | "headersregexp" => {
            let pairs = texts.chunks(2).map(|pair| match pair {
                [name, value] => Ok((name.to_ascii_lowercase(), value.clone())),
                _ => Err("a header needs a value".to_owned()),
            });
            let is_regex = name.ends_with("regexp");
            let pairs = pairs.collect::<Result<Vec<_>, String>>()?;
            let terms = pairs.into_iter().map(|(name, value)| {
                let text = if is_regex { TermText::Regex(value) } else { TermText::Exact(value) };
                RuleCondition::Term(RuleTerm::Header(name, text))
            });
            Ok(RuleCondition::all(terms.collect()))
        }
        "query" => Ok(query(texts)),
        "queryregexp" => match texts {
            [name] => Ok(query(std::slice::from_ref(name))),
            [name, value] => term(RuleTerm::Query(name.clone(), TermText::Regex(value.clone()))),
            _ => Err("`QueryRegexp` needs a name and an expression".to_owned()),
        },
        "clientip" => {
            term(RuleTerm::Clients(texts.iter().map(|text| crate::networks::network(text)).collect()))
        }
        _ => Err(format!("Weir has no counterpart of `{name}`")),
    }
}

/// `Query("a", "b")` of version 3, or `Query("a=b", "c=d")` of version 2, which asks for all.
fn query(texts: &[String]) -> RuleCondition {
    let pair = |name: &str, value: &str| {
        let text = match is_template(value) {
            true => TermText::Regex(template_regex(value, "[^&]+")),
            false => TermText::Exact(value.to_owned()),
        };
        RuleCondition::Term(RuleTerm::Query(name.to_owned(), text))
    };
    match texts {
        [name, value] if !name.contains('=') => pair(name, value),
        _ => {
            let pairs = texts.iter().map(|text| text.split_once('=').unwrap_or((text, "")));
            RuleCondition::all(pairs.map(|(name, value)| pair(name, value)).collect())
        }
    }
}

fn host_regex(text: &str) -> RuleCondition {
    let expression = match is_template(text) {
        true => template_regex(&text.to_ascii_lowercase(), "[^.]+"),
        false => text.to_owned(),
    };
    let inner = expression.strip_prefix('^').unwrap_or(&expression);
    let inner = inner.strip_suffix('$').unwrap_or(inner);
    if matches!(inner, "" | ".+" | ".*" | "(.+)" | "(.*)" | "(?:.+)" | "(?:.*)") {
        return RuleCondition::Term(RuleTerm::Everything);
    }
    let below = [".+\\.", "(.+)\\.", "(?:.+)\\."].iter().find_map(|begin| inner.strip_prefix(begin));
    let below = below.filter(|_| expression.ends_with('$')).map(|rest| rest.replace("\\.", "."));
    let is_name =
        |name: &String| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-.".contains(&byte));
    RuleCondition::Term(match below.filter(is_name) {
        Some(name)
            if !inner.ends_with('.') && inner.matches("\\.").count() == name.matches('.').count() + 1 =>
        {
            RuleTerm::Hosts(vec![format!("*.{name}")])
        }
        _ => RuleTerm::HostRegex(expression),
    })
}

fn path(text: &str, is_exact: bool) -> Result<RuleCondition, String> {
    if !text.starts_with('/') {
        return Err(format!("the path `{text}` does not begin with a slash"));
    }
    if is_template(text) {
        let mut expression = template_regex(text, "[^/]+");
        if !is_exact {
            expression.truncate(expression.len() - 1);
        }
        return Ok(RuleCondition::Term(RuleTerm::PathRegex(expression)));
    }
    if text == "/" && !is_exact {
        return Ok(RuleCondition::Term(RuleTerm::Everything));
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~!$&'()*+,;=:@".contains(c);
    let has_dots = text.split('/').any(|segment| matches!(segment, "." | ".."));
    if !text.chars().all(is_plain) || has_dots || text.contains("//") {
        return Err(format!("`{text}` is no path in its normal form: say it as `path_regex`"));
    }
    Ok(RuleCondition::Term(RuleTerm::Paths(vec![(text.to_owned(), is_exact)])))
}

/// Whether a text has the groups of version 2: `{name}` or `{name:expression}`.
fn is_template(text: &str) -> bool {
    text.match_indices('{').any(|(at, _)| {
        let rest = &text[at + 1..];
        rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && rest.contains('}')
    })
}

/// A text of version 2 as a regular expression for the whole.
fn template_regex(text: &str, usual: &str) -> String {
    let mut expression = String::from("^");
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        expression.push_str(&escaped(&rest[..at]));
        // Braces within an expression count.
        let mut depth = 0_usize;
        let end = rest[at..].find(|c: char| {
            depth = match c {
                '{' => depth + 1,
                '}' => depth.saturating_sub(1),
                _ => depth,
            };
            depth == 0
        });
        let Some(end) = end else { break };
        let group = &rest[at + 1..at + end];
        match group.split_once(':') {
            Some((_, own)) if matches!(own, ".+" | ".*") => expression.push_str(own),
            Some((_, own)) => expression.push_str(&format!("(?:{own})")),
            None => expression.push_str(usual),
        }
        rest = &rest[at + end + 1..];
    }
    expression.push_str(&escaped(rest));
    expression.push('$');
    expression
}

/// A text in a regular expression.
pub(in crate::traefik) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        if "\\.+*?()|[]{}^$#&~".contains(character) && !"#&~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(rule: &str, expected: RuleTerm) {
        let read = RuleCondition::read(&RuleTree::parse(rule).unwrap()).unwrap();
        assert_eq!(read, RuleCondition::Term(expected), "{rule}");
    }

    #[test]
    fn matchers_of_both_versions_are_read() {
        let hosts = |hosts: &[&str]| RuleTerm::Hosts(hosts.iter().map(|host| (*host).to_owned()).collect());
        check("Host(`A.test`, `b.test`)", hosts(&["a.test", "b.test"]));
        check("Host(`a.test`) || Host(`b.test`)", hosts(&["a.test", "b.test"]));
        check("HostRegexp(`^.+\\.a\\.test$`)", hosts(&["*.a.test"]));
        check("HostRegexp(`{sub:.+}.a.test`)", hosts(&["*.a.test"]));
        check("HostRegexp(`{any:.*}`)", RuleTerm::Everything);
        check(
            "HostRegexp(`{sub:[a-z]{2}}.a.test`)",
            RuleTerm::HostRegex("^(?:[a-z]{2})\\.a\\.test$".to_owned()),
        );
        check("Path(`/a/{id:[0-9]+}`)", RuleTerm::PathRegex("^/a/(?:[0-9]+)$".to_owned()));
        check("PathPrefix(`/a/{id}/b`)", RuleTerm::PathRegex("^/a/[^/]+/b".to_owned()));
        check("PathPrefix(`/`) && Method(`get`)", RuleTerm::Methods(vec!["GET".to_owned()]));
        check("Query(`a=b`)", RuleTerm::Query("a".to_owned(), TermText::Exact("b".to_owned())));
        check("Query(`a`, `b`)", RuleTerm::Query("a".to_owned(), TermText::Exact("b".to_owned())));
    }
}
