//! Values of TOML, and how they are written.

use std::fmt;

/// A value on the right of a key.
#[derive(Clone, Debug, PartialEq)]
pub enum TomlValue {
    /// A string.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// `true` or `false`.
    Boolean(bool),
    /// A list.
    Array(Vec<TomlValue>),
    /// `{ key = value }`.
    Inline(Vec<(String, TomlValue)>),
}

impl TomlValue {
    /// An inline table.
    pub fn inline<const N: usize>(entries: [(&str, TomlValue); N]) -> TomlValue {
        TomlValue::Inline(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
    }

    /// Changes all texts in it; `key` is the one that it stands under.
    pub(super) fn change_texts(&mut self, key: &str, change: &impl Fn(&str, &str) -> Option<String>) {
        match self {
            TomlValue::Text(text) => {
                if let Some(changed) = change(key, text) {
                    *text = changed;
                }
            }
            TomlValue::Array(list) => list.iter_mut().for_each(|one| one.change_texts(key, change)),
            TomlValue::Inline(entries) => {
                entries.iter_mut().for_each(|(key, value)| value.change_texts(key, change));
            }
            TomlValue::Integer(_) | TomlValue::Boolean(_) => {}
        }
    }
}

impl From<&str> for TomlValue {
    fn from(text: &str) -> TomlValue {
        TomlValue::Text(text.to_owned())
    }
}

impl From<String> for TomlValue {
    fn from(text: String) -> TomlValue {
        TomlValue::Text(text)
    }
}

impl From<i64> for TomlValue {
    fn from(number: i64) -> TomlValue {
        TomlValue::Integer(number)
    }
}

impl From<bool> for TomlValue {
    fn from(boolean: bool) -> TomlValue {
        TomlValue::Boolean(boolean)
    }
}

impl<T: Into<TomlValue>> From<Vec<T>> for TomlValue {
    fn from(list: Vec<T>) -> TomlValue {
        TomlValue::Array(list.into_iter().map(Into::into).collect())
    }
}

/// On one line.
impl fmt::Display for TomlValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TomlValue::Text(text) => write_text(f, text),
            TomlValue::Integer(number) => write!(f, "{number}"),
            TomlValue::Boolean(boolean) => write!(f, "{boolean}"),
            TomlValue::Array(list) => {
                f.write_str("[")?;
                for (index, value) in list.iter().enumerate() {
                    write!(f, "{}{value}", if index == 0 { "" } else { ", " })?;
                }
                f.write_str("]")
            }
            TomlValue::Inline(entries) if entries.is_empty() => f.write_str("{}"),
            TomlValue::Inline(entries) => {
                f.write_str("{ ")?;
                for (index, (key, value)) in entries.iter().enumerate() {
                    write!(f, "{}{} = {value}", if index == 0 { "" } else { ", " }, KeyText(key))?;
                }
                f.write_str(" }")
            }
        }
    }
}

/// A key, in quotes where it needs them.
pub(super) struct KeyText<'k>(pub(super) &'k str);

impl fmt::Display for KeyText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        if !self.0.is_empty() && self.0.bytes().all(bare) {
            f.write_str(self.0)
        } else {
            write_text(f, self.0)
        }
    }
}

/// As a literal string where it has backslashes or quotes, so that regular expressions stay readable.
fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let literal = |character: char| character != '\'' && !character.is_control();
    if text.contains(['\\', '"']) && text.chars().all(literal) {
        return write!(f, "'{text}'");
    }
    f.write_str("\"")?;
    for character in text.chars() {
        match character {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\t' => f.write_str("\\t")?,
            '\r' => f.write_str("\\r")?,
            control if control.is_control() => write!(f, "\\u{:04X}", u32::from(control))?,
            other => write!(f, "{other}")?,
        }
    }
    f.write_str("\"")
}
