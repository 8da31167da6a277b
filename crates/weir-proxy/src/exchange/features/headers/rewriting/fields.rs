//! `Location`, `Refresh` and `Set-Cookie` of servers, rewritten before the head is written. Fields of Weir itself stay as they are.

use weir_config::{AttributeRewrite, BodyPart, CookieRewrite, ForwardHost, LocationRewrite};
use weir_http::Fields;
use weir_rewrite::CookieChange;
use weir_rewrite::cookie::{cookie_name, write_cookie};
use weir_rewrite::location::url_of_refresh;

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::response::rewritten_fields::{Rewritable, rule_for};
use crate::exchange::features::headers::placeholders::TemplateValues;
use crate::state::snapshot::RoutePlan;

/// Makes the fields of a response with this head. `mark` appends a cookie as `affinity` wants it, if it does.
#[cold]
pub(in crate::exchange) fn prepare<S: ClientEnd, U>(
    context: &mut Context<'_, S, U>,
    route: &RoutePlan,
    (status, fields, text): (u16, &Fields, &[u8]),
    mark: impl Fn(&[u8], &mut Vec<u8>) -> bool,
) {
    let values = TemplateValues::new(context, Some(route));
    let values = TemplateValues { response: Some((fields, text)), status, ..values };
    let mut rewritten: Vec<(&'static [u8], Vec<u8>)> = Vec::new();
    for field in fields {
        let Some(kind) = rule_for(route, field.name.of(text)) else { continue };
        let (value, mut made) = (field.value.of(text), Vec::new());
        match (kind, &route.config.rewrite_location) {
            (Rewritable::Location, Some(rules)) => {
                location(context, (route, rules), &values, value, &mut made);
            }
            (Rewritable::Refresh, Some(rules)) => {
                let url = url_of_refresh(value).unwrap_or(value.len()..value.len());
                made.extend_from_slice(&value[..url.start]);
                location(context, (route, rules), &values, &value[url.clone()], &mut made);
                made.extend_from_slice(&value[url.end..]);
            }
            (Rewritable::SetCookie, _) => {
                if !mark(value, &mut made) {
                    made.extend_from_slice(value);
                }
                made = cookie(&route.config.rewrite_cookies, &values, made);
            }
            (Rewritable::Location | Rewritable::Refresh, None) => made.extend_from_slice(value),
        }
        rewritten.push((kind.name(), made));
    }
    context.exchange.rewritten_fields = (!rewritten.is_empty()).then(|| Box::new(rewritten));
}

/// Appends a URL as the client gets it.
fn location<S, U>(
    context: &Context<'_, S, U>,
    (route, rewrite): (&RoutePlan, &LocationRewrite),
    values: &TemplateValues<'_>,
    url: &[u8],
    out: &mut Vec<u8>,
) {
    let is_server = |authority: &[u8]| is_server(context, route, authority);
    let Some(found) = rewrite.rules.find(url, is_server) else {
        out.extend_from_slice(url);
        return;
    };
    let [before, behind] = found.around;
    out.extend_from_slice(before);
    for part in &rewrite.to[found.rule] {
        match part {
            BodyPart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            BodyPart::Value(value) => values.write_in_url(value, out),
            BodyPart::Group(group) => {
                out.extend_from_slice(found.groups.get(*group).copied().unwrap_or_default());
            }
        }
    }
    let path_len = behind.iter().position(|byte| b"?#".contains(byte)).unwrap_or(behind.len());
    let (path, rest) = behind.split_at(path_len);
    let rewritten = route.config.rewrite.as_ref().filter(|_| rewrite.rules.is_of_server(found.rule));
    match rewritten.and_then(|rewritten| rewritten.undo(path)) {
        Some(path) => out.extend_from_slice(&path),
        None => out.extend_from_slice(path),
    }
    out.extend_from_slice(rest);
}

/// Whether a host, with its port if that is written, is that of a server that requests of the route go to.
fn is_server<S, U>(context: &Context<'_, S, U>, route: &RoutePlan, authority: &[u8]) -> bool {
    let bare = |host: &str| {
        let port = [":80", ":443"].into_iter().find_map(|port| host.strip_suffix(port));
        port.unwrap_or(host).to_ascii_lowercase()
    };
    let Ok(authority) = std::str::from_utf8(authority) else { return false };
    let asked = bare(authority);
    if let ForwardHost::Literal(host) = &route.config.forward_host
        && bare(host) == asked
    {
        return true;
    }
    let snapshot = &context.config.snapshot;
    route.config.action.upstreams().any(|upstream| {
        let servers = &snapshot.upstreams[upstream.0].config.servers;
        servers.iter().any(|server| bare(&server.name) == asked)
    })
}

/// A cookie as the client gets it: every rule that is for it is applied.
fn cookie(rules: &[CookieRewrite], values: &TemplateValues<'_>, mut value: Vec<u8>) -> Vec<u8> {
    for rule in rules {
        if !rule.is_for(cookie_name(&value)) {
            continue;
        }
        let domain = rule.domain.as_ref().map(|attribute| attribute_text(attribute, values));
        let path = rule.path.as_ref().map(|attribute| attribute_text(attribute, values));
        let change = CookieChange {
            domain: domain.as_ref().map(|(from, to)| (*from, &to[..])),
            path: path.as_ref().map(|(from, to)| (*from, &to[..])),
            secure: rule.secure,
            http_only: rule.http_only,
            partitioned: rule.partitioned,
            same_site: rule.same_site,
        };
        let mut changed = Vec::new();
        write_cookie(&value, &change, &mut changed);
        value = changed;
    }
    value
}

/// What an attribute is replaced by, and what is replaced.
fn attribute_text<'a>(
    attribute: &'a AttributeRewrite,
    values: &TemplateValues<'_>,
) -> (Option<&'a [u8]>, Vec<u8>) {
    let mut text = Vec::new();
    values.write(&attribute.to, &mut text);
    // A value of the client cannot begin another attribute.
    text.retain(|byte| byte.is_ascii_graphic() && !b";,".contains(byte));
    (attribute.from.as_deref().map(str::as_bytes), text)
}
