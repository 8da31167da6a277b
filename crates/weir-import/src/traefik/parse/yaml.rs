//! YAML as statements. A key is a statement: the values of a scalar or of a list of scalars are its words, a mapping is its block, and so is a list
//! of anything else, with a statement `-` for each item. Anchors are followed, within limits.

use std::collections::HashMap;
use std::rc::Rc;

use granit_parser::{Event, Parser, ScalarStyle, Span};

use crate::report::Ledger;
use crate::source::{ImportError, Position, Statement, Word};

/// How deep mappings and lists may be in each other.
const DEPTH_MAX: usize = 32;
/// How many keys and items a file may have, those that aliases repeat included.
const NODES_MAX: usize = 400_000;
/// How many lines of comments above a key are kept.
const COMMENTS_MAX: usize = 20;

/// Events of the parser with their places, and where the reading is.
struct YamlReader<'t, 'l> {
    file: Rc<str>,
    lines: Vec<&'t str>,
    events: Vec<(Event<'t>, Span)>,
    /// The event that each anchor stands at.
    anchors: HashMap<usize, usize>,
    next: usize,
    nodes_left: usize,
    /// The last line whose comments were taken.
    commented: usize,
    ledger: &'l Ledger,
}

/// The keys of the top level.
pub(super) fn statements(name: &str, text: &str, ledger: &Ledger) -> Result<Vec<Statement>, ImportError> {
    let file: Rc<str> = Rc::from(name);
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = YamlReader {
        file,
        lines: text.lines().collect(),
        events: Vec::new(),
        anchors: HashMap::new(),
        next: 0,
        nodes_left: NODES_MAX,
        commented: 0,
        ledger,
    };
    reader.collect(text)?;
    match reader.events.first() {
        None => Ok(Vec::new()),
        Some((Event::MappingStart(..), _)) => {
            let statements = reader.mapping(0)?;
            match reader.events.get(reader.next) {
                None => Ok(statements),
                Some((_, span)) => Err(reader.error(span, "a second document: one file has one")),
            }
        }
        Some((Event::Scalar(text, ScalarStyle::Plain, ..), _)) if is_null(text) => Ok(Vec::new()),
        Some((_, span)) => Err(reader.error(span, "keys are expected here")),
    }
}

impl<'t> YamlReader<'t, '_> {
    fn collect(&mut self, text: &'t str) -> Result<(), ImportError> {
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let at = self.position(error.marker().line(), error.marker().col());
                ImportError::at(&at, error.info())
            })?;
            let anchor = match &event {
                Event::Scalar(_, _, anchor, _)
                | Event::SequenceStart(_, anchor, _)
                | Event::MappingStart(_, anchor, _) => *anchor,
                Event::Alias(_) | Event::SequenceEnd | Event::MappingEnd => 0,
                _ => continue,
            };
            if anchor != 0 {
                self.anchors.insert(anchor, self.events.len());
            }
            if self.events.len() >= 4 * NODES_MAX {
                return Err(self.error(&span, "the file has too many keys"));
            }
            self.events.push((event, span));
        }
        Ok(())
    }

    fn position(&self, line: usize, column: usize) -> Position {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Position { file: self.file.clone(), line: number(line.max(1)), column: number(column + 1) }
    }

    fn error(&self, span: &Span, message: &str) -> ImportError {
        ImportError::at(&self.position(span.start.line(), span.start.col()), message)
    }

    /// The next event; the parser closes all that it opens.
    fn take(&mut self) -> Result<(Event<'t>, Span), ImportError> {
        let taken = self.events.get(self.next).cloned();
        self.next += 1;
        taken
            .ok_or_else(|| ImportError::at(&self.position(self.lines.len(), 0), "the file ends within a key"))
    }

    /// Counts a key or an item.
    fn count(&mut self, span: &Span, depth: usize) -> Result<(), ImportError> {
        if depth > DEPTH_MAX {
            return Err(self.error(span, "keys are too deep in each other"));
        }
        match self.nodes_left.checked_sub(1) {
            Some(left) => self.nodes_left = left,
            None => return Err(self.error(span, "the file has too many keys")),
        }
        Ok(())
    }

    /// The keys of a mapping that begins here.
    fn mapping(&mut self, depth: usize) -> Result<Vec<Statement>, ImportError> {
        self.take()?;
        let mut statements: Vec<Statement> = Vec::new();
        let mut merged: Vec<Statement> = Vec::new();
        loop {
            let (event, span) = self.take()?;
            match event {
                Event::MappingEnd => break,
                Event::Scalar(key, style, ..) => {
                    self.count(&span, depth)?;
                    if key == "<<" && style == ScalarStyle::Plain {
                        self.merge(depth, &mut merged)?;
                        continue;
                    }
                    let statement = self.keyed(&key, style != ScalarStyle::Plain, span, depth)?;
                    if statements.iter().any(|known| known.name() == statement.name()) {
                        return Err(self.error(&span, &format!("`{key}` is there twice")));
                    }
                    statements.push(statement);
                }
                _ => return Err(self.error(&span, "a key is expected here")),
            }
        }
        merged.retain(|new| !statements.iter().any(|known| known.name() == new.name()));
        statements.extend(merged);
        Ok(statements)
    }

    /// `<<: *anchor`, or a list of them: keys that stand here, too.
    fn merge(&mut self, depth: usize, merged: &mut Vec<Statement>) -> Result<(), ImportError> {
        let (event, span) = self.take()?;
        match event {
            Event::Alias(id) => {
                self.count(&span, depth)?;
                let behind = self.next;
                self.next = self.anchor(id, &span)?;
                if !matches!(self.events.get(self.next), Some((Event::MappingStart(..), _))) {
                    return Err(self.error(&span, "what is merged has to be a mapping"));
                }
                let own = self.mapping(depth + 1)?;
                self.next = behind;
                let new =
                    own.into_iter().filter(|new| !merged.iter().any(|known| known.name() == new.name()));
                merged.extend(new.collect::<Vec<_>>());
                Ok(())
            }
            Event::SequenceStart(..) => {
                while !matches!(self.events.get(self.next), None | Some((Event::SequenceEnd, _))) {
                    self.merge(depth + 1, merged)?;
                }
                self.take().map(|_| ())
            }
            _ => Err(self.error(&span, "what is merged has to be an alias")),
        }
    }

    fn anchor(&self, id: usize, span: &Span) -> Result<usize, ImportError> {
        self.anchors.get(&id).copied().ok_or_else(|| self.error(span, "there is no such anchor"))
    }

    /// A key with its value, which is what follows.
    fn keyed(&mut self, key: &str, quoted: bool, span: Span, depth: usize) -> Result<Statement, ImportError> {
        let at = self.position(span.start.line(), span.start.col());
        let comments = self.comments(span.start.line(), span.start.col());
        let id = self.ledger.reserve(at.clone());
        let mut words = vec![Word { text: key.to_owned(), line: at.line, column: at.column, quoted }];
        let block = self.value(&mut words, depth)?;
        Ok(self.ledger.opened(id, at, words, block, comments))
    }

    /// A value: words, or a block.
    fn value(&mut self, words: &mut Vec<Word>, depth: usize) -> Result<Option<Vec<Statement>>, ImportError> {
        let Some((event, span)) = self.events.get(self.next).cloned() else {
            return self.take().map(|_| None);
        };
        self.count(&span, depth)?;
        match event {
            Event::Scalar(text, style, ..) => {
                self.next += 1;
                if style != ScalarStyle::Plain || !is_null(&text) {
                    words.push(self.word(&text, style, &span));
                }
                Ok(None)
            }
            Event::Alias(id) => {
                let behind = self.next + 1;
                self.next = self.anchor(id, &span)?;
                let block = self.value(words, depth + 1)?;
                self.next = behind;
                Ok(block)
            }
            Event::MappingStart(..) => self.mapping(depth + 1).map(Some),
            Event::SequenceStart(..) if self.is_plain_list() => {
                self.next += 1;
                while !matches!(self.events.get(self.next), Some((Event::SequenceEnd, _))) {
                    self.value(words, depth + 1)?;
                }
                self.next += 1;
                Ok(None)
            }
            Event::SequenceStart(..) => self.items(depth + 1).map(Some),
            _ => Err(self.error(&span, "a value is expected here")),
        }
    }

    /// Whether the list that begins here has scalars only.
    fn is_plain_list(&self) -> bool {
        for (event, _) in &self.events[self.next + 1..] {
            match event {
                Event::Scalar(..) => {}
                Event::Alias(id) => {
                    let target = self.anchors.get(id).and_then(|at| self.events.get(*at));
                    if !matches!(target, Some((Event::Scalar(..), _))) {
                        return false;
                    }
                }
                Event::SequenceEnd => return true,
                _ => return false,
            }
        }
        false
    }

    /// The items of a list, each a statement `-`.
    fn items(&mut self, depth: usize) -> Result<Vec<Statement>, ImportError> {
        self.take()?;
        let mut items = Vec::new();
        loop {
            match self.events.get(self.next) {
                Some((Event::SequenceEnd, _)) | None => break,
                Some((_, span)) => {
                    let span = *span;
                    items.push(self.keyed("-", false, span, depth)?);
                }
            }
        }
        self.take()?;
        Ok(items)
    }

    fn word(&self, text: &str, style: ScalarStyle, span: &Span) -> Word {
        let at = self.position(span.start.line(), span.start.col());
        let quoted = style != ScalarStyle::Plain;
        Word { text: text.to_owned(), line: at.line, column: at.column, quoted }
    }

    /// The comments right above a line, for the first key in it.
    fn comments(&mut self, line: usize, column: usize) -> Vec<String> {
        if line <= self.commented {
            return Vec::new();
        }
        self.commented = line;
        let above = &self.lines[..line.saturating_sub(1).min(self.lines.len())];
        let begins = self.lines.get(line - 1).map(|text| text.chars().take(column).collect::<String>());
        if begins.is_none_or(|begin| !begin.trim_start_matches([' ', '-']).is_empty()) {
            return Vec::new();
        }
        let comments = above.iter().rev().take(COMMENTS_MAX).map_while(|text| text.trim().strip_prefix('#'));
        let mut comments: Vec<String> = comments
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.chars().any(char::is_control))
            .collect();
        comments.reverse();
        comments
    }
}

