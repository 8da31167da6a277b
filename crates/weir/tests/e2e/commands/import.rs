//! `weir import`, and configs of other products wherever a command takes a config: what is printed, what is refused, and what runs.

use std::path::Path;

use serde_json::Value;
use tempfile::TempDir;

use crate::harness::{Client, CommandResult, Origin, ReservedAddress, Weir, run, temporary_folder};

/// A file in a folder of its own, or beside others.
fn written(folder: &TempDir, name: &str, text: &str) -> String {
    let path = folder.path().join(name);
    std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the test owns the folder");
    std::fs::write(&path, text).expect("the test owns the folder");
    path.to_str().expect("temporary paths are UTF-8").to_owned()
}

/// Runs `weir COMMAND FILE` with more arguments.
fn with_file(command: &str, name: &str, text: &str, more: &[&str]) -> CommandResult {
    let folder = temporary_folder();
    let file = written(&folder, name, text);
    run(&[&[command, &file], more].concat())
}

const CADDY: &str = "# The shop.\n:8080 {\n\treverse_proxy app:3000\n}\n";
const APPROXIMATED: &str = "http://a.test {\n\tlog\n\treverse_proxy app:3000\n}\n";
const UNSUPPORTED: &str = ":8080 {\n\ttemplates\n\treverse_proxy app:3000\n}\n";

fn nginx(address: &str, server: &str) -> String {
    format!(
        "events {{}}\nhttp {{\n  include conf.d/*.conf;\n  server {{\n    listen {address};\n    \
         location / {{\n      proxy_pass http://{server};\n    }}\n  }}\n}}\n"
    )
}

#[test]
fn the_result_is_printed_and_the_report_is_apart() {
    let done = with_file("import", "Caddyfile", CADDY, &[]);
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.stdout.starts_with("# The shop.\n[listener.web]\naddress = \":8080\"\n"), "{done:?}");
    assert!(done.stdout.contains("servers = [\"app:3000\"]"), "{done:?}");
    assert!(done.stderr.starts_with("2 statements: "), "{done:?}");

    let folder = temporary_folder();
    let file = written(&folder, "Caddyfile", CADDY);
    let (output, report) = (folder.path().join("weir.toml"), folder.path().join("report.json"));
    let (output, report) = (output.to_str().unwrap(), report.to_str().unwrap());
    let done = run(&["import", &file, "--output", output, "--report", report, "--json"]);
    assert_eq!((done.code, &*done.stdout, &*done.stderr), (Some(0), "", ""), "{done:?}");
    let json: Value = serde_json::from_str(&std::fs::read_to_string(report).unwrap()).unwrap();
    assert_eq!((&json["product"], &json["counts"]["exact"]), (&"Caddy".into(), &2.into()), "{json:#}");
    assert!(json["config"].is_null() && json["diagnostics"] == serde_json::json!([]), "{json:#}");
    assert_eq!(run(&["check", output]).code, Some(0));
}

#[test]
fn the_exit_code_says_what_is_lost() {
    for (text, more, code) in [
        (CADDY, &[][..], 0),
        (APPROXIMATED, &[], 3),
        (APPROXIMATED, &["--accept-loss=approximated"], 0),
        (UNSUPPORTED, &[], 4),
        (UNSUPPORTED, &["--accept-loss=approximated"], 4),
        (UNSUPPORTED, &["--accept-loss"], 0),
        (":8080 {\n", &[], 2),
        (":8080 {\n\trespond hi 999\n}\n", &["--from", "haproxy"], 2),
    ] {
        let done = with_file("import", "Caddyfile", text, more);
        assert_eq!(done.code, Some(code), "{text:?} {more:?}: {done:?}");
        assert_eq!(done.stdout.is_empty(), code == 2, "{done:?}");
    }
    let done = with_file("import", "Caddyfile", UNSUPPORTED, &["--json"]);
    let json: Value = serde_json::from_str(&done.stdout).expect("the report is JSON");
    let lost = json["statements"].as_array().unwrap().iter().find(|one| one["outcome"] == "not supported");
    assert_eq!(lost.map(|one| (&one["line"], &one["column"])), Some((&2.into(), &2.into())), "{json:#}");
    assert!(json["config"].as_str().is_some_and(|config| config.contains("[upstream.app]")), "{json:#}");
    let unknown = with_file("import", "site.txt", "hello\n", &[]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("--from nginx"), "{unknown:?}");
}

