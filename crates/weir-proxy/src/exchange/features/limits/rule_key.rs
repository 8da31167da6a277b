//! The texts that the key of a list or a limit comes to in a request: one, or several where a header that it names came in several lines, or a cookie or
//! a parameter several times.
//!
//! Every line counts, since a server may believe any of them. Must not decide what follows from a text.

use weir_config::{Template, TemplatePart, TemplateValue};

use crate::exchange::placeholders::TemplateValues;

/// A key in one request.
pub(in crate::exchange) struct RuleKey<'a> {
    values: &'a TemplateValues<'a>,
    key: &'a Template,
    count: usize,
}

impl<'a> RuleKey<'a> {
    pub(in crate::exchange) fn new(values: &'a TemplateValues<'a>, key: &'a Template) -> Self {
        let count = key.values().map(|value| values.count(value)).fold(1, usize::saturating_mul);
        Self { values, key, count }
    }

    /// How many texts there are: every combination of its values.
    pub(in crate::exchange) fn count(&self) -> usize {
        self.count
    }

    /// Writes the text at `place` in place of what `out` has.
    pub(in crate::exchange) fn write(&self, place: usize, out: &mut Vec<u8>) {
        out.clear();
        self.for_each_part(place, |part, nth| match part {
            TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePart::Value(value) => self.write_value(value, nth, out),
        });
    }

    /// Calls `write` with each part of the text at `place`, and which of the values of a placeholder is meant.
    pub(in crate::exchange) fn for_each_part(
        &self,
        place: usize,
        mut write: impl FnMut(&TemplatePart, usize),
    ) {
        let mut rest = place;
        for part in self.key.parts() {
            let count = match part {
                TemplatePart::Value(value) if self.count > 1 => self.values.count(value),
                TemplatePart::Literal(_) | TemplatePart::Value(_) => 1,
            };
            write(part, rest % count);
            rest /= count;
        }
    }

    /// Appends one of the values of a placeholder, in the form in which rules compare it.
    pub(in crate::exchange) fn write_value(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
        self.values.write_nth(value, nth, out);
    }
}
