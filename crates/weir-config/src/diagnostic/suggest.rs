//! Suggestions: the known name that is nearest to an unknown one.

/// The candidate of which `word` is most likely a typo; `None` when none is near.
pub(crate) fn did_you_mean<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Characters that a word needs at least before the candidate that continues it, or that it continues, is offered.
const PREFIX_LEN_MIN: usize = 4;

/// The candidate with the least edits to it: one for a short word, up to a third of a longer one. Failing that, one that the word is
/// the beginning of, or that begins the word.
pub(crate) fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word = plain(word);
    let edits = |candidate: &&str| strsim::damerau_levenshtein(&word, &plain(candidate));
    let bound = |candidate: &&str| (word.chars().count().max(candidate.chars().count()) / 3).max(1);
    let continues = |candidate: &&str| {
        let candidate = plain(candidate);
        let length = word.len().min(candidate.len());
        length >= PREFIX_LEN_MIN && (candidate.starts_with(&word) || word.starts_with(&candidate))
    };
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let near = candidates.iter().copied().filter(|candidate| edits(candidate) <= bound(candidate));
    near.min_by_key(edits).or_else(|| candidates.iter().copied().find(continues))
}

/// Case does not count, and neither does which of `-` and `_` it is.
fn plain(word: &str) -> String {
    word.to_lowercase().replace('-', "_")
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
            ("hostname", Some("host")),
            ("addr", Some("address")),
            ("ad", None),
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
