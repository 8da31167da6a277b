//! Builds of Weir without cargo features, and with half of them: no warnings, and the messages where a feature is missing.
//!
//! All other steps build with all features, so that only this one sees code that is compiled without one. Each command is for the whole workspace:
//! with fewer packages, dependencies would have other features, and be compiled anew.

use crate::process::ProgramRun;
use crate::workspace::Workspace;

/// Two halves, then none: what compiles in one half alone needs nothing of the other, and the halves are chosen so that what is near each other
/// is apart. Tests are looked at without features only: with all of them they are in the other lints. The one test that is named makes cargo take
/// the features of dependencies that all tests together need, as the other steps do.
const CHOICES: [&[&str]; 3] = [
    &["--features", "weir/kubernetes,weir/traces", "--lib", "--bins", "--test", "eviction"],
    &[
        "--features",
        "weir/geoip,weir/http3,weir/profiler,weir/top,weir/xds",
        "--lib",
        "--bins",
        "--test",
        "eviction",
    ],
    &["--all-targets"],
];

/// Tests whose names contain one of these expect something else of a build without features.
const TESTS: [&str; 2] = ["features::", "left_out::"];

pub(crate) fn run(workspace: &Workspace) -> anyhow::Result<()> {
    for features in CHOICES {
        ProgramRun::cargo(workspace)
            .args(["clippy", "--workspace"])
            .args(features)
            .args(["--", "-D", "warnings"])
            .run()?;
    }
    ProgramRun::cargo(workspace).args(["test", "--workspace", "--"]).args(TESTS).run()
}
