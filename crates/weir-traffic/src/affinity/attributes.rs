//! The attributes of a cookie that Weir gives out (RFC 6265 section 4.1.2; SameSite as in RFC 6265bis section 4.1.2.7).

use std::fmt;
use std::time::Duration;

/// The attributes of the cookie beside its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CookieAttributes {
    /// How long it lasts after the last response; without it, until the browser is closed.
    pub lifetime: Option<Duration>,
    /// The path under which the client sends it.
    pub path: Box<str>,
    /// The domain in which the client sends it; without it, only to the host that it asked.
    pub domain: Option<Box<str>>,
    /// Whether the client sends it over TLS only.
    pub secure: bool,
    /// Whether it is kept from scripts.
    pub http_only: bool,
    /// Whether other sites make the client send it.
    pub same_site: SameSite,
}

/// Whether a request that another site caused carries the cookie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SameSite {
    /// Never.
    Strict,
    /// When the user follows a link.
    #[default]
    Lax,
    /// Always; needs [`CookieAttributes::secure`].
    None,
}

/// As they follow the value: `; Path=/; HttpOnly; SameSite=Lax`.
impl fmt::Display for CookieAttributes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "; Path={}", self.path)?;
        if let Some(domain) = &self.domain {
            write!(f, "; Domain={domain}")?;
        }
        if let Some(lifetime) = self.lifetime {
            write!(f, "; Max-Age={}", lifetime.as_secs())?;
        }
        if self.http_only {
            f.write_str("; HttpOnly")?;
        }
        if self.secure {
            f.write_str("; Secure")?;
        }
        f.write_str(match self.same_site {
            SameSite::Strict => "; SameSite=Strict",
            SameSite::Lax => "; SameSite=Lax",
            SameSite::None => "; SameSite=None",
        })
    }
}
