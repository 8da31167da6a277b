//! `redirectScheme` and `redirectRegex`.

use super::{RouterPlace, RouterSettings};
use crate::document::TomlValue;
use crate::source::Statement;
use crate::traefik::rule::escaped;
use crate::traefik::tree::{self, child, is_true, key, literal, template, value};

/// A redirect of some requests, or of all.
#[derive(Clone)]
pub(in crate::traefik) struct RedirectRule<'s> {
    pub(in crate::traefik) when: Option<String>,
    pub(in crate::traefik) to: String,
    /// Whether clients may remember it.
    pub(in crate::traefik) is_permanent: bool,
    /// Whether the condition asks for `vars.url`, the URL of the request.
    pub(in crate::traefik) needs_url: bool,
    pub(in crate::traefik) from: &'s Statement,
}

impl RedirectRule<'_> {
    /// With a status that keeps the method.
    pub(in crate::traefik) fn value(&self) -> TomlValue {
        let to = ("to".to_owned(), TomlValue::from(self.to.as_str()));
        match self.is_permanent {
            true => TomlValue::Inline(vec![to]),
            false => TomlValue::Inline(vec![to, ("status".to_owned(), 307_i64.into())]),
        }
    }
}

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn redirect_scheme(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let (mut scheme, mut port, mut is_permanent) = ("", "", false);
        for part in kind.children() {
            match key(part).as_str() {
                "scheme" => scheme = value(ledger, part),
                "port" => port = value(ledger, part),
                "permanent" => is_permanent = is_true(ledger, part),
                _ => continue,
            }
            ledger.exact(part);
        }
        let is_port = port.is_empty() || port.parse::<u16>().is_ok();
        if !matches!(scheme, "http" | "https") || !is_port {
            return settings.forbid(ledger, kind, "the scheme is `http` or `https`, the port a number");
        }
        ledger.exact(kind);
        self.redirect_to(scheme, port, is_permanent, kind, settings);
    }

    /// Redirects what does not have the scheme.
    pub(super) fn redirect_to(
        &self,
        scheme: &str,
        port: &str,
        is_permanent: bool,
        from: &'s Statement,
        settings: &mut RouterSettings<'s>,
    ) {
        if (scheme == "https") == self.has_tls {
            return;
        }
        let rule = RedirectRule {
            when: self.trusts_peers.then(|| format!("!(header[\"x-forwarded-proto\"] == \"{scheme}\")")),
            to: scheme_target(scheme, port),
            is_permanent,
            needs_url: false,
            from,
        };
        self.redirect(rule, settings);
    }

    fn redirect(&self, rule: RedirectRule<'s>, settings: &mut RouterSettings<'s>) {
        let mut before = settings.clone();
        before.redirects.clear();
        settings.is_taken = rule.when.is_none();
        settings.redirects.push((rule, before));
    }

    pub(super) fn redirect_regex(
        &mut self,
        name: &str,
        kind: &'s Statement,
        settings: &mut RouterSettings<'s>,
    ) {
        let ledger = self.ledger;
        let own = |name: &str| child(kind, name).map(|part| value(ledger, part).trim()).unwrap_or_default();
        let (expression, replacement) = (own("regex"), own("replacement"));
        let is_permanent = child(kind, "permanent").is_some_and(|part| is_true(ledger, part));
        for part in kind.children() {
            if matches!(key(part).as_str(), "regex" | "replacement" | "permanent") {
                ledger.exact(part);
            }
        }
        if let Some(scheme) = scheme_alone(expression, replacement) {
            ledger.exact(kind);
            return self.redirect_to(scheme, "", is_permanent, kind, settings);
        }
        let Some(rewrite) = UrlRule::read(expression, replacement) else {
            let advice = "write it as `redirect` with `{path}`, `{query}` and groups of `path_regex` by `{match.1}`: until then, no one gets in";
            return settings.forbid(ledger, kind, advice);
        };
        match rewrite.is_near {
            true => ledger.approximated(kind, "the group for the host is taken for the host alone"),
            false => ledger.exact(kind),
        }
        let own = tree::name(name);
        let table = self.draft.table(&["map", &own]);
        if table.is_empty() {
            table.originate(kind);
            table.set_plain("source", "{scheme}://{authority}{path}{query}");
            let entry = vec![(literal(&rewrite.expression), rewrite.value.clone().into())];
            table.set_beside("regex", TomlValue::Inline(entry), kind);
        }
        let mut when = format!("has(map[\"{own}\"])");
        if rewrite.may_stay {
            when.push_str(&format!(" && map[\"{own}\"] != vars.url"));
        }
        let rule = RedirectRule {
            when: Some(when),
            to: format!("{}{{map.{own}}}", rewrite.begin),
            is_permanent,
            needs_url: rewrite.may_stay,
            from: kind,
        };
        self.redirect(rule, settings);
    }
}

