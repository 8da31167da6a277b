//! Which code is compiled for tests only, by its attributes.

/// Whether an item is compiled for tests only.
pub(super) fn is_test_only(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let path = attribute.path();
        if path.segments.last().is_some_and(|segment| segment.ident == "test") {
            return true;
        }
        let syn::Meta::List(list) = &attribute.meta else { return false };
        let condition = list.tokens.to_string();
        path.is_ident("cfg") && (condition == "test" || condition.starts_with("all (test"))
    })
}

/// Lines of the modules inside a file that are compiled for tests only, attributes included.
pub(super) fn lines_of_tests(file: &syn::File) -> usize {
    let lines = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if is_test_only(&module.attrs) => {
            let (brace, _) = module.content.as_ref()?;
            let first =
                module.attrs.first().map_or(module.mod_token.span, |attribute| attribute.pound_token.span);
            Some(brace.span.close().end().line + 1 - first.start().line)
        }
        _ => None,
    });
    lines.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_modules_are_measured_with_their_attributes() {
        let file =
            syn::parse_file("fn a() {}\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\nmod c {\n}\n").unwrap();
        assert_eq!(lines_of_tests(&file), 4);
    }
}
