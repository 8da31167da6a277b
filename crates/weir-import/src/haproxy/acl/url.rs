//! Texts that are compared with a path, a target or a query: Weir has what no URL has percent-encoded there.

use super::{AclCondition, AclSubject, Atom, AtomTest};

/// What is said of it.
const ENCODED: &str = "characters that no URL has, such as `<`, count as such and percent-encoded";

/// A condition with such texts as Weir has them.
pub(super) fn in_words_of_urls(condition: AclCondition) -> AclCondition {
    let all = |list: Vec<AclCondition>| list.into_iter().map(in_words_of_urls).collect();
    match condition {
        AclCondition::All(list) => AclCondition::All(all(list)),
        AclCondition::Any(list) => AclCondition::Any(all(list)),
        AclCondition::Not(inner) => AclCondition::Not(Box::new(in_words_of_urls(*inner))),
        AclCondition::Atom(atom) => of_atom(atom),
        other => other,
    }
}

fn of_atom(mut atom: Atom) -> AclCondition {
    let is_path = atom.subject == AclSubject::Path;
    let is_url = is_path
        || matches!(&atom.subject, AclSubject::Text(name) if matches!(name.as_str(), "target" | "args"));
    if !is_url {
        return AclCondition::Atom(atom);
    }
    let changed = match &mut atom.test {
        AtomTest::Equal(list) | AtomTest::Begins(list) | AtomTest::Ends(list) | AtomTest::Contains(list) => {
            let made: Vec<String> = list.iter().map(|text| encoded(text, is_path)).collect();
            std::mem::replace(list, made.clone()) != made
        }
        AtomTest::Regex(list) if list.iter().any(|regex| names_encoded(regex)) => {
            let advice = "paths and queries have characters that no URL has percent-encoded: write `%3C` for `<`, `%3E` for `>`, `%22` for quotation marks";
            return AclCondition::Unknown(advice.to_owned());
        }
        _ => false,
    };
    if changed {
        atom.note.get_or_insert(ENCODED);
    }
    AclCondition::Atom(atom)
}

/// A text with what no URL has percent-encoded; of a path, what is so already is in upper case.
fn encoded(text: &str, is_path: bool) -> String {
    let mut made = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let is_code = byte == b'%'
            && bytes.get(at + 1..at + 3).is_some_and(|code| code.iter().all(u8::is_ascii_hexdigit));
        if is_path && is_code {
            made.push_str(&text[at..at + 3].to_ascii_uppercase());
            at += 3;
            continue;
        }
        if byte > 0x7e || b"\"<>\\^`{|}".contains(&byte) {
            made.push_str(&format!("%{byte:02X}"));
        } else {
            made.push(char::from(byte));
        }
        at += 1;
    }
    made
}

/// Whether a regular expression has such a character that is none of its signs.
fn names_encoded(regex: &str) -> bool {
    let bare = regex.replace("(?<", "(?").replace("(?P<", "(?");
    // What is left of the name of a group.
    let groups = bare.matches("(?").count();
    bare.contains(['<', '"', '`']) || bare.matches('>').count() > groups || regex.contains("\\{")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_url_has_is_percent_encoded() {
        assert_eq!(encoded("/a<b%3c", true), "/a%3Cb%3C");
        assert_eq!(encoded("a|%3c", false), "a%7C%3c");
        assert!(names_encoded("[<>]x") && names_encoded("\"") && names_encoded("a>"));
        assert!(!names_encoded("^/(?<name>[a-z]+)/$") && !names_encoded("^/[0-9]{2}$"));
    }
}
