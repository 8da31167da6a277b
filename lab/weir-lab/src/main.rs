//! The program `weir-lab`: everything is in the library.

use std::process::ExitCode;

use weir_lab::process::Launcher;

fn main() -> ExitCode {
    let program = std::env::current_exe().unwrap_or_else(|_| "weir-lab".into());
    weir_lab::cli::main(std::env::args(), &Launcher { program, prefix: Vec::new() })
}
