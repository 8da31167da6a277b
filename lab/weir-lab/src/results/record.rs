//! How a target was run: its version, command line and configuration, for the report.

use serde::{Deserialize, Serialize};

use crate::topology::target::TuningClass;

/// How a target was run, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetRecord {
    /// The product's words about its version.
    pub version: String,
    /// The TLS library it ran with, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_library: Option<String>,
    /// How it was configured: tuned or as shipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<TuningClass>,
    /// The command line.
    pub command: String,
    /// Name of the configuration file.
    pub file: String,
    /// The configuration; a saved run has it in a file of its own.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub config: String,
    /// Name and text of a second file that belongs to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<(String, String)>,
}

impl TargetRecord {
    /// The program: version, class, TLS library, if known.
    pub fn sentence(&self) -> String {
        let class = self.class.map_or_else(String::new, |class| format!(", {}", class.label()));
        let tls = self.tls_library.as_ref().map_or_else(String::new, |tls| format!(", TLS library {tls}"));
        format!("{}{class}{tls}", self.version)
    }

    /// Names and texts of its configuration files, to be read or taken away.
    pub fn configs_mut(&mut self) -> impl Iterator<Item = (&str, &mut String)> {
        let second = self.second.iter_mut().map(|(file, text)| (file.as_str(), text));
        std::iter::once((self.file.as_str(), &mut self.config)).chain(second)
    }

    /// Names and texts of its configuration files.
    pub fn configs(&self) -> impl Iterator<Item = (&str, &str)> {
        let second = self.second.iter().map(|(file, text)| (file.as_str(), text.as_str()));
        std::iter::once((self.file.as_str(), self.config.as_str())).chain(second)
    }
}
