//! What the process gives up at the end of its start: user, groups, root folder, capabilities; and the pid file.
//!
//! Most of it needs a start as root; without it, these tests say so and end.

use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rcgen::PKCS_ECDSA_P256_SHA256;
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::harness::origin::ok;
use crate::harness::program::bound_command;
use crate::harness::tls::WEB_TLS;
use crate::harness::{
    CertificateAuthority, Client, CommandResult, Origin, Weir, WrittenConfig, config_with, eventually, run,
    temporary_folder,
};

/// The user that every system has: its number, and that of its group.
const NOBODY: u32 = 65_534;

/// Whether the test may change users; says so if not.
fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("skipped: this test needs root");
    }
    is_root
}

/// A folder that other users may enter.
fn open_folder() -> TempDir {
    let folder = temporary_folder();
    set_mode(folder.path(), 0o755);
    folder
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is the test's own");
}

fn give(path: &Path, uid: u32, gid: u32) {
    std::os::unix::fs::chown(path, Some(uid), Some(gid)).expect("root may do that");
}

/// The fields of `/proc/PID/task/*/status`: one line for each thread.
fn of_threads(weir: &Weir, field: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", weir.id())).expect("the process runs");
    let of_task = |task: std::fs::DirEntry| {
        let status = std::fs::read_to_string(task.path().join("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        Some(line.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    tasks.flatten().filter_map(of_task).collect()
}

#[track_caller]
fn assert_threads(weir: &Weir, field: &str, expected: &str) {
    let values = of_threads(weir, field);
    assert!(values.len() > 3 && values.iter().all(|value| value == expected), "{field} {values:?}");
}

fn config(origin: &Origin, process: &str) -> String {
    format!(
        "process = {{ workers = 2, {process} }}\naccess_log = {{ format = \"common\", output = \"file:{{dir}}/access.log\" }}\n\
         admin.socket = \"unix:{{dir}}/admin.sock\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        origin.address()
    )
}

#[test]
fn every_thread_becomes_the_user_of_the_config() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let folder = open_folder();
    give(folder.path(), NOBODY, NOBODY);
    let text = config(&origin, "user = \"nobody\", pid_file = \"{dir}/weir.pid\"");
    let mut weir = Weir::start_in(folder, &text);
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    let four = format!("{NOBODY} {NOBODY} {NOBODY} {NOBODY}");
    for (field, expected) in [
        ("Uid:", &*four),
        ("Gid:", &four),
        ("Groups:", "65534"),
        ("CapEff:", "0000000000000000"),
        ("CapPrm:", "0000000000000000"),
        ("CapBnd:", "0000000000000000"),
        ("NoNewPrivs:", "1"),
    ] {
        assert_threads(&weir, field, expected);
    }
    let file = |name: &str| std::fs::metadata(weir.folder().join(name)).expect("it is there");
    for name in ["access.log", "admin.sock", "weir.pid"] {
        assert_eq!(file(name).uid(), NOBODY, "{name}");
    }
    assert_eq!(file("weir.pid").mode() & 0o777, 0o644);
    let pid = std::fs::read_to_string(weir.folder().join("weir.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", weir.id()));
    assert!(weir.stderr().contains("nobody (65534:65534)"), "{}", weir.stderr());
    // A log that was rotated is made by that user, and a reload is read by it.
    let log = weir.folder().join("access.log");
    std::fs::rename(&log, weir.folder().join("access.log.1")).unwrap();
    weir.signal(Signal::USR1);
    eventually("the log is there again", || log.exists());
    weir.hang_up("the config was reloaded");
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    for name in ["weir.pid", "admin.sock"] {
        assert!(!weir.folder().join(name).exists(), "{name} is left");
    }
}

#[test]
fn in_a_folder_of_root_the_pid_file_is_emptied() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let text = config(&origin, "user = \"nobody\", group = \"65534\", pid_file = \"weir.pid\"");
    let mut weir = Weir::start_in(open_folder(), &text);
    let file = weir.folder().join("weir.pid");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", weir.id()));
    weir.signal(Signal::TERM);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

/// A port below 1024 that is free.
fn privileged_ports(count: usize) -> Vec<u16> {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let first = 600 + (std::process::id() % 200) as u16;
    let ports: Vec<u16> = (first..1024).filter(is_free).take(count).collect();
    assert_eq!(ports.len(), count, "no ports below 1024 are free");
    ports
}

#[test]
fn the_right_to_bind_low_ports_stays_where_one_is_used() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let ports = privileged_ports(2);
    let text = |port: u16, more: &str| {
        format!(
            "process.user = \"nobody\"\nlistener.web = {{ address = \"127.0.0.1:{port}\", upstream = \"app\" }}\n{more}\nupstream.app.servers = [\"{}\"]\n",
            origin.address()
        )
    };
    let more = format!("listener.more = {{ address = \"127.0.0.1:{}\", upstream = \"app\" }}", ports[1]);
    let weir = Weir::start_in(open_folder(), &text(ports[0], ""));
    assert_threads(&weir, "CapEff:", "0000000000000400");
    weir.reload(&text(ports[0], &more));
    assert_eq!(Client::get(weir.new_address("more"), "/").text(), "app");
    drop(weir);
    let weir = Weir::start_in(open_folder(), &text(0, ""));
    weir.reload_in_vain(&text(0, &more));
    weir.line(&["listener `more`", "gave up CAP_NET_BIND_SERVICE", "restart Weir"]);
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
}

#[test]
fn the_right_to_use_addresses_of_clients_stays_where_it_is_used() {
    if !is_root() {
        return;
    }
    let origin = Origin::start(|conn| {
        loop {
            conn.request()?;
            conn.send(ok(&conn.peer_ip().to_string()))?;
        }
    });
    let text = |more: &str| {
        format!(
            "process.user = \"nobody\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n{more}\n",
            origin.address()
        )
    };
    let as_clients = text("upstream.app.source_address = \"{client_address}\"");
    let seen = |weir: &Weir| Client::connect_from("127.0.0.31", weir.web()).fetch("/").text();
    let mut weir = Weir::start_in(open_folder(), &as_clients);
    assert_threads(&weir, "CapEff:", "0000000000002000");
    assert_eq!(seen(&weir), "127.0.0.31");
    weir.upgrade();
    assert_eq!(seen(&weir), "127.0.0.31", "the next process may do so, too");
    drop(weir);
    let weir = Weir::start_in(open_folder(), &text(""));
    assert_threads(&weir, "CapEff:", "0000000000000000");
    weir.reload_in_vain(&as_clients);
    weir.line(&["upstream `app`", "needs CAP_NET_RAW", "restart Weir"]);
    assert_eq!(seen(&weir), "127.0.0.1");
    drop(weir);
    if Command::new("setpriv").arg("--version").output().is_ok() {
        let config = WrittenConfig::new(&as_clients.replace("process.user = \"nobody\"", ""));
        set_mode(Path::new(config.path()).parent().expect("it is in a folder"), 0o755);
        let refused = run_as_nobody(&config);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.stderr.contains("AmbientCapabilities=CAP_NET_RAW"), "{refused:?}");
    }
}

