//! Redirect loops.
//!
//! Each redirect is followed one step with a request that its route matches: a client would be redirected until it gives up. What leads elsewhere, be it
//! perhaps, is not followed: to the other of `http` and `https` than that of the listener, to a port that it does not have, or to a host by name from
//! a route that takes any host.

use std::net::{IpAddr, Ipv4Addr};

use weir_traffic::route::{HostPattern, RouteRequest, RouteTable};

use crate::config::{Redirect, Route, RouteAction, RouteFault};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan};
use crate::key::{Spanned, SpannedTable};
use crate::text::{ListenerText, RouteText, own_target_error};
use crate::value::{ListenAddress, Template, TemplateValue};

/// A host for routes that take any.
const SOME_HOST: &str = "weir.invalid";

/// A request with host, path and query, and nothing else.
struct RouteSample {
    host: String,
    path: String,
    query: String,
}

impl RouteRequest for RouteSample {
    fn host(&self) -> &[u8] {
        self.host.as_bytes()
    }

    fn path(&self) -> &[u8] {
        self.path.as_bytes()
    }

    fn query(&self) -> &[u8] {
        self.query.as_bytes()
    }

    fn method(&self) -> &[u8] {
        b"GET"
    }

    fn header(&self, _: &str) -> Option<&[u8]> {
        None
    }

    fn source(&self) -> IpAddr {
        IpAddr::V4(Ipv4Addr::LOCALHOST)
    }
}

/// Reports each redirect of the listener that leads to its own route.
pub(in crate::check) fn check_loops(
    text: &SpannedTable<ListenerText>,
    routes: &[Route],
    table: &RouteTable,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let here = Here {
        scheme: if text.value.tls.is_some() { "https" } else { "http" },
        ports: text.value.address.iter().flat_map(|addresses| &addresses.0).filter_map(port).collect(),
    };
    for (index, (route, written)) in routes.iter().zip(&text.value.route).enumerate() {
        let RouteAction::Redirect(redirect) = &route.action else { continue };
        if !written.is_sound {
            continue;
        }
        let Some(first) = sample(&written.value) else { continue };
        let names_host = |value| matches!(value, &TemplateValue::Host | &TemplateValue::Authority);
        let takes_any = route.matches.hosts.iter().all(|host| *host == HostPattern::ANY);
        let to_any_host = takes_any && !redirect.to.values().any(names_host);
        let is_this =
            |request: &RouteSample| table.lookup(request).is_some_and(|found| found.index() == index);
        let next = follow(redirect, &first, &here).filter(|next| !(to_any_host && next.host != first.host));
        if let Some(next) = next.filter(|next| is_this(&first) && is_this(next)) {
            let message =
                format!("the redirect leads back to its own route, which matches `{}` again", next.path);
            let at = written.value.redirect.as_ref().map_or(written.span, |redirect| redirect.key_at("to"));
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
    }
}

/// Gives what does not hold of a redirect its place in the text.
pub(in crate::check) fn report(
    text: &SpannedTable<RouteText>,
    redirect: &Redirect,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let Some(written) = &text.value.redirect else { return };
    check_own_values(&redirect.to, written.key_at("to"), diagnostics);
    for fault in redirect.faults() {
        let (key, help) = match fault {
            RouteFault::LocationByRegex => ("to", "write `{scheme}://{authority}{path}{query}`"),
            _ => ("status", "write 301, 302, 303, 307 or 308"),
        };
        let diagnostic =
            Diagnostic::new(DiagnosticKind::BadValue, written.key_at(key), fault.to_string()).help(help);
        diagnostics.push(diagnostic);
    }
}

/// Reports maps and variables in the target of a redirect by which clients could choose the host.
pub(super) fn check_own_values(target: &Template, at: SourceSpan, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(message) = own_target_error(target.parts()) {
        let help = "what stands there begins with text, and is never empty";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
}

/// A request that fits host and path of a route; none where that takes guessing.
fn sample(route: &RouteText) -> Option<RouteSample> {
    let host = match &route.host {
        None => SOME_HOST.to_owned(),
        Some(hosts) => match hosts.0.first()?.to_string() {
            any if any == "*" => SOME_HOST.to_owned(),
            wildcard if wildcard.starts_with("*.") => wildcard.replacen('*', "a", 1),
            exact => exact,
        },
    };
    let path = match route {
        RouteText { path: Some(path), .. } => path.value.0.to_string(),
        RouteText { path_begins: Some(path), .. } => path.value.0.to_string(),
        RouteText { path_exact: Some(path), .. } => path.0.to_string(),
        RouteText { path_regex: Some(_), .. } => return None,
        _ => "/".to_owned(),
    };
    Some(RouteSample { host, path, query: String::new() })
}

/// Where the listener is, as far as URLs say that.
struct Here {
    scheme: &'static str,
    ports: Vec<u16>,
}

fn port(address: &Spanned<ListenAddress>) -> Option<u16> {
    match &address.value {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::AllTcp { port } => Some(*port),
        ListenAddress::Unix(_) => None,
    }
}

/// The request that a client makes after the redirect; none when it goes elsewhere for sure or perhaps.
fn follow(redirect: &Redirect, request: &RouteSample, here: &Here) -> Option<RouteSample> {
    let query = Some(request.query.as_bytes()).filter(|query| !query.is_empty());
    let mut location = Vec::new();
    redirect.write_location(&mut location, request.host.as_bytes(), request.path.as_bytes(), query);
    let location = String::from_utf8(location).ok()?;
    let schemes = [here.scheme, "{scheme}"];
    let rest = schemes.into_iter().find_map(|scheme| location.strip_prefix(scheme)?.strip_prefix("://"));
    let (host, target) = match rest {
        Some(rest) => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
            if port.parse().is_ok_and(|port: u16| !here.ports.contains(&port)) {
                return None;
            }
            (host.to_owned(), target)
        }
        None if location.starts_with('/') => (request.host.clone(), &location[..]),
        None => return None,
    };
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    Some(RouteSample { host, path: path.to_owned(), query: query.to_owned() })
}
