//! What is wrong with the text of a scenario, in plain words, with the line: as many mistakes at once as can be told from each other.

use serde::de::DeserializeOwned;

/// The most mistakes that are looked for.
const MISTAKES_MAX: usize = 20;

/// Reads `text`, or gives its mistakes, a line each.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Vec<String>> {
    let (mut rest, mut mistakes) = without_unknown::<T>(text);
    loop {
        let error = match toml::from_str::<T>(&rest) {
            Ok(it) if mistakes.is_empty() => return Ok(it),
            Ok(_) => break,
            Err(error) => error,
        };
        let span = error.span().unwrap_or(0..0);
        let is_syntax = rest.parse::<toml::Table>().is_err();
        let is_missing = error.message().starts_with("missing field");
        // What is missing, or no longer TOML, may only be so because the line of another mistake was taken out.
        if !mistakes.is_empty() && (is_syntax || is_missing) {
            break;
        }
        mistakes.push((line_of(&rest, span.start), in_plain_words(error.message())));
        if is_syntax || is_missing || span.is_empty() || mistakes.len() == MISTAKES_MAX {
            break;
        }
        rest = without_lines(&rest, &span);
    }
    mistakes.sort_by_key(|(line, _)| *line);
    Err(mistakes.into_iter().map(|(line, what)| format!("line {line}: {what}")).collect())
}

/// The number of the line at byte `at`.
fn line_of(text: &str, at: usize) -> usize {
    text[..at.min(text.len())].matches('\n').count() + 1
}

/// The text without keys of the file itself that a `T` does not have, and these: the parser would stop at something else before.
fn without_unknown<T: DeserializeOwned>(text: &str) -> (String, Vec<(usize, String)>) {
    let (mut rest, mut mistakes) = (text.to_owned(), Vec::new());
    let Some(known) = toml::from_str::<T>("\"\" = 1").err().map(|error| error.message().to_owned()) else {
        return (rest, mistakes);
    };
    let keys = text.parse::<toml::Table>().unwrap_or_default();
    for key in keys.keys().filter(|key| !known.contains(&format!("`{key}`"))) {
        let starts =
            [format!("{key} "), format!("{key}="), format!("{key}."), format!("[{key}"), format!("[[{key}")];
        let lines = rest.match_indices(|_: char| true).map(|(at, _)| at);
        let is_start = |at: &usize| {
            let is_line = *at == 0 || rest.as_bytes()[*at - 1] == b'\n';
            is_line && starts.iter().any(|start| rest[*at..].starts_with(start))
        };
        if let Some(at) = lines.clone().find(is_start) {
            let known = known.replacen("``", &format!("`{key}`"), 1);
            mistakes.push((line_of(&rest, at), in_plain_words(&known)));
            rest = without_lines(&rest, &(at..at + 1));
        }
    }
    (rest, mistakes)
}

/// The text with empty lines in place of those in which `span` is; of a table's heading, the table as well.
fn without_lines(text: &str, span: &std::ops::Range<usize>) -> String {
    let from = text[..span.start].rfind('\n').map_or(0, |end| end + 1);
    let end = if text[from..].starts_with('[') {
        text[span.end..].find("\n[")
    } else {
        text[span.end..].find('\n')
    };
    let to = end.map_or(text.len(), |end| span.end + end);
    let lines = text[from..to].matches('\n').count();
    format!("{}{}{}", &text[..from], "\n".repeat(lines), &text[to..])
}

/// The parser's words about keys and values, without those of its inside.
fn in_plain_words(message: &str) -> String {
    let message = message.trim();
    let expected =
        |rest: &str| rest.replace("expected one of ", "there are ").replace("expected ", "there is ");
    if let Some((name, rest)) = message.strip_prefix("unknown field ").and_then(|rest| rest.split_once(", "))
    {
        return format!("{name} is no key here; {}", expected(rest));
    }
    if let Some((name, rest)) =
        message.strip_prefix("unknown variant ").and_then(|rest| rest.split_once(", "))
    {
        return format!("{name} is no value here; {}", expected(rest));
    }
    if let Some(name) = message.strip_prefix("missing field ") {
        return format!("{name} is missing here");
    }
    if message.contains("untagged enum RequestRate") {
        return "a rate is a number, or `{ share = 0.5, of-peak = \"nginx\" }`".to_owned();
    }
    let starts = ["invalid type: ", "invalid value: "];
    let wrong = starts.iter().find_map(|start| message.strip_prefix(start)?.split_once(", expected "));
    wrong.map_or(message.to_owned(), |(given, wanted)| {
        format!(
            "{} belongs here, not {}",
            kind_of(wanted),
            given.replace("string ", "the text ").replace("floating point ", "the number ")
        )
    })
}

/// What a value has to be.
fn kind_of(wanted: &str) -> &str {
    match wanted {
        "u8" | "u32" | "u64" | "usize" => "a whole number, not negative,",
        "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a string" => "a text in quotation marks",
        "a sequence" => "a list in brackets",
        _ if wanted.starts_with("struct ") => "a table",
        _ if wanted.contains("duration") || wanted.contains("Duration") => "a time such as \"4s\"",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use crate::scenario::Scenario;

    fn mistakes(text: &str) -> Vec<String> {
        read::<Scenario>(text).unwrap_err()
    }

    #[test]
    fn all_mistakes_are_told_with_their_lines() {
        let found = mistakes(
            "question = \"?\"\ntargtes = [\"weir\"]\ntargets = [\"weir\"]\nclass = \"fast\"\n\
             rounds = { count = 5, warm-up = \"500ms\", window = \"4s\" }\n\n[steady]\nclients = \"many\"\nbody = -1\nspeed = 3\n",
        );
        let starts = [
            "line 2: `targtes` is no key here; there are `name`, `question`",
            "line 4: `fast` is no value here; there is `tuned` or `as-shipped`",
            "line 8: a whole number, not negative, belongs here, not the text \"many\"",
            "line 9: a whole number, not negative, belongs here, not integer `-1`",
            "line 10: `speed` is no key here; there are `clients`",
        ];
        assert_eq!(found.len(), starts.len(), "{found:#?}");
        for (start, it) in starts.into_iter().zip(&found) {
            assert!(it.starts_with(start), "{start}: {found:#?}");
        }
    }

    #[test]
    fn an_unknown_table_goes_with_what_is_in_it() {
        let found = mistakes(
            "question = \"?\"\ntargets = [\"weir\"]\nclass = \"tuned\"\n\
             rounds = { count = 5, warm-up = \"500ms\", window = \"4s\" }\n[stedy]\nclients = 1\n[idle]\nsettle = 5\n",
        );
        assert!(found.len() == 2 && found[0].starts_with("line 5: `stedy` is no key here"), "{found:#?}");
        assert!(found[1].starts_with("line 8: "), "{found:#?}");
    }

    #[test]
    fn what_follows_from_a_mistake_is_none() {
        // Without its line, `rounds` would be missing.
        let found = mistakes(
            "question = \"?\"\ntargets = [\"weir\"]\nclass = \"tuned\"\nrounds = { cuont = 5 }\n[steady]\nclients = 1\n",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("line 4: `cuont` is no key here; there are `count`"), "{found:?}");
    }

    #[test]
    fn what_is_missing_or_no_toml_is_told() {
        let found = mistakes("question = \"?\"\n");
        assert!(found.len() == 1 && found[0].contains("`targets` is missing here"), "{found:?}");
        let found = mistakes("question = \"?\"\ntargets = [\n");
        assert!(found.len() == 1 && found[0].starts_with("line "), "{found:?}");
    }
}
