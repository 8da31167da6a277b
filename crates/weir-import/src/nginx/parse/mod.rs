//! From text to statements, with everything that is included.

use std::rc::Rc;

use crate::report::Ledger;
use crate::source::{ImportError, Position, SourceFiles, Statement, TextLimit, Word};

// Files that come with nginx.
mod distribution;
mod tokens;

use tokens::{NginxToken, NginxTokenKind, NginxTokens};

/// How deep files may include files, and blocks stand in blocks.
const DEPTH_MAX: usize = 32;

/// The statements of a file, in which those of the files that it includes stand where they are included.
pub(super) fn parse(
    name: &str,
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Vec<Statement>, ImportError> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let parser = NginxParser { files, ledger, limit: TextLimit::default(), folder: folder.to_owned() };
    let text = parser.limit.read(files, name, None)?;
    parser.parsed(name, &text, 0)
}

struct NginxParser<'p> {
    files: &'p dyn SourceFiles,
    ledger: &'p Ledger,
    limit: TextLimit,
    /// That of the first file, from which relative names count.
    folder: String,
}

/// Statements up to the end of a block or a file.
struct Reading<'t> {
    tokens: NginxTokens<'t>,
    file: Rc<str>,
}

impl NginxParser<'_> {
    fn parsed(&self, name: &str, text: &str, depth: usize) -> Result<Vec<Statement>, ImportError> {
        let mut reading = Reading { tokens: NginxTokens::new(text), file: name.into() };
        self.statements(&mut reading, depth, None)
    }

    /// Statements up to the brace that closes the block that was opened at `opened`.
    fn statements(
        &self,
        reading: &mut Reading<'_>,
        depth: usize,
        opened: Option<&Position>,
    ) -> Result<Vec<Statement>, ImportError> {
        let mut statements = Vec::new();
        let mut comments = Vec::new();
        while let Some(token) = reading.next()? {
            match token.kind {
                NginxTokenKind::Comment { text, own_line } => {
                    if own_line {
                        comments.push(text);
                    }
                }
                NginxTokenKind::BlankLine => comments.clear(),
                NginxTokenKind::Close if opened.is_some() => return Ok(statements),
                NginxTokenKind::Word { .. } => {
                    self.statement(reading, token, std::mem::take(&mut comments), depth, &mut statements)?;
                }
                NginxTokenKind::Close | NginxTokenKind::Open | NginxTokenKind::End => {
                    return Err(reading.error(&token, "a directive is expected here"));
                }
            }
        }
        match opened {
            Some(at) => Err(ImportError::at(at, "this block is not closed")),
            None => Ok(statements),
        }
    }

    fn statement(
        &self,
        reading: &mut Reading<'_>,
        first: NginxToken,
        comments: Vec<String>,
        depth: usize,
        statements: &mut Vec<Statement>,
    ) -> Result<(), ImportError> {
        let at = reading.position(&first);
        let mut words = vec![word(first)];
        loop {
            let Some(token) = reading.next()? else {
                return Err(ImportError::at(&at, "this directive does not end with `;`"));
            };
            match token.kind {
                NginxTokenKind::Word { .. } => words.push(word(token)),
                NginxTokenKind::Comment { .. } | NginxTokenKind::BlankLine => {}
                NginxTokenKind::Close => {
                    return Err(reading.error(&token, "`;` is missing before this brace"));
                }
                NginxTokenKind::End => break,
                NginxTokenKind::Open => {
                    if depth >= DEPTH_MAX {
                        return Err(ImportError::at(&at, "blocks stand too deep in each other"));
                    }
                    let id = self.ledger.reserve(at.clone());
                    if words[0].text.ends_with("_by_lua_block") {
                        if !reading.tokens.skip_script() {
                            return Err(ImportError::at(&at, "this block is not closed"));
                        }
                        statements.push(self.ledger.opened(id, at, words, Some(Vec::new()), comments));
                        return Ok(());
                    }
                    let block = self.statements(reading, depth + 1, Some(&at))?;
                    statements.push(self.ledger.opened(id, at, words, Some(block), comments));
                    return Ok(());
                }
            }
        }
        let statement = self.ledger.open(at, words, None, comments);
        if statement.name() == "include" {
            return self.include(&statement, depth, statements);
        }
        statements.push(statement);
        Ok(())
    }

    /// Where an included file is: relative to the folder of the first file, or, where that is a part of a config, to one around it.
    fn located(&self, pattern: &str) -> String {
        if pattern.starts_with('/') {
            return pattern.to_owned();
        }
        let joined = |folder: &str| match folder {
            "" => pattern.to_owned(),
            folder => format!("{folder}/{pattern}"),
        };
        let is_there = |path: &String| {
            if path.contains(['*', '?', '[']) {
                !self.files.matching(path).is_empty()
            } else {
                self.files.read(path).is_ok()
            }
        };
        let mut around = std::iter::successors(Some(self.folder.as_str()), |folder| {
            folder.rsplit_once('/').map(|(outer, _)| outer).filter(|outer| !outer.is_empty())
        });
        around.by_ref().take(3).map(joined).find(is_there).unwrap_or_else(|| joined(&self.folder))
    }

    fn include(
        &self,
        statement: &Statement,
        depth: usize,
        statements: &mut Vec<Statement>,
    ) -> Result<(), ImportError> {
        let mut words = self.ledger.words(statement);
        let Some(pattern) = words.text() else {
            return Err(ImportError::at(&statement.at, "`include` without a file"));
        };
        if depth >= DEPTH_MAX {
            return Err(ImportError::at(&statement.at, "files include each other too deep"));
        }
        let path = self.located(pattern);
        let names = if path.contains(['*', '?', '[']) { self.files.matching(&path) } else { vec![path] };
        for name in names {
            // The file of the distribution says the same everywhere.
            let is_usual =
                || self.files.read(&name).map_or(true, |text| distribution::has_usual_types(&text));
            if name.ends_with("mime.types") && is_usual() {
                let why = "files of usual extensions have their media types as IANA registers them";
                self.ledger.by_default(statement, why);
                return Ok(());
            }
            if let Some(text) = distribution::text(&name)
                && self.files.read(&name).is_err()
            {
                statements.extend(self.parsed(&name, text, depth + 1)?);
                continue;
            }
            match self.limit.read(self.files, &name, Some(&statement.at)) {
                Ok(text) => statements.extend(self.parsed(&name, &text, depth + 1)?),
                Err(error) if self.files.read(&name).is_err() => {
                    self.ledger
                        .unsupported(statement, &format!("{}; import it with the file", error.message));
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        self.ledger.exact(statement);
        Ok(())
    }
}

impl Reading<'_> {
    fn next(&mut self) -> Result<Option<NginxToken>, ImportError> {
        self.tokens.next_token().map_err(|(line, column, message)| {
            ImportError::at(&Position { file: self.file.clone(), line, column }, message)
        })
    }

    fn position(&self, token: &NginxToken) -> Position {
        Position { file: self.file.clone(), line: token.line, column: token.column }
    }

    fn error(&self, token: &NginxToken, message: &str) -> ImportError {
        ImportError::at(&self.position(token), message)
    }
}

fn word(token: NginxToken) -> Word {
    match token.kind {
        NginxTokenKind::Word { text, quoted } => {
            Word { text, line: token.line, column: token.column, quoted }
        }
        _ => unreachable!("only words are made into words"),
    }
}
