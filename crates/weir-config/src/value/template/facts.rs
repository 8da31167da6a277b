//! What a template comes to, by the values of an exchange, or of a request that `weir explain` was given.

use super::{Template, TemplatePart, TemplateValue};

/// Where the values of an exchange come from that templates of a config are made of.
pub trait TemplateFacts {
    /// How many values it has, at least one: of a header that came in several lines, each.
    fn count(&self, value: &TemplateValue) -> usize;

    /// Appends one of them in the form in which lists and limits compare it.
    fn write_nth(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>);

    /// Appends the first one as it is.
    fn write_first(&self, value: &TemplateValue, out: &mut Vec<u8>);
}

impl Template {
    /// How many texts it comes to: every combination of its values.
    pub fn count(&self, facts: &impl TemplateFacts) -> usize {
        self.values().map(|value| facts.count(value)).fold(1, usize::saturating_mul)
    }

    /// Appends one of its texts, with the values in the form in which lists and limits compare them.
    pub fn write_nth(&self, facts: &impl TemplateFacts, nth: usize, out: &mut Vec<u8>) {
        let mut rest = nth;
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Value(value) => {
                    let count = if nth == 0 { 1 } else { facts.count(value) };
                    facts.write_nth(value, rest % count, out);
                    rest /= count;
                }
            }
        }
    }

    /// Appends its text, with the first of each of its values.
    pub fn write_first(&self, facts: &impl TemplateFacts, out: &mut Vec<u8>) {
        for part in &self.parts {
            match part {
                TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
                TemplatePart::Value(value) => facts.write_first(value, out),
            }
        }
    }
}
