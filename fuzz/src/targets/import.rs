//! Configs of other products: the first line names the product, what follows is the text. Whatever it is, an import ends, with an error or a result;
//! a result is TOML with keys that exist, and each of its lines that comes from somewhere comes from a line of the text.

use std::io;

use weir_config::CheckedConfig;
use weir_import::{ImportOutcome, ResultFault, SourceFiles, SourceFormat};

/// The name of the text, which may include itself.
const NAME: &str = "main";

/// One file.
struct OneFile<'t>(&'t str);

impl SourceFiles for OneFile<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        match path == NAME {
            true => Ok(self.0.to_owned()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn matching(&self, _: &str) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "PORT").then(|| "8080".to_owned())
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

/// Fails when `input` shows a fault.
///
/// # Panics
/// When it does.
pub fn check(input: &[u8]) {
    let Ok(input) = std::str::from_utf8(input) else { return };
    let (product, text) = input.split_once('\n').unwrap_or_default();
    let format = match product {
        "nginx" => SourceFormat::Nginx,
        "haproxy" => SourceFormat::Haproxy,
        "caddy" => SourceFormat::Caddy,
        "traefik" => SourceFormat::Traefik,
        _ => return,
    };
    let imported = match weir_import::import(format, &[NAME], &OneFile(text)) {
        Ok(imported) => imported,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let lines = text.lines().count().max(1);
    for line in 1..=imported.toml.lines().count() {
        if let Some(origin) = imported.origin(line) {
            assert!(origin.line as usize <= lines, "{origin}");
        }
    }
    let findings = imported.report.findings();
    let counted: usize = ImportOutcome::ALL.iter().map(|outcome| imported.report.count(*outcome)).sum();
    assert_eq!(findings.len(), counted);
    let faults = CheckedConfig::faults(&imported.toml);
    assert!(faults.is_empty(), "{faults:?}\n{}", imported.toml);
}
