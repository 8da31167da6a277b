//! "Did you mean": the known name that is nearest to an unknown one.

/// The candidate that `word` is most likely a slip of; `None` when none is near.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// The candidate with the least edits to it: one for a short word, up to a third of a longer one.
fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase().replace('-', "_");
    candidates
        .into_iter()
        .map(|candidate| {
            let plain = candidate.to_lowercase().replace('-', "_");
            let bound = (word.chars().count().max(plain.chars().count()) / 3).max(1);
            (strsim::damerau_levenshtein(&word, &plain), bound, candidate)
        })
        .filter(|(distance, bound, _)| distance <= bound)
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, _, candidate)| candidate)
}

/// `` `a`, `b` or `c` ``.
pub(crate) fn one_of<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        None => String::new(),
        Some((only, [])) => only.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered() {
        let keys = ["upstream", "address", "timeouts", "backlog", "host"];
        let cases = [
            ("upstraem", Some("upstream")),
            ("Upstream", Some("upstream")),
            ("timeout", Some("timeouts")),
            ("adress", Some("address")),
            ("hosts", Some("host")),
            ("x", None),
            ("proxy_pass", None),
            ("", None),
        ];
        for (word, expected) in cases {
            assert_eq!(nearest(word, keys), expected, "{word}");
        }
    }

    #[test]
    fn names_are_listed_as_a_person_would() {
        assert_eq!(one_of([]), "");
        assert_eq!(one_of(["a"]), "`a`");
        assert_eq!(one_of(["a", "b", "c"]), "`a`, `b` or `c`");
    }
}
