//! `Location`, `Refresh` and `Set-Cookie` of servers, rewritten before the head is written. Fields of Weir itself stay as they are.

use weir_config::{BodyPart, CookieRewrite, ForwardHost, GroupPiece, GroupTemplate, LocationRewrite};
use weir_http::Fields;
use weir_rewrite::cookie::{cookie_name, write_cookie};
use weir_rewrite::location::url_of_refresh;
use weir_rewrite::{CookieAttribute, CookieChange};

use crate::exchange::context::Context;
use crate::exchange::exchange_state::client_end::ClientEnd;
use crate::exchange::exchange_state::response::rewritten_fields::{Rewritable, rule_for};
use crate::exchange::placeholders::TemplateValues;
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
                if location(context, (route, rules), &values, value, &mut made) {
                    made = values.redirect_url(made);
                }
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

/// Appends a URL as the client gets it; whether a rule is for it.
fn location<S, U>(
    context: &Context<'_, S, U>,
    (route, rewrite): (&RoutePlan, &LocationRewrite),
    values: &TemplateValues<'_>,
    url: &[u8],
    out: &mut Vec<u8>,
) -> bool {
    let is_server = |authority: &[u8]| is_server(context, route, authority);
    let Some(found) = rewrite.rules.find(url, is_server) else {
        out.extend_from_slice(url);
        return false;
    };
    let [before, behind] = found.around;
    let start = out.len();
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
    let names_host =
        matches!(rewrite.to[found.rule].first(), Some(BodyPart::Literal(text)) if text.starts_with("//"));
    if !names_host {
        drop_empty_host(out, start);
        keep_host(out, start);
    }
    out.extend_from_slice(rest);
    true
}

/// A URL without a host, which a client of HTTP/1.0 need not name, is a path: the client goes on where it is.
fn drop_empty_host(out: &mut Vec<u8>, start: usize) {
    let scheme = [&b"http://"[..], b"https://"].into_iter().find(|scheme| out[start..].starts_with(scheme));
    let Some(scheme) = scheme else { return };
    match out.get(start + scheme.len()) {
        None => out.splice(start.., *b"/").for_each(drop),
        Some(b'/' | b'\\') => out.drain(start..start + scheme.len()).for_each(drop),
        Some(_) => {}
    }
}

/// A path that begins with two slashes, or what browsers take for them, would be the name of a host.
fn keep_host(out: &mut Vec<u8>, start: usize) {
    let is_slash = |byte: &u8| matches!(byte, b'/' | b'\\');
    if out[start..].starts_with(b"/") {
        let more = out[start + 1..].iter().take_while(|byte| is_slash(byte)).count();
        out.drain(start + 1..start + 1 + more);
    }
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
        let change = CookieChange {
            domain: rule.domain.as_ref().map(|attribute| &attribute.from),
            path: rule.path.as_ref().map(|attribute| &attribute.from),
            secure: rule.secure,
            http_only: rule.http_only,
            partitioned: rule.partitioned,
            same_site: rule.same_site,
        };
        let replace = |attribute, groups: &[&[u8]], out: &mut Vec<u8>| {
            let own = match attribute {
                CookieAttribute::Domain => &rule.domain,
                CookieAttribute::Path => &rule.path,
            };
            own.iter().for_each(|own| write_attribute(&own.to, values, groups, out));
        };
        let mut changed = Vec::new();
        write_cookie(&value, &change, &replace, &mut changed);
        value = changed;
    }
    value
}

/// Appends what an attribute is replaced by.
fn write_attribute(to: &GroupTemplate, values: &TemplateValues<'_>, groups: &[&[u8]], out: &mut Vec<u8>) {
    for piece in to.pieces() {
        match piece {
            GroupPiece::Group(group) => {
                out.extend_from_slice(groups.get(*group).copied().unwrap_or_default());
            }
            GroupPiece::Template(template) => {
                let mut text = Vec::new();
                values.write(template, &mut text);
                // A value of the client cannot begin another attribute.
                out.extend(text.into_iter().filter(|byte| byte.is_ascii_graphic() && !b";,".contains(byte)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_without_a_host_is_a_path() {
        for (url, expected) in [
            ("http:///a", "/a"),
            ("https:////b.test/a", "/b.test/a"),
            ("http://", "/"),
            ("http:///\\b.test", "/b.test"),
            ("http://a.test/", "http://a.test/"),
            ("/a", "/a"),
            ("", ""),
        ] {
            let mut out = b"5; url=".to_vec();
            let start = out.len();
            out.extend_from_slice(url.as_bytes());
            drop_empty_host(&mut out, start);
            keep_host(&mut out, start);
            assert_eq!(
                out.escape_ascii().to_string(),
                format!("5; url={}", expected.as_bytes().escape_ascii()),
                "{url}"
            );
        }
    }
}
