//! `weir report`: one archive with all that a bug report needs, from a running Weir or without one, and never with a secret.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::harness::{Client, CommandResult, Origin, Weir, run, temporary_folder};

/// Is part of every secret but the hash.
const SECRET: &str = "hush";

/// The hash of a password, made by `htpasswd`.
const HASH: &str = "$2y$05$Z6hikxcfC7bLKHcgLQ/PtOy78ejcxa.dCYIcARnkDT4yJpC/sdZfm";

/// The files of an archive.
pub(super) fn unpack(archive: &Path) -> BTreeMap<String, String> {
    let folder = temporary_folder();
    let tar = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(folder.path()).status();
    assert!(tar.expect("every system has tar").success());
    let files = std::fs::read_dir(folder.path().join("weir-report")).expect("the archive has one folder");
    let read = |file: std::fs::DirEntry| {
        let name = file.file_name().into_string().expect("names are ASCII");
        (name, String::from_utf8_lossy(&std::fs::read(file.path()).expect("it was unpacked")).into_owned())
    };
    files.flatten().map(read).collect()
}

fn report(file: &Path, more: &[&str]) -> CommandResult {
    let file = file.to_str().expect("temporary paths are UTF-8");
    run(&[&["report", "--output", file], more].concat())
}

/// A config with every kind of secret.
fn with_secrets(origin: &Origin) -> String {
    format!(
        r#"
        admin = {{ address = "127.0.0.1:0", socket = "unix:{{dir}}/weir.sock", changes = true, socket_changes = true }}
        log.level = "debug"
        [listener.web]
        address = "127.0.0.1:0"
        access_log.output = "file:{{dir}}/access.log"
        [[listener.web.route]]
        path = "/basic"
        upstream = "app"
        basic = {{ users = {{ ann = "{HASH}" }} }}
        [[listener.web.route]]
        path = "/"
        upstream = "app"
        limited_by = ["keys"]
        request_headers = {{ set = {{ Authorization = "Bearer hush-1" }} }}
        [limit.keys]
        key = "{{header.x-api-key}}"
        rate = "1/h"
        [upstream.app]
        servers = ["{}"]
        affinity = {{ secret = "hush-2-hush-2-hush-2" }}
        health = {{ path = "/", headers = {{ Cookie = "hush-3" }} }}
        "#,
        origin.address()
    )
}

#[test]
fn a_report_has_all_parts_and_no_secret() {
    let origin = Origin::serving("app");
    let weir = Weir::start(&with_secrets(&origin));
    let request = "POST /shop?token=hush-4 HTTP/1.1\r\nHost: shop.test\r\nAuthorization: Bearer hush-5\r\nCookie: id=hush-6\r\n\
        X-Api-Key: a-long-key-with-hush-7\r\nReferer: http://a.test/?hush-8\r\nContent-Length: 6\r\n\r\nhush-9";
    for _ in 0..3 {
        Client::exchange(weir.web(), request);
    }
    assert_eq!(Client::get(weir.web(), "/basic/hidden?hush-10").status, 401);
    let archive = weir.folder().join("report.tar.gz");
    let config = weir.folder().join("weir.toml");
    let config = config.to_str().expect("temporary paths are UTF-8");
    let result = report(&archive, &["--seconds", "1", "--config", config]);
    assert_eq!(result.code, Some(0), "{}", result.text());
    let parts = unpack(&archive);
    for (name, contents) in &parts {
        assert!(
            !contents.contains(SECRET) && !contents.contains("Z6hikxcf"),
            "{name} has a secret:\n{contents}"
        );
    }
    for (name, part) in [
        ("version.txt", "features: geoip, http3, kubernetes, profiler"),
        ("machine.txt", "MemTotal"),
        ("process.txt", "Max open files"),
        ("check.txt", "ok"),
        ("config.toml", "[upstream.app]"),
        ("config-of-file.toml", "[upstream.app]"),
        ("metrics.txt", "weir_process_panics_total 0"),
        ("state.json", "\"panics\": []"),
        ("failures.json", "\"/shop\""),
        ("exchanges.json", "\"shop.test\""),
        ("connections.json", "\"connections\""),
        ("log.txt", "privileges of the process"),
        ("memory.json", "resident_bytes"),
    ] {
        let contents =
            parts.get(name).unwrap_or_else(|| panic!("{name} is missing: {}", parts["report.txt"]));
        assert!(contents.contains(part), "{name} has no {part:?}:\n{contents}");
    }
    assert!(!parts["report.txt"].contains("missing"), "{}", parts["report.txt"]);
    assert!(parts.contains_key("cpu.folded"), "{}", parts["report.txt"]);
    let again = report(&archive, &["--seconds", "0", "--config", config]);
    assert!(again.code == Some(1) && again.stderr.contains("cannot write"), "it replaces no file: {again:?}");
}

#[test]
fn without_a_running_weir_there_is_less() {
    let origin = Origin::serving("app");
    let folder = temporary_folder();
    let (config, archive) = (folder.path().join("weir.toml"), folder.path().join("report.tar.gz"));
    let dir = folder.path().to_str().expect("temporary paths are UTF-8");
    // The secret is too short, and the key has a mistake: neither line is quoted.
    let text = with_secrets(&origin).replace("{dir}", dir).replace("hush-2-hush-2-hush-2", "hush-2");
    std::fs::write(&config, text.replace("health =", "helth =")).expect("the folder is new");
    let result = report(&archive, &["--config", config.to_str().expect("temporary paths are UTF-8")]);
    assert_eq!(result.code, Some(0), "{}", result.text());
    let parts = unpack(&archive);
    for (name, contents) in &parts {
        assert!(
            !contents.contains(SECRET) && !contents.contains("Z6hikxcf"),
            "{name} has a secret:\n{contents}"
        );
    }
    assert!(
        parts["check.txt"].contains("error: bad-value") && parts["check.txt"].contains("helth"),
        "{}",
        parts["check.txt"]
    );
    assert!(parts["report.txt"].contains("state.json: missing: "), "{}", parts["report.txt"]);
    assert!(parts["machine.txt"].contains("MemTotal") && !parts.contains_key("metrics.txt"));
}

#[cfg(debug_assertions)]
#[test]
fn a_report_has_panics_with_their_backtraces() {
    let origin = Origin::serving("app");
    let text = "admin.socket = \"unix:{dir}/weir.sock\"\nlistener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }\n";
    let weir = Weir::start_faulty(&format!("{text}upstream.app.servers = [\"{}\"]\n", origin.address()));
    let mut client = Client::connect(weir.web());
    client.send("GET / HTTP/1.1\r\nHost: a.test\r\nWeir-Fault: panic-route\r\n\r\n");
    client.take_to_end();
    weir.line(&["the backtrace of that panic"]);
    let socket = weir.folder().join("weir.sock");
    let archive = weir.folder().join("report.tar.gz");
    let socket = socket.to_str().expect("temporary paths are UTF-8");
    let result = report(&archive, &["--seconds", "0", "--socket", socket]);
    assert_eq!(result.code, Some(0), "{}", result.text());
    let parts = unpack(&archive);
    assert!(parts["state.json"].contains("a fault was ordered at Route"), "{}", parts["state.json"]);
    assert!(parts["state.json"].contains("weir_proxy::exchange"), "{}", parts["state.json"]);
    assert!(parts["log.txt"].contains("panic: a defect of Weir"), "{}", parts["log.txt"]);
}
