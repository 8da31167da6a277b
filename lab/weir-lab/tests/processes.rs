//! The program as a whole: it measures installed programs, and no child ever outlives it.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_lab::clock::wait_until;
use weir_lab::process::{Guarded, Job, Launcher, tree};
use weir_lab::target::search::{ProgramSearch, find_products};
use weir_lab::topology::product::Product;

const LIMIT: Duration = Duration::from_secs(60);

/// One test measures at a time: others would take its CPUs, and a product might answer no request in its window.
fn measuring() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn launcher() -> Launcher {
    Launcher { program: PathBuf::from(env!("CARGO_BIN_EXE_weir-lab")), prefix: Vec::new() }
}

fn is_running(pid: i32) -> bool {
    // A zombie does not run any more.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| stat.rsplit(')').next().is_some_and(|rest| !rest.trim_start().starts_with('Z')))
}

fn shell(script: &str, dir: &Path) -> Guarded {
    let args = vec!["-c".to_owned(), script.to_owned()];
    let job = Job { program: PathBuf::from("/bin/sh"), args, log: dir.join("log"), ..Job::default() };
    Guarded::start(&launcher(), &job).unwrap()
}

fn lab(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    command.args(args);
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

#[test]
fn a_whole_tree_ends_with_its_handle_daemons_included() {
    let dir = tempfile::tempdir().unwrap();
    // A child, and a daemon that has left its session and lost its parent.
    let script = "sleep 1000 & echo child $!; (setsid sleep 1000 & echo daemon $!); wait";
    let mut guarded = shell(script, dir.path());
    let read = |guarded: &mut Guarded, word: &str| -> i32 {
        guarded.wait_for_line(word, LIMIT).unwrap().parse().unwrap()
    };
    let pids = [guarded.pid(), read(&mut guarded, "child "), read(&mut guarded, "daemon ")];
    assert!(pids.iter().all(|pid| is_running(*pid)), "{pids:?}");
    drop(guarded);
    assert!(pids.iter().all(|pid| !is_running(*pid)), "{pids:?}");
}

#[test]
fn remaining_children_of_a_target_end_with_the_target() {
    let dir = tempfile::tempdir().unwrap();
    let mut guarded = shell("sleep 1000 & echo child $!; exit 3", dir.path());
    let child: i32 = guarded.wait_for_line("child ", LIMIT).unwrap().parse().unwrap();
    let how = guarded.wait(LIMIT, || false).unwrap();
    assert!(how.contains("exit status 3"), "{how}");
    assert!(!is_running(child));
}

#[test]
fn a_program_that_cannot_start_or_listen_is_named_with_its_own_words() {
    let dir = tempfile::tempdir().unwrap();
    let job = Job { program: dir.path().join("nothing"), log: dir.path().join("log"), ..Job::default() };
    let error = Guarded::start(&launcher(), &job).unwrap_err().to_string();
    assert!(error.contains("nothing") && error.contains("No such file"), "{error}");
    let mut guarded = shell("echo broken config >&2; exit 1", dir.path());
    let error = guarded.wait_listening("127.0.0.1:1".parse().unwrap(), LIMIT).unwrap_err().to_string();
    assert!(error.contains("broken config") && error.contains("exit status 1"), "{error}");
}

#[test]
fn a_child_runs_on_the_cpu_it_was_given() {
    let dir = tempfile::tempdir().unwrap();
    let cpu = weir_lab::placement::allowed().pop().unwrap();
    let args = vec!["-c".to_owned(), "grep Cpus_allowed_list /proc/self/status".to_owned()];
    let job = Job {
        program: PathBuf::from("/bin/sh"),
        args,
        cpus: vec![cpu],
        log: dir.path().join("log"),
        ..Job::default()
    };
    let mut guarded = Guarded::start(&launcher(), &job).unwrap();
    guarded.wait(LIMIT, || false).unwrap();
    let said = std::fs::read_to_string(dir.path().join("log")).unwrap();
    assert_eq!(said.split_whitespace().last(), Some(cpu.to_string().as_str()), "{said}");
}

/// Starts a long run and waits until its origin and client are at work.
fn long_run() -> (Child, Vec<i32>) {
    let child = lab(&["run", "l7-keepalive", "--targets", "direct", "--window", "1000s"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut pids = Vec::new();
    let started = wait_until(LIMIT, || {
        pids = tree::members(child.id() as i32);
        // The lab, the guard, the origin.
        pids.len() == 3
    });
    assert!(started, "{pids:?}");
    (child, pids)
}

#[test]
fn ctrl_c_ends_a_run_and_all_its_children() {
    let _turn = measuring();
    let (mut child, pids) = long_run();
    signal(&child, Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(wait_until(LIMIT, || pids.iter().all(|pid| !is_running(*pid))), "{pids:?}");
}

#[test]
fn even_a_killed_lab_leaves_no_process_behind() {
    let _turn = measuring();
    let (mut child, pids) = long_run();
    signal(&child, Signal::KILL);
    child.wait().unwrap();
    assert!(wait_until(LIMIT, || pids.iter().all(|pid| !is_running(*pid))), "{pids:?}");
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

#[test]
fn a_short_run_measures_reports_and_saves() {
    let _turn = measuring();
    let root = tempfile::tempdir().unwrap();
    let save = format!("--save={}", root.path().display());
    let output = lab(&["run", "l7-post-1k", "--short", "--rounds", "1", "--targets", "direct", &save])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert!(text(&output).contains("| direct |"), "{}", text(&output));
    let folder = std::fs::read_dir(root.path()).unwrap().next().unwrap().unwrap().path();
    let run: serde_json::Value = read_run(&folder);
    assert!(run["measurements"][0]["values"]["requests-per-second"].as_f64().unwrap() > 0.0, "{run}");
}

/// A script in place of Weir: prints a version when asked, otherwise runs `script`.
fn fake_weir(dir: &Path, script: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = dir.join("weir");
    let mut file = std::fs::File::create(&path).unwrap();
    write!(file, "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo weir 0.0.0; exit; }}\n{script}\n").unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_target_that_fails_to_start_is_named_and_the_others_go_on() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let weir = fake_weir(dir.path(), "echo cannot bind >&2; exit 1");
    let args = ["run", "l7-keepalive", "--short", "--targets", "direct,weir", "--weir", &weir];
    let output = lab(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let said = text(&output);
    assert!(said.contains("weir FAILED") && said.contains("cannot bind"), "{said}");
    assert!(said.contains("| direct |") && said.contains("round 2/2 direct"), "{said}");
    assert!(!said.contains("round 2/2 weir"), "{said}");
}

/// The address a generated weir.toml says to listen on.
const LISTEN: &str = "listen=$(sed -n 's/^address = \"\\(.*\\)\"/\\1/p' \"$2\")";

#[test]
fn a_target_that_works_is_measured_with_all_its_figures() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    // The origin runs in place of Weir: for the client it makes no difference.
    let program = env!("CARGO_BIN_EXE_weir-lab");
    let weir = fake_weir(dir.path(), &format!("{LISTEN}; exec {program} origin --listen $listen"));
    let save = format!("--save={}", dir.path().display());
    for scenario in ["l7-short", "idle-memory", "bulk", "websocket-echo", "websocket-idle"] {
        let output =
            lab(&["run", scenario, "--short", "--rounds", "1", "--targets", "weir", "--weir", &weir, &save])
                .output()
                .unwrap();
        assert!(output.status.success(), "{}", text(&output));
    }
    let read = |scenario: &str| -> serde_json::Value {
        let folder = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().ends_with(scenario))
            .unwrap();
        read_run(&folder)
    };
    let values = &read("l7-short")["measurements"][0]["values"];
    for metric in
        ["requests-per-second", "cpu-per-request", "p50", "p99.9", "rss", "target-cpu", "client-cpu"]
    {
        assert!(values[metric].as_f64().unwrap_or(0.0) > 0.0, "{metric}: {values}");
    }
    for (scenario, metric) in [
        ("bulk", "cpu-per-gib"),
        ("websocket-echo", "cpu-per-request"),
        ("websocket-idle", "heartbeat-cpu"),
        ("websocket-idle", "cpu-per-request"),
    ] {
        let values = &read(scenario)["measurements"][0]["values"];
        assert!(values[metric].as_f64().unwrap_or(0.0) > 0.0, "{scenario}, {metric}: {values}");
    }
    let series = read("idle-memory")["measurements"][0]["series"].as_array().unwrap().len();
    assert_eq!(series, 4);
}

#[test]
fn a_target_that_answers_wrongly_fails_the_run_and_is_left_out() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let weir = fake_weir(
        dir.path(),
        &format!("{LISTEN}; echo $listen > {}/listen; exec sleep 1000", dir.path().display()),
    );
    let child = lab(&["run", "l7-keepalive", "--short", "--targets", "direct,weir", "--weir", &weir])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut listen = String::new();
    let listens = wait_until(LIMIT, || {
        listen = std::fs::read_to_string(dir.path().join("listen")).unwrap_or_default();
        listen.ends_with('\n')
    });
    assert!(listens);
    let listener = std::net::TcpListener::bind(listen.trim()).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || serve_two_pages_then_502(&stream));
        }
    });
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("weir FAILED") && said.contains("x status; first: status 502"), "{said}");
    assert!(said.contains("| direct |") && !said.contains("| weir"), "{said}");
}

