//! `rewrite`, and targets inside of a listener, in the text.

use super::matching::RegexPattern;
use crate::config::{FilesFallback, RewriteFlag, RouteTarget, is_url};
use crate::key::{Spanned, TextFormat, section, text_values};
use crate::value::{Template, TemplatePart, ValueError, is_name};

section! {
    /// A rewrite of path and query, in a list whose rules are tried one after the other. What it makes of the request is what all later stages see:
    /// `{path}`, the key of a cache, the server. Access lists, authentication and limits are those of the route that finally takes the
    /// request, and only those. After ten re-routings a request is answered 500.
    #[derive(Debug, Clone)]
    pub(crate) struct RewriteText at "rewrite" {
        /// What the path has to match, anywhere.
        pattern: RegexPattern = required, like "nginx `rewrite`, HAProxy `http-request replace-path`, Apache httpd `RewriteRule`";
        /// What path and query become. `$1` and `$name` are groups of the pattern; there are [placeholders](#placeholders), too. As `${...}` is an
        /// environment variable, a group in braces is written `$${1}`. The query of the request is kept, behind one that the replacement
        /// has; a `?` at the end drops it.
        replacement: Spanned<RewriteReplacement> = required;
        /// What follows when the pattern has matched.
        flag: RewriteFlag = "continue", like "nginx `rewrite ... last`, `break`, `redirect`, `permanent`";
    }
}

/// What a rewrite makes of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RewriteReplacement(pub(crate) Template);

text_values! {
    RewriteReplacement, parse_replacement, |value: &RewriteReplacement| value.0.to_string(), TextFormat {
        name: "replacement",
        article: "a path or a URL",
        examples: &["/new/$1", "/index.php?page=$1&{args}", "https://{host}/$1"],
        pattern: r"^(/|\$|\{path\}|https?://|\{scheme\}://).*$",
        about: "A path, or for redirects also a URL, with groups of the pattern (`$1`, `$name`; `$$` is a dollar) and [placeholders](#placeholders). What \
                is not allowed in a URL is percent-encoded.",
    };
    FilesFallback, parse_fallback, print_fallback, TextFormat {
        name: "fallback",
        article: "a status, a path or the name of a route",
        examples: &["=404", "/index.php{query}", "{path}.html", "app"],
        pattern: r"^(=[2-5][0-9]{2}|/.*|\{path\}.*|\{match\..*|[A-Za-z0-9._-]{1,64})$",
        about: "`=` and a status; a path with [placeholders](#placeholders), for which the route is looked for, with or without a query; or the `name` of \
                a route of the listener, which gets the request with the path that it has. A path begins with `/`, with `{path}`, or with a group of \
                `path_regex` (`{match.1}`), in front of which a slash is put where it has none.",
    };
    RouteTarget, parse_target, print_target, TextFormat {
        name: "route target",
        article: "a path or the name of a route",
        examples: &["/index.php{query}", "app"],
        pattern: r"^(/.*|[A-Za-z0-9._-]{1,64})$",
        about: "A path with [placeholders](#placeholders), for which the route is looked for, with or without a query; or the `name` of a route of the \
                listener, which gets the request with the path that it has.",
    };
}

fn parse_replacement(text: &str) -> Result<RewriteReplacement, ValueError> {
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| c.is_control() || *c == '#') {
        return Err(
            ValueError::new(format!("{wrong:?} is not allowed in a URL")).range(at..at + wrong.len_utf8())
        );
    }
    let begins = ["/", "$", "{path}", "http://", "https://", "{scheme}://"];
    if !begins.iter().any(|start| text.starts_with(start)) {
        let error = ValueError::new(format!("`{text}` is neither a path nor a URL"));
        return Err(error.help("a path begins with `/`"));
    }
    let template: Template = with_groups_escaped(text).parse()?;
    if is_url(&template) && has_open_host(&template) {
        let error = ValueError::new("text from the client in the host could lead to any host");
        return Err(error.help("name the host, or write `{host}`, and `/` behind it"));
    }
    Ok(RewriteReplacement(template))
}

/// The text with groups in braces (`${1}`) as text of a template, in which braces are placeholders.
fn with_groups_escaped(text: &str) -> String {
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("${") {
        let (before, behind) = rest.split_at(at);
        out.push_str(before);
        match behind[2..].split_once('}') {
            // Two dollars are a dollar, and braces that are doubled already are text.
            Some((name, behind)) if !before.ends_with('$') && !name.starts_with('{') => {
                out.push_str(&format!("${{{{{name}}}}}"));
                rest = behind;
            }
            _ => {
                out.push_str("${");
                rest = &behind[2..];
            }
        }
    }
    out + rest
}

