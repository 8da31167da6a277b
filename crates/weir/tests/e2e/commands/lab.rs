//! `weir lab`: the lab beside the program, or on the PATH, gets the command line as it was typed.

use crate::harness::{CommandResult, temporary_folder};
use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

/// A folder with the program in it, and nothing else: it lies where the program was built, so that a link will do.
fn folder_with_weir() -> (TempDir, PathBuf) {
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the build has a folder for this");
    let program = folder.path().join("weir");
    std::fs::hard_link(env!("CARGO_BIN_EXE_weir"), &program).expect("both are below the target folder");
    (folder, program)
}

fn run(program: &Path, arguments: &[&str], path: &OsStr) -> CommandResult {
    CommandResult::new(Command::new(program).args(arguments).env("PATH", path))
}

/// A lab that says how it was called, and ends with an exit code of its own.
fn put_lab(folder: &Path, name: &str) {
    let path = folder.join("weir-lab");
    std::fs::write(&path, format!("#!/bin/sh\necho {name} \"$@\"\nexit 7\n"))
        .expect("the test owns the folder");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("the test owns the file");
}

#[test]
fn the_lab_gets_the_command_line_as_it_was_typed() {
    let (folder, weir) = folder_with_weir();
    let elsewhere = temporary_folder();
    put_lab(elsewhere.path(), "on-the-path");
    let typed = ["lab", "run", "l7-keepalive", "--short", "--help", "-x"];
    let done = run(&weir, &typed, elsewhere.path().as_os_str());
    assert_eq!(
        (done.code, done.stdout.as_str()),
        (Some(7), "on-the-path run l7-keepalive --short --help -x\n")
    );
    put_lab(folder.path(), "beside");
    let done = run(&weir, &["lab"], elsewhere.path().as_os_str());
    assert_eq!((done.code, done.stdout.as_str()), (Some(7), "beside\n"));
}

#[test]
fn without_a_lab_it_says_how_to_get_one() {
    let (_folder, weir) = folder_with_weir();
    let done = run(&weir, &["lab", "list"], OsStr::new(""));
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("no weir-lab"), "{done:?}");
    // The command that it names finds a workspace with the lab.
    let (_, command) = done.stderr.split_once("cargo build").expect("it says how the lab is built");
    let named: Vec<&str> = command.split_whitespace().collect();
    let after = |option| named.windows(2).find(|pair| pair[0] == option).map(|pair| pair[1]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = root.join(after("--manifest-path").expect("it is not of the workspace of Weir"));
    assert!(manifest.is_file() && manifest.with_file_name("weir-lab/Cargo.toml").is_file(), "{done:?}");
    assert_eq!((after("--target-dir"), after("-p")), (Some("target"), Some("weir-lab")), "beside weir");
}
