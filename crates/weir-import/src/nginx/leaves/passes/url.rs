//! The URL of `proxy_pass` and its like, cut into what names the servers and what becomes of the path.

use super::super::scope::Scope;
use super::super::variables::{self, UnknownVariable};

/// A URL that requests are passed to.
pub(super) struct PassUrl {
    /// Whether servers have TLS.
    pub(super) tls: bool,
    /// Host and port, or `unix:/path`; a template.
    pub(super) authority: String,
    /// The path and query behind it; a template. `None`: the request keeps its own.
    pub(super) uri: Option<String>,
    /// Whether that is so because the text names the whole target.
    pub(super) has_target: bool,
    /// Whether the text has variables, be their values known: then nginx replaces no prefix, but the whole.
    pub(super) had_variables: bool,
}

/// The parts of a URL, whose variables with one value are folded into it.
pub(super) fn parse(scope: &Scope<'_>, text: &str) -> Result<PassUrl, UnknownVariable> {
    let had_variables = text.contains('$');
    // The whole target behind the authority is what the request has anyway.
    let template = variables::template(scope, text)?;
    let (scheme, rest) = match template.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None => ("", template.as_str()),
    };
    let tls = match scheme {
        "https" | "grpcs" => true,
        "http" | "grpc" | "" => false,
        "{scheme}" if all_tls(scope) == Some(true) => true,
        "{scheme}" if all_tls(scope) == Some(false) => false,
        "{scheme}" => {
            return Err(UnknownVariable {
                name: "scheme".to_owned(),
                advice: "name an upstream with `tls`, and one without".to_owned(),
            });
        }
        _ => {
            return Err(UnknownVariable {
                name: scheme.trim_matches(['{', '}']).to_owned(),
                advice: "write `http://` or `https://`: Weir has to know whether servers have TLS".to_owned(),
            });
        }
    };
    let (authority, uri) = split(rest);
    let has_target = uri.as_deref() == Some("{target}")
        || text.contains("$request_uri") && uri.as_deref() == Some("{path}{query}");
    let uri = uri.filter(|uri| !matches!(uri.as_str(), "{target}" | "{path}{query}" | "{path}?{args}"));
    Ok(PassUrl { tls, authority, uri, has_target, had_variables })
}

/// The authority and the rest. A Unix socket ends with a colon in front of the path.
fn split(rest: &str) -> (String, Option<String>) {
    if let Some(path) = rest.strip_prefix("unix:") {
        return match path.split_once(':') {
            Some((socket, uri)) if !uri.is_empty() => (format!("unix:{socket}"), Some(uri.to_owned())),
            Some((socket, _)) => (format!("unix:{socket}"), None),
            None => (format!("unix:{path}"), None),
        };
    }
    // A slash within a placeholder does not exist; one of the path may stand in a placeholder itself.
    let slash = rest.find(['/', '?']);
    let placeholder = ["{target}", "{path}"].iter().filter_map(|name| rest.find(name)).min();
    match [slash, placeholder].into_iter().flatten().min() {
        Some(at) => (rest[..at].to_owned(), Some(rest[at..].to_owned())),
        None => (rest.to_owned(), None),
    }
}

/// Whether all that the server listens on has TLS, or nothing has.
fn all_tls(scope: &Scope<'_>) -> Option<bool> {
    let listens = scope.all("listen");
    let has = |statement: &&crate::source::Statement| statement.words.iter().any(|word| word.text == "ssl");
    let count = listens.iter().filter(|listen| has(listen)).count();
    match (count, listens.len()) {
        (_, 0) => None,
        (0, _) => Some(false),
        (some, all) if some == all => Some(true),
        _ => None,
    }
}
