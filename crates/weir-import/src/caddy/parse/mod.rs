//! From text to sites and their directives: variables of the environment, snippets and imports are replaced, as Caddy does before it reads anything.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::report::Ledger;
use crate::source::{ImportError, Position, SourceFiles, Statement, TextLimit, Word};

mod tokens;

use tokens::{CaddyToken, tokens};

/// How deep files and snippets may import each other, and blocks stand in blocks.
const DEPTH_MAX: usize = 32;

/// How many words imports may come to.
const WORDS_MAX: usize = 1_000_000;

/// A Caddyfile.
pub(super) struct CaddyText {
    /// The block without a name in front of all sites.
    pub(super) options: Option<Statement>,
    /// The blocks of sites: their words are their addresses.
    pub(super) sites: Vec<Statement>,
}

struct CaddyParser<'p> {
    files: &'p dyn SourceFiles,
    ledger: &'p Ledger,
    limit: TextLimit,
    snippets: RefCell<HashMap<String, Snippet>>,
    words: Cell<usize>,
}

/// The words between the braces of `(name) { }`.
struct Snippet {
    tokens: Vec<CaddyToken>,
    is_used: bool,
}

/// Reads a Caddyfile with all that it imports.
pub(super) fn parse(name: &str, files: &dyn SourceFiles, ledger: &Ledger) -> Result<CaddyText, ImportError> {
    let parser = CaddyParser {
        files,
        ledger,
        limit: TextLimit::default(),
        snippets: RefCell::default(),
        words: Cell::new(0),
    };
    let tokens = parser.file(name, None)?;
    let mut text = CaddyText { options: None, sites: Vec::new() };
    parser.top(&tokens, 0, &mut text)?;
    parser.unused_snippets()?;
    Ok(text)
}

