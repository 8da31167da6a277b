//! The process that starts the program for an upgrade: it outlives signals, and has few privileges.

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::harness::scripts::echo;
use crate::harness::{Client, Origin, Weir, config_with, eventually};

/// The processes beside Weir for upgrades: the one that takes orders, and the one in reserve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Launchers {
    launcher: Pid,
    reserve: Pid,
}

impl Launchers {
    /// Those of the process `weir`, once both are there: they have one socket in common with it.
    fn new(weir: &Weir) -> Self {
        let mut found = None;
        eventually("there are two processes for upgrades", || {
            let started = started_with(&arguments(weir.pid()));
            let named = |wanted| started.iter().find(|(_, name)| name == wanted).map(|(process, _)| *process);
            found = named("weir-launcher").zip(named("weir-reserve"));
            found.is_some()
        });
        let (launcher, reserve) = found.expect("both were found");
        Self { launcher, reserve }
    }
}

fn text(process: &str, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{process}/{file}")).unwrap_or_default()
}

/// What a process was started with; copies of it have the same.
fn arguments(process: Pid) -> String {
    text(&process.as_raw_nonzero().to_string(), "cmdline")
}

/// Living processes that were started so, with their names.
fn started_with(arguments: &str) -> Vec<(Pid, String)> {
    let all = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let numbers = all.filter_map(|entry| entry.file_name().into_string().ok());
    let alike = numbers.filter(|number| text(number, "cmdline") == arguments);
    let named = alike.filter_map(|number| {
        let name = text(&number, "comm").trim().to_owned();
        Pid::from_raw(number.parse().ok()?).map(|process| (process, name))
    });
    named.collect()
}

/// A value of `/proc/PID/status`.
fn status(process: Pid, field: &str) -> String {
    let status = text(&process.as_raw_nonzero().to_string(), "status");
    let value =
        status.lines().find_map(|line| line.strip_prefix(field)).expect("it runs, and the kernel has it");
    value.trim().to_owned()
}

/// Kills a process and waits for its end: until then a list of processes has it still, and the next one killed may be the last.
fn kill(process: Pid) {
    kill_process(process, Signal::KILL).expect("it is a process of this test");
    eventually("it has ended", || arguments(process).is_empty());
}

fn assert_upgrades(weir: &mut Weir) {
    let before = weir.serving_pid();
    weir.upgrade();
    assert_ne!(weir.serving_pid(), before);
    assert_eq!(Client::get(weir.web(), "/after").status, 200);
}

fn start(origin: &Origin) -> Weir {
    let settings = "admin.socket = \"unix:{dir}/weir.sock\"\nadmin.socket_changes = true";
    Weir::start(&config_with(&[origin.named("a")], settings))
}

#[test]
fn a_launcher_that_was_killed_is_replaced_and_so_is_the_one_in_reserve() {
    let origin = echo();
    let mut weir = start(&origin);
    let first = Launchers::new(&weir);
    for _ in 0..3 {
        kill(Launchers::new(&weir).launcher);
    }
    let second = Launchers::new(&weir);
    assert!(second.launcher != first.launcher && second.reserve != first.reserve, "{first:?} {second:?}");
    kill(second.reserve);
    eventually("there is another one in reserve", || {
        let now = Launchers::new(&weir);
        now.launcher == second.launcher && now.reserve != second.reserve
    });
    kill(second.launcher);
    assert_upgrades(&mut weir);
}

/// Also those that have taken the place of others.
#[test]
fn they_end_with_the_process() {
    let origin = echo();
    let mut weir = start(&origin);
    let Launchers { launcher, .. } = Launchers::new(&weir);
    kill(launcher);
    let _another = Launchers::new(&weir);
    let arguments = arguments(weir.pid());
    weir.kill();
    // No other one takes their place either.
    eventually("they have ended", || started_with(&arguments).is_empty());
}

/// Of root's capabilities it has the two that it needs, and can never get those that a start does not need; what it starts has the others.
#[test]
fn it_has_few_capabilities_of_root() {
    if !geteuid().is_root() {
        eprintln!("skipped: this test needs root");
        return;
    }
    // CAP_DAC_READ_SEARCH, CAP_KILL; those of a start besides: CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_FOWNER, CAP_FSETID, CAP_SETGID,
    // CAP_SETUID, CAP_SETPCAP, CAP_NET_BIND_SERVICE, CAP_NET_RAW, CAP_SYS_CHROOT, CAP_SYS_RESOURCE.
    let (itself, of_start) = (1 << 2 | 1 << 5, 0x1ff | 1 << 10 | 1 << 13 | 1 << 18 | 1 << 24);
    let set = |process: Pid, field: &str| {
        u64::from_str_radix(&status(process, field), 16).expect("it is a set in hexadecimal")
    };
    let origin = echo();
    let mut weir = start(&origin);
    let all = set(weir.pid(), "CapBnd:");
    let Launchers { launcher, reserve } = Launchers::new(&weir);
    for process in [launcher, reserve] {
        assert_eq!(set(process, "CapEff:"), itself & all);
        assert_eq!(set(process, "CapPrm:"), itself & all);
        assert_eq!(set(process, "CapBnd:"), of_start & all);
        assert_eq!(set(process, "CapInh:"), 0);
    }
    weir.upgrade();
    assert_eq!(set(weir.serving_pid(), "CapPrm:"), of_start & all, "as root, without `process.user`");
    assert_eq!(Client::get(weir.web(), "/after").status, 200);
}

/// System calls that no start needs are refused to it and to all that it starts, one process after the other.
#[test]
fn it_may_not_make_every_system_call() {
    if !geteuid().is_root() {
        eprintln!("skipped: this test needs root, or a supervisor that sets no_new_privs");
        return;
    }
    let origin = echo();
    let settings =
        "admin.socket = \"unix:{dir}/weir.sock\"\nadmin.socket_changes = true\nprocess.sandbox = \"off\"";
    let mut weir = Weir::start(&config_with(&[origin.named("a")], settings));
    assert_eq!(status(weir.pid(), "Seccomp:"), "0", "the process itself is as its config says");
    let first = Launchers::new(&weir);
    kill(first.launcher);
    let second = Launchers::new(&weir);
    for process in [first.reserve, second.launcher, second.reserve] {
        assert_eq!(status(process, "Seccomp:"), "2");
    }
    assert_upgrades(&mut weir);
    assert_eq!(status(weir.serving_pid(), "Seccomp:"), "2", "inherited");
}
