//! The examples of the repository that are folders, each run as its config says, with the software that it is for.
//!
//! Configs are taken as they are but for addresses, paths and what a test names. What they have to say to nginx and HAProxy, and that
//! the page about them shows what is there, is in `pages`.

mod django;
mod node;
mod postgresql;
mod redis;
mod mariadb;
mod pages;
mod sites;

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::harness::foreign_program::{output_of, unprivileged_command};

/// The folder of the examples.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").canonicalize().expect("there are examples")
}

/// An example's config in which each of `replacements`, which has to be there, is replaced. It has an admin listener besides.
fn config(file: &str, replacements: &[(&str, &str)]) -> String {
    let path = folder().join(file);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let text = replacements.iter().fold(text, |text, (from, to)| {
        assert!(text.contains(from), "{file} does not say {from}");
        text.replace(from, to)
    });
    format!("admin.address = \"127.0.0.1:0\"\n{text}")
}

/// Copies the data of a database that does not run yet to those of `folders` that lack it.
fn copy_to_others(data: &Path, folders: &[TempDir]) {
    let name = data.file_name().expect("a folder has a name");
    for other in folders.iter().map(|folder| folder.path().join(name)).filter(|other| other != data) {
        let mut copy = unprivileged_command("cp");
        copy.arg("--archive").arg(data).arg(other);
        output_of(copy);
    }
}
