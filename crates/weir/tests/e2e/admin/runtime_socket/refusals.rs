//! Permissions of the runtime socket, and its answers to invalid commands.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;

use super::{config, ctl, post};
use crate::harness::scripts::named;
use crate::harness::watchdog::WATCHDOG;
use crate::harness::{Client, Gate, Origin, Weir, WrittenConfig, latin1, run, temporary_folder};

fn start(origin: &Origin, settings: &str) -> Weir {
    Weir::start(&config(&[origin], settings))
}

fn mode(weir: &Weir) -> u32 {
    std::fs::metadata(weir.folder().join("weir.sock")).expect("the socket is there").permissions().mode()
        & 0o777
}

#[test]
fn the_mode_of_the_file_controls_access_and_changes() {
    let a = named("a", &Gate::new());
    for (settings, bits, allowed) in [
        ("", 0o600, true),
        ("admin.socket_mode = \"0660\"", 0o660, false),
        ("admin.socket_mode = \"0660\"\nadmin.socket_changes = true", 0o660, true),
        ("admin.socket_changes = false", 0o600, false),
    ] {
        let weir = start(&a, settings);
        assert_eq!(mode(&weir), bits, "{settings}");
        let answered = || weir.metrics().sum("weir_admin_requests_total", &[]);
        let before = answered();
        let reply = weir.ask_socket("disable server app/a");
        // This look is one of them.
        assert_eq!(answered() - before, if allowed { 2.0 } else { 1.0 }, "{settings}");
        let status = post(&weir, "/api/servers/app/a", "{\"mode\": \"serving\"}").status;
        if allowed {
            assert_eq!((reply.as_str(), status), ("\n", 200), "{settings}");
            continue;
        }
        assert!(reply.starts_with("Permission denied: `admin.socket_changes`"), "{reply}");
        assert_eq!(status, 403, "{settings}");
        assert_eq!(Client::get(weir.web(), "/").status, 200, "nothing has changed");
        assert_eq!(weir.metrics().sum("weir_admin_refusals_total", &["reason=\"changes-off\""]), 2.0);
        assert!(weir.ask_socket("show stat").contains("app,a,"), "looking is allowed");
        let refused = ctl(&weir, &["reload"]);
        assert_eq!(refused.code, Some(1));
        assert!(refused.stderr.contains("admin.socket_changes"), "{}", refused.stderr);
    }
}

#[test]
fn nonsense_is_answered_and_bounded() {
    let a = named("a", &Gate::new());
    let weir = start(&a, "");
    let said = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(weir.folder().join("weir.sock")).expect("the socket is there");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a socket has a read timeout");
        let _closed_early = stream.write_all(bytes);
        let _closed_early = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        latin1(&answer)
    };
    assert!(said(b"\n").starts_with("Unknown command."));
    assert!(said(b"\xff\xfe\x00\n").starts_with("Unknown command."));
    assert_eq!(said(b"show info"), "", "a line has an end");
    let answer = said(&[b'x'; 100_000]);
    assert!(answer.is_empty() || answer.starts_with("A line has at most 16384 bytes."), "{answer}");
    assert_eq!(said(&[&[b';'; 1000][..], b"\n"].concat()).matches("Unknown command.").count(), 64);
    assert_eq!(weir.metrics().sum("weir_admin_refusals_total", &["reason=\"too-large\""]), 1.0);
    assert_eq!(Client::get(weir.web(), "/").status, 200);
}

#[test]
fn over_tcp_there_are_commands_alone_and_no_changes_unless_asked_for() {
    let a = named("a", &Gate::new());
    let on_tcp = |more: &str| config(&[&a], more).replace("unix:{dir}/weir.sock", "127.0.0.1:0");
    let said = |weir: &Weir, bytes: &str| {
        let mut stream = TcpStream::connect(weir.address("runtime")).expect("it listens");
        stream.set_read_timeout(Some(WATCHDOG)).expect("a socket has a read timeout");
        stream.write_all(bytes.as_bytes()).expect("it takes a line");
        let mut answer = Vec::new();
        let _reset = stream.read_to_end(&mut answer);
        latin1(&answer)
    };
    let weir = Weir::start(&on_tcp(""));
    assert!(said(&weir, "show info\n").starts_with("Name: HAProxy\n"));
    assert!(said(&weir, "disable server app/a\n").starts_with("Permission denied"));
    let page = "POST / HTTP/1.1\r\nContent-Length: 24\r\n\r\ndisable server app/a\r\n\r\n";
    assert_eq!(said(&weir, page), "", "a page in a browser gets nothing");
    assert_eq!(weir.metrics().sum("weir_admin_refusals_total", &["reason=\"malformed\""]), 1.0);
    let open = Weir::start(&on_tcp("admin.socket_changes = true"));
    assert_eq!(said(&open, page), "");
    assert_eq!(Client::get(open.web(), "/").status, 200, "nothing has changed");
    assert_eq!(said(&open, "disable server app/a\n"), "\n");
}

#[test]
fn an_address_that_others_reach_is_a_mistake() {
    for address in [":9999", "0.0.0.0:9999", "10.0.0.1:9999", "[::]:9999"] {
        let file = WrittenConfig::new(&format!(
            "admin.socket = \"{address}\"\nlistener.web = {{ address = \":0\", upstream = \"app\" }}\n\
             upstream.app.servers = [\"127.0.0.1:1\"]\n"
        ));
        let checked = run(&["check", file.path()]);
        assert_eq!(checked.code, Some(2), "{address}");
        let reply = checked.stdout;
        assert!(reply.contains("has no authentication"), "{reply}");
    }
}

#[test]
fn a_socket_file_that_was_left_behind_is_replaced_and_one_in_use_is_not() {
    let a = named("a", &Gate::new());
    let folder = temporary_folder();
    drop(
        std::os::unix::net::UnixListener::bind(folder.path().join("weir.sock"))
            .expect("a socket can be bound"),
    );
    let weir = Weir::start_in(folder, &config(&[&a], ""));
    assert!(weir.ask_socket("show info").starts_with("Name: HAProxy\n"));
    let socket = weir.folder().display().to_string();
    let second = WrittenConfig::new(&config(&[&a], "").replace("{dir}", &socket));
    let refused = run(&["serve", second.path()]);
    assert_eq!(refused.code, Some(1));
    let reply = refused.stderr;
    assert!(
        reply.contains("the runtime socket cannot use unix:") && reply.contains("admin.socket"),
        "{reply}"
    );
}
