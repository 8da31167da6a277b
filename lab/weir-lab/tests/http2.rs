//! Works of HTTP/2 that the lab's own client plays, with nginx in the place of Weir: each has its figures. The rates are so low that a
//! machine which is busy with other things changes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use weir_lab::measure::metric::Metric;
use weir_lab::report::folder;

/// The figures of nginx in one round of `scenario`, of each case; and what was said.
fn figures(scenario: &str) -> (Vec<BTreeMap<Metric, f64>>, String) {
    // One measures at a time: the others would take its CPUs.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().unwrap();
    let save = format!("--save={}", dir.path().display());
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", scenario, "--rounds", "1", "--targets", "nginx", &save])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let Some(Ok(saved)) = std::fs::read_dir(dir.path()).unwrap().next() else {
        return (Vec::new(), said);
    };
    let run = folder::load(&saved.path()).unwrap();
    (run.measurements.into_iter().map(|measurement| measurement.values).collect(), said)
}

/// The same for a scenario with this work.
fn figures_of(work: &str) -> (Vec<BTreeMap<Metric, f64>>, String) {
    let scenario = format!(
        "question = \"?\"\nrequirements = []\ntargets = [\"nginx\"]\nclass = \"tuned\"\n\
         rounds = {{ count = 1, warm-up = \"200ms\", window = \"3s\" }}\n{work}"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("http2.toml");
    std::fs::write(&file, scenario).unwrap();
    figures(&file.display().to_string())
}

#[test]
fn idle_clients_cost_memory() {
    let (cases, said) = figures_of("[idle]\nclients = [100, 300]\nhttp2 = true\nsettle = \"100ms\"\n");
    assert!(cases[0][&Metric::MemoryPerClient] > 0.0, "{said}");
}

#[test]
fn other_streams_go_on_beside_one_that_is_not_read() {
    let work = "[slow-stream]\nrate = 100.0\nstreams = 20\nservice = \"40ms\"\nanswer = 4_194_304\n";
    let (cases, said) = figures_of(work);
    assert_eq!(cases[0][&Metric::Failed], 0.0, "{said}");
    assert!(cases[0][&Metric::P50] >= 40_000.0 && cases[0][&Metric::P99OfPlain] > 0.0, "{said}");
}

#[test]
fn requests_outlive_the_connections_that_a_reload_ends() {
    let work = "[upstream]\nservers = 4\nbalance = \"round-robin\"\n\
                [reload]\nrate = 100.0\nclients = 2\nstreams = 10\ntimes = 2\nevery = \"2s\"\n";
    let (cases, said) = figures_of(work);
    assert_eq!(cases[0][&Metric::Failed], 0.0, "{said}");
    // nginx ends them, and says which requests it did not process.
    assert!(cases[0][&Metric::ClosedConnections] > 0.0, "{said}");
}

#[test]
fn each_attack_is_a_case_and_one_that_nginx_takes_for_one_is_cut_off() {
    let work = "[flood]\nrate = 100.0\nconnections = 1\nstreams = 10\nattacks = [\"made-you-reset\", \"ping\"]\n\
                attackers = 2\nattack-rate = 2000.0\n";
    let (cases, said) = figures_of(work);
    assert_eq!(cases.len(), 2, "{said}");
    // Of those at the end it may be late with one.
    assert!(cases[0][&Metric::CutOff] > 0.0, "{said}");
    assert!(cases.iter().all(|case| case[&Metric::Availability] > 0.0), "{said}");
}

#[test]
fn a_target_without_http2_to_servers_cannot_take_part() {
    let (cases, said) = figures("h2-to-h2");
    assert!(cases.is_empty() && said.contains("it speaks HTTP/2 with servers for gRPC"), "{said}");
}
