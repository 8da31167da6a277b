//! Texts as parts of a URL.

/// A text as a part of a URL (RFC 3986 section 2.1).
pub(crate) fn path_segment(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b':' => {
                encoded.push(char::from(byte));
            }
            other => encoded.push_str(&format!("%{other:02X}")),
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_so_that_they_stay_one_part_of_a_path() {
        assert_eq!(path_segment("10.0.0.1:80"), "10.0.0.1:80");
        assert_eq!(path_segment("unix:/run/a b"), "unix:%2Frun%2Fa%20b");
        assert_eq!(path_segment("a-B_9~."), "a-B_9~.");
        assert_eq!(path_segment("a/b?c%"), "a%2Fb%3Fc%25");
    }
}
