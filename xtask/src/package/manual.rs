//! Manual pages out of Markdown: the reference of the config as weir.toml(5).
//!
//! A table becomes a list of its rows, whose first cell is the term: what a table with long cells says does not fit a terminal otherwise.

use pulldown_cmark::{CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

/// The page `name(section)` with what `markdown` says.
pub(super) fn page(name: &str, section: u8, about: &str, markdown: &str) -> String {
    let text = format!(
        ".TH {} {section} \"\" Weir \"Weir\"\n.SH NAME\n{} \\- {about}\n.SH DESCRIPTION\n",
        name.to_uppercase(),
        escaped(name)
    );
    let mut page = ManualPage { text, ..ManualPage::default() };
    for event in Parser::new_ext(markdown, Options::ENABLE_TABLES) {
        page.push(event);
    }
    page.text
}

/// The page so far.
#[derive(Default)]
struct ManualPage {
    text: String,
    /// The paragraph, heading or cell that is being read.
    line: String,
    /// The heads of the columns of the table that is being read.
    columns: Vec<String>,
    /// The cells of its row.
    cells: Vec<String>,
    is_title: bool,
    is_code: bool,
}

impl ManualPage {
    fn push(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) if self.is_code => self.text.push_str(&verbatim(&text)),
            Event::Text(text) => self.line.push_str(&escaped(&text)),
            Event::Code(code) => self.line.push_str(&format!("\\fB{}\\fR", escaped(&code))),
            Event::SoftBreak => self.line.push(' '),
            // Written between the words that a key can be set to.
            Event::HardBreak | Event::InlineHtml(_) => self.line.push_str("\n.br\n"),
            _ => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Heading { level, .. } => self.is_title = *level == HeadingLevel::H1,
            Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => {
                self.is_code = true;
                self.text.push_str(".PP\n.RS 4\n.nf\n");
            }
            Tag::Strong => self.line.push_str("\\fB"),
            Tag::Item => self.line.clear(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            // Names the page, as its head does.
            TagEnd::Heading(_) if self.is_title => self.line.clear(),
            TagEnd::Heading(level) => {
                let heading = std::mem::take(&mut self.line).replace("\\fB", "").replace("\\fR", "");
                let request = if level == HeadingLevel::H2 { "SH" } else { "SS" };
                self.text.push_str(&format!(".{request} \"{}\"\n", heading.replace('"', "\\(dq")));
            }
            TagEnd::Paragraph => self.put(".PP"),
            TagEnd::Item => self.put(".IP \\(bu 2"),
            TagEnd::CodeBlock => {
                self.is_code = false;
                self.text.push_str(".fi\n.RE\n");
            }
            TagEnd::Strong => self.line.push_str("\\fR"),
            TagEnd::TableCell => self.cells.push(std::mem::take(&mut self.line)),
            TagEnd::TableHead => {
                self.columns = std::mem::take(&mut self.cells);
            }
            TagEnd::TableRow => self.put_row(),
            _ => {}
        }
    }

    fn put(&mut self, request: &str) {
        let line = std::mem::take(&mut self.line);
        if !line.is_empty() {
            self.text.push_str(&format!("{request}\n{}\n", guarded(&line)));
        }
    }

    /// The first cell as the term, then the column `meaning`, then what the others say with their heads.
    fn put_row(&mut self) {
        let cells = std::mem::take(&mut self.cells);
        let Some(term) = cells.first() else { return };
        self.text.push_str(&format!(".TP\n{}\n", guarded(term)));
        let columns = self.columns.iter().zip(&cells).skip(1).filter(|(_, cell)| !cell.is_empty());
        let (meanings, others): (Vec<_>, Vec<_>) = columns.partition(|(head, _)| *head == "meaning");
        for (_, meaning) in meanings {
            self.text.push_str(&format!("{}\n", guarded(meaning)));
        }
        for (head, cell) in others {
            self.text.push_str(&format!(".br\n\\fI{head}\\fR: {}\n", cell.replace("\n.br\n", " ")));
        }
    }
}

/// Text in which nothing is a request or an escape.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-")
}

/// Lines of code, each guarded.
fn verbatim(text: &str) -> String {
    text.lines().map(|line| format!("\\&{}\n", escaped(line))).collect()
}

/// A line that would begin with a request begins with nothing instead.
fn guarded(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_keys_becomes_a_list() {
        let markdown = "# Configuration\n\nOne file.\n\n### `[dns]`\n\n| key | value | default | meaning | elsewhere |\n|---|---|---|---|---|\n\
                        | `ttl-max` | [duration](#d) | `\"1m\"` | The longest.<br>`\"off\"`: None |  |\n";
        assert_eq!(
            page("weir.toml", 5, "the config", markdown),
            ".TH WEIR.TOML 5 \"\" Weir \"Weir\"\n.SH NAME\nweir.toml \\- the config\n.SH DESCRIPTION\n.PP\nOne file.\n\
             .SS \"[dns]\"\n.TP\n\\fBttl\\-max\\fR\nThe longest.\n.br\n\\fB\"off\"\\fR: None\n\
             .br\n\\fIvalue\\fR: duration\n.br\n\\fIdefault\\fR: \\fB\"1m\"\\fR\n"
        );
    }

    #[test]
    fn code_keeps_its_lines_and_nothing_in_it_is_a_request() {
        let markdown = "```toml\n.a = \"\\\\-\"\n  b\n```\n\n.text\n";
        let page = page("x", 5, "y", markdown);
        assert!(
            page.ends_with(".PP\n.RS 4\n.nf\n\\&.a = \"\\e\\e\\-\"\n\\&  b\n.fi\n.RE\n.PP\n\\&.text\n"),
            "{page}"
        );
    }
}
