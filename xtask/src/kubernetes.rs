//! `cargo xtask kubernetes`: Weir in a real Kubernetes, judged by the conformance suite of the Gateway API.
//!
//! Control plane, node agent and suite are the Go module `lab/kubernetes`, built once into `target/tools` for each state of its sources.
//! Its program runs everything in namespaces of its own, which the kernel removes with it. Needs Go, nftables and root; where there is
//! no Go, the step of `ci` is left out and says so.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;

use crate::built_programs;
use crate::process::ProgramRun;
use crate::workspace::Workspace;

const MODULE: &str = "lab/kubernetes";
/// The version of the Kubernetes modules in `go.mod`, which the API server reports.
const KUBERNETES_VERSION: &str = "v1.36.3";
const DEFINITIONS_MODULE: &str = "sigs.k8s.io/gateway-api";
const ECHO: &str = "sigs.k8s.io/gateway-api/conformance/echo-basic";
/// 9 minutes of processor time on an empty cache, and 1.5 GB of modules.
const BUILD_LIMIT: Duration = Duration::from_secs(30 * 60);
/// The suite takes 2 to 4 minutes.
const RUN_LIMIT: Duration = Duration::from_secs(25 * 60);
/// What `ci` runs.
const PROFILES_CI: &str = "GATEWAY-HTTP,GATEWAY-TLS,GATEWAY-GRPC";
/// All that the suite has for Gateways.
const PROFILES_ALL: &str = "GATEWAY-HTTP,GATEWAY-TLS,GATEWAY-GRPC,GATEWAY-TCP";

#[derive(Args, Default)]
pub(crate) struct ConformanceArguments {
    /// Also the profiles that `ci` leaves out
    #[arg(long)]
    all: bool,
    /// Run one test of the suite, by its name
    #[arg(long, value_name = "NAME")]
    test: Option<String>,
    /// Install Weir by its manifests, whose controller makes a Deployment for each Gateway, instead of making them here
    #[arg(long)]
    controller: bool,
    /// Build the programs and stop
    #[arg(long)]
    build: bool,
}

/// The step of `ci`.
pub(crate) fn step(workspace: &Workspace) -> anyhow::Result<()> {
    if ProgramRun::new(workspace, "go").arg("version").read().is_err() {
        println!("Left out: Go builds the API server (apt-get install golang).");
        return Ok(());
    }
    run(workspace, &ConformanceArguments::default())
}

pub(crate) fn run(workspace: &Workspace, arguments: &ConformanceArguments) -> anyhow::Result<()> {
    let programs = ready(workspace)?;
    if arguments.build {
        println!("{}", programs.display());
        return Ok(());
    }
    // The program that the tests run: a build without them would give dependencies other features, and compile them anew.
    ProgramRun::cargo(workspace).args(["test", "--workspace", "--all-features", "--no-run"]).run()?;
    let logs = workspace.target().join("kubernetes");
    if logs.exists() {
        fs::remove_dir_all(&logs).with_context(|| format!("cannot remove {}", logs.display()))?;
    }
    fs::create_dir_all(&logs)?;
    let mut conformance = ProgramRun::new(workspace, programs.join("kubernetes"))
        .arg("conformance")
        .arg("--weir")
        .arg(workspace.target().join("debug").join("weir"))
        .arg("--logs")
        .arg(&logs)
        .arg("--report")
        .arg(logs.join("report.yaml"))
        .args(["--version", env!("CARGO_PKG_VERSION")])
        .args(["--profiles", if arguments.all { PROFILES_ALL } else { PROFILES_CI }])
        .limit(RUN_LIMIT);
    if arguments.controller {
        conformance =
            conformance.arg("--manifests").arg(workspace.root().join("packaging/kubernetes/all-secrets"));
    }
    if let Some(name) = &arguments.test {
        conformance = conformance.args(["--test", name]);
    }
    let ran = conformance.run();
    println!("What each program wrote, and the conformance report: {}", logs.display());
    ran
}

/// The folder with the programs, after building them if they are not those of the sources.
pub(crate) fn ready(workspace: &Workspace) -> anyhow::Result<PathBuf> {
    let folder = built_programs::folder(workspace, "kubernetes", MODULE)?;
    if folder.exists() {
        return Ok(folder);
    }
    let unfinished = folder.with_extension("unfinished");
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished)?;
    }
    fs::create_dir_all(&unfinished)?;
    let in_module = |arguments: &[&str]| {
        ProgramRun::new(workspace, "nice")
            .args(["-n", "10", "go", "-C", MODULE])
            .args(arguments)
            .env("CGO_ENABLED", "0")
            .limit(BUILD_LIMIT)
    };
    let version = format!("-s -w -X k8s.io/component-base/version.gitVersion={KUBERNETES_VERSION}");
    in_module(&["build", "-trimpath", "-ldflags", &version, "-o"])
        .arg(&unfinished)
        .args([".", "./pod", ECHO])
        .run()
        .context("Go builds the API server: apt-get install golang")?;
    let module = in_module(&["list", "-m", "-f", "{{.Dir}}", DEFINITIONS_MODULE]).read()?;
    copy_definitions(&Path::new(module.trim()).join("config/crd/experimental"), &unfinished.join("crds"))?;
    fs::rename(&unfinished, &folder)?;
    Ok(folder)
}

fn copy_definitions(from: &Path, into: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(into)?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let entry = entry?;
        if entry.file_name() == "kustomization.yaml" {
            continue;
        }
        // Written anew: the files of a Go module are read-only.
        fs::write(into.join(entry.file_name()), fs::read(entry.path())?)?;
    }
    Ok(())
}
