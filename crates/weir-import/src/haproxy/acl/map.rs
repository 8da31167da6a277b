//! Texts that stand for others: the `map` converters with their files, and what regular expressions make of a text.

use super::AclSubject;
use super::regex::regex_trouble;
use super::value::{AclSample, HaproxyMapEntries, MapUse, SampleKind, Surroundings};
use crate::haproxy::proxy::name_of;

/// `map(FILE)` and its like.
pub(super) fn looked_up(
    value: &AclSample,
    (name, file, default): (&str, &str, Option<&str>),
    around: &Surroundings<'_>,
) -> AclSample {
    let kind = match name {
        "map" | "map_str" | "map_str_str" => "exact",
        "map_beg" => "prefix",
        "map_end" => "suffix",
        "map_dom" => "host",
        "map_ip" => "network",
        "map_reg" | "map_regm" => "regex",
        _ => return AclSample::unknown(format!("Weir does not have the converter `{name}`")),
    };
    let Some(mut source) = value.placeholder.clone() else {
        return AclSample::unknown("Weir has no placeholder for what is looked up in the map");
    };
    // Keys of maps have hosts in lower case.
    if value.lower && matches!(value.kind, SampleKind::Text(AclSubject::Host)) && source == "{header.host}" {
        source = "{authority}".to_owned();
    }
    let stem = file.rsplit('/').next().unwrap_or(file);
    let stem = name_of(stem.split('.').next().unwrap_or(stem)).replace('.', "-");
    let ignore_case = value.lower && source != "{authority}" && source != "{host}";
    let used = MapUse {
        name: stem,
        source,
        entries: HaproxyMapEntries::File { path: file.to_owned(), kind },
        default: default.map(|text| text.replace('{', "{{").replace('}', "}}")),
        ignore_case,
        written: file.to_owned(),
    };
    let mut sample = value_of(&around.use_map(used));
    if name == "map_dom" {
        sample.note = Some("names in the file are compared as hosts, not as parts between dots");
    }
    sample
}

/// `regsub(PATTERN,REPLACEMENT,FLAGS)`: the text with the first match replaced.
pub(super) fn replaced(
    value: &AclSample,
    (pattern, replacement, flags): (&str, &str, String),
    around: &Surroundings<'_>,
) -> AclSample {
    let Some(source) = value.plain_placeholder() else {
        return AclSample::unknown("Weir has no placeholder for what `regsub` changes");
    };
    if flags.chars().any(|flag| flag != 'i') {
        return AclSample::unknown("of several matches, the first is replaced: a `[map.NAME]` with `regex`");
    }
    match first_match(pattern, replacement, flags.contains('i')) {
        Err(reason) => AclSample::unknown(reason),
        Ok((made, value)) => {
            let used = MapUse {
                written: pattern.to_owned(),
                name: "replaced".to_owned(),
                default: Some(source.clone()),
                source,
                entries: HaproxyMapEntries::Regex { pattern: made, value },
                ignore_case: false,
            };
            value_of(&around.use_map(used))
        }
    }
}

/// `field(N,SIGNS)` and `word(N,SIGNS)`: a part of a text between signs.
pub(super) fn part(
    value: &AclSample,
    (name, number, signs): (&str, &str, &str),
    around: &Surroundings<'_>,
) -> AclSample {
    let number = number.parse::<usize>().ok().filter(|number| (1..=16).contains(number));
    let (Some(source), Some(number)) = (value.plain_placeholder(), number) else {
        return AclSample::unknown(format!("Weir has no placeholder for what `{name}` takes a part of"));
    };
    let class: String = signs.chars().flat_map(|sign| ['\\', sign]).collect();
    if signs.is_empty() || !signs.chars().all(|sign| sign.is_ascii_punctuation()) {
        return AclSample::unknown(format!("`{name}` between signs that are no punctuation"));
    }
    let before = number - 1;
    let pattern = match name {
        "field" => format!("^(?:[^{class}]*[{class}]){{{before}}}([^{class}]*)"),
        _ => format!("^[{class}]*(?:[^{class}]+[{class}]+){{{before}}}([^{class}]+)"),
    };
    let used = MapUse {
        name: "part".to_owned(),
        source,
        entries: HaproxyMapEntries::Regex { pattern, value: "{match.1}".to_owned() },
        default: None,
        ignore_case: false,
        written: format!("{name}({number}"),
    };
    value_of(&around.use_map(used))
}