/// Runs `weir serve` on a config as the user nobody until it ends.
fn run_as_nobody(config: &WrittenConfig) -> CommandResult {
    let options = ["--reuid", "65534", "--regid", "65534", "--clear-groups"];
    CommandResult::new(bound_command(env!("CARGO_BIN_EXE_weir"), &options).args(["serve", config.path()]))
}

#[test]
fn another_user_needs_a_start_as_root() {
    if !is_root() || Command::new("setpriv").arg("--version").output().is_err() {
        return;
    }
    let text = |user: &str| {
        format!(
            "process = {{ user = \"{user}\", pid_file = \"/proc/nowhere\" }}\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"10.0.0.1:80\"]\n"
        )
    };
    let read = |user: &str| {
        let config = WrittenConfig::new(&text(user));
        set_mode(Path::new(config.path()).parent().expect("it is in a folder"), 0o755);
        run_as_nobody(&config)
    };
    let other = read("daemon");
    assert_eq!(other.code, Some(1), "{other:?}");
    for expected in ["`process.user` needs a start as root", "65534:65534", "`User=` of systemd"] {
        assert!(other.stderr.contains(expected), "{expected:?} is missing in:\n{}", other.stderr);
    }
    // Its own user is fine: it comes as far as the pid file.
    let same = read("nobody");
    assert!(same.code == Some(1) && same.stderr.contains("the pid file `/proc/nowhere`"), "{same:?}");
}

