//! `weir demo`: runs, balances, accepts requests of users, and ends as announced.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};

use crate::harness::program::{command, wait_for_exit};
use crate::harness::{Client, run};

/// The rows of the last table by the name in their first column.
fn cells<'a>(text: &'a str, name: &str) -> Vec<&'a str> {
    let row = text.lines().rfind(|line| line.split_whitespace().next() == Some(name));
    row.unwrap_or_else(|| panic!("no row {name} in:\n{text}")).split_whitespace().collect()
}

#[test]
fn it_ends_by_itself_with_a_summary() {
    let done = run(&["demo", "--listen", "127.0.0.1:0", "--for", "1s"]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert!(!done.stdout.contains('\u{1b}'), "no picture without a terminal: {done:?}");
    assert_eq!(done.stdout.matches("requests/s").count(), 1, "one table at the end: {done:?}");
    let rate = |name| cells(&done.stdout, name)[2].parse::<f64>().expect("the rate is a number");
    // How much more the quick ones get depends on how busy the machine is.
    assert!(rate("slow") > 0.0 && rate("quick-1") + rate("quick-2") > rate("slow"), "{done:?}");
    assert!(done.stdout.contains("requests answered, 0 failed"), "{done:?}");
}

#[test]
fn it_serves_others_and_ends_on_a_signal() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut demo = command(&["demo", "--listen", "127.0.0.1:0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the program was built with this test");
        let mut stdout = BufReader::new(demo.stdout.take().expect("stdout is piped"));
        let mut line = String::new();
        while !line.contains("curl http://") {
            line.clear();
            assert!(stdout.read_line(&mut line).expect("stdout is UTF-8") > 0, "it says what to try");
        }
        let address =
            line.trim().rsplit("http://").next().and_then(|url| url.trim_end_matches('/').parse().ok());
        let address: SocketAddr = address.unwrap_or_else(|| panic!("an address at the end of {line}"));
        let response = Client::get(address, "/");
        assert!(response.status == 200 && response.text().contains("a server of the demo"), "{response:?}");
        kill_process(Pid::from_child(&demo), signal).expect("the demo runs");
        let status = wait_for_exit(&mut demo).expect("a signal ends it");
        let mut rest = String::new();
        stdout.read_to_string(&mut rest).expect("stdout is UTF-8");
        assert_eq!(status.code(), Some(0), "{rest}");
        assert_eq!(cells(&rest, "all")[1], "up", "{rest}");
    }
}

#[test]
fn a_busy_port_is_reported_with_advice() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address").to_string();
    let done = run(&["demo", "--listen", &address, "--for", "1s"]);
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{done:?}");
    assert!(done.stderr.contains(&address) && done.stderr.contains("weir demo --listen"), "{done:?}");
    let no_port = run(&["demo", "--listen", "unix:/run/weir.sock"]);
    assert!(no_port.code == Some(2) && no_port.stderr.contains("port"), "{no_port:?}");
}
