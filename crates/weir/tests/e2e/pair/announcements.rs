//! The track file of keepalived: what it says in each state, and who writes it when Weir itself cannot.

use std::path::{Path, PathBuf};

use rustix::process::{Signal, kill_process};

use crate::harness::metrics::Metrics;
use crate::harness::scripts::echo;
use crate::harness::{Client, Origin, Weir, WrittenConfig, eventually, run, temporary_folder};

const SERVES: &str = "0";
const HANDED_OVER: &str = "-60";
const DEAD: &str = "-254";

fn config(origin: &Origin, more: &str) -> String {
    format!(
        "admin = {{ address = \"127.0.0.1:0\", socket = \"unix:{{dir}}/weir.sock\" }}\n\
         process.workers = 2\nprocess.hand_over_delay = \"0s\"\nprocess.keepalived.track_file = \"{{dir}}/track\"\n\
         listener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [\"{}\"]\n{more}\n",
        origin.address()
    )
}

fn track_file(weir: &Weir) -> PathBuf {
    weir.folder().join("track")
}

fn wait_for(file: &Path, number: &str) {
    eventually(&format!("the track file says {number}"), || {
        std::fs::read_to_string(file).is_ok_and(|text| text.trim() == number)
    });
}

#[test]
fn the_number_follows_the_state() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, ""));
    let file = track_file(&weir);
    wait_for(&file, SERVES);
    weir.run_over_socket(&["ctl", "hand-over"]);
    wait_for(&file, HANDED_OVER);
    weir.run_over_socket(&["ctl", "take-back"]);
    wait_for(&file, SERVES);
    eventually("the overview says what was announced", || {
        let process = &weir.admin_json("/api/overview")["process"];
        process["is_watched"] == true && process["announcements"][0]["told"] == SERVES
    });
    // Another writer, such as keepalived at its start, does not have the last word; nor does the one who removes it.
    std::fs::write(&file, "-254\n").expect("the folder is the test's");
    wait_for(&file, SERVES);
    std::fs::remove_file(&file).expect("the folder is the test's");
    wait_for(&file, SERVES);
    // The new process announces before the one before ends.
    weir.upgrade();
    wait_for(&file, SERVES);
    assert_eq!(weir.wait_for_exit_of_the_first().code(), Some(0), "{}", weir.stderr());
    wait_for(&file, SERVES);
    kill_process(weir.serving_pid(), Signal::KILL).expect("it runs");
    wait_for(&file, DEAD);
}

#[test]
fn a_stop_hands_over_first() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, "process.stop_delay = \"1h\""));
    let file = track_file(&weir);
    wait_for(&file, SERVES);
    weir.signal(Signal::TERM);
    wait_for(&file, HANDED_OVER);
    assert_eq!(Client::get(weir.web(), "/").status, 200, "it serves until the other node has taken over");
    weir.signal(Signal::TERM);
    wait_for(&file, DEAD);
    assert_eq!(weir.wait_for_exit().code(), Some(0), "{}", weir.stderr());
    wait_for(&file, DEAD);
}

#[test]
fn a_killed_and_a_frozen_process_are_announced_as_dead() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, ""));
    let file = track_file(&weir);
    wait_for(&file, SERVES);
    weir.pause();
    wait_for(&file, DEAD);
    weir.signal(Signal::CONT);
    wait_for(&file, SERVES);
    weir.line(&["was announced", "told=\"-254\"", "it was stopped by a signal"]);
    // Its own end is told by the watcher, which is a process of its own.
    weir.kill();
    wait_for(&file, DEAD);
}

#[test]
fn a_process_that_does_not_start_changes_nothing() {
    let origin = echo();
    let folder = temporary_folder();
    let track = folder.path().join("track");
    std::fs::write(&track, "7\n").expect("the folder is the test's");
    // An address that another program has.
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let taken = other.local_addr().expect("it is bound");
    let text =
        config(&origin, "").replace("{dir}", folder.path().to_str().expect("temporary paths are UTF-8"));
    let text = text.replace("web.address = \"127.0.0.1:0\"", &format!("web.address = \"{taken}\""));
    // This returns when the watcher has ended, too: it has the same standard error.
    let failed = run(&["serve", WrittenConfig::new(&text).path()]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert_eq!(std::fs::read_to_string(&track).expect("it is there"), "7\n");
}

#[test]
fn a_node_on_standby_waits_for_its_turn() {
    let origin = echo();
    let mut weir = Weir::start(&config(&origin, "process.keepalived.fail_back = \"by-command\""));
    let file = track_file(&weir);
    wait_for(&file, HANDED_OVER);
    let mut kept = Client::connect(weir.web());
    assert!(!kept.fetch("/").closes(), "it serves as ever");
    assert_eq!(weir.run_over_socket(&["ctl", "ready"]).code, Some(0));
    weir.upgrade();
    assert_eq!(weir.admin_json("/api/hand-over")["state"], "standby");
    wait_for(&file, HANDED_OVER);
    weir.run_over_socket(&["ctl", "take-back"]);
    wait_for(&file, SERVES);
    weir.upgrade();
    assert_eq!(weir.admin_json("/api/hand-over")["state"], "serving");
    wait_for(&file, SERVES);
}

#[test]
fn what_cannot_be_announced_is_told() {
    let origin = echo();
    let folder = temporary_folder();
    let missing = folder.path().join("missing");
    let more =
        format!("process.bird = {{ socket = \"{}/bird.ctl\", protocol = \"anycast\" }}", missing.display());
    let text = config(&origin, &more).replace("{dir}/track", &format!("{}/track", missing.display()));
    let weir = Weir::start(&text);
    weir.line(&["cannot be announced", "keepalived", "No such file or directory"]);
    weir.line(&["cannot be announced", "BIRD, protocol anycast", "No such file or directory"]);
    eventually("the metric says so", || {
        Metrics::scrape(weir.address("admin")).sum("weir_process_announcements_failing", &[]) == 2.0
    });
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains("cannot be told: No such file"), "{page}");
    std::fs::create_dir(&missing).expect("the folder is the test's");
    wait_for(&missing.join("track"), SERVES);
    eventually("the metric says that one can be told", || {
        Metrics::scrape(weir.address("admin")).sum("weir_process_announcements_failing", &[]) == 1.0
    });
}

