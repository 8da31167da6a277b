//! `cargo xtask`: the one entry point for everything that a developer or CI runs.
//!
//! Each command is a module. This file only parses the command line and says which module runs; the commands start
//! other programs (cargo, valgrind, the lab) and judge what they say. Nothing here is part of Weir itself.

mod check;

mod ci;
mod test;
mod features;
mod tidy;
mod matrix;
mod former_faults;
mod import_proof;
mod generate;
mod gateway_types;
mod deny;
mod typos;
mod fuzz;
mod bench;
mod instructions;
mod package;
mod xds;
mod manifests;
mod helm;
mod kubernetes;
mod consul;
mod setup;
mod peers;

mod summary;
mod packages;
mod recorded;
mod built_programs;
mod go_programs;
mod wheel;
mod tools;
mod dist;
mod lab;
mod process;
mod workspace;
mod clock;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Everything that a developer or CI runs",
    arg_required_else_help = true
)]
struct XtaskArguments {
    #[command(subcommand)]
    command: XtaskCommand,
}

#[derive(Subcommand)]
enum XtaskCommand {
    /// Run every check that a change must pass, and list all that failed at the end
    Ci(ci::CiArguments),
    /// Check what the files that changed need: style, lints, the tests of their crates and the end-to-end tests that belong to them
    Check(check::ChangeArguments),
    /// Run all tests; with further arguments, which go to `cargo test`, those of the lab are left out
    Test(test::TestArguments),
    /// Try combinations of protocols, features, bodies and events on the program, between scripted peers, and judge every byte
    Matrix(matrix::MatrixArguments),
    /// Prove an import: the original program and Weir get the same requests, and all that differs is judged; needs root and the program
    ImportProof(import_proof::ImportProofArguments),
    /// Import every file of a folder, and say what became of them
    ImportCoverage(import_proof::ImportCoverageArguments),
    /// Check the house style and the borders between the crates
    Tidy,
    /// Write the files that are generated from the code anew
    Generate(generate::GenerateArguments),
    /// Build Weir and the lab for release and run scenarios of the lab
    Bench(bench::BenchArguments),
    /// Count the instructions of user code under valgrind and compare them with the recorded ones
    Instructions(instructions::InstructionsArguments),
    /// Make what people install, under target/package: Debian packages, a static tarball, a container image, a bill of materials
    Package(package::PackageArguments),
    /// Run Weir in a real Kubernetes on this machine and judge it by the conformance suite of the Gateway API; needs Go, nftables and root
    Kubernetes(kubernetes::ConformanceArguments),
    /// Lint the Helm chart, compare the manifests of Kubernetes with what it renders, and install both in a real Kubernetes on this machine; needs Go, nftables and root
    Manifests(manifests::ManifestsArguments),
    /// Build the real Consul, which takes minutes the first time, and run the tests that need it; needs Go
    Consul,
    /// Build the control plane of `lab/xds` out of go-control-plane, and run the tests that need it; needs Go
    Xds,
    /// Run each fuzz target for a while
    Fuzz(fuzz::FuzzArguments),
    /// Write the types of the Gateway API anew, from the definitions of its release; needs Go
    GatewayTypes(gateway_types::GatewayTypesArguments),
    /// Install the programs that the other commands start
    Setup,
    /// Unpack current releases of the balancers that the lab compares with, out of Debian unstable, under target/peers
    Peers(peers::PeersArguments),
}

fn main() -> ExitCode {
    match run(XtaskArguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: XtaskCommand) -> anyhow::Result<()> {
    let workspace = Workspace::find()?;
    match command {
        XtaskCommand::Ci(arguments) => ci::run(&workspace, &arguments),
        XtaskCommand::Check(arguments) => check::run(&workspace, &arguments),
        XtaskCommand::Test(arguments) => test::run(&workspace, &arguments),
        XtaskCommand::Matrix(arguments) => matrix::run(&workspace, &arguments),
        XtaskCommand::ImportProof(arguments) => import_proof::run(&workspace, &arguments),
        XtaskCommand::ImportCoverage(arguments) => import_proof::run_coverage(&workspace, &arguments),
        XtaskCommand::Tidy => tidy::run(&workspace),
        XtaskCommand::Generate(arguments) => generate::run(&workspace, &arguments),
        XtaskCommand::Bench(arguments) => bench::run(&workspace, &arguments),
        XtaskCommand::Instructions(arguments) => instructions::run(&workspace, &arguments),
        XtaskCommand::Package(arguments) => package::run(&workspace, &arguments),
        XtaskCommand::Kubernetes(arguments) => kubernetes::run(&workspace, &arguments),
        XtaskCommand::Manifests(arguments) => manifests::run(&workspace, &arguments),
        XtaskCommand::Consul => consul::run(&workspace),
        XtaskCommand::Xds => xds::run(&workspace),
        XtaskCommand::Fuzz(arguments) => fuzz::run(&workspace, &arguments),
        XtaskCommand::GatewayTypes(arguments) => gateway_types::run(&workspace, &arguments),
        XtaskCommand::Setup => setup::run(&workspace),
        XtaskCommand::Peers(arguments) => peers::run(&workspace, &arguments),
    }
}
