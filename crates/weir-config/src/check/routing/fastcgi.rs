//! `fastcgi` of a route, and routes to servers of FastCGI without it: a folder for the scripts, names that can be names.

use std::path::PathBuf;

use crate::check::files::Files;
use crate::check::templates;
use crate::check::templates::TemplatePlace;
use crate::check::upstream_lookup::UpstreamLookup;
use crate::config::{FastcgiSettings, RouteAction, ServerProtocol};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{FastcgiText, RouteText};
use crate::value::Template;

/// What the servers are told; `None` when they do not speak FastCGI.
pub(in crate::check) fn check(
    text: &SpannedTable<RouteText>,
    action: &RouteAction,
    files: &Files<'_>,
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Box<FastcgiSettings>> {
    check_asked(text, upstreams, diagnostics);
    let value = &text.value;
    let parts = value.split.iter().flat_map(|parts| &parts.0);
    let names = value.upstream.iter().chain(parts.filter_map(|part| part.value.upstream.as_ref()));
    let mut protocols = names.map(|name| (name, speaks_fastcgi(name, upstreams)));
    let (mut speaking, mut other) = (None, None);
    for (name, speaks) in &mut protocols {
        *(if speaks? { &mut speaking } else { &mut other }) = Some(name);
    }
    match (speaking, other) {
        (Some(speaking), Some(other)) => {
            let message = "a route goes to servers of HTTP or of FastCGI, not to both";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, other.span, message);
            diagnostics.push(diagnostic.label(speaking.span, "this one speaks FastCGI"));
            None
        }
        (None, _) => {
            if let Some(at) = text.written("fastcgi").filter(|_| value.fastcgi.is_some()) {
                let message = "`fastcgi` has no effect here: no server of FastCGI gets the request";
                let help = "name an `upstream` with `protocol = \"fastcgi\"`";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
            }
            None
        }
        (Some(_), None) if text.value.allow_connect => {
            let message = "`CONNECT` leads to no tunnel here: the servers speak FastCGI";
            let at = text.key_at("allow_connect");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
            None
        }
        (Some(upstream), None) => Some(Box::new(settings(text, upstream, action, files, diagnostics))),
    }
}

/// Whether the servers of an upstream speak FastCGI; `None` when there is no such upstream.
fn speaks_fastcgi(name: &Spanned<Box<str>>, upstreams: &UpstreamLookup<'_>) -> Option<bool> {
    upstreams.protocol(&name.value).map(|protocol| protocol == ServerProtocol::Fastcgi)
}

fn check_asked(
    text: &SpannedTable<RouteText>,
    upstreams: &UpstreamLookup<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let route = &text.value;
    let auth = route.forward_auth.as_ref().and_then(|auth| auth.value.upstream.as_ref());
    let of_targets =
        route.split.iter().flat_map(|parts| &parts.0).filter_map(|part| part.value.mirror.as_ref());
    let mirrors = route.mirror.iter().chain(of_targets).flat_map(|mirrors| &mirrors.0);
    let mirrors = mirrors.filter_map(|mirror| mirror.value.upstream.as_ref());
    let keys = route.jwt.as_ref().and_then(|jwt| jwt.value.remote_keys.as_ref());
    let keys = keys.and_then(|keys| keys.value.upstream.as_ref());
    let asked = [(auth, "servers that decide about requests are asked"), (keys, "keys are fetched")];
    let asked = asked.into_iter().filter_map(|(name, who)| Some((name?, who)));
    for (name, who) in asked.chain(mirrors.map(|name| (name, "copies are sent"))) {
        if speaks_fastcgi(name, upstreams) == Some(true) {
            let message = format!("{who} over HTTP, not over FastCGI");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, name.span, message));
        }
    }
}

fn settings(
    text: &SpannedTable<RouteText>,
    upstream: &Spanned<Box<str>>,
    action: &RouteAction,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> FastcgiSettings {
    let defaults = FastcgiText::default();
    let value = text.value.fastcgi.as_ref().map_or(&defaults, |fastcgi| &fastcgi.value);
    let served = match action {
        RouteAction::Files(served) => Some(absolute(served.root.clone())),
        RouteAction::Upstream(_)
        | RouteAction::Split(_)
        | RouteAction::Redirect(_)
        | RouteAction::Respond(_)
        | RouteAction::Then(_) => None,
    };
    let own = value.root.as_ref().map(|root| match served {
        // As the servers see it: it need not exist here.
        Some(_) => PathBuf::from(&*root.value),
        None => absolute(files.path(root)),
    });
    if let (Some(root), Some(path)) = (&value.root, &own)
        && !path.is_absolute()
    {
        let message = format!("`{}` does not begin with `/`", root.value);
        let help = "with `files` beside it, `root` is the folder as the servers see it";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, root.span, message).help(help));
    }
    let is_application = value.script.as_ref().is_some_and(|script| script.value.0.is_empty());
    let root = own.or_else(|| served.clone());
    if root.is_none() && !is_application && text.value.fastcgi.as_ref().is_none_or(|text| text.is_sound) {
        let message = "the folder of the scripts is missing";
        let at = text.written("fastcgi").unwrap_or(upstream.span);
        let help = "write `fastcgi = { root = \"/var/www/html\" }`, or `files` with a `root`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
    }
    for end in &value.split_path {
        if end.value.is_empty() || end.value.contains('/') {
            let message = format!("`{}` is not the end of the name of a script", end.value);
            diagnostics
                .push(Diagnostic::new(DiagnosticKind::BadValue, end.span, message).help("write `.php`"));
        }
    }
    for text in value.catch_stderr.iter().filter(|text| text.value.is_empty()) {
        let message = "an empty text is in everything that a program writes";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message));
    }
    let caught: Vec<Box<str>> = value.catch_stderr.iter().map(|text| text.value.clone()).collect();
    FastcgiSettings {
        caught: (!caught.is_empty()).then(|| caught.into()),
        checked_in: served.or_else(|| root.clone()).filter(|_| value.check_script),
        root,
        index: value.index.clone(),
        script: value.script.as_ref().map(|script| script.value.0.clone()),
        split_path: value.split_path.iter().map(|end| end.value.to_ascii_lowercase().into()).collect(),
        params: params(value, &TemplatePlace::in_route(text), diagnostics),
    }
}

fn params(
    value: &FastcgiText,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(Box<str>, Template)> {
    let mut params = Vec::new();
    for (name, template) in &value.params.0 {
        if !weir_http::fastcgi::is_param_name(&name.value) {
            let message = format!("`{}` cannot be the name of a parameter", name.value);
            let help = "names have letters, digits and `_`, and do not begin with a digit";
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
        }
        templates::check(template, name.span, place, diagnostics);
        templates::warn_of_variables(template, name.span, diagnostics);
        params.push((name.value.clone(), Template::clone(template)));
    }
    params
}

/// The path from the root of the file system: a server of FastCGI knows no other.
fn absolute(path: PathBuf) -> PathBuf {
    std::path::absolute(&path).unwrap_or(path)
}
