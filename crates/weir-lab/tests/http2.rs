//! Scenarios of HTTP/2 that the lab's own client plays, with nginx in the place of Weir: each has its figures, and a target that does not
//! speak it has none.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use weir_lab::measure::metric::Metric;
use weir_lab::report::folder;

/// The figures of `target` in a trial of `scenario`, by name, of each case; and what was said.
fn figures(scenario: &str, target: &str) -> (Vec<BTreeMap<String, f64>>, String) {
    // One measures at a time: the others would take its CPUs.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let save = format!("--save={}", dir.path().display());
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", scenario, "--short", "--rounds", "1", "--targets", target, &save])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let Some(Ok(saved)) = std::fs::read_dir(dir.path()).unwrap().next() else {
        return (Vec::new(), said);
    };
    let run = folder::load(&saved.path()).unwrap();
    let by_name = |values: &BTreeMap<Metric, f64>| {
        let name = |metric| serde_json::to_value(metric).unwrap().as_str().unwrap().to_owned();
        values.iter().map(|(metric, value)| (name(metric), *value)).collect()
    };
    (run.measurements.iter().map(|measurement| by_name(&measurement.values)).collect(), said)
}

#[test]
fn idle_clients_streams_and_reloads_are_measured() {
    let (idle, said) = figures("h2-idle-memory", "nginx");
    assert!(idle[0]["memory-per-client"] > 0.0, "{said}");
    let (stream, said) = figures("h2-slow-stream", "nginx");
    assert_eq!(stream[0]["failed"], 0.0, "{said}");
    assert!(stream[0]["p99-of-plain"] > 0.0 && stream[0]["p50"] >= 40_000.0, "{said}");
    let (reload, said) = figures("h2-reload", "nginx");
    assert_eq!(reload[0]["failed"], 0.0, "{said}");
    // nginx ends its connections, and says which requests it did not process.
    assert!(reload[0]["closed-connections"] > 0.0, "{said}");
}

#[test]
fn each_attack_is_a_case_and_those_that_nginx_takes_for_one_are_cut_off() {
    let (cases, said) = figures("h2-flood", "nginx");
    assert_eq!(cases.len(), 6, "{said}");
    // How well the usual clients fare depends on what else the machine does.
    assert!(cases.iter().all(|case| case.contains_key("availability")), "{said}");
    // Requests that it has to reset.
    assert_eq!(cases[1]["cut-off"], 100.0, "{said}");
}

#[test]
fn a_target_without_http2_to_servers_cannot_take_part() {
    let (cases, said) = figures("h2-to-h2", "nginx");
    assert!(cases.is_empty() && said.contains("it speaks HTTP/2 with servers for gRPC"), "{said}");
}
