//! `proxy_set_header` and its like: fields of requests, of which Weir writes the usual ones by itself.

use super::super::scope::Scope;
use super::super::variables;
use super::PassFamily;
use super::url::PassUrl;
use crate::document::DraftTable;
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable, url: &PassUrl) {
    let authority = &proxy_host(url);
    let name = format!("{}_set_header", family.prefix());
    let statements = scope.all(&name);
    let mut has_host = false;
    for statement in statements {
        let mut words = scope.words(statement);
        let (Some(field), Some(value)) = (words.text(), words.text()) else { continue };
        if field.eq_ignore_ascii_case("host") {
            has_host = true;
            host(scope, statement, value, route, authority);
        } else {
            one(scope, statement, field, value, route);
        }
    }
    if !has_host {
        forward_host(authority, route, None);
    }
    body_and_method(scope, family, route);
}

/// `$proxy_host`: the host of the URL, with a port that is not the usual one.
fn proxy_host(url: &PassUrl) -> String {
    let usual = if url.tls { ":443" } else { ":80" };
    url.authority.strip_suffix(usual).unwrap_or(&url.authority).to_owned()
}

/// nginx names the host of the URL unless it is told otherwise.
fn forward_host(authority: &str, route: &mut DraftTable, from: Option<&Statement>) {
    let host = match variables::literal(authority) {
        Some(authority) if authority.starts_with("unix:") => "localhost".to_owned(),
        Some(authority) => authority,
        None => "server".to_owned(),
    };
    match from {
        Some(statement) => route.set("forward_host", host, statement),
        None => route.set_plain("forward_host", host),
    }
}

/// `proxy_set_header Host ...`.
fn host(scope: &Scope<'_>, statement: &Statement, value: &str, route: &mut DraftTable, authority: &str) {
    let ledger = scope.ledger;
    match value {
        "$http_host" | "$host:$http_port" => ledger.by_default(statement, "servers get the host that the client has sent"),
        "$host" => {
            if usual_ports(scope) {
                ledger.by_default(statement, "servers get the host that the client has sent");
            } else {
                ledger.approximated(statement, "servers get the host that the client has sent, with its port");
            }
        }
        "$host:$server_port" | "$http_host:$server_port" => {
            ledger.approximated(statement, "servers get the host that the client has sent, with the port that it names");
        }
        "$proxy_host" | "$proxy_host:$proxy_port" => {
            forward_host(authority, route, Some(statement));
            ledger.exact(statement);
        }
        _ if is_of_client(scope, value) => {
            ledger.by_default(statement, "servers get the host that the client has sent");
        }
        _ => match variables::constant(scope, value) {
            Some(host) if !host.is_empty() => {
                route.set("forward_host", host, statement);
                ledger.exact(statement);
            }
            _ if variables::template(scope, value).is_ok_and(|text| text == "{host}" || text == "{authority}") => {
                ledger.approximated(statement, "servers get the host that the client has sent, with its port");
            }
            _ => ledger.unsupported(
                statement,
                "`forward_host` is the host of the client, that of the server, or a fixed one; make a route for each",
            ),
        },
    }
}

/// A map of the host of the client to itself, for requests that name it in `:authority` alone.
fn is_of_client(scope: &Scope<'_>, value: &str) -> bool {
    let Some(map) = value.strip_prefix('$').and_then(|name| scope.map(name)) else { return false };
    let word =
        |statement: &Statement| statement.words.get(1).map(|word| word.text.clone()).unwrap_or_default();
    let keeps = |entry: &Statement| {
        let value = word(entry);
        matches!((entry.name(), value.as_str()), ("default", "$http_host") | ("", "$host"))
    };
    let is_kept = map.name() == "map" && word(map) == "$http_host" && map.children().iter().all(keeps);
    is_kept && map.children().iter().any(|entry| entry.name() == "default")
}

/// Whether the server listens on ports that clients do not write into `Host`.
fn usual_ports(scope: &Scope<'_>) -> bool {
    scope.all("listen").iter().all(|listen| {
        let address = listen.words.get(1).map_or("", |word| word.text.as_str());
        let port = address.rsplit(':').next().unwrap_or_default();
        port == "80" || port == "443" || port.parse::<u16>().is_err()
    })
}

/// What Weir does about a field by itself.
fn by_itself(field: &str, value: &str) -> Option<&'static str> {
    Some(match (field, value) {
        ("connection", _) => "Weir writes `Connection` itself, and keeps upgrades and connections",
        ("upgrade", "$http_upgrade" | "websocket" | "") => "upgrades to WebSocket are forwarded",
        ("keep-alive" | "te" | "transfer-encoding" | "content-length", _) => {
            "Weir frames requests to servers itself"
        }
        ("x-forwarded-for", "$proxy_add_x_forwarded_for" | "$remote_addr") => {
            "servers get `X-Forwarded-For`; what clients send in it counts only from `trusted_proxies`"
        }
        ("x-forwarded-proto", "$scheme") => "servers get `X-Forwarded-Proto`",
        ("x-forwarded-host", "$host" | "$http_host") => {
            "servers get `X-Forwarded-Host`, which is the host of the client"
        }
        ("x-forwarded-port", "$server_port") => "servers get `X-Forwarded-Port`",
        ("range", "$slice_range") => "requests with `Range` get their part while the whole is fetched",
        ("x-request-id", "$request_id") => "servers get `X-Request-Id`",
        _ => return None,
    })
}

