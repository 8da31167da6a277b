//! Files of other products beside what they become: `NAME.conf`, `NAME.toml`, and the report `NAME.txt`. Files that they include are in folders
//! beside them. `UPDATE=1` writes results anew; read the difference before committing it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_config::CheckedConfig;
use weir_import::{SourceFiles, SourceFormat, import};

/// Files of a folder, named relative to it.
struct Folder(PathBuf);

impl SourceFiles for Folder {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
        let (before, after) = name.split_once('*').expect("the tests use one asterisk");
        let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten();
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut found: Vec<String> = names
            .filter(|name| name.starts_with(before) && name.ends_with(after))
            .map(|name| format!("{folder}/{name}"))
            .collect();
        found.sort();
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        (name == "PORT").then(|| "8080".to_owned())
    }
}

/// Imports each file of a folder with this end, and compares.
fn check(format: SourceFormat, folder: &str, end: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(folder);
    let mut stale = Vec::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !path.is_file() || !name.ends_with(end) {
            continue;
        }
        let imported =
            import(format, &[&name], &Folder(folder.clone())).unwrap_or_else(|error| panic!("{error}"));
        if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
            panic!("{name} became no sound config:\n{diagnostics}\n{}", imported.toml);
        }
        for (end, text) in [("toml", &imported.toml), ("txt", &imported.report.to_string())] {
            let expected = path.with_extension(end);
            if std::env::var_os("UPDATE").is_some() {
                fs::write(&expected, text).unwrap();
            } else if fs::read_to_string(&expected).ok().as_ref() != Some(text) {
                stale.push(expected.display().to_string());
            }
        }
    }
    assert!(stale.is_empty(), "run with UPDATE=1 if these are right:\n{}", stale.join("\n"));
}

#[test]
fn configs_of_nginx() {
    check(SourceFormat::Nginx, "nginx", ".conf");
}

#[test]
fn configs_of_haproxy() {
    check(SourceFormat::Haproxy, "haproxy", ".cfg");
}

#[test]
fn configs_of_caddy() {
    check(SourceFormat::Caddy, "caddy", ".Caddyfile");
}

#[test]
fn configs_of_traefik() {
    check(SourceFormat::Traefik, "traefik", ".yml");
}
