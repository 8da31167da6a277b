//! Session affinity: one mode, and settings that belong to it.

use std::collections::HashMap;

use weir_traffic::affinity::{CookieAttributes, SameSite};

use crate::config::{AffinitySettings, CookieMode, CookieSecret};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;
use crate::text::{AffinityMode, AffinityText, Document, SameSiteWord, UpstreamText, is_cookie_domain};

/// How the name of Weir's own cookie begins when the config gives it none; the name of the upstream follows, so that two on one site do
/// not take each other's cookie for their own.
const COOKIE_DEFAULT: &str = "weir-server-";

/// Keys that say something about a cookie that Weir gives out.
const OF_INSERT: [&str; 6] = ["max_age", "path", "domain", "secure", "http_only", "same_site"];

/// Keys that say something about the table of learned cookies.
const OF_LEARN: [&str; 2] = ["entries_max", "expire"];

pub(in crate::check) fn check(
    upstream: &str,
    text: &SpannedTable<AffinityText>,
    diagnostics: &mut Vec<Diagnostic>,
) -> AffinitySettings {
    let value = &text.value;
    let (name, without_effect): (&str, Vec<&str>) = match value.mode {
        AffinityMode::Insert => ("insert", OF_LEARN.to_vec()),
        AffinityMode::Prefix => ("prefix", [&OF_INSERT[..], &OF_LEARN].concat()),
        AffinityMode::Learn => ("learn", [&OF_INSERT[..], &["secret"]].concat()),
    };
    for key in without_effect {
        if let Some(at) = text.changed(key) {
            let message = format!("`{key}` has no effect with `mode = \"{name}\"`");
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
        }
    }
    if value.mode != AffinityMode::Insert && text.is_missing("cookie") {
        let message = format!("`mode = \"{name}\"` needs a `cookie`");
        let help =
            "write the name of the cookie that your application sets, such as `cookie = \"JSESSIONID\"`";
        diagnostics
            .push(Diagnostic::new(DiagnosticKind::MissingKey, text.key_at("mode"), message).help(help));
    }
    let secret = value.secret.as_ref().map(|secret| CookieSecret(secret.0.clone()));
    AffinitySettings {
        cookie: match &value.cookie {
            Some(cookie) => (**cookie).into(),
            None => format!("{COOKIE_DEFAULT}{upstream}").into(),
        },
        mode: match value.mode {
            AffinityMode::Insert => CookieMode::Insert { secret, attributes: attributes(text, diagnostics) },
            AffinityMode::Prefix => CookieMode::Prefix { secret },
            AffinityMode::Learn => CookieMode::Learn { entries_max: value.entries_max, expire: value.expire },
        },
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
