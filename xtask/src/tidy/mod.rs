//! `cargo xtask tidy`: the house style and the borders between the crates, made executable.
//!
//! Each check is a module that takes the tree as text and returns findings; none of them writes. What rustc, clippy,
//! rustfmt or typos can check is left to them. An exception needs an entry with its reason in `xtask/tidy.toml`.

mod text;
mod files;
mod folders;
mod items;
mod type_names;
mod documents;
mod imports;
mod protocols;
mod transports;
mod crates;
mod workspaces;
mod commits;
mod exceptions;
mod finding;
mod rule;
mod tree;
mod paths;
mod test_code;
mod words;

use anyhow::bail;

use self::exceptions::Exceptions;
use self::finding::Finding;
use self::rule::FindingLevel;
use self::tree::SourceTree;
use crate::lab;
use crate::workspace::Workspace;

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    let tree = SourceTree::read(workspace.root())?;
    let exceptions = Exceptions::read(workspace.root())?;
    let mut findings = check(&tree);
    findings.extend(text::check_machine_paths(&tree, &text::machine_paths(workspace.root())));
    findings.extend(crates::check_dependencies(&crates::Graph::of(&[
        &workspace.metadata,
        &lab::metadata(workspace.root())?,
    ])?));
    findings.extend(commits::check(workspace.root()));
    let findings = exceptions.apply(findings);
    report(&findings, tree.files().len())
}

/// All checks that need nothing but the files.
fn check(tree: &SourceTree) -> Vec<Finding> {
    let checks = [
        text::check,
        files::check,
        folders::check,
        items::check,
        type_names::check,
        documents::check,
        imports::check,
        protocols::check,
        transports::check,
        crates::check_sources,
        workspaces::check,
    ];
    checks.iter().flat_map(|check| check(tree)).collect()
}

fn report(findings: &[Finding], files: usize) -> anyhow::Result<()> {
    let (errors, notes): (Vec<&Finding>, Vec<&Finding>) =
        findings.iter().partition(|finding| finding.rule.level() == FindingLevel::Error);
    for finding in notes.iter().chain(&errors) {
        println!("{finding}");
    }
    if !errors.is_empty() {
        bail!("{} findings in {files} files", errors.len());
    }
    println!("{files} files are tidy; {} notes.", notes.len());
    Ok(())
}
