//! The words of names, and those among them that say nothing.

/// Words that fit anything and so say nothing.
const EMPTY_WORDS: &[&str] = &[
    "common",
    "context",
    "contexts",
    "core",
    "handler",
    "handlers",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "smart",
    "util",
    "utils",
    "utilities",
];

/// Whether a word (lower case) is one that no file and no type may be called.
pub(super) fn is_empty_word(word: &str) -> bool {
    EMPTY_WORDS.contains(&word)
}

/// The words of a name in camel case, in lower case.
pub(super) fn camel_case_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for letter in name.chars() {
        match words.last_mut() {
            Some(word) if !letter.is_uppercase() => word.push(letter),
            _ => words.push(letter.to_lowercase().collect()),
        }
    }
    words
}
