//! Session affinity: one mode, and settings that belong to it.

use std::collections::HashMap;

use weir_traffic::affinity::{CookieAttributes, LearnSource, SameSite};

use crate::check::conditions::{self, ConditionPlace};
use crate::check::templates::{self, TemplatePlace};
use crate::config::{AffinitySettings, CookieMode, CookieSecret};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{AffinityMode, AffinityText, Document, SameSiteWord, UpstreamText, is_cookie_domain};
use crate::value::{Template, TemplatePart, TemplateValue};

/// How the name of Weir's own cookie begins when the config gives it none; the name of the upstream follows, so that two on one site do
/// not take each other's cookie for their own.
const COOKIE_DEFAULT: &str = "weir-server-";

/// Keys that say something about a cookie that Weir gives out.
const OF_INSERT: [&str; 6] = ["max_age", "path", "domain", "secure", "http_only", "same_site"];

/// Keys that say something about the table of what is learned.
const OF_TABLE: [&str; 3] = ["entries_max", "expire", "forget_when"];

/// Keys that say what is learned.
const OF_KEY: [&str; 3] = ["key", "learn_from", "shared"];

pub(in crate::check) fn check(
    upstream: &str,
    text: &SpannedTable<AffinityText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> AffinitySettings {
    let value = &text.value;
    let without_effect: Vec<&str> = match value.mode {
        AffinityMode::Insert => [&OF_TABLE[..], &OF_KEY].concat(),
        AffinityMode::Prefix => [&OF_INSERT[..], &OF_TABLE, &OF_KEY].concat(),
        AffinityMode::Learn => [&OF_INSERT[..], &["secret"]].concat(),
        AffinityMode::Stick => [&OF_INSERT[..], &["secret", "cookie", "learn_from"]].concat(),
    };
    let name = value.mode.name();
    for key in without_effect {
        if let Some(at) = text.changed(key) {
            let message = format!("`{key}` has no effect with `mode = \"{name}\"`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
    }
    report_missing(text, diagnostics);
    let place = ConditionPlace::shared(Stage::ResponseHead, "when the head of the response is here");
    let forget_when = conditions::check(value.forget_when.as_ref(), &place, diagnostics);
    let secret = || value.secret.as_ref().map(|secret| CookieSecret(secret.0.clone()));
    let (entries_max, expire) = (value.entries_max, value.expire);
    let (cookie, mode) = match (value.mode, &value.key) {
        (AffinityMode::Learn | AffinityMode::Stick, Some(key)) => {
            let learn_from = match value.mode {
                AffinityMode::Learn => learn_sources(text, key, diagnostics),
                _ => Box::default(),
            };
            templates::check_shared(&key.value, key.span, &TemplatePlace::SHARED, diagnostics);
            let mode = CookieMode::Key { key: key.value.clone(), learn_from, entries_max, expire };
            (key.value.to_string().into(), mode)
        }
        (AffinityMode::Insert, _) => (
            cookie(upstream, value),
            CookieMode::Insert { secret: secret(), attributes: attributes(text, diagnostics) },
        ),
        (AffinityMode::Prefix, _) => (cookie(upstream, value), CookieMode::Prefix { secret: secret() }),
        (AffinityMode::Learn | AffinityMode::Stick, None) => {
            (cookie(upstream, value), CookieMode::Learn { entries_max, expire })
        }
    };
    let mut settings = AffinitySettings::new(cookie, mode);
    (settings.strict, settings.forget_when) = (value.strict, forget_when);
    settings.shared = value.shared.as_ref().map(|name| name.value.clone());
    settings
}

fn cookie(upstream: &str, text: &AffinityText) -> Box<str> {
    match &text.cookie {
        Some(cookie) => (**cookie).into(),
        None => format!("{COOKIE_DEFAULT}{upstream}").into(),
    }
}

/// Reports what the mode needs and the text does not say.
fn report_missing(text: &SpannedTable<AffinityText>, diagnostics: &mut Vec<Diagnostic>) {
    let name = text.value.mode.name();
    let (has_cookie, has_key) = (!text.is_missing("cookie"), !text.is_missing("key"));
    let mut missing = |what: &str, help: &str| {
        let message = format!("`mode = \"{name}\"` needs {what}");
        let at = text.key_at("mode");
        diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
    };
    match text.value.mode {
        AffinityMode::Prefix if !has_cookie => missing(
            "a `cookie`",
            "write the name of the cookie that your application sets, such as `cookie = \"JSESSIONID\"`",
        ),
        AffinityMode::Learn if !has_cookie && !has_key => missing(
            "a `cookie`, or a `key`",
            "write the name of the cookie that your application sets, such as `cookie = \"JSESSIONID\"`, or for example `key = \"{header.mcp-session-id}\"`",
        ),
        AffinityMode::Stick if !has_key => {
            missing("a `key`", "write for example `key = \"{client_address}\"` or `key = \"{jwt.sub}\"`");
        }
        AffinityMode::Learn if has_cookie => {
            for key in OF_KEY {
                if let Some(at) = text.changed(key) {
                    let message =
                        format!("`{key}` has no effect beside `cookie`, which says what is learned");
                    let help = "leave `cookie` out";
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message).help(help));
                }
            }
        }
        AffinityMode::Insert | AffinityMode::Prefix | AffinityMode::Learn | AffinityMode::Stick => {}
    }
}

/// Where responses say the key: what a response says is compared with the whole key of requests.
fn learn_sources(
    text: &SpannedTable<AffinityText>,
    key: &Spanned<Template>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Box<[LearnSource]> {
    let [TemplatePart::Value(value)] = key.value.parts() else {
        let message = "the `key` of `mode = \"learn\"` has to be one placeholder and nothing else";
        let help = "a server says the whole key in a header or a cookie; for keys of several parts there is `mode = \"stick\"`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, key.span, message).help(help));
        return Box::default();
    };
    match (&text.value.learn_from, value) {
        (Some(sources), _) => sources.0.clone().into(),
        (None, TemplateValue::Header(name)) => Box::new([LearnSource::Header(name.clone())]),
        (None, TemplateValue::Cookie(name)) => Box::new([LearnSource::Cookie(name.clone())]),
        (None, other) => {
            let message =
                format!("servers do not say `{{{}}}` by that name: `learn_from` is missing", other.name());
            let help = "write where responses say the key, such as `learn_from = \"header:x-session\"`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, key.span, message).help(help));
            Box::default()
        }
    }
}

/// Warns of upstreams that give out the same cookie: a client of both would change its server with every request.
pub(in crate::check) fn warn_shared(document: &Document, diagnostics: &mut Vec<Diagnostic>) {
    let given = |upstream: &'_ SpannedTable<UpstreamText>| {
        let text = upstream.value.affinity.clone()?;
        (text.value.mode == AffinityMode::Insert && text.value.cookie.is_some()).then_some(text)
    };
    let given: Vec<_> =
        document.upstream.0.iter().filter_map(|(name, text)| Some((name, given(text)?))).collect();
    let cookie = |text: &SpannedTable<AffinityText>| {
        let value = &text.value;
        let domain = value.domain.as_ref().map(|domain| domain.value.clone());
        (value.cookie.as_ref().map(|cookie| (**cookie).to_owned()), value.path.0.clone(), domain)
    };
    let mut first = HashMap::new();
    for (index, (_, text)) in given.iter().enumerate() {
        let earlier = *first.entry(cookie(text)).or_insert(index);
        if earlier < index {
            let (name, earlier) = &given[earlier];
            let message = format!("the upstream `{}` sets the same cookie", name.value);
            let help = "a client of both upstreams loses its affinity with each change between them; without `cookie`, each upstream has a name of its own";
            let diagnostic =
                Diagnostic::new(DiagnosticKind::Suspicious, text.key_at("cookie"), message).help(help);
            diagnostics.push(diagnostic.label(earlier.key_at("cookie"), "there"));
        }
    }
}

fn attributes(text: &SpannedTable<AffinityText>, diagnostics: &mut Vec<Diagnostic>) -> CookieAttributes {
    let value = &text.value;
    if let Some(domain) = value.domain.as_ref().filter(|domain| !is_cookie_domain(&domain.value)) {
        let message = format!("`{}` is not a cookie domain", domain.value);
        let help = "write for example `example.com`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, domain.span, message).help(help));
    }
    if value.same_site == SameSiteWord::None && !value.secure {
        let message = "browsers reject a cookie with `same_site = \"none\"` that is not `secure`";
        let help = "add `secure = true`; clients then have to use TLS";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::Conflict, text.key_at("same_site"), message).help(help));
    }
    CookieAttributes {
        lifetime: value.max_age,
        path: value.path.0.clone(),
        domain: value.domain.as_ref().map(|domain| domain.value.clone()),
        secure: value.secure,
        http_only: value.http_only,
        same_site: match value.same_site {
            SameSiteWord::Strict => SameSite::Strict,
            SameSiteWord::Lax => SameSite::Lax,
            SameSiteWord::None => SameSite::None,
        },
    }
}
