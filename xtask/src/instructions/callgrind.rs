//! Counts the instructions that a program executes, with valgrind's callgrind.
//!
//! valgrind shows programs a processor of its own, the same on every host, so library routines that choose their code by
//! processor choose alike everywhere.

use std::fs;
use std::path::Path;

use anyhow::Context as _;

use crate::process::Process;
use crate::workspace::Workspace;

/// Runs `binary` with `args` and the number of exchanges, and returns the instructions of all its threads.
pub(super) fn count(
    workspace: &Workspace,
    binary: &Path,
    args: &[&str],
    exchanges: u64,
) -> anyhow::Result<u64> {
    let file = workspace.target().join(format!("callgrind.{}.out", std::process::id()));
    Process::new(workspace, "valgrind")
        .args(["--tool=callgrind", "--quiet"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(binary)
        .args(args)
        .arg(exchanges.to_string())
        .run()?;
    let profile = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    fs::remove_file(&file).ok();
    total(&profile).context("callgrind's profile has no total of instructions")
}

/// The sum over the whole profile: `totals:` at its end, one number per event. The only event here is `Ir`.
fn total(profile: &str) -> Option<u64> {
    let value = |key: &str| profile.lines().rev().find_map(|line| line.strip_prefix(key));
    (value("events: ")?.trim() == "Ir").then_some(())?;
    value("totals: ")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILE: &str = "# callgrind format\nversion: 1\ncmd:  /bin/true \npart: 1\n\npositions: line\nevents: Ir\n\
                           summary: 119\n\nfn=(1) main\n0 100\n5 19\n\ntotals: 119\n";

    #[test]
    fn the_total_is_read() {
        assert_eq!(total(PROFILE), Some(119));
    }

    #[test]
    fn other_events_or_a_cut_profile_count_for_nothing() {
        assert_eq!(total(&PROFILE.replace("events: Ir", "events: Ir Dr")), None);
        assert_eq!(total(&PROFILE.replace("totals: 119\n", "")), None);
        assert_eq!(total(""), None);
    }
}
