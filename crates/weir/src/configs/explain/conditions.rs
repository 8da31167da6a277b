//! What the names of a condition come to in a request that `weir explain` was given.
//!
//! A request on the command line has no connection: what only a connection knows (ports, TLS, ids) is missing, and the explanation says so.

use std::net::IpAddr;

use weir_conditions::Facts;
use weir_config::{TemplateFacts, TemplateValue, WhenCondition};
use weir_http::{FieldName, Framing};
use weir_traffic::affinity::cookie_values;
use weir_traffic::route::{RouteRequest as _, decoded_parameter, query_values};

use super::request::ExplainedRequest;

impl Facts<TemplateValue> for ExplainedRequest {
    fn any_text(&self, value: &TemplateValue, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        let texts = self.texts(value);
        if texts.is_empty() { passes(b"") } else { texts.iter().any(|text| passes(text)) }
    }

    fn is_present(&self, value: &TemplateValue) -> bool {
        match value {
            TemplateValue::Header(_) | TemplateValue::Cookie(_) | TemplateValue::QueryParameter(_) => {
                !self.texts(value).is_empty()
            }
            other => self.any_text(other, |text| !text.is_empty()),
        }
    }

    fn number(&self, value: &TemplateValue) -> Option<i64> {
        match value {
            TemplateValue::ContentLength => {
                self.texts(value).first().and_then(|text| std::str::from_utf8(text).ok()?.parse().ok())
            }
            _ => None,
        }
    }

    fn address(&self, value: &TemplateValue) -> Option<IpAddr> {
        match value {
            TemplateValue::ClientAddress => Some(self.source()),
            TemplateValue::PeerAddress => Some(self.from),
            _ => None,
        }
    }

    fn flag(&self, _value: &TemplateValue) -> bool {
        false
    }
}

impl ExplainedRequest {
    /// The first text that a value has; empty when it is not known here.
    pub(super) fn text_of(&self, value: &TemplateValue) -> Vec<u8> {
        self.texts(value).into_iter().next().unwrap_or_default()
    }

    /// The texts that a value has: none when it is missing, or not known here.
    fn texts(&self, value: &TemplateValue) -> Vec<Vec<u8>> {
        let lines = |name: &str| self.header_lines(name).map(<[u8]>::to_vec).collect();
        match value {
            TemplateValue::Method => vec![self.method().to_vec()],
            TemplateValue::Path => vec![self.path().to_vec()],
            TemplateValue::Host => vec![self.host().to_ascii_lowercase()],
            TemplateValue::Authority => vec![self.head().authority().of(self.text()).to_ascii_lowercase()],
            TemplateValue::Scheme => vec![if self.is_tls { b"https".to_vec() } else { b"http".to_vec() }],
            TemplateValue::Target => vec![self.head().target().of(self.text()).to_vec()],
            TemplateValue::Query if self.query().is_empty() => Vec::new(),
            TemplateValue::Query => vec![[b"?", self.query()].concat()],
            TemplateValue::Args => vec![self.query().to_vec()],
            TemplateValue::Port => {
                let port = self.head().port().unwrap_or(if self.is_tls { 443 } else { 80 });
                vec![port.to_string().into_bytes()]
            }
            TemplateValue::ClientAddress => vec![self.source().to_string().into_bytes()],
            TemplateValue::Version => vec![b"HTTP/1.1".to_vec()],
            TemplateValue::ContentLength => match self.head().body() {
                Framing::Length(length) => vec![length.to_string().into_bytes()],
                _ => Vec::new(),
            },
            TemplateValue::UserAgent => lines("user-agent"),
            TemplateValue::Referer => lines("referer"),
            TemplateValue::Header(name) => lines(name),
            TemplateValue::Cookie(name) => {
                let fields = self.head().fields().all(FieldName::Cookie);
                let values =
                    fields.flat_map(|field| cookie_values(field.value.of(self.text()), name.as_bytes()));
                values.map(<[u8]>::to_vec).collect()
            }
            TemplateValue::QueryParameter(name) => {
                let values = query_values(self.query(), name.as_bytes());
                values.map(|value| decoded_parameter(value).into_owned()).collect()
            }
            TemplateValue::Map(_) | TemplateValue::Variable(_) => {
                let count = TemplateFacts::count(self, value).min(TEXTS_MAX);
                (0..count).map(|nth| self.nth_text(value, nth)).collect()
            }
            TemplateValue::PeerAddress => vec![self.from.to_string().into_bytes()],
            _ => Vec::new(),
        }
    }
}

/// Texts of one value that are looked at.
const TEXTS_MAX: usize = 64;

impl ExplainedRequest {
    /// One of the texts of a value.
    pub(super) fn nth_text(&self, value: &TemplateValue, nth: usize) -> Vec<u8> {
        let mut text = Vec::new();
        self.write_nth(value, nth, &mut text);
        text
    }
}

impl TemplateFacts for ExplainedRequest {
    fn count(&self, value: &TemplateValue) -> usize {
        match value {
            TemplateValue::Map(map) => map.map().map_or(1, |map| map.source.count(self)),
            TemplateValue::Variable(variable) => {
                self.variable(variable.name()).map_or(1, |text| text.count(self))
            }
            value => self.texts(value).len().max(1),
        }
    }

