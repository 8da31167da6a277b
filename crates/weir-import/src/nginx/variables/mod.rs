//! nginx's variables in Weir's placeholders, or an honest error.

use super::quic;
use super::scope::{NginxVariable, Scope};
use crate::document::DraftTable;
use crate::source::Statement;

// Which placeholder each variable of nginx's modules has.
mod known;
// Variables and text in the order in which they stand.
mod pieces;

use known::{KnownVariable, known};
use pieces::{TextPiece, pieces};

/// A variable that Weir has nothing for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UnknownVariable {
    /// Without its dollar.
    pub(super) name: String,
    /// What to do instead.
    pub(super) advice: String,
}

/// Where a text is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TemplateUse {
    /// In fields, redirects, keys: what is known of the request, and later of the response.
    Exchange,
    /// In fields of responses, where a part of their times is known.
    Response,
    /// In a line of the access log.
    Log,
}

/// A text with Weir's placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NginxTemplate {
    /// The text; braces of the text itself are doubled.
    pub(super) text: String,
    /// What is not the same, and how one would notice.
    pub(super) differences: Vec<String>,
}

/// Text with variables, in Weir's placeholders; braces of the text itself are doubled.
pub(super) fn template(scope: &Scope<'_>, text: &str) -> Result<String, UnknownVariable> {
    expand(scope, text, TemplateUse::Exchange).map(|template| template.text)
}

/// The same, with what differs.
pub(super) fn expand(
    scope: &Scope<'_>,
    text: &str,
    usage: TemplateUse,
) -> Result<NginxTemplate, UnknownVariable> {
    let mut result = NginxTemplate::default();
    let pieces = pieces(text);
    let mut rest = pieces.as_slice();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        match first {
            TextPiece::Text(text) => result.text.push_str(&escaped(text)),
            TextPiece::Variable("is_args") => match behind.first() {
                Some(TextPiece::Variable("args" | "query_string")) => {
                    result.text.push_str("{query}");
                    rest = &behind[1..];
                }
                _ => return Err(unknown("is_args", "write it in front of `$args`")),
            },
            // Right behind a host, a path is needed that surely begins with a slash.
            TextPiece::Variable("request_uri") if ends_with_host(&result.text) => {
                result.text.push_str("{path}{query}");
            }
            TextPiece::Variable(name) => value(scope, name, usage, &mut result)?,
        }
    }
    Ok(result)
}

/// The same for fields, parameters and lines of a log, in which paths stand as nginx has them: decoded.
pub(super) fn shown(
    scope: &Scope<'_>,
    text: &str,
    usage: TemplateUse,
) -> Result<NginxTemplate, UnknownVariable> {
    let mut template = expand(scope, text, usage)?;
    // In front of a query, the path is part of a URL.
    if !template.text.contains("{path}{query}") && !template.text.contains("{path}?") {
        template.text = template.text.replace("{path}", "{path|decode}");
    }
    Ok(template)
}

/// Whether a text is a URL up to its host.
fn ends_with_host(text: &str) -> bool {
    text.split_once("://").is_some_and(|(_, host)| !host.is_empty() && !host.contains('/'))
}

/// What a text without variables of the request comes to, be it by variables with one value.
pub(super) fn constant(scope: &Scope<'_>, text: &str) -> Option<String> {
    literal(&template(scope, text).ok()?)
}

/// The text that a template without placeholders stands for.
pub(super) fn literal(template: &str) -> Option<String> {
    let bare = template.replace("{{", "").replace("}}", "");
    (!bare.contains(['{', '}'])).then(|| template.replace("{{", "{").replace("}}", "}"))
}

/// Values that every request has.
const ALWAYS: [&str; 16] = [
    "{client_address}",
    "{client_port}",
    "{peer_address}",
    "{peer_port}",
    "{local_address}",
    "{local_port}",
    "{host}",
    "{authority}",
    "{scheme}",
    "{method}",
    "{path}",
    "{path|decode}",
    "{target}",
    "{version}",
    "{request_id}",
    "{status}",
];

/// What is said of a field that [`may_vanish`].
pub(super) const VANISHES: &str =
    "without any of its values the field is left out, where nginx sends the text around them";

/// Whether a field with text around its values is left out where all of them are empty, while nginx sends the text.
pub(super) fn may_vanish(template: &str) -> bool {
    let bare = template.replace("{{", "").replace("}}", "");
    let mut has_text = false;
    let mut has_values = false;
    let mut rest = bare.as_str();
    while let Some((text, behind)) = rest.split_once('{') {
        has_text |= !text.trim().is_empty();
        has_values = true;
        rest = behind.split_once('}').map_or("", |(_, after)| after);
    }
    has_text |= !rest.trim().is_empty() || bare.len() != template.len();
    has_text && has_values && !ALWAYS.iter().any(|value| bare.contains(value))
}

/// Text that is no template, as a template.
pub(super) fn escaped(text: &str) -> String {
    text.replace('{', "{{").replace('}', "}}")
}

fn unknown(name: &str, advice: &str) -> UnknownVariable {
    UnknownVariable { name: name.to_owned(), advice: advice.to_owned() }
}

