//! Counts the instructions that a program executes, with valgrind's callgrind, and keeps the profile as long as it lives.
//!
//! valgrind shows programs a processor of its own, the same on every host, so library routines that choose their code by
//! processor choose alike everywhere.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// One run under valgrind and the profile that it leaves.
pub(super) struct Callgrind {
    profile: PathBuf,
}

impl Callgrind {
    /// Its profile goes into `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { profile: folder.join(format!("callgrind.{}.out", std::process::id())) }
    }

    /// The arguments of `valgrind`, ahead of the program to run.
    pub(super) fn args(&self) -> [OsString; 3] {
        let mut file = OsString::from("--callgrind-out-file=");
        file.push(&self.profile);
        ["--tool=callgrind".into(), "--quiet".into(), file]
    }

    /// The file that is there once the program has ended.
    pub(super) fn profile(&self) -> &Path {
        &self.profile
    }

    /// The instructions of all threads of the program, which has ended.
    pub(super) fn total(&self) -> anyhow::Result<u64> {
        let text = fs::read_to_string(&self.profile);
        let text = text.with_context(|| format!("cannot read {}", self.profile.display()))?;
        total(&text).context("callgrind's profile has no total of instructions")
    }
}

impl Drop for Callgrind {
    fn drop(&mut self) {
        // There is none when the program did not come to its end.
        fs::remove_file(&self.profile).ok();
    }
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
