//! `cargo xtask manifests`: the manifests under `packaging/kubernetes` are what the Helm chart renders, and a real API server takes both.
//!
//! Helm is not in Debian: it is built with Go, which takes minutes the first time, so this is a step of `ci --all` alone. With `--write` the
//! files are written and nothing is installed.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;
use crate::{helm, kubernetes};

const CHART: &str = "packaging/helm/weir";
const KUBERNETES_VERSION: &str = "1.36.0";

/// The oldest version that the chart is for.
const KUBERNETES_VERSION_OLDEST: &str = "1.30.0";

/// Starting a cluster, and everything twice.
const TRIAL_LIMIT: Duration = Duration::from_secs(15 * 60);

/// Values with which the chart has to be right although no manifest has them: files in its folder `ci`.
const VALUES: [&str; 3] = ["everything", "ingress", "least"];

/// Those that are installed beside the manifests, and the namespace and the name of that release.
const INSTALLED: (&str, &str) = ("everything", "edge");

/// Values that the schema of the chart has to refuse.
const REFUSED: [&str; 5] = [
    "ingress.replicas=0",
    "ingress.defaultCertificate=wildcard",
    "ingress.ports=80",
    "networkPolicy.apiServerPorts={https}",
    "image.tags=1",
];

/// What is rendered into a file.
struct Manifest {
    file: &'static str,
    namespace: &'static str,
    arguments: &'static [&'static str],
}

const MANIFESTS: [Manifest; 3] = [
    Manifest { file: "packaging/kubernetes/weir.yaml", namespace: "weir-system", arguments: &[] },
    Manifest {
        file: "packaging/kubernetes/all-secrets/weir.yaml",
        namespace: "weir-system",
        arguments: &["--set", "gateways.allSecrets=true"],
    },
    Manifest {
        file: "packaging/kubernetes/ingress.yaml",
        namespace: "weir-ingress",
        arguments: &["--set", "ingress.enabled=true", "--show-only", "templates/ingress.yaml"],
    },
];

/// The manifests that have the names of others: they are tried without being kept.
const ALTERNATIVES: [&str; 1] = ["packaging/kubernetes/all-secrets/weir.yaml"];

#[derive(Args, Default)]
pub(crate) struct ManifestsArguments {
    /// Write the files in place of comparing them
    #[arg(long, conflicts_with = "compare")]
    write: bool,
    /// Compare the files, and install nothing
    #[arg(long)]
    compare: bool,
}

/// The step of `ci --all`.
pub(crate) fn step(workspace: &Workspace) -> anyhow::Result<()> {
    if ProgramRun::new(workspace, "go").arg("version").read().is_err() {
        println!("Left out: Go builds Helm and the API server (apt-get install golang).");
        return Ok(());
    }
    run(workspace, &ManifestsArguments::default())
}

pub(crate) fn run(workspace: &Workspace, arguments: &ManifestsArguments) -> anyhow::Result<()> {
    let chart = HelmChart { workspace, program: helm::ready(workspace)? };
    chart.lint()?;
    for manifest in &MANIFESTS {
        let rendered = chart.manifest(manifest)?;
        let path = workspace.root().join(manifest.file);
        if arguments.write {
            fs::write(&path, rendered).with_context(|| format!("cannot write {}", path.display()))?;
        } else if fs::read_to_string(&path)? != rendered {
            bail!("{} is not what the chart renders: cargo xtask manifests --write", manifest.file);
        }
    }
    if arguments.write || arguments.compare {
        return Ok(());
    }
    install(workspace, &chart)
}

/// Applies all of it to a real API server, and has it serve.
fn install(workspace: &Workspace, chart: &HelmChart<'_>) -> anyhow::Result<()> {
    let folder = workspace.target().join("manifests");
    if folder.exists() {
        fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    }
    fs::create_dir_all(&folder)?;
    let (values, release) = INSTALLED;
    let installed = folder.join("chart.yaml");
    fs::write(&installed, namespace_of(release) + &chart.values(values, release, KUBERNETES_VERSION)?)?;
    let programs = kubernetes::ready(workspace)?;
    // The program that the tests run: a build without one of them would give dependencies other features, and compile them anew.
    ProgramRun::cargo(workspace)
        .args([
            "build",
            "--workspace",
            "--all-features",
            "--bin",
            "weir",
            "--bin",
            "xtask",
            "--test",
            "eviction",
        ])
        .run()?;
    let mut trial = ProgramRun::new(workspace, programs.join("kubernetes"))
        .arg("manifests")
        .arg("--weir")
        .arg(workspace.target().join("debug").join("weir"))
        .arg("--logs")
        .arg(folder.join("logs"))
        .args(["--releases", &format!("weir-system/weir,{release}/{release}")])
        .arg("--helm")
        .arg(&chart.program)
        .arg("--chart")
        .arg(workspace.root().join(CHART))
        .limit(TRIAL_LIMIT);
    for file in ALTERNATIVES {
        trial = trial.arg("--alternative").arg(workspace.root().join(file));
    }
    let kept = MANIFESTS.iter().map(|manifest| manifest.file).filter(|file| !ALTERNATIVES.contains(file));
    trial.args(kept.map(|file| workspace.root().join(file))).arg(installed).run()
}

/// The chart, as Helm reads it.
struct HelmChart<'a> {
    workspace: &'a Workspace,
    program: PathBuf,
}

impl HelmChart<'_> {
    fn helm(&self) -> ProgramRun {
        ProgramRun::new(self.workspace, &self.program)
    }

    /// It is right with all values that are tried, for all versions, and refuses wrong ones.
    fn lint(&self) -> anyhow::Result<()> {
        self.helm().args(["lint", "--strict", CHART]).run()?;
        for values in VALUES {
            self.helm().args(["lint", "--strict", CHART, "--values", &file_of(values)]).run()?;
            for version in [KUBERNETES_VERSION_OLDEST, KUBERNETES_VERSION] {
                self.values(values, "lint", version)?;
            }
        }
        for values in REFUSED {
            let template = ["template", "weir", CHART, "--kube-version", KUBERNETES_VERSION, "--set", values];
            let (status, _output) = self.helm().args(template).run_and_keep()?;
            if status.success() {
                bail!("the schema of the chart takes `{values}`");
            }
        }
        Ok(())
    }

    /// What it renders with the values of a file of `ci`, for a release with the name of its namespace.
    fn values(&self, values: &str, release: &str, version: &str) -> anyhow::Result<String> {
        let template = ["template", release, CHART, "--kube-version", version, "--namespace", release];
        self.helm().args(template).args(["--values", &file_of(values)]).read()
    }

    /// The text of a manifest.
    fn manifest(&self, manifest: &Manifest) -> anyhow::Result<String> {
        let Manifest { namespace, arguments, .. } = manifest;
        let template =
            ["template", "weir", CHART, "--kube-version", KUBERNETES_VERSION, "--namespace", namespace];
        let rendered = self.helm().args(template).args(*arguments).read()?;
        let command: Vec<&str> = template.iter().chain(*arguments).copied().collect();
        let mut text = format!("# Rendered from {CHART}: helm {}\n", command.join(" "));
        text.push_str(&namespace_of(namespace));
        for line in rendered.lines().filter(|line| !line.starts_with("# Source:")) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        Ok(text)
    }
}

fn file_of(values: &str) -> String {
    format!("{CHART}/ci/{values}-values.yaml")
}

/// The namespace that Helm would make, with the label that has pods checked.
fn namespace_of(name: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {name}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    )
}