#[test]
fn a_key_that_only_root_can_read_is_read_at_the_start() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let ca = CertificateAuthority::new();
    let folder = open_folder();
    ca.issue(folder.path(), "a", &["a.test"], &PKCS_ECDSA_P256_SHA256);
    let key = folder.path().join("a.key");
    set_mode(&key, 0o600);
    let text = |name: &str| {
        format!(
            "process = {{ user = \"nobody\", name = \"{name}\" }}\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\", \
             tls.certificates = [{{ certificate = \"a.pem\", key = \"a.key\" }}] }}\nupstream.app.servers = [\"{}\"]\n",
            origin.address()
        )
    };
    let weir = Weir::start_in(folder, &text("a"));
    assert_eq!(ca.connect(weir.web()).fetch("/").text(), "app");
    weir.reload_in_vain(&text("b"));
    weir.line(&["a.key", "Permission denied"]);
    weir.line(&["opens files as user `nobody`", "`LoadCredential=`"]);
    assert_eq!(ca.connect(weir.web()).fetch("/").text(), "app");
    give(&key, 0, NOBODY);
    set_mode(&key, 0o640);
    weir.hang_up("the config was reloaded");
    assert_eq!(ca.connect(weir.web()).fetch("/").text(), "app");
}

#[test]
fn the_root_folder_changes_when_everything_is_open() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let folder = open_folder();
    let root = folder.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let weir = Weir::start_in(folder, &config(&origin, "user = \"nobody\", chroot = \"{dir}/root\""));
    assert_eq!(std::fs::read_link(format!("/proc/{}/root", weir.id())).unwrap(), root);
    assert_eq!(std::fs::read_link(format!("/proc/{}/cwd", weir.id())).unwrap(), root);
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    eventually("the log that was opened before has the line", || {
        std::fs::read_to_string(weir.folder().join("access.log")).unwrap().contains("GET / ")
    });
    weir.hang_up("the config was not reloaded");
    weir.line(&["inside `process.chroot`"]);
}

#[test]
fn a_pid_file_of_a_process_that_runs_is_not_taken() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let file = folder.path().join("weir.pid");
    let text = config(&origin, "pid_file = \"weir.pid\"").replace("{dir}", folder.path().to_str().unwrap());
    let path = folder.path().join("weir.toml");
    std::fs::write(&path, &text).unwrap();
    let serve = || run(&["serve", path.to_str().unwrap()]);
    let own = std::process::id();
    std::fs::write(&file, format!("{own}\n")).unwrap();
    let held = std::fs::File::open(&file).unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let done = serve();
    assert_eq!(done.code, Some(1), "{done:?}");
    for expected in [&format!("is that of process {own} (`"), "which runs", "change `process.pid_file`"] {
        assert!(done.stderr.contains(expected), "{expected:?} is missing in:\n{}", done.stderr);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{own}\n"));
    drop(held);
    std::fs::write(&file, "notes of mine").unwrap();
    let done = serve();
    assert!(done.code == Some(1) && done.stderr.contains("something else in it"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes of mine");
    // A start that fails leaves what is there.
    let (ours, taken) = (format!("{own}\n"), TcpListener::bind("127.0.0.1:0").unwrap());
    std::fs::write(&file, &ours).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    std::fs::write(&path, text.replace("127.0.0.1:0", &address)).unwrap();
    let done = serve();
    assert!(done.code == Some(1) && done.stderr.contains(&address), "{done:?}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), ours);
    // That of a process that has ended without removing it is taken over, whichever process has its number now.
    let mut weir = Weir::start_in(folder, &text);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), format!("{}\n", weir.id()));
    let names = || std::fs::read_dir(weir.folder()).unwrap().flatten().map(|entry| entry.file_name());
    assert!(
        !names().any(|name| name.to_string_lossy().starts_with("weir.pid.")),
        "nothing is left beside it"
    );
    weir.signal(Signal::INT);
    assert_eq!(weir.wait_for_exit().code(), Some(0));
    assert!(!file.exists());
}

/// A reader of the file finds the process that serves, at every moment of every upgrade, also of one that fails.
#[test]
fn an_upgrade_replaces_the_number_in_the_pid_file_at_once() {
    let origin = Origin::serving("app");
    let accounts: &[&str] = if is_root() { &["", "user = \"nobody\", group = \"65534\", "] } else { &[""] };
    for account in accounts {
        let text = config(&origin, &format!("{account}pid_file = \"weir.pid\""));
        let mut weir = Weir::start_in(open_folder(), &text);
        let file = weir.folder().join("weir.pid");
        let mut processes = vec![weir.serving_pid().to_string()];
        let ended = Arc::new(AtomicBool::new(false));
        let reading = {
            let (file, ended) = (file.clone(), Arc::clone(&ended));
            std::thread::spawn(move || {
                let mut seen = Vec::new();
                loop {
                    // Read once more behind the end: the last number may have come meanwhile.
                    let is_last = ended.load(Ordering::SeqCst);
                    let text = std::fs::read_to_string(&file).expect("it is there all the while");
                    seen.push(text.trim().to_owned());
                    seen.dedup();
                    if is_last {
                        return seen;
                    }
                }
            })
        };
        for _ in 0..3 {
            weir.write_config(&text.replace("upstream = \"app\"", "upstream = \"none\""));
            let socket = format!("unix:{}", weir.folder().join("admin.sock").display());
            let refused = run(&["upgrade", "--admin", &socket]);
            assert_eq!(refused.code, Some(1), "{refused:?}");
            weir.write_config(&text);
            weir.upgrade();
            processes.push(weir.serving_pid().to_string());
            let now = processes.last().expect("there are some").clone();
            eventually("the new process is in the file", || {
                std::fs::read_to_string(&file).is_ok_and(|text| text == format!("{now}\n"))
            });
        }
        ended.store(true, Ordering::SeqCst);
        let seen = reading.join().expect("every read has found it");
        assert_eq!(seen, processes, "one number after the other, and never none");
        eventually("the first process has ended", || !weir.runs());
        assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), processes.last().expect("there are some"));
    }
}

