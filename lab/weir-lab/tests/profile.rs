//! `--profile`: a flame graph of a real target where perf may sample, and a sentence where it may not.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test measures at a time: the others would take its CPUs.
fn measuring() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a short steady load on nginx with a profile and this PATH; returns the output and the report's page.
fn profiled(dir: &Path, path: &str) -> (String, String) {
    let save = format!("--save={}", dir.display());
    let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx"].into_iter().find(|file| Path::new(file).is_file());
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", "l7-keepalive", "--short", "--rounds", "1", "--targets", "nginx", "--profile", &save])
        .args(["--nginx", nginx.expect("nginx, which the README's test command installs")])
        .env("PATH", path)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    let folder =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    (said, std::fs::read_to_string(folder.unwrap().join("report.html")).unwrap())
}

#[test]
fn a_target_has_a_flame_graph_where_perf_may_sample() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let (said, page) = profiled(dir.path(), &std::env::var("PATH").unwrap());
    assert!(page.contains("Where the CPU time goes") && said.contains("Profile of nginx: "), "{said}");
    // Where it may not, the run has gone on and says so.
    if !said.contains("no profile: perf") {
        assert!(page.contains("Flame graph of nginx") && page.contains("samples, 100.0 %</title>"), "{said}");
    }
}

#[test]
fn without_perf_the_run_goes_on_and_says_so() {
    let _turn = measuring();
    let (dir, empty) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (said, page) = profiled(dir.path(), &empty.path().display().to_string());
    let why = "no profile: perf is not installed: apt-get install linux-perf";
    assert!(said.contains(why) && page.contains(why), "{said}");
}
