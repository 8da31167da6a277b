//! `weir-sim` as a whole: its output and files, repetition with the same seed, and its messages about a wrong file.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const FILE: &str = r#"
question = "Is it quicker with a queue?"
length = "5s"
[[servers]]
count = 3
[[clients]]
name = "all"
count = 30
service = { exponential = "20ms" }
slow = { one_in = 100, service = "500ms" }
[[event]]
at = "2s"
servers = 0
action = "stop"
[[variant]]
name = "round \"robin\""
balance = "round-robin"
[[variant]]
name = "queue <1>"
max_requests = 1
health = { interval = "500ms" }
"#;

const WRITTEN: [&str; 9] = [
    "report.md",
    "figures.json",
    "requests.csv",
    "distribution.svg",
    "over-time.svg",
    "goodput.svg",
    "server-load.svg",
    "attempts.svg",
    "simulation.toml",
];

fn simulate(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_weir-sim")).args(args).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("test.toml"), FILE).unwrap();
    let printed: Vec<String> = ["7", "7", "8"]
        .iter()
        .enumerate()
        .map(|(run, seed)| {
            let output = simulate(dir.path(), &["test.toml", "--seed", seed, "--out", &run.to_string()]);
            assert!(output.status.success(), "{}", text(&output.stderr));
            text(&output.stdout).replace(&format!("saved in {run}"), "")
        })
        .collect();
    assert_eq!(printed[0], printed[1]);
    assert!(
        printed[0].contains("seed 7\n") && printed[0].contains("health with queue <1>: server 0 down at 2."),
        "{}",
        printed[0]
    );
    assert_ne!(printed[0], printed[2]);
    for name in WRITTEN {
        let [first, second, other] =
            ["0", "1", "2"].map(|run| std::fs::read(dir.path().join(run).join(name)).unwrap());
        assert!(first == second, "{name} differs");
        assert!((first == other) == (name == "simulation.toml"), "{name} does not follow the seed");
    }
}

#[test]
fn written_files_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("test.toml"), FILE).unwrap();
    assert!(simulate(dir.path(), &["test.toml", "--seed", "1", "--out", "out"]).status.success());
    let read = |name: &str| text(&std::fs::read(dir.path().join("out").join(name)).unwrap());
    let figures: serde_json::Value = serde_json::from_str(&read("figures.json")).unwrap();
    let variant = &figures["variants"][1];
    assert_eq!((variant["name"].as_str(), figures["seed"].as_u64()), (Some("queue <1>"), Some(1)));
    let total = &variant["total"];
    let count = |key: &str| total[key].as_u64().unwrap();
    assert_eq!(count("begun"), count("answered") + count("failed"));
    assert_eq!(variant["over_time"].as_array().unwrap().len(), 100);
    let csv = read("requests.csv");
    let columns = |line: &str| line.replace("\"\"", "").split(',').count();
    assert!(csv.lines().count() > 500 && csv.lines().all(|line| columns(line) == 11), "{csv}");
    for plot in ["distribution.svg", "over-time.svg", "goodput.svg", "server-load.svg", "attempts.svg"] {
        let svg = read(plot);
        assert!(
            svg.starts_with("<svg") && svg.contains("queue &lt;1&gt;") && svg.contains("<polyline"),
            "{plot}"
        );
    }
    assert!(read("report.md").contains("--seed 1"));
}

#[test]
fn without_a_seed_one_is_drawn_and_printed() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("test.toml"), FILE).unwrap();
    let drawn = text(&simulate(dir.path(), &["test.toml"]).stdout);
    let seed = drawn.lines().find_map(|line| line.strip_prefix("seed ")).unwrap();
    assert_eq!(drawn, text(&simulate(dir.path(), &["test.toml", "--seed", seed]).stdout));
}

/// The pipe shows when the program is running: it opens it after it has begun to watch for signals.
#[test]
fn ctrl_c_is_reported_and_saves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("test.toml");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let child = Command::new(env!("CARGO_BIN_EXE_weir-sim"))
        .args(["test.toml", "--out", "out"])
        .current_dir(dir.path())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut file = OpenOptions::new().write(true).open(&pipe).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    file.write_all(FILE.as_bytes()).unwrap();
    drop(file);
    let output = child.wait_with_output().unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{stderr}");
    assert_eq!(stderr, "weir-sim: interrupted when 0 of 2 variants were finished; nothing is saved\n");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn without_a_file_it_names_example_files() {
    let dir = tempfile::tempdir().unwrap();
    let output = simulate(dir.path(), &[]);
    assert!(!output.status.success());
    assert!(text(&output.stderr).contains("weir-sim lab/weir-sim/simulations/"), "{output:?}");
}

#[test]
fn a_wrong_file_is_rejected_with_all_its_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let wrong = FILE.replace("count = 30", "cuont = 30").replace("\"stop\"", "\"halt\"");
    std::fs::write(dir.path().join("wrong.toml"), wrong).unwrap();
    let output = simulate(dir.path(), &["wrong.toml", "--out", "out"]);
    let stderr = text(&output.stderr);
    assert!(!output.status.success() && stderr.contains("2 mistakes in wrong.toml"), "{stderr}");
    assert!(stderr.contains("wrong.toml:8:1") && stderr.contains("did you mean `count`?"), "{stderr}");
    assert!(!dir.path().join("out").exists());
    let missing = text(&simulate(dir.path(), &["nothing.toml"]).stderr);
    assert!(missing.contains("cannot read nothing.toml"), "{missing}");
}
