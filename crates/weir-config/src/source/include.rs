//! `include`: several files that are read as one.
//!
//! Patterns are relative to the file that contains them. Tables that may be spread over files (listeners, upstreams, one listener, its
//! routes) are joined; any other key in two files is an error.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::document::parse_document;
use super::environment::Environment;
use super::{Tree, TreeEntry, TreeNode, TreeTable};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::diagnostic::{FileIndex, SourceMap, SourceSpan};
use crate::text_file::{CONFIG_BYTES_MAX, read_text};

/// Files that one configuration may consist of; more indicate a wrong pattern.
const FILES_MAX: usize = 1000;

/// The state and the result of loading.
pub(crate) struct Loading<'a> {
    /// Where values of variables come from.
    pub(crate) environment: Environment<'a>,
    /// Whether `include` may read files; fuzzing must not.
    pub(crate) reads_files: bool,
    /// Whether a config without listeners is wrong.
    pub(crate) needs_listener: bool,
    /// The texts so far.
    pub(crate) sources: SourceMap,
    /// The diagnostics so far.
    pub(crate) diagnostics: Vec<Diagnostic>,
    /// Whether everything that was to be included could be read.
    pub(crate) is_whole: bool,
    /// Files under way or done, by their real path, with the place that included them.
    seen: Vec<(PathBuf, Option<SourceSpan>)>,
}

impl<'a> Loading<'a> {
    pub(crate) fn new(environment: Environment<'a>, reads_files: bool) -> Self {
        Self {
            environment,
            reads_files,
            needs_listener: true,
            sources: SourceMap::default(),
            diagnostics: Vec::new(),
            is_whole: true,
            seen: Vec::new(),
        }
    }

    /// Reports that something which was to be included is not there.
    fn report_missing(&mut self, span: SourceSpan, message: String, help: Option<&str>) {
        self.is_whole = false;
        self.diagnostics
            .push(Diagnostic::new(DiagnosticKind::Include, span, message).help_if(help.map(str::to_owned)));
    }
}

/// Parses a text and everything that it includes into one tree.
pub(crate) fn load(loading: &mut Loading<'_>, name: &str, text: String) -> TreeNode {
    if loading.reads_files
        && let Ok(path) = Path::new(name).canonicalize()
    {
        loading.seen.push((path, None));
    }
    let file = loading.sources.add(name, text);
    let mut whole = TreeTable::default();
    load_file(loading, file, &mut whole);
    TreeNode { span: SourceSpan::of_file(file), tree: Tree::Table(whole) }
}

fn load_file(loading: &mut Loading<'_>, file: FileIndex, whole: &mut TreeTable) {
    let node = parse_document(&loading.sources, file, loading.environment, &mut loading.diagnostics);
    let Tree::Table(table) = node.tree else { return };
    let included = table.find("include").map(|entry| entry.node.clone());
    let is_first = file == FileIndex(0);
    for entry in table.entries {
        if entry.key != "include" || is_first {
            join_entry(&mut loading.diagnostics, whole, entry, &[]);
        }
    }
    for (pattern, at) in included.iter().flat_map(patterns) {
        include(loading, file, &pattern, at, whole);
    }
}

/// The patterns of an `include`; values other than strings are reported when the key is read.
fn patterns(node: &TreeNode) -> Vec<(String, SourceSpan)> {
    match &node.tree {
        Tree::Text(text) => vec![(text.value.clone(), node.span)],
        Tree::List(list) => list.iter().flat_map(patterns).collect(),
        _ => Vec::new(),
    }
}

fn include(
    loading: &mut Loading<'_>,
    file: FileIndex,
    pattern: &str,
    span: SourceSpan,
    whole: &mut TreeTable,
) {
    if !loading.reads_files {
        return;
    }
    let folder = Path::new(&loading.sources.file(file).name).parent().unwrap_or(Path::new("")).to_owned();
    let is_folder = |found: &glob::GlobResult| found.as_ref().is_ok_and(|path| path.is_dir());
    let whole_pattern = Path::new(&glob::Pattern::escape(&folder.to_string_lossy())).join(pattern);
    let found = match glob::glob(&whole_pattern.to_string_lossy()) {
        Ok(found) => found.filter(|found| !is_folder(found)).take(FILES_MAX + 1).collect::<Vec<_>>(),
        Err(error) => {
            let message = format!("this is not a pattern of file names: {}", error.msg);
            return loading.report_missing(span, message, None);
        }
    };
    if found.is_empty() {
        report_nothing_found(loading, &folder, Path::new(pattern), span);
    }
    for found in found {
        match found {
            Ok(path) => include_file(loading, &path, span, whole),
            Err(error) => {
                let message = format!("`{}` cannot be read: {}", error.path().display(), error.error());
                loading.report_missing(span, message, None);
            }
        }
    }
}

