//! `[upstream.NAME.affinity]` in the text.

use std::time::Duration;

use weir_traffic::affinity::LearnSource;

use crate::key::{OneOrMany, Spanned, TextFormat, choice, section, text_values};
use crate::text::ConditionText;
use crate::text::routing::route::is_host_with_port;
use crate::value::{HeaderName, Template, Token, ValueError};

section! {
    /// Session affinity by a cookie, or by a key that is made of the request, such as the id of a session in a header: the requests of a client stay on one
    /// server while it is available. Clients of a server that goes away move to others and stay there; no other client moves. A request whose server is full
    /// waits for it, see `queue.affinity_wait`. For affinity that nothing has to be remembered for, for example by client address, see
    /// `balance = "consistent-hash"`.
    #[derive(Debug, Clone)]
    pub(crate) struct AffinityText at "upstream.NAME.affinity" {
        /// How the server of a request is known.
        mode: AffinityMode = "insert", like "HAProxy `cookie NAME insert|prefix`, `stick on`, nginx `sticky cookie|learn`, Traefik `sticky`";
        /// The name of the cookie. Without it, `weir-server-NAME` with the name of the upstream; an application's cookie has to be named.
        cookie: Token = optional, like "HAProxy `cookie NAME`, nginx `sticky cookie NAME`";
        /// The key of a request, for `learn` without `cookie` and for `stick`: `"{header.mcp-session-id}"`, `"{query.session}"`, `"{jwt.sub}"`, `"{map.tenant}"`. A
        /// request for which it is empty has no affinity. Only a hash of it is kept.
        key: Spanned<Template> = optional, like "HAProxy `stick on`, `stick match`, nginx `sticky learn lookup=`, Envoy `stateful_session`";
        /// Where responses say keys, for `learn` with `key`: `"header:NAME"` or `"cookie:NAME"` (of `Set-Cookie`), one or a list. Without it, the header or
        /// the cookie that `key` names.
        learn_from: OneOrMany<LearnSource> = optional, like "HAProxy `stick store-response`, nginx `sticky learn create=`";
        /// A condition on the response: when it holds, the key of the request is forgotten, as when a session has ended:
        /// `"(method == 'DELETE' && status < 300) || status == 404"`. See [Conditions](#conditions).
        forget_when: ConditionText = optional;
        /// The store (`[store.NAME]`) in which nodes share what they learn by `key`: a key that this node does not know is asked for there. Servers have to have the
        /// same names on all nodes. While the store cannot be reached, each node has its keys for itself. Without it, nodes share nothing.
        shared: Spanned<Box<str>> = optional, like "HAProxy `peers`, nginx `zone_sync`";
        /// Whether a request that belongs to a server gets no other one: while that server is down, in maintenance or gone, or has failed, the request is answered
        /// 503, and it waits for that server when it is full. Without it, it gets another server, where its client stays.
        strict: bool = false, like "Envoy `stateful_session` with `strict`, HAProxy without `option redispatch`";
        /// Signs the server in the cookie, so that clients cannot choose one; at least 16 characters, the same for all processes that share
        /// the upstream. Keep it out of the file: `"${COOKIE_SECRET}"`. Without it, a client that knows the name of a server can choose it.
        secret: CookieSecretText = optional, like "HAProxy `dynamic-cookie-key`";
        /// The `Max-Age` of an inserted cookie, renewed by every response. Off: until the browser is closed.
        max_age: Option<Duration> = "off", in 1_000..=315_360_000_000, like "nginx `sticky cookie expires=`, HAProxy `cookie maxidle`";
        /// The `Path` of an inserted cookie.
        path: CookiePath = "/", like "nginx `sticky cookie path=`";
        /// The `Domain` of an inserted cookie. Without it, the cookie is for the requested host only.
        domain: Spanned<Box<str>> = optional, like "nginx `sticky cookie domain=`, HAProxy `cookie domain`";
        /// Whether an inserted cookie is `Secure`: sent over TLS only.
        secure: bool = false, like "nginx `sticky cookie secure`, HAProxy `cookie secure`";
        /// Whether an inserted cookie is `HttpOnly`: hidden from scripts.
        http_only: bool = true, like "nginx `sticky cookie httponly`, HAProxy `cookie httponly`";
        /// The `SameSite` of an inserted cookie: whether requests caused by other sites carry it.
        same_site: SameSiteWord = "lax", like "nginx `sticky cookie samesite=`, HAProxy `cookie attr`";
        /// The maximum number of learned cookies or keys, at 16 bytes each. The least recently used ones are evicted.
        entries_max: usize = 100_000, in 8..=100_000_000, like "nginx `sticky learn zone=`, HAProxy `stick-table size`";
        /// How long a learned cookie or key is kept without a request.
        expire: Duration = "1h", in 1_000..=31_536_000_000, like "nginx `sticky learn timeout=`, HAProxy `stick-table expire`";
    }
}

choice! {
    /// How the server of a request is known.
    pub(crate) enum AffinityMode {
        /// Weir sets a cookie of its own, which servers do not receive
        #[default]
        Insert = "insert",
        /// the application's cookie is prefixed with the server in responses, and the prefix removed in requests
        Prefix = "prefix",
        /// Weir remembers, per process, which server set which value of the application's cookie, or said which `key`; a `key` that no server has said is
        /// not remembered, so that clients cannot fill the table, and a value of `cookie` that none has set stays on the server that gets it first
        Learn = "learn",
        /// Weir remembers, per process, which server was the first that got a request with a `key`: clients choose what is remembered
        Stick = "stick",
    }
}

