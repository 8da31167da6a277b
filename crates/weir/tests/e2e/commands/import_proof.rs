//! `weir import --prove`: whether the program of the user and Weir answer alike, what is said where that cannot be shown, and that nothing outside
//! is touched.

use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::harness::php::is_root;
use crate::harness::program::bound_command;
use crate::harness::{CommandResult, run, temporary_folder};

/// Whether proofs can be made; says so where they cannot.
fn can_prove() -> bool {
    let beside = Path::new(env!("CARGO_BIN_EXE_weir")).with_file_name("weir-proof");
    assert!(beside.is_file(), "weir-proof is not built: cargo build --workspace --all-features");
    let trial =
        bound_command("unshare", &[]).args(["--net", "--mount", "true"]).stderr(Stdio::null()).status();
    let is_possible = is_root() && trial.is_ok_and(|status| status.success());
    if !is_possible {
        eprintln!("\n*** NOT TESTED: this user may make no namespaces; run the tests as root ***\n");
    }
    is_possible
}

/// A site with a log, a folder and a server behind it, all on names and ports that this machine may use otherwise.
const NGINX: &str = "events {}
pid {dir}/nginx.pid;
http {
    access_log {dir}/access.log;
    server {
        listen 80;
        server_name shop.test;
        location = /gone { return 410; }
        location /static/ { root {dir}/www; }
        location / {
            proxy_set_header X-Real-IP $remote_addr;
            proxy_pass http://127.0.0.1:3000;
        }
    }
}
";

/// The file of nginx in `folder`.
fn written(folder: &Path, text: &str) -> String {
    let path = folder.join("nginx.conf");
    let text = text.replace("{dir}", folder.to_str().expect("temporary paths are UTF-8"));
    std::fs::write(&path, text).expect("the test owns the folder");
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}

fn prove(file: &str, more: &[&str]) -> CommandResult {
    run(&[&["import", "--prove", file, "--requests", "60"], more].concat())
}

#[test]
fn a_config_is_proved_and_nothing_outside_is_touched() {
    if !can_prove() {
        return;
    }
    let folder = temporary_folder();
    let file = written(folder.path(), NGINX);
    // What a running nginx and its servers would have here.
    let pid = folder.path().join("nginx.pid");
    std::fs::write(&pid, "1\n").expect("the test owns the folder");
    let socket = folder.path().join("app.sock");
    let listener = UnixListener::bind(&socket).expect("the test owns the folder");
    listener.set_nonblocking(true).expect("a socket can be asked");
    let done = prove(&file, &["--json"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let report: Value = serde_json::from_str(&done.stdout).expect("it is JSON");
    assert_eq!((&report["requests"], &report["defects"]), (&60.into(), &0.into()), "{report:#}");
    assert!(listener.accept().is_err(), "a running server was connected to");
    let mut names: Vec<String> = std::fs::read_dir(folder.path())
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["app.sock", "nginx.conf", "nginx.pid"]);
    assert_eq!(std::fs::read_to_string(&pid).expect("it is there"), "1\n");
}

#[test]
fn a_wrong_config_is_found() {
    if !can_prove() {
        return;
    }
    let folder = temporary_folder();
    let file = written(folder.path(), NGINX);
    let imported = run(&["import", &file]);
    let config = folder.path().join("weir.toml");
    assert!(imported.stdout.contains("respond.status = 410"), "{imported:?}");
    std::fs::write(&config, imported.stdout.replace("respond.status = 410", "respond.status = 404"))
        .expect("the test owns the folder");
    let done = prove(&file, &["--config", config.to_str().expect("temporary paths are UTF-8")]);
    assert_eq!(done.code, Some(1), "{done:?}");
    assert!(done.stdout.contains("DEFECT (no rule)") && done.stdout.contains("location = /gone"), "{done:?}");
}

#[test]
fn what_stands_in_the_way_is_said() {
    if !can_prove() {
        return;
    }
    let folder = temporary_folder();
    let file = written(folder.path(), &NGINX.replace("return 410", "return_ 410"));
    let said = |done: CommandResult, what: &[&str]| {
        assert_eq!((done.code, &*done.stdout), (Some(2), ""), "{done:?}");
        assert!(what.iter().all(|what| done.stderr.contains(what)), "{what:?}: {done:?}");
    };
    said(prove(&file, &[]), &["nginx refuses to start", "unknown directive \"return_\""]);
    said(prove(&file, &["--program", "/no/such/nginx"]), &["/no/such/nginx"]);
    let file = written(folder.path(), NGINX);
    let config = folder.path().join("weir.toml");
    std::fs::write(&config, "[listener.web]\n").expect("the test owns the folder");
    let config = config.to_str().expect("temporary paths are UTF-8");
    said(prove(&file, &["--config", config]), &[config, "refuses to start"]);
    said(prove("/no/such/nginx.conf", &[]), &["/no/such/nginx.conf"]);
    said(
        run(&["import", "--prove", "--from", "caddy", &file]),
        &["proofs are of configs of nginx and HAProxy"],
    );
    said(run(&["import", "--prove", "--output", "x", &file]), &["cannot be used with"]);

    // A weir that is alone.
    let alone =
        tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the build has a folder for this");
    let weir = alone.path().join("weir");
    std::fs::hard_link(env!("CARGO_BIN_EXE_weir"), &weir).expect("both are below the target folder");
    let mut command = Command::new(weir);
    said(
        CommandResult::new(command.args(["import", "--prove", &file]).env("PATH", "")),
        &["there is no weir-proof", "package weir-lab"],
    );
}