fn serve_two_pages_then_502(mut stream: &std::net::TcpStream) {
    use std::io::Read as _;
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    for number in 0.. {
        while weir_lab::wire::fields::head_len(&seen).is_none() {
            match stream.read(&mut part) {
                Ok(len) if len > 0 => seen.extend_from_slice(&part[..len]),
                _ => return,
            }
        }
        seen.clear();
        let answer = if number < 2 {
            let head = b"HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n";
            [head.as_slice(), weir_lab::wire::pattern::run(0, 612)].concat()
        } else {
            b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n".to_vec()
        };
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

#[test]
fn missing_or_mistyped_names_are_errors_that_say_so() {
    let dir = tempfile::tempdir().unwrap();
    let weir = fake_weir(dir.path(), "exit 1");
    let output = lab(&["targets", "--weir", &weir]).output().unwrap();
    assert!(text(&output).contains("weir 0.0.0"), "{}", text(&output));
    let output = lab(&["run", "l7-keepalive", "--weir", "/nonexistent/weir"]).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("no such program"), "{}", text(&output));
    let output = lab(&["run", "l7-keepalife"]).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("no scenario"), "{}", text(&output));
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let output = lab(&["list"]).stdout(writer).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
}

/// Runs `scenario` briefly on `targets`, saves it, and reads it again.
fn saved(dir: &Path, scenario: &str, targets: &str) -> serde_json::Value {
    let save = format!("--save={}", dir.display());
    let output =
        lab(&["run", scenario, "--short", "--rounds", "1", "--targets", targets, &save]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let folder = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.to_string_lossy().ends_with(scenario))
        .unwrap();
    read_run(&folder)
}

