//! Filters of a rule or of one of its backends: what they change of a request, of its response, of where it goes.

use std::time::Duration;

use weir_config::{
    Cors, CorsOrigin, ForwardHost, HeaderChanges, HeaderName, HeaderTemplate, HeaderValue, ShareFraction,
    Token,
};
use weir_traffic::rewrite::Rewrite;

use super::matches::prefix as trimmed;
use crate::api::{
    CorsFilter, HeaderModifier, HttpRouteFilter, RequestMirror, RequestRedirect, SharedText, UrlRewrite,
};
use crate::refusal::{Refusal, excerpt};

/// The filters of one place, each at most once.
#[derive(Debug, Default)]
pub(super) struct RuleFilters<'a> {
    pub(super) request: HeaderChanges,
    pub(super) response: HeaderChanges,
    /// The `Host` that a change of headers sets.
    pub(super) host: Option<ForwardHost>,
    pub(super) mirrors: Vec<&'a RequestMirror>,
    pub(super) redirect: Option<&'a RequestRedirect>,
    pub(super) rewrite: Option<&'a UrlRewrite>,
    pub(super) cors: Option<Cors>,
}

impl<'a> RuleFilters<'a> {
    pub(super) fn read(filters: &'a [HttpRouteFilter]) -> Result<Self, Refusal> {
        let mut read = Self::default();
        let mut types: Vec<&str> = Vec::new();
        for filter in filters {
            // Of all filters only this one may be there several times.
            if types.contains(&&*filter.r#type) && *filter.r#type != *"RequestMirror" {
                return Err(Refusal::unsupported(format!("filters: {} is there twice", filter.r#type)));
            }
            types.push(&filter.r#type);
            read.take(filter)?;
        }
        if read.redirect.is_some() && read.rewrite.is_some() {
            let message = "filters: RequestRedirect and URLRewrite exclude each other";
            return Err(Refusal::new("IncompatibleFilters", message));
        }
        Ok(read)
    }

    /// Those of a backend: they change the request and its response, or copy it, and do not decide whether it goes there.
    pub(super) fn of_backend(filters: &'a [HttpRouteFilter]) -> Result<Self, Refusal> {
        let read = Self::read(filters)?;
        if read.redirect.is_some() || read.cors.is_some() {
            return Err(Refusal::unsupported("backendRefs.filters: RequestRedirect and CORS are of a rule"));
        }
        Ok(read)
    }

    fn take(&mut self, filter: &'a HttpRouteFilter) -> Result<(), Refusal> {
        let missing = || Refusal::unsupported(format!("filters: {} has no settings", filter.r#type));
        match &*filter.r#type {
            "RequestHeaderModifier" => {
                let written = filter.request_header_modifier.as_deref().ok_or_else(missing)?;
                let field = "requestHeaderModifier";
                (self.request, self.host) = header_changes(written, field, true)?;
            }
            "ResponseHeaderModifier" => {
                let written = filter.response_header_modifier.as_deref().ok_or_else(missing)?;
                (self.response, _) = header_changes(written, "responseHeaderModifier", false)?;
            }
            "RequestMirror" => self.mirrors.push(filter.request_mirror.as_deref().ok_or_else(missing)?),
            "RequestRedirect" => {
                self.redirect = Some(filter.request_redirect.as_deref().ok_or_else(missing)?);
            }
            "URLRewrite" => self.rewrite = Some(filter.url_rewrite.as_deref().ok_or_else(missing)?),
            "CORS" => self.cors = Some(cors(filter.cors.as_deref().ok_or_else(missing)?)?),
            "ExtensionRef" => {
                let kind = filter.extension_ref.as_deref().map_or("", |reference| &reference.kind);
                return Err(Refusal::unsupported(format!(
                    "filters: the ExtensionRef to a `{}` is not supported",
                    excerpt(kind)
                )));
            }
            other => {
                return Err(Refusal::unsupported(format!(
                    "filters: the type `{}` is not supported",
                    excerpt(other)
                )));
            }
        }
        Ok(())
    }
}

/// The changes, and the `Host` of requests, which is not a header among others.
fn header_changes(
    written: &HeaderModifier,
    field: &str,
    is_request: bool,
) -> Result<(HeaderChanges, Option<ForwardHost>), Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::unsupported(format!("{field}: {error}"));
    let name = |text: &str| -> Result<HeaderName, Refusal> {
        let name: HeaderName = text.parse().map_err(|error| bad(&error))?;
        if name.is_framing() {
            return Err(bad(&format!("`{name}` cannot be changed: Weir sets it for each connection")));
        }
        Ok(name)
    };
    let value = |text: &str| -> Result<HeaderTemplate, Refusal> {
        let value: HeaderValue = text.trim_matches([' ', '\t']).parse().map_err(|error| bad(&error))?;
        Ok(HeaderTemplate::of_literal(&value))
    };
    let (mut changes, mut host) = (HeaderChanges::default(), None);
    for removed in &written.remove {
        let removed = name(removed)?;
        if is_request && &*removed == "host" {
            return Err(bad(&"`host` cannot be removed: every request has one"));
        }
        changes.remove.push(removed);
    }
    for (list, pairs, is_set) in
        [(&mut changes.set, &written.set, true), (&mut changes.add, &written.add, false)]
    {
        for pair in pairs {
            let name = name(&pair.name)?;
            if is_request && &*name == "host" {
                if !is_set {
                    return Err(bad(&"`host` cannot be added: a request has one"));
                }
                host = Some(forward_host(&pair.value, field)?);
                continue;
            }
            // The first of equal names counts, as the API says of lists with the name as their key.
            if list.iter().all(|(known, _)| *known != name) {
                list.push((name, value(&pair.value)?));
            }
        }
    }
    Ok((changes, host))
}

fn forward_host(text: &str, field: &str) -> Result<ForwardHost, Refusal> {
    let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
    if text.is_empty() || !text.chars().all(is_host) {
        return Err(Refusal::unsupported(format!("{field}: `{}` is not a host", excerpt(text))));
    }
    Ok(ForwardHost::Literal(text.into()))
}

/// The host and the path that a rewrite puts in their places; `prefix` is the matched one.
pub(super) fn rewrite(
    written: &UrlRewrite,
    prefix: Option<&str>,
) -> Result<(Option<ForwardHost>, Option<Rewrite>), Refusal> {
    let host =
        written.hostname.as_deref().map(|host| forward_host(host, "urlRewrite.hostname")).transpose()?;
    let Some(path) = written.path.as_deref() else { return Ok((host, None)) };
    let bad = |error: &dyn std::fmt::Display| Refusal::unsupported(format!("urlRewrite.path: {error}"));
    let rewrite = match &*path.r#type {
        "ReplaceFullPath" => {
            let to = path.replace_full_path.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
            if to.contains('?') {
                return Err(bad(&"a path has no `?`"));
            }
            Rewrite::regex("^.*$", &to.replace('$', "$$")).map_err(|error| bad(&error))?
        }
        "ReplacePrefixMatch" => {
            let Some(prefix) = prefix else {
                return Err(bad(&"ReplacePrefixMatch needs matches of the type PathPrefix"));
            };
            let to = path.replace_prefix_match.as_deref().filter(|path| !path.is_empty()).unwrap_or("/");
            Rewrite::replace_prefix(prefix, trimmed(to)).map_err(|error| bad(&error))?
        }
        other => return Err(bad(&format!("the type `{}` is not supported", excerpt(other)))),
    };
    Ok((host, Some(rewrite)))
}

/// The share of the requests that are copied.
pub(super) fn mirror_share(written: &RequestMirror) -> Result<ShareFraction, Refusal> {
    let bad = |message: &str| Refusal::unsupported(format!("requestMirror: {message}"));
    let (numerator, denominator) = match (written.percent, written.fraction.as_deref()) {
        (Some(_), Some(_)) => return Err(bad("`percent` and `fraction` exclude each other")),
        (Some(percent), None) => (percent, 100),
        (None, None) => return Ok(ShareFraction::WHOLE),
        (None, Some(fraction)) => (fraction.numerator, fraction.denominator.unwrap_or(100)),
    };
    if denominator <= 0 {
        return Err(bad("the denominator has to be above 0"));
    }
    let share = u32::try_from(numerator).ok().zip(u32::try_from(denominator).ok());
    let share = share.and_then(|(numerator, denominator)| ShareFraction::new(numerator, denominator));
    share.ok_or_else(|| bad("the share is not between 0 and 100 %"))
}

fn cors(written: &CorsFilter) -> Result<Cors, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::unsupported(format!("cors: {error}"));
    let credentials = written.allow_credentials.unwrap_or(false);
    let origins: Vec<CorsOrigin> = written
        .allow_origins
        .iter()
        .map(|origin| origin.parse().map_err(|error| bad(&error)))
        .collect::<Result<_, _>>()?;
    let names = |written: &[SharedText]| -> Result<Vec<HeaderName>, Refusal> {
        written.iter().map(|name| name.parse().map_err(|error| bad(&error))).collect()
    };
    let is_any = |list: &[SharedText]| list.iter().any(|one| **one == *"*");
    let methods = match &*written.allow_methods {
        list if is_any(list) => None,
        [] => Some(["GET", "HEAD", "POST"].map(|name| name.parse().expect("it is a token")).into()),
        list => {
            let methods = list.iter().map(|method| method.parse().map_err(|error| bad(&error)));
            Some(methods.collect::<Result<Vec<Token>, _>>()?)
        }
    };
    let max_age = u64::try_from(written.max_age.unwrap_or(5)).map_err(|_| bad(&"maxAge is below 0"))?;
    let is_for_any = origins.contains(&CorsOrigin::Any);
    let mut cors = Cors::new(origins);
    cors.methods = methods;
    cors.headers = if is_any(&written.allow_headers) { None } else { Some(names(&written.allow_headers)?) };
    cors.expose = names(&written.expose_headers)?;
    (cors.credentials, cors.any_with_credentials) = (credentials, credentials && is_for_any);
    cors.max_age = Duration::from_secs(max_age.min(86_400));
    Ok(cors)
}