/// The URL with another scheme.
pub(in crate::traefik) fn scheme_target(scheme: &str, port: &str) -> String {
    let usual = if scheme == "https" { "443" } else { "80" };
    let port = if port.is_empty() || port == usual { String::new() } else { format!(":{port}") };
    format!("{scheme}://{{host}}{port}{{path}}{{query}}")
}

/// The scheme, where an expression replaces nothing else.
fn scheme_alone(expression: &str, replacement: &str) -> Option<&'static str> {
    let rest = expression.strip_prefix('^').unwrap_or(expression);
    let rest = rest.strip_suffix('$').unwrap_or(rest);
    let is_group = |text: &str| matches!(text, "$1" | "${1}");
    match (rest, replacement.split_once("://")) {
        ("http://(.*)" | "http://(.+)", Some(("https", group))) if is_group(group) => Some("https"),
        ("https://(.*)" | "https://(.+)", Some(("http", group))) if is_group(group) => Some("http"),
        _ => None,
    }
}

/// A rewrite of URLs as an entry of a map.
struct UrlRule {
    expression: String,
    /// The value of the entry, behind `begin`.
    value: String,
    /// What stands before it in the target: the host, where that is the one of the request.
    begin: String,
    /// Whether some URLs are their own target, which is no redirect.
    may_stay: bool,
    is_near: bool,
}

impl UrlRule {
    fn read(expression: &str, replacement: &str) -> Option<UrlRule> {
        let inner = expression.strip_prefix('^').unwrap_or(expression);
        if !inner.starts_with("http") && !inner.starts_with("(http") && !inner.starts_with("(?:http") {
            return None;
        }
        let is_whole = ["$", "(.*)", "(.+)", ".*", "(.*)/?"].iter().any(|end| inner.ends_with(end));
        let mut pattern = format!("^{inner}");
        let mut parts = parts_of(replacement)?;
        if !is_whole {
            pattern.push_str("(?P<rest>.*)$");
            parts.push(UrlPart::Group("rest".to_owned()));
        }
        let text = |parts: &[UrlPart]| parts.iter().map(UrlPart::shown).collect::<String>();
        let Some(UrlPart::Text(begin)) = parts.first() else { return None };
        let (scheme, host_begin) = begin.split_once("://")?;
        let scheme = scheme.to_owned();
        if !host_begin.is_empty() {
            let ends = host_begin.contains('/') || parts.len() == 1;
            if !ends {
                return None;
            }
            let host = host_begin.split('/').next().unwrap_or_default().to_owned();
            let may_stay = may_match(inner, &scheme, &host);
            let value = text(&parts);
            return Some(UrlRule {
                expression: pattern,
                value,
                begin: String::new(),
                may_stay,
                is_near: false,
            });
        }
        // The host is a group: it has to be that of the request.
        let Some(UrlPart::Group(group)) = parts.get(1) else { return None };
        let (open, group_end) = host_group(inner, group)?;
        let may_stay = inner.starts_with("https?")
            || inner.starts_with("(http")
            || inner.starts_with("(?:http")
            || inner.starts_with(&format!("{scheme}://"));
        let behind = text(&parts[2..]);
        if !behind.starts_with('/') {
            return None;
        }
        // The group keeps its number.
        let rest = &pattern[1 + group_end..];
        let expression = format!("^{}([^/]+){rest}", &inner[..open]);
        let is_near = inner[open..group_end].contains(".*") || inner[open..group_end].contains(".+");
        let literal_behind = rest.trim_start_matches('/');
        if may_stay
            && behind.trim_start_matches('/').starts_with(first_letters(literal_behind))
            && !first_letters(literal_behind).is_empty()
        {
            return None;
        }
        Some(UrlRule {
            expression,
            value: behind[1..].to_owned(),
            begin: format!("{scheme}://{{authority}}/"),
            may_stay: false,
            is_near,
        })
    }
}

