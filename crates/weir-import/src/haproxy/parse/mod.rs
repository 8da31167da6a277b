//! From text to sections: each a statement whose block has its lines.

use std::collections::HashMap;
use std::rc::Rc;

use crate::report::Ledger;
use crate::source::{ImportError, Position, SourceFiles, Statement, StatementId, TextLimit, Word};

mod conditional;
mod words;

pub(super) use words::{CLOSE, OPEN};

/// The words that begin a section.
const SECTIONS: [&str; 20] = [
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "resolvers",
    "peers",
    "userlist",
    "cache",
    "mailers",
    "program",
    "ring",
    "http-errors",
    "crt-store",
    "fcgi-app",
    "log-forward",
    "log-profile",
    "traces",
    "acme",
    "healthcheck",
];

/// The sections of all files, and lines before the first.
pub(super) fn parse(
    names: &[&str],
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Vec<Statement>, ImportError> {
    let limit = TextLimit::default();
    let mut parser = SectionParser { files, ledger, set: HashMap::new(), open: None, sections: Vec::new() };
    for name in names {
        let text = limit.read(files, name, None)?;
        parser.file(name, &text)?;
    }
    parser.close();
    Ok(parser.sections)
}

/// A section that is being read.
struct OpenSection {
    id: StatementId,
    at: Position,
    words: Vec<Word>,
    comments: Vec<String>,
    lines: Vec<Statement>,
}

struct SectionParser<'p> {
    files: &'p dyn SourceFiles,
    ledger: &'p Ledger,
    /// Variables that `setenv` and its like have set, or taken away.
    set: HashMap<String, Option<String>>,
    open: Option<OpenSection>,
    sections: Vec<Statement>,
}

/// A `.if` that is open: whether its lines count, and whether any branch of it has.
struct Branch {
    counts: bool,
    was_taken: bool,
}

impl SectionParser<'_> {
    fn file(&mut self, name: &str, text: &str) -> Result<(), ImportError> {
        let file: Rc<str> = name.into();
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut branches, mut comments) = (Vec::new(), Vec::new());
        for (index, line) in text.lines().enumerate() {
            let number = u32::try_from(index + 1).unwrap_or(u32::MAX);
            let position = |column| Position { file: file.clone(), line: number, column };
            let read = words::words(line, number, &|name| self.variable(name))
                .map_err(|(column, message)| ImportError::at(&position(column), message))?;
            let Some(first) = read.words.first() else {
                match read.comment {
                    // Lines that only divide say nothing.
                    Some(comment) if comment.chars().any(char::is_alphanumeric) => comments.push(comment),
                    Some(_) => {}
                    None => comments.clear(),
                }
                continue;
            };
            let at = position(first.column);
            let comments = std::mem::take(&mut comments);
            if first.text.starts_with('.') && !first.quoted {
                self.directive(at, read.words, &mut branches)?;
            } else if branches.iter().all(|branch: &Branch| branch.counts) {
                self.line(at, read.words, comments, &read.variables);
            } else {
                let statement = self.ledger.open(at, read.words, None, Vec::new());
                self.ledger.meaningless(&statement, "the `.if` around it does not hold");
            }
        }
        match branches.is_empty() {
            true => Ok(()),
            false => Err(ImportError { at: None, message: format!("{name}: an `.if` without `.endif`") }),
        }
    }

    fn line(&mut self, at: Position, words: Vec<Word>, comments: Vec<String>, variables: &[String]) {
        let first = words[0].text.clone();
        if SECTIONS.contains(&first.as_str()) {
            self.close();
            let id = self.ledger.reserve(at.clone());
            self.open = Some(OpenSection { id, at, words, comments, lines: Vec::new() });
            return;
        }
        let statement = self.ledger.open(at, words, None, comments);
        for name in variables {
            let note = format!("`${name}` has the value that it had at the time of the import");
            self.ledger.approximated(&statement, &note);
        }
        self.environment(&statement);
        match &mut self.open {
            Some(open) => open.lines.push(statement),
            None => self.ledger.unsupported(&statement, "it stands before any section"),
        }
    }

    /// `setenv` and its like act on the lines behind them.
    fn environment(&mut self, statement: &Statement) {
        let texts: Vec<&str> = statement.words.iter().map(|word| word.text.as_str()).collect();
        match texts.as_slice() {
            ["setenv", name, value] => {
                self.set.insert((*name).to_owned(), Some((*value).to_owned()));
            }
            ["presetenv", name, value] if self.variable(name).is_none() => {
                self.set.insert((*name).to_owned(), Some((*value).to_owned()));
            }
            ["unsetenv", names @ ..] => {
                self.set.extend(names.iter().map(|name| ((*name).to_owned(), None)));
            }
            _ => {}
        }
    }

    fn variable(&self, name: &str) -> Option<String> {
        match self.set.get(name) {
            Some(value) => value.clone(),
            None => self.files.variable(name),
        }
    }

    /// `.if` and its like.
    fn directive(
        &self,
        at: Position,
        words: Vec<Word>,
        branches: &mut Vec<Branch>,
    ) -> Result<(), ImportError> {
        let statement = self.ledger.open(at, words, None, Vec::new());
        let text =
            self.ledger.words(&statement).rest().iter().map(|word| word.text.as_str()).collect::<Vec<_>>();
        let outer = |branches: &[Branch]| branches.iter().all(|branch| branch.counts);
        match statement.name() {
            ".if" => {
                let counts = outer(branches) && self.condition(&statement, &text.join(" "));
                branches.push(Branch { counts, was_taken: counts });
            }
            name @ (".elif" | ".else") => {
                let Some(mut branch) = branches.pop() else {
                    return Err(ImportError::at(&statement.at, "there is no `.if` before it"));
                };
                let open = outer(branches) && !branch.was_taken;
                branch.counts = open && (name == ".else" || self.condition(&statement, &text.join(" ")));
                branch.was_taken |= branch.counts;
                branches.push(branch);
            }
            ".endif" => {
                if branches.pop().is_none() {
                    return Err(ImportError::at(&statement.at, "there is no `.if` before it"));
                }
            }
            ".diag" | ".notice" | ".warning" => {}
            ".alert" if outer(branches) => {
                return Err(ImportError::at(&statement.at, format!("the config says: {}", text.join(" "))));
            }
            ".alert" => {}
            _ => {
                self.ledger.unsupported(&statement, "the import does not know it");
                return Ok(());
            }
        }
        self.ledger.meaningless(&statement, "the import has decided it");
        Ok(())
    }

    fn condition(&self, statement: &Statement, text: &str) -> bool {
        if text.contains("version_") || text.contains("feature(") {
            self.ledger.approximated(statement, "decided as by HAProxy 3.2 with all of its features");
        }
        if text.contains("defined(") {
            self.ledger.approximated(statement, "decided by the environment at the time of the import");
        }
        conditional::holds(text, &|name| self.variable(name)).unwrap_or_else(|| {
            self.ledger.unsupported(
                statement,
                "the import does not understand this condition: take the lines out or leave them in by hand",
            );
            false
        })
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            self.sections.push(self.ledger.opened(
                open.id,
                open.at,
                open.words,
                Some(open.lines),
                open.comments,
            ));
        }
    }
}
