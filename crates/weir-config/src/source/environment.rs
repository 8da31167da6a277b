//! Environment variables in string values: `${NAME}`, `${NAME:-default}`, and `$$` for one `$`.
//!
//! They are replaced after the document has been parsed, so that a variable can change a value but never the structure.

use std::ops::Range;

/// Where values of variables come from.
pub(crate) type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Replaces the variables in `value`; `None` when nothing changes.
///
/// `report` gets the bytes of each error, the message and the help text.
pub(super) fn substitute(
    value: &str,
    environment: Environment<'_>,
    report: &mut dyn FnMut(Range<usize>, String, String),
) -> Option<String> {
    if !value.contains('$') {
        return None;
    }
    let mut replaced = String::with_capacity(value.len());
    let mut rest = 0;
    while let Some(offset) = value[rest..].find('$') {
        let dollar = rest + offset;
        replaced.push_str(&value[rest..dollar]);
        let after = &value[dollar + 1..];
        rest = if after.starts_with('$') {
            replaced.push('$');
            dollar + 2
        } else if after.starts_with('{') {
            variable(value, dollar, environment, &mut replaced, report)
        } else {
            replaced.push('$');
            dollar + 1
        };
    }
    replaced.push_str(&value[rest..]);
    (replaced != value).then_some(replaced)
}

/// Replaces the variable that begins at `dollar`; returns where the text continues.
fn variable(
    value: &str,
    dollar: usize,
    environment: Environment<'_>,
    replaced: &mut String,
    report: &mut dyn FnMut(Range<usize>, String, String),
) -> usize {
    let Some(length) = value[dollar..].find('}') else {
        let help = "write `$$` for a literal `$`".to_owned();
        report(dollar..value.len(), "`${` is not closed by `}`".to_owned(), help);
        replaced.push_str(&value[dollar..]);
        return value.len();
    };
    let end = dollar + length + 1;
    let inner = &value[dollar + 2..end - 1];
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_name = !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_name {
        let help = "a variable is `${NAME}` or `${NAME:-default}`; write `$$` for a literal `$`".to_owned();
        report(dollar..end, format!("`{name}` is not the name of an environment variable"), help);
    } else if let Some(found) = environment(name).filter(|found| !(found.is_empty() && default.is_some())) {
        replaced.push_str(&found);
    } else if let Some(default) = default {
        replaced.push_str(default);
    } else {
        let help = format!("set it, or write `${{{name}:-default}}`");
        report(dollar..end, format!("the environment variable `{name}` is not set"), help);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(value: &str) -> (Option<String>, Vec<(Range<usize>, String)>) {
        let environment = |name: &str| match name {
            "HOST" => Some("10.0.0.1".to_owned()),
            "EMPTY" => Some(String::new()),
            "TRICK" => Some("${HOST}\"\nx = 1".to_owned()),
            _ => None,
        };
        let mut diagnostics = Vec::new();
        let replaced =
            substitute(value, &environment, &mut |range, message, _| diagnostics.push((range, message)));
        (replaced, diagnostics)
    }

    #[test]
    fn variables_are_replaced() {
        let cases = [
            ("${HOST}:80", "10.0.0.1:80"),
            ("a${EMPTY}b", "ab"),
            ("${PORT:-8080}", "8080"),
            ("${EMPTY:-8080}", "8080"),
            ("${PORT:-}", ""),
            ("$$", "$"),
            ("$${HOST}", "${HOST}"),
            ("^/a$|${HOST}$", "^/a$|10.0.0.1$"),
            ("é${HOST}é", "é10.0.0.1é"),
        ];
        for (value, expected) in cases {
            assert_eq!(run(value), (Some(expected.to_owned()), Vec::new()), "{value}");
        }
        for value in ["no variable", "cost: 5$", "^/a$"] {
            assert_eq!(run(value), (None, Vec::new()), "{value}");
        }
    }

    #[test]
    fn the_value_of_a_variable_is_not_expanded_again() {
        assert_eq!(run("${TRICK}").0.as_deref(), Some("${HOST}\"\nx = 1"));
    }

    #[test]
    fn diagnostics_have_their_bytes() {
        let cases = [
            ("a ${NOWHERE} b", 2..12, "the environment variable `NOWHERE` is not set"),
            ("${OPEN", 0..6, "`${` is not closed by `}`"),
            ("x${}", 1..4, "`` is not the name of an environment variable"),
            ("${1A}", 0..5, "`1A` is not the name of an environment variable"),
        ];
        for (value, range, message) in cases {
            assert_eq!(run(value).1, [(range, message.to_owned())], "{value}");
        }
    }
}
