//! How clients stay on their servers: one mode, and settings that belong to it.

use std::collections::HashMap;

use weir_traffic::affinity::{Attributes, SameSite};

use crate::config::{CookieMode, CookiePersistence, Secret};
use crate::key::Located;
use crate::mistake::{Finding, MistakeKind};
use crate::text::{Document, PersistenceMode, PersistenceText, SameSiteWord, UpstreamText, is_cookie_domain};

/// How the name of Weir's own cookie begins when the config gives it none; the name of the upstream follows, so that two on one site do
/// not take each other's cookie for their own.
const COOKIE_DEFAULT: &str = "weir-server-";

/// Keys that say something about a cookie that Weir gives out.
const OF_INSERT: [&str; 6] = ["lifetime", "path", "domain", "secure", "http_only", "same_site"];

/// Keys that say something about the table of learned cookies.
const OF_LEARN: [&str; 2] = ["entries_max", "idle"];

pub(super) fn check(
    upstream: &str,
    text: &Located<PersistenceText>,
    findings: &mut Vec<Finding>,
) -> CookiePersistence {
    let value = &text.value;
    let (name, without_effect): (&str, Vec<&str>) = match value.mode {
        PersistenceMode::Insert => ("insert", OF_LEARN.to_vec()),
        PersistenceMode::Prefix => ("prefix", [&OF_INSERT[..], &OF_LEARN].concat()),
        PersistenceMode::Learn => ("learn", [&OF_INSERT[..], &["secret"]].concat()),
    };
    for key in without_effect {
        if let Some(at) = text.changed(key) {
            let what = format!("`{key}` does nothing with `mode = \"{name}\"`");
            findings.push(Finding::new(MistakeKind::Conflict, at, what));
        }
    }
    if value.mode != PersistenceMode::Insert && text.is_missing("cookie") {
        let what = format!("`mode = \"{name}\"` needs a `cookie`");
        let hint =
            "write the name of the cookie that your application sets, such as `cookie = \"JSESSIONID\"`";
        findings.push(Finding::new(MistakeKind::MissingKey, text.key_at("mode"), what).hint(hint));
    }
    let secret = value.secret.as_ref().map(|secret| Secret(secret.0.clone()));
    CookiePersistence {
        cookie: match &value.cookie {
            Some(cookie) => (**cookie).into(),
            None => format!("{COOKIE_DEFAULT}{upstream}").into(),
        },
        mode: match value.mode {
            PersistenceMode::Insert => CookieMode::Insert { secret, attributes: attributes(text, findings) },
            PersistenceMode::Prefix => CookieMode::Prefix { secret },
            PersistenceMode::Learn => CookieMode::Learn { entries_max: value.entries_max, idle: value.idle },
        },
    }
}

/// Warns of upstreams that give out the same cookie: a client of both would change its server with every request.
pub(super) fn warn_shared(document: &Document, findings: &mut Vec<Finding>) {
    let given = |upstream: &'_ Located<UpstreamText>| {
        let text = upstream.value.persistence.clone()?;
        (text.value.mode == PersistenceMode::Insert && text.value.cookie.is_some()).then_some(text)
    };
    let given: Vec<_> =
        document.upstream.0.iter().filter_map(|(name, text)| Some((name, given(text)?))).collect();
    let cookie = |text: &Located<PersistenceText>| {
        let value = &text.value;
        let domain = value.domain.as_ref().map(|domain| domain.value.clone());
        (value.cookie.as_ref().map(|cookie| (**cookie).to_owned()), value.path.0.clone(), domain)
    };
    let mut first = HashMap::new();
    for (index, (_, text)) in given.iter().enumerate() {
        let earlier = *first.entry(cookie(text)).or_insert(index);
        if earlier < index {
            let (name, earlier) = &given[earlier];
            let what = format!("the upstream `{}` gives out the same cookie", name.value);
            let hint = "a client of both loses its server whenever it asks the other; leave `cookie` out, and each has its own";
            let finding = Finding::new(MistakeKind::Doubtful, text.key_at("cookie"), what).hint(hint);
            findings.push(finding.related(earlier.key_at("cookie"), "there"));
        }
    }
}

fn attributes(text: &Located<PersistenceText>, findings: &mut Vec<Finding>) -> Attributes {
    let value = &text.value;
    if let Some(domain) = value.domain.as_ref().filter(|domain| !is_cookie_domain(&domain.value)) {
        let what = format!("`{}` is not the domain of a cookie", domain.value);
        let hint = "write for example `example.com`";
        findings.push(Finding::new(MistakeKind::BadValue, domain.at, what).hint(hint));
    }
    if value.same_site == SameSiteWord::None && !value.secure {
        let what = "browsers refuse a cookie with `same_site = \"none\"` that is not `secure`";
        let hint = "write `secure = true` too; the client then has to come over TLS";
        findings.push(Finding::new(MistakeKind::Conflict, text.key_at("same_site"), what).hint(hint));
    }
    Attributes {
        lifetime: value.lifetime,
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
