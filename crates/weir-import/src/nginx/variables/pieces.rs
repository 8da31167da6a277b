//! A text cut at its variables: `$name`, `${name}`, `$1`.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextPiece<'t> {
    Text(&'t str),
    /// Without its dollar.
    Variable(&'t str),
}

pub(super) fn pieces(text: &str) -> Vec<TextPiece<'_>> {
    let mut found = Vec::new();
    let mut begin = 0;
    let mut at = 0;
    while let Some(offset) = text[at..].find('$') {
        let dollar = at + offset;
        let (name, end) = variable(text, dollar + 1);
        if name.is_empty() {
            at = dollar + 1;
            continue;
        }
        if dollar > begin {
            found.push(TextPiece::Text(&text[begin..dollar]));
        }
        found.push(TextPiece::Variable(name));
        (begin, at) = (end, end);
    }
    if begin < text.len() {
        found.push(TextPiece::Text(&text[begin..]));
    }
    found
}

/// The name of the variable that begins there, and where the text goes on behind it.
fn variable(text: &str, begin: usize) -> (&str, usize) {
    let rest = &text[begin..];
    if let Some(inner) = rest.strip_prefix('{') {
        return match inner.find('}') {
            Some(end) => (&inner[..end], begin + end + 2),
            None => ("", begin),
        };
    }
    let end = if rest.starts_with(|c: char| c.is_ascii_digit()) {
        1
    } else {
        rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())
    };
    (&rest[..end], begin + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_variables() {
        use TextPiece::{Text, Variable};
        assert_eq!(
            pieces("$a-${b}c$1x"),
            [Variable("a"), Text("-"), Variable("b"), Text("c"), Variable("1"), Text("x")]
        );
        assert_eq!(pieces("a$"), [Text("a$")]);
        assert_eq!(pieces("${a"), [Text("${a")]);
    }
}
