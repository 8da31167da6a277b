//! What a supervisor such as systemd does for a service: sockets that it opens, a watchdog that it expects answers to; and descriptors that
//! no other program may get.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
#[cfg(debug_assertions)]
use std::time::Duration;

use rustix::process::Signal;

use crate::harness::watchdog::WATCHDOG;
use crate::harness::{Client, Origin, Weir, eventually, temporary_folder};

fn listening() -> (TcpListener, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = socket.local_addr().expect("it is bound");
    (socket, address)
}

fn config(origin: &Origin, address: &str) -> String {
    format!(
        "process.workers = 2\nlistener.web = {{ address = \"{address}\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    )
}

#[test]
fn a_listener_takes_the_socket_of_its_address() {
    let origin = Origin::serving("app");
    let (socket, address) = listening();
    let text = config(&origin, &address.to_string());
    let copy = || OwnedFd::from(socket.try_clone().expect("there are descriptors left"));
    let mut weir = Weir::start_inheriting(copy(), "web", &text);
    assert_eq!(weir.web(), address);
    for _ in 0..20 {
        assert_eq!(Client::get(address, "/").text(), "app");
    }
    weir.reload(&text);
    assert_eq!(Client::get(address, "/").text(), "app");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    // A connection that is made in between waits for the next start: it is not refused.
    let mut waiting = Client::connect(address);
    waiting.send_get("/");
    let _weir = Weir::start_inheriting(copy(), "web", &text);
    assert_eq!(waiting.response().text(), "app");
}

#[test]
fn the_file_of_a_socket_of_the_supervisor_stays() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let path = folder.path().join("web.sock");
    let socket = UnixListener::bind(&path).expect("the folder is new");
    let text = config(&origin, &format!("unix:{}", path.display()));
    let mut weir = Weir::start_inheriting(socket.into(), "web", &text);
    assert_eq!(Client::get(weir.listening("web").clone(), "/").text(), "app");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    assert!(path.exists());
}

#[test]
fn a_socket_that_no_listener_wants_is_named_and_closed() {
    let origin = Origin::serving("app");
    let (socket, address) = listening();
    let weir = Weir::start_inheriting(socket.into(), "spare", &config(&origin, "127.0.0.1:0"));
    weir.line(&["no listener has the address of a socket of the supervisor", "spare", &address.to_string()]);
    assert!(std::net::TcpStream::connect(address).is_err(), "it is still open");
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    let (one, _other) = UnixStream::pair().expect("there are descriptors left");
    let weir = Weir::start_inheriting(one.into(), "pipe", &config(&origin, "127.0.0.1:0"));
    weir.line(&["no listening stream socket", "pipe"]);
}

#[test]
fn the_watchdog_is_answered() {
    let folder = temporary_folder();
    let path = folder.path().join("notify.sock");
    let supervisor = UnixDatagram::bind(&path).expect("the folder is new");
    supervisor.set_read_timeout(Some(WATCHDOG)).expect("a socket takes a time limit");
    let config = "listener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }\nupstream.app.servers = [\"127.0.0.1:1\"]\n";
    let variables =
        [("NOTIFY_SOCKET", path.to_str().expect("temporary paths are UTF-8")), ("WATCHDOG_USEC", "200000")];
    let weir = Weir::start_in_environment(temporary_folder(), config, &variables);
    let mut answers = 0;
    while answers < 5 {
        let mut notified = [0; 512];
        let len = supervisor.recv(&mut notified).expect("a notification comes");
        answers += usize::from(notified[..len].starts_with(b"WATCHDOG=1"));
    }
    drop(weir);
}

/// A worker that stands still is a reason for the supervisor to restart the process, although all other threads go on.
#[cfg(debug_assertions)]
#[test]
fn the_watchdog_is_not_answered_while_a_worker_hangs() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let path = folder.path().join("notify.sock");
    let supervisor = UnixDatagram::bind(&path).expect("the folder is new");
    supervisor.set_read_timeout(Some(WATCHDOG)).expect("a socket takes a time limit");
    let variables = [
        ("NOTIFY_SOCKET", path.to_str().expect("temporary paths are UTF-8")),
        ("WATCHDOG_USEC", "200000"),
        ("WEIR_FAULTS", "1"),
    ];
    let weir = Weir::start_in_environment(temporary_folder(), &config(&origin, "127.0.0.1:0"), &variables);
    let is_answer = |supervisor: &UnixDatagram| {
        let mut notified = [0; 512];
        supervisor.recv(&mut notified).map(|len| notified[..len].starts_with(b"WATCHDOG=1"))
    };
    while !is_answer(&supervisor).expect("a notification comes") {}
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: hang\r\n\r\n");
    weir.line(&["the watchdog of the supervisor is not answered", "weir-worker-"]);
    // What was sent before is still there; behind it nothing comes for five times as long as an answer takes.
    supervisor.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket takes a time limit");
    let answers = (0..1_000).take_while(|_| is_answer(&supervisor).is_ok()).count();
    assert!(answers < 1_000, "it is answered all the same");
}

#[test]
fn no_descriptor_is_left_to_another_program() {
    let origin = Origin::serving("app");
    let text = "admin.address = \"127.0.0.1:0\"\nadmin.socket = \"unix:{dir}/admin.sock\"\nprocess.pid_file = \"weir.pid\"\n\
        access_log = { format = \"common\", output = \"file:{dir}/access.log\" }\n";
    let weir = Weir::start(&format!("{text}{}", config(&origin, "127.0.0.1:0")));
    let mut client = Client::connect(weir.web());
    assert_eq!(client.fetch("/").text(), "app");
    eventually("its connections are there", || !open_on_exec(&weir).is_empty());
    let open = open_on_exec(&weir);
    assert!(open.iter().all(|fd| *fd <= 2), "descriptors without close-on-exec: {open:?}");
}

/// The descriptors that a program would get that the process executes.
fn open_on_exec(weir: &Weir) -> Vec<u32> {
    const CLOSE_ON_EXEC: u32 = 0o2_000_000;
    let entries = std::fs::read_dir(format!("/proc/{}/fdinfo", weir.id())).expect("the process runs");
    let stays_open = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path()).ok()?;
        let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
        let flags = u32::from_str_radix(flags.trim(), 8).expect("the kernel writes octal digits");
        let fd = entry.file_name().to_str()?.parse().ok()?;
        (flags & CLOSE_ON_EXEC == 0).then_some(fd)
    };
    entries.flatten().filter_map(stays_open).collect()
}