#[test]
fn every_product_that_is_there_is_measured_over_http_and_tls() {
    let _turn = measuring();
    let there = find_products(&ProgramSearch::usual()).unwrap();
    for product in [Product::Nginx, Product::Haproxy, Product::Apache, Product::Caddy] {
        assert!(
            there.contains_key(product.name()),
            "{} is missing: {}",
            product.name(),
            product.how_to_get()
        );
    }
    let mut targets = vec!["nginx", "haproxy", "apache", "caddy"];
    for product in [Product::Envoy, Product::Traefik] {
        if there.contains_key(product.name()) {
            targets.push(product.name());
        } else {
            // Past the harness, which would keep it to itself.
            let said =
                format!("not measured, since it is missing: {}: {}", product.name(), product.how_to_get());
            writeln!(std::io::stderr(), "{said}").unwrap();
        }
    }
    // As shipped, each takes a connection for each request and a handshake as well.
    let shipped: Vec<String> = targets.iter().map(|target| format!("{target}/as-shipped")).collect();
    for (scenario, targets) in [
        ("l7-short", [targets.join(","), shipped.join(",")].join(",")),
        ("tls-keepalive-tls13", targets.join(",")),
        ("tls-handshake-ecdsa", shipped.join(",")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let run = saved(dir.path(), scenario, &targets);
        for target in targets.split(',') {
            let of = |it: &&serde_json::Value| it["target"] == target;
            let measured = run["measurements"].as_array().unwrap().iter().find(of).unwrap();
            for metric in ["requests-per-second", "cpu-per-request", "rss"] {
                assert!(
                    measured["values"][metric].as_f64().unwrap_or(0.0) > 0.0,
                    "{scenario}, {metric}: {measured}"
                );
            }
            let record = &run["targets"][target];
            let class = if target.ends_with("/as-shipped") { "as-shipped" } else { "tuned" };
            assert_eq!(record["class"], class, "{target}");
            assert!(record["tls_library"].is_string(), "{record}");
        }
    }
}

#[test]
fn a_target_that_cannot_take_part_is_named_and_the_others_go_on() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let run = saved(dir.path(), "l4-keepalive", "direct,apache,caddy");
    assert_eq!(run["cannot"]["apache"], "it passes no plain TCP", "{run}");
    assert!(run["cannot"]["caddy"].is_string(), "{run}");
    let measured: Vec<&str> =
        run["measurements"].as_array().unwrap().iter().map(|it| it["target"].as_str().unwrap()).collect();
    assert_eq!(measured, ["direct"]);
    let output = lab(&["run", "l4-keepalive", "--short", "--targets", "apache"]).output().unwrap();
    assert!(
        !output.status.success() && text(&output).contains("no target can take part"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_balancer_that_runs_already_is_measured_from_outside() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    // The origin runs in place of a balancer with an origin behind it.
    let args = ["origin", "--listen", "127.0.0.1:0"].map(str::to_owned).to_vec();
    let log = dir.path().join("log");
    let job = Job { program: launcher().program, args, log, ..Job::default() };
    let mut running = Guarded::start(&launcher(), &job).unwrap();
    let listen = running.wait_for_line("listening on ", LIMIT).unwrap();
    let (url, save) = (format!("http://{listen}/"), format!("--save={}", dir.path().display()));
    let args = ["run", "l7-keepalive", "--short", "--targets", "url", "--url", &url, &save];
    let output = lab(&args).output().unwrap();
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains(&format!("url is {url}")) && said.contains("CPU and memory cannot be seen"),
        "{said}"
    );
    let folder = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.is_dir())
        .unwrap();
    let run: serde_json::Value = read_run(&folder);
    let values = &run["measurements"][0]["values"];
    assert!(values["requests-per-second"].as_f64().unwrap() > 0.0, "{values}");
    for unseen in ["cpu-per-request", "target-cpu", "rss", "origin-connections"] {
        assert!(values.get(unseen).is_none(), "{unseen}: {values}");
    }
    // Scenarios that need more than its responses are refused with the reason.
    for (scenario, why) in
        [("server-killed", "servers that the lab neither starts"), ("tls-keepalive-tls13", "about TLS")]
    {
        let output = lab(&["run", scenario, "--short", "--targets", "url", "--url", &url]).output().unwrap();
        assert!(!output.status.success() && text(&output).contains(why), "{}", text(&output));
    }
    let output = lab(&["run", "l7-keepalive", "--targets", "url"]).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("give --url URL"), "{}", text(&output));
}

