//! A route: the requests that it matches, and the settings around its action.

use std::sync::Arc;

use weir_traffic::rewrite::{Rewrite, RewriteError};
use weir_traffic::route::{FieldMatch, PathMatch, QueryMatch, RouteMatch};

use super::headers::ListenerDefaults;
use super::{
    accel, access, access_log, action, error_pages, fastcgi, headers, match_groups, mirror, rewrites,
};
use crate::check::names::check_name;
use crate::check::scope::CheckScope;
use crate::check::templates::TemplatePlace;
use crate::config::{
    AccessList, Cors, CorsOrigin, EncodedSlashAction, FastcgiSettings, Interner, LimitUse, ListenerProtocol,
    RequestBuffering, Route, RouteAction, RouteFault, RouteParts, RouteSettings, TrackedTable, late_values,
    upgrade_fault,
};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Map, Spanned, SpannedTable};
use crate::text::{CorsText, ListenerText, RedirectText, RegexReplacement, RouteText, ValueRule};
use crate::value::{Template, TemplateValue, Token};

/// What a route is checked with.
struct RouteCheck<'a> {
    text: &'a SpannedTable<RouteText>,
    listener: &'a ListenerText,
    around: &'a ListenerDefaults,
    /// The lists, limits and tables of the listener.
    rules: (&'a [Arc<AccessList>], &'a [LimitUse], &'a [Arc<TrackedTable>]),
    scope: &'a CheckScope<'a>,
    place: TemplatePlace<'a>,
}

pub(in crate::check) fn check(
    text: &SpannedTable<RouteText>,
    listener: &ListenerText,
    around: &ListenerDefaults,
    rules: (&[Arc<AccessList>], &[LimitUse], &[Arc<TrackedTable>]),
    scope: &CheckScope<'_>,
    interner: &mut Interner<RouteSettings>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Route {
    let value = &text.value;
    let route = RouteCheck { text, listener, around, rules, scope, place: TemplatePlace::in_route(text) };
    if let Some(name) = &value.name {
        check_name(name, "route", diagnostics);
    }
    let mut action = action::check(text, scope.files, scope.upstreams, diagnostics);
    route.report_without_effect(&action, diagnostics);
    let fastcgi = fastcgi::check(text, &action, scope.files, scope.upstreams, diagnostics);
    if let (RouteAction::Files(served), Some(fastcgi), Some(written)) = (&mut action, &fastcgi, &value.files)
        && written.changed("index").is_none()
    {
        served.index.insert(0, Template::of_literal(&fastcgi.index));
    }
    let mut rewrite = rewrite(text, diagnostics);
    if let RouteAction::Redirect(redirect) = &mut action {
        redirect.rewrite = rewrite.take();
        super::redirect::report(text, redirect, diagnostics);
    }
    let mut limited_by = scope.limits.of_route(rules.1, &value.limited_by, &action, diagnostics);
    limited_by.iter_mut().for_each(|one| one.status = value.limit_status);
    if let Some(at) = text.written("limit_status").filter(|_| limited_by.is_empty() && text.is_sound) {
        let message = "`limit_status` has no effect: no limit holds for the requests of this route";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, at, message));
    }
    let tracked = scope.tables.of(rules.2, &value.track, diagnostics);
    let split_by = action::split_by(text, diagnostics);
    let settings =
        RouteSettings { rewrite, limited_by, tracked, split_by, ..route.settings(fastcgi, diagnostics) };
    for (key, fault) in settings.rule_faults() {
        if let Some(fault) = fault {
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at(key), fault.to_string()));
        }
    }
    if listener.protocol.routes_requests() {
        access::check_satisfy(text, &settings, diagnostics);
    }
    action::split_settings(value, (&route.place, scope), (&mut action, &settings), interner, diagnostics);
    let log = match_groups::log_of(value, listener, scope.document);
    let shows_groups = match_groups::are_shown(&settings, &action, log);
    let matches = matches(text, shows_groups, diagnostics).into();
    let condition = value.when.as_ref().map(|condition| condition.value.clone());
    report_early_condition(text, diagnostics);
    let settings = interner.intern(settings);
    Route::assume(RouteParts { name: route_name(value).into(), matches, condition, action, settings })
}