/// The common name in the subject of the certificate of a client.
pub(super) fn common_name(around: &Surroundings<'_>) -> AclSample {
    let used = MapUse {
        name: "common-name".to_owned(),
        source: "{tls.client.subject}".to_owned(),
        entries: HaproxyMapEntries::Regex {
            pattern: "(?:^|[,+])CN=([^,+\\\\]+)(?:[,+]|$)".to_owned(),
            value: "{match.1}".to_owned(),
        },
        default: None,
        ignore_case: false,
        written: "ssl_c_s_dn(".to_owned(),
    };
    value_of(&around.use_map(used)).noted("of several common names, the one that RFC 4514 writes first counts; one with a comma, a plus or a backslash is none")
}

/// A pattern for the whole of a text, and the text with the first match replaced.
pub(in crate::haproxy) fn first_match(
    pattern: &str,
    replacement: &str,
    ignore_case: bool,
) -> Result<(String, String), &'static str> {
    if let Some(reason) = regex_trouble(pattern) {
        return Err(reason);
    }
    if pattern.contains("(?P<") || pattern.contains("(?<") || pattern.contains('|') && !pattern.contains('(')
    {
        return Err("write it as a `[map.NAME]` with `regex`");
    }
    let groups = pattern.replace("\\\\", "").replace("\\(", "").replace("(?", "").matches('(').count();
    let case = if ignore_case { "(?is)" } else { "(?s)" };
    let value = with_groups(replacement, 1);
    Ok(match pattern.strip_prefix('^') {
        Some(rest) if !pattern.contains('|') => (
            format!("{case}^{rest}(.*)$"),
            format!("{}{{match.{}}}", with_groups(replacement, 0), groups + 1),
        ),
        _ => {
            (format!("{case}^(.*?)(?:{pattern})(.*)$"), format!("{{match.1}}{value}{{match.{}}}", groups + 2))
        }
    })
}

/// `\1` as `{match.1}`, counted from so many groups on.
fn with_groups(replacement: &str, before: usize) -> String {
    let mut text = String::new();
    let mut rest = replacement.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek().and_then(|next| next.to_digit(10))) {
            ('\\', Some(digit)) => {
                rest.next();
                text.push_str(&format!("{{match.{}}}", digit as usize + before));
            }
            ('\\', None) => text.extend(rest.next()),
            ('{' | '}', _) => text.extend([character, character]),
            _ => text.push(character),
        }
    }
    text
}

/// The value of a map.
fn value_of(name: &str) -> AclSample {
    AclSample::text(&map_subject(name), &format!("map.{name}"))
}

/// A map in a condition.
pub(super) fn map_subject(name: &str) -> String {
    match name.contains(['-', '.']) {
        true => format!("map[\"{name}\"]"),
        false => format!("map.{name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::first_match;

    #[test]
    fn the_first_match_is_replaced() {
        for (pattern, replacement, expected) in [
            ("^www\\.", "", ("(?s)^www\\.(.*)$", "{match.1}")),
            ("^/a/(x)", "/\\1", ("(?s)^/a/(x)(.*)$", "/{match.1}{match.2}")),
            ("b+", "c", ("(?s)^(.*?)(?:b+)(.*)$", "{match.1}c{match.2}")),
        ] {
            let expected = Ok((expected.0.to_owned(), expected.1.to_owned()));
            assert_eq!(first_match(pattern, replacement, false), expected, "{pattern}");
        }
    }
}
