//! A target that fails is named with its reason and left out, and the others go on; no process is left over.

#![expect(clippy::unwrap_used, reason = "a test stops at what it did not expect")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use weir_lab::clock::wait_until;
use weir_lab::process::tree;
use weir_lab::wire::{fields, pattern};

const LIMIT: Duration = Duration::from_secs(60);

/// One test measures at a time: the others would take its CPUs.
fn measuring() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn lab(args: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir-lab"));
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

/// A script in place of Weir: prints a version when asked, writes its process id and address to `said`, then runs `script`.
fn fake_weir(dir: &Path, script: &str) -> String {
    let path = dir.join("weir");
    let listen = "listen=$(sed -n 's/^address = \"\\(.*\\)\"/\\1/p' \"$2\")";
    let said = format!("echo \"$$ $listen\" > {0}/said.part; mv {0}/said.part {0}/said", dir.display());
    let version = "[ \"$1\" = --version ] && { echo weir 0.0.0; exit; }";
    std::fs::write(&path, format!("#!/bin/sh\n{version}\n{listen}\n{said}\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

/// Process id and address of the fake Weir, once it has started.
fn said(dir: &Path) -> (i32, String) {
    let file = dir.join("said");
    assert!(wait_until(LIMIT, || file.exists()), "the fake Weir was never started");
    let said = std::fs::read_to_string(file).unwrap();
    let (pid, listen) = said.trim().split_once(' ').unwrap();
    (pid.parse().unwrap(), listen.to_owned())
}

/// Runs `direct` and the fake Weir and calls `act` meanwhile; returns the output, in which weir has failed and direct has not.
fn run_with_failing(dir: &Path, script: &str, act: impl FnOnce(i32, &str)) -> String {
    let weir = fake_weir(dir, script);
    let child = lab(&["run", "l7-keepalive", "--short", "--targets", "weir,direct", "--weir", &weir]);
    let (pid, listen) = said(dir);
    act(pid, &listen);
    let output = child.wait_with_output().unwrap();
    let said = text(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("weir FAILED") && !said.contains("| weir"), "{said}");
    assert!(said.contains("| direct |") && said.contains("round 2/2 direct"), "{said}");
    assert!(!said.contains("round 2/2 weir"), "{said}");
    said
}

#[test]
fn a_target_that_dies_under_load_is_named_and_the_others_go_on() {
    let _turn = measuring();
    let dir = tempfile::tempdir().unwrap();
    let script = format!("exec {} origin --listen $listen", env!("CARGO_BIN_EXE_weir-lab"));
    let said = run_with_failing(dir.path(), &script, |pid, listen| {
        let is_under_load = || requests(listen).is_some_and(|count| count > 500);
        assert!(wait_until(LIMIT, is_under_load), "no load came");
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    });
    assert!(said.contains("the target ended: exit by signal 9"), "{said}");
}

/// Requests that the origin at `listen` has had.
fn requests(listen: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(listen).ok()?;
    stream.write_all(b"GET /counters HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let json: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1)?).ok()?;
    json["requests"].as_u64()
}

#[test]
fn targets_that_truncate_falsify_or_refuse_are_named_with_the_fault() {
    let _turn = measuring();
    let page = |body: &[u8]| [b"HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n".as_slice(), body].concat();
    let mut false_page = pattern::run(0, 612).to_vec();
    false_page[300] ^= 1;
    for (answer, reason) in [
        (page(pattern::run(0, 306)), "closed"),
        (page(&false_page), "body"),
        (b"HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n".to_vec(), "status 500"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let said = run_with_failing(dir.path(), "exec sleep 1000", |_, listen| {
            let listener = TcpListener::bind(listen).unwrap();
            std::thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    let answer = answer.clone();
                    std::thread::spawn(move || serve_two_pages_then(&stream, &answer));
                }
            });
        });
        assert!(said.contains("wrong answers") && said.contains(reason), "{reason}: {said}");
    }
}

/// Answers twice as it should, then with `answer` and the end.
fn serve_two_pages_then(mut stream: &TcpStream, answer: &[u8]) {
    let (mut seen, mut part) = (Vec::new(), [0; 4096]);
    for number in 0..3 {
        while fields::head_len(&seen).is_none() {
            match stream.read(&mut part) {
                Ok(len) if len > 0 => seen.extend_from_slice(&part[..len]),
                _ => return,
            }
        }
        seen.clear();
        let good = [b"HTTP/1.1 200 OK\r\nContent-Length: 612\r\n\r\n", pattern::run(0, 612)].concat();
        if stream.write_all(if number < 2 { &good } else { answer }).is_err() {
            return;
        }
    }
}

#[test]
fn ctrl_c_leaves_no_process_of_any_target_behind() {
    let _turn = measuring();
    for (targets, processes) in [
        // The lab, two guards, the origin, and nginx with its worker.
        ("nginx", 6),
        ("relay", 5),
    ] {
        let mut child = lab(&["run", "l7-keepalive", "--targets", targets, "--window", "1000s"]);
        let mut pids = Vec::new();
        // Client and origin alone are measured before; the target comes then.
        let started = wait_until(LIMIT, || {
            pids = tree::members(child.id() as i32);
            pids.len() >= processes
        });
        assert!(started, "{targets}: {pids:?}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(130), "{targets}");
        let is_gone = |pid: &i32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            stat.rsplit(')')
                .next()
                .is_none_or(|rest| rest.trim().is_empty() || rest.trim_start().starts_with('Z'))
        };
        assert!(wait_until(LIMIT, || pids.iter().all(is_gone)), "{targets}: {pids:?}");
    }
}
