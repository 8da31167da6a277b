//! `process.sandbox`: what the kernel lets the process do with files, and which system calls it may make.

use std::path::Path;

use crate::harness::{Client, Origin, Weir, temporary_folder};

fn config(origin: &Origin, sandbox: &str, log: &Path) -> String {
    format!(
        "process.sandbox = \"{sandbox}\"\nadmin.address = \"127.0.0.1:0\"\naccess_log = {{ format = \"common\", output = \"file:{}/access.log\" }}\n\
         listener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\nupstream.app.servers = [\"{}\"]\n",
        log.display(),
        origin.address()
    )
}

/// A field of `/proc/PID/status`.
fn status(weir: &Weir, field: &str) -> String {
    let status = std::fs::read_to_string(format!("/proc/{}/status", weir.id())).expect("the process runs");
    let line = status.lines().find_map(|line| line.strip_prefix(field)).expect("every kernel has it");
    line.trim().to_owned()
}

/// Whether this kernel has Landlock; says so if not.
fn has_landlock(weir: &Weir) -> bool {
    let has = weir.metrics().sum("weir_process_landlock_version", &[]) > 0.0;
    if !has {
        eprintln!("skipped in part: this kernel has no Landlock");
    }
    has
}

#[test]
fn it_is_on_and_shown_everywhere() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let weir = Weir::start(&config(&origin, "on", folder.path()));
    assert_eq!((status(&weir, "Seccomp:"), status(&weir, "NoNewPrivs:")), ("2".to_owned(), "1".to_owned()));
    assert_eq!(weir.metrics().sum("weir_process_system_call_filter", &[]), 1.0);
    assert_eq!(weir.metrics().sum("weir_process_system_calls_denied_total", &[]), 0.0);
    weir.line(&["privileges of the process", "allowed (seccomp)"]);
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(page.contains("System calls") && page.contains("allowed (seccomp)"), "{page}");
    if has_landlock(&weir) {
        assert!(page.contains("system folders read-only, none executed (Landlock, version"), "{page}");
    }
}

#[test]
fn a_reload_may_name_any_folder_but_those_of_the_system() {
    let origin = Origin::serving("app");
    let folders = [temporary_folder(), temporary_folder()];
    let weir = Weir::start(&config(&origin, "on", folders[0].path()));
    // A folder that the start knew nothing of.
    weir.reload(&config(&origin, "on", folders[1].path()));
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    assert!(folders[1].path().join("access.log").exists());
    if has_landlock(&weir) {
        weir.reload_in_vain(&config(&origin, "on", Path::new("/usr/share")));
        weir.line(&[
            "access log /usr/share/access.log",
            "Permission denied",
            "in no folder of the system",
            "restart Weir",
        ]);
        assert!(!Path::new("/usr/share/access.log").exists());
    }
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
}

#[test]
fn in_strict_mode_only_the_folders_of_the_start_are_written() {
    let origin = Origin::serving("app");
    let (own, other) = (temporary_folder(), temporary_folder());
    let spool = own.path().join("spool");
    std::fs::create_dir(&spool).unwrap();
    let log = own.path().to_owned();
    let spool = spool.to_str().expect("temporary paths are UTF-8").to_owned();
    let weir = Weir::start_in_environment(own, &config(&origin, "strict", &log), &[("TMPDIR", &spool)]);
    if !has_landlock(&weir) {
        return;
    }
    weir.reload_in_vain(&config(&origin, "strict", other.path()));
    weir.line(&["access log", "Permission denied", "the process may write below", "restart Weir"]);
    let socket = format!(
        "{}listener.local = {{ address = \"unix:{}/weir.sock\", upstream = \"app\" }}\n",
        config(&origin, "strict", &log),
        other.path().display()
    );
    weir.reload_in_vain(&socket);
    weir.line(&["listener `local`", "weir.sock", "the process may write below"]);
    // Other changes take effect as ever, and the log is written.
    weir.reload(&format!("{}dns.timeout = \"1s\"\n", config(&origin, "strict", &log)));
    assert_eq!(Client::get(weir.web(), "/").text(), "app");
    assert_eq!(std::fs::read_dir(other.path()).unwrap().count(), 0);
}

#[test]
fn it_can_be_turned_off() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let weir = Weir::start(&config(&origin, "off", folder.path()));
    assert_eq!(status(&weir, "Seccomp:"), "0");
    weir.line(&["privileges of the process", "not confined", "not filtered"]);
    weir.reload(&config(&origin, "on", folder.path()));
    weir.line(&["holds only after a restart", "process.sandbox"]);
}