choice! {
    /// Whether requests caused by other sites carry the cookie.
    pub(crate) enum SameSiteWord {
        /// never
        Strict = "strict",
        /// when the user follows a link
        #[default]
        Lax = "lax",
        /// always; browsers require `secure` for it
        None = "none",
    }
}

/// A secret; debug output does not show it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct CookieSecretText(pub(crate) Box<str>);

impl std::fmt::Debug for CookieSecretText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CookieSecretText(..)")
    }
}

/// The path of a cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CookiePath(pub(crate) Box<str>);

text_values! {
    LearnSource, parse_learn_source, print_learn_source, TextFormat {
        name: "source of keys",
        article: "a source of keys",
        examples: &["header:mcp-session-id", "cookie:SID"],
        pattern: r"^(header|cookie):.+$",
        about: "`header:NAME` or `cookie:NAME`, of responses.",
    };
    CookieSecretText, parse_secret, |value: &CookieSecretText| value.0.clone(), TextFormat {
        name: "secret",
        article: "a secret",
        examples: &["${COOKIE_SECRET}"],
        pattern: r"^.{16,}$",
        about: "At least 16 characters, such as `openssl rand -hex 32` prints.",
    };
    CookiePath, parse_path, |value: &CookiePath| value.0.clone(), TextFormat {
        name: "path of a cookie",
        article: "a path",
        examples: &["/", "/app"],
        pattern: r"^/[!-:<-~]*$",
        about: "A path that begins with `/`, without `;`.",
    };
}

fn parse_learn_source(text: &str) -> Result<LearnSource, ValueError> {
    let behind = |prefix: &'static str| text.strip_prefix(prefix).map(|name| (name, prefix.len()));
    let shift = |by: usize, error: ValueError| {
        let range = error.range.clone().map(|range| by + range.start..by + range.end);
        ValueError { range, ..error }
    };
    if let Some((name, len)) = behind("header:") {
        let name: HeaderName = name.parse().map_err(|error| shift(len, error))?;
        return Ok(LearnSource::Header(name.to_string().to_ascii_lowercase().into()));
    }
    if let Some((name, len)) = behind("cookie:") {
        let name: Token = name.parse().map_err(|error| shift(len, error))?;
        return Ok(LearnSource::Cookie((*name).into()));
    }
    Err(ValueError::new(format!("`{text}` is no part of a response"))
        .help("write `header:NAME` or `cookie:NAME`"))
}

fn print_learn_source(source: &LearnSource) -> String {
    match source {
        LearnSource::Header(name) => format!("header:{name}"),
        LearnSource::Cookie(name) => format!("cookie:{name}"),
    }
}

fn parse_secret(text: &str) -> Result<CookieSecretText, ValueError> {
    if text.chars().count() < 16 {
        // The secret itself has no place in a message.
        return Err(ValueError::new("the secret is shorter than 16 characters")
            .help("generate one with `openssl rand -hex 32`"));
    }
    Ok(CookieSecretText(text.into()))
}

fn parse_path(text: &str) -> Result<CookiePath, ValueError> {
    let sound = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    if sound {
        return Ok(CookiePath(text.into()));
    }
    Err(ValueError::new(format!("`{text}` is not a cookie path")).help("write for example `/` or `/app`"))
}

/// Whether `text` can be the domain of a cookie.
pub(crate) fn is_cookie_domain(text: &str) -> bool {
    let host = text.strip_prefix('.').unwrap_or(text);
    is_host_with_port(host) && !host.contains([':', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_long_and_not_shown() {
        assert!(parse_secret("0123456789abcde").is_err());
        let secret = parse_secret("0123456789abcdef").unwrap();
        assert_eq!(format!("{secret:?}"), "CookieSecretText(..)");
        let error = parse_secret("hunter2").unwrap_err();
        assert!(!error.message.contains("hunter2"));
    }

    #[test]
    fn sources_of_keys_are_read_and_printed() {
        for (text, printed) in
            [("header:Mcp-Session-Id", "header:mcp-session-id"), ("cookie:SID", "cookie:SID")]
        {
            assert_eq!(print_learn_source(&parse_learn_source(text).unwrap()), printed);
        }
        for text in ["", "header:", "header:a b", "cookie:", "query:a", "Header:a"] {
            assert!(parse_learn_source(text).is_err(), "{text}");
        }
    }

    #[test]
    fn paths_and_domains_cannot_add_attributes() {
        for text in ["/", "/app/x"] {
            assert!(parse_path(text).is_ok(), "{text}");
        }
        for text in ["", "app", "/a;b", "/a b", "/\r\n"] {
            assert!(parse_path(text).is_err(), "{text:?}");
        }
        for (text, sound) in [
            ("example.com", true),
            (".example.com", true),
            ("a;b", false),
            ("a b", false),
            ("", false),
            ("a:80", false),
        ] {
            assert_eq!(is_cookie_domain(text), sound, "{text}");
        }
    }
}