#[test]
fn optional_targets_that_are_missing_are_left_out_with_a_sentence() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let text_of_scenario = "question = \"?\"\nrequirements = []\ntargets = [\"direct\"]\noptional = [\"envoy\", \"traefik\"]\n\
                            class = \"tuned\"\nrounds = { count = 1, warm-up = \"0s\", window = \"1s\" }\n[steady]\nclients = 1\n";
    let file = dir.path().join("small.toml");
    std::fs::write(&file, text_of_scenario).unwrap();
    let file = file.display().to_string();
    // Nothing is on this PATH, nor in the folder of Go.
    let bare = |args: &[&str]| lab(args).env("PATH", dir.path()).env("HOME", dir.path()).output().unwrap();
    let output = bare(&["run", &file, "--short"]);
    let said = text(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("envoy is not installed and was left out"), "{said}");
    assert!(
        said.contains("traefik is not installed and was left out") && said.contains("| direct |"),
        "{said}"
    );
    // A target that is requested by name must be there.
    let output = bare(&["run", &file, "--short", "--targets", "envoy"]);
    assert!(
        !output.status.success() && text(&output).contains("envoy is missing: pip install"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_program_is_taken_from_where_the_user_says() {
    let dir = tempfile::tempdir().unwrap();
    let weir = fake_weir(dir.path(), "exit 1");
    let output = lab(&["targets", "--target-path", &format!("weir={weir}")]).output().unwrap();
    assert!(text(&output).contains("weir 0.0.0"), "{}", text(&output));
    let output = lab(&["targets", "--target-path", "squid=/bin/true"]).output().unwrap();
    assert!(!output.status.success() && text(&output).contains("no product `squid`"), "{}", text(&output));
}

/// A saved run with all its figures.
fn read_run(folder: &Path) -> serde_json::Value {
    serde_json::to_value(weir_lab::report::folder::load(folder).unwrap()).unwrap()
}
