//! The page for migration from other products: their terms with Weir's keys, and features that Weir does not have.

use super::markdown::{anchor, cell, push, title};
use super::sections;
use crate::key::unsupported_features;
use crate::text::Document;

const INTRODUCTION: &str = "\
# Names of other products

Generated from the declarations of the keys: change them, then run `cargo xtask generate`.

`weir check` knows all of these terms: in a `weir.toml`, each is reported with the equivalent key.
";

const MISSING: &str = "
## Features that Weir does not have

This version has none of the following. `weir check` reports the terms in the second column; none is ignored.

| feature | terms | alternative |
|---|---|---|
";

/// The page in Markdown.
pub fn equivalents_markdown() -> String {
    let mut page = INTRODUCTION.to_owned();
    let mut terms = Document::vocabulary().terms();
    terms.sort_by_key(|(product, term, ..)| {
        (product.to_lowercase(), term.trim_start_matches('$').to_lowercase())
    });
    let mut of_product = "";
    for (product, term, section, key) in terms {
        if product != of_product {
            push(
                &mut page,
                format_args!("\n## {product}\n\n| {product} | key of Weir | in |\n|---|---|---|\n"),
            );
            of_product = product;
        }
        push(&mut page, format_args!("| `{}` | `{key}` | {} |\n", cell(term), place(section)));
    }
    page.push_str(MISSING);
    for (feature, words, instead) in unsupported_features() {
        let words: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
        push(&mut page, format_args!("| {feature} | {} | {} |\n", words.join(" "), cell(instead)));
    }
    page
}

/// A table of the config with a link to its reference.
fn place(path: &str) -> String {
    let section = sections().iter().find(|section| section.path == path);
    let title = section.map(|section| title(section)).unwrap_or_default();
    format!("[{title}](configuration.md#{})", anchor(&title))
}