impl RouteCheck<'_> {
    /// Reports keys that mean nothing here, by the protocol of the listener or by what the route does.
    fn report_without_effect(&self, action: &RouteAction, diagnostics: &mut Vec<Diagnostic>) {
        let (text, protocol) = (self.text, self.listener.protocol);
        report_of_other_protocol(text, protocol, diagnostics);
        if !protocol.routes_requests() {
            action::report_targets_of_tcp(&text.value, diagnostics);
        }
        report_unreachable_path(text, self.listener.paths.encoded_slash, diagnostics);
        rewrites::report(text, action, diagnostics);
        accel::report(text, diagnostics);
        report_ranges(text, diagnostics);
        match action {
            RouteAction::Redirect(_) => report_without_server(text, "redirect", diagnostics),
            RouteAction::Respond(_) => report_without_server(text, "respond", diagnostics),
            RouteAction::Files(files) if files.otherwise.is_none() => {
                report_without_server(text, "files", diagnostics);
            }
            RouteAction::Files(_)
            | RouteAction::Upstream(_)
            | RouteAction::Split(_)
            | RouteAction::Then(_) => {}
        }
    }

    /// The settings that neither what the route does decides, nor what it matches.
    fn settings(
        &self,
        fastcgi: Option<Box<FastcgiSettings>>,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> RouteSettings {
        let Self { text, listener, around, scope, place, .. } = self;
        let value = &text.value;
        // A server of FastCGI has to be told the length of the body.
        let buffers = fastcgi.as_ref().map(|_| RequestBuffering::default());
        let request_headers = headers::check_request(&value.request_headers, place, diagnostics);
        let response_headers = headers::check_response_of_route(text, place, around.has_tls, diagnostics);
        let rewriting = around.rewriting.of_route(value, place, diagnostics);
        let own_pages = error_pages::check(value.error_pages.as_ref(), place, scope, diagnostics);
        RouteSettings {
            internal: value.internal,
            rewrites: rewrites::check(&value.rewrite, &TemplatePlace::before_access(text), diagnostics),
            lists: scope.lists.named(self.rules.0, &value.lists, diagnostics),
            vars: vars(text, listener, diagnostics),
            request_headers: around.request.followed_by(&request_headers),
            response_headers: around.response.followed_by(&response_headers),
            cors: value.cors.as_ref().map(|cors| Box::new(check_cors(cors, diagnostics))),
            access: access::check(value, scope, diagnostics).map(Box::new),
            cache: value.cache.as_ref().and_then(|cache| scope.caches.of_route(&cache.0, place, diagnostics)),
            max_ranges: value.max_ranges,
            compression: value.compression.as_ref().unwrap_or(&listener.compression).to_compression(),
            rewrite_body: rewriting.body,
            rewrite_location: rewriting.location,
            rewrite_cookies: rewriting.cookies,
            x_accel: value.x_accel.clone(),
            x_sendfile: value.x_sendfile.as_ref().map(|name| (*name.value).into()),
            error_pages: [own_pages, around.error_pages.clone()].concat(),
            forward_host: value.forward_host.clone(),
            forward_headers: value.forward_headers,
            mirrors: mirror::check_all(value.mirror.as_ref(), place, scope, diagnostics),
            buffer_requests: value.buffer_requests.as_ref().map(|one| one.value.clone()).or(buffers),
            buffer_responses: value.buffer_responses.as_ref().map(|one| one.value.clone()),
            queue_priority: value.queue_priority,
            tls_passthrough: value.tls_passthrough,
            allow_connect: value.allow_connect,
            grpc_web: value.grpc_web,
            upgrades: upgrades(&value.upgrades, diagnostics),
            fastcgi,
            access_log: access_log::of_route(&value.access_log, scope.files, diagnostics),
            timeouts: value.timeouts.value.clone(),
            body_size: value.limits.body_size.unwrap_or(listener.limits.value.body_size),
            ..RouteSettings::default()
        }
    }
}

/// The variables of a route: those of its listener, and its own, which come first.
fn vars(
    text: &SpannedTable<RouteText>,
    listener: &ListenerText,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<(Box<str>, Template)> {
    let own = &text.value.vars.0;
    own.iter().for_each(|(name, _)| check_name(name, "variable", diagnostics));
    let is_own = |name: &str| own.iter().any(|(known, _)| *known.value == *name);
    let of_listener = listener.vars.0.iter().filter(|(name, _)| !is_own(&name.value));
    own.iter().chain(of_listener).map(|(name, text)| (name.value.clone(), text.value.clone())).collect()
}

fn check_cors(text: &SpannedTable<CorsText>, diagnostics: &mut Vec<Diagnostic>) -> Cors {
    let cors = text.value.to_cors();
    if let Some(fault) = cors.fault() {
        let mut origins = text.value.origins.iter().flat_map(|origins| &origins.0);
        let any = origins.find(|origin| origin.value == CorsOrigin::Any);
        let help = "name the origins: browsers refuse `*` with credentials";
        let at = text.key_at("credentials");
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, fault.to_string());
        let label = any.map_or(text.span, |any| any.span);
        diagnostics.push(diagnostic.label(label, "every origin").help(help));
    }
    cors
}

