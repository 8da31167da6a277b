//! Regular expressions of PCRE, as far as they are ones of Weir.

/// Why a regular expression of PCRE cannot be one of Weir.
pub(in crate::haproxy) fn regex_trouble(regex: &str) -> Option<&'static str> {
    let around = ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?|", "(?R", "(?#", "(?(", "(?&"];
    if around.iter().any(|part| regex.contains(part)) {
        return Some("Weir's regular expressions have no look-around: they take linear time");
    }
    let bytes = regex.as_bytes();
    let mut index = 0;
    while index < bytes.len() {
        if bytes[index] == b'\\' {
            let next = bytes.get(index + 1).copied().unwrap_or(b'\\');
            if next.is_ascii_digit() && next != b'0' {
                return Some(
                    "Weir's regular expressions have no references to groups: they take linear time",
                );
            }
            if b"ZhHKRGXCQEeNcgk0".contains(&next) || index + 1 == bytes.len() {
                return Some("this is an escape that Weir's regular expressions do not have");
            }
            index += 2;
            continue;
        }
        if matches!(bytes[index], b'+' | b'*' | b'?' | b'}') && bytes.get(index + 1) == Some(&b'+') {
            return Some("Weir's regular expressions have no possessive repetition");
        }
        index += 1;
    }
    (!balanced(regex)).then_some("parentheses of this regular expression do not match")
}

fn balanced(regex: &str) -> bool {
    let (mut depth, mut in_class, mut escaped) = (0_i64, false, false);
    for character in regex.chars() {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' if !in_class => in_class = true,
            ']' => in_class = false,
            '(' if !in_class => depth += 1,
            ')' if !in_class => depth -= 1,
            // A brace that is none of a repetition.
            '{' if !in_class && !repeats(regex) => return false,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0 && !in_class && !escaped
}

/// Whether each brace opens a repetition such as `{2,3}`.
fn repeats(regex: &str) -> bool {
    regex.match_indices('{').all(|(index, _)| {
        let inside = regex[index + 1..].split('}').next().unwrap_or_default();
        !inside.is_empty() && inside.len() < 8 && inside.chars().all(|c| c.is_ascii_digit() || c == ',')
    })
}
