//! `expires` of a route in the text: a time, a table of media types, or a list of rules.

use std::time::Duration;

use super::header_rules::RuleStatus;
use crate::config::{ExpiresTime, MediaPattern, ResponseOrigin};
use crate::key::{
    Bounds, ConfigValue, Map, OneOrMany, SpannedTable, TextFormat, TreeReader, ValueKind, section,
    text_values,
};
use crate::source::{Tree, TreeNode};
use crate::text::ConditionText;
use crate::value::{ValueError, parse_duration, print_duration};

section! {
    /// How long clients may keep some responses. Of several rules, the first that is for the response counts.
    #[derive(Debug, Clone)]
    pub(crate) struct ExpiresRuleText at "listener.NAME.route.expires" {
        /// The media types: `text/css`, `image/*`. Without it, all, and responses without one.
        types: OneOrMany<MediaPattern> = optional, like "Apache httpd `ExpiresByType`, nginx `map $sent_http_content_type`";
        /// For how long.
        time: ExpiresTime = required, like "nginx `expires`, Apache httpd `ExpiresDefault`";
        /// The statuses.
        status: OneOrMany<RuleStatus> = "success";
        /// Where responses come from: `"server"`, `"file"`, `"cache"`, `"weir"`, or a list. Without it, anywhere.
        from: OneOrMany<ResponseOrigin> = optional;
        /// A condition: the rule counts only if it holds. See [Conditions](#conditions).
        when: ConditionText = optional;
        /// Whether the rule counts for responses whose server says `no-store`, `no-cache` or `private`, too: without this, such a response
        /// stays as it is.
        override_server: bool = false;
    }
}

/// The rules, as they are written: a time for all, a table of media types (`default` for the others), or a list of tables.
#[derive(Debug, Clone)]
pub(crate) enum ExpiresText {
    /// One time.
    Time(ExpiresTime),
    /// Times by media type.
    Types(Map<ExpiresTime>),
    /// Rules.
    Rules(Vec<SpannedTable<ExpiresRuleText>>),
}

impl ConfigValue for ExpiresText {
    fn kind(bounds: Bounds) -> ValueKind {
        let rules = ValueKind::List(Box::new(ExpiresRuleText::kind(bounds)));
        ValueKind::Either(vec![ExpiresTime::kind(bounds), Map::<ExpiresTime>::kind(bounds), rules])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => Map::read(node, bounds, reader).map(Self::Types),
            Tree::List(_) => Vec::read(node, bounds, reader).map(Self::Rules),
            Tree::Text(_) => ExpiresTime::read(node, bounds, reader).map(Self::Time),
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::Time(time) => time.write(),
            Self::Types(types) => types.write(),
            Self::Rules(rules) => rules.write(),
        }
    }
}

text_values! {
    ExpiresTime, parse_time, print_time, TextFormat {
        name: "expiry time",
        article: "a time, `epoch`, `max` or `off`",
        examples: &["1h", "30d", "modified+1d", "@15h30m", "epoch", "max", "off"],
        pattern: r"^(off|epoch|max|(modified\+|@)?[0-9].*)$",
        about: "For how long clients may keep a response: a [duration](#duration) from when they get it, or with `modified+` from `Last-Modified`; \
                `@15h30m`: until it is that time of day, in UTC; `epoch`: it is confirmed before each use (`no-cache`); `max`: ten years, and in \
                `Expires` 31 December 2037, as nginx has it; `off`: the response stays as it is.",
    };
}

fn parse_time(text: &str) -> Result<ExpiresTime, ValueError> {
    let time = |text: &str| {
        let time = parse_duration(text)?;
        if time > ExpiresTime::MAX {
            return Err(ValueError::new(format!("`{text}` is more than ten years")).help("write `max`"));
        }
        Ok(time)
    };
    match text {
        "off" => Ok(ExpiresTime::Off),
        "epoch" => Ok(ExpiresTime::Epoch),
        "max" => Ok(ExpiresTime::After(ExpiresTime::MAX)),
        "@" | "" => Err(ValueError::new(format!("`{text}` is no time")).help("write for example `1h`")),
        text if text.starts_with('-') => Err(ValueError::new("a time in the past")
            .help("write `epoch`: clients confirm the response each time")),
        text => {
            if let Some(rest) = text.strip_prefix('@') {
                let clock = parse_duration(rest)?;
                let is_of_day = clock < ExpiresTime::DAY && clock.subsec_nanos() == 0;
                let error = || {
                    ValueError::new(format!("`{text}` is no time of day")).help("write for example `@15h30m`")
                };
                return is_of_day.then_some(ExpiresTime::Daily(clock)).ok_or_else(error);
            }
            match text.strip_prefix("modified+") {
                Some(rest) => time(rest).map(ExpiresTime::Modified),
                None => time(text).map(ExpiresTime::After),
            }
        }
    }
}

fn print_time(time: &ExpiresTime) -> String {
    match *time {
        ExpiresTime::Off => "off".to_owned(),
        ExpiresTime::Epoch => "epoch".to_owned(),
        ExpiresTime::After(ExpiresTime::MAX) => "max".to_owned(),
        ExpiresTime::After(time) => print_duration(time),
        ExpiresTime::Daily(time) => format!("@{}", print_time_of_day(time)),
        ExpiresTime::Modified(time) => format!("modified+{}", print_duration(time)),
    }
}

/// Hours and minutes, as clocks have them, where both are there.
fn print_time_of_day(time: Duration) -> String {
    let minutes = time.as_secs() / 60;
    let (hours, rest) = (minutes / 60, minutes % 60);
    match hours > 0 && rest > 0 && time == Duration::from_secs(minutes * 60) {
        true => format!("{hours}h{rest}m"),
        false => print_duration(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_printed() {
        for text in ["off", "epoch", "max", "1h", "30d", "0s", "modified+1d", "@15h", "@15h30m", "@0s"] {
            assert_eq!(print_time(&parse_time(text).unwrap()), text);
        }
        for text in [
            "",
            "-1",
            "@",
            "@24h",
            "@15",
            "@1500ms",
            "@max",
            "1",
            "modified",
            "modified+",
            "modified+max",
            "9999d",
            "now",
        ] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
