//! `expression`: conditions in CEL, which are those of Weir but for the names of values and for matchers that are functions there.

use super::{CaddyMatch, field, network_condition, path_condition, path_expression, quoted, raw};

/// How deep parentheses may be in each other.
const DEPTH_MAX: usize = 16;

/// Reads an expression.
pub(super) fn condition(text: &str) -> Result<String, String> {
    let mut reader = ExpressionReader { rest: text.trim() };
    let condition = reader.any(0)?;
    match reader.peek() {
        "" => Ok(condition),
        rest => Err(not_understood(rest)),
    }
}

struct ExpressionReader<'t> {
    rest: &'t str,
}

/// One side of a comparison.
enum ExpressionOperand {
    /// A value of the request, in the words of Weir.
    Value(String),
    Text(String),
    Number(String),
    List(Vec<ExpressionOperand>),
    /// A whole condition.
    Condition(String),
}

impl ExpressionOperand {
    fn shown(&self) -> Result<String, String> {
        match self {
            ExpressionOperand::Value(text)
            | ExpressionOperand::Number(text)
            | ExpressionOperand::Condition(text) => Ok(text.clone()),
            ExpressionOperand::Text(text) => quoted(text),
            ExpressionOperand::List(items) => {
                let items = items.iter().map(ExpressionOperand::shown).collect::<Result<Vec<_>, _>>()?;
                Ok(format!("[{}]", items.join(", ")))
            }
        }
    }
}

impl<'t> ExpressionReader<'t> {
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

    fn any(&mut self, depth: usize) -> Result<String, String> {
        let mut parts = vec![self.all(depth)?];
        while self.take("||") {
            parts.push(self.all(depth)?);
        }
        Ok(parts.join(" || "))
    }

    fn all(&mut self, depth: usize) -> Result<String, String> {
        let mut parts = vec![self.one(depth)?];
        while self.take("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(parts.join(" && "))
    }

    fn one(&mut self, depth: usize) -> Result<String, String> {
        if depth > DEPTH_MAX {
            return Err("parentheses are too deep in each other".to_owned());
        }
        if !self.peek().starts_with("!=") && self.take("!") {
            let inner = self.one(depth + 1)?;
            return Ok(format!("!({inner})"));
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") { Ok(format!("({inner})")) } else { Err("`)` is missing".to_owned()) };
        }
        let left = self.operand(depth)?;
        if let ExpressionOperand::Condition(condition) = left {
            return Ok(condition);
        }
        for sign in ["==", "!=", "<=", ">=", "<", ">", "in "] {
            if self.take(sign) {
                let right = self.operand(depth)?;
                return Ok(format!("{} {} {}", left.shown()?, sign.trim_end(), right.shown()?));
            }
        }
        Err(not_understood(self.rest))
    }

    fn operand(&mut self, depth: usize) -> Result<ExpressionOperand, String> {
        let rest = self.peek();
        if depth > DEPTH_MAX {
            return Err(not_understood(rest));
        }
        let first = rest.chars().next().unwrap_or(' ');
        match first {
            '{' => {
                let end = rest.find('}').ok_or_else(|| not_understood(rest))?;
                let value = value_of(&rest[1..end])?;
                self.rest = &rest[end + 1..];
                self.method(value, depth)
            }
            '"' | '\'' | '`' => self.text(first).map(ExpressionOperand::Text),
            '[' => {
                self.rest = &rest[1..];
                let mut items = Vec::new();
                while !self.take("]") {
                    items.push(self.operand(depth + 1)?);
                    self.take(",");
                    if items.len() > 1000 || self.peek().is_empty() {
                        return Err(not_understood(rest));
                    }
                }
                Ok(ExpressionOperand::List(items))
            }
            '0'..='9' => {
                let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
                self.rest = &rest[end..];
                Ok(ExpressionOperand::Number(rest[..end].to_owned()))
            }
            _ => self.function(),
        }
    }

    /// `{path}.startsWith('/a')`.
    fn method(&mut self, value: String, depth: usize) -> Result<ExpressionOperand, String> {
        if !self.take(".") {
            return Ok(ExpressionOperand::Value(value));
        }
        for name in ["startsWith", "endsWith", "contains", "matches"] {
            if self.take(name) && self.take("(") {
                let ExpressionOperand::Text(text) = self.operand(depth + 1)? else {
                    return Err(not_understood(self.rest));
                };
                if !self.take(")") {
                    return Err("`)` is missing".to_owned());
                }
                let text = if name == "matches" { raw(&text)? } else { quoted(&text)? };
                return Ok(ExpressionOperand::Condition(format!("{value}.{name}({text})")));
            }
        }
        Err(not_understood(self.rest))
    }

    /// A matcher as a function: `path('/a/*')`, `method('GET')`.
    fn function(&mut self) -> Result<ExpressionOperand, String> {
        let rest = self.peek();
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let name = &rest[..end];
        self.rest = &rest[end..];
        if !self.take("(") {
            return Err(not_understood(rest));
        }
        let mut texts = Vec::new();
        while !self.take(")") {
            let quote = self.peek().chars().next().filter(|c| matches!(c, '"' | '\'' | '`'));
            texts.push(self.text(quote.ok_or_else(|| not_understood(rest))?)?);
            self.take(",");
        }
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let condition = match (name, texts.as_slice()) {
            ("path", paths) => path_condition(&path_expression(paths)?),
            ("path_regexp", [expression] | [_, expression]) => format!("path.matches({})", raw(expression)?),
            ("method", methods) => {
                let methods = methods.iter().map(|method| method.to_ascii_uppercase()).collect();
                let matched = CaddyMatch { methods, ..CaddyMatch::default() };
                matched.condition()?.ok_or("`method` needs a method")?
            }
            ("host", hosts) => {
                let hosts: Vec<String> = hosts.iter().map(|host| super::host_condition(host)).collect();
                format!("({})", hosts.join(" || "))
            }
            ("protocol", [scheme @ ("http" | "https")]) => format!("scheme == \"{scheme}\""),
            ("remote_ip", networks) => network_condition("peer_address", networks)?,
            ("client_ip", networks) => network_condition("client_address", networks)?,
            ("header_regexp", [name, expression] | [_, name, expression]) => {
                format!("{}.matches({})", field(name)?, raw(expression)?)
            }
            _ => return Err(format!("Weir has no counterpart of `{name}` in an expression")),
        };
        Ok(ExpressionOperand::Condition(condition))
    }

    fn text(&mut self, quote: char) -> Result<String, String> {
        let rest = self.peek();
        let mut text = String::new();
        let mut characters = rest[1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                end if end == quote => {
                    self.rest = &rest[at + 2..];
                    return Ok(text);
                }
                '\\' if quote != '`' => match characters.next() {
                    Some((_, escaped @ ('"' | '\'' | '\\'))) => text.push(escaped),
                    Some((_, other)) => text.extend(['\\', other]),
                    None => break,
                },
                other => text.push(other),
            }
        }
        Err(not_understood(rest))
    }
}

