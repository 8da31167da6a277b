//! Builds of Weir without cargo features, and with half of them: no warnings, and the messages where a feature is missing.
//!
//! All other steps build with all features, so that only this one sees code that is compiled without one.

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// None, and two halves: what compiles in one half alone needs nothing of the other, and the halves are chosen so that what is near each other
/// is apart.
const CHOICES: [&[&str]; 3] =
    [&["--features", "weir/kubernetes,weir/traces"], &["--features", "weir/profiler,weir/top,weir/xds"], &[]];

/// The packages that have the features.
const PACKAGES: [&str; 6] = ["--package", "weir", "--package", "weir-control", "--package", "weir-discovery"];

/// Tests whose names contain one of these expect something else of a build without features.
const TESTS: [&str; 2] = ["features::", "left_out::"];

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    for features in CHOICES {
        ProgramRun::cargo(workspace)
            .arg("clippy")
            .args(PACKAGES)
            .args(features)
            .args(["--all-targets", "--", "-D", "warnings"])
            .run()?;
    }
    ProgramRun::cargo(workspace).arg("test").args(PACKAGES).arg("--").args(TESTS).run()
}
