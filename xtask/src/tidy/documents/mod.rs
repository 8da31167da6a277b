//! Checks on documents: links, decisions and their index, paths that are named, wordings.
//!
//! Each topic is a file. Markdown among sources is a piece of some other document and is not checked here, but for its wordings.

mod decisions;
mod named_paths;
mod wordings;
mod links;

use super::finding::Finding;
use super::tree::{SourceTree, TextFile};

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let checks = [links::check, decisions::check, named_paths::check, wordings::check];
    checks.iter().flat_map(|check| check(tree)).collect()
}

/// The documents of the tree.
fn all(tree: &SourceTree) -> impl Iterator<Item = &TextFile> {
    tree.files().iter().filter(|file| file.path.ends_with(".md") && !file.path.contains("/src/"))
}
