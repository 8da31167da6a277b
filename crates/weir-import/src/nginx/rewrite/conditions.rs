//! Conditions of `if`, and of what stands around a location, in Weir's language.

use std::fmt;

use crate::nginx::regexes::NginxPattern;

/// A condition that is put together from others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::nginx) enum NginxTest {
    /// It holds always, or never.
    Known(bool),
    /// A comparison in Weir's words.
    Text(String),
    Not(Box<NginxTest>),
    All(Vec<NginxTest>),
    Any(Vec<NginxTest>),
}

impl NginxTest {
    pub(in crate::nginx) fn text(text: impl Into<String>) -> NginxTest {
        NginxTest::Text(text.into())
    }

    /// Whether a value, by its name in conditions, has a match of a pattern.
    pub(in crate::nginx) fn matches(name: &str, pattern: &NginxPattern) -> NginxTest {
        let one = |text: &str, wanted: bool| NginxTest::text(found(name, text)).negated_unless(wanted);
        let beside = pattern.beside.iter().map(|(text, wanted)| one(text, *wanted));
        NginxTest::all(std::iter::once(one(&pattern.text, true)).chain(beside))
    }

    /// Whether the path begins so.
    pub(in crate::nginx) fn begins(prefix: &str) -> NginxTest {
        NginxTest::text(format!("path.startsWith({})", quoted(prefix)))
    }

    pub(in crate::nginx) fn negated_unless(self, wanted: bool) -> NginxTest {
        if wanted { self } else { self.not() }
    }

    pub(in crate::nginx) fn not(self) -> NginxTest {
        match self {
            NginxTest::Known(known) => NginxTest::Known(!known),
            NginxTest::Not(inner) => *inner,
            other => NginxTest::Not(Box::new(other)),
        }
    }

    pub(in crate::nginx) fn all(parts: impl IntoIterator<Item = NginxTest>) -> NginxTest {
        let mut flat = Vec::new();
        for part in parts {
            match part {
                NginxTest::Known(true) => {}
                NginxTest::Known(false) => return NginxTest::Known(false),
                NginxTest::All(inner) => {
                    let fresh: Vec<NginxTest> = inner.into_iter().filter(|one| !flat.contains(one)).collect();
                    flat.extend(fresh);
                }
                other if flat.contains(&other) => {}
                other => flat.push(other),
            }
        }
        if flat.iter().any(|one| flat.contains(&one.clone().not())) {
            return NginxTest::Known(false);
        }
        match flat.len() {
            0 => NginxTest::Known(true),
            1 => flat.remove(0),
            _ => NginxTest::All(flat),
        }
    }

    pub(in crate::nginx) fn any(parts: impl IntoIterator<Item = NginxTest>) -> NginxTest {
        match NginxTest::all(parts.into_iter().map(NginxTest::not)).not() {
            NginxTest::Not(inner) => match *inner {
                NginxTest::All(parts) => NginxTest::Any(parts.into_iter().map(NginxTest::not).collect()),
                other => other.not(),
            },
            other => other,
        }
    }

    /// How long it is, to bound what conditions multiply to.
    pub(in crate::nginx) fn size(&self) -> usize {
        match self {
            NginxTest::Known(_) => 0,
            NginxTest::Text(_) => 1,
            NginxTest::Not(inner) => inner.size(),
            NginxTest::All(parts) | NginxTest::Any(parts) => parts.iter().map(NginxTest::size).sum(),
        }
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, within: bool) -> fmt::Result {
        let joined = |f: &mut fmt::Formatter<'_>, parts: &[NginxTest], sign: &str| {
            if within {
                f.write_str("(")?;
            }
            for (index, part) in parts.iter().enumerate() {
                if index > 0 {
                    write!(f, " {sign} ")?;
                }
                part.write(f, true)?;
            }
            if within { f.write_str(")") } else { Ok(()) }
        };
        match self {
            NginxTest::Known(known) => {
                write!(f, "{}", if *known { "size(path) > 0" } else { "size(path) < 0" })
            }
            NginxTest::Text(text) => f.write_str(text),
            NginxTest::Not(inner) => match &**inner {
                NginxTest::Text(text) => match opposite(text) {
                    Some(opposite) => f.write_str(&opposite),
                    None if text.contains(" in ") => write!(f, "!({text})"),
                    None => write!(f, "!{text}"),
                },
                other => {
                    f.write_str("!")?;
                    other.write(f, true)
                }
            },
            NginxTest::All(parts) => joined(f, parts, "&&"),
            NginxTest::Any(parts) => joined(f, parts, "||"),
        }
    }
}

impl fmt::Display for NginxTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, false)
    }
}

