//! Conditions: `when = 'method == "GET" && path.startsWith("/api")'`.
//!
//! The language is that of `weir-conditions`, the names are those of placeholders, without braces. Where a condition may stand is decided by the stage
//! of its values, as for a template.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::Arc;

use weir_conditions::{Expression, ExpressionError, Facts, NameError, Names, TermOutcome, ValueType};
use weir_traffic::route::NeededText;

use super::template::{PLAIN, TemplateValue};
use super::{ValueError, is_name};
use crate::diagnostic::did_you_mean;
use crate::order::Stage;

/// A condition. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct WhenCondition(Arc<Expression<TemplateValue>>, bool);

impl WhenCondition {
    /// The text of it.
    pub fn text(&self) -> &str {
        self.0.text()
    }

    /// The text as it may be shown: `instead` stands for what secrets are compared with.
    pub(crate) fn shown(&self, instead: &str) -> String {
        self.0.hiding(TemplateValue::is_secret, instead)
    }

    /// Its values; one that occurs twice comes twice.
    pub fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        self.0.values()
    }

    /// Its comparisons: the bytes of each in the text, and its values.
    pub fn terms(&self) -> impl Iterator<Item = (Range<usize>, impl Iterator<Item = &TemplateValue>)> {
        self.0.terms().iter().map(|term| (term.span.clone(), term.values()))
    }

    /// The first stage at which all its values are known.
    pub fn stage(&self) -> Stage {
        self.values().map(TemplateValue::stage).max().unwrap_or(Stage::RequestHead)
    }

    /// Whether maps or variables are among its values.
    #[inline]
    pub fn names_own_values(&self) -> bool {
        self.1
    }

    /// Whether it holds for an exchange.
    #[inline]
    pub fn holds(&self, facts: &impl Facts<TemplateValue>) -> bool {
        self.0.holds(facts)
    }

    /// What texts of a request have to be for it to hold; nothing where maps or variables are among its values, which are those of one route.
    pub(crate) fn needed_texts(&self) -> Vec<NeededText<'_>> {
        if self.names_own_values() {
            return Vec::new();
        }
        let needed = self.0.needed_texts();
        needed.map(|(term, value, test)| NeededText { term, value: value.name(), test }).collect()
    }

    /// Whether one of the texts passes that a comparison looks at, if it looks at texts with a test.
    pub fn any_text(
        &self,
        term: usize,
        facts: &impl Facts<TemplateValue>,
        passes: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        self.0.any_text(term, facts, passes)
    }

    /// Whether it holds, and what each of its comparisons came to.
    pub fn trace(&self, facts: &impl Facts<TemplateValue>) -> (bool, Vec<TermOutcome>) {
        self.0.trace(facts)
    }
}

impl FromStr for WhenCondition {
    type Err = ValueError;

    fn from_str(text: &str) -> Result<Self, ValueError> {
        match Expression::new(text, &PlaceholderNames) {
            Ok(expression) => {
                let names_own_values = expression.values().any(|value| value.own().is_some());
                Ok(Self(Arc::new(expression), names_own_values))
            }
            Err(ExpressionError { span, message, help }) => {
                Err(ValueError::new(message).range(span).help_if(help))
            }
        }
    }
}

impl fmt::Display for WhenCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl fmt::Debug for WhenCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({:?})", self.text())
    }
}

/// The names of placeholders.
struct PlaceholderNames;

impl Names for PlaceholderNames {
    type Value = TemplateValue;

    fn resolve(&self, parts: &[&str]) -> Result<(TemplateValue, ValueType), NameError> {
        if let ["upstream", name, "usable"] = parts
            && is_name(name)
        {
            return Ok((TemplateValue::UsableServers((*name).into()), ValueType::Number));
        }
        let name = match parts {
            ["response", "status"] => "status".to_owned(),
            parts => parts.join("."),
        };
        match TemplateValue::from_name(&name) {
            Some(value) => {
                let value_type = value_type(&value);
                Ok((value, value_type))
            }
            None => Err(unknown(parts, &name)),
        }
    }
}

