//! The meaning of a configuration, from the outside: one binary, a file per question.

mod admin;
mod arguments;
mod blocks;
mod certificate_directory;
mod certificates;
mod client_certificates;
mod decisions;
mod defaults;
mod diff;
mod discovery;
mod ejection;
mod fragments;
mod equivalents;
mod environment;
mod examples;
mod health;
mod ocsp;
mod affinity;
mod proxy_protocol;
mod include;
mod large;
mod maps;
mod meaning;
mod diagnostics;
mod properties;
mod reference;
mod server_protocol;

use std::path::{Path, PathBuf};

use weir_config::{CheckedConfig, Config};

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The content of a file that has to be there.
fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The files of a folder with an extension: name without it, and content, in the order of the names.
fn files(folder: &Path, extension: &str) -> Vec<(String, String)> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files: Vec<(String, String)> = entries
        .map(|entry| entry.expect("a folder can be read").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .map(|path| {
            let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
            (name, read(&path))
        })
        .collect();
    files.sort();
    files
}

/// The examples of the repository: files, and those in folders as `FOLDER/NAME`.
fn examples() -> Vec<(String, String)> {
    let folder = root().join("examples");
    let mut all = files(&folder, "toml");
    let entries = std::fs::read_dir(&folder).expect("the folder can be read").flatten();
    for inner in entries.map(|entry| entry.path()).filter(|path| path.is_dir()) {
        let name = inner.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        all.extend(files(&inner, "toml").into_iter().map(|(file, text)| (format!("{name}/{file}"), text)));
    }
    all.sort();
    all
}

/// A text without environment and files of its own.
fn checked(text: &str) -> CheckedConfig {
    CheckedConfig::parse_alone(text, "weir.toml", &|_| None)
}

/// The configuration of a text in which nothing is wrong.
fn config(text: &str) -> Config {
    let checked = checked(text);
    assert!(checked.diagnostics.is_empty(), "{}\n{text}", checked.diagnostics);
    checked.config.expect("a text without mistakes is a configuration")
}

/// Whether a committed file equals the generated one; with `UPDATE=1` it is written anew first.
fn is_current(path: &Path, generated: &str) -> bool {
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, generated).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    std::fs::read_to_string(path).is_ok_and(|committed| committed == generated)
}