#[test]
fn users_and_groups_that_do_not_exist_are_pointed_at() {
    let text = |process: &str| {
        format!(
            "process = {{ {process} }}\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"10.0.0.1:80\"]\n"
        )
    };
    for (process, expected) in [
        (
            "user = \"nobod\"",
            ["there is no user `nobod` in `/etc/passwd`", "did you mean `nobody`?", ":1:13"],
        ),
        (
            "group = \"no-such-group\"",
            ["there is no group `no-such-group`", "groupadd --system no-such-group", ":1:13"],
        ),
        ("user = \"4123456\"", ["user 4123456 is not in `/etc/passwd`", "set `group`, too", ":1:13"]),
    ] {
        let config = WrittenConfig::new(&text(process));
        let done = run(&["check", config.path()]);
        assert_eq!(done.code, Some(2), "{done:?}");
        for expected in expected {
            assert!(done.text().contains(expected), "{expected:?} is missing in:\n{}", done.text());
        }
    }
    let config = WrittenConfig::new(&text("user = \"4123456\", group = \"4123456\""));
    assert_eq!(run(&["check", config.path()]).code, Some(0));
}

/// A log of TLS keys is open before the user changes: that user may have no access to its folder.
#[test]
fn a_key_log_is_opened_before_the_user_changes() {
    if !is_root() {
        return;
    }
    let origin = Origin::serving("app");
    let authority = CertificateAuthority::new();
    let folder = authority.folder_for_web();
    set_mode(folder.path(), 0o755);
    give(folder.path(), NOBODY, NOBODY);
    std::fs::create_dir(folder.path().join("private")).expect("the folder is the test's own");
    set_mode(&folder.path().join("private"), 0o700);
    for file in std::fs::read_dir(folder.path()).expect("it is there").flatten() {
        if file.path().is_file() {
            give(&file.path(), NOBODY, NOBODY);
        }
    }
    let settings = format!(
        "process.user = \"nobody\"\n{WEB_TLS}listener.web.tls.key_log = \"{{dir}}/private/keys.log\"\n"
    );
    let text = config_with(&[origin.named("a")], &settings);
    let weir = Weir::start_in(folder, &text);
    assert_eq!(authority.connect(weir.web()).fetch("/").text(), "app");
    let log = weir.folder().join("private/keys.log");
    eventually("the key log has lines", || {
        std::fs::read_to_string(&log).is_ok_and(|text| text.contains("SECRET"))
    });
    // A reload finds it open.
    weir.hang_up("the config was reloaded");
    assert_eq!(authority.connect(weir.web()).fetch("/").text(), "app");
    assert_eq!(std::fs::metadata(&log).expect("it was made").uid(), NOBODY);
}
