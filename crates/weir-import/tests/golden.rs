//! Files of other products beside what they become: `NAME.conf`, `NAME.toml`, and the report `NAME.txt`. Files that they include are in folders
//! beside them. `UPDATE=1` writes results anew; read the difference before committing it.

#![expect(clippy::unwrap_used, reason = "a test that cannot read its files has failed")]

use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_access::PasswordHash;
use weir_config::CheckedConfig;
use weir_import::shadow::ShadowOptions;
use weir_import::{Imported, ResultFault, SourceFiles, SourceFormat, import};

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

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }

    fn password_hash(&self, password: &str, salt: &str) -> Option<String> {
        Some(PasswordHash::of_password(password.as_bytes(), salt).text().to_owned())
    }
}

/// Imports each file of a folder with this end, and compares.
fn check(format: SourceFormat, folder: &str, end: &str) {
    check_changed(format, folder, end, |imported| {
        let report = imported.report.to_string();
        (imported, report)
    });
}

/// The same with what becomes of the result, and of its report.
fn check_changed(
    format: SourceFormat,
    folder: &str,
    end: &str,
    change: impl Fn(Imported) -> (Imported, String),
) {
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
        let (imported, report) = change(imported);
        if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
            panic!("{name} became no sound config:\n{diagnostics}\n{}", imported.toml);
        }
        for (end, text) in [("toml", &imported.toml), ("txt", &report)] {
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

/// Beside an old balancer that keeps its ports.
fn beside(imported: Imported) -> (Imported, String) {
    let options = ShadowOptions {
        old: ["http://10.9.0.1", "https://lb.internal:8443"].map(|url| url.parse().unwrap()).to_vec(),
        listen: None,
        share: 10,
        folder: "/run/weir".to_owned(),
    };
    match imported.beside(&options) {
        Ok((imported, report)) => (imported, format!("{report:#?}\n")),
        Err(error) => panic!("{}", error.message),
    }
}

#[test]
fn configs_of_nginx_beside_it() {
    check_changed(SourceFormat::Nginx, "shadow", ".conf", beside);
}

#[test]
fn configs_of_haproxy_beside_it() {
    check_changed(SourceFormat::Haproxy, "shadow", ".cfg", beside);
}

#[test]
fn lines_still_lead_to_the_original() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/shadow");
    let imported = import(SourceFormat::Nginx, &["site.conf"], &Folder(folder)).unwrap();
    let (imported, _) = beside(imported);
    let line = imported.toml.lines().position(|line| line == "name = \"site.conf-19\"").unwrap();
    assert_eq!(imported.origin(line).map(|at| at.line), Some(19), "the header above it");
}

#[test]
fn configs_of_traefik() {
    check(SourceFormat::Traefik, "traefik", ".yml");
    check(SourceFormat::Traefik, "traefik", ".toml-in");
}
