//! Log formats: texts such as `%ci:%cp %[req.hdr(host)]` as texts with Weir's placeholders.

use super::acl::{Surroundings, sample};
use super::output::literal_in_template;

/// What the text is for: in a log, other placeholders are known than in a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FormatUse {
    Header,
    Log { tcp: bool },
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
        FormatUse::Log { tcp: false } => format == HTTPLOG,
        FormatUse::Log { tcp: true } => format == TCPLOG,
        FormatUse::Header => false,
    };
    if named {
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
    Ok(made)
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
    let text = match usage {
        FormatUse::Log { tcp } => log_value(name, tcp, notes),
        FormatUse::Header => header_value(name),
    };
    let text = text.ok_or_else(|| format!("Weir has no placeholder for `%{name}`"))?;
    Ok((text.to_owned(), behind))
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
        // On TLS, HAProxy writes a `~` behind the name: the caller adds it.
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