fn not_understood(rest: &str) -> String {
    let start: String = rest.chars().take(30).collect();
    format!("the expression is not understood at `{start}`: write it as `when` of the route")
}

/// A placeholder as a value of a condition.
fn value_of(name: &str) -> Result<String, String> {
    let name = name.strip_prefix("http.request.").unwrap_or(name);
    let plain = match name {
        "method" => "method",
        "host" => "host",
        "path" | "uri.path" => "path",
        "query" | "uri.query" => "args",
        "scheme" => "scheme",
        "port" => "port",
        "remote_host" | "remote.host" => "peer_address",
        "client_ip" | "http.vars.client_ip" => "client_address",
        "tls.server_name" => "tls.server_name",
        "err.status_code" | "http.error.status_code" => "status",
        _ => {
            let (kind, rest) = name.strip_prefix("uri.").unwrap_or(name).split_once('.').unwrap_or_default();
            return match kind {
                "header" => field(rest),
                "cookie" | "query" => Ok(format!("{kind}[{}]", quoted(rest)?)),
                _ => Err(format!("conditions have no value for `{{{name}}}`")),
            };
        }
    };
    Ok(plain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_conditions_of_weir() {
        for (text, expected) in [
            ("{method} == 'GET'", "method == \"GET\""),
            (
                "{path}.startsWith('/a') && !({host} == \"a.test\")",
                "path.startsWith(\"/a\") && !((host == \"a.test\"))",
            ),
            (
                "method('get', 'post') || path('/a/*')",
                "method in [\"GET\", \"POST\"] || path.matches(r\"(?i)^/a/\")",
            ),
            ("{http.request.header.X-A} in ['1', '2']", "header[\"x-a\"] in [\"1\", \"2\"]"),
            ("{err.status_code} >= 500", "status >= 500"),
            ("{query} != ''", "args != \"\""),
        ] {
            assert_eq!(condition(text).as_deref(), Ok(expected), "{text}");
        }
        for bad in ["", "{x.y} == 1", "file('/a')", "{path} ==", "(((", "[", "{path}.foo('a')", "'a"] {
            assert!(condition(bad).is_err(), "{bad}");
        }
        assert!(condition(&"(".repeat(100_000)).is_err());
        assert!(condition(&"[".repeat(100_000)).is_err());
    }
}
