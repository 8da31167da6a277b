//! Redirect loops.
//!
//! Each redirect is followed one step with a request that its route matches: a client would be redirected until it gives up. A redirect to
//! the other of `http` and `https` than that of the listener is not followed, since its destination is unknown here.

use std::net::{IpAddr, Ipv4Addr};

use weir_traffic::route::{RouteRequest, RouteTable};

use crate::config::{Redirect, Route, RouteAction};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{ListenerText, RouteText};

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
pub(super) fn check_loops(
    text: &SpannedTable<ListenerText>,
    routes: &[Route],
    table: &RouteTable,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let scheme = if text.value.tls.is_some() { "https://" } else { "http://" };
    for (index, (route, written)) in routes.iter().zip(&text.value.route).enumerate() {
        let RouteAction::Redirect(redirect) = &route.action else { continue };
        if !written.is_sound {
            continue;
        }
        let Some(first) = sample(&written.value) else { continue };
        let is_this =
            |request: &RouteSample| table.lookup(request).is_some_and(|found| found.index() == index);
        if let Some(next) = follow(redirect, &first, scheme).filter(|next| is_this(&first) && is_this(next)) {
            let message =
                format!("the redirect leads back to its own route, which matches `{}` again", next.path);
            let at = written.value.redirect.as_ref().map_or(written.span, |redirect| redirect.key_at("to"));
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
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
        RouteText { path_exact: Some(path), .. } => path.0.to_string(),
        RouteText { path_regex: Some(_), .. } => return None,
        _ => "/".to_owned(),
    };
    Some(RouteSample { host, path, query: String::new() })
}

/// The request that a client makes after the redirect; none when it goes elsewhere for sure or perhaps.
fn follow(redirect: &Redirect, request: &RouteSample, scheme: &str) -> Option<RouteSample> {
    let query = Some(request.query.as_bytes()).filter(|query| !query.is_empty());
    let mut location = Vec::new();
    redirect.write_location(&mut location, request.host.as_bytes(), request.path.as_bytes(), query);
    let location = String::from_utf8(location).ok()?;
    let (host, target) = match location.strip_prefix(scheme) {
        Some(rest) => {
            let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
            (authority.split(':').next().unwrap_or_default().to_owned(), target.to_owned())
        }
        None if location.starts_with('/') => (request.host.clone(), location),
        None => return None,
    };
    let target = target.split('#').next().unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let path = if path.is_empty() { "/" } else { path };
    Some(RouteSample { host, path: path.to_owned(), query: query.to_owned() })
}
