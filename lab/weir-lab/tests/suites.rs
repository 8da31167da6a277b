//! The scenarios about clients and reloads on real products, and suites of scenarios.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test measures at a time: the others would take its CPUs.
fn measuring() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-lab")).args(args).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// Runs `scenario` briefly on `targets` into `dir`; gives its measurements.
fn measured(dir: &Path, scenario: &str, targets: &str) -> Vec<serde_json::Value> {
    let dir = dir.join(scenario);
    let save = format!("--save={}", dir.display());
    let output = lab(&["run", scenario, "--short", "--rounds", "1", "--targets", targets, &save]);
    assert!(output.status.success(), "{}", text(&output));
    let folder = std::fs::read_dir(&dir).unwrap().next().unwrap().unwrap().path();
    let run = read_run(&folder);
    run["measurements"].as_array().unwrap().clone()
}

/// These targets, and Weir where it is built.
fn with_weir(targets: &str) -> String {
    let weir = Path::new(env!("CARGO_BIN_EXE_weir-lab")).with_file_name("weir");
    if weir.is_file() { format!("weir,{targets}") } else { targets.to_owned() }
}

fn value(measurement: &serde_json::Value, metric: &str) -> f64 {
    measurement["values"][metric].as_f64().unwrap_or_else(|| panic!("{metric}: {measurement}"))
}

#[test]
fn a_reload_is_in_effect_and_tunnels_outlive_it() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    for measurement in measured(dir.path(), "reload-under-load", &with_weir("nginx,haproxy")) {
        let both = (value(&measurement, "lost-tunnels"), value(&measurement, "lost-touched"));
        assert_eq!(both, (0.0, 0.0), "{measurement}");
        // Seen from outside, for every configuration; otherwise the run would have failed.
        assert!(value(&measurement, "takes-effect") > 0.0);
        let resets = value(&measurement, "resets");
        assert!(resets <= value(&measurement, "failed") && value(&measurement, "closed-connections") >= 0.0);
        // Before each reload, and after the last one.
        assert_eq!(measurement["series"].as_array().map_or(0, Vec::len), 4, "{measurement}");
        let shares = measurement["seconds"].as_array().map_or(0, Vec::len);
        assert!(shares >= 2, "{measurement}");
    }
}

/// nginx behind a script that ignores SIGHUP, the signal to reload.
#[test]
fn a_target_that_takes_no_configuration_over_fails_and_does_not_win() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let unreloadable = dir.path().join("nginx");
    let script = "#!/bin/sh\ncase \"$*\" in *daemon*) ;; *) exec nginx \"$@\" ;; esac\n\
                  nginx \"$@\" &\npid=$!\ntrap '' HUP\ntrap 'kill $pid' TERM INT\nwait $pid\n";
    std::fs::write(&unreloadable, script).unwrap();
    std::fs::set_permissions(&unreloadable, Permissions::from_mode(0o755)).unwrap();
    let program = format!("--nginx={}", unreloadable.display());
    let output =
        lab(&["run", "reload-under-load", "--short", "--rounds", "1", "--targets", "nginx", &program]);
    let said = text(&output);
    assert!(!output.status.success() && said.contains("configurations were not in effect"), "{said}");
}

#[test]
fn a_soak_counts_failures_by_reason_and_clients_that_left() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    for measurement in measured(dir.path(), "soak", &with_weir("nginx")) {
        assert!(value(&measurement, "descriptors-before") > 0.0 && value(&measurement, "rss") > 0.0);
        assert!(value(&measurement, "rss-per-minute-low") <= value(&measurement, "rss-per-minute-high"));
        let notes = measurement["notes"].to_string();
        for part in ["clients left before the answer", "; unexplained: "] {
            assert!(notes.contains(part), "{part}: {notes}");
        }
        if measurement["target"] == "weir" {
            assert_eq!(value(&measurement, "lost-tunnels"), 0.0, "{measurement}");
            assert!(value(&measurement, "unexplained") <= value(&measurement, "failed"), "{measurement}");
        }
    }
}

#[test]
fn slow_clients_complete_and_a_ladder_has_a_case_for_each_step() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let slow = measured(dir.path(), "slow-clients", "direct");
    assert_eq!((value(&slow[0], "slow-whole"), value(&slow[0], "slow-wrong")), (100.0, 0.0));
    assert!(value(&slow[0], "p99-of-plain") > 0.0);
    let ladder = measured(dir.path(), "ladder", "direct");
    let cases: Vec<_> = ladder.iter().filter_map(|it| it["case"].as_str()).collect();
    assert_eq!(cases, ["10 clients", "50 clients"]);
    assert!(ladder.iter().all(|it| value(it, "requests-per-second") > 0.0 && value(it, "p95") > 0.0));
    let suites = measured(dir.path(), "tls-suites", "nginx");
    let cases: Vec<_> = suites.iter().filter_map(|it| it["case"].as_str()).collect();
    assert_eq!(
        cases,
        ["ECDHE-RSA-AES256-GCM-SHA384", "ECDHE-RSA-CHACHA20-POLY1305", "TLS_AES_256_GCM_SHA384"]
    );
}

#[test]
fn a_suite_reports_the_time_left_resumes_and_names_failures() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().display().to_string();
    let suite = |only: &str| {
        lab(&[
            "suite",
            "reports",
            "--trial",
            "--rounds",
            "1",
            "--targets",
            "direct",
            "--only",
            only,
            "--out",
            &out,
        ])
    };
    let first = suite("l7-keepalive");
    let said = text(&first);
    assert!(first.status.success() && said.contains("1 scenarios, of which 1 are to be run"), "{said}");
    // The second has TLS, which the origin has not: it fails, and the third is run all the same.
    let second = suite("l7-keepalive,tls-suites,ladder");
    let said = text(&second);
    assert_eq!(second.status.code(), Some(1), "{said}");
    for part in
        ["of which 2 are to be run", "[1/3] l7-keepalive: there already", "tls-suites could not be run"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    let page = std::fs::read_to_string(dir.path().join("index.html")).unwrap();
    for part in ["2 of 3", "their machine 31 989", "ladder/report.html", "figures of the field reports"] {
        assert!(page.contains(part), "{part}");
    }
    assert!(dir.path().join("headline.md").is_file());
}

/// A saved run with all its figures.
fn read_run(folder: &Path) -> serde_json::Value {
    serde_json::to_value(weir_lab::report::folder::load(folder).unwrap()).unwrap()
}
