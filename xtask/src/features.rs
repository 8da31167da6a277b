//! Builds of Weir without cargo features, and with half of them: no warnings, and the messages where a feature is missing.
//!
//! All other steps build with all features, so that only this one sees code that is compiled without one.

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// Two halves, then none: what compiles in one half alone needs nothing of the other, and the halves are chosen so that what is near each other
/// is apart. Tests are looked at without features only: with all of them they are in the other lints.
const CHOICES: [&[&str]; 3] = [
    &["--features", "weir/kubernetes,weir/traces", "--lib", "--bins"],
    &["--features", "weir/profiler,weir/top,weir/xds", "--lib", "--bins"],
    &["--all-targets"],
];

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
            .args(["--", "-D", "warnings"])
            .run()?;
    }
    ProgramRun::cargo(workspace).arg("test").args(PACKAGES).arg("--").args(TESTS).run()
}
