//! Text that looks like a variable of another product, in values that are sent literally.

use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::source_map::SourceSpan;

/// Warns when a value has placeholders of other products: here it stays as it is.
pub(super) fn warn(value: &str, span: SourceSpan, help: &str, diagnostics: &mut Vec<Diagnostic>) {
    if let Some(variable) = find(value) {
        let message = format!("`{variable}` is sent as plain text: Weir has no such variable");
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, span, message).help(help));
    }
}

/// The first variable of nginx (`$remote_addr`), HAProxy (`%[src]`, `%ci`), Envoy (`%DOWNSTREAM_REMOTE_ADDRESS%`), Caddy or Weir's own access
/// log (`{client_address}`) in a text.
fn find(text: &str) -> Option<&str> {
    text.char_indices().find_map(|(start, first)| {
        let rest = &text[start..];
        let inner = &rest[first.len_utf8()..];
        let name = |is_part: fn(char) -> bool| inner.find(|c: char| !is_part(c)).unwrap_or(inner.len());
        match first {
            '$' => {
                let length = name(|c| c.is_ascii_alphanumeric() || c == '_');
                inner.starts_with(|c: char| c.is_ascii_lowercase()).then(|| &rest[..=length])
            }
            '%' if inner.starts_with('[') => rest.find(']').map(|end| &rest[..=end]),
            '%' => {
                let length = name(|c| c.is_ascii_uppercase() || c == '_');
                (length > 2 && inner[length..].starts_with('%')).then(|| &rest[..length + 2])
            }
            '{' => {
                let length = name(|c| c.is_ascii_lowercase() || matches!(c, '_' | '.'));
                let is_closed = length > 1 && inner[length..].starts_with('}');
                is_closed.then(|| &rest[..length + 2])
            }
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_other_products_are_found() {
        for (text, expected) in [
            ("{client_address}", Some("{client_address}")),
            ("for={http.request.remote}", Some("{http.request.remote}")),
            ("$remote_addr", Some("$remote_addr")),
            ("a $host:80", Some("$host")),
            ("%[src]", Some("%[src]")),
            ("%DOWNSTREAM_REMOTE_ADDRESS%", Some("%DOWNSTREAM_REMOTE_ADDRESS%")),
            ("max-age=63072000; includeSubDomains", None),
            ("{\"group\":\"default\",\"max_age\":1}", None),
            ("{}", None),
            ("US$100", None),
            ("100%", None),
            ("a%20b%5Bc]", None),
            ("\u{e9}", None),
        ] {
            assert_eq!(find(text), expected, "{text}");
        }
    }
}
