//! What a release is called and when it was made: the version of the workspace and the time of the commit.

use anyhow::Context as _;

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// The names and the time that all packages of one commit share.
pub(super) struct Release {
    pub(super) version: String,
    /// Seconds since 1970: `SOURCE_DATE_EPOCH` if it is set, else the time of the last commit. All times in packages are this one.
    pub(super) epoch: u64,
    /// As the compiler names it, such as `x86_64`.
    pub(super) architecture: String,
    pub(super) homepage: String,
}

/// Who is named in packages.
pub(super) const MAINTAINER: &str = "The Weir contributors <weir-proxy@users.noreply.github.com>";

impl Release {
    pub(super) fn of(workspace: &Workspace) -> anyhow::Result<Self> {
        let packages = workspace.metadata.workspace_packages();
        let weir = packages
            .iter()
            .find(|package| package.name.as_str() == "weir")
            .context("there is no package weir")?;
        let epoch = match std::env::var("SOURCE_DATE_EPOCH") {
            Ok(epoch) => epoch,
            Err(_) => ProgramRun::new(workspace, "git").args(["log", "-1", "--format=%ct"]).read()?,
        };
        let host = ProgramRun::new(workspace, "rustc").arg("-vV").read()?;
        let host =
            host.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc names no host")?;
        Ok(Self {
            version: weir.version.to_string(),
            epoch: epoch.trim().parse().context("SOURCE_DATE_EPOCH is a number of seconds")?,
            architecture: host.split('-').next().unwrap_or(host).to_owned(),
            homepage: weir.repository.clone().unwrap_or_default(),
        })
    }

    /// The time in a form of `date`, such as `+%Y-%m-%dT%H:%M:%SZ`.
    pub(super) fn time(&self, workspace: &Workspace, form: &str) -> anyhow::Result<String> {
        let date = ProgramRun::new(workspace, "date").env("LC_ALL", "C").args(["--utc", "--date"]);
        let printed = date.arg(format!("@{}", self.epoch)).arg(form).read()?;
        Ok(printed.trim_end().to_owned())
    }

    /// The target of the compiler with this C library.
    pub(super) fn target(&self, libc: &str) -> String {
        format!("{}-unknown-linux-{libc}", self.architecture)
    }
}