/// A pattern need not match anything, but an existing folder in it has to be readable.
fn report_nothing_found(loading: &mut Loading<'_>, folder: &Path, pattern: &Path, span: SourceSpan) {
    let is_plain = |part: &Component<'_>| !part.as_os_str().to_string_lossy().contains(['*', '?', '[']);
    let plain: PathBuf = pattern.components().take_while(is_plain).collect();
    if plain == pattern {
        let missing = folder.join(pattern).display().to_string();
        let message = format!("there is no file `{missing}`");
        // So that a watcher of the files notices when it is created.
        loading.sources.add(missing, "");
        loading.report_missing(span, message, Some("the path is relative to the file that includes it"));
        return;
    }
    let looked_into = Path::new(".").join(folder).join(plain);
    match std::fs::read_dir(&looked_into) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            let message = format!("`{}` cannot be read: {error}", looked_into.display());
            loading.report_missing(span, message, None);
        }
        _ => {}
    }
}

fn include_file(loading: &mut Loading<'_>, path: &Path, span: SourceSpan, whole: &mut TreeTable) {
    let shown = path.display();
    if loading.sources.len() >= FILES_MAX {
        let message = format!("`{shown}` would be file {} of this configuration", FILES_MAX + 1);
        return loading.report_missing(span, message, Some("is the pattern too broad?"));
    }
    let read = path.canonicalize().and_then(|real| Ok((real, read_text(path, CONFIG_BYTES_MAX)?)));
    let (real, text) = match read {
        Ok(read) => read,
        Err(error) => {
            let message = format!("`{shown}` cannot be read: {error}");
            loading.sources.add(shown.to_string(), "");
            return loading.report_missing(span, message, None);
        }
    };
    if let Some((_, earlier)) = loading.seen.iter().find(|(seen, _)| *seen == real) {
        let mut diagnostic =
            Diagnostic::new(DiagnosticKind::Include, span, format!("`{shown}` is included twice"));
        if let Some(earlier) = earlier {
            diagnostic = diagnostic.label(*earlier, "the first time here");
        } else {
            diagnostic = diagnostic.help("it is the main file");
        }
        loading.diagnostics.push(diagnostic);
        return;
    }
    loading.seen.push((real, Some(span)));
    let file = loading.sources.add(shown.to_string(), text);
    load_file(loading, file, whole);
}

/// Adds one entry to the whole, or joins it with the entry of an earlier file under the same key.
pub(super) fn join_entry(
    diagnostics: &mut Vec<Diagnostic>,
    into: &mut TreeTable,
    entry: TreeEntry,
    path: &[&str],
) {
    let Some((entry, existing)) = into.add(entry) else { return };
    let joined = matches!(
        (path, entry.key.as_str()),
        ([], "block" | "listener" | "upstream" | "limit" | "list" | "table" | "routes_from")
            | (["listener"], _)
            | (["listener", _], "route")
    );
    match (&mut existing.node.tree, entry.node.tree) {
        (Tree::Table(into), Tree::Table(from)) if joined => {
            let key = entry.key;
            let path: Vec<&str> = path.iter().copied().chain([key.as_str()]).collect();
            for entry in from.entries {
                join_entry(diagnostics, into, entry, &path);
            }
        }
        (Tree::List(into), Tree::List(from)) if joined => into.extend(from),
        _ => {
            let whole_key = path.iter().copied().chain([entry.key.as_str()]).collect::<Vec<_>>().join(".");
            let diagnostic = Diagnostic::new(
                DiagnosticKind::Duplicate,
                entry.key_at,
                format!("`{whole_key}` is set twice"),
            );
            diagnostics.push(diagnostic.label(existing.key_at, "the first time here"));
        }
    }
}