/// The name of a route in logs and metrics.
pub(crate) fn route_name(text: &RouteText) -> Box<str> {
    text.name.as_ref().map_or_else(|| default_name(text), |name| name.value.clone())
}

/// Host and path in readable form.
fn default_name(text: &RouteText) -> Box<str> {
    let host = match text.host.as_ref().or(text.sni.as_ref()) {
        Some(hosts) => hosts.0.first().map(ToString::to_string).unwrap_or_default(),
        None => String::new(),
    };
    let path = match text {
        RouteText { path: Some(path), .. } => path.value.0.to_string(),
        RouteText { path_begins: Some(path), .. } => format!("{}*", path.value.0),
        RouteText { path_exact: Some(path), .. } => format!("={}", path.0),
        RouteText { path_regex: Some(pattern), .. } => format!("~{}", pattern.0.as_str()),
        _ if text.sni.is_some() => String::new(),
        _ => "*".to_owned(),
    };
    format!("{host}{path}").into()
}

/// The keys of which a route has one.
const PATH_KEYS: [&str; 4] = ["path", "path_begins", "path_exact", "path_regex"];

fn matches(
    text: &SpannedTable<RouteText>,
    shows_groups: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> RouteMatch {
    let value = &text.value;
    RouteMatch {
        hosts: value.host.iter().chain(&value.sni).flat_map(|hosts| hosts.0.iter().cloned()).collect(),
        path: path(text, shows_groups, diagnostics),
        methods: value.method.iter().flat_map(|methods| methods.0.iter().cloned()).collect(),
        headers: rules(&value.header, |name, rule| FieldMatch::new(name, rule.to_match()), diagnostics),
        query: rules(&value.query, |name, rule| QueryMatch::new(name, rule.to_match()), diagnostics),
        sources: value.source.iter().flat_map(|sources| sources.0.iter().copied()).collect(),
        condition: value.when.as_ref().map(|condition| condition.value.text().into()),
        priority: i32::try_from(value.priority).unwrap_or(i32::MAX),
        before_regex: value.before_regex,
        precedence: 0,
    }
}

fn path(text: &SpannedTable<RouteText>, shows_groups: bool, diagnostics: &mut Vec<Diagnostic>) -> PathMatch {
    let written: Vec<&str> = PATH_KEYS.into_iter().filter(|key| text.written(key).is_some()).collect();
    if let [first, second, ..] = written[..] {
        let message = format!(
            "a route has one of `path`, `path_begins`, `path_exact` and `path_regex`; this one has `{first}` and `{second}`"
        );
        let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, text.key_at(second), message);
        diagnostics.push(diagnostic.help("write two routes"));
    }
    let compiled = match &text.value {
        RouteText { path: Some(path), .. } => PathMatch::prefix(&path.value.0),
        RouteText { path_begins: Some(path), .. } => PathMatch::beginning(&path.value.0),
        RouteText { path_exact: Some(path), .. } => PathMatch::exact(&path.0),
        RouteText { path_regex: Some(pattern), .. } if shows_groups => {
            Ok(PathMatch::of_pattern(pattern.0.with_groups()))
        }
        RouteText { path_regex: Some(pattern), .. } => Ok(PathMatch::of_pattern(pattern.0.clone())),
        _ => Ok(PathMatch::ANY),
    };
    compiled.expect("the path was checked when it was read")
}

/// Rules on headers or parameters by name; each name is checked by `rule`.
fn rules<T, E: std::fmt::Display>(
    map: &Map<ValueRule>,
    rule: impl Fn(&str, &ValueRule) -> Result<T, E>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<T> {
    let mut rules = Vec::new();
    for (name, value) in &map.0 {
        match rule(&name.value, value) {
            Ok(rule) => rules.push(rule),
            Err(error) => {
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, error.to_string()));
            }
        }
    }
    rules
}

