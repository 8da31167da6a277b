//! Which rules for the headers of a message apply, and what `expires` says of a response.

use std::time::Duration;

use weir_config::{Expires, ExpiresTime, HeaderRule, HeaderTemplate, ResponseOrigin, Stage};
use weir_http::{date, digits, parse_date};

use crate::exchange::exchange_state::header_changes::{ExpiryDecision, MessageFacts, rule_bit};
use crate::exchange::exchange_state::response::response_outline::ResponseFields;
use crate::exchange::placeholders::TemplateValues;
use crate::net::clock;

/// A request on its way to a server.
pub(in crate::exchange) struct OutgoingFacts<'a>(pub(in crate::exchange) TemplateValues<'a>);

impl MessageFacts for OutgoingFacts<'_> {
    fn applies(&self, place: usize, rule: &HeaderRule) -> bool {
        let Some(condition) = &rule.when else { return true };
        match &self.0.exchange.cache_use {
            // What is stored is for requests with these headers, whatever the one at hand has kept of its own: that of a refresh has less.
            Some(used) if condition.stage() < Stage::Upstream => used.applied & rule_bit(place) != 0,
            _ => condition.holds(&self.0),
        }
    }

    fn write_value(&self, template: &HeaderTemplate, out: &mut Vec<u8>) -> bool {
        self.0.write(template, out)
    }

    fn write_expiry(&self, _expires: &Expires, _out: &mut Vec<u8>) -> ExpiryDecision {
        ExpiryDecision::NotFor
    }
}

/// A response on its way to the client.
pub(in crate::exchange) struct IncomingFacts<'a, F> {
    pub(in crate::exchange) values: TemplateValues<'a>,
    pub(in crate::exchange) origin: ResponseOrigin,
    /// Its fields before these changes.
    pub(in crate::exchange) fields: &'a F,
    /// The media type of what it is about, where its `Content-Type` does not say that: of a 304, of parts.
    pub(in crate::exchange) media_type: Option<&'a [u8]>,
    /// How old it is, as `Age` says.
    pub(in crate::exchange) age: Duration,
}

impl<F: ResponseFields> MessageFacts for IncomingFacts<'_, F> {
    fn applies(&self, _: usize, rule: &HeaderRule) -> bool {
        rule.is_for(self.values.status, self.origin)
            && rule.when.as_ref().is_none_or(|condition| condition.holds(&self.values))
    }

    fn write_value(&self, template: &HeaderTemplate, out: &mut Vec<u8>) -> bool {
        self.values.write(template, out)
    }

    fn write_expiry(&self, expires: &Expires, out: &mut Vec<u8>) -> ExpiryDecision {
        let content_type = self.media_type.or_else(|| self.fields.first("content-type"));
        if !expires.is_for_type(content_type) {
            return ExpiryDecision::NotFor;
        }
        let now = clock::unix_now();
        let modified = || self.fields.first("last-modified").and_then(parse_date).map(Duration::from_secs);
        let until = expires.time.until(now, modified);
        if until.is_none() && expires.time != ExpiresTime::Epoch {
            return ExpiryDecision::Stays;
        }
        if !expires.overrides && self.forbids() {
            return ExpiryDecision::Stays;
        }
        match until {
            None => out.extend_from_slice(b"no-cache"),
            Some((left, _)) => {
                // What the response has spent in the cache is no part of the time that its client has.
                out.extend_from_slice(b"max-age=");
                digits::decimal(out, left.as_secs().saturating_add(self.age.as_secs()));
            }
        }
        if !expires.overrides {
            self.write_other_directives(out);
        }
        let date = date(until.map_or(0, |(_, ends)| ends.as_secs()));
        out.extend_from_slice(&date);
        ExpiryDecision::Written(date.len())
    }
}

/// Directives that say how long a response is fresh, or may be used when it is not.
const OF_FRESHNESS: [&[u8]; 4] = [b"max-age", b"s-maxage", b"stale-while-revalidate", b"stale-if-error"];

/// Directives that forbid to keep the response, or to use it unasked.
const FORBIDDING: [&[u8]; 3] = [b"no-store", b"no-cache", b"private"];

impl<F: ResponseFields> IncomingFacts<'_, F> {
    /// Whether the response forbids to keep it, or to use it unasked.
    fn forbids(&self) -> bool {
        let mut lines = self.fields.values("cache-control");
        lines.any(|line| directives(line).any(|directive| is_one(directive, &FORBIDDING)))
    }

    /// Appends the directives of the response that are not about how long it is fresh.
    fn write_other_directives(&self, out: &mut Vec<u8>) {
        for line in self.fields.values("cache-control") {
            for directive in directives(line).filter(|directive| !is_one(directive, &OF_FRESHNESS)) {
                out.extend_from_slice(b", ");
                out.extend_from_slice(directive);
            }
        }
    }
}

/// The directives of a line, those without a name left out.
fn directives(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|directive| !directive.is_empty())
}

fn is_one(directive: &[u8], names: &[&[u8]]) -> bool {
    let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii();
    names.iter().any(|other| name.eq_ignore_ascii_case(other))
}
