//! Annotations about paths, hosts and redirects.

use super::values::{Parsed, boolean, items, number, url_template};
use super::{IngressAnnotation, IngressDraft};
use crate::names::hosts::canonical;
use crate::refusal::excerpt;

pub(super) const ROWS: &[IngressAnnotation] = &[
    IngressAnnotation::translated(
        "rewrite-target",
        "the path that servers get, with `$1` to `$9` for groups of the path of the rule",
        "`rewrite` of a route with `path_regex`; all paths of the host become regular expressions, as with `use-regex`",
        |draft, value| {
            draft.paths.rewrite_target = Some(target(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "use-regex",
        "paths are regular expressions",
        "`path_regex = \"(?i)^PATH\"` for all paths of the host: the case does not matter, only the beginning has to match, \
         and the longest expression goes first",
        |draft, value| {
            draft.paths.use_regex = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "app-root",
        "where `/` is redirected to",
        "a route of the exact path `/` with `redirect`, status 302",
        |draft, value| {
            if !value.starts_with('/') {
                return Err(format!("`{}` is not a path", excerpt(value)));
            }
            draft.paths.app_root = Some(url_template(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "permanent-redirect",
        "where all requests are sent",
        "`redirect`; `$request_uri`, `$host` and `$scheme` are `{path}{query}`, `{host}` and `{scheme}`",
        |draft, value| {
            draft.paths.permanent = Some(url_template(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "permanent-redirect-code",
        "its status, 301",
        "`redirect.status`",
        |draft, value| {
            draft.paths.permanent_code = redirect_code(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "temporal-redirect",
        "where all requests are sent for the time being",
        "`redirect`, as with `permanent-redirect`, which it precedes",
        |draft, value| {
            draft.paths.temporal = Some(url_template(value)?);
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "temporal-redirect-code",
        "its status, 302",
        "`redirect.status`",
        |draft, value| {
            draft.paths.temporal_code = redirect_code(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "ssl-redirect",
        "whether hosts of `tls` are redirected to https",
        "a route of the listener for port 80 with `redirect`, status 308; paths below `/.well-known/acme-challenge` are served",
        |draft, value| {
            draft.paths.tls_redirect = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "force-ssl-redirect",
        "the same of all other hosts",
        "as `ssl-redirect`",
        |draft, value| {
            draft.paths.tls_redirect_forced = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::needless(
        "preserve-trailing-slash",
        "whether the redirect to https keeps a slash at the end",
        "redirects keep the path as it is",
    ),
    IngressAnnotation::translated(
        "from-to-www-redirect",
        "the host with or without `www.` is redirected to that of the rule",
        "a route of the other host with `redirect`, status 308, unless an Ingress has that host",
        |draft, value| {
            draft.paths.www_redirect = boolean(value)?;
            Ok(())
        },
    ),
    IngressAnnotation::translated(
        "server-alias",
        "further hosts with the same paths",
        "further `host`s of the routes; a host that an Ingress has a rule for stays with that. Regular expressions and `*` alone \
         are not supported",
        |draft, value| {
            let alias = |name: &str| match canonical(Some(name)) {
                Ok(host) if host.is_empty() => Err("`*` is every host, and not the name of one".to_owned()),
                Ok(host) => Ok(host),
                Err(error) => Err(format!("`{}`: {error}", excerpt(name))),
            };
            draft.paths.aliases = items(value).map(alias).collect::<Parsed<_>>()?;
            Ok(())
        },
    ),
    IngressAnnotation::needless(
        "relative-redirects",
        "whether nginx's own redirects have no host",
        "Weir adds no redirects of its own for slashes at the end",
    ),
];

/// The target of a rewrite in the form of Weir: `${1}` for `$1`.
fn target(value: &str) -> Parsed<Box<str>> {
    if value.starts_with("http://") || value.starts_with("https://") || value.starts_with("$scheme") {
        return Err("a URL is a redirect: use `permanent-redirect` or `temporal-redirect`".to_owned());
    }
    if value.is_empty() || value.ends_with('?') {
        return Err(format!("`{}` is not a path", excerpt(value)));
    }
    let (mut text, mut rest) = (String::new(), value);
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let (digit, len) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, _)) => (inner, inner.len() + 2),
            None => (behind.get(..1).unwrap_or_default(), 1),
        };
        if !matches!(digit.as_bytes(), [b'1'..=b'9']) {
            return Err(format!("`{}`: only `$1` to `$9` have an equivalent", excerpt(&rest[at..])));
        }
        text.push_str(&format!("${{{digit}}}"));
        rest = &behind[len..];
    }
    text.push_str(rest);
    Ok(text.into())
}

fn redirect_code(value: &str) -> Parsed<u16> {
    let code = number(value)?;
    let code = u16::try_from(code).ok().filter(|code| [301, 302, 303, 307, 308].contains(code));
    code.ok_or_else(|| format!("{value} is not the status of a redirect: 301, 302, 303, 307 or 308"))
}

impl IngressDraft {
    /// Whether it makes regular expressions of all paths of its hosts.
    pub(crate) fn wants_regex(&self) -> bool {
        self.paths.use_regex || self.paths.rewrite_target.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_name_groups_by_one_digit() {
        for (written, read) in [
            ("/", "/"),
            ("/$1", "/${1}"),
            ("/$10", "/${1}0"),
            ("/a/$2?x=${1}", "/a/${2}?x=${1}"),
            ("$1$2", "${1}${2}"),
        ] {
            assert_eq!(target(written).as_deref(), Ok(read), "{written}");
        }
        for wrong in ["", "https://a.example/", "/$request_uri", "/$", "/${a}", "/$0", "/x?"] {
            assert!(target(wrong).is_err(), "{wrong}");
        }
    }
}
