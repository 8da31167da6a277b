//! The target of a redirect: a URL or a path that leads nowhere else than it says, whatever a client sends.

use crate::key::{TextFormat, text_values};
use crate::value::{Template, TemplatePart, TemplateValue, ValueError};

/// The target of a redirect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RedirectTarget(pub(crate) Template);

text_values! {
    RedirectTarget, parse_target, |value: &RedirectTarget| value.0.to_string(), TextFormat {
        name: "redirect target",
        article: "a URL",
        examples: &["https://{host}{path}{query}", "{scheme}://example.com/", "/new{path}"],
        pattern: r"^((https?|\{scheme\})://.+|(/|\{path\}|\{(map|vars)\.).*)$",
        about: "A URL or a path, with [placeholders](#placeholders); `{{` and `}}` are braces. What is not allowed in a URL is percent-encoded \
                in values.",
    };
}

fn parse_target(text: &str) -> Result<RedirectTarget, ValueError> {
    if let Some((at, wrong)) = text.char_indices().find(|(_, c)| !c.is_ascii_graphic()) {
        let error = ValueError::new(format!("{wrong:?} is not allowed in a URL"));
        return Err(error.help("write it percent-encoded").range(at..at + wrong.len_utf8()));
    }
    let template: Template = text.parse()?;
    check_target(text, template.parts())?;
    Ok(RedirectTarget(template))
}

/// Text of the client at the front of a `Location` could lead to any host. The path of the request cannot: in its normal form it begins with one slash.
fn check_target(text: &str, parts: &[TemplatePart]) -> Result<(), ValueError> {
    let help = "write `https://{host}{path}{query}`, or a path that begins with text";
    let error = |message: String| Err(ValueError::new(message).help(help));
    if let Some((authority, behind)) = behind_scheme(parts) {
        return match authority.is_empty() && !behind.first().is_some_and(is_host) {
            true => error(format!("`{text}` has no host")),
            false if authority.starts_with('/') => error(format!("`{text}` has no host")),
            false if !authority.contains(['/', '?', '#']) => check_authority(behind),
            false => Ok(()),
        };
    }
    match parts {
        [] => error("the target is empty".to_owned()),
        [TemplatePart::Value(TemplateValue::Path), ..] => Ok(()),
        // What they stand for is looked at when the document is whole.
        [TemplatePart::Value(TemplateValue::Map(_) | TemplateValue::Variable(_)), others @ ..] => {
            let is_path = |part: &TemplatePart| {
                matches!(part, TemplatePart::Value(TemplateValue::Path | TemplateValue::Query))
            };
            match others.iter().find(|part| !is_path(part)) {
                None => Ok(()),
                Some(_) => error(
                    "only `{path}` and `{query}` may follow a map or a variable at the front".to_owned(),
                ),
            }
        }
        [TemplatePart::Literal(path), others @ ..]
            if path.starts_with('/') && !path.starts_with("//") && (path.len() > 1 || others.is_empty()) =>
        {
            Ok(())
        }
        [TemplatePart::Literal(_) | TemplatePart::Value(TemplateValue::Scheme), ..] => {
            error(format!("`{text}` is neither a URL nor a path"))
        }
        [TemplatePart::Value(_), ..] => {
            error("a target that begins with text from the client could lead to any host".to_owned())
        }
    }
}

/// What follows `http://`, `https://` or `{scheme}://`: the rest of the text there, and the parts behind it.
fn behind_scheme(parts: &[TemplatePart]) -> Option<(&str, &[TemplatePart])> {
    match parts {
        [TemplatePart::Literal(first), behind @ ..] => {
            let rest = ["http://", "https://"].into_iter().find_map(|scheme| first.strip_prefix(scheme));
            rest.map(|rest| (rest, behind))
        }
        [TemplatePart::Value(TemplateValue::Scheme), TemplatePart::Literal(second), behind @ ..] => {
            second.strip_prefix("://").map(|rest| (rest, behind))
        }
        _ => None,
    }
}

/// A value of the client behind the host may begin with `@` or a dot, and would make it another host.
fn check_authority(parts: &[TemplatePart]) -> Result<(), ValueError> {
    for part in parts {
        match part {
            TemplatePart::Literal(text) if text.contains(['/', '?', '#']) => return Ok(()),
            TemplatePart::Value(TemplateValue::Path) => return Ok(()),
            TemplatePart::Literal(_) | TemplatePart::Value(TemplateValue::Query) => {}
            TemplatePart::Value(TemplateValue::Port) => {}
            part if is_host(part) => {}
            TemplatePart::Value(value) => {
                let message =
                    format!("`{{{}}}` directly behind the host could lead to any host", value.name());
                return Err(ValueError::new(message).help("write `/` before it"));
            }
        }
    }
    Ok(())
}

