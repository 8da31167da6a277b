//! What the names of a condition come to in an exchange.
//!
//! The values are those of placeholders. What conditions ask most is compared where it stands, without a copy; the rest is written out first.

use std::cell::Cell;
use std::net::IpAddr;

use weir_conditions::Facts;
use weir_config::{AccessLog, Fraction, TemplateValue, WhenCondition};
use weir_http::{FieldName, TargetForm};
use weir_traffic::route::{RouteId, RouteRequest, decoded_parameter, query_values};

use super::tables;
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::record::Record;
use crate::exchange::phases::choose::RoutableRequest;
use crate::exchange::placeholders::{TemplateValues, cookies};
use crate::exchange::telemetry::log;

/// The route that a request takes, on a listener whose routes may have conditions.
#[cold]
pub(in crate::exchange) fn find_route<U>(context: &Context<'_, impl ClientEnd, U>) -> Option<RouteId> {
    let facts = RouteFacts { values: TemplateValues::new(context, None), known: KnownHeaders::default() };
    context.listener.routes.lookup(&ConditionedRequest { request: context.routable(), facts })
}

/// Asks what is asked at the end of an exchange: whether it has its line in the access log, and whether it raises a counter of a table.
#[inline(always)]
pub(in crate::exchange) fn ask_at_end<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    if context.listener.asks_at_end {
        tables::increment_at_end(context);
        decide_line(context);
    }
}

/// Decides whether an exchange that is over has its line in the access log, where that has lines of some only.
#[cold]
fn decide_line<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    if context.listener.selects_lines {
        let log = log::log_of(&context.exchange.record, context.config);
        let has_line = log.when.as_ref().is_none_or(|condition| wants_line(context, condition))
            && (log.sample_errors && has_error(&context.exchange.record) || is_drawn(context, log));
        context.exchange.record.is_unlogged = !has_line;
    }
}

/// Whether an exchange has failed, be it by its server.
fn has_error(record: &Record) -> bool {
    record.failure.is_some() || record.status >= 500
}

/// Draws whether an exchange is in the share that has lines.
#[cold]
fn is_drawn<U>(context: &Context<'_, impl ClientEnd, U>, log: &AccessLog) -> bool {
    let drawn = context.client.worker.random() >> 32;
    // The upper half of the bits, scaled to a million: the error is below one in 4 000.
    (drawn * u64::from(Fraction::WHOLE.of_million())) >> 32 < u64::from(log.share())
}

/// A request whose head could not be read has nothing that a condition could ask for: it has its line.
#[cold]
fn wants_line<U>(context: &Context<'_, impl ClientEnd, U>, condition: &WhenCondition) -> bool {
    let is_unread = context.exchange.request_text.is_empty();
    if is_unread && context.listener.config.protocol.routes_requests() {
        return true;
    }
    let (exchange, head) = (&context.exchange, &context.exchange.response_text[..]);
    let response = (!head.is_empty()).then(|| (exchange.response.fields(), head));
    let values = TemplateValues::new(context, context.route());
    condition.holds(&TemplateValues { response, status: exchange.record.status, ..values })
}

/// A request of which conditions can be asked.
struct ConditionedRequest<'a> {
    request: RoutableRequest<'a>,
    facts: RouteFacts<'a>,
}

impl RouteRequest for ConditionedRequest<'_> {
    fn host(&self) -> &[u8] {
        self.request.host()
    }

    fn path(&self) -> &[u8] {
        self.request.path()
    }

    fn query(&self) -> &[u8] {
        self.request.query()
    }

    fn method(&self) -> &[u8] {
        self.request.method()
    }

    fn header(&self, name: &str) -> Option<&[u8]> {
        self.request.header(name)
    }

    fn header_lines(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.request.header_lines(name)
    }

    fn source(&self) -> IpAddr {
        self.request.source()
    }

    fn condition_holds(&self, route: RouteId) -> bool {
        let values = &self.facts.values;
        let plan = &values.listener.route_plans[route.index()];
        plan.config.condition.as_ref().is_some_and(|condition| match condition.names_own_values() {
            false => condition.holds(&self.facts),
            // Variables are those of the route that is asked.
            true => condition.holds(&TemplateValues { route: Some(plan), ..*values }),
        })
    }

    fn any_condition_text(
        &self,
        route: RouteId,
        term: usize,
        passes: impl FnMut(&[u8]) -> bool,
    ) -> Option<bool> {
        let plan = &self.facts.values.listener.route_plans[route.index()];
        plan.config.condition.as_ref()?.any_text(term, &self.facts, passes)
    }
}

