//! `[upstream.NAME.affinity]` as it is written.

use std::time::Duration;

use super::route::is_host_with_port;
use crate::key::{Spanned, TextFormat, choice, section, text_values};
use crate::value::{Token, ValueError};

section! {
    /// The requests of a client stay on one server, by a cookie, as long as that server takes them. When it goes, its clients move to
    /// others and stay there; nobody else moves. A request whose server is full waits for it, see `queue.affinity_wait`. For affinity without a
    /// cookie, by the address of the client say, see `balance = "consistent-hash"`.
    #[derive(Debug, Clone)]
    pub(crate) struct AffinityText at "upstream.NAME.affinity" {
        /// How the client is told apart.
        mode: AffinityMode = "insert", like "HAProxy `cookie NAME insert|prefix`, nginx `sticky cookie|learn`, Traefik `sticky`";
        /// The name of the cookie. Without it, `weir-server-NAME` with the name of the upstream, but the cookie of an application has to be
        /// named.
        cookie: Token = optional, like "HAProxy `cookie NAME`, nginx `sticky cookie NAME`";
        /// Signs what stands for a server, so that clients cannot make it up; at least 16 characters, the same for all that share the
        /// upstream. Keep it out of the file: `"${COOKIE_SECRET}"`. Without it, anybody who knows the name of a server can ask for that one.
        secret: CookieSecretText = optional, like "HAProxy `dynamic-cookie-key`";
        /// How long an inserted cookie lasts after the last response, which then renews it every time. Off: until the browser is closed.
        max_age: Option<Duration> = "off", in 1_000..=315_360_000_000, like "nginx `sticky cookie expires=`, HAProxy `cookie maxidle`";
        /// Under which path the client sends an inserted cookie.
        path: CookiePath = "/", like "nginx `sticky cookie path=`";
        /// In which domain the client sends an inserted cookie. Without it, to the host that it asked and no other.
        domain: Spanned<Box<str>> = optional, like "nginx `sticky cookie domain=`, HAProxy `cookie domain`";
        /// Whether the client sends an inserted cookie over TLS only.
        secure: bool = false, like "nginx `sticky cookie secure`, HAProxy `cookie secure`";
        /// Whether an inserted cookie is kept from scripts.
        http_only: bool = true, like "nginx `sticky cookie httponly`, HAProxy `cookie httponly`";
        /// Whether a request that another site caused carries an inserted cookie.
        same_site: SameSiteWord = "lax", like "nginx `sticky cookie samesite=`, HAProxy `cookie attr`";
        /// Learned cookies that are remembered, at 16 bytes each. The ones not used for longest make room.
        entries_max: usize = 100_000, in 8..=100_000_000, like "nginx `sticky learn zone=`, HAProxy `stick-table size`";
        /// How long a learned cookie is remembered that no request brings.
        expire: Duration = "1h", in 1_000..=31_536_000_000, like "nginx `sticky learn timeout=`, HAProxy `stick-table expire`";
    }
}

choice! {
    /// How a client is told apart.
    pub(crate) enum AffinityMode {
        /// Weir gives the client a cookie of its own, which servers do not see
        #[default]
        Insert = "insert",
        /// the cookie of the application is marked with the server on its way to the client and unmarked on its way back
        Prefix = "prefix",
        /// which server gave out which value of the application's cookie is remembered, per process
        Learn = "learn",
    }
}

choice! {
    /// Whether other sites make the client send a cookie.
    pub(crate) enum SameSiteWord {
        /// never
        Strict = "strict",
        /// when the user follows a link
        #[default]
        Lax = "lax",
        /// always; browsers ask for `secure` then
        None = "none",
    }
}

/// A secret, which no debug output shows.
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

fn parse_secret(text: &str) -> Result<CookieSecretText, ValueError> {
    if text.chars().count() < 16 {
        // The secret itself has no place in a message.
        return Err(ValueError::new("the secret is shorter than 16 characters")
            .help("`openssl rand -hex 32` prints a good one"));
    }
    Ok(CookieSecretText(text.into()))
}

fn parse_path(text: &str) -> Result<CookiePath, ValueError> {
    let sound = text.starts_with('/') && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
    if sound {
        return Ok(CookiePath(text.into()));
    }
    Err(ValueError::new(format!("`{text}` is not the path of a cookie"))
        .help("write for example `/` or `/app`"))
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
