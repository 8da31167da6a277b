//! The commands as somebody types them: what they print, where, and with which exit code.
//!
//! What `weir serve` does with requests belongs to the folders beside this one.

mod config_commands;
mod check;
mod explain;
mod demo;
mod generated;
mod lab;
mod start;

use std::path::PathBuf;
use std::process::{Output, Stdio};

use tempfile::TempDir;

use crate::harness::weir::command;

/// What a command left behind.
#[derive(Debug)]
struct Done {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the program to its end.
fn run(arguments: &[&str]) -> Done {
    let output =
        command(arguments).stdin(Stdio::null()).output().expect("the program was built with this test");
    let Output { status, stdout, stderr } = output;
    Done { code: status.code(), stdout: utf8(stdout), stderr: utf8(stderr) }
}

fn utf8(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).expect("the program writes UTF-8")
}

/// A config in a folder of its own.
struct ConfigFile {
    _folder: TempDir,
    path: PathBuf,
}

impl ConfigFile {
    fn new(text: &str) -> ConfigFile {
        let folder = TempDir::new().expect("the system has a folder for temporary files");
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, text).expect("the test owns the folder");
        ConfigFile { _folder: folder, path }
    }

    fn path(&self) -> &str {
        self.path.to_str().expect("temporary paths are UTF-8")
    }
}
