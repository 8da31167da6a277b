//! Routes that translate gRPC-Web: gRPC needs servers that speak HTTP/2.

use std::collections::HashMap;

use crate::config::ServerProtocol;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{Document, RouteText, UpstreamText};

/// Reports upstreams of HTTP/1 behind routes that translate gRPC-Web.
pub(in crate::check) fn check_upstreams(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let routes = document.listener.0.iter().flat_map(|(_, text)| &text.value.route);
    let mut translating = routes.filter(|route| route.value.grpc_web).peekable();
    if translating.peek().is_none() {
        return;
    }
    let upstreams: HashMap<&str, &SpannedTable<UpstreamText>> =
        document.upstream.0.iter().map(|(name, text)| (&*name.value, text)).collect();
    for route in translating {
        check_route(route, &upstreams, diagnostics);
    }
}

fn check_route(
    route: &SpannedTable<RouteText>,
    upstreams: &HashMap<&str, &SpannedTable<UpstreamText>>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let RouteText { upstream, split, .. } = &route.value;
    let parts = split.iter().flat_map(|parts| &parts.0);
    for name in upstream.iter().chain(parts.filter_map(|part| part.value.upstream.as_ref())) {
        let Some(text) = upstreams.get(&*name.value) else { continue };
        if text.value.protocol.may_be_http2() || !text.is_sound {
            continue;
        }
        let message = format!(
            "`grpc_web` needs servers that speak gRPC, which is HTTP/2: those of `{}` are spoken to in {}",
            name.value,
            if text.value.protocol == ServerProtocol::Fastcgi { "FastCGI" } else { "HTTP/1.1" }
        );
        let help = "write `protocol = \"h2c\"` for the upstream, or `protocol = \"h2\"` with `tls`";
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, route.key_at("grpc_web"), message);
        diagnostics.push(diagnostic.label(name.span, "the upstream").help(help));
    }
}