impl CaddyParser<'_> {
    fn file(&self, name: &str, at: Option<&Position>) -> Result<Vec<CaddyToken>, ImportError> {
        let text = self.limit.read(self.files, name, at)?;
        let file: Rc<str> = name.into();
        let text = self.with_variables(&text);
        tokens(&text, &file)
            .map_err(|(line, column, message)| ImportError::at(&Position { file, line, column }, message))
    }

    /// Replaces `{$NAME}` and `{$NAME:default}`, before anything else is looked at.
    fn with_variables(&self, text: &str) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find("{$") {
            let end = rest[at..].find(['}', '\n']).map(|end| at + end);
            let Some(end) = end.filter(|end| rest[*end..].starts_with('}')) else {
                replaced.push_str(&rest[..at + 2]);
                rest = &rest[at + 2..];
                continue;
            };
            let (name, default) = rest[at + 2..end].split_once(':').unwrap_or((&rest[at + 2..end], ""));
            let value = self.files.variable(name).filter(|value| !value.is_empty());
            replaced.push_str(&rest[..at]);
            replaced.push_str(value.as_deref().unwrap_or(default));
            rest = &rest[end + 1..];
        }
        replaced.push_str(rest);
        replaced
    }

    fn count(&self, words: usize, at: &Position) -> Result<(), ImportError> {
        self.words.set(self.words.get() + words);
        match self.words.get() > WORDS_MAX {
            true => Err(ImportError::at(at, "imports come to too much text")),
            false => Ok(()),
        }
    }

    /// What stands outside of all blocks: options, snippets, imports and sites.
    fn top(&self, tokens: &[CaddyToken], depth: usize, text: &mut CaddyText) -> Result<(), ImportError> {
        let mut at = 0;
        while let Some(first) = tokens.get(at) {
            let position = position(first);
            if !first.quoted && first.text == "import" && first.starts_line {
                let end = line_end(tokens, at);
                let statement = self.open(&tokens[at..end], None);
                let imported = self.imported(&statement, depth)?;
                self.top(&imported, depth + 1, text)?;
                at = end;
                continue;
            }
            let head_end = address_end(tokens, at);
            let has_block = tokens[head_end - 1].text == "{" && !tokens[head_end - 1].quoted;
            if !has_block {
                // One site without braces: its addresses are the first line, everything else is in it.
                let id = self.ledger.reserve(position.clone());
                let block = self.block(&tokens[head_end..], depth)?;
                let words = words(&tokens[at..head_end]);
                text.sites.push(self.ledger.opened(id, position, words, Some(block), first.comments.clone()));
                return Ok(());
            }
            let end = closing(tokens, head_end, &position)?;
            let (head, inside) = (&tokens[at..head_end - 1], &tokens[head_end..end]);
            at = end + 1;
            self.block_at_top(head, inside, (first, depth), text)?;
        }
        Ok(())
    }

    fn block_at_top(
        &self,
        head: &[CaddyToken],
        inside: &[CaddyToken],
        (first, depth): (&CaddyToken, usize),
        text: &mut CaddyText,
    ) -> Result<(), ImportError> {
        let name = head.first().filter(|_| head.len() == 1).map(|token| token.text.as_str());
        if let Some(name) = name.and_then(|name| name.strip_prefix('(')?.strip_suffix(')')) {
            self.ledger.exact(&self.open(head, None));
            let snippet = Snippet { tokens: inside.to_vec(), is_used: false };
            self.snippets.borrow_mut().insert(name.to_owned(), snippet);
            return Ok(());
        }
        let at = position(first);
        let id = self.ledger.reserve(at.clone());
        let block = self.block(inside, depth + 1)?;
        if head.is_empty() {
            let words = vec![Word { text: "{".into(), line: at.line, column: at.column, quoted: false }];
            let options = self.ledger.opened(id, at, words, Some(block), first.comments.clone());
            text.options.get_or_insert(options);
        } else {
            let site = self.ledger.opened(id, at, words(head), Some(block), first.comments.clone());
            text.sites.push(site);
        }
        Ok(())
    }

    /// The directives of a block.
    fn block(&self, tokens: &[CaddyToken], depth: usize) -> Result<Vec<Statement>, ImportError> {
        let mut statements = Vec::new();
        let mut at = 0;
        while let Some(first) = tokens.get(at) {
            let position = position(first);
            if depth > DEPTH_MAX {
                return Err(ImportError::at(&position, "blocks and imports stand too deep in each other"));
            }
            self.count(1, &position)?;
            let end = line_end(tokens, at);
            let last = &tokens[end - 1];
            if last.text == "{" && !last.quoted && end - at > 1 {
                let close = closing(tokens, end, &position)?;
                let id = self.ledger.reserve(position.clone());
                let block = self.block(&tokens[end..close], depth + 1)?;
                let words = words(&tokens[at..end - 1]);
                statements.push(self.ledger.opened(id, position, words, Some(block), first.comments.clone()));
                at = close + 1;
                continue;
            }
            if !first.quoted && matches!(&*first.text, "{" | "}") {
                return Err(ImportError::at(&position, "a directive is expected here"));
            }
            let statement = self.open(&tokens[at..end], None);
            at = end;
            if statement.name() != "import" {
                statements.push(statement);
                continue;
            }
            let imported = self.imported(&statement, depth)?;
            statements.extend(self.block(&imported, depth + 1)?);
        }
        Ok(statements)
    }

    /// The words that an `import` stands for.
    fn imported(&self, statement: &Statement, depth: usize) -> Result<Vec<CaddyToken>, ImportError> {
        let error = |message: String| ImportError::at(&statement.at, message);
        let mut words = self.ledger.words(statement);
        let name = words.text().ok_or_else(|| error("`import` of what?".to_owned()))?;
        let arguments: Vec<&str> = words.rest().into_iter().map(|word| word.text.as_str()).collect();
        if depth >= DEPTH_MAX {
            return Err(error("snippets and files import each other too deep".to_owned()));
        }
        let snippet = self.snippets.borrow_mut().get_mut(name).map(|snippet| {
            snippet.is_used = true;
            snippet.tokens.clone()
        });
        let tokens = match snippet {
            Some(tokens) => tokens,
            None => self.imported_files(name, statement)?,
        };
        self.ledger.exact(statement);
        self.count(tokens.len(), &statement.at)?;
        Ok(tokens.into_iter().flat_map(|token| with_arguments(token, &arguments)).collect())
    }

    fn imported_files(&self, name: &str, statement: &Statement) -> Result<Vec<CaddyToken>, ImportError> {
        let folder = statement.at.file.rsplit_once('/').map_or("", |(folder, _)| folder);
        let path = match (name.starts_with('/'), folder) {
            (true, _) | (false, "") => name.to_owned(),
            (false, folder) => format!("{folder}/{name}"),
        };
        let names = if path.contains(['*', '?', '[']) { self.files.matching(&path) } else { vec![path] };
        let mut tokens = Vec::new();
        for name in names {
            tokens.extend(self.file(&name, Some(&statement.at))?);
        }
        Ok(tokens)
    }

    /// What is in snippets that no one imports is accounted for, too.
    fn unused_snippets(&self) -> Result<(), ImportError> {
        let snippets = std::mem::take(&mut *self.snippets.borrow_mut());
        let mut unused: Vec<Snippet> = snippets.into_values().filter(|snippet| !snippet.is_used).collect();
        unused.sort_by_key(|snippet| snippet.tokens.first().map(position));
        for snippet in unused {
            let lines = snippet.tokens.iter().filter(|token| token.starts_line && token.text != "}");
            for first in lines {
                let statement = self.open(std::slice::from_ref(first), None);
                self.ledger.meaningless(&statement, "the snippet that it is in is imported nowhere");
            }
        }
        Ok(())
    }

    fn open(&self, tokens: &[CaddyToken], block: Option<Vec<Statement>>) -> Statement {
        self.ledger.open(position(&tokens[0]), words(tokens), block, tokens[0].comments.clone())
    }
}

