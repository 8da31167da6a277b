//! TOML as statements, the same as YAML has: a key is a statement, values are its words, a table is its block, and so is a list of tables, with a
//! statement `-` for each.

use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::report::Ledger;
use crate::source::{ImportError, Position, Statement, Word};

/// How deep tables may be in each other.
const DEPTH_MAX: usize = 32;

/// Reads values with the places where they stand.
struct TomlReader<'t, 'l> {
    file: Rc<str>,
    text: &'t str,
    /// Where each line begins.
    lines: Vec<usize>,
    ledger: &'l Ledger,
}

/// The keys of the top level.
pub(super) fn statements(name: &str, text: &str, ledger: &Ledger) -> Result<Vec<Statement>, ImportError> {
    let begins = text.match_indices('\n').map(|(at, _)| at + 1);
    let reader =
        TomlReader { file: Rc::from(name), text, lines: std::iter::once(0).chain(begins).collect(), ledger };
    let document = DeTable::parse(text).map_err(|error| {
        let at = reader.position(error.span().map_or(text.len(), |span| span.start));
        ImportError::at(&at, format!("this is not TOML: {}", error.message()))
    })?;
    reader.table(document.get_ref(), 0)
}

impl TomlReader<'_, '_> {
    fn position(&self, offset: usize) -> Position {
        let line = self.lines.partition_point(|begin| *begin <= offset).max(1);
        let column = self.text.get(self.lines[line - 1]..offset).map_or(0, |begin| begin.chars().count());
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Position { file: self.file.clone(), line: number(line), column: number(column + 1) }
    }

    /// The keys of a table, in the order of the file.
    fn table(&self, table: &DeTable<'_>, depth: usize) -> Result<Vec<Statement>, ImportError> {
        let mut keys: Vec<_> = table.iter().collect();
        keys.sort_by_key(|(key, _)| key.span().start);
        let keyed = |(key, value): (&Spanned<_>, &Spanned<DeValue<'_>>)| {
            let name: &std::borrow::Cow<'_, str> = key.get_ref();
            self.keyed(name, key.span().start, value, depth)
        };
        keys.into_iter().map(keyed).collect()
    }

    fn keyed(
        &self,
        name: &str,
        offset: usize,
        value: &Spanned<DeValue<'_>>,
        depth: usize,
    ) -> Result<Statement, ImportError> {
        let at = self.position(offset);
        if depth > DEPTH_MAX {
            return Err(ImportError::at(&at, "keys are too deep in each other"));
        }
        let comments = self.comments(at.line);
        let id = self.ledger.reserve(at.clone());
        let mut words = vec![Word { text: name.to_owned(), line: at.line, column: at.column, quoted: false }];
        let block = match value.get_ref() {
            DeValue::Table(table) => Some(self.table(table, depth + 1)?),
            DeValue::Array(list) if list.iter().all(|item| scalar(item.get_ref()).is_some()) => {
                words.extend(list.iter().filter_map(|item| self.word(item)));
                None
            }
            DeValue::Array(list) => {
                let item = |item: &Spanned<DeValue<'_>>| self.keyed("-", item.span().start, item, depth + 1);
                Some(list.iter().map(item).collect::<Result<_, _>>()?)
            }
            _ => {
                words.extend(self.word(value));
                None
            }
        };
        Ok(self.ledger.opened(id, at, words, block, comments))
    }

    fn word(&self, value: &Spanned<DeValue<'_>>) -> Option<Word> {
        let at = self.position(value.span().start);
        let quoted = matches!(value.get_ref(), DeValue::String(_));
        Some(Word { text: scalar(value.get_ref())?, line: at.line, column: at.column, quoted })
    }

    /// The comments right above a line.
    fn comments(&self, line: u32) -> Vec<String> {
        let above = self.lines.get(line as usize - 1).map_or("", |begin| &self.text[..*begin]);
        let comments = above.lines().rev().take(20).map_while(|text| text.trim().strip_prefix('#'));
        let mut comments: Vec<String> = comments
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.chars().any(char::is_control))
            .collect();
        comments.reverse();
        comments
    }
}

/// A value as a text; nothing if it is a table or a list.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    Some(match value {
        DeValue::String(text) => text.to_string(),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .map_or_else(|_| number.as_str().to_owned(), |number| number.to_string()),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(value) => value.to_string(),
        DeValue::Datetime(time) => time.to_string(),
        DeValue::Array(_) | DeValue::Table(_) => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(statements: &[Statement], depth: usize, into: &mut String) {
        for statement in statements {
            let place = format!("{}:{}", statement.at.line, statement.at.column);
            into.push_str(&format!("{}{} {place}\n", "  ".repeat(depth), statement.line()));
            shown(statement.children(), depth + 1, into);
        }
    }

    #[test]
    fn keys_are_statements_with_their_places() {
        let text = "[http.routers.b]\nrule = \"Host(`x`)\"\nlist = [\"a\", 0x10, true]\n[[http.servers]]\nurl = \"u\"\n[[http.servers]]\n[http.a]\n";
        let mut result = String::new();
        shown(&statements("a.toml", text, &Ledger::default()).unwrap(), 0, &mut result);
        let expected = "http 1:2\n  routers 1:7\n    b 1:15\n      rule Host(`x`) 2:1\n      list a 16 true 3:1\n  servers 4:8\n    - 4:1\n      url u 5:1\n    - 6:1\n  a 7:7\n";
        assert_eq!(result, expected);
    }

    #[test]
    fn what_is_no_toml_is_an_error() {
        let error = statements("a.toml", "a = 1\nb = [\n", &Ledger::default()).unwrap_err();
        assert!(error.to_string().starts_with("a.toml:"), "{error}");
    }
}
