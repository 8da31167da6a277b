//! What the names of a condition come to in an exchange.
//!
//! The values are those of placeholders. What conditions ask most is compared where it stands, without a copy; the rest is written out first.

use std::net::IpAddr;

use weir_conditions::Facts;
use weir_config::TemplateValue;
use weir_http::{FieldName, TargetForm};
use weir_traffic::route::{RouteId, RouteRequest, decoded_parameter, query_values};

use super::headers::placeholders::{TemplateValues, cookies};
use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::phases::choose::RoutableRequest;
use crate::exchange::telemetry::log;

/// The route that a request takes, on a listener whose routes may have conditions.
#[cold]
pub(in crate::exchange) fn find_route<U>(context: &Context<'_, impl ClientEnd, U>) -> Option<RouteId> {
    let values = TemplateValues::new(context, None);
    context.listener.routes.lookup(&ConditionedRequest { request: context.routable(), values })
}

/// Decides whether an exchange that is over has its line in the access log, where that has a condition.
#[inline(always)]
pub(in crate::exchange) fn decide_line<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    if context.listener.has_log_conditions {
        ask_log(context);
    }
}

/// A request whose head could not be read has nothing that a condition could ask for: it has its line.
#[cold]
fn ask_log<U>(context: &mut Context<'_, impl ClientEnd, U>) {
    let Some(condition) = log::condition(&context.exchange.record, context.config) else { return };
    let is_unread = context.exchange.request_text.is_empty();
    let is_unlogged = !(is_unread && context.listener.config.protocol.routes_requests()) && {
        let (exchange, head) = (&context.exchange, &context.exchange.response_text[..]);
        let response = (!head.is_empty()).then(|| (exchange.response.fields(), head));
        let values = TemplateValues::new(context, context.route());
        !condition.holds(&TemplateValues { response, status: exchange.record.status, ..values })
    };
    context.exchange.record.is_unlogged = is_unlogged;
}

/// A request of which conditions can be asked.
struct ConditionedRequest<'a> {
    request: RoutableRequest<'a>,
    values: TemplateValues<'a>,
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
        let plan = &self.values.listener.route_plans[route.index()];
        plan.config.condition.as_ref().is_some_and(|condition| match condition.names_own_values() {
            false => condition.holds(&self.values),
            // Variables are those of the route that is asked.
            true => condition.holds(&TemplateValues { route: Some(plan), ..self.values }),
        })
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
            TemplateValue::Header(name) => {
                let lines = request.fields().all_by_name(text, name);
                any_or_empty(lines.map(|field| field.value.of(text)), passes)
            }
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
        let (request, text) = (&self.exchange.request, &self.exchange.request_text[..]);
        match value {
            TemplateValue::Header(name) => request.fields().all_by_name(text, name).next().is_some(),
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
const TEXTS_MAX: usize = 64;

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
