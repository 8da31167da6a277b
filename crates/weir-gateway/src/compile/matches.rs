//! What a rule matches: paths, methods, headers, query parameters, calls of gRPC.

use weir_config::is_normal_path;
use weir_traffic::route::{
    BoundedRegexes, FieldMatch, MethodMatch, PathMatch, QueryMatch, RouteMatch, ValueMatch,
};

use crate::api::{GrpcRouteRuleMatch, HttpRouteRuleMatch, NamedValueMatch, TypedValue};
use crate::refusal::{Refusal, excerpt};

/// The longest regular expression that is compiled. The API allows 4 096 characters in values of headers, 1 024 elsewhere.
const REGEX_BYTES_MAX: usize = 4096;

pub(super) fn of_http(
    rule: &HttpRouteRuleMatch,
    regexes: &mut BoundedRegexes<'_>,
) -> Result<RouteMatch, Refusal> {
    let method = rule.method.as_deref().map(MethodMatch::parse).transpose();
    let method = method.map_err(|error| Refusal::unsupported(format!("matches.method: {error}")))?;
    let query = distinct(
        &rule.query_params,
        |name| name.to_owned(),
        "matches.queryParams",
        regexes,
        |name, value| QueryMatch::new(name, value).map_err(|error| error.to_string()),
    )?;
    Ok(RouteMatch {
        path: path(rule.path.as_deref(), regexes)?,
        methods: method.into_iter().collect(),
        headers: headers(&rule.headers, regexes)?,
        query,
        ..RouteMatch::default()
    })
}

pub(super) fn of_grpc(
    rule: &GrpcRouteRuleMatch,
    regexes: &mut BoundedRegexes<'_>,
) -> Result<RouteMatch, Refusal> {
    let path = match rule.method.as_deref() {
        None => PathMatch::ANY,
        Some(call) => {
            let (service, method) = (call.service.as_deref(), call.method.as_deref());
            let is_regex = match call.r#type.as_deref() {
                None | Some("Exact") => false,
                Some("RegularExpression") => true,
                Some(other) => return Err(unknown_type("matches.method", other)),
            };
            call_path(
                is_regex,
                service.filter(|name| !name.is_empty()),
                method.filter(|name| !name.is_empty()),
                regexes,
            )?
        }
    };
    Ok(RouteMatch { path, headers: headers(&rule.headers, regexes)?, ..RouteMatch::default() })
}

fn call_path(
    is_regex: bool,
    service: Option<&str>,
    method: Option<&str>,
    regexes: &mut BoundedRegexes<'_>,
) -> Result<PathMatch, Refusal> {
    let bad = |error: &dyn std::fmt::Display| Refusal::unsupported(format!("matches.method: {error}"));
    match (service, method) {
        (None, None) => Ok(PathMatch::ANY),
        (Some(service), Some(method)) if !is_regex => {
            PathMatch::exact(&format!("/{service}/{method}")).map_err(|error| bad(&error))
        }
        (Some(service), None) if !is_regex => {
            PathMatch::prefix(&format!("/{service}/")).map_err(|error| bad(&error))
        }
        _ => {
            let part = |text: Option<&str>| -> Result<String, Refusal> {
                match text {
                    None => Ok("[^/]+".to_owned()),
                    Some(text) if is_regex => whole(text, "matches.method"),
                    Some(text) => Ok(escaped(text)),
                }
            };
            let pattern = format!("^/{}/{}$", part(service)?, part(method)?);
            regexes.compile(&pattern).map(PathMatch::of_pattern).map_err(|error| bad(&error))
        }
    }
}

/// A path without `type` and `value` is the prefix `/`, as the API server completes it.
fn path(written: Option<&TypedValue>, regexes: &mut BoundedRegexes<'_>) -> Result<PathMatch, Refusal> {
    let value = written.and_then(|path| path.value.as_deref()).unwrap_or("/");
    let bad = |error: &dyn std::fmt::Display| {
        Refusal::unsupported(format!("matches.path: `{}`: {error}", excerpt(value)))
    };
    let kind = written.and_then(|path| path.r#type.as_deref()).unwrap_or("PathPrefix");
    if kind != "RegularExpression" && value.starts_with('/') && !is_normal_path(value) {
        return Err(bad(&"no request has this path: it is not in its normal form"));
    }
    match kind {
        "Exact" => PathMatch::exact(value).map_err(|error| bad(&error)),
        "PathPrefix" => PathMatch::prefix(prefix(value)).map_err(|error| bad(&error)),
        "RegularExpression" => {
            let pattern = format!("^{}$", whole(value, "matches.path")?);
            regexes.compile(&pattern).map(PathMatch::of_pattern).map_err(|error| bad(&error))
        }
        other => Err(unknown_type("matches.path", other)),
    }
}

/// A prefix without the slash at its end, which has no meaning in the API.
pub(super) fn prefix(value: &str) -> &str {
    match value.strip_suffix('/') {
        Some("") | None => value,
        Some(stem) => stem,
    }
}

fn headers(
    written: &[NamedValueMatch],
    regexes: &mut BoundedRegexes<'_>,
) -> Result<Vec<FieldMatch>, Refusal> {
    distinct(written, str::to_ascii_lowercase, "matches.headers", regexes, |name, value| {
        FieldMatch::new(name, value).map_err(|error| error.to_string())
    })
}

/// Rules by name, of which the first of each name counts.
fn distinct<T>(
    written: &[NamedValueMatch],
    same: impl Fn(&str) -> String,
    field: &str,
    regexes: &mut BoundedRegexes<'_>,
    rule: impl Fn(&str, ValueMatch) -> Result<T, String>,
) -> Result<Vec<T>, Refusal> {
    let mut names = Vec::new();
    let mut rules = Vec::new();
    for one in written {
        let name = same(&one.name);
        if names.contains(&name) {
            continue;
        }
        names.push(name);
        let value = match one.r#type.as_deref() {
            None | Some("Exact") => ValueMatch::exact(&one.value),
            Some("RegularExpression") => {
                let pattern = format!("^{}$", whole(&one.value, field)?);
                let bad =
                    |error| Refusal::unsupported(format!("{field}: `{}`: {error}", excerpt(&one.value)));
                ValueMatch::Regex(regexes.compile(&pattern).map_err(bad)?)
            }
            Some(other) => return Err(unknown_type(field, other)),
        };
        let rule = rule(&one.name, value);
        rules.push(rule.map_err(|error| Refusal::unsupported(format!("{field}: {error}")))?);
    }
    Ok(rules)
}

/// A regular expression as a group of its own, whose syntax is judged alone: parentheses in it cannot end the group.
fn whole(pattern: &str, field: &str) -> Result<String, Refusal> {
    if pattern.len() > REGEX_BYTES_MAX {
        let message = format!(
            "{field}: a regular expression of {} bytes; {REGEX_BYTES_MAX} are the most",
            pattern.len()
        );
        return Err(Refusal::unsupported(message));
    }
    match BoundedRegexes::check_part(pattern) {
        Ok(()) => Ok(format!("(?:{pattern})")),
        Err(error) => Err(Refusal::unsupported(format!("{field}: `{}`: {error}", excerpt(pattern)))),
    }
}

fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if c.is_ascii_punctuation() && c != '_' {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn unknown_type(field: &str, written: &str) -> Refusal {
    Refusal::unsupported(format!("{field}: the type `{}` is not supported", excerpt(written)))
}
