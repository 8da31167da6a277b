//! `headers`: fields of requests and responses, and what scripts of other origins may do.

use super::{RouterPlace, RouterSettings};
use crate::document::{DraftTable, TomlValue};
use crate::report::Ledger;
use crate::source::Statement;
use crate::traefik::tree::{is_true, key, number, refuse, shown_time, template, value, values};

/// One field that is set, or removed.
#[derive(Clone)]
pub(in crate::traefik) struct FieldSetting<'s> {
    name: String,
    /// The value, in the words of Weir; none removes it.
    value: Option<String>,
    /// The condition; without one, always.
    when: Option<String>,
    from: &'s Statement,
}

impl<'s> FieldSetting<'s> {
    pub(in crate::traefik) fn set(name: String, value: String, from: &'s Statement) -> Self {
        FieldSetting { name, value: Some(value), when: None, from }
    }

    pub(in crate::traefik) fn when(self, when: String) -> Self {
        FieldSetting { when: Some(when), ..self }
    }

    /// Whether it asks for the path, of which only the last form is known once a `rewrite` has changed it.
    fn asks_path(&self) -> bool {
        let has_path = |text: &Option<String>| text.as_ref().is_some_and(|text| text.contains("path"));
        has_path(&self.when) || self.value.as_ref().is_some_and(|value| value.contains("{path"))
    }

    /// Those that a route with a `rewrite` can say.
    pub(in crate::traefik) fn behind_rewrite(
        settings: &[FieldSetting<'s>],
        ledger: &Ledger,
    ) -> Vec<FieldSetting<'s>> {
        let (lost, kept): (Vec<_>, Vec<_>) = settings.iter().cloned().partition(Self::asks_path);
        for setting in lost {
            let difference = "where a path is changed more than once, servers are not told the one of before (`X-Replaced-Path`, `X-Forwarded-Prefix`)";
            ledger.approximated(setting.from, difference);
        }
        kept
    }

