//! The files of a config, read by who calls.

use std::cell::Cell;
use std::io;

use super::Position;

/// How files, patterns and variables are found; so the crate itself does no I/O.
pub trait SourceFiles {
    /// The text of a file.
    ///
    /// # Errors
    /// It cannot be read.
    fn read(&self, path: &str) -> io::Result<String>;

    /// The files that a pattern such as `conf.d/*.conf` stands for, in the order of their names.
    fn matching(&self, pattern: &str) -> Vec<String>;

    /// A variable of the environment, for HAProxy's `"$NAME"` and Caddy's `{$NAME}`.
    fn variable(&self, name: &str) -> Option<String>;

    /// What is wrong with a result: the errors of `weir check`, which decides what is a config. They are taken out of it again.
    fn faults(&self, toml: &str) -> Vec<ResultFault>;

    /// Whether the result may have `http3`: a Weir without that feature refuses it.
    fn has_http3(&self) -> bool {
        true
    }

    /// The hash of a password of the file, as `crypt(3)` writes it; nothing where none is made.
    fn password_hash(&self, _password: &str, _salt: &str) -> Option<String> {
        None
    }
}

/// An error of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResultFault {
    /// The line of the `weir.toml`, from 1.
    pub line: usize,
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
}

impl From<(usize, String)> for ResultFault {
    fn from((line, message): (usize, String)) -> Self {
        ResultFault { line, message }
    }
}

/// Why files are no config: as a whole, or at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportError {
    /// The place, if it is one.
    pub at: Option<Position>,
    /// What is wrong.
    pub message: String,
}

/// How much text all files together may have; a config that is larger is none that a person has written.
#[derive(Debug)]
pub struct TextLimit {
    left: Cell<usize>,
}

/// Bytes of all files together.
const TEXT_MAX: usize = 32 << 20;

impl ImportError {
    /// At a place.
    pub fn at(at: &Position, message: impl Into<String>) -> ImportError {
        ImportError { at: Some(at.clone()), message: message.into() }
    }
}

impl std::fmt::Display for ImportError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.at {
            Some(at) => write!(f, "{at}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for ImportError {}

impl Default for TextLimit {
    fn default() -> Self {
        TextLimit { left: Cell::new(TEXT_MAX) }
    }
}

impl TextLimit {
    /// Reads a file that a statement at `at` names.
    ///
    /// # Errors
    /// It cannot be read, or is too much.
    pub fn read(
        &self,
        files: &dyn SourceFiles,
        path: &str,
        at: Option<&Position>,
    ) -> Result<String, ImportError> {
        let error = |message: String| ImportError { at: at.cloned(), message };
        let text = files.read(path).map_err(|cause| error(format!("cannot read {path}: {cause}")))?;
        let left = self.left.get().checked_sub(text.len());
        self.left
            .set(left.ok_or_else(|| error(format!("{path}: more than {} MiB of text", TEXT_MAX >> 20)))?);
        Ok(text)
    }
}
