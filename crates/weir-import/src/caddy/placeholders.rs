//! Caddy's placeholders in the words of Weir.

/// How a placeholder begins that stands for a map of the result.
pub(super) const MAP_PREFIX: &str = "http.weir.map.";

/// A text with placeholders.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PlaceholderText {
    /// In the words of Weir.
    Text(String),
    /// This placeholder has none.
    Unknown(String),
}

/// Where a text stands.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// A target, a path: literal braces are doubled.
    Template,
    /// The value of a field, in which placeholders that Caddy does not know are text.
    Field,
    /// A body, in which braces around anything but a placeholder are text.
    Body,
}

/// Translates every placeholder. Braces around anything that cannot be one are text.
pub(super) fn translated(text: &str, kind: TextKind) -> PlaceholderText {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}', '$']) {
        result.push_str(&rest[..at]);
        let (found, behind) = (&rest[at..], &rest[at + 1..]);
        let end = found.strip_prefix('{').and_then(|inner| inner.find('}')).map(|end| end + 1);
        let end = end.filter(|end| is_placeholder(&found[1..*end]));
        match (found.as_bytes()[0], end) {
            (b'{', Some(end)) => {
                let name = &found[1..end];
                match known(name) {
                    // It is without percent-encoding, wherever that is no part of a URL.
                    Some(known) if known == "{path}" && kind != TextKind::Template => {
                        result.push_str("{path|decode}");
                    }
                    Some(known) => result.push_str(&known),
                    None if kind == TextKind::Field && !is_of_caddy(name) => {
                        result.push_str(&format!("{{{{{name}}}}}"));
                    }
                    None => return PlaceholderText::Unknown(format!("{{{name}}}")),
                }
                rest = &found[end + 1..];
                continue;
            }
            // `$` begins a variable of the environment in a weir.toml.
            (b'$', _) => result.push_str("$$"),
            (b'{', None) => result.push_str(if kind == TextKind::Body { "{" } else { "{{" }),
            _ => result.push_str(if kind == TextKind::Body { "}" } else { "}}" }),
        }
        rest = behind;
    }
    result.push_str(rest);
    PlaceholderText::Text(result)
}

/// Whether Caddy knows a placeholder: those with a dot are of its modules, the others are short forms of some of these.
fn is_of_caddy(name: &str) -> bool {
    let short = [
        "dir",
        "file",
        "host",
        "hostport",
        "method",
        "path",
        "query",
        "remote",
        "scheme",
        "uri",
        "uuid",
        "port",
        "client_ip",
    ];
    let begins =
        ["tls_cipher", "tls_version", "tls_client_", "remote_", "orig_", "upstream_hostport", "?query"];
    name.contains('.') || short.contains(&name) || begins.iter().any(|begin| name.starts_with(begin))
}

fn is_placeholder(name: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || "._-+>[]:?/$".contains(c);
    !name.is_empty() && name.chars().all(is_of_name) && name.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// One placeholder, with its braces; some are two of Weir.
fn known(name: &str) -> Option<String> {
    let short = match name {
        "host" | "http.request.host" => "{host}",
        "hostport" | "http.request.hostport" => "{authority}",
        "port" | "http.request.port" => "{port}",
        "uri" | "http.request.uri" => "{path}{query}",
        "path" | "http.request.uri.path" => "{path}",
        "query" | "http.request.uri.query" => "{args}",
        "?query" | "http.request.uri.prefixed_query" => "{query}",
        "method" | "http.request.method" => "{method}",
        "scheme" | "http.request.scheme" => "{scheme}",
        "remote_host" | "http.request.remote.host" => "{peer_address}",
        "remote_port" | "http.request.remote.port" => "{peer_port}",
        "client_ip" | "http.vars.client_ip" => "{client_address}",
        "http.request.proto" => "{version}",
        "http.request.orig_uri" => "{target}",
        "uuid" | "http.request.uuid" => "{request_id}",
        "http.auth.user.id" => "{user}",
        "tls_version" | "http.request.tls.version" => return None,
        "http.request.tls.server_name" => "{tls.server_name}",
        "tls_cipher" | "http.request.tls.cipher_suite" => "{tls.cipher_suite}",
        _ => {
            if let Some(map) = name.strip_prefix(MAP_PREFIX) {
                return Some(format!("{{map.{map}}}"));
            }
            // It is read when Weir reads its config.
            if let Some(variable) = name.strip_prefix("env.") {
                return Some(format!("${{{variable}:-}}"));
            }
            let field = name.strip_prefix("header.").or_else(|| name.strip_prefix("http.request.header."));
            if let Some(field) = field {
                return Some(format!("{{header.{}}}", field.to_ascii_lowercase()));
            }
            let cookie = name.strip_prefix("cookie.").or_else(|| name.strip_prefix("http.request.cookie."));
            if let Some(cookie) = cookie {
                return Some(format!("{{cookie.{cookie}}}"));
            }
            let parameter =
                name.strip_prefix("query.").or_else(|| name.strip_prefix("http.request.uri.query."));
            return parameter.map(|parameter| format!("{{query.{parameter}}}"));
        }
    };
    Some(short.to_owned())
}

/// A text whose only placeholders are variables of the environment.
pub(super) fn environment(text: &str) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("{env.") {
        let end = rest[at..].find('}')?;
        result.push_str(&rest[..at]);
        result.push_str(&format!("${{{}:-}}", &rest[at + 5..at + end]));
        rest = &rest[at + end + 1..];
    }
    result.push_str(rest);
    (!rest.contains('{')).then_some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_translated() {
        let text = |text: &str| translated(text, TextKind::Template);
        assert_eq!(
            text("https://{host}{uri}"),
            PlaceholderText::Text("https://{host}{path}{query}".to_owned())
        );
        assert_eq!(text("a {b c} $x"), PlaceholderText::Text("a {{b c}} $$x".to_owned()));
        assert_eq!(text("{http.request.header.X-A}"), PlaceholderText::Text("{header.x-a}".to_owned()));
        assert_eq!(text("{http.vars.a}"), PlaceholderText::Unknown("{http.vars.a}".to_owned()));
        let body = translated("{\"a\": {\"b\": 1}}", TextKind::Body);
        assert_eq!(body, PlaceholderText::Text("{\"a\": {\"b\": 1}}".to_owned()));
    }
}
