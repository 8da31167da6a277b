//! The files of the checkout as text, and the Rust sources among them parsed.
//!
//! Ignored files are left out, untracked ones are in: a new file is checked before it is committed. Whether a source is
//! test code is decided here, once, for all checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use ignore::WalkBuilder;

use super::test_code::is_test_only;

/// One text file.
pub(super) struct TextFile {
    /// Relative to the root, with `/`.
    pub(super) path: String,
    pub(super) text: String,
}

/// One Rust source.
pub(super) struct RustFile {
    pub(super) path: String,
    pub(super) text: String,
    pub(super) syntax: Result<syn::File, syn::Error>,
    /// Compiled for tests only.
    pub(super) test: bool,
}

/// Everything that is checked.
pub(super) struct SourceTree {
    files: Vec<TextFile>,
    /// The paths of those that are not text: links may lead there.
    others: BTreeSet<String>,
    sources: Vec<RustFile>,
}

impl SourceTree {
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let (mut files, mut others) = (Vec::new(), BTreeSet::new());
        let walk = WalkBuilder::new(root)
            .hidden(false)
            .parents(false)
            .git_global(false)
            .require_git(false)
            .filter_entry(|entry| entry.file_name() != ".git")
            .sort_by_file_path(Path::cmp)
            .build();
        for entry in walk {
            let entry = entry?;
            if !entry.file_type().is_some_and(|kind| kind.is_file()) {
                continue;
            }
            let bytes =
                fs::read(entry.path()).with_context(|| format!("cannot read {}", entry.path().display()))?;
            let path = entry.path().strip_prefix(root)?.to_string_lossy().into_owned();
            match String::from_utf8(bytes) {
                Ok(text) => files.push(TextFile { path, text }),
                // Files that are not text (pictures, fuzz seeds) are not checked; links may point to them.
                Err(_) => drop(others.insert(path)),
            }
        }
        Ok(Self { others, ..Self::new(files) })
    }

    fn new(files: Vec<TextFile>) -> Self {
        let mut sources: Vec<RustFile> = files
            .iter()
            .filter(|file| file.path.ends_with(".rs"))
            .map(|file| RustFile {
                path: file.path.clone(),
                text: file.text.clone(),
                syntax: syn::parse_file(&file.text),
                test: is_test_path(&file.path),
            })
            .collect();
        let declared: BTreeSet<String> = sources.iter().flat_map(test_modules).collect();
        for source in &mut sources {
            source.test |= declared.iter().any(|module| is_of_module(&source.path, module));
        }
        Self { files, others: BTreeSet::new(), sources }
    }

    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> Self {
        let text_file =
            |&(path, text): &(&str, &str)| TextFile { path: path.to_owned(), text: text.to_owned() };
        Self::new(files.iter().map(text_file).collect())
    }

    pub(super) fn files(&self) -> &[TextFile] {
        &self.files
    }

    pub(super) fn sources(&self) -> &[RustFile] {
        &self.sources
    }

    pub(super) fn has(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.others.contains(path)
            || self.files.iter().any(|file| file.path == path || file.path.starts_with(&folder))
    }
}

/// Whether a source is test code by where it lies.
fn is_test_path(path: &str) -> bool {
    path.split('/').any(|part| matches!(part, "tests" | "benches" | "tests.rs"))
}

/// The modules that a file declares for tests only, as paths without `.rs`.
fn test_modules(source: &RustFile) -> Vec<String> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let stem = source.path.strip_suffix(".rs").unwrap_or(&source.path);
    let (folder, name) = stem.rsplit_once('/').unwrap_or(("", stem));
    let children = if matches!(name, "mod" | "lib" | "main") { folder } else { stem };
    let declared = syntax.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if module.content.is_none() && is_test_only(&module.attrs) => Some(module),
        _ => None,
    });
    declared.map(|module| format!("{children}/{}", module.ident)).collect()
}

/// Whether a source is the module or lies below it.
fn is_of_module(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tests_of(tree: &SourceTree) -> Vec<&str> {
        tree.sources().iter().filter(|source| source.test).map(|source| source.path.as_str()).collect()
    }

    #[test]
    fn tests_are_known_by_their_place() {
        let paths =
            ["a/src/lib.rs", "a/src/tests.rs", "a/tests/e2e/main.rs", "a/src/latests.rs", "a/benches/b.rs"];
        let tree = SourceTree::of(&paths.map(|path| (path, "")));
        assert_eq!(tests_of(&tree), ["a/src/tests.rs", "a/tests/e2e/main.rs", "a/benches/b.rs"]);
    }

    #[test]
    fn tests_are_known_by_their_declaration() {
        let tree = SourceTree::of(&[
            ("a/src/lib.rs", "#[cfg(test)]\nmod oracle;\nmod head;"),
            ("a/src/oracle.rs", ""),
            ("a/src/oracle/detail.rs", ""),
            ("a/src/oracles.rs", ""),
            ("a/src/head.rs", "#[cfg(test)]\nmod cases;"),
            ("a/src/head/cases.rs", ""),
            ("a/src/cases.rs", ""),
        ]);
        assert_eq!(tests_of(&tree), ["a/src/oracle.rs", "a/src/oracle/detail.rs", "a/src/head/cases.rs"]);
    }

    #[test]
    fn ignored_files_are_left_out_and_new_ones_are_in() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &[u8]| fs::write(root.path().join(name), text).unwrap();
        fs::create_dir_all(root.path().join("target")).unwrap();
        fs::create_dir_all(root.path().join(".git")).unwrap();
        fs::create_dir_all(root.path().join(".ci")).unwrap();
        write(".gitignore", b"/target\n");
        write("target/made.rs", b"");
        write(".git/config", b"");
        write(".ci/run", b"");
        write("new.rs", b"//! New.\n");
        write("picture.png", b"\x89PNG\xff");
        let tree = SourceTree::read(root.path()).unwrap();
        let paths: Vec<&str> = tree.files().iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", ".gitignore", "new.rs"]);
        assert!(tree.has("new.rs") && tree.has(".ci") && !tree.has("new"));
    }
}