fn unknown(parts: &[&str], name: &str) -> NameError {
    if let ["map" | "vars" | "proxy", _, ..] | ["table", _, _, ..] = parts
        && let Err(ValueError { message, help, .. }) = TemplateValue::named(name)
    {
        return NameError { message, help };
    }
    let message = format!("there is no value `{name}`");
    let help = match parts {
        ["map" | "vars"] => Some(format!("write `{name}.NAME` or `{name}[\"NAME\"]`")),
        ["proxy"] => Some("write `proxy.authority`, or `proxy.tlv[\"0xEA\"]`".to_owned()),
        ["table", ..] => Some("write `table.NAME.COUNTER`, such as `table.clients.http_req_rate`".to_owned()),
        ["header" | "cookie" | "query" | "jwt" | "match"] | ["response", "header"] => {
            Some(format!("write `{name}[\"NAME\"]`"))
        }
        ["response"] => Some("write `response.status` or `response.header[\"NAME\"]`".to_owned()),
        ["upstream", ..] => Some("write `upstream[\"NAME\"].usable`, or `upstream` for the name".to_owned()),
        _ => {
            let with_parts =
                ["header", "cookie", "query", "jwt", "match", "phase", "map", "vars", "proxy", "table"];
            did_you_mean(name, PLAIN.iter().map(|(name, ..)| *name).chain(with_parts))
        }
    };
    let help = help.unwrap_or_else(|| "the values are those of placeholders, without braces".to_owned());
    NameError { message, help: Some(help) }
}

/// What kind of value it is.
fn value_type(value: &TemplateValue) -> ValueType {
    match value {
        TemplateValue::ClientAddress | TemplateValue::PeerAddress | TemplateValue::LocalAddress => {
            ValueType::Address
        }
        TemplateValue::ClientPort
        | TemplateValue::PeerPort
        | TemplateValue::LocalPort
        | TemplateValue::ConnectionRequests
        | TemplateValue::TimeMicros
        | TemplateValue::QueuePosition
        | TemplateValue::Status
        | TemplateValue::Attempts
        | TemplateValue::Retries
        | TemplateValue::Duration
        | TemplateValue::DurationMillis
        | TemplateValue::ContentLength
        | TemplateValue::UsableServers(_)
        | TemplateValue::Counter(..)
        | TemplateValue::Phase(_) => ValueType::Number,
        _ => ValueType::Text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_placeholders() {
        for (text, stage) in [
            ("method == 'GET' && path.startsWith('/a') && query['a'] == '1'", Stage::RequestHead),
            (
                "client_address in ['10.0.0.0/8'] && client_port > 1023 && tls.version == '1.3'",
                Stage::RequestHead,
            ),
            ("header['user-agent'].contains('bot') || cookie.session == ''", Stage::RequestHead),
            ("user == 'ann' || jwt['role'] == 'admin'", Stage::Identity),
            ("server == 'a' && queue_position > 0", Stage::Server),
            ("status >= 500 || response.header['content-type'].startsWith('text/')", Stage::ResponseHead),
            ("response.status == 404", Stage::ResponseHead),
            (
                "content_length > 1000 && upstream['a-b'].usable == 0 && upstream.c.usable > 1",
                Stage::RequestHead,
            ),
            ("phase.queue > 1000 && duration.ms > 10", Stage::ResponseHead),
        ] {
            let condition: WhenCondition = text.parse().unwrap_or_else(|error| panic!("{text}: {error:?}"));
            assert_eq!(condition.stage(), stage, "{text}");
            assert_eq!(condition.to_string(), text);
        }
    }

    #[test]
    fn unknown_names_have_a_suggestion() {
        for (text, message, help) in [
            ("methode == 'GET'", "there is no value `methode`", "did you mean `method`?"),
            ("header == 'x'", "there is no value `header`", "write `header[\"NAME\"]`"),
            (
                "remote_addr == 'x'",
                "there is no value `remote_addr`",
                "the values are those of placeholders, without braces",
            ),
        ] {
            let error = text.parse::<WhenCondition>().expect_err("the name is unknown");
            assert_eq!((&*error.message, error.help.as_deref()), (message, Some(help)), "{text}");
            assert_eq!(error.range, Some(0..text.find(' ').expect("there is a space")), "{text}");
        }
    }
}
