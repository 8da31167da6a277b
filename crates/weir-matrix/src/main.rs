//! `weir-matrix`: see the library. `cargo xtask matrix` builds the program and starts this one.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match weir_matrix::cli::run(&weir_matrix::cli::MatrixArguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