/// `a == b` for `a != b`, and the other way round; nothing else has an opposite in one comparison.
fn opposite(text: &str) -> Option<String> {
    let (name, rest) = text.split_once(' ')?;
    let is_one = |text: &str| !text.contains(" && ") && !text.contains(" || ");
    if name.contains('(') || !is_one(text) {
        return None;
    }
    let swapped = rest.strip_prefix("== ").map(|value| format!("{name} != {value}"));
    swapped.or_else(|| rest.strip_prefix("!= ").map(|value| format!("{name} == {value}")))
}

/// A match in a value. What is a plain text in the expression is asked for as such.
fn found(name: &str, pattern: &str) -> String {
    let plain = |text: &str| {
        !text.is_empty()
            && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_' | ' ' | '%'))
    };
    let unescaped = |text: &str| text.replace("\\.", ".");
    let is_plain = |text: &str| plain(&text.replace("\\.", ""));
    let (name, pattern) = match pattern.strip_prefix("(?i)") {
        Some(rest) if is_plain(rest.trim_start_matches('^').trim_end_matches('$')) => {
            (format!("{name}.lowerAscii()"), rest.to_ascii_lowercase())
        }
        _ => (name.to_owned(), pattern.to_owned()),
    };
    if let Some(names) = alternatives(&pattern) {
        return format!("{name} in [{}]", names.iter().map(|one| quoted(one)).collect::<Vec<_>>().join(", "));
    }
    let core = pattern.strip_prefix('^').unwrap_or(&pattern);
    let core = core.strip_suffix('$').unwrap_or(core);
    if is_plain(core) {
        let value = quoted(&unescaped(core));
        match (pattern.starts_with('^'), pattern.ends_with('$')) {
            (true, true) => return format!("{name} == {value}"),
            (true, false) => return format!("{name}.startsWith({value})"),
            (false, true) => return format!("{name}.endsWith({value})"),
            (false, false) => return format!("{name}.contains({value})"),
        }
    }
    format!("{name}.matches({})", raw(&pattern))
}

/// `^(GET|HEAD)$`: the texts.
fn alternatives(pattern: &str) -> Option<Vec<&str>> {
    let inner = pattern.strip_prefix("^(")?.strip_suffix(")$")?;
    let inner = inner.strip_prefix("?:").unwrap_or(inner);
    let is_plain = |text: &&str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '-' | '_'))
    };
    let names: Vec<&str> = inner.split('|').collect();
    names.iter().all(is_plain).then_some(names)
}

/// A text in quotes.
pub(in crate::nginx) fn quoted(text: &str) -> String {
    if text.contains(['"', '\\']) || text.chars().any(char::is_control) {
        return format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    }
    format!("\"{text}\"")
}

/// An expression in quotes in which a backslash is one.
fn raw(pattern: &str) -> String {
    let raw = if pattern.contains('\\') { "r" } else { "" };
    match (pattern.contains('"'), pattern.contains('\'')) {
        (false, _) => format!("{raw}\"{pattern}\""),
        (true, false) => format!("{raw}'{pattern}'"),
        (true, true) => format!("{raw}\"{}\"", pattern.replace('"', "\\x22")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_written_as_a_person_would() {
        let a = || NginxTest::text("method == \"POST\"");
        let b = || NginxTest::text("has(header[\"x\"])");
        for (test, expected) in [
            (a().not(), "method != \"POST\""),
            (NginxTest::all([a(), b().not()]), "method == \"POST\" && !has(header[\"x\"])"),
            (
                NginxTest::any([a(), NginxTest::all([a().not(), b()])]),
                "method == \"POST\" || (method != \"POST\" && has(header[\"x\"]))",
            ),
            (NginxTest::all([a(), a(), NginxTest::Known(true)]), "method == \"POST\""),
        ] {
            assert_eq!(test.to_string(), expected);
        }
        assert_eq!(NginxTest::all([a(), a().not()]), NginxTest::Known(false));
        assert_eq!(NginxTest::any([a(), NginxTest::Known(true)]), NginxTest::Known(true));
    }

    #[test]
    fn plain_expressions_are_texts() {
        for (pattern, expected) in [
            ("^/a/", "path.startsWith(\"/a/\")"),
            (r"\.php$", "path.endsWith(\".php\")"),
            ("(?i)Bot", "path.lowerAscii().contains(\"bot\")"),
            ("^/(a|b)", "path.matches(\"^/(a|b)\")"),
            (r"\d+", "path.matches(r\"\\d+\")"),
            ("^(a|b)$", "path in [\"a\", \"b\"]"),
        ] {
            let pattern = NginxPattern { text: pattern.to_owned(), beside: Vec::new() };
            assert_eq!(NginxTest::matches("path", &pattern).to_string(), expected);
        }
    }
}