/// Whether the host has anything but text of the config and the host of the request.
fn has_open_host(template: &Template) -> bool {
    let text = template.to_string();
    let Some((_, behind)) = text.split_once("://") else { return false };
    // The one begins with a slash, the others with a question mark or with nothing.
    let behind = behind.replace("{path}", "/").replace("{query}", "?");
    let authority = behind.split(['/', '?']).next().unwrap_or_default();
    let known = authority.replace("{host}", "h").replace("{authority}", "h").replace("{port}", "1");
    known.is_empty() || known.contains(['$', '{', '}', '@', '\\'])
}

fn check_characters(text: &str) -> Result<(), ValueError> {
    match text.char_indices().find(|(_, c)| c.is_control() || *c == '#') {
        None => Ok(()),
        Some((at, wrong)) => {
            let error = ValueError::new(format!("{wrong:?} is not allowed in a path"));
            Err(error.range(at..at + wrong.len_utf8()))
        }
    }
}

fn parse_target(text: &str) -> Result<RouteTarget, ValueError> {
    if is_name(text) {
        return Ok(RouteTarget::Route(text.into()));
    }
    check_characters(text)?;
    let named = text.strip_prefix('@').filter(|name| is_name(name));
    let begins_with_slash = text.starts_with('/') && !text.starts_with("//");
    if named.is_some() || !begins_with_slash {
        let error = ValueError::new(format!("`{text}` is neither a path nor the name of a route"));
        return Err(match named {
            Some(name) => error.help(format!("write `{name}`: names have no `@`")),
            None => error.help("a path begins with one `/`; a name is that of `name` of a route"),
        });
    }
    let template: Template = text.parse()?;
    debug_assert!(matches!(template.parts().first(), Some(TemplatePart::Literal(_))));
    Ok(RouteTarget::Path(template))
}

fn parse_fallback(text: &str) -> Result<FilesFallback, ValueError> {
    if text.starts_with("{path}") || text.starts_with("{match.") {
        check_characters(text)?;
        return Ok(FilesFallback::Target(RouteTarget::Path(text.parse()?)));
    }
    let Some(status) = text.strip_prefix('=') else { return parse_target(text).map(FilesFallback::Target) };
    match status.parse() {
        Ok(status @ (200..=299 | 400..=599)) if text.len() == 4 => Ok(FilesFallback::Status(status)),
        _ => Err(ValueError::new(format!("`{text}` is not a status"))
            .help("write `=404`, or another status of success or failure")),
    }
}

fn print_fallback(fallback: &FilesFallback) -> String {
    match fallback {
        FilesFallback::Status(status) => format!("={status}"),
        FilesFallback::Target(target) => print_target(target),
    }
}

fn print_target(target: &RouteTarget) -> String {
    match target {
        RouteTarget::Path(path) => path.to_string(),
        RouteTarget::Route(name) => name.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replacements_are_read_and_printed() {
        for text in [
            "/new/$1",
            "$1",
            "{path}/x",
            "https://{host}/$1?",
            "{scheme}://{authority}{path}",
            "http://a.test:81/",
        ] {
            assert_eq!(parse_replacement(text).unwrap().0.to_string(), text);
        }
        for text in [
            "",
            "new",
            "{header.x}",
            "/a#b",
            "/a\nb",
            "https://$1/",
            "https://{header.x}/",
            "https:///",
            "https://a.test$1",
            "https://a@b/",
        ] {
            assert!(parse_replacement(text).is_err(), "{text}");
        }
    }

    #[test]
    fn groups_in_braces_are_no_placeholders() {
        for (text, printed) in [
            ("/a/${1}b", "/a/${{1}}b"),
            ("/a/${{1}}b", "/a/${{1}}b"),
            ("/${name}/{host}/$2", "/${{name}}/{host}/$2"),
        ] {
            assert_eq!(parse_replacement(text).unwrap().0.to_string(), printed);
        }
        assert!(parse_replacement("/a/{1}").is_err());
    }

    #[test]
    fn targets_are_read_and_printed() {
        for text in ["/", "/index.php{query}", "app", "a.b-c_d"] {
            assert_eq!(print_target(&parse_target(text).unwrap()), text);
        }
        for text in ["", "@app", "//a", "/a#b", "a b", "{path}", "=404", "https://a/"] {
            assert!(parse_target(text).is_err(), "{text}");
        }
        for text in ["=404", "=200", "/x{query}", "app", "{path}.html", "{match.1}.{match.2}{query}"] {
            assert_eq!(print_fallback(&parse_fallback(text).unwrap()), text);
        }
        for text in ["=", "=40", "=0404", "=301", "=600", "= 404", "@app", "{path}#", "{host}/a"] {
            assert!(parse_fallback(text).is_err(), "{text}");
        }
    }
}