/// What the conditions of routes ask for: the values of an exchange, of which headers are found once for all routes.
struct RouteFacts<'a> {
    values: TemplateValues<'a>,
    known: KnownHeaders<'a>,
}

/// Headers that a condition has asked for before.
#[derive(Default)]
struct KnownHeaders<'a> {
    headers: [Cell<Option<KnownHeader<'a>>>; 4],
    /// Which of them the next one replaces.
    next: Cell<usize>,
}

/// The longest name of a header that is remembered.
const KNOWN_NAME_MAX: usize = 30;

/// A header by its name.
#[derive(Clone, Copy)]
struct KnownHeader<'a> {
    name: [u8; KNOWN_NAME_MAX],
    len: u8,
    lines: HeaderLines<'a>,
}

/// The lines of a header, as far as they are remembered.
#[derive(Clone, Copy)]
enum HeaderLines<'a> {
    None,
    One(&'a [u8]),
    Several,
}

impl<'a> RouteFacts<'a> {
    /// The lines of a header, looked for if it was not asked for lately.
    fn lines(&self, name: &str) -> HeaderLines<'a> {
        let known = self.known.headers.iter().filter_map(Cell::get);
        let found = known.into_iter().find(|known| known.name[..known.len.into()] == *name.as_bytes());
        found.map_or_else(|| self.find_lines(name), |known| known.lines)
    }

    #[inline(never)]
    fn find_lines(&self, name: &str) -> HeaderLines<'a> {
        let mut found = self.values.header_lines(name);
        let lines = match (found.next(), found.next()) {
            (None, _) => HeaderLines::None,
            (Some(line), None) => HeaderLines::One(line),
            (Some(_), Some(_)) => HeaderLines::Several,
        };
        let mut known = KnownHeader { name: [0; KNOWN_NAME_MAX], len: 0, lines };
        if let (Some(to), Ok(len)) = (known.name.get_mut(..name.len()), u8::try_from(name.len())) {
            to.copy_from_slice(name.as_bytes());
            known.len = len;
            let next = self.known.next.get();
            self.known.headers[next].set(Some(known));
            self.known.next.set((next + 1) % self.known.headers.len());
        }
        lines
    }
}

impl Facts<TemplateValue> for RouteFacts<'_> {
    #[inline]
    fn any_text(&self, value: &TemplateValue, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        if let TemplateValue::Header(name) = value {
            match self.lines(name) {
                HeaderLines::None => return passes(b""),
                HeaderLines::One(line) => return passes(line),
                HeaderLines::Several => {}
            }
        }
        self.values.any_text(value, passes)
    }

    fn is_present(&self, value: &TemplateValue) -> bool {
        match value {
            TemplateValue::Header(name) => !matches!(self.lines(name), HeaderLines::None),
            _ => self.values.is_present(value),
        }
    }

    fn number(&self, value: &TemplateValue) -> Option<i64> {
        self.values.number(value)
    }

    fn address(&self, value: &TemplateValue) -> Option<IpAddr> {
        self.values.address(value)
    }

    fn flag(&self, value: &TemplateValue) -> bool {
        self.values.flag(value)
    }
}

