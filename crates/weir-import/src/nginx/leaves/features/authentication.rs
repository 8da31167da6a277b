//! `auth_basic`, `auth_request`, `auth_jwt`.

use super::super::scope::{NginxPlace, Scope};
use super::super::{passes, variables};
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    basic(scope, route);
    request(scope, draft, route);
    for name in ["auth_jwt", "auth_digest", "auth_pam", "auth_ldap"] {
        if let Some(statement) = scope.one(name) {
            scope.ledger.unsupported(
                statement,
                "use `jwt` of the route for tokens, `forward_auth` for what another server decides",
            );
        }
    }
    if let Some((statement, text)) = scope.text("auth_delay") {
        match text {
            "0" => scope.ledger.by_default(statement, "refusals are not delayed"),
            _ => scope.ledger.approximated(
                statement,
                "refusals are not delayed; a limit with `count_status = 401` bounds guesses",
            ),
        }
    }
}

fn basic(scope: &Scope<'_>, route: &mut DraftTable) {
    let Some((statement, realm)) = scope.text("auth_basic") else { return };
    if realm == "off" {
        return scope.ledger.by_default(statement, "the place asks for no password");
    }
    let Some((file_statement, file)) = scope.text("auth_basic_user_file") else {
        return scope.ledger.unsupported(statement, "name the file of users (`basic.users_file`)");
    };
    let (Some(realm), Some(file)) = (variables::constant(scope, realm), variables::constant(scope, file))
    else {
        return scope
            .ledger
            .unsupported(statement, "realm and file of `basic` are fixed; make a route for each");
    };
    let allowed = realm.chars().all(|c| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\');
    let basic = route.table("basic");
    if realm != "Restricted" && allowed {
        basic.set("realm", realm, statement);
    }
    basic.set("users_file", file, file_statement);
    scope.ledger.exact(file_statement);
    if allowed {
        scope.ledger.exact(statement);
    } else {
        scope
            .ledger
            .approximated(statement, "the realm is `Restricted`: it has only printable ASCII without quotes");
    }
}

/// `auth_request URI`: the location of the URI says which server is asked.
fn request(scope: &Scope<'_>, draft: &mut Draft, route: &mut DraftTable) {
    let Some((statement, uri)) = scope.text("auth_request") else { return };
    if uri == "off" {
        return scope.ledger.by_default(statement, "no server is asked");
    }
    let path = uri.split('?').next().unwrap_or(uri);
    let Some((question, location)) = location(scope, path) else {
        return scope
            .ledger
            .unsupported(statement, "the location that it asks is not in this server; set `forward_auth`");
    };
    let passes: Vec<&Statement> =
        location.children().iter().filter(|child| child.name() == "proxy_pass").collect();
    let Some(pass) = passes.last() else {
        return scope
            .ledger
            .unsupported(statement, "the location that it asks has no `proxy_pass`; set `forward_auth`");
    };
    let mut asked = DraftTable::default();
    passes::pass(&question, draft, &mut asked, pass);
    let Some(upstream) = asked.text("upstream").map(str::to_owned) else {
        return scope
            .ledger
            .unsupported(statement, "the server that it asks is not known; set `forward_auth`");
    };
    let path = question_path(&asked, uri);
    if path.contains(['{', '$']) {
        return scope.ledger.unsupported(
            statement,
            "the path that is asked for is the same for all requests; have the server read `X-Forwarded-Uri`",
        );
    }
    let forward = route.table("forward_auth");
    forward.set("upstream", upstream, statement);
    forward.set_plain("path", path);
    if let Some(host) = asked.text("forward_host") {
        forward.set_plain("forward_host", host);
    }
    if let Some(set) = asked.get_table("request_headers").and_then(|headers| headers.get_table("set")) {
        forward.table("headers").merge(set);
    }
    answers(scope, route);
    scope.ledger.words(location).rest();
    scope.ledger.exact(location);
    for child in location.children() {
        if child.name() == "internal" {
            scope.ledger.exact(child);
        }
    }
    scope.ledger.approximated(
        statement,
        "the answer of the server that was asked goes to the client, where nginx makes 401, 403 or 500 of it",
    );
}

/// The path that the server is asked for.
fn question_path(asked: &DraftTable, uri: &str) -> String {
    let replaced = match asked.get("rewrite") {
        Some(TomlValue::Array(rules)) => rules.iter().find_map(|rule| match rule {
            TomlValue::Inline(entries) => entries.iter().find_map(|(key, value)| match value {
                TomlValue::Text(text) if key == "replacement" => Some(text.trim_end_matches('?').to_owned()),
                _ => None,
            }),
            _ => None,
        }),
        _ => None,
    };
    replaced.or_else(|| asked.text("replace_prefix").map(str::to_owned)).unwrap_or_else(|| uri.to_owned())
}

/// `auth_request_set $user $upstream_http_x_user`, and the field in which servers get it.
fn answers(scope: &Scope<'_>, route: &mut DraftTable) {
    for statement in scope.all("auth_request_set") {
        let mut words = scope.words(statement);
        let (Some(variable), Some(value)) = (words.text(), words.text()) else { continue };
        let Some(field) = value.strip_prefix("$upstream_http_") else {
            scope.ledger.unsupported(
                statement,
                "`forward_auth.response_headers` copies fields of the answer to the request",
            );
            continue;
        };
        let field = field.replace('_', "-");
        let used = scope.all("proxy_set_header").into_iter().chain(scope.all("fastcgi_param"));
        let same = used
            .filter(|used| used.words.get(2).is_some_and(|word| word.text == variable))
            .filter_map(|used| used.words.get(1))
            .any(|name| name.text.eq_ignore_ascii_case(&field));
        if same {
            route.table("forward_auth").push_once("response_headers", field, statement);
            scope.ledger.exact(statement);
        } else {
            route.table("forward_auth").push_once("response_headers", field.clone(), statement);
            scope
                .ledger
                .approximated(statement, &format!("servers get it as `{field}`, and under no other name"));
        }
    }
}

/// The location of this server that an internal request for a path takes, with the place in it.
pub(super) fn location<'s>(scope: &Scope<'s>, path: &str) -> Option<(Scope<'s>, &'s Statement)> {
    let server = scope.server();
    let words = |location: &'s Statement| -> (String, String) {
        let word = |index: usize| location.words.get(index).map_or(String::new(), |word| word.text.clone());
        match location.words.len() {
            2 => (String::new(), word(1)),
            _ => (word(1), word(2)),
        }
    };
    let mut best: Option<(&'s Statement, usize, bool)> = None;
    for location in server.iter().filter(|statement| statement.name() == "location") {
        let (modifier, text) = words(location);
        let length = match modifier.as_str() {
            "=" if text == path => usize::MAX,
            "" | "^~" if path.starts_with(&text) => text.len(),
            _ => continue,
        };
        if best.is_none_or(|(_, known, _)| length > known) {
            best = Some((location, length, modifier == "="));
        }
    }
    let (location, _, exact) = best?;
    let (_, text) = words(location);
    let mut place = scope.of_server().within(location.children());
    place.place = if exact { NginxPlace::Exact(text) } else { NginxPlace::Prefix(text) };
    Some((place, location))
}
