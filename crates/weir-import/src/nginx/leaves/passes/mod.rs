//! `proxy_pass`, `fastcgi_pass`, `grpc_pass`: where requests of a place go, and how.

use super::scope::Scope;
use super::upstreams;
use super::variables;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

// Servers that a request names.
mod dynamic;
// Parameters of FastCGI.
mod fastcgi;
// Scripts below an `alias`.
mod alias;
// What becomes of the path.
mod path;
// Redirects and cookies of servers.
mod responses;
// The Host and other fields of requests.
mod fields;
// When another server is tried.
mod retries;
// Time limits, TLS and sizes of the servers' side.
mod settings;
// The URL.
mod url;

use url::PassUrl;

/// Whose directives count at a place.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PassFamily {
    Proxy,
    Fastcgi,
    Grpc,
}

impl PassFamily {
    /// What the names of its directives begin with.
    const fn prefix(self) -> &'static str {
        match self {
            PassFamily::Proxy => "proxy",
            PassFamily::Fastcgi => "fastcgi",
            PassFamily::Grpc => "grpc",
        }
    }
}

/// `proxy_pass` and its like of a location; sets `upstream` (or `split`) and how the path changes.
pub(in crate::nginx) fn pass<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    route: &mut DraftTable,
    statement: &'s Statement,
) {
    let family = match statement.name() {
        "proxy_pass" => PassFamily::Proxy,
        "fastcgi_pass" => PassFamily::Fastcgi,
        "grpc_pass" => PassFamily::Grpc,
        name => {
            let advice = match name {
                "memcached_pass" => {
                    "have an application read memcached; Weir asks servers of HTTP and FastCGI"
                }
                _ => {
                    "have the program speak HTTP or FastCGI (uWSGI: `http-socket`, `fastcgi-socket`), and name it as an upstream"
                }
            };
            scope.ledger.unsupported(statement, advice);
            route.set_plain("respond", TomlValue::inline([("status", 502.into())]));
            return;
        }
    };
    let mut words = scope.words(statement);
    let text = words.text().unwrap_or_default();
    let outcome = url::parse(scope, text)
        .map_err(|unknown| format!("`${}`: {}", unknown.name, unknown.advice))
        .and_then(|url| passed(scope, draft, route, statement, family, &url));
    match outcome {
        Ok(differences) if differences.is_empty() => scope.ledger.exact(statement),
        Ok(differences) => {
            differences.iter().for_each(|difference| scope.ledger.approximated(statement, difference));
        }
        Err(advice) => {
            scope.ledger.unsupported(statement, &advice);
            let of_servers = [
                "upstream",
                "split",
                "split_by",
                "forward_host",
                "replace_prefix",
                "replace_regex",
                "strip_prefix",
            ];
            of_servers.iter().for_each(|key| route.remove(key));
            route.set_plain("respond", TomlValue::inline([("status", 502.into())]));
        }
    }
}

/// Says where requests go; returns what differs.
fn passed<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    route: &mut DraftTable,
    statement: &'s Statement,
    family: PassFamily,
    url: &PassUrl,
) -> Result<Vec<String>, String> {
    let mut differences = Vec::new();
    let port = if url.tls { 443 } else { 80 };
    let mut settings = DraftTable::default();
    settings::protocol(family, url.tls, &mut settings, statement);
    settings::of_servers(scope, family, url.tls, &mut settings, &mut differences);
    retries::apply(scope, family, &mut settings);
    match variables::literal(&url.authority) {
        Some(authority) => {
            let destination = upstreams::destination(scope, &authority, port)?;
            let name = upstreams::upstream(scope, draft, &destination, &settings, statement);
            route.set("upstream", name, statement);
        }
        None => dynamic::apply(scope, draft, route, statement, url, &settings, &mut differences)?,
    }
    let had_rewrite = route.has("rewrite");
    path::apply(scope, url, route, statement, &mut differences)?;
    if route.has("rewrite") && !had_rewrite {
        path::told(scope, url, route, &mut differences)?;
    }
    match family {
        PassFamily::Fastcgi => fastcgi::apply(scope, route, statement, &mut differences)?,
        PassFamily::Proxy | PassFamily::Grpc => {
            fields::apply(scope, family, route, url);
            responses::apply(scope, family, route, url);
        }
    }
    responses::shared(scope, family, route);
    Ok(differences)
}