/// `strip_prefix`, `replace_prefix` and `replace_regex`: at most one, the first two with a `path`.
fn rewrite(text: &SpannedTable<RouteText>, diagnostics: &mut Vec<Diagnostic>) -> Option<Rewrite> {
    let value = &text.value;
    let wanted: Vec<&str> = [
        ("strip_prefix", value.strip_prefix),
        ("replace_prefix", value.replace_prefix.is_some()),
        ("replace_regex", value.replace_regex.is_some()),
    ]
    .into_iter()
    .filter_map(|(key, is_wanted)| is_wanted.then_some(key))
    .collect();
    if let [first, second, ..] = wanted[..] {
        let message = format!("`{first}` and `{second}` exclude each other");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at(second), message));
        return None;
    }
    let key = *wanted.first()?;
    if let Some(replacement) = &value.replace_regex {
        return replace_regex(replacement, diagnostics);
    }
    let to = value.replace_prefix.as_ref().map_or("/", |to| &to.0);
    let rewrite = match (&value.path, &value.path_begins) {
        (Some(prefix), _) => Some(Rewrite::replace_prefix(&prefix.value.0, to)),
        (None, Some(beginning)) => Some(Rewrite::replace_beginning(&beginning.value.0, to)),
        (None, None) => None,
    };
    let Some(rewrite) = rewrite else {
        let message = format!("`{key}` needs a `path`: it is the prefix to replace");
        let help = match text.written("path_regex") {
            Some(_) => "with `path_regex`, write `replace_regex`",
            None => "write `path = \"/...\"`",
        };
        if text.written("path").is_none() {
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at(key), message).help(help));
        }
        return None;
    };
    Some(rewrite.expect("both paths were checked when they were read"))
}

fn replace_regex(
    replacement: &SpannedTable<RegexReplacement>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Rewrite> {
    let (pattern, with) = (replacement.value.pattern.as_ref()?, replacement.value.replacement.as_ref()?);
    match Rewrite::regex(pattern.0.as_str(), &with.value) {
        Ok(rewrite) => Some(rewrite),
        Err(error) => {
            let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, with.span, error.to_string());
            diagnostics.push(match error {
                RewriteError::NoSuchGroup(_) => {
                    diagnostic.help("write a group before a letter or digit as `$${1}`")
                }
                _ => diagnostic,
            });
            None
        }
    }
}

fn upgrades(tokens: &[Spanned<Token>], diagnostics: &mut Vec<Diagnostic>) -> Vec<Box<str>> {
    let mut upgrades: Vec<Box<str>> = Vec::new();
    for token in tokens {
        let name = token.value.to_ascii_lowercase();
        if let Some(fault) = upgrade_fault(&name) {
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, token.span, fault.to_string()));
        }
        upgrades.push(name.into());
    }
    upgrades
}

/// Reports a path that no request has, since rules are matched on the normal form of paths.
fn report_unreachable_path(
    text: &SpannedTable<RouteText>,
    slash: EncodedSlashAction,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let (key, path) = match &text.value {
        RouteText { path: Some(path), .. } => ("path", &path.value.0),
        RouteText { path_begins: Some(path), .. } => ("path_begins", &path.value.0),
        RouteText { path_exact: Some(path), .. } => ("path_exact", &path.0),
        _ => return,
    };
    // The last segment of a beginning may go on: `/.` is that of `/.git`.
    let goes_on = if key == "path_begins" { "x" } else { "" };
    let path = format!("{path}{goes_on}");
    let mut normal = Vec::new();
    let decoded = match slash {
        EncodedSlashAction::Decode => weir_http::EncodedSlashRule::Decode,
        EncodedSlashAction::Keep | EncodedSlashAction::Refuse => weir_http::EncodedSlashRule::Keep,
    };
    weir_http::write_normal_path(&mut normal, path.as_bytes(), decoded);
    let is_normal = normal == path.as_bytes();
    normal.truncate(normal.len().saturating_sub(goes_on.len()));
    let path = &path[..path.len() - goes_on.len()];
    let diagnostic = if !is_normal {
        let message = format!("no request matches `{path}`: routes are matched on the normal form of a path");
        let help = format!("write `{}`", String::from_utf8_lossy(&normal));
        Diagnostic::new(DiagnosticKind::BadValue, text.key_at(key), message).help(help)
    } else if slash == EncodedSlashAction::Refuse && path.contains("%2F") {
        let message = format!("no request matches `{path}`: `paths.encoded_slash` rejects encoded slashes");
        Diagnostic::new(DiagnosticKind::BadValue, text.key_at(key), message)
    } else {
        return;
    };
    diagnostics.push(diagnostic);
}