    fn write_nth(&self, value: &TemplateValue, nth: usize, out: &mut Vec<u8>) {
        match value {
            TemplateValue::Map(map) => map.map().iter().for_each(|map| map.write(self, nth, out)),
            TemplateValue::Variable(variable) => {
                self.variable(variable.name()).iter().for_each(|text| text.write_nth(self, nth, out));
            }
            value => out.extend(self.texts(value).into_iter().nth(nth).unwrap_or_default()),
        }
    }

    fn write_first(&self, value: &TemplateValue, out: &mut Vec<u8>) {
        self.write_nth(value, 0, out);
    }
}

/// The maps and variables among values, each once, with what it comes to.
pub(super) fn own_values<'a>(
    values: impl IntoIterator<Item = &'a TemplateValue>,
    request: &ExplainedRequest,
) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for value in values.into_iter().filter(|value| value.own().is_some()) {
        let name = value.name();
        if found.iter().any(|(known, _)| *known == name) {
            continue;
        }
        let text = match is_known(value) {
            true if value.is_secret() => "(a secret, left out)".to_owned(),
            true => format!("{:?}", String::from_utf8_lossy(&request.nth_text(value, 0))),
            false => "not known here".to_owned(),
        };
        found.push((name, text));
    }
    found
}

/// Whether a value is known without a connection.
fn is_known(value: &TemplateValue) -> bool {
    if matches!(value, TemplateValue::Counter(..)) {
        return false;
    }
    if value.own().is_some() {
        return value.leaves().iter().all(is_known);
    }
    matches!(
        value,
        TemplateValue::Method
            | TemplateValue::Path
            | TemplateValue::Host
            | TemplateValue::Authority
            | TemplateValue::Scheme
            | TemplateValue::Target
            | TemplateValue::Query
            | TemplateValue::Args
            | TemplateValue::Port
            | TemplateValue::ContentLength
            | TemplateValue::UserAgent
            | TemplateValue::Referer
            | TemplateValue::Header(_)
            | TemplateValue::Cookie(_)
            | TemplateValue::QueryParameter(_)
            | TemplateValue::ClientAddress
            | TemplateValue::PeerAddress
    )
}

/// Why a condition of the route holds or does not: what each of its comparisons came to, as far as they were asked.
pub(super) fn sentence(condition: &WhenCondition, request: &ExplainedRequest) -> String {
    let (holds, told) = outcome(condition, request);
    let verdict = if holds { "its condition holds" } else { "its condition does not hold" };
    let unknown = unknown(condition);
    let rest = match &unknown[..] {
        [] => String::new(),
        names => format!("; {} known of connections only, and missing here", are(names)),
    };
    format!("{verdict}: {told}{rest}")
}

/// The same of a condition that is asked later, when more may be known.
pub(super) fn later_sentence(condition: &WhenCondition, request: &ExplainedRequest) -> String {
    let (holds, told) = outcome(condition, request);
    let verdict = if holds { "holds" } else { "does not hold" };
    match &unknown(condition)[..] {
        [] => format!("{verdict}: {told}"),
        names if told.is_empty() => format!("depends on {}", list(names)),
        names => format!("depends on {}; {told}", list(names)),
    }
}

/// Whether it holds, and the comparisons that were asked of known values, with these.
fn outcome(condition: &WhenCondition, request: &ExplainedRequest) -> (bool, String) {
    let (holds, outcomes) = condition.trace(request);
    let told = outcomes.iter().zip(condition.terms()).filter_map(|(outcome, (_, values))| {
        let holds = outcome.holds?;
        let values: Vec<&TemplateValue> = values.collect();
        let text = &condition.text()[outcome.span.clone()];
        values.iter().all(|value| is_known(value)).then(|| {
            let shown: Vec<String> = values.iter().map(|value| shown(value, request)).collect();
            format!("`{text}` is {holds} ({})", shown.join(", "))
        })
    });
    (holds, told.collect::<Vec<_>>().join(", "))
}

/// A value of the request; not one that may be a secret.
fn shown(value: &TemplateValue, request: &ExplainedRequest) -> String {
    let name = value.name();
    let texts = match request.address(value) {
        Some(address) => vec![address.to_string()],
        None => request.texts(value).iter().map(|text| String::from_utf8_lossy(text).into_owned()).collect(),
    };
    match &texts[..] {
        [] => format!("there is no {name}"),
        _ if value.is_secret() => format!("{name} is there"),
        texts => format!(
            "{name} is {}",
            texts.iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" and ")
        ),
    }
}

/// The values that are not known without a connection, a client or a server.
fn unknown(condition: &WhenCondition) -> Vec<String> {
    let unknown = condition.values().filter(|value| !is_known(value));
    let mut names: Vec<String> = unknown.map(TemplateValue::name).collect();
    names.dedup();
    names
}

fn list(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn are(names: &[String]) -> String {
    format!("{} {}", list(names), if names.len() == 1 { "is" } else { "are" })
}