/// A part of a replacement.
enum UrlPart {
    Text(String),
    Group(String),
}

impl UrlPart {
    fn shown(&self) -> String {
        match self {
            UrlPart::Text(text) => template(text),
            UrlPart::Group(name) => format!("{{match.{name}}}"),
        }
    }
}

/// `https://${1}/x` in parts.
fn parts_of(replacement: &str) -> Option<Vec<UrlPart>> {
    let mut parts = Vec::new();
    let mut rest = replacement;
    while let Some(at) = rest.find('$') {
        if at > 0 {
            parts.push(UrlPart::Text(rest[..at].to_owned()));
        }
        let behind = &rest[at + 1..];
        let (name, len) = match behind.strip_prefix('{') {
            Some(inner) => inner.find('}').map(|end| (&inner[..end], end + 2))?,
            None => {
                let end =
                    behind.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(behind.len());
                (&behind[..end], end)
            }
        };
        if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            return None;
        }
        parts.push(UrlPart::Group(name.to_owned()));
        rest = &behind[len..];
    }
    if !rest.is_empty() {
        parts.push(UrlPart::Text(rest.to_owned()));
    }
    Some(parts)
}

/// Where an expression has the group of this number, if it is for the host, right behind the scheme.
fn host_group(expression: &str, number: &str) -> Option<(usize, usize)> {
    let open = expression.find("://")? + 3;
    let groups = ["(.*)", "(.+)", "(.*?)", "(.+?)", "([^/]+)", "([^/]*)"];
    let group = groups.into_iter().find(|group| expression[open..].starts_with(group))?;
    let earlier = &expression[..open];
    let count = earlier.matches('(').count() - earlier.matches("(?").count();
    (number == (count + 1).to_string()).then_some((open, open + group.len()))
}

/// Whether URLs of this scheme and host may match: not where the expression begins with something else.
fn may_match(expression: &str, scheme: &str, host: &str) -> bool {
    let rest = if let Some(rest) = expression.strip_prefix("https?://") {
        rest
    } else if let Some(rest) = expression.strip_prefix(&format!("{scheme}://")) {
        rest
    } else {
        return !(expression.starts_with("http://") || expression.starts_with("https://"));
    };
    let own = escaped(host);
    // As long as both are plain text, they have to be the same.
    for (index, (one, other)) in rest.chars().zip(own.chars()).enumerate() {
        if one == other {
            continue;
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '\\' || c == '/';
        let next = rest.chars().nth(index + 1).unwrap_or(' ');
        return !is_plain(one) || matches!(next, '?' | '*' | '{' | '|');
    }
    true
}

fn first_letters(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(expression: &str, replacement: &str, expected: &str) {
        let shown = UrlRule::read(expression, replacement).map_or_else(
            || "none".to_owned(),
            |read| {
                format!(
                    "{} -> {}{}{}",
                    read.expression,
                    read.begin,
                    read.value,
                    if read.may_stay { " ?" } else { "" }
                )
            },
        );
        assert_eq!(shown, expected, "{expression}");
    }

    #[test]
    fn rewrites_of_urls_are_entries_of_maps() {
        check(
            "^https?://www\\.a\\.test/(.*)",
            "https://a.test/${1}",
            "^https?://www\\.a\\.test/(.*) -> https://a.test/{match.1}",
        );
        check(
            "^https?://(?:www\\.)?a\\.test/(.*)",
            "https://a.test/${1}",
            "^https?://(?:www\\.)?a\\.test/(.*) -> https://a.test/{match.1} ?",
        );
        check(
            "https://(.*)/.well-known/(?:card|cal)dav",
            "https://${1}/remote.php/dav",
            "^https://([^/]+)/.well-known/(?:card|cal)dav(?P<rest>.*)$ -> https://{authority}/remote.php/dav{match.rest}",
        );
        assert_eq!(scheme_alone("^http://(.*)", "https://$1"), Some("https"));
        check("^(.*)$", "https://a.test/$1", "none");
    }
}