    /// Puts settings into a route: one table for each condition.
    pub(in crate::traefik) fn write(route: &mut DraftTable, key: &str, settings: &[FieldSetting<'s>]) {
        let mut tables: Vec<(Option<&str>, Vec<&FieldSetting<'s>>)> = Vec::new();
        for setting in settings {
            match tables.iter_mut().find(|(when, _)| *when == setting.when.as_deref()) {
                Some((_, list)) => list.push(setting),
                None => tables.push((setting.when.as_deref(), vec![setting])),
            }
        }
        let Some(first) = settings.first() else { return };
        let is_response = key == "response_headers";
        let values: Vec<TomlValue> =
            tables.iter().map(|(when, list)| table(*when, list, is_response)).collect();
        match values.as_slice() {
            [one] => route.set_beside(key, one.clone(), first.from),
            _ => route.set_beside(key, TomlValue::Array(values), first.from),
        }
    }
}

fn table(when: Option<&str>, settings: &[&FieldSetting<'_>], is_response: bool) -> TomlValue {
    let mut entries = Vec::new();
    // Failures have such fields only where that is said.
    if is_response && settings.iter().any(|one| matches!(one.name.as_str(), "cache-control" | "expires")) {
        entries.push(("status".to_owned(), "always".into()));
    }
    if let Some(when) = when {
        entries.push(("when".to_owned(), when.into()));
    }
    let removed: Vec<&str> =
        settings.iter().filter(|one| one.value.is_none()).map(|one| one.name.as_str()).collect();
    if !removed.is_empty() {
        entries.push(("remove".to_owned(), removed.into()));
    }
    let set: Vec<(String, TomlValue)> =
        settings.iter().filter_map(|one| Some((one.name.clone(), one.value.as_deref()?.into()))).collect();
    if !set.is_empty() {
        entries.push(("set".to_owned(), TomlValue::Inline(set)));
    }
    TomlValue::Inline(entries)
}

/// What `headers` says of other origins.
#[derive(Default)]
struct OriginRules {
    entries: Vec<(String, TomlValue)>,
    has_origins: bool,
}

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn headers(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let mut origins = OriginRules::default();
        let mut transport_security = Vec::new();
        for part in kind.children() {
            match key(part).as_str() {
                "customrequestheaders" => self.request_fields(part, settings),
                "customresponseheaders" => {
                    for field in part.children() {
                        response_field(settings, field.name(), value(ledger, field), field);
                        ledger.exact(field);
                    }
                    ledger.exact(part);
                }
                name if name.starts_with("accesscontrol") || name == "addvaryheader" => {
                    self.origins(part, &mut origins);
                }
                "stsseconds" => {
                    let seconds = number(ledger, part).unwrap_or(0).unsigned_abs();
                    let time = shown_time(seconds.saturating_mul(1000));
                    transport_security.insert(0, ("max_age".to_owned(), time.into()));
                    ledger.exact(part);
                }
                "stsincludesubdomains" | "stspreload" => {
                    if is_true(ledger, part) {
                        let name = if key(part) == "stspreload" { "preload" } else { "subdomains" };
                        transport_security.push((name.to_owned(), true.into()));
                    }
                    ledger.exact(part);
                }
                _ => self.security(part, settings),
            }
        }
        if transport_security.iter().any(|(key, value)| key == "max_age" && *value != "0s".into())
            && self.has_tls
        {
            settings.set("hsts", TomlValue::Inline(transport_security), kind);
        }
        if !origins.entries.is_empty() {
            if origins.has_origins {
                settings.set("cors", TomlValue::Inline(origins.entries), kind);
            } else {
                ledger
                    .unsupported(kind, "`accessControl*` without a list of origins: see `cors` of the route");
            }
        }
        ledger.exact(kind);
    }

    fn request_fields(&mut self, statement: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        for field in statement.children() {
            let (name, text) = (field.name().to_ascii_lowercase(), value(ledger, field));
            if matches!(
                name.as_str(),
                "connection" | "transfer-encoding" | "content-length" | "te" | "upgrade" | "keep-alive"
            ) {
                ledger.unsupported(field, "this field is Weir's own matter on the way to servers");
                continue;
            }
            ledger.exact(field);
            if name == "host" {
                settings.forward_host = Some((text.to_owned(), field));
                continue;
            }
            settings.request.retain(|known| known.name != name);
            let value = (!text.is_empty()).then(|| template(text));
            settings.request.push(FieldSetting { name, value, when: None, from: field });
        }
        ledger.exact(statement);
    }

    /// A field of its own for each of the usual precautions.
    fn security(&mut self, part: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let text = value(ledger, part);
        let (name, field) = match key(part).as_str() {
            "framedeny" => ("x-frame-options", is_true(ledger, part).then_some("DENY")),
            "customframeoptionsvalue" => ("x-frame-options", Some(text)),
            "contenttypenosniff" => ("x-content-type-options", is_true(ledger, part).then_some("nosniff")),
            "browserxssfilter" => ("x-xss-protection", is_true(ledger, part).then_some("1; mode=block")),
            "custombrowserxssvalue" => ("x-xss-protection", Some(text)),
            "contentsecuritypolicy" => ("content-security-policy", Some(text)),
            "contentsecuritypolicyreportonly" => ("content-security-policy-report-only", Some(text)),
            "referrerpolicy" => ("referrer-policy", Some(text)),
            "permissionspolicy" => ("permissions-policy", Some(text)),
            "featurepolicy" => ("feature-policy", Some(text)),
            "forcestsheader" => {
                return match is_true(ledger, part) && !self.has_tls {
                    true => ledger.approximated(part, "browsers heed the field over TLS only: it is not sent without (RFC 6797 section 7.2)"),
                    false => ledger.exact(part),
                };
            }
            "sslredirect" | "ssltemporaryredirect" => {
                if !is_true(ledger, part) {
                    return ledger.exact(part);
                }
                ledger.exact(part);
                return self.redirect_to("https", "", key(part) == "sslredirect", part, settings);
            }
            "sslproxyheaders" => {
                for child in part.children() {
                    value(ledger, child);
                    ledger.by_default(
                        child,
                        "the scheme is that of the connection, or what `trusted_proxies` say",
                    );
                }
                return ledger.exact(part);
            }
            "isdevelopment" if !is_true(ledger, part) => return ledger.exact(part),
            "allowedhosts" => {
                return settings.forbid(ledger, part, "name the hosts in `rule`: for others, no one gets in");
            }
            _ => return refuse(ledger, part, "see `response_headers` of the route"),
        };
        if let Some(field) = field.filter(|field| !field.is_empty()) {
            response_field(settings, name, field, part);
        }
        ledger.exact(part);
    }

    fn origins(&self, part: &'s Statement, rules: &mut OriginRules) {
        let ledger = self.ledger;
        let mut set = |key: &str, value: TomlValue| rules.entries.push((key.to_owned(), value));
        let own = values(ledger, part);
        match key(part).as_str() {
            "accesscontrolalloworiginlist" => {
                rules.has_origins = true;
                rules.entries.insert(0, ("origins".to_owned(), own.into()));
            }
            "accesscontrolallowmethods" => {
                let asked: Vec<&str> =
                    own.into_iter().filter(|method| !matches!(*method, "GET" | "HEAD" | "POST")).collect();
                set("methods", asked.into());
            }
            "accesscontrolallowheaders" if own == ["*"] => {}
            "accesscontrolallowheaders" => {
                set("headers", own.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>().into());
            }
            "accesscontrolexposeheaders" => {
                set("expose", own.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>().into());
            }
            "accesscontrolallowcredentials" => set("credentials", is_true(ledger, part).into()),
            "accesscontrolmaxage" => match number(ledger, part) {
                Some(seconds) => set("max_age", format!("{seconds}s").into()),
                None => return ledger.unsupported(part, "this is no number of seconds"),
            },
            "addvaryheader" => return ledger.by_default(part, "`Vary: Origin` is sent"),
            _ => return ledger.unsupported(part, "name each origin: `cors.origins` of the route"),
        }
        ledger.approximated(
            part,
            "preflights of other origins are answered without permission, and what servers say of origins is dropped: see `cors`",
        );
    }
}

/// A field of responses. Responses pass the last middleware first, so what an earlier one says counts.
fn response_field<'s>(settings: &mut RouterSettings<'s>, name: &str, text: &str, from: &'s Statement) {
    let name = name.to_ascii_lowercase();
    if settings.response.iter().any(|known| known.name == name) {
        return;
    }
    let value = (!text.is_empty()).then(|| template(text));
    settings.response.push(FieldSetting { name, value, when: None, from });
}
