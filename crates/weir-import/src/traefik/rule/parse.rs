//! Rules of routers: matchers with texts in quotes, joined by `&&`, `||`, `!` and parentheses.

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::traefik) enum RuleTree {
    /// All of these.
    All(Vec<RuleTree>),
    /// One of these.
    Any(Vec<RuleTree>),
    Not(Box<RuleTree>),
    /// A matcher by its name in small letters, and its texts.
    Matcher(String, Vec<String>),
}

/// How deep parentheses may be in each other.
const DEPTH_MAX: usize = 16;

struct RuleTextReader<'t> {
    rest: &'t str,
}

impl RuleTree {
    /// Reads a rule.
    pub(in crate::traefik) fn parse(text: &str) -> Result<RuleTree, String> {
        let mut reader = RuleTextReader { rest: text };
        let tree = reader.any(0)?;
        match reader.peek() {
            "" => Ok(tree),
            rest => Err(format!("`{}` is not understood", start_of(rest))),
        }
    }
}

impl<'t> RuleTextReader<'t> {
    fn peek(&mut self) -> &'t str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn take(&mut self, sign: &str) -> bool {
        let found = self.peek().strip_prefix(sign);
        if let Some(rest) = found {
            self.rest = rest;
        }
        found.is_some()
    }

    fn any(&mut self, depth: usize) -> Result<RuleTree, String> {
        let mut parts = vec![self.all(depth)?];
        while self.take("||") {
            parts.push(self.all(depth)?);
        }
        Ok(joined(parts, RuleTree::Any))
    }

    fn all(&mut self, depth: usize) -> Result<RuleTree, String> {
        let mut parts = vec![self.one(depth)?];
        while self.take("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(joined(parts, RuleTree::All))
    }

    fn one(&mut self, depth: usize) -> Result<RuleTree, String> {
        if depth > DEPTH_MAX {
            return Err("parentheses are too deep in each other".to_owned());
        }
        if self.take("!") {
            return Ok(RuleTree::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err("`)` is missing".to_owned()) };
        }
        let rest = self.peek();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let name = &rest[..end];
        self.rest = &rest[end..];
        if name.is_empty() || !self.take("(") {
            return Err(format!("`{}` is not understood", start_of(rest)));
        }
        let mut texts = Vec::new();
        while !self.take(")") {
            texts.push(self.text()?);
            self.take(",");
        }
        Ok(RuleTree::Matcher(name.to_ascii_lowercase(), texts))
    }

    /// A text in backticks or in quotes.
    fn text(&mut self) -> Result<String, String> {
        let rest = self.peek();
        let error = || format!("a text in backticks is expected at `{}`", start_of(rest));
        if let Some(inner) = rest.strip_prefix('`') {
            let end = inner.find('`').ok_or_else(error)?;
            self.rest = &inner[end + 1..];
            return Ok(inner[..end].to_owned());
        }
        let inner = rest.strip_prefix('"').ok_or_else(error)?;
        let mut text = String::new();
        let mut characters = inner.char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.rest = &inner[at + 1..];
                    return Ok(text);
                }
                '\\' => match characters.next() {
                    Some((_, escaped @ ('"' | '\\'))) => text.push(escaped),
                    _ => {
                        return Err(
                            "an escape that is not understood: write the text in backticks".to_owned()
                        );
                    }
                },
                other => text.push(other),
            }
        }
        Err(error())
    }
}

/// Several parts, or the only one; parts of the same kind are taken in.
fn joined(parts: Vec<RuleTree>, kind: fn(Vec<RuleTree>) -> RuleTree) -> RuleTree {
    let is_all = matches!(kind(Vec::new()), RuleTree::All(_));
    let mut flat = Vec::new();
    for part in parts {
        match part {
            RuleTree::All(inner) if is_all => flat.extend(inner),
            RuleTree::Any(inner) if !is_all => flat.extend(inner),
            other => flat.push(other),
        }
    }
    match flat.pop() {
        Some(only) if flat.is_empty() => only,
        Some(last) => {
            flat.push(last);
            kind(flat)
        }
        None => kind(flat),
    }
}

fn start_of(text: &str) -> String {
    text.chars().take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(name: &str, text: &str) -> RuleTree {
        RuleTree::Matcher(name.to_owned(), vec![text.to_owned()])
    }

    #[test]
    fn rules_are_read_with_their_precedence() {
        let rule = RuleTree::parse("Host(`a`) && (PathPrefix(\"/x\") || !Method(`GET`))").unwrap();
        let expected = RuleTree::All(vec![
            matcher("host", "a"),
            RuleTree::Any(vec![
                matcher("pathprefix", "/x"),
                RuleTree::Not(Box::new(matcher("method", "GET"))),
            ]),
        ]);
        assert_eq!(rule, expected);
        let rule = RuleTree::parse("Host(`a`, `b`)||Host(`c`)").unwrap();
        let two = RuleTree::Matcher("host".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(rule, RuleTree::Any(vec![two, matcher("host", "c")]));
    }

    #[test]
    fn what_is_no_rule_is_an_error() {
        for bad in ["", "Host(a)", "Host(`a`", "Host(`a`) &&", "(Host(`a`)", "Host(`a`) Path(`b`)", "!"] {
            assert!(RuleTree::parse(bad).is_err(), "{bad}");
        }
        assert!(RuleTree::parse(&"(".repeat(100_000)).is_err());
    }
}
