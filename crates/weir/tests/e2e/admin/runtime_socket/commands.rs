//! The answers of the socket, and how its connections end.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use super::{config, http, stat};
use crate::harness::scripts::named;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::{Client, Gate, Origin, Weir, eventually, temporary_folder};

fn start() -> (Weir, [Origin; 2]) {
    let gate = Gate::new();
    let origins = [named("a", &gate), named("b", &gate)];
    (Weir::start(&config(&origins.each_ref(), "upstream.app.balance = \"round-robin\"")), origins)
}

#[test]
fn figures_are_in_the_columns_of_haproxy() {
    let (weir, _origins) = start();
    for _ in 0..4 {
        assert_eq!(Client::get(weir.web(), "/").status, 200);
    }
    eventually("all are counted", || stat(&weir, "app", "BACKEND", "stot") == "4");
    for (proxy, service, column, value) in [
        ("web", "FRONTEND", "req_tot", "4"),
        ("web", "FRONTEND", "hrsp_2xx", "4"),
        ("web", "FRONTEND", "status", "OPEN"),
        ("app", "a", "stot", "2"),
        ("app", "b", "weight", "10"),
        ("app", "b", "status", "no check"),
        ("app", "BACKEND", "act", "2"),
        ("app", "BACKEND", "algo", "round-robin"),
    ] {
        assert_eq!(stat(&weir, proxy, service, column), value, "{proxy} {service} {column}");
    }
    let info = weir.ask_socket("show info");
    assert!(info.contains("\nCumReq: 4\n") && info.contains("\nNbproc: 1\n"), "{info}");
    let state = weir.ask_socket("show servers state app");
    assert!(
        state.starts_with("1\n# be_id be_name ") && state.contains(" app 1 a 127.0.0.1 2 0 10 10 "),
        "{state}"
    );
    assert!(weir.ask_socket("show servers conn").contains("app/a 3/1 127.0.0.1 "));
    assert!(weir.ask_socket("show errors").starts_with("Total events captured on ["));
    assert_eq!(weir.ask_socket("show stat unknown -1 -1"), "No such proxy.\n\n");
    assert_eq!(weir.ask_socket("show servers state unknown"), "Can't find backend.\n\n");
}

/// HAProxy itself, with a socket; dropping it kills the process.
struct HaProxy {
    process: Child,
    folder: TempDir,
}

impl HaProxy {
    fn start() -> HaProxy {
        let folder = temporary_folder();
        let socket = folder.path().join("h.sock");
        let text = format!(
            "global\n  stats socket {} level admin\ndefaults\n  timeout connect 1s\n  timeout client 1s\n  timeout server 1s\n\
             backend app\n  server a 127.0.0.1:1\n",
            socket.display()
        );
        let file = folder.path().join("h.cfg");
        std::fs::write(&file, text).expect("the test's own folder takes a file");
        let process = Command::new("haproxy")
            .args(["-db", "-f"])
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run haproxy ({error}): cargo xtask setup"));
        let haproxy = HaProxy { process, folder };
        eventually("haproxy has its socket", || UnixStream::connect(&socket).is_ok());
        haproxy
    }

    fn ask(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.folder.path().join("h.sock")).expect("the socket is there");
        writeln!(stream, "{line}").expect("the socket takes a line");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer comes to its end");
        answer
    }
}

impl Drop for HaProxy {
    fn drop(&mut self) {
        let _gone_already = self.process.kill();
        let _status = self.process.wait();
    }
}

/// Columns behind this one differ from version to version.
const LAST_COLUMN_OF_ALL: &str = "agg_check_status";