/// Whether a part is a host, with or without a port, or may be one.
fn is_host(part: &TemplatePart) -> bool {
    let TemplatePart::Value(value) = part else { return false };
    matches!(value, TemplateValue::Host | TemplateValue::Authority) || value.own().is_some()
}

/// Why a map or a variable in a target cannot stand where it does: at the front, what it stands for has to be a target itself; as part of a host, it has
/// to be text of the config.
pub(crate) fn own_target_error(parts: &[TemplatePart]) -> Option<String> {
    if let [TemplatePart::Value(first), ..] = parts
        && let Some(own) = first.own()
    {
        own.map().iter().for_each(|map| map.begin_targets(begins_target));
        let is_target = |template: &Template| match template.literal() {
            // Behind it comes the path of the request: it has to be the whole of a scheme and a host, or of a path.
            Some(text) if parts.len() > 1 => text.is_empty() || begins_target(template),
            Some(_) => true,
            None => begins_target(template),
        };
        let values = own.values().iter().all(is_target);
        let is_safe = values && own.map().is_none_or(|map| map.table().values().iter().all(is_target));
        let error = || {
            format!(
                "`{{{}}}` may begin with text from the client, which could lead to any host",
                first.name()
            )
        };
        return (!is_safe).then(error);
    }
    let (authority, behind) = behind_scheme(parts)?;
    if authority.contains(['/', '?', '#']) {
        return None;
    }
    let is_end = |part: &&TemplatePart| match part {
        TemplatePart::Literal(text) => !text.contains(['/', '?', '#']),
        TemplatePart::Value(value) => *value != TemplateValue::Path,
    };
    behind.iter().take_while(is_end).find_map(|part| {
        let TemplatePart::Value(value) = part else { return None };
        let own = value.own()?;
        let is_text = |template: &Template| template.literal().is_some_and(|text| !text.is_empty());
        let has_only_texts =
            own.map().is_none_or(|map| map.sources().next().is_none() && map.table().values().is_empty());
        let error = || format!("`{{{}}}` as part of the host could lead to any host", value.name());
        (!(has_only_texts && own.values().iter().all(is_text))).then(error)
    })
}

/// Whether what a template comes to leads to no host of the choice of a client.
fn begins_target(template: &Template) -> bool {
    let begins_with_text = matches!(template.parts(), [TemplatePart::Literal(_), ..]);
    begins_with_text
        && check_target("", template.parts()).is_ok()
        && own_target_error(template.parts()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_read_and_printed() {
        for text in [
            "https://{host}{path}{query}",
            "https://example.com/a?b={{c}}",
            "/new{path}",
            "/",
            "http://a{path}",
            "https://www.{host}/{header.x}",
            "https://{authority}{path}{header.x}",
            "https://a.test?{cookie.x}",
            "{scheme}://{host}:8443{path}{query}",
            "{scheme}://{host}:{port}{path}?{args}",
            "{scheme}://new.test{path}",
            "{path}/{query}",
        ] {
            assert_eq!(parse_target(text).unwrap().0.to_string(), text);
        }
    }

    #[test]
    fn targets_that_lead_astray_are_refused() {
        let cases = [
            ("", "the target is empty"),
            ("{header.x}", "a target that begins with text from the client could lead to any host"),
            ("{host}{path}", "a target that begins with text from the client could lead to any host"),
            ("{scheme}{path}", "`{scheme}{path}` is neither a URL nor a path"),
            ("{scheme}://{path}", "`{scheme}://{path}` has no host"),
            ("{scheme}:///{host}", "`{scheme}:///{host}` has no host"),
            ("{scheme}://a{header.x}", "`{header.x}` directly behind the host could lead to any host"),
            ("/{path}", "`/{path}` is neither a URL nor a path"),
            ("//evil", "`//evil` is neither a URL nor a path"),
            ("https://", "`https://` has no host"),
            ("https:///x", "`https:///x` has no host"),
            ("https://{path}", "`https://{path}` has no host"),
            ("https://a.test{header.x}", "`{header.x}` directly behind the host could lead to any host"),
            (
                "https://{host}{query}{cookie.x}/",
                "`{cookie.x}` directly behind the host could lead to any host",
            ),
            ("https://a.{query.x}.test/", "`{query.x}` directly behind the host could lead to any host"),
            ("example.com", "`example.com` is neither a URL nor a path"),
            ("/a b", "' ' is not allowed in a URL"),
            ("/a\r\nb", "'\\r' is not allowed in a URL"),
            ("/{nost}", "there is no placeholder `{nost}`"),
            ("/{host", "`{` is not closed by `}`"),
            ("/a}", "`}` closes nothing"),
        ];
        for (text, message) in cases {
            assert_eq!(parse_target(text).map_err(|error| error.message), Err(message.to_owned()), "{text}");
        }
    }
}
