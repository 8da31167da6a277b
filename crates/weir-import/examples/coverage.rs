//! `cargo run -p weir-import --example coverage -- FOLDER [--json]`: imports every file of a folder, and says what became of them: the share
//! without a statement that is not supported, how long the results are, and which directives fail most.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use weir_access::PasswordHash;
use weir_config::CheckedConfig;
use weir_import::{ImportOutcome, ResultFault, SourceFiles, detect, import};

/// The files of a folder, by absolute name or relative to it.
struct Folder(PathBuf);

impl SourceFiles for Folder {
    fn read(&self, path: &str) -> io::Result<String> {
        fs::read_to_string(self.0.join(path))
    }

    fn matching(&self, pattern: &str) -> Vec<String> {
        let Some((folder, name)) = pattern.rsplit_once('/') else { return Vec::new() };
        let Some((before, after)) = name.split_once('*') else { return Vec::new() };
        let entries = fs::read_dir(self.0.join(folder)).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let fits = |name: &String| name.starts_with(before) && name.ends_with(after);
        let mut found: Vec<String> = names.filter(fits).map(|name| format!("{folder}/{name}")).collect();
        found.sort();
        found
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn faults(&self, toml: &str) -> Vec<ResultFault> {
        CheckedConfig::faults(toml).into_iter().map(ResultFault::from).collect()
    }

    fn password_hash(&self, password: &str, salt: &str) -> Option<String> {
        Some(PasswordHash::of_password(password.as_bytes(), salt).text().to_owned())
    }
}

/// What became of one file.
struct FileCoverage {
    name: String,
    project: String,
    counts: [usize; 5],
    /// Why the result is no config that Weir takes, or the original none that can be read.
    refused: Option<String>,
    unsupported: Vec<(String, String)>,
    lines: (usize, usize),
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of configs"));
    let results: PathBuf = arguments.next().map_or_else(|| folder.join("results"), PathBuf::from);
    let mut names: Vec<PathBuf> = Vec::new();
    collect(&folder, &mut names);
    names.sort();
    let covered: Vec<FileCoverage> = names.iter().filter_map(|path| cover(&folder, path, &results)).collect();
    for file in &covered {
        print_file(file);
    }
    summarize(&covered);
}

fn collect(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, into);
        } else {
            into.push(path);
        }
    }
}

fn cover(folder: &Path, path: &Path, results: &Path) -> Option<FileCoverage> {
    let name = path.strip_prefix(folder).ok()?.to_string_lossy().into_owned();
    let text = fs::read_to_string(path).ok()?;
    let format = match path.extension().and_then(|end| end.to_str()).unwrap_or_default() {
        "toml" | "txt" | "types" | "tsv" | "md" => return None,
        _ => detect(&name, &text)?,
    };
    let project = name.split("__").next().unwrap_or(&name);
    let project = project.split('/').next().unwrap_or(project).to_owned();
    let mut file = FileCoverage {
        project,
        counts: [0; 5],
        refused: None,
        unsupported: Vec::new(),
        lines: (lines_of(&text), 0),
        name,
    };
    let around = Folder(path.parent()?.to_owned());
    let base = path.file_name()?.to_str()?;
    let outcome = std::panic::catch_unwind(|| import(format, &[base], &around));
    let imported = match outcome {
        Err(_) => {
            file.refused = Some("the import panics".to_owned());
            return Some(file);
        }
        Ok(Err(error)) => {
            file.refused = Some(format!("cannot be read: {error}"));
            return Some(file);
        }
        Ok(Ok(imported)) => imported,
    };
    file.counts = ImportOutcome::ALL.map(|outcome| imported.report.count(outcome));
    file.lines.1 = lines_of(&imported.toml);
    for finding in imported.report.findings() {
        if finding.outcome == ImportOutcome::Unsupported {
            file.unsupported.push((finding.statement.clone(), finding.notes.join("; ")));
        }
    }
    if let Err(diagnostics) = CheckedConfig::parse_shown(&imported.toml, "weir.toml").into_result() {
        file.refused = Some(diagnostics.to_string());
    }
    let flat = file.name.replace('/', "__");
    let written = fs::create_dir_all(results)
        .and_then(|()| fs::write(results.join(format!("{flat}.toml")), &imported.toml))
        .and_then(|()| fs::write(results.join(format!("{flat}.txt")), imported.report.to_string()));
    written.unwrap_or_else(|error| panic!("cannot write {}: {error}", results.display()));
    Some(file)
}

/// Lines without comments and empty ones.
fn lines_of(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).count()
}

fn print_file(file: &FileCoverage) {
    let [unsupported, approximated, exact, default, meaningless] = file.counts;
    let (there, here) = file.lines;
    println!(
        "{}: {unsupported} not supported, {approximated} approximated, {exact} exact, {default} by default, {meaningless} without meaning; {there} lines, {here} of Weir",
        file.name
    );
    if let Some(refused) = &file.refused {
        for line in refused.lines() {
            println!("    refused: {line}");
        }
    }
    for (statement, note) in &file.unsupported {
        println!("    not supported: {statement}: {note}");
    }
}

fn summarize(covered: &[FileCoverage]) {
    let mut projects: BTreeMap<&str, bool> = BTreeMap::new();
    let mut directives: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let is_clean = |file: &FileCoverage| file.refused.is_none() && file.unsupported.is_empty();
    for file in covered {
        *projects.entry(&file.project).or_insert(true) &= is_clean(file);
        let mut names: Vec<&str> = file
            .unsupported
            .iter()
            .filter_map(|(statement, _)| statement.split_whitespace().next())
            .collect();
        for name in &names {
            directives.entry(name).or_default().0 += 1;
        }
        names.sort_unstable();
        names.dedup();
        for name in names {
            directives.entry(name).or_default().1 += 1;
        }
    }
    let clean = covered.iter().filter(|file| is_clean(file)).count();
    let refused = covered.iter().filter(|file| file.refused.is_some()).count();
    let clean_projects = projects.values().filter(|clean| **clean).count();
    let mut ratios: Vec<f64> = covered
        .iter()
        .filter(|file| is_clean(file) && file.lines.0 > 0)
        .map(|file| file.lines.1 as f64 / file.lines.0 as f64)
        .collect();
    ratios.sort_by(f64::total_cmp);
    println!("\n{} files, {clean} without an unsupported line, {refused} refused", covered.len());
    println!("{} projects, {clean_projects} without an unsupported line", projects.len());
    if let Some(median) = ratios.get(ratios.len() / 2) {
        println!("lines of Weir for each line of the original, median of those: {median:.2}");
    }
    println!("\nnot supported, by the number of files:");
    let mut order: Vec<_> = directives.into_iter().collect();
    order.sort_by_key(|(name, (_, files))| (std::cmp::Reverse(*files), *name));
    for (name, (statements, files)) in order.into_iter().take(60) {
        println!("  {files:4} files {statements:5} statements  {name}");
    }
}