#[test]
fn what_is_lost_is_refused_unless_it_is_accepted() {
    for command in [&["check"][..], &["serve"], &["explain"], &["plan"]] {
        let more: &[&str] = match command {
            ["explain"] => &["http://a.test/"],
            ["plan"] => &["--from", "/dev/null"],
            _ => &[],
        };
        let done = with_file(command[0], "Caddyfile", UNSUPPORTED, more);
        assert_eq!(done.code, Some(2), "{command:?}: {done:?}");
        let text = done.text();
        assert!(text.contains("Caddyfile:2:2") && text.contains("`templates` is not supported"), "{text}");
        assert!(text.contains("--accept-loss"), "{text}");
    }
    let accepted = with_file("check", "Caddyfile", UNSUPPORTED, &["--accept-loss"]);
    assert_eq!(accepted.code, Some(0), "{accepted:?}");
    assert!(accepted.stdout.contains("warning") && accepted.stdout.contains("Caddyfile:2:2"), "{accepted:?}");
    let printed = with_file("check", "Caddyfile", CADDY, &["--print"]);
    assert!(printed.code == Some(0) && printed.stdout.contains("[upstream.app]"), "{printed:?}");
}

#[test]
fn mistakes_of_the_result_are_shown_in_the_original() {
    let text = "example.test {\n\ttls /nowhere/a.pem /nowhere/a.key\n\trespond hi\n}\n";
    let checked = with_file("check", "Caddyfile", text, &["--format", "json"]);
    assert_eq!(checked.code, Some(2), "{checked:?}");
    let json: Value = serde_json::from_str(&checked.stdout).unwrap();
    let error = json.as_array().unwrap().iter().find(|one| one["level"] == "error").expect("there is one");
    let place = &error["location"];
    assert!(place["file"].as_str().is_some_and(|file| file.ends_with("/Caddyfile")), "{json:#}");
    assert!(error["message"].as_str().is_some_and(|text| text.contains("/nowhere/a.pem")), "{json:#}");
    // Both the line of the file and what it has become are shown.
    let shown = with_file("check", "Caddyfile", text, &[]).stdout;
    assert!(shown.contains("Caddyfile as weir.toml"), "{shown}");
    let broken = with_file("check", "nginx.conf", "http {\n  server {\n    listen 80\n  }\n}\n", &[]);
    assert!(broken.code == Some(2) && broken.stdout.contains("nginx.conf:4:3"), "{broken:?}");
}

#[test]
fn a_weir_toml_by_another_name_stays_one() {
    let text =
        "listener.web = { address = \":0\", upstream = \"app\" }\nupstream.app.servers = [\"10.0.0.1:80\"]\n";
    for name in ["weir.conf", "nginx.conf", "config"] {
        let done = with_file("check", name, text, &[]);
        assert!(done.code == Some(0) && done.stdout.contains("ok (1 listener, 1 upstream)"), "{done:?}");
    }
    let broken = with_file("check", "weir.conf", "[listener.web]\nadress = 1x\n", &[]);
    assert!(broken.code == Some(2) && broken.stdout.contains("this is not TOML"), "{broken:?}");
}

#[test]
fn explain_names_the_route_of_the_original() {
    let text = "http://a.test {\n\thandle /api/* {\n\t\treverse_proxy app:3000\n\t}\n\trespond hi\n}\n";
    let done = with_file("explain", "Caddyfile", text, &["http://a.test/API/x"]);
    assert!(done.code == Some(0) && done.stdout.contains("app:3000"), "{done:?}");
    let folder = temporary_folder();
    let (old, new) = (
        written(&folder, "old.Caddyfile", text),
        written(&folder, "Caddyfile", &text.replace("3000", "4000")),
    );
    let plan = run(&["plan", &new, "--from", &old]);
    assert_eq!(plan.code, Some(1), "{plan:?}");
    assert!(plan.stdout.contains("app:4000") && plan.stdout.contains("Caddyfile:3:3"), "{plan:?}");
}

