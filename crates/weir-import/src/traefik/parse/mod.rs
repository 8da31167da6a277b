//! The text of a file as statements: YAML or TOML, whose keys are statements with their values as words.

mod yaml;
mod toml;
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
    match is_toml(name, &text) {
        true => toml::statements(name, &text, ledger),
        false => yaml::statements(name, &text, ledger),
    }
}

/// Whether a file is TOML: by its name, or since it begins with a table.
fn is_toml(name: &str, text: &str) -> bool {
    let is_yaml = name.ends_with(".yml") || name.ends_with(".yaml");
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    name.ends_with(".toml")
        || !is_yaml && first.is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
}
