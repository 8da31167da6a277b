//! A load that is not limited by the target is found out: its throughput is no result.
//!
//! On a machine that is busy with other things the lab calls a measurement disturbed before it looks for its limit; the
//! shares of the CPUs show then as well which process used most of them.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test measures at a time: the others would take its CPUs.
fn measuring() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Measures `target` under one steady load until nothing else on the machine disturbs it, a few times at most; gives the measurement,
/// what the lab found of client and origin before it, and what was said.
fn measured(target: &str, steady: &str) -> (serde_json::Value, serde_json::Value, String) {
    const TRIES: usize = 4;
    for _ in 1..TRIES {
        let found = measured_once(target, steady);
        if found.0["limit"] != "disturbed" {
            return found;
        }
    }
    measured_once(target, steady)
}

fn measured_once(target: &str, steady: &str) -> (serde_json::Value, serde_json::Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let scenario = format!(
        "question = \"?\"\nrequirements = []\ntargets = [\"{target}\"]\nclass = \"tuned\"\n\
         rounds = {{ count = 1, warm-up = \"200ms\", window = \"1s\" }}\n{steady}"
    );
    let file = dir.join("limits.toml");
    std::fs::write(&file, scenario).unwrap();
    let save = format!("--save={}", dir.display());
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", &file.display().to_string(), &save])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{said}");
    let folder =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).find(|path| path.is_dir());
    let run = read_run(&folder.unwrap());
    (run["measurements"][0].clone(), run["capacity"].clone(), said)
}

/// Whether `limit` is that of a quiet machine; false on one that is disturbed.
fn is_quiet(measurement: &serde_json::Value, limit: &str) -> bool {
    let found = measurement["limit"].as_str().unwrap();
    assert!([limit, "disturbed"].contains(&found), "{measurement}");
    found == limit
}

fn is_void(measurement: &serde_json::Value, figure: &str) -> bool {
    measurement["void"].as_array().unwrap().iter().any(|void| void == figure)
}

#[test]
fn an_origin_that_is_the_limit_is_named_and_the_throughput_is_void() {
    let _turn = measuring();
    let (measurement, capacity, said) =
        measured("nginx", "[upstream]\nburn = \"2ms\"\n[steady]\nclients = 16\n");
    let values = &measurement["values"];
    let share = |figure: &str| values[figure].as_f64().unwrap();
    assert!(share("origin-cpu") > 3.0 * share("driver-cpu"), "{values}");
    assert!(share("origin-per-request") >= 2000.0, "{values}");
    if is_quiet(&measurement, "origin") {
        assert!(
            is_void(&measurement, "requests-per-second") && is_void(&measurement, "p99"),
            "{measurement}"
        );
        assert!(said.contains("the origin was the limit: of their CPU the origin used"), "{said}");
    }
    // Found out before the rounds as well: it does no more without a target.
    assert!(capacity["origin_us"].as_f64().unwrap() >= 2000.0, "{capacity}");
    assert!(said.contains("THE ORIGIN IS TOO SLOW"), "{said}");
}

#[test]
fn the_origin_behind_tls_is_proven_without_it() {
    let _turn = measuring();
    let (_, capacity, said) = measured(
        "nginx",
        "[listener]\ntls = { suite = \"TLS_AES_256_GCM_SHA384\", key = \"ecdsa-p256\" }\n\
         [upstream]\nburn = \"2ms\"\n[steady]\nclients = 16\n",
    );
    assert!(capacity["origin_us"].as_f64().unwrap() >= 2000.0, "{capacity}");
    assert!(said.contains("(nor TLS, which the origin never sees)"), "{said}");
    assert!(said.contains("THE ORIGIN IS TOO SLOW"), "{said}");
}

#[test]
fn a_client_that_is_the_limit_is_named_and_the_throughput_is_void() {
    let _turn = measuring();
    // The client opens a connection for each request, the origin keeps those of the target.
    let (measurement, _, said) = measured("nginx", "[steady]\nclients = 16\nkeep-alive = false\n");
    let values = &measurement["values"];
    let share = |figure: &str| values[figure].as_f64().unwrap();
    assert!(share("driver-cpu") > share("origin-cpu"), "{values}");
    if is_quiet(&measurement, "client") {
        assert!(
            is_void(&measurement, "requests-per-second") && is_void(&measurement, "p99"),
            "{measurement}"
        );
        assert!(said.contains("the client was the limit: of their CPU the origin used"), "{said}");
    }
}

#[test]
fn too_few_clients_are_no_measure_of_a_target() {
    let _turn = measuring();
    // Client, target and server are at work one after the other: none is all the time.
    let (measurement, _, said) = measured("nginx", "[steady]\nclients = 1\n");
    if is_quiet(&measurement, "waiting") {
        assert!(
            is_void(&measurement, "requests-per-second") && !is_void(&measurement, "p50"),
            "{measurement}"
        );
        assert!(said.contains("1 clients in a closed loop were the limit"), "{said}");
    }
}

/// The median CPU per request of `target` in a saved run.
fn cost(run: &serde_json::Value, target: &str) -> f64 {
    let own = run["measurements"].as_array().unwrap().iter().filter(|it| it["target"] == target);
    let costs: Vec<f64> = own.filter_map(|it| it["values"]["cpu-per-request"].as_f64()).collect();
    weir_stats::estimate::median(&costs).unwrap()
}

/// The CPU time of the slowed relay in one short run, relative to the plain one.
fn slowed_by() -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let save = format!("--save={}", dir.path().display());
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", "l7-keepalive", "--targets", "relay,relay/slower"])
        .args(["--rounds", "3", "--window", "700ms", &save])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let folder = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    let run = read_run(&folder);
    cost(&run, "relay/slower") / cost(&run, "relay")
}

/// By 20 %. What else runs on this machine disturbs the caches of both, so one undisturbed run of several is enough: how well it
/// is found on a quiet one is for `weir-lab prove` to say.
#[test]
fn a_target_that_is_slowed_costs_more() {
    let _turn = measuring();
    let mut ratios = Vec::new();
    while !ratios.last().is_some_and(|ratio| (1.08..1.35).contains(ratio)) {
        assert!(ratios.len() < 10, "{ratios:?}");
        ratios.push(slowed_by());
    }
}

#[test]
fn web_servers_can_be_the_origin_and_every_byte_of_theirs_is_compared() {
    let _turn = measuring();
    for origin in ["nginx", "apache"] {
        let (measurement, _, said) =
            measured("nginx", &format!("[upstream]\norigin = \"{origin}\"\n[steady]\nclients = 16\n"));
        let values = &measurement["values"];
        for figure in ["requests-per-second", "cpu-per-request", "origin-per-request"] {
            assert!(values[figure].as_f64().unwrap() > 0.0, "{origin}: {said}");
        }
        // It does not count them itself.
        assert!(values.get("origin-connections").is_none(), "{values}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", "l7-post-1k", "--short", "--origin", "nginx"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && said.contains("has the page and nothing else"), "{said}");
}

/// A saved run with all its figures.
fn read_run(folder: &Path) -> serde_json::Value {
    serde_json::to_value(weir_lab::report::folder::load(folder).unwrap()).unwrap()
}