#[test]
fn the_haproxy_that_is_installed_has_the_same_columns_and_keys() {
    let (weir, _origins) = start();
    let haproxy = HaProxy::start();
    let columns = |csv: &str| -> Vec<String> {
        let all: Vec<String> = csv.lines().next().unwrap_or_default().split(',').map(str::to_owned).collect();
        let last = all.iter().position(|column| column == LAST_COLUMN_OF_ALL).expect("every version has it");
        all[..=last].to_vec()
    };
    assert_eq!(columns(&weir.ask_socket("show stat")), columns(&haproxy.ask("show stat")));
    let keys = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| Some(line.split_once(':')?.0.to_owned())).collect()
    };
    let theirs = keys(&haproxy.ask("show info"));
    let mut places = keys(&weir.ask_socket("show info")).into_iter().map(|key| {
        theirs.iter().position(|their| *their == key).unwrap_or_else(|| panic!("HAProxy has no {key}"))
    });
    assert!(places.by_ref().is_sorted(), "the keys come in HAProxy's order");
    let words = |text: &str| text.lines().nth(1).unwrap_or_default().to_owned();
    assert_eq!(words(&weir.ask_socket("show servers state")), words(&haproxy.ask("show servers state")));
}

#[test]
fn several_commands_in_a_line_are_answered_in_turn() {
    let (weir, _origins) = start();
    let answer = weir.ask_socket("show version;get weight app/a; show backend;nonsense");
    let parts: Vec<&str> = answer.split("\n\n").collect();
    assert_eq!(parts[1..3], ["10 (initial 10)", "# name\napp"]);
    assert!(
        parts[3].starts_with("Unknown command. Please enter one of the following commands only:"),
        "{answer}"
    );
}

#[test]
fn prompt_keeps_the_session_open_until_quit_or_silence() {
    let (weir, _origins) = start();
    let connect = || {
        let stream = UnixStream::connect(weir.folder().join("weir.sock")).expect("the socket is there");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a socket has a read timeout");
        BufReader::new(stream)
    };
    let until_prompt = |session: &mut BufReader<UnixStream>| {
        let mut text = Vec::new();
        while !text.ends_with(b"\n> ") {
            assert_ne!(
                session.read_until(b' ', &mut text).expect("a prompt comes"),
                0,
                "closed after {text:?}"
            );
        }
        String::from_utf8(text).expect("answers are UTF-8")
    };
    let mut session = connect();
    for (line, answer) in [
        ("prompt", "\n> "),
        ("", "\n> "),
        ("get weight app/b", "10 (initial 10)\n\n> "),
        ("set timeout cli 30", "\n> "),
        ("get weight app/c", "No such server.\n\n> "),
    ] {
        writeln!(session.get_mut(), "{line}").unwrap();
        assert_eq!(until_prompt(&mut session), answer, "{line}");
    }
    writeln!(session.get_mut(), "quit").unwrap();
    assert_eq!(session.read_to_end(&mut Vec::new()).unwrap(), 0);
    let mut silent = connect();
    writeln!(silent.get_mut(), "prompt;set timeout cli 1").unwrap();
    let mut rest = String::new();
    silent.read_to_string(&mut rest).expect("it is closed in the end");
    assert_eq!(rest, "\n> \n> ");
}

#[test]
fn the_admin_api_is_on_the_same_socket_without_credentials() {
    let gate = Gate::new();
    let a = named("a", &gate);
    let weir = Weir::start(&config(&[&a], "admin.token_file = \"/proc/sys/kernel/random/uuid\""));
    let overview = http(&weir, "GET /api/overview HTTP/1.1\r\nHost: weir\r\n\r\n");
    assert_eq!(overview.status, 200);
    assert!(overview.text().contains("\"upstreams\":[{\"name\":\"app\""), "{}", overview.text());
    let config = http(&weir, "GET /api/config HTTP/1.1\r\nHost: weir\r\n\r\n").text();
    assert!(config.contains("[upstream.app]"), "{config}");
    let stat = http(&weir, "GET /api/raw?command=show%20stat HTTP/1.1\r\nHost: weir\r\n\r\n").text();
    assert!(stat.starts_with("# pxname,svname,"), "{stat}");
    let by_address = Client::get_by_address(weir.address("admin"), "/api/overview");
    assert_eq!(by_address.status, 401, "over TCP they are asked for");
}
