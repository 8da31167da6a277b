//! A number with a unit: the common part of durations, sizes and rates.
//!
//! Fractions are allowed (`"1.5s"`) and computed exactly; a fraction of the base unit is an error, not rounded.

use super::ValueError;
use crate::diagnostic::did_you_mean;

/// The units of one kind of value.
pub(crate) struct Scale {
    /// The name of the value, with its article.
    pub(crate) name: &'static str,
    /// Units with their worth in the base unit, in the order in which a message lists them.
    pub(crate) units: &'static [(&'static str, u64)],
    /// Common misspellings, with the unit that is meant.
    pub(crate) slips: &'static [(&'static str, &'static str)],
    /// A well-written value.
    pub(crate) example: &'static str,
}

impl Scale {
    fn unit_list(&self) -> String {
        self.units.iter().map(|(unit, _)| *unit).collect::<Vec<_>>().join(", ")
    }

    fn unit_help(&self, number: &str, unit: &str) -> String {
        let lower = unit.to_lowercase();
        let slip = self.slips.iter().find(|(slip, _)| *slip == lower).map(|(_, meant)| *meant);
        let exact =
            self.units.iter().find(|(known, _)| known.to_lowercase() == lower).map(|(known, _)| *known);
        match slip.or(exact) {
            Some(meant) => format!("write `{number}{meant}`; units are {}", self.unit_list()),
            None => match did_you_mean(unit, self.units.iter().map(|(known, _)| *known)) {
                Some(meant) if unit.len() > 1 => format!("{meant} units are {}", self.unit_list()),
                _ => format!("units are {}", self.unit_list()),
            },
        }
    }
}

/// Parses one number with one unit into the base unit.
pub(crate) fn parse_scaled(text: &str, scale: &Scale) -> Result<u64, ValueError> {
    let number_length =
        text.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_')).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_length);
    if number.is_empty() {
        let message = if text.starts_with('-') {
            format!("`{text}`: {} cannot be negative", scale.name)
        } else {
            format!("`{text}` is not {}", scale.name)
        };
        return Err(ValueError::new(message)
            .help(format!("write a number with its unit, such as `{}`", scale.example)));
    }
    let trimmed = unit.trim();
    let unit_range = text.len() - unit.trim_start().len()..text.trim_end().len().max(number_length);
    let Some(&(_, worth)) = scale.units.iter().find(|(known, _)| *known == trimmed) else {
        return Err(if trimmed.is_empty() {
            ValueError::new(format!("`{text}` has no unit")).help(format!("units are {}", scale.unit_list()))
        } else {
            ValueError::new(format!("`{text}`: unit `{trimmed}` is not known"))
                .help(scale.unit_help(number, trimmed))
                .range(unit_range)
        });
    };
    if trimmed != unit {
        let message = format!("`{text}`: there is a space between number and unit");
        return Err(ValueError::new(message).help(format!("write `{number}{trimmed}`")));
    }
    scaled(number, worth).map_err(|why| ValueError::new(format!("`{text}` {why}")))
}

/// A decimal number times the worth of its unit, exactly.
fn scaled(number: &str, worth: u64) -> Result<u64, &'static str> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let well_formed = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !well_formed(whole) || !well_formed(fraction) {
        return Err("does not begin with a number");
    }
    let too_large = "is too large";
    let whole = whole.parse::<u64>().ok().and_then(|whole| whole.checked_mul(worth)).ok_or(too_large)?;
    let fraction = fraction.trim_end_matches('0');
    let too_fine = "is finer than the smallest unit";
    let numerator = if fraction.is_empty() { 0 } else { fraction.parse::<u128>().map_err(|_| too_fine)? };
    let denominator = 10_u128.checked_pow(fraction.len() as u32).ok_or(too_fine)?;
    let product = numerator.checked_mul(u128::from(worth)).ok_or(too_fine)?;
    if product % denominator != 0 {
        return Err(too_fine);
    }
    whole.checked_add((product / denominator) as u64).ok_or(too_large)
}
