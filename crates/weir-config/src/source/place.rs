//! Where a piece of text is: which file, which bytes of it, and which line and column a person would call it.

use std::ops::Range;

/// Position of a file in [`Sources`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileIndex(pub(crate) u32);

/// A range of bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Span {
    pub(crate) file: FileIndex,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Span {
    pub(crate) fn new(file: FileIndex, range: Range<usize>) -> Self {
        Self { file, start: range.start, end: range.end.max(range.start) }
    }

    /// A span of this file's first byte: for mistakes that concern the file as a whole.
    pub(crate) fn of_file(file: FileIndex) -> Self {
        Self { file, start: 0, end: 0 }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A line and a column, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Position {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One text: a file, standard input or the arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) name: String,
    pub(crate) text: String,
}

/// Every text that a configuration was read from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Sources {
    files: Vec<Source>,
}

impl Sources {
    pub(crate) fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileIndex {
        self.files.push(Source { name: name.into(), text: text.into() });
        FileIndex((self.files.len() - 1) as u32)
    }

    pub(crate) fn file(&self, index: FileIndex) -> &Source {
        &self.files[index.0 as usize]
    }

    pub(crate) fn files(&self) -> impl Iterator<Item = &Source> {
        self.files.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The line and column at which a span begins.
    pub(crate) fn position(&self, span: Span) -> Position {
        let text = &self.file(span.file).text;
        let start = floor_char_boundary(text, span.start);
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Position {
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: text[line_start..start].chars().count() + 1,
        }
    }
}

/// The greatest boundary between characters that is not after `index`.
pub(crate) fn floor_char_boundary(text: &str, index: usize) -> usize {
    let mut index = index.min(text.len());
    while !text.is_char_boundary(index) {
        index -= 1;
    }
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_lines_and_characters() {
        let mut sources = Sources::default();
        let file = sources.add("weir.toml", "a = 1\nß = \"é\" x\r\nlast");
        let cases =
            [(0, 1, 1), (4, 1, 5), (6, 2, 1), (8, 2, 2), (16, 2, 9), (19, 3, 1), (23, 3, 5), (999, 3, 5)];
        for (start, line, column) in cases {
            let span = Span::new(file, start..start);
            assert_eq!(sources.position(span), Position { line, column }, "byte {start}");
        }
    }

    #[test]
    fn a_position_inside_a_character_is_the_one_of_the_character() {
        let mut sources = Sources::default();
        let file = sources.add("weir.toml", "é");
        assert_eq!(sources.position(Span::new(file, 1..2)), Position { line: 1, column: 1 });
    }
}
