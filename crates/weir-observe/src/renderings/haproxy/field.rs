//! A value with HAProxy's description of it: its type, origin, nature and scope.

use std::fmt;

use serde_json::{Value as Json, json};

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum StatValue {
    /// A number of 32 bits, or more in Weir.
    U32(u64),
    /// A number of 64 bits.
    U64(u64),
    /// A text without commas, quotes and ends of lines, so that a line of CSV can contain it as it is.
    Text(String),
}

impl StatValue {
    /// A text; characters that would end its field are replaced.
    pub(super) fn text(text: &str) -> Self {
        let harmless = |c: char| match c {
            ',' => ';',
            '"' => '\'',
            c if c.is_control() => ' ',
            c => c,
        };
        Self::Text(text.chars().map(harmless).collect())
    }

    const fn kind(&self) -> &'static str {
        match self {
            Self::U32(_) => "u32",
            Self::U64(_) => "u64",
            Self::Text(_) => "str",
        }
    }

    fn json(&self) -> Json {
        match self {
            Self::U32(number) | Self::U64(number) => json!({ "type": self.kind(), "value": number }),
            Self::Text(text) => json!({ "type": self.kind(), "value": text }),
        }
    }
}

impl fmt::Display for StatValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::U32(number) | Self::U64(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

/// A value in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct StatField {
    pub(super) place: usize,
    pub(super) name: &'static str,
    /// Three letters: origin, nature, scope.
    pub(super) tags: &'static str,
    pub(super) value: StatValue,
}

impl StatField {
    /// `4.scur.1:MGP:u32:0`.
    pub(super) fn typed(&self) -> String {
        let Self { place, name, tags, value } = self;
        format!("{place}.{name}.1:{tags}:{}:{value}", value.kind())
    }

    /// The same as an object.
    pub(super) fn json(&self) -> Json {
        let mut tags = self.tags.chars();
        let mut word = |words: fn(char) -> &'static str| words(tags.next().unwrap_or(' '));
        json!({
            "field": { "pos": self.place, "name": self.name },
            "processNum": 1,
            "tags": { "origin": word(origin), "nature": word(nature), "scope": word(scope) },
            "value": self.value.json(),
        })
    }
}

fn origin(letter: char) -> &'static str {
    match letter {
        'M' => "Metric",
        'S' => "Status",
        'K' => "Key",
        'C' => "Config",
        'P' => "Product",
        _ => "Unknown",
    }
}

fn nature(letter: char) -> &'static str {
    match letter {
        'G' => "Gauge",
        'L' => "Limit",
        'm' => "Min",
        'M' => "Max",
        'R' => "Rate",
        'C' => "Counter",
        'D' => "Duration",
        'A' => "Age",
        'T' => "Time",
        'N' => "Name",
        'O' => "Output",
        'a' => "Avg",
        _ => "Unknown",
    }
}

fn scope(letter: char) -> &'static str {
    match letter {
        'P' => "Process",
        'S' => "Service",
        's' => "System",
        'C' => "Cluster",
        _ => "Unknown",
    }
}