fn value(
    scope: &Scope<'_>,
    name: &str,
    usage: TemplateUse,
    result: &mut NginxTemplate,
) -> Result<(), UnknownVariable> {
    if let Some(text) = constant_map(scope, name) {
        result.text.push_str(&text);
        return Ok(());
    }
    match scope.variable(name) {
        Some(NginxVariable::Text(text)) => {
            result.text.push_str(&text);
            return Ok(());
        }
        Some(NginxVariable::Unknown(advice)) => return Err(unknown(name, &advice)),
        None => {}
    }
    let found = of_place(scope, name).or_else(|| of_protocol(scope, name));
    match found.unwrap_or_else(|| known(name, usage)) {
        KnownVariable::Same(text) => result.text.push_str(&text),
        KnownVariable::Nearly(text, difference) => {
            result.text.push_str(&text);
            let difference = format!("`${name}` {difference}");
            if !result.differences.contains(&difference) {
                result.differences.push(difference);
            }
        }
        KnownVariable::Nothing(advice) => return Err(unknown(name, advice)),
    }
    Ok(())
}

/// The value of a map that has one for all requests, as in `map '' $upstream { default php74; }`.
fn constant_map(scope: &Scope<'_>, name: &str) -> Option<String> {
    let map = scope.map(name).filter(|map| map.name() == "map" && !scope.is_set(name))?;
    let is_flag = |one: &Statement| one.words.len() == 1 && matches!(one.name(), "hostnames" | "volatile");
    let mut value = String::new();
    for entry in map.children().iter().filter(|one| !is_flag(one)) {
        let text = entry.words.get(1).map(|word| word.text.as_str())?;
        if entry.name() != "default" || entry.words[0].quoted || text.contains('$') {
            return None;
        }
        escaped(text).clone_into(&mut value);
    }
    scope.ledger.words(map).rest();
    scope.ledger.exact(map);
    for entry in map.children() {
        scope.ledger.words(entry).rest();
        scope.ledger.exact(entry);
    }
    Some(value)
}

/// Values that are a matter of the protocol with the client: by a map where both are possible.
fn of_protocol(scope: &Scope<'_>, name: &str) -> Option<KnownVariable> {
    let (source, entries): (&str, &[(&str, &str)]) = match (name, scope.has_tls) {
        ("https", Some(true)) => return Some(KnownVariable::Same("on".to_owned())),
        ("https", Some(false)) => return Some(KnownVariable::Same(String::new())),
        ("https", None) => ("{scheme}", &[("https", "on")]),
        ("http3", Some(true) | None) if speaks_http3(scope) => ("{version}", &[("HTTP/3.0", "h3")]),
        ("quic", Some(true) | None) if speaks_http3(scope) => ("{version}", &[("HTTP/3.0", "quic")]),
        ("http2", Some(true)) => ("{version}", &[("HTTP/2.0", "h2")]),
        ("http2", Some(false)) => ("{version}", &[("HTTP/2.0", "h2c")]),
        ("http2", None) => ("{version} {scheme}", &[("HTTP/2.0 https", "h2"), ("HTTP/2.0 http", "h2c")]),
        _ => return None,
    };
    let mut table = DraftTable::default();
    table.set_plain("source", source);
    entries.iter().for_each(|(key, value)| table.table("exact").set_plain(key, *value));
    Some(KnownVariable::Same(format!("{{map.{}}}", scope.make_map(name, table))))
}

/// Whether a server of the file speaks HTTP/3.
fn speaks_http3(scope: &Scope<'_>) -> bool {
    quic::is_spoken(scope.outermost())
}

/// Variables that a place in the config decides.
fn of_place(scope: &Scope<'_>, name: &str) -> Option<KnownVariable> {
    let first = |directive: &str| {
        let text = scope.one(directive)?.words.get(1)?.text.as_str();
        (!text.contains('$')).then(|| escaped(text))
    };
    match name {
        "server_name" => {
            let name = first("server_name").unwrap_or_default();
            let plain = !name.starts_with(['~', '*', '.']);
            Some(if plain {
                KnownVariable::Same(name)
            } else {
                KnownVariable::Nearly(
                    "{host}".to_owned(),
                    "is the host of the request, and not the pattern of the server",
                )
            })
        }
        "document_root" | "realpath_root" => {
            match scope.innermost(&["root", "alias"]).and_then(|one| first(one.name())) {
                Some(root) => Some(KnownVariable::Same(root)),
                None if scope.one("root").is_none() => {
                    Some(KnownVariable::Same("/usr/share/nginx/html".to_owned()))
                }
                None => None,
            }
        }
        _ => None,
    }
}

/// A folder that is named relative to the folder of nginx, which a config does not say.
pub(super) fn below_prefix(
    scope: &Scope<'_>,
    statement: &crate::source::Statement,
    folder: String,
) -> String {
    if folder.starts_with(['/', '{']) {
        return folder;
    }
    let difference = "the folder counts from that of nginx (`nginx -V`: `--prefix`), which is taken for that of distributions, `/usr/share/nginx`";
    scope.ledger.approximated(statement, difference);
    format!("/usr/share/nginx/{folder}")
}
