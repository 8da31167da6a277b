//! The value types of a simulation file, each with a hint for wrong values.

use std::ops::Range;
use std::time::Duration;

use jiff::SignedDuration;
use toml::de::DeValue;
use weir_traffic::queue::PriorityClass;

use super::{Arrivals, ServerAction, nanos};
use crate::model::error::{did_you_mean, one_of};

/// A value that is invalid.
#[derive(Debug)]
pub(super) struct ModelValueError {
    pub(super) what: String,
    pub(super) hint: Option<String>,
    /// Where, when it is a part of the value.
    pub(super) at: Option<Range<usize>>,
}

impl ModelValueError {
    pub(super) fn new(what: String, hint: &str) -> Self {
        Self { what, hint: Some(hint.to_owned()), at: None }
    }
}

/// A type that a key can have.
pub(super) trait FromValue: Sized {
    /// Reads a value.
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError>;

    /// An example for a missing key.
    fn example(key: &str) -> String;
}

/// A length of time in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TimeValue(pub(super) u64);

const TIME_HINT: &str = "write a number with a unit, such as \"20ms\", \"1.5s\" or \"1m30s\"";

impl FromValue for TimeValue {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let Some(text) = value.as_str() else {
            return Err(ModelValueError::new(
                format!("a length of time is a text, not {}", value.type_str()),
                TIME_HINT,
            ));
        };
        let length: Option<SignedDuration> = text.parse().ok();
        let length = length.and_then(|length| Duration::try_from(length).ok());
        match length {
            Some(length) => Ok(Self(nanos(length))),
            None => Err(ModelValueError::new(format!("`{text}` is no length of time"), TIME_HINT)),
        }
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = \"20ms\"`")
    }
}

impl FromValue for u64 {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let number = value.as_integer().and_then(|integer| {
            u64::from_str_radix(integer.as_str().trim_start_matches('+'), integer.radix()).ok()
        });
        number.ok_or_else(|| {
            ModelValueError::new(
                "this is a whole number that is not negative".to_owned(),
                "write for example `10`",
            )
        })
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = 10`")
    }
}

impl FromValue for f64 {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let number = match value {
            DeValue::Float(float) => float.as_str().parse().ok(),
            other => u64::from_value(other).ok().map(|whole| whole as f64),
        };
        number.filter(|number: &f64| number.is_finite() && *number >= 0.0).ok_or_else(|| {
            ModelValueError::new(
                "this is a number that is not negative".to_owned(),
                "write for example `1.5`",
            )
        })
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = 100`")
    }
}

impl FromValue for Vec<u64> {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let DeValue::Array(items) = value else {
            let what = format!("this is a list of whole numbers, not {}", value.type_str());
            return Err(ModelValueError::new(what, "write for example `[503]`"));
        };
        items.iter().map(|item| u64::from_value(item.get_ref())).collect()
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = [503]`")
    }
}

impl FromValue for bool {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        value.as_bool().ok_or_else(|| {
            ModelValueError::new(
                format!("this is true or false, not {}", value.type_str()),
                "write `true` or `false`",
            )
        })
    }

    fn example(key: &str) -> String {
        format!("write `{key} = true`")
    }
}

impl FromValue for String {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let text = value.as_str().map(str::to_owned);
        text.ok_or_else(|| {
            ModelValueError::new(
                format!("this is a text, not {}", value.type_str()),
                "write it between quotation marks",
            )
        })
    }

    fn example(key: &str) -> String {
        format!("write `{key} = \"...\"`")
    }
}

/// A word of a closed list.
pub(super) fn word<T: Copy>(value: &DeValue<'_>, words: &[(&'static str, T)]) -> Result<T, ModelValueError> {
    let text = String::from_value(value)?;
    let found = words.iter().find(|(word, _)| *word == text);
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let hint = did_you_mean(&text, &names).unwrap_or_else(|| format!("write {}", one_of(&names)));
        ModelValueError::new(format!("there is no `{text}` here"), &hint)
    })
}

impl FromValue for PriorityClass {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        word(value, &PriorityClass::ALL.map(|priority| (priority.name(), priority)))
    }

    fn example(key: &str) -> String {
        format!("write `{key} = \"normal\"`")
    }
}

impl FromValue for Arrivals {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        word(value, &[("poisson", Self::Poisson), ("constant", Self::Constant)])
    }

    fn example(key: &str) -> String {
        format!("write `{key} = \"poisson\"`")
    }
}

impl FromValue for ServerAction {
    /// A slow server has a factor in a key beside it.
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let words = [
            ("stop", Self::Stop),
            ("hang", Self::Hang),
            ("fail", Self::Fail),
            ("slow", Self::Slow(1.0)),
            ("recover", Self::Recover),
            ("leave", Self::Leave),
            ("join", Self::Join),
        ];
        word(value, &words)
    }

    fn example(key: &str) -> String {
        format!(
            "write `{key} = \"stop\"`, `\"hang\"`, `\"fail\"`, `\"slow\"`, `\"recover\"`, `\"leave\"` or `\"join\"`"
        )
    }
}

/// A range of server numbers, `"3"` or `"0-4"`, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ServerRange {
    pub(super) first: u32,
    pub(super) last: u32,
}

impl FromValue for ServerRange {
    fn from_value(value: &DeValue<'_>) -> Result<Self, ModelValueError> {
        let number = |text: &str| text.trim().parse::<u32>().ok();
        let range = match value {
            DeValue::String(text) => match text.split_once('-') {
                Some((first, last)) => number(first).zip(number(last)),
                None => number(text).map(|only| (only, only)),
            },
            other => {
                u64::from_value(other).ok().and_then(|only| u32::try_from(only).ok()).map(|only| (only, only))
            }
        };
        match range {
            Some((first, last)) if first <= last => Ok(Self { first, last }),
            _ => Err(ModelValueError::new("this names no servers".to_owned(), Self::HINT)),
        }
    }

    fn example(key: &str) -> String {
        format!("write for example `{key} = 0` or `{key} = \"0-4\"`")
    }
}

impl ServerRange {
    const HINT: &str = "write the number of a server, counted from 0, or a range such as \"0-4\"";
}
