//! Migration from other products and from Weir 0.1: terms that the "elsewhere" column does not cover, because their equivalent needs a
//! sentence or Weir does not have the feature, and renamed keys.
//!
//! A test checks that every key named in a sentence exists.

mod advice;
mod renamed;
mod unsupported;
mod values;

use self::advice::ADVICE;
pub(super) use self::renamed::new_name;
use self::unsupported::{UNSUPPORTED, UnsupportedFeature};
use self::values::{NO_VALUES, VALUES};
use super::vocabulary::squashed;

fn is_among(words: &[&str], word: &str) -> bool {
    let word = squashed(word);
    words.iter().any(|known| squashed(known) == word)
}

/// The feature that a term of another product names, if this version does not have it, and the workaround.
pub(super) fn find_unsupported(word: &str) -> Option<(String, Option<&'static str>)> {
    let missing = UNSUPPORTED.iter().find(|missing| is_among(missing.words, word))?;
    let message = format!("`{word}` is not supported: {}", not_yet(missing));
    Some((message, Some(missing.instead).filter(|instead| !instead.is_empty())))
}

fn not_yet(missing: &UnsupportedFeature) -> String {
    let mut feature = missing.feature.to_owned();
    let is_plain = feature.chars().nth(1).is_some_and(char::is_lowercase) && !feature.starts_with("FastCGI");
    if is_plain && let Some(first) = feature.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    format!("this version of Weir does not have {feature}")
}

/// The features that this version does not have: name, terms of other products, and the workaround.
pub(crate) fn unsupported_features()
-> impl Iterator<Item = (&'static str, &'static [&'static str], &'static str)> {
    UNSUPPORTED.iter().map(|missing| (missing.feature, missing.words, missing.instead))
}

/// The equivalent of a term of another product, where that needs a sentence.
pub(super) fn word_help(word: &str) -> Option<&'static str> {
    ADVICE.iter().find(|advice| is_among(advice.words, word)).map(|advice| advice.instead)
}

/// The equivalent of a value that is none of the choice.
pub(super) fn value_help(word: &str, known: &[&str]) -> Option<String> {
    let renamed = VALUES
        .iter()
        .find(|(words, here, _)| known.contains(here) && is_among(words, word))
        .map(|(_, here, with)| format!("that is `{here}` here{with}"));
    let suite = || openssl_suite(word, known).map(|suite| format!("that is `{suite}` here"));
    let missing = || {
        let found =
            NO_VALUES.iter().find(|(words, beside, _)| known.contains(beside) && is_among(words, word));
        found.map(|(_, _, message)| (*message).to_owned())
    };
    renamed.or_else(suite).or_else(missing)
}

/// The suite, of the known ones, that OpenSSL calls by another name:
/// `ECDHE-RSA-AES128-GCM-SHA256` is `TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`.
fn openssl_suite<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let bare = |name: &str| name.replace(['-', '_'], "").replace("WITH", "");
    let suite = word.starts_with("ECDHE-").then(|| format!("TLS{}", bare(word)))?;
    known.iter().copied().find(|name| bare(name).starts_with(&suite))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::reference::{sections, words_of_all_keys};

    #[test]
    fn names_of_openssl_are_known() {
        let known = [
            "1.2",
            "1.3",
            "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
            "TLS_AES_128_GCM_SHA256",
            "secp256r1",
        ];
        for (word, expected) in [
            (
                "ECDHE-RSA-CHACHA20-POLY1305",
                Some("that is `TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256` here"),
            ),
            ("ECDHE-ECDSA-CHACHA20-POLY1305", None),
            ("TLSv1.3", Some("that is `1.3` here")),
            ("P-256", Some("that is `secp256r1` here")),
            ("P-384", None),
            ("", None),
        ] {
            assert_eq!(value_help(word, &known).as_deref(), expected, "{word}");
        }
    }

    #[test]
    fn values_are_renamed_to_words_that_exist() {
        let words = words_of_all_keys();
        let here = VALUES.iter().map(|row| row.1).chain(NO_VALUES.iter().map(|row| row.1));
        for word in here {
            assert!(words.contains(&word), "no key can be `{word}`");
        }
    }

    #[test]
    fn no_word_is_explained_twice() {
        let mut seen = BTreeSet::new();
        let words =
            ADVICE.iter().map(|advice| advice.words).chain(UNSUPPORTED.iter().map(|missing| missing.words));
        for word in words.flatten() {
            assert!(seen.insert(squashed(word)), "`{word}`");
        }
    }

    #[test]
    fn missing_features_are_no_keys() {
        let is_key = |word: &&str| sections().iter().any(|section| section.key(word).is_some());
        let words = UNSUPPORTED.iter().flat_map(|missing| missing.words).copied();
        assert_eq!(words.filter(is_key).collect::<Vec<_>>(), [""; 0]);
    }

    /// The words of a sentence that could be keys.
    fn named(sentence: &str) -> impl Iterator<Item = &str> {
        let code = sentence.split('`').skip(1).step_by(2);
        let words = code.flat_map(|code| code.split(|c: char| !c.is_ascii_lowercase() && c != '_'));
        words.filter(|word| word.contains('_'))
    }

    #[test]
    fn sentences_name_keys_that_exist() {
        let exists = |word: &str| sections().iter().any(|section| section.key(word).is_some());
        let sentences = ADVICE
            .iter()
            .map(|advice| advice.instead)
            .chain(UNSUPPORTED.iter().map(|missing| missing.instead));
        let unknown: Vec<&str> = sentences.flat_map(named).filter(|word| !exists(word)).collect();
        assert!(unknown.is_empty(), "{unknown:?}");
    }
}
