//! Files, the statements in them, and their places. A statement is what one line of HAProxy and one directive of nginx or Caddy is: words,
//! and for some a block of further statements.

use std::rc::Rc;

mod files;

pub use files::{ImportError, ResultFault, SourceFiles, TextLimit};

/// A kind of config that can be imported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFormat {
    /// `nginx.conf`, a file that it includes, or what `nginx -T` prints.
    Nginx,
    /// `haproxy.cfg`.
    Haproxy,
    /// `Caddyfile`.
    Caddy,
    /// Traefik's dynamic config in YAML, its static one, or both.
    Traefik,
}

/// A place in a file that is imported.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The file, as it was named.
    pub file: Rc<str>,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
}

/// A word of a statement, without its quotes and escapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// What it says.
    pub text: String,
    /// From 1: words of a statement may stand on several lines.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// Whether it was written in quotes.
    pub quoted: bool,
}

/// A statement in the order of the files, across all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StatementId(pub(crate) u32);

/// A statement: nginx's `listen 80 ssl;`, HAProxy's `server a 10.0.0.1:80 check`, with its block if it has one.
#[derive(Clone, Debug)]
pub struct Statement {
    /// Its name in the account.
    pub id: StatementId,
    /// Where it begins.
    pub at: Position,
    /// At least one: its name.
    pub words: Vec<Word>,
    /// What is in its braces.
    pub block: Option<Vec<Statement>>,
    /// The comments right above it, without their `#`.
    pub comments: Vec<String>,
}

impl Statement {
    /// The first word.
    pub fn name(&self) -> &str {
        self.words.first().map_or("", |word| word.text.as_str())
    }

    /// The statements of its block.
    pub fn children(&self) -> &[Statement] {
        self.block.as_deref().unwrap_or_default()
    }

    /// As it was written, on one line, without its block.
    pub fn line(&self) -> String {
        let shown = |word: &Word| if word.text.is_empty() { "\"\"".to_owned() } else { word.text.clone() };
        let words: Vec<String> = self.words.iter().map(shown).collect();
        words.join(" ")
    }
}

impl std::fmt::Display for Position {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

impl SourceFormat {
    /// The product whose config it is.
    pub const fn product(self) -> &'static str {
        match self {
            SourceFormat::Nginx => "nginx",
            SourceFormat::Haproxy => "HAProxy",
            SourceFormat::Caddy => "Caddy",
            SourceFormat::Traefik => "Traefik",
        }
    }
}
