//! Attributes of cookies that servers set (RFC 6265 section 4.1; nginx: `proxy_cookie_domain`, `proxy_cookie_path`, `proxy_cookie_flags`).

/// A change of a flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flag {
    /// The cookie has it from then on.
    Set,
    /// It has it no more.
    Removed,
}

/// What is changed of a cookie; of each, `None` leaves it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CookieChange<'a> {
    /// The new domain, if it is this one now, or whatever it is; an empty one removes the attribute.
    pub domain: Option<(Option<&'a [u8]>, &'a [u8])>,
    /// The new beginning of the path, if it begins with this now; or the new path, whatever it is. An empty one removes the attribute.
    pub path: Option<(Option<&'a [u8]>, &'a [u8])>,
    /// `Secure`.
    pub secure: Option<Flag>,
    /// `HttpOnly`.
    pub http_only: Option<Flag>,
    /// `Partitioned`.
    pub partitioned: Option<Flag>,
    /// The value of `SameSite`; an empty one removes the attribute.
    pub same_site: Option<&'a str>,
}

/// The name of the cookie that a `Set-Cookie` sets.
pub fn cookie_name(value: &[u8]) -> &[u8] {
    let pair = value.split(|byte| *byte == b';').next().unwrap_or_default();
    pair.split(|byte| *byte == b'=').next().unwrap_or_default().trim_ascii()
}

/// Appends a `Set-Cookie` with changed attributes. The cookie itself, and attributes that are not changed, stay byte for byte.
pub fn write_cookie(value: &[u8], change: &CookieChange<'_>, out: &mut Vec<u8>) {
    let mut parts = value.split(|byte| *byte == b';');
    out.extend_from_slice(parts.next().unwrap_or_default());
    for part in parts {
        let text = part.trim_ascii();
        let equals = text.iter().position(|byte| *byte == b'=');
        let name = text[..equals.unwrap_or(text.len())].trim_ascii();
        let given = equals.map_or(&b""[..], |at| text[at + 1..].trim_ascii());
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        let new = if is("domain") {
            change
                .domain
                .filter(|(from, _)| from.is_none_or(|from| is_domain(given, from)))
                .map(|(_, to)| [to, b""])
        } else if is("path") {
            change.path.and_then(|(from, to)| {
                Some([to, from.map_or(Some(&b""[..]), |from| given.strip_prefix(from))?])
            })
        } else {
            let is_changed = change.secure.is_some() && is("secure")
                || change.http_only.is_some() && is("httponly")
                || change.partitioned.is_some() && is("partitioned")
                || change.same_site.is_some() && is("samesite");
            if is_changed {
                // It is written behind the others, if at all.
                continue;
            }
            None
        };
        match new {
            None => {
                out.push(b';');
                out.extend_from_slice(part);
            }
            Some([b"", b""]) => {}
            Some(new) => {
                out.extend_from_slice(b"; ");
                out.extend_from_slice(name);
                out.push(b'=');
                new.iter().for_each(|text| out.extend_from_slice(text));
            }
        }
    }
    let flags =
        [("Secure", change.secure), ("HttpOnly", change.http_only), ("Partitioned", change.partitioned)];
    for (name, _) in flags.iter().filter(|(_, flag)| *flag == Some(Flag::Set)) {
        out.extend_from_slice(b"; ");
        out.extend_from_slice(name.as_bytes());
    }
    if let Some(value) = change.same_site.filter(|value| !value.is_empty()) {
        out.extend_from_slice(b"; SameSite=");
        out.extend_from_slice(value.as_bytes());
    }
}

/// Whether two domains are the same: a dot before them does not count (RFC 6265 section 5.2.3).
fn is_domain(one: &[u8], other: &[u8]) -> bool {
    let bare = |domain: &[u8]| domain.strip_prefix(b".").map_or(domain.len(), <[u8]>::len);
    one[one.len() - bare(one)..].eq_ignore_ascii_case(&other[other.len() - bare(other)..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_changed_changes() {
        let none = CookieChange::default();
        let domain = CookieChange { domain: Some((Some(b"a.internal"), b"a.test")), ..none.clone() };
        let any = CookieChange { domain: Some((None, b"")), path: Some((None, b"/x")), ..none.clone() };
        let path = CookieChange { path: Some((Some(b"/two/"), b"/")), ..none.clone() };
        let flags = CookieChange {
            secure: Some(Flag::Set),
            http_only: Some(Flag::Removed),
            partitioned: Some(Flag::Set),
            same_site: Some("Lax"),
            ..none.clone()
        };
        let gone = CookieChange { secure: Some(Flag::Removed), same_site: Some(""), ..none.clone() };
        for (change, value, expected) in [
            (&none, "a=b ;  Path=/;HttpOnly", "a=b ;  Path=/;HttpOnly"),
            (&domain, "a=b; Domain=.A.internal; Path=/", "a=b; Domain=a.test; Path=/"),
            (&domain, "a=b; domain=other.internal", "a=b; domain=other.internal"),
            (&domain, "domain=a.internal", "domain=a.internal"),
            (&domain, "a=b", "a=b"),
            (&any, "a=b; Domain=x; path=/old; Secure", "a=b; path=/x; Secure"),
            (&path, "a=b; Path=/two/three", "a=b; Path=/three"),
            (&path, "a=b; Path=/two", "a=b; Path=/two"),
            (
                &flags,
                "a=b; httponly; SECURE; samesite=None; Path=/",
                "a=b; Path=/; Secure; Partitioned; SameSite=Lax",
            ),
            (&flags, "a=b", "a=b; Secure; Partitioned; SameSite=Lax"),
            (&gone, "a=b; Secure; SameSite=Strict; Max-Age=1", "a=b; Max-Age=1"),
            (&gone, "a=Secure", "a=Secure"),
            (&gone, "", ""),
        ] {
            let mut out = Vec::new();
            write_cookie(value.as_bytes(), change, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn the_name_is_before_the_first_equals_sign() {
        for (value, name) in [("a=b; x=y", "a"), (" a =b", "a"), ("a", "a"), ("=b", ""), ("a;x=y", "a")] {
            assert_eq!(cookie_name(value.as_bytes()), name.as_bytes(), "{value}");
        }
    }
}