/// Any other field.
fn one(scope: &Scope<'_>, statement: &Statement, field: &str, value: &str, route: &mut DraftTable) {
    let ledger = scope.ledger;
    let lower = field.to_ascii_lowercase();
    let is_other = lower == "x-forwarded-for"
        && (has_own_header(scope) || value == "$remote_addr" && scope.one("set_real_ip_from").is_some());
    if let Some(why) = by_itself(&lower, value).filter(|_| !is_other) {
        let same =
            |one: &&Statement| one.words.get(1).is_some_and(|word| word.text.eq_ignore_ascii_case(field));
        if scope.all(statement.name()).iter().filter(|one| same(one)).count() > 1 {
            ledger.approximated(statement, "servers get the field once");
        }
        return ledger.by_default(statement, why);
    }
    if let Some(answer) = of_answer(scope, value) {
        return if answer == lower {
            ledger.exact(statement);
        } else {
            ledger
                .approximated(statement, &format!("servers get it as `{answer}`, as `forward_auth` has it"));
        };
    }
    if is_certificate_field(&lower, value) {
        return ledger.by_default(statement, "servers get it in this field (`tls.client_certificates`)");
    }
    // A field that is only handed on needs no word: Weir drops no other ones.
    let own = format!("$http_{}", lower.replace('-', "_"));
    if value == own && !lower.starts_with("x-forwarded") && !lower.contains('_') {
        return ledger.by_default(statement, "servers get the fields of the client");
    }
    if !is_token(field) {
        return ledger
            .unsupported(statement, "the name of the field is no token (RFC 9110); choose another one");
    }
    if value.is_empty() {
        route.table("request_headers").push("remove", lower, statement);
        return ledger.exact(statement);
    }
    if value.contains("$remote_user") && !scope.one("auth_basic").is_some_and(is_basic) {
        route.table("request_headers").push("remove", lower, statement);
        return ledger.approximated(
            statement,
            "there is no `auth_basic` here, so that no password proves the name in `Authorization`: servers do not get the field",
        );
    }
    match variables::shown(scope, value, variables::TemplateUse::Exchange) {
        Ok(template) if template.text.is_empty() => {
            route.table("request_headers").push("remove", lower, statement);
            ledger.exact(statement);
        }
        Ok(template) => {
            let headers = route.table("request_headers");
            let has = |table: &DraftTable| table.keys().any(|known| known.eq_ignore_ascii_case(field));
            // Of two lines of one name, servers get both.
            let key = if headers.get_table("set").is_some_and(has) { "add" } else { "set" };
            if headers.get_table(key).is_some_and(has) {
                return ledger
                    .unsupported(statement, "a field is sent in at most two lines; join their values");
            }
            if variables::may_vanish(&template.text) {
                ledger.approximated(statement, variables::VANISHES);
            }
            headers.table(key).set(field, template.text, statement);
            match template.differences.as_slice() {
                [] => ledger.exact(statement),
                some => some.iter().for_each(|difference| ledger.approximated(statement, difference)),
            }
        }
        Err(unknown) => ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice)),
    }
}

/// Whether proxies name the client in another field than `X-Forwarded-For`, so that the chain in that one does not have its address.
fn has_own_header(scope: &Scope<'_>) -> bool {
    let names = |text: &str| !text.eq_ignore_ascii_case("x-forwarded-for") && text != "proxy_protocol";
    scope.one("set_real_ip_from").is_some()
        && scope.text("real_ip_header").is_none_or(|(_, text)| names(text))
}

/// The field of the answer to `auth_request` that a variable stands for: servers get it by `forward_auth`.
fn of_answer(scope: &Scope<'_>, value: &str) -> Option<String> {
    if !value.starts_with('$') || scope.one("auth_request").is_none() {
        return None;
    }
    let sets = scope.all("auth_request_set");
    let set = sets.into_iter().find(|set| set.words.get(1).is_some_and(|word| word.text == value))?;
    Some(set.words.get(2)?.text.strip_prefix("$upstream_http_")?.replace('_', "-"))
}

fn is_basic(statement: &Statement) -> bool {
    statement.words.get(1).is_some_and(|word| word.text != "off")
}

/// Whether a field is one in which servers get the certificate of the client anyway.
fn is_certificate_field(field: &str, value: &str) -> bool {
    matches!(
        (field, value),
        ("x-ssl-client-verify", "$ssl_client_verify") | ("x-ssl-client-s-dn", "$ssl_client_s_dn")
    )
}

/// Whether a text is a name of a field.
pub(super) fn is_token(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

/// Requests that are sent in another form.
fn body_and_method(scope: &Scope<'_>, family: PassFamily, route: &mut DraftTable) {
    let prefix = family.prefix();
    let default = [
        ("pass_request_body", "on", "servers get the body of the request"),
        ("pass_request_headers", "on", "servers get the fields of the request"),
    ];
    for (name, value, why) in default {
        let Some((statement, text)) = scope.text(&format!("{prefix}_{name}")) else { continue };
        if text == value {
            scope.ledger.by_default(statement, why);
        } else if name == "pass_request_body" && !scope.own("internal").is_empty() {
            scope.ledger.by_default(statement, "questions of `auth_request` have no body");
        } else if name == "pass_request_headers" && text == "off" {
            route.set("forward_headers", false, statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.unsupported(
                statement,
                "Weir forwards requests whole; have the server ignore what it does not want",
            );
        }
    }
    for (name, advice) in [
        ("method", "the method stays that of the client; have the server accept it"),
        (
            "set_body",
            "bodies of requests are not replaced; have the application read a field (`request_headers`)",
        ),
    ] {
        if let Some((statement, _)) = scope.text(&format!("{prefix}_{name}")) {
            scope.ledger.unsupported(statement, advice);
        }
    }
}
