//! Files of servers to servers: TOML, JSON and Prometheus' `file_sd`. Pure; a problem has a line and a column.

mod own;
mod prometheus;

use std::fmt;
use std::path::Path;

use crate::server_set::DiscoveredServer;

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServersFileProblem {
    line: usize,
    column: usize,
    message: String,
}

impl fmt::Display for ServersFileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}: {}", self.line, self.column, self.message)
    }
}

impl ServersFileProblem {
    fn of_json(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        // The message ends with the place, which is written before it.
        let end = text.rfind(" at line ").unwrap_or(text.len());
        Self { line: error.line(), column: error.column(), message: text[..end].to_owned() }
    }

    fn of_toml(error: &toml::de::Error, text: &str) -> Self {
        let before = text.get(..error.span().map_or(0, |span| span.start)).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let column = before[line_start..].chars().count() + 1;
        Self { line: before.matches('\n').count() + 1, column, message: error.message().to_owned() }
    }
}

/// The servers in a file. The name decides between TOML and JSON; JSON is `file_sd` when it is a list.
///
/// # Errors
/// The first problem.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Vec<DiscoveredServer>, ServersFileProblem> {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    if is_toml {
        return own::parse_toml(text);
    }
    match text.trim_start().starts_with('[') {
        true => prometheus::parse(text),
        false => own::parse_json(text),
    }
}
