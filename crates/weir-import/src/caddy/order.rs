//! The order in which Caddy carries out directives, whatever their order in the file (`httpcaddyfile/directives.go`).

use super::matchers::MatcherTable;
use crate::source::Statement;

/// First to last.
const ORDER: [&str; 38] = [
    "tracing",
    "map",
    "vars",
    "fs",
    "root",
    "log_append",
    "skip_log",
    "log_skip",
    "log_name",
    "header",
    "copy_response_headers",
    "request_body",
    "redir",
    "method",
    "rewrite",
    "uri",
    "try_files",
    "basicauth",
    "basic_auth",
    "forward_auth",
    "request_header",
    "encode",
    "push",
    "intercept",
    "templates",
    "invoke",
    "handle",
    "handle_path",
    "route",
    "abort",
    "error",
    "respond",
    "metrics",
    "reverse_proxy",
    "php_fastcgi",
    "php_server",
    "file_server",
    "acme_server",
];

/// The directives of a block in Caddy's order: those of one name by how long the path is that they are for, then those with a matcher.
pub(super) fn sorted<'s>(block: &'s [Statement], matchers: &MatcherTable<'s>) -> Vec<&'s Statement> {
    let mut directives: Vec<&Statement> =
        block.iter().filter(|statement| !statement.name().starts_with('@')).collect();
    directives.sort_by_key(|statement| {
        let place = ORDER.iter().position(|name| *name == same_place(statement.name()));
        let (path_len, has_matcher) = matchers.specificity(statement);
        // A directive of another module may stand anywhere, by the option `order`: what it might keep out comes first.
        (place, std::cmp::Reverse(path_len), !has_matcher)
    });
    directives
}

/// `handle_path` is `handle` with a rewrite, and sorted among those.
fn same_place(name: &str) -> &str {
    match name {
        "handle_path" => "handle",
        "basicauth" => "basic_auth",
        other => other,
    }
}