/// Starts `weir serve` on a file of another product that is in `folder`.
fn serve(folder: TempDir, name: &str, more: &[&str]) -> Weir {
    let path = folder.path().join(name);
    let path = path.to_str().expect("temporary paths are UTF-8").to_owned();
    Weir::start_with(folder, &[&["serve", &path], more].concat(), name)
}

fn replace(weir: &Weir, name: &str, text: &str) {
    let new = weir.folder().join("new");
    std::fs::write(&new, text).expect("the test owns the folder");
    std::fs::rename(&new, weir.folder().join(name)).expect("it was just written");
}

#[test]
fn an_nginx_conf_is_served_and_reloaded() {
    let (first, second) = (Origin::serving("first"), Origin::serving("second"));
    let place = ReservedAddress::new();
    let address = place.address();
    let folder = temporary_folder();
    written(&folder, "nginx.conf", &nginx(&address.to_string(), &first.address().to_string()));
    let weir = serve(folder, "nginx.conf", &[]);
    assert_eq!(Client::get(address, "/").text(), "first");

    replace(&weir, "nginx.conf", &nginx(&address.to_string(), &second.address().to_string()));
    weir.hang_up("the config was reloaded");
    assert_eq!(Client::get(address, "/").text(), "second");

    // What the import loses is refused at a reload as at the start, and the config of before stays.
    let lossy = nginx(&address.to_string(), &first.address().to_string())
        .replace("http {", "http {\n  perl_modules x;");
    replace(&weir, "nginx.conf", &lossy);
    weir.hang_up("the config was not reloaded");
    weir.line(&["ERROR", "nginx.conf:3:3", "perl_modules"]);
    assert_eq!(Client::get(address, "/").text(), "second");
    replace(&weir, "nginx.conf", "http {\n  server {\n");
    weir.hang_up("the config was not reloaded");
    weir.line(&["ERROR", "nginx.conf:2:3", "not closed"]);
    assert_eq!(Client::get(address, "/").text(), "second");

    // A file that it includes counts, too.
    let good = nginx(&address.to_string(), &first.address().to_string());
    replace(&weir, "nginx.conf", &good);
    let conf = weir.folder().join("conf.d");
    std::fs::create_dir(&conf).expect("the test owns the folder");
    std::fs::write(Path::new(&conf).join("a.conf"), "server { listen }\n").expect("the test owns the folder");
    weir.hang_up("the config was not reloaded");
    weir.line(&["ERROR", "conf.d/a.conf:1:"]);
    std::fs::remove_dir_all(&conf).expect("the test owns the folder");
    weir.hang_up("the config was reloaded");
    assert_eq!(Client::get(address, "/").text(), "first");
}

#[test]
fn accepted_losses_are_warnings_and_an_upgrade_reads_the_same_file() {
    let origin = Origin::serving("x");
    let place = ReservedAddress::new();
    let address = place.address();
    let folder = temporary_folder();
    let text = format!("http://{address} {{\n\ttemplates\n\treverse_proxy {}\n}}\n", origin.address());
    written(&folder, "Caddyfile", &text);
    let mut weir = serve(folder, "Caddyfile", &["--accept-loss"]);
    assert!(weir.stderr().contains("Caddyfile:2:2"), "{}", weir.stderr());
    let host = format!("GET / HTTP/1.1\r\nhost: {address}\r\n\r\n");
    assert_eq!(Client::exchange(address, &host).text(), "x");
    weir.upgrade();
    assert_eq!(Client::exchange(address, &host).text(), "x");
}

#[test]
fn a_folder_is_a_config_of_haproxy() {
    let origin = Origin::serving("x");
    let place = ReservedAddress::new();
    let folder = temporary_folder();
    let front =
        format!("frontend web\n    mode http\n    bind {}\n    default_backend app\n", place.address());
    let back = format!("backend app\n    mode http\n    server a {}\n", origin.address());
    written(&folder, "cfg/1.cfg", &front);
    written(&folder, "cfg/2.cfg", &back);
    let weir = serve(folder, "cfg", &["--accept-loss"]);
    assert_eq!(Client::get(place.address(), "/").text(), "x");
    drop(weir);
}
