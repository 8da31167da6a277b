//! Loads of HTTP/3 by the lab's own driver, with Caddy in the place of Weir, which speaks it as distributions have it. Few clients, so that
//! a machine which is busy with other things changes nothing.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::process::Command;

use weir_lab::measure::metric::Metric;
use weir_lab::report::folder;
use weir_lab::results::run::Run;

/// A round of this work on `targets`, and what was said.
fn run_of(work: &str, targets: &str) -> (Option<Run>, String) {
    let scenario = format!(
        "question = \"?\"\nrequirements = []\ntargets = [\"caddy\"]\nclass = \"tuned\"\n\
         rounds = {{ count = 1, warm-up = \"200ms\", window = \"1s\" }}\n\
         [listener]\ntls = {{ suite = \"TLS_AES_128_GCM_SHA256\", key = \"ecdsa-p256\" }}\n[steady]\nhttp3 = true\n{work}"
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("http3.toml");
    std::fs::write(&file, scenario).unwrap();
    let saved = dir.path().join("saved");
    let output = Command::new(env!("CARGO_BIN_EXE_weir-lab"))
        .args(["run", &file.display().to_string(), "--targets", targets])
        .arg(format!("--save={}", saved.display()))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    let folders = std::fs::read_dir(&saved).into_iter().flatten().flatten();
    let run = folders.map(|saved| folder::load(&saved.path()).unwrap()).next();
    (run, said)
}

#[test]
fn requests_and_bodies_pass_and_what_has_no_http3_is_left_out() {
    for work in [
        "clients = 2\nstreams = 5\n",
        "clients = 2\nstreams = 5\nrate = 100.0\n",
        "clients = 2\nstreams = 1\nbody = 100_000\n",
    ] {
        let (run, said) = run_of(work, "caddy,apache");
        let run = run.unwrap_or_else(|| panic!("{said}"));
        let values = &run.measurements[0].values;
        assert_eq!((run.measurements.len(), values[&Metric::Failed]), (1, 0.0), "{said}");
        assert!(values[&Metric::RequestsPerSecond] > 0.0 && values[&Metric::CpuPerRequest] > 0.0, "{said}");
        assert_eq!(run.cannot["apache"], "it has no HTTP/3", "{said}");
    }
}
