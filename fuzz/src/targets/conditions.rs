//! Conditions: the first line is one, the others are what its names come to. What can be read means the same when it is read again, in
//! parentheses, negated twice, and shown comparison by comparison; and takes no more steps than it has comparisons.

use std::cell::Cell;
use std::net::IpAddr;

use weir_conditions::Facts;
use weir_config::{TemplateValue, WhenCondition};

/// The longest condition that is tried: of longer ones, those that it is put into are too long.
const CONDITION_MAX: usize = 4_000;

/// Values of an exchange: the lines of the input, by the name that asks.
struct InputLines<'a> {
    lines: Vec<&'a [u8]>,
    asked: Cell<usize>,
}

impl InputLines<'_> {
    /// The texts of a value: none, one or two lines.
    fn texts(&self, value: &TemplateValue) -> &[&[u8]] {
        let name = value.name();
        let sum = name.bytes().map(usize::from).sum::<usize>();
        let start = sum % (self.lines.len() + 1);
        &self.lines[start..(start + sum % 3).min(self.lines.len())]
    }
}

impl Facts<TemplateValue> for InputLines<'_> {
    fn any_text(&self, value: &TemplateValue, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        self.asked.set(self.asked.get() + 1);
        match self.texts(value) {
            [] => passes(b""),
            texts => texts.iter().any(|text| passes(text)),
        }
    }

    fn is_present(&self, value: &TemplateValue) -> bool {
        self.asked.set(self.asked.get() + 1);
        !self.texts(value).is_empty()
    }

    fn number(&self, value: &TemplateValue) -> Option<i64> {
        self.asked.set(self.asked.get() + 1);
        std::str::from_utf8(self.texts(value).first()?).ok()?.parse().ok()
    }

    fn address(&self, value: &TemplateValue) -> Option<IpAddr> {
        self.asked.set(self.asked.get() + 1);
        std::str::from_utf8(self.texts(value).first()?).ok()?.parse().ok()
    }

    fn flag(&self, _value: &TemplateValue) -> bool {
        self.asked.set(self.asked.get() + 1);
        false
    }
}

/// Fails when `input` shows a fault.
///
/// # Panics
/// When it does.
pub fn check(input: &[u8]) {
    let mut lines = input.split(|byte| *byte == b'\n');
    let Ok(text) = std::str::from_utf8(lines.next().unwrap_or_default()) else { return };
    let condition: WhenCondition = match text.parse() {
        Ok(condition) => condition,
        Err(error) => {
            let range = error.range.expect("what is wrong has its place");
            assert!(text.get(range).is_some(), "the place is one in the text");
            return;
        }
    };
    let facts = InputLines { lines: lines.collect(), asked: Cell::new(0) };
    let holds = condition.holds(&facts);
    let terms = condition.terms().count();
    // Two texts that are compared are each counted, then compared.
    assert!(facts.asked.get() <= 6 * terms, "{} questions for {terms} comparisons", facts.asked.get());
    let (traced, outcomes) = condition.trace(&facts);
    assert_eq!((traced, outcomes.len()), (holds, terms));
    assert!(outcomes.iter().all(|outcome| text.get(outcome.span.clone()).is_some()));
    if text.len() > CONDITION_MAX {
        return;
    }
    for (other, expected) in [
        (text.to_owned(), holds),
        (format!("({text})"), holds),
        (format!("!({text})"), !holds),
        (format!("false || ({text})"), holds),
        (format!("true && ({text})"), holds),
    ] {
        // In parentheses it may be one level, and with another comparison one, too deep.
        if let Ok(other) = other.parse::<WhenCondition>() {
            assert_eq!(other.holds(&facts), expected, "{other}");
        }
    }
}
