//! Log formats: texts such as `%ci:%cp %[req.hdr(host)]` as texts with Weir's placeholders.

use super::acl::{Surroundings, sample};
use super::output::literal_in_template;

/// What the text is for: in a log, other placeholders are known than in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatUse {
    Header,
    /// Of a listener that has TLS, or another name than its section.
    Log {
        tcp: bool,
        tls: bool,
        renamed: bool,
    },
}

/// A text with placeholders, and what is only nearly the same in it.
pub(super) struct FormatTemplate {
    pub(super) text: String,
    pub(super) notes: Vec<&'static str>,
}

/// What `option httplog` is short for.
const HTTPLOG: &str = "%ci:%cp [%tr] %ft %b/%s %TR/%Tw/%Tc/%Tr/%Ta %ST %B %CC %CS %tsc %ac/%fc/%bc/%sc/%rc %sq/%bq %hr %hs %{+Q}r";
/// What `option tcplog` is short for.
const TCPLOG: &str = "%ci:%cp [%t] %ft %b/%s %Tw/%Tc/%Tt %B %ts %ac/%fc/%bc/%sc/%rc %sq/%bq";

/// Translates a format; the error says what it cannot say.
pub(super) fn template(
    format: &str,
    usage: FormatUse,
    around: &Surroundings<'_>,
) -> Result<FormatTemplate, String> {
    let named = match usage {
        FormatUse::Log { tcp: false, .. } => format == HTTPLOG,
        FormatUse::Log { tcp: true, .. } => format == TCPLOG,
        FormatUse::Header => false,
    };
    if named && is_usual(usage, around) {
        return Ok(FormatTemplate { text: "httplog".to_owned(), notes: Vec::new() });
    }
    let mut made = FormatTemplate { text: String::new(), notes: Vec::new() };
    let mut rest = format;
    let mut quotes_all = false;
    while let Some(at) = rest.find('%') {
        made.text.push_str(&literal_in_template(&rest[..at]));
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix('%') {
            made.text.push('%');
            rest = behind;
            continue;
        }
        let mut quotes = quotes_all;
        if let Some(inner) = rest.strip_prefix('{') {
            let end = inner.find('}').ok_or("a brace is not closed")?;
            for flag in inner[..end].split(',') {
                match flag {
                    "+Q" => quotes = true,
                    "-Q" => quotes = false,
                    "+X" | "+E" | "-X" | "-E" | "-M" => {
                        made.notes.push("numbers are written in decimals, and texts as Weir writes them");
                    }
                    other => return Err(format!("the flag `{other}` of a format")),
                }
            }
            rest = &inner[end + 1..];
        }
        let (value, behind) = value(rest, usage, around, &mut made.notes)?;
        rest = behind;
        if value.is_empty() && rest.starts_with('o') {
            // `%{+Q}o`: for all that follow.
            quotes_all = quotes;
            rest = &rest[1..];
            continue;
        }
        match quotes {
            true => made.text.push_str(&format!("\"{value}\"")),
            false => made.text.push_str(&value),
        }
    }
    made.text.push_str(&literal_in_template(rest));
    if usage != FormatUse::Header {
        made.text = with_single_spaces(&made.text);
    }
    Ok(made)
}

/// Whether Weir's own format of the same name says all that HAProxy's does.
pub(super) fn is_usual(usage: FormatUse, around: &Surroundings<'_>) -> bool {
    let of_listener = matches!(usage, FormatUse::Log { tls: false, renamed: false, .. });
    of_listener && !around.trusts_peers
}

/// The line of `option httplog`, or of `option tcplog`, for a listener of which Weir's own format would say something else.
pub(super) fn usual_line(usage: FormatUse, around: &Surroundings<'_>) -> String {
    let format = if matches!(usage, FormatUse::Log { tcp: true, .. }) { TCPLOG } else { HTTPLOG };
    template(format, usage, around).map_or_else(|_| "httplog".to_owned(), |made| made.text)
}

/// Between fields, there is one space in a log, and none at its beginning.
fn with_single_spaces(text: &str) -> String {
    let mut result = String::with_capacity(text.len());
    for character in text.chars() {
        if character != ' ' || !(result.is_empty() || result.ends_with(' ')) {
            result.push(character);
        }
    }
    result
}

