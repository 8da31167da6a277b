//! The table of annotations in `docs/ingress.md`.

use std::fmt::Write as _;

use super::annotations;

/// The table in Markdown.
pub fn annotations_markdown() -> String {
    let mut text = String::from("| annotation | meaning | | in Weir |\n|---|---|---|---|\n");
    for row in annotations::table() {
        let (name, meaning, handling, weir) = (row.name, row.meaning, row.handling.name(), row.weir);
        writeln!(text, "| `{name}` | {meaning} | {handling} | {weir} |").expect("a String takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- begin of the generated table -->\n";
    const END: &str = "<!-- end of the generated table -->\n";

    #[test]
    fn the_page_has_the_table() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/ingress.md");
        let page = std::fs::read_to_string(file).expect("the page is there");
        let (before, rest) = page.split_once(BEGIN).expect("the page says where the table begins");
        let (present, after) = rest.split_once(END).expect("the page says where it ends");
        let wanted = annotations_markdown();
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(file, format!("{before}{BEGIN}{wanted}{END}{after}"))
                .expect("the page can be written");
        } else {
            assert_eq!(present, wanted, "docs/ingress.md: run `cargo xtask generate`");
        }
    }
}
