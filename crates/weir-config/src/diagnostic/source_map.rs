//! The source texts, and positions in them: file, bytes, line and column.
//!
//! The lowest module: everything else refers to the text by its spans.

use std::ops::Range;

/// Position of a file in [`SourceMap`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct FileIndex(pub(crate) u32);

/// A range of bytes of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SourceSpan {
    pub(crate) file: FileIndex,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl SourceSpan {
    pub(crate) fn new(file: FileIndex, range: Range<usize>) -> Self {
        Self { file, start: range.start, end: range.end.max(range.start) }
    }

    /// A span of this file's first byte: for diagnostics about the file as a whole.
    pub(crate) fn of_file(file: FileIndex) -> Self {
        Self { file, start: 0, end: 0 }
    }

    pub(crate) fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

/// A line and a column, both from 1; the column counts characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LineColumn {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

/// One text: a file, standard input or the arguments of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceFile {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The byte at which each line begins.
    line_starts: Vec<usize>,
}

impl SourceFile {
    fn new(name: String, text: String) -> Self {
        let newlines = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let line_starts = std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).collect();
        Self { name, text, line_starts }
    }

    /// The line, from 0, that this byte belongs to.
    fn line_of(&self, byte: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= byte).saturating_sub(1)
    }

    /// The bytes of the lines from the one before that of `first` to that of `last`, and the number of the first of them, from 1.
    pub(crate) fn lines_around(&self, first: usize, last: usize) -> (Range<usize>, usize) {
        // One more in front: the last line of a text may be empty.
        let (from, to) = (self.line_of(first).saturating_sub(1), self.line_of(last));
        let end = self.line_starts.get(to + 1).copied().unwrap_or(self.text.len());
        (self.line_starts[from]..end, from + 1)
    }

    /// What begins at this line and column, both from 1, and ends with the line.
    pub(crate) fn statement_at(&self, file: FileIndex, line: usize, column: usize) -> SourceSpan {
        let line = line.clamp(1, self.line_starts.len()) - 1;
        let start = self.line_starts[line];
        let end = self.line_starts.get(line + 1).copied().unwrap_or(self.text.len());
        let text = self.text[start..end].trim_end();
        let at = text.char_indices().nth(column.saturating_sub(1)).map_or(text.len(), |(at, _)| at);
        SourceSpan::new(file, start + at..start + text.len())
    }
}

/// Every text that a configuration was read from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceMap {
    files: Vec<SourceFile>,
    /// Where the first text comes from, if it was made of others.
    originals: Option<Originals>,
}

/// What the first text was made of.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Originals {
    /// The first of the files that it was made of.
    first: FileIndex,
    /// For each of its lines the place there.
    lines: Vec<Option<SourceSpan>>,
}

impl SourceMap {
    pub(crate) fn add(&mut self, name: impl Into<String>, text: impl Into<String>) -> FileIndex {
        self.files.push(SourceFile::new(name.into(), text.into()));
        FileIndex((self.files.len() - 1) as u32)
    }

    pub(crate) fn file(&self, index: FileIndex) -> &SourceFile {
        &self.files[index.0 as usize]
    }

    /// The files that were read: a text that was made of others is none.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SourceFile> {
        self.files.iter().skip(usize::from(self.originals.is_some()))
    }

    /// Places of the first text are shown as those of the files that it was made of: `lines` has them, and `first` is the first of the files.
    pub(crate) fn show_as(&mut self, first: FileIndex, lines: Vec<Option<SourceSpan>>) {
        self.originals = Some(Originals { first, lines });
    }

    /// Whether the first text was made of others.
    pub(crate) fn is_translated(&self) -> bool {
        self.originals.is_some()
    }

    /// Whether this is one of the files that the first text was made of, which are in another format.
    pub(crate) fn is_original(&self, file: FileIndex) -> bool {
        self.originals.as_ref().is_some_and(|originals| file >= originals.first)
    }

    /// Where a span of a text that was made of others comes from: the place of its line, else that of the last one before it that has any.
    pub(crate) fn original(&self, span: SourceSpan) -> Option<SourceSpan> {
        let originals = self.originals.as_ref().filter(|_| span.file == FileIndex(0))?;
        let whole = SourceSpan::of_file(originals.first);
        if span.end == 0 {
            return Some(whole);
        }
        let until = self.line(span).min(originals.lines.len());
        Some(originals.lines[..until].iter().rev().find_map(|place| *place).unwrap_or(whole))
    }

    pub(crate) fn len(&self) -> usize {
        self.files.len()
    }

    /// The line and column at which a span begins.
    pub(crate) fn position(&self, span: SourceSpan) -> LineColumn {
        let source = self.file(span.file);
        let start = floor_char_boundary(&source.text, span.start);
        let line = source.line_of(start);
        let line_start = source.line_starts[line];
        LineColumn { line: line + 1, column: source.text[line_start..start].chars().count() + 1 }
    }

    /// The line in which a span begins: [`SourceMap::position`] without the column, which takes as long as the line.
    pub(crate) fn line(&self, span: SourceSpan) -> usize {
        self.file(span.file).line_of(span.start) + 1
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
        let mut sources = SourceMap::default();
        let file = sources.add("weir.toml", "a = 1\nß = \"é\" x\r\nlast");
        let cases =
            [(0, 1, 1), (4, 1, 5), (6, 2, 1), (8, 2, 2), (16, 2, 9), (19, 3, 1), (23, 3, 5), (999, 3, 5)];
        for (start, line, column) in cases {
            let span = SourceSpan::new(file, start..start);
            assert_eq!(sources.position(span), LineColumn { line, column }, "byte {start}");
        }
    }

    #[test]
    fn a_position_inside_a_character_is_the_one_of_the_character() {
        let mut sources = SourceMap::default();
        let file = sources.add("weir.toml", "é");
        assert_eq!(sources.position(SourceSpan::new(file, 1..2)), LineColumn { line: 1, column: 1 });
    }
}