#[test]
fn the_watcher_has_the_user_of_weir() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("\n*** NOT TESTED: only root becomes another user ***\n");
        return;
    }
    let origin = echo();
    let folder = temporary_folder();
    // Only for root: the file alone is given to the user.
    let file = folder.path().join("track");
    let text = config(&origin, "process.user = \"nobody\"");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o711);
    std::fs::set_permissions(folder.path(), mode).expect("the folder is the test's");
    let weir = Weir::start_in(folder, &text);
    wait_for(&file, SERVES);
    let watcher = process_named("weir-watcher", weir.pid());
    let status = std::fs::read_to_string(format!("/proc/{watcher}/status")).expect("it runs");
    let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default().trim();
    assert!(value("Uid:").starts_with("65534"), "{status}");
    assert_eq!(u64::from_str_radix(value("CapEff:"), 16), Ok(0), "{status}");
    assert_eq!((value("NoNewPrivs:"), value("Seccomp:")), ("1", "2"), "{status}");
    let open = std::fs::read_dir(format!("/proc/{watcher}/fd")).expect("it runs").count();
    assert!(open <= 4, "{open} descriptors: standard input, output, error and a socket");
    weir.run_over_socket(&["ctl", "hand-over"]);
    wait_for(&file, HANDED_OVER);
}

/// The kilobytes of memory that a process has for itself.
fn own_kilobytes(process: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let value = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("the kernel says so");
    value.trim().trim_end_matches(" kB").parse().expect("it is a number")
}

/// It begins before the config is read: what many routes take is not in its copy.
#[test]
fn the_watcher_keeps_nothing_of_the_config() {
    let origin = echo();
    let routes = |count: usize| {
        let route = |at| format!("[[listener.web.route]]\npath = \"/{at}\"\nupstream = \"app\"\n");
        config(&origin, &(0..count).map(route).collect::<String>())
    };
    let [few, many] = [1, 3000].map(|count| {
        let weir = Weir::start(&routes(count));
        wait_for(&track_file(&weir), SERVES);
        let watcher = process_named("weir-watcher", weir.pid());
        (own_kilobytes(&watcher), own_kilobytes(&weir.pid().as_raw_nonzero().to_string()))
    });
    assert!(many.1 > few.1 + 4096, "the config takes memory: {few:?} and {many:?}");
    assert!(many.0 < few.0 + 1024, "{few:?} and {many:?}");
}

/// Without something to tell, none is left, not even as a zombie.
#[test]
fn without_a_pair_there_is_no_watcher() {
    let origin = echo();
    let weir = Weir::start(&config(&origin, "").replace("process.keepalived.track_file", "#"));
    let names: Vec<String> = children_of(weir.pid()).into_iter().map(|(_, name)| name).collect();
    assert_eq!(names, ["weir-launcher"]);
}

/// The child of `parent` with this name.
fn process_named(name: &str, parent: rustix::process::Pid) -> String {
    let children = children_of(parent);
    let found = children.iter().find(|(_, child)| child == name);
    found.map_or_else(|| panic!("there is no {name}: {children:?}"), |(number, _)| number.clone())
}

/// The number and the name of each child of `parent`, zombies included.
fn children_of(parent: rustix::process::Pid) -> Vec<(String, String)> {
    let parent = parent.as_raw_nonzero().to_string();
    let child = |number: String| {
        let text = |file| std::fs::read_to_string(format!("/proc/{number}/{file}")).unwrap_or_default();
        let is_child = text("stat")
            .rsplit_once(") ")
            .is_some_and(|(_, rest)| rest.split(' ').nth(1) == Some(parent.as_str()));
        let name = text("comm").trim().to_owned();
        is_child.then_some((number, name))
    };
    let all = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    all.filter_map(|entry| entry.file_name().into_string().ok()).filter_map(child).collect()
}
