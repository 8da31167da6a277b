//! An access log that cannot keep up, or cannot be written at all: requests are answered as ever, memory stays bounded,
//! and every line that is missing is counted.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use rustix::fs::{CWD, Mode};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::watchdog::WATCHDOG;
use crate::harness::{Client, Weir, eventually, temporary_folder};

/// Long enough for a few thousand lines to be more than what may wait.
const TARGET_LEN: usize = 4_000;
/// What Weir may grow by: far less than the lines that are not read.
const GROWTH_MAX: u64 = 12 << 20;

/// Answers everything itself and logs the targets.
fn answering(folder: TempDir, output: &str) -> Weir {
    let text = format!(
        "admin.address = \"127.0.0.1:0\"\naccess_log = {{ format = '{{target}}', output = \"{output}\", lines_max = 64 }}\n\
         [listener.web]\naddress = \"127.0.0.1:0\"\nlimits = {{ target_size = \"8KiB\" }}\n\
         [[listener.web.route]]\nrespond = {{ status = 204 }}\n"
    );
    Weir::start_in(folder, &text)
}

fn ask(client: &mut Client, count: usize) {
    let request = format!("GET /{} HTTP/1.1\r\nHost: a.test\r\n\r\n", "t".repeat(TARGET_LEN));
    for _ in 0..count {
        client.send(&request);
        assert_eq!(client.response().status, 204);
    }
}

fn dropped(weir: &Weir) -> u64 {
    weir.metrics().sum("weir_worker_log_lines_dropped_total", &[]) as u64
}

fn folder() -> TempDir {
    temporary_folder()
}

/// A pipe that is open and not read.
fn unread_pipe(path: &Path) -> File {
    rustix::fs::mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("the test owns the folder");
    OpenOptions::new().read(true).write(true).open(path).expect("the test owns the pipe")
}

#[test]
fn a_log_without_a_reader() {
    let folder = folder();
    let pipe = unread_pipe(&folder.path().join("pipe"));
    let weir = answering(folder, "file:{dir}/pipe");
    let mut client = Client::connect(weir.web());
    let mut asked = 0;
    eventually("lines are dropped", || {
        ask(&mut client, 50);
        asked += 50;
        dropped(&weir) > 0
    });
    let before = weir.resident_bytes();
    ask(&mut client, 8_000);
    asked += 8_000;
    let growth = weir.resident_bytes().saturating_sub(before);
    assert!(growth < GROWTH_MAX, "memory grew by {} KiB", growth >> 10);

    // The pipe is read again: what was kept is written, and every line is either there or counted.
    let read = Arc::new(AtomicU64::new(0));
    let reading = Arc::clone(&read);
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines() {
            assert_eq!(line.expect("targets are text").len(), TARGET_LEN + 1, "lines are written whole");
            reading.fetch_add(1, Ordering::Relaxed);
        }
    });
    eventually("every line is accounted for", || read.load(Ordering::Relaxed) + dropped(&weir) == asked);
    assert!(read.load(Ordering::Relaxed) > 0, "not everything was dropped");
    let before = dropped(&weir);
    ask(&mut client, 1);
    asked += 1;
    eventually("the log goes on", || read.load(Ordering::Relaxed) + before == asked);
}

#[test]
fn a_stop_does_not_wait_for_a_log_without_a_reader() {
    let folder = folder();
    let _pipe = unread_pipe(&folder.path().join("pipe"));
    let mut weir = answering(folder, "file:{dir}/pipe");
    let mut client = Client::connect(weir.web());
    eventually("lines are dropped", || {
        ask(&mut client, 50);
        dropped(&weir) > 0
    });
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    assert!(weir.stderr().contains("access log"), "{}", weir.stderr());
}

#[test]
fn a_full_disk() {
    let weir = answering(folder(), "file:/dev/full");
    let mut client = Client::connect(weir.web());
    ask(&mut client, 30);
    eventually("every line is counted", || dropped(&weir) == 30);
    weir.line(&["the access log cannot be written", "output=\"file:/dev/full\""]);
}

/// Lines for a log daemon that is not there are counted; when it comes up, it gets those that follow.
#[test]
fn a_log_daemon_that_comes_up_late() {
    let folder = folder();
    let path = folder.path().join("log");
    let weir = answering(folder, "syslog:{dir}/log");
    let mut client = Client::connect(weir.web());
    ask(&mut client, 5);
    eventually("every line is counted", || dropped(&weir) == 5);
    let socket = UnixDatagram::bind(&path).expect("the test owns the folder");
    socket.set_read_timeout(Some(WATCHDOG)).expect("a time limit is fine");
    ask(&mut client, 1);
    let mut buf = [0; 8192];
    let len = socket.recv(&mut buf).expect("a message comes");
    assert!(buf[..len].ends_with(b"tttt"), "the line of the request");
    assert_eq!(dropped(&weir), 5);
}