impl Facts<TemplateValue> for TemplateValues<'_> {
    fn any_text(&self, value: &TemplateValue, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        let (request, text) = (&self.exchange.request, &self.exchange.request_text[..]);
        match value {
            TemplateValue::Method => passes(request.method_span().of(text)),
            TemplateValue::Path if self.path_rewrite.is_none() => passes(match request.target_form() {
                TargetForm::Asterisk | TargetForm::Authority => b"/",
                TargetForm::Origin | TargetForm::Absolute => request.normal_path(text),
            }),
            TemplateValue::Scheme => passes(if self.client.is_tls { b"https" } else { b"http" }),
            TemplateValue::Header(name) => any_or_empty(self.header_lines(name), passes),
            TemplateValue::UserAgent => {
                let lines = request.fields().all(FieldName::UserAgent);
                any_or_empty(lines.map(|field| field.value.of(text)), passes)
            }
            TemplateValue::Referer => {
                let lines = request.fields().all(FieldName::Referer);
                any_or_empty(lines.map(|field| field.value.of(text)), passes)
            }
            TemplateValue::Host if is_normal_host(request.host().of(text)) => passes(request.host().of(text)),
            TemplateValue::User => passes(self.exchange.user()),
            TemplateValue::Tag => passes(&self.exchange.limits.tag),
            TemplateValue::TokenClaim(name) => passes(self.exchange.claim(name).unwrap_or_default()),
            TemplateValue::Route => passes(self.route.map_or("", |route| &route.config.name).as_bytes()),
            TemplateValue::Listener => passes(self.listener.config.name.as_bytes()),
            TemplateValue::Upstream => passes(self.destination().0.as_bytes()),
            TemplateValue::Server => passes(self.destination().1.as_bytes()),
            TemplateValue::Cookie(name) => any_or_empty(cookies(self.exchange, name), passes),
            TemplateValue::QueryParameter(name) => {
                let sent = query_values(self.query(), name.as_bytes());
                any_or_empty(sent.map(decoded_parameter), passes)
            }
            TemplateValue::ResponseHeader(name) => match self.response {
                Some((fields, text)) => {
                    let lines = fields.all_by_name(text, name);
                    any_or_empty(lines.map(|field| field.value.of(text)), passes)
                }
                None => passes(b""),
            },
            TemplateValue::Map(_) | TemplateValue::Variable(_) => self.any_own_text(value, passes),
            other => {
                let mut written = Vec::new();
                self.write_one(other, &mut written);
                passes(&written)
            }
        }
    }

    fn is_present(&self, value: &TemplateValue) -> bool {
        match value {
            TemplateValue::Header(name) => self.header_lines(name).next().is_some(),
            TemplateValue::Cookie(name) => cookies(self.exchange, name).next().is_some(),
            TemplateValue::QueryParameter(name) => {
                query_values(self.query(), name.as_bytes()).next().is_some()
            }
            TemplateValue::ResponseHeader(name) => {
                self.response.is_some_and(|(fields, text)| fields.get_by_name(text, name).is_some())
            }
            other => self.any_text(other, |text| !text.is_empty()),
        }
    }

    fn number(&self, value: &TemplateValue) -> Option<i64> {
        match value {
            TemplateValue::Status => return (self.status != 0).then(|| self.status.into()),
            TemplateValue::ContentLength => return self.content_length()?.try_into().ok(),
            TemplateValue::UsableServers(upstream) => return self.usable_servers(upstream).try_into().ok(),
            TemplateValue::Counter(table, counter) => {
                return Some(self.counter(table.name(), *counter)?.try_into().unwrap_or(i64::MAX));
            }
            TemplateValue::ConnectionRequests => {
                return Some(self.client.requests.try_into().unwrap_or(i64::MAX));
            }
            _ => {}
        }
        let mut digits = Vec::new();
        self.write_one(value, &mut digits);
        std::str::from_utf8(&digits).ok()?.parse().ok()
    }

    fn address(&self, value: &TemplateValue) -> Option<IpAddr> {
        match value {
            TemplateValue::ClientAddress => Some(self.client_address()),
            TemplateValue::PeerAddress => self.client.sender().ip(),
            TemplateValue::LocalAddress => self.local_address().map(|address| address.ip()),
            _ => None,
        }
    }

    fn flag(&self, _value: &TemplateValue) -> bool {
        // No placeholder is true or false.
        false
    }
}

/// Texts of one value that a condition looks at: more come only with as many lines of one field, of which the first ones and the last count.
const TEXTS_MAX: usize = 256;

/// Whether a map or a variable in a condition comes to more texts than it looks at: then it cannot be decided.
pub(in crate::exchange) fn has_too_many(values: &TemplateValues<'_>, condition: &WhenCondition) -> bool {
    condition.names_own_values()
        && condition.values().any(|value| value.own().is_some() && values.count(value) > TEXTS_MAX)
}

impl TemplateValues<'_> {
    /// Whether a text of a map or a variable passes: one for each line of what it is made of.
    #[cold]
    fn any_own_text(&self, value: &TemplateValue, mut passes: impl FnMut(&[u8]) -> bool) -> bool {
        let (count, mut written) = (self.count(value), Vec::new());
        let (first, last) = if count <= TEXTS_MAX { (count, None) } else { (TEXTS_MAX - 1, Some(count - 1)) };
        (0..first).chain(last).any(|nth| {
            written.clear();
            self.write_nth(value, nth, &mut written);
            passes(&written)
        })
    }
}

/// Whether a host is in lower case and without a dot behind it, as nearly all are sent.
fn is_normal_host(host: &[u8]) -> bool {
    !host.ends_with(b".") && !host.iter().any(u8::is_ascii_uppercase)
}

/// Whether one of them passes; an empty text if there is none.
fn any_or_empty<T: AsRef<[u8]>>(
    texts: impl Iterator<Item = T>,
    mut passes: impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut has_one = false;
    for text in texts {
        has_one = true;
        if passes(text.as_ref()) {
            return true;
        }
    }
    !has_one && passes(b"")
}