/// Where the line ends that begins at `from`. What was imported ends with the words of its file.
fn line_end(tokens: &[CaddyToken], from: usize) -> usize {
    let next = tokens[from + 1..].iter().position(|token| token.starts_line);
    next.map_or(tokens.len(), |next| from + 1 + next)
}

/// Where the addresses of a site end, brace included: with a comma behind one, the next line has more.
fn address_end(tokens: &[CaddyToken], from: usize) -> usize {
    let mut end = line_end(tokens, from);
    while end < tokens.len() && tokens[end - 1].text.ends_with(',') && !tokens[end - 1].quoted {
        end = line_end(tokens, end);
    }
    end
}

/// Where the brace is that closes the block whose words begin at `from`.
fn closing(tokens: &[CaddyToken], from: usize, at: &Position) -> Result<usize, ImportError> {
    let mut depth = 1_usize;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        let ends_line = tokens.get(index + 1).is_none_or(|next| next.starts_line);
        match &*token.text {
            "{" if !token.quoted && ends_line => depth += 1,
            "}" if !token.quoted && token.starts_line => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Ok(index);
        }
    }
    Err(ImportError::at(at, "this block is not closed"))
}

fn position(token: &CaddyToken) -> Position {
    Position { file: token.file.clone(), line: token.line, column: token.column }
}

fn words(tokens: &[CaddyToken]) -> Vec<Word> {
    let word = |token: &CaddyToken| Word {
        text: token.text.clone(),
        line: token.line,
        column: token.column,
        quoted: token.quoted,
    };
    tokens.iter().map(word).collect()
}

/// Replaces `{args[0]}`, the older `{args.0}`, and `{args[:]}` in a word of a snippet.
fn with_arguments(mut token: CaddyToken, arguments: &[&str]) -> Vec<CaddyToken> {
    if !token.text.contains("{args") {
        return vec![token];
    }
    if token.text == "{args[:]}" {
        let with = |argument: &&str| CaddyToken { text: (*argument).to_owned(), ..token.clone() };
        return arguments.iter().map(with).collect();
    }
    for (index, argument) in arguments.iter().enumerate() {
        for form in [format!("{{args[{index}]}}"), format!("{{args.{index}}}")] {
            token.text = token.text.replace(&form, argument);
        }
    }
    vec![token]
}