/// The value behind `%`, and what follows it.
fn value<'f>(
    rest: &'f str,
    usage: FormatUse,
    around: &Surroundings<'_>,
    notes: &mut Vec<&'static str>,
) -> Result<(String, &'f str), String> {
    if let Some(inner) = rest.strip_prefix('[') {
        let end = closing(inner).ok_or("a bracket is not closed")?;
        let expression = inner[..end].trim();
        let value = sample(expression, around);
        notes.extend(value.note);
        let reason = || format!("Weir has no placeholder for `{expression}`");
        let text = value.plain_placeholder().ok_or_else(reason)?;
        return Ok((text, &inner[end + 1..]));
    }
    let length = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (name, behind) = rest.split_at(length);
    if name == "o" {
        return Ok((String::new(), rest));
    }
    if let Some(text) = of_place(name, usage, around) {
        return Ok((text, behind));
    }
    let text = match usage {
        FormatUse::Log { tcp, .. } => log_value(name, tcp, notes),
        FormatUse::Header => header_value(name),
    };
    let text = text.ok_or_else(|| format!("Weir has no placeholder for `%{name}`"))?;
    Ok((text.to_owned(), behind))
}

/// What depends on the listener: the peer where clients are named by it, and the name of the section where the listener has another one.
fn of_place(name: &str, usage: FormatUse, around: &Surroundings<'_>) -> Option<String> {
    let (tls, renamed) = match usage {
        FormatUse::Log { tls, renamed, .. } => (tls, renamed),
        FormatUse::Header => (false, true),
    };
    match (name, around.frontend) {
        ("ci", _) if around.trusts_peers => Some("{peer_address}".to_owned()),
        ("cp", _) if around.trusts_peers => Some("{peer_port}".to_owned()),
        ("f" | "ft", Some(section)) => {
            // On TLS, there is a mark behind the name.
            let mark = if tls && name == "ft" { "~" } else { "" };
            let section = if renamed { literal_in_template(section) } else { "{listener}".to_owned() };
            Some(format!("{section}{mark}"))
        }
        _ => None,
    }
}

/// Where the bracket closes: a sample may have some in its arguments.
fn closing(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ']' if depth == 0 => return Some(index),
            _ => {}
        }
    }
    None
}

fn header_value(name: &str) -> Option<&'static str> {
    Some(match name {
        "ci" => "{client_address}",
        "cp" => "{client_port}",
        "fi" => "{local_address}",
        "fp" => "{local_port}",
        "ID" => "{request_id}",
        "HM" => "{method}",
        "HP" => "{path}",
        "HQ" => "{query}",
        "HU" => "{target}",
        "HV" => "{version}",
        "f" | "ft" => "{listener}",
        "b" => "{upstream}",
        "s" => "{server}",
        "ST" => "{status}",
        "rc" => "{retries}",
        _ => return None,
    })
}

fn log_value(name: &str, tcp: bool, notes: &mut Vec<&'static str>) -> Option<&'static str> {
    let mut noted = |note, text| {
        if !notes.contains(&note) {
            notes.push(note);
        }
        text
    };
    Some(match name {
        "ci" => "{client_address}",
        "cp" => "{client_port}",
        "fi" => "{local_address}",
        "fp" => "{local_port}",
        "f" => "{listener}",
        "ft" => "{listener}",
        "b" => "{haproxy.backend}",
        "s" => "{haproxy.server}",
        "TR" => "{timer.TR}",
        "Tw" => "{timer.Tw}",
        "Tc" => "{timer.Tc}",
        "Tr" => "{timer.Tr}",
        "Ta" => "{timer.Ta}",
        "Tt" => "{timer.Tt}",
        "ST" => "{status}",
        "B" => "{bytes_out}",
        "U" => "{bytes_in}",
        "CC" | "CS" => "-",
        "hr" | "hs" | "hrl" | "hsl" => "",
        "ts" | "tsc" if tcp => "{termination.tcp}",
        "ts" | "tsc" => "{termination}",
        "ac" => "{load.process}",
        "fc" => "{load.listener}",
        "bc" => "{load.upstream}",
        "sc" => "{load.server}",
        "rc" => "{retries}",
        "sq" => "0",
        "bq" => "{queue_position}",
        "r" => "{haproxy.request}",
        "HM" => "{method}",
        "HP" => "{path}",
        "HQ" => "{query}",
        "HU" => "{target}",
        "HV" => "{version}",
        "ID" => "{request_id}",
        "bi" | "bp" => {
            noted("there is `-` for the address that the connection to the server comes from", "-")
        }
        "t" | "tr" => noted("times are in UTC", "{time.haproxy}"),
        "T" | "Tl" | "trg" | "trl" => noted("times are in UTC, and without brackets", "{time.clf}"),
        _ => return None,
    })
}
