//! Keys and their values. Traefik does not mind capital letters in keys; what is read counts as understood.

use crate::report::Ledger;
use crate::source::Statement;

/// A key as Traefik compares it.
pub(super) fn key(statement: &Statement) -> String {
    statement.name().to_ascii_lowercase()
}

/// The key of this name, in small letters, in a block.
pub(super) fn child<'s>(statement: &'s Statement, name: &str) -> Option<&'s Statement> {
    statement.children().iter().find(|child| child.name().eq_ignore_ascii_case(name))
}

/// All values of a key.
pub(super) fn values<'s>(ledger: &Ledger, statement: &'s Statement) -> Vec<&'s str> {
    ledger.words(statement).rest();
    statement.words.iter().skip(1).map(|word| word.text.as_str()).collect()
}

/// The values of a list that may be written as one text with commas.
pub(super) fn names<'s>(ledger: &Ledger, statement: &'s Statement) -> Vec<&'s str> {
    let values = values(ledger, statement).into_iter().flat_map(|value| value.split(','));
    values.map(str::trim).filter(|value| !value.is_empty()).collect()
}

/// The one value of a key; empty where it has none or several.
pub(super) fn value<'s>(ledger: &Ledger, statement: &'s Statement) -> &'s str {
    match statement.words.as_slice() {
        [_, value] => {
            ledger.words(statement).rest();
            value.text.as_str()
        }
        _ => "",
    }
}

/// The value of a key of a block, if it is there.
pub(super) fn value_of<'s>(ledger: &Ledger, statement: &'s Statement, name: &str) -> Option<&'s str> {
    child(statement, name).map(|child| value(ledger, child))
}

/// Whether a key says `true`.
pub(super) fn is_true(ledger: &Ledger, statement: &Statement) -> bool {
    // As YAML 1.1 has it, too.
    let text = value(ledger, statement).to_ascii_lowercase();
    ["true", "1", "t", "yes", "y", "on"].contains(&text.as_str())
}

/// A number that is not negative.
pub(super) fn number(ledger: &Ledger, statement: &Statement) -> Option<i64> {
    value(ledger, statement).parse::<i64>().ok().filter(|number| *number >= 0)
}

/// A time; a number alone is one of seconds. In milliseconds.
pub(super) fn milliseconds(text: &str) -> Option<u64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return seconds.checked_mul(1000);
    }
    let mut total: u64 = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let amount: f64 = rest[..digits].parse().ok()?;
        let unit_len = rest[digits..].find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len() - digits);
        let factor = match &rest[digits..digits + unit_len] {
            "ms" => 1.0,
            "s" => 1000.0,
            "m" => 60_000.0,
            "h" => 3_600_000.0,
            _ => return None,
        };
        let own = amount * factor;
        if !(0.0..1e15).contains(&own) {
            return None;
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is within 0 and 1e15"
        )]
        let own = own.round() as u64;
        total = total.checked_add(own)?;
        rest = &rest[digits + unit_len..];
    }
    (!text.is_empty()).then_some(total)
}

/// A time in the largest unit that says it.
pub(super) fn shown_time(milliseconds: u64) -> String {
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s"), (1, "ms")];
    let unit =
        units.into_iter().find(|(unit, _)| milliseconds >= *unit && milliseconds.is_multiple_of(*unit));
    unit.map_or_else(|| "0s".to_owned(), |(unit, name)| format!("{}{name}", milliseconds / unit))
}

/// The time that a key says, in the words of Weir.
pub(super) fn duration(ledger: &Ledger, statement: &Statement) -> Option<String> {
    milliseconds(value(ledger, statement)).filter(|time| *time > 0).map(shown_time)
}

/// A statement that is not supported, with all in it.
pub(super) fn refuse(ledger: &Ledger, statement: &Statement, advice: &str) {
    ledger.unsupported(statement, advice);
    statement.children().iter().for_each(|child| refuse(ledger, child, advice));
}

/// A statement without meaning, with all in it.
pub(super) fn ignore(ledger: &Ledger, statement: &Statement, why: &str) {
    ledger.meaningless(statement, why);
    statement.children().iter().for_each(|child| ignore(ledger, child, why));
}

/// A statement that nothing has asked for, with all in it.
pub(super) fn ignore_unused(ledger: &Ledger, statement: &Statement, why: &str) {
    if !ledger.is_settled(statement) {
        ignore(ledger, statement, why);
    }
}

/// A name of Weir: letters, digits, `-`, `_` and `.`, at most 64 of them.
pub(super) fn name(text: &str) -> String {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let name: String = text.chars().map(|c| if is_of_name(c) { c } else { '-' }).take(60).collect();
    match name.trim_matches(['-', '.']) {
        "" => "app".to_owned(),
        name => name.to_owned(),
    }
}

/// A text as Weir takes it literally: `${` would be a variable of the environment, and `$$` one dollar.
pub(super) fn literal(text: &str) -> String {
    text.replace("$$", "$$$$").replace("${", "$${")
}

/// The same for texts with placeholders, in which braces are doubled.
pub(super) fn template(text: &str) -> String {
    literal(&text.replace('{', "{{").replace('}', "}}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_go_or_seconds() {
        for (text, expected) in [
            ("10s", "10s"),
            ("1m30s", "90s"),
            ("30", "30s"),
            ("500ms", "500ms"),
            ("1.5s", "1500ms"),
            ("1h", "1h"),
        ] {
            assert_eq!(milliseconds(text).map(shown_time).as_deref(), Some(expected), "{text}");
        }
        for bad in ["", "s", "-1s", "1w", "1e400s"] {
            assert_eq!(milliseconds(bad), None, "{bad}");
        }
    }
}
