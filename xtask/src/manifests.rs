//! `cargo xtask manifests`: the manifests under `packaging/kubernetes` are what the Helm chart renders.
//!
//! Helm is not in Debian, so this is no step of `ci`: it is started by hand after a change of the chart, with `helm` in the PATH.

use std::fmt::Write as _;
use std::fs;

use anyhow::{Context as _, bail};
use clap::Args;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

const CHART: &str = "packaging/helm/weir";
const KUBERNETES_VERSION: &str = "1.36.0";

/// Values with which the chart has to be right although no manifest has them.
const LINTED: [&str; 3] = [
    "ingress.enabled=true",
    "ingress.enabled=true,ingress.class.default=true,ingress.defaultCertificate=infra/wildcard",
    "ingress.enabled=true,ingress.service.type=ClusterIP,ingress.class.create=false",
];

/// Values that the schema of the chart has to refuse.
const REFUSED: [&str; 3] = ["ingress.replicas=0", "ingress.defaultCertificate=wildcard", "ingress.ports=80"];

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

#[derive(Args)]
pub(crate) struct ManifestsArguments {
    /// Write the files in place of comparing them
    #[arg(long)]
    write: bool,
}

pub(crate) fn run(workspace: &Workspace, arguments: &ManifestsArguments) -> anyhow::Result<()> {
    helm(workspace)
        .arg("version")
        .read()
        .context("this needs Helm 3 in the PATH: https://helm.sh/docs/intro/install")?;
    helm(workspace).args(["lint", "--strict", CHART]).run()?;
    for values in LINTED {
        helm(workspace).args(["lint", "--strict", CHART, "--set", values]).run()?;
    }
    for values in REFUSED {
        let template = ["template", "weir", CHART, "--kube-version", KUBERNETES_VERSION, "--set", values];
        let (status, _output) = helm(workspace).args(template).run_and_keep()?;
        if status.success() {
            bail!("the schema of the chart takes `{values}`");
        }
    }
    for manifest in &MANIFESTS {
        let rendered = render(workspace, manifest)?;
        let path = workspace.root().join(manifest.file);
        if arguments.write {
            fs::write(&path, rendered).with_context(|| format!("cannot write {}", path.display()))?;
        } else if fs::read_to_string(&path)? != rendered {
            bail!("{} is not what the chart renders: cargo xtask manifests --write", manifest.file);
        }
    }
    Ok(())
}

fn helm(workspace: &Workspace) -> ProgramRun {
    ProgramRun::new(workspace, "helm").finds_tools(workspace)
}

fn render(workspace: &Workspace, manifest: &Manifest) -> anyhow::Result<String> {
    let Manifest { namespace, arguments, .. } = manifest;
    let template =
        ["template", "weir", CHART, "--kube-version", KUBERNETES_VERSION, "--namespace", namespace];
    let rendered = helm(workspace).args(template).args(*arguments).read()?;
    let command: Vec<&str> = template.iter().chain(*arguments).copied().collect();
    let mut text = format!("# Rendered from {CHART}: helm {}\n", command.join(" "));
    let _infallible = write!(
        text,
        "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {namespace}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n"
    );
    for line in rendered.lines().filter(|line| !line.starts_with("# Source:")) {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    Ok(text)
}