/// Reports a condition with values that are not known when the route is chosen.
fn report_early_condition(text: &SpannedTable<RouteText>, diagnostics: &mut Vec<Diagnostic>) {
    let Some(condition) = &text.value.when else { return };
    for value in late_values(&condition.value) {
        let message = RouteFault::late_value(value).to_string();
        let help = "a route is chosen by what the request, its connection and its client say";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, condition.span, message).help(help));
    }
}

/// Reports a limit on ranges of what the route does not have.
fn report_ranges(text: &SpannedTable<RouteText>, diagnostics: &mut Vec<Diagnostic>) {
    let has_none = text.value.files.is_none() && text.value.cache.is_none();
    if let Some(at) = text.changed("max_ranges").filter(|_| has_none) {
        let message = "`max_ranges` has no effect here: the route has neither `files` nor `cache`";
        let help = "ranges of what a server sends are for that server to limit";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
    }
}

/// Reports keys that only mean something when the request goes to a server.
fn report_without_server(text: &SpannedTable<RouteText>, action: &str, diagnostics: &mut Vec<Diagnostic>) {
    const KEYS: [&str; 19] = [
        "x_accel",
        "x_sendfile",
        "rewrite_location",
        "rewrite_cookies",
        "strip_prefix",
        "replace_prefix",
        "replace_regex",
        "request_headers",
        "cache",
        "forward_host",
        "forward_headers",
        "mirror",
        "buffer_requests",
        "buffer_responses",
        "queue_priority",
        "allow_connect",
        "grpc_web",
        "upgrades",
        "timeouts",
    ];
    let of_path = ["strip_prefix", "replace_prefix", "replace_regex"];
    let redirects = |redirect: &SpannedTable<RedirectText>| {
        let to = redirect.value.to.as_ref();
        to.is_some_and(|to| to.value.0.values().any(|value| matches!(value, TemplateValue::Path)))
    };
    let shows_path = action == "files" || text.value.redirect.as_ref().is_some_and(redirects);
    let is_used = |key: &&str| shows_path && of_path.contains(key);
    for key in KEYS.iter().copied().filter(|key| !is_used(key)) {
        if let Some(at) = text.changed(key) {
            let message = match action == "redirect" && of_path.contains(&key) {
                true => format!("`{key}` has no effect here: `redirect.to` has no `{{path}}`"),
                false => format!("`{key}` has no effect here: with `{action}`, no server gets the request"),
            };
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
    }
}

/// Reports keys that mean nothing to the protocol of the listener.
fn report_of_other_protocol(
    text: &SpannedTable<RouteText>,
    protocol: ListenerProtocol,
    diagnostics: &mut Vec<Diagnostic>,
) {
    const OF_HTTP: [&str; 49] = [
        "max_ranges",
        "x_accel",
        "x_sendfile",
        "split_by",
        "before_regex",
        "internal",
        "rewrite",
        "then",
        "host",
        "path",
        "path_begins",
        "path_exact",
        "path_regex",
        "method",
        "header",
        "query",
        "when",
        "redirect",
        "respond",
        "files",
        "fastcgi",
        "strip_prefix",
        "replace_prefix",
        "replace_regex",
        "request_headers",
        "response_headers",
        "hsts",
        "cors",
        "basic",
        "jwt",
        "forward_auth",
        "satisfy",
        "limit_status",
        "cache",
        "compression",
        "rewrite_body",
        "rewrite_location",
        "rewrite_cookies",
        "error_pages",
        "forward_host",
        "forward_headers",
        "mirror",
        "buffer_requests",
        "buffer_responses",
        "allow_connect",
        "grpc_web",
        "upgrades",
        "timeouts",
        "limits",
    ];
    let (keys, help): (&[&str], _) = if protocol.routes_requests() {
        (&["sni", "tls_passthrough"], "write `host`, or `protocol = \"tcp\"` for the listener")
    } else {
        (&OF_HTTP, "a TCP connection is routed by `sni` and `source`, to an `upstream` or a `split`")
    };
    let speaks = protocol.name();
    for key in keys {
        if let Some(at) = text.changed(key) {
            let message = format!("`{key}` has no effect here: the listener speaks `{speaks}`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
        }
    }
}
