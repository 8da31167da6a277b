//! The text of a file as statements: YAML, whose keys are statements with their values as words.

mod yaml;
mod templates;

use crate::report::Ledger;
use crate::source::{ImportError, Position, SourceFiles, Statement, TextLimit};

/// Reads a file, and the keys of its top level.
pub(super) fn read(
    name: &str,
    files: &dyn SourceFiles,
    limit: &TextLimit,
    at: Option<&Position>,
    ledger: &Ledger,
) -> Result<Vec<Statement>, ImportError> {
    let text = limit.read(files, name, at)?;
    let text = templates::resolved(name, &text, files)?;
    yaml::statements(name, &text, ledger)
}
