//! Imports a file and prints the result, its report, and what `weir check` says: `cargo run -p weir-import --example import FILE`.
//! `--nginx` takes it as such whatever its name is. With `--time`, only how long it takes; with `--brief`, a line for each file.

use std::path::Path;
use std::{fs, io};

use weir_config::CheckedConfig;
use weir_import::{ImportOutcome, ResultFault, SourceFiles, SourceFormat, detect, import};

/// The files of this machine.
struct Disk;

impl SourceFiles for Disk {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let (folder, name) = pattern.rsplit_once('/').unwrap_or((".", pattern));
        let (before, after) = name.split_once('*').unwrap_or((name, ""));
        let entries = fs::read_dir(Path::new(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut found: Vec<String> = names
            .filter(|name| name.starts_with(before) && name.ends_with(after))
            .map(|name| format!("{folder}/{name}"))
            .collect();
        found.sort();
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }
}

/// One line for a file: lines of both, statements that are lost, and what is wrong with the result.
fn brief(name: &str, text: &str, imported: &weir_import::Imported) {
    let count = |text: &str| {
        text.lines().filter(|line| !line.trim().is_empty() && !line.trim_start().starts_with('#')).count()
    };
    let (before, after) = (count(text), count(&imported.toml));
    println!("{name}: {before} -> {after} lines, {} lost", imported.report.count(ImportOutcome::Unsupported));
    if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
        diagnostics.to_string().lines().take(6).for_each(|line| println!("    {line}"));
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_timed = arguments.iter().any(|one| one == "--time");
    for name in arguments.iter().filter(|one| !one.starts_with("--")) {
        let text = fs::read_to_string(name).unwrap_or_default();
        let is_nginx = arguments.iter().any(|one| one == "--nginx");
        let format = detect(name, &text).filter(|_| !is_nginx).unwrap_or(SourceFormat::Nginx);
        let imported = match import(format, &[name], &Disk) {
            Ok(imported) => imported,
            Err(error) => {
                println!("{error}");
                continue;
            }
        };
        if is_timed {
            println!("{name}: {} lines became {}", text.lines().count(), imported.toml.lines().count());
            continue;
        }
        if arguments.iter().any(|one| one == "--brief") {
            brief(name, &text, &imported);
            continue;
        }
        println!("{}\n{}", imported.toml, imported.report);
        if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
            println!("NOT SOUND\n{diagnostics}");
        }
    }
}