/// A value that is none.
fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        fn shown(statements: &[Statement], depth: usize, into: &mut String) {
            for statement in statements {
                let place = format!("{}:{}", statement.at.line, statement.at.column);
                into.push_str(&format!("{}{} {place}\n", "  ".repeat(depth), statement.line()));
                shown(statement.children(), depth + 1, into);
            }
        }
        let mut result = String::new();
        match statements("a.yml", text, &Ledger::default()) {
            Ok(read) => shown(&read, 0, &mut result),
            Err(error) => result = error.to_string(),
        }
        assert_eq!(result.trim_end(), expected, "{text}");
    }

    #[test]
    fn keys_are_statements_with_their_places() {
        check(
            "http:\n  routers:\n    a: { rule: \"Host(`x`)\", tls: {} }\n",
            "http 1:1\n  routers 2:3\n    a 3:5\n      rule Host(`x`) 3:10\n      tls 3:29",
        );
        check("a:\n  - b\n  - c d\n", "a b c d 1:1");
        check("a:\n  - url: x\n  - y\n", "a 1:1\n  - 2:5\n    url x 2:5\n  - y 3:5");
        check("a: ~\nb:\n", "a 1:1\nb 2:1");
        check("", "");
    }

    #[test]
    fn anchors_are_followed() {
        check(
            "a: &x\n  b: 1\nc:\n  <<: *x\n  d: 2\ne: *x\n",
            "a 1:1\n  b 1 2:3\nc 3:1\n  d 2 5:3\n  b 1 2:3\ne 6:1\n  b 1 2:3",
        );
    }

    #[test]
    fn what_is_no_mapping_is_an_error() {
        check("- a\n", "a.yml:1:1: keys are expected here");
        check("a: 1\na: 2\n", "a.yml:2:1: `a` is there twice");
        check("a: &x\n  b: *x\n", "a.yml:2:3: keys are too deep in each other");
        check("a: 1\n---\nb: 2\n", "a.yml:3:1: a second document: one file has one");
    }
}
