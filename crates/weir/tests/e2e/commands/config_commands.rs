//! `weir check`, `weir explain` and `weir serve` on configs good and bad.

use std::fs;
use std::process::Output;

use tempfile::TempDir;

use crate::harness::weir::{command, wait_for_exit};
use crate::harness::{Client, Origin, Weir};

struct Run {
    code: Option<i32>,
    text: String,
}

fn run(arguments: &[&str]) -> Run {
    let Output { status, stdout, stderr } =
        command(arguments).output().expect("the program was built with this test");
    let text = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Run { code: status.code(), text }
}

/// Writes `text` to a file of its own and runs `weir COMMAND FILE ARGUMENTS`.
fn run_on(text: &str, subcommand: &str, arguments: &[&str]) -> Run {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let file = folder.path().join("weir.toml");
    fs::write(&file, text).expect("the test owns the folder");
    let file = file.to_str().expect("temporary paths are UTF-8");
    run(&[&[subcommand, file], arguments].concat())
}

const GOOD: &str = r#"
[listener.web]
address = "127.0.0.1:0"

[[listener.web.route]]
path = "/api/"
upstream = "api"

[[listener.web.route]]
host = "old.test"
redirect = { to = "https://new.test{path}" }

[[listener.web.route]]
name = "rest"
path = "/"
upstream = "site"

[upstream.api]
servers = ["10.0.0.1:80", { address = "10.0.0.2:80", weight = 2 }]

[upstream.site]
servers = ["10.0.0.3:80"]
"#;

#[test]
fn check_accepts_a_good_file() {
    let checked = run_on(GOOD, "check", &[]);
    assert_eq!(checked.code, Some(0), "{}", checked.text);
}

#[test]
fn check_reports_all_mistakes_at_once() {
    let bad = GOOD
        .replace("address = \"127.0.0.1:0\"", "adress = \"127.0.0.1:0\"")
        .replace("upstream = \"site\"", "upstream = \"sites\"")
        .replace("weight = 2", "weight = 300");
    let checked = run_on(&bad, "check", &[]);
    assert!(checked.code.is_some_and(|code| code != 0), "{:?} {}", checked.code, checked.text);
    for expected in
        ["weir.toml:3:1", "adress", "did you mean `address`", "sites", "did you mean `site`", "300", "256"]
    {
        assert!(checked.text.contains(expected), "{expected:?} is missing in:\n{}", checked.text);
    }
    let line_of = |needle: &str| bad.lines().position(|line| line.contains(needle)).map_or(0, |at| at + 1);
    for needle in ["sites", "weight = 300"] {
        let place = format!("weir.toml:{}:", line_of(needle));
        assert!(checked.text.contains(&place), "{place} is missing in:\n{}", checked.text);
    }
}

#[test]
fn check_of_broken_toml_and_of_no_file() {
    let broken = run_on("[listener.web\naddress = 1", "check", &[]);
    assert!(
        broken.code.is_some_and(|code| code != 0) && broken.text.contains("weir.toml:1"),
        "{}",
        broken.text
    );
    let missing = run(&["check", "/nonexistent/weir.toml"]);
    assert!(missing.code.is_some_and(|code| code != 0), "{}", missing.text);
    assert!(missing.text.contains("/nonexistent/weir.toml"), "{}", missing.text);
}

#[test]
fn two_equal_routes_are_a_mistake() {
    let tie = GOOD.replace("host = \"old.test\"\n", "path = \"/api/\"\n");
    let checked = run_on(&tie, "check", &[]);
    assert!(checked.code.is_some_and(|code| code != 0), "{}", checked.text);
    assert!(checked.text.contains("/api/"), "{}", checked.text);
}

#[test]
fn serve_refuses_what_check_refuses() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let file = folder.path().join("weir.toml");
    fs::write(&file, GOOD.replace("address = \"127.0.0.1:0\"", "adress = \"127.0.0.1:0\""))
        .expect("the test owns the folder");
    let mut child = command(&["serve", file.to_str().expect("temporary paths are UTF-8")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program was built with this test");
    let status = wait_for_exit(&mut child).expect("a bad config ends the program");
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let text =
        std::io::read_to_string(child.stderr.take().expect("stderr is piped")).expect("stderr is UTF-8");
    assert!(text.contains("adress") && !text.contains("ready"), "{text}");
}

#[test]
fn serve_reports_an_address_in_use() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = taken.local_addr().expect("a bound socket has an address").to_string();
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let file = folder.path().join("weir.toml");
    fs::write(&file, GOOD.replace("127.0.0.1:0", &address)).expect("the test owns the folder");
    let mut child = command(&["serve", file.to_str().expect("temporary paths are UTF-8")])
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the program was built with this test");
    let status = wait_for_exit(&mut child).expect("an address in use ends the program");
    assert!(status.code().is_some_and(|code| code != 0), "{status}");
    let text =
        std::io::read_to_string(child.stderr.take().expect("stderr is piped")).expect("stderr is UTF-8");
    assert!(text.contains(&address), "it says which: {text}");
}

#[test]
fn serve_without_a_file() {
    let origins = [Origin::serving("one"), Origin::serving("two")];
    let servers = origins.each_ref().map(|origin| origin.address().to_string());
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let arguments = ["serve", "--listen", "127.0.0.1:0", "--to", &servers[0], "--to", &servers[1]];
    let weir = Weir::start_with(folder, &arguments, "no file");
    let address = weir.only_address();
    let mut answers: Vec<String> = (0..10).map(|_| Client::get(address.clone(), "/").text()).collect();
    answers.sort();
    answers.dedup();
    assert_eq!(answers, ["one", "two"]);
}

#[test]
fn explain_names_route_upstream_and_servers() {
    let api = run_on(GOOD, "explain", &["http://any.test/api/users?x=1"]);
    assert_eq!(api.code, Some(0), "{}", api.text);
    for expected in ["/api/", "api", "10.0.0.1:80", "10.0.0.2:80"] {
        assert!(api.text.contains(expected), "{expected} is missing in:\n{}", api.text);
    }
    assert!(!api.text.contains("10.0.0.3:80"), "not a candidate:\n{}", api.text);
    let moved = run_on(GOOD, "explain", &["http://old.test/x"]);
    assert!(
        moved.text.contains("https://new.test/x") || moved.text.contains("https://new.test{path}"),
        "{}",
        moved.text
    );
    let rest = run_on(GOOD, "explain", &["http://any.test/apix", "-X", "POST", "-H", "X-A: b"]);
    assert!(rest.text.contains("rest") && rest.text.contains("10.0.0.3:80"), "{}", rest.text);
}

#[test]
fn environment_and_include() {
    let origin = Origin::serving("included");
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    fs::create_dir(folder.path().join("conf.d")).expect("the test owns the folder");
    let upstream = "[upstream.app]\nservers = [\"${WEIR_TEST_SERVER}\"]\n";
    fs::write(folder.path().join("conf.d/app.toml"), upstream).expect("the test owns the folder");
    let main = "include = \"conf.d/*.toml\"\n[listener.web]\naddress = \"127.0.0.1:0\"\nupstream = \"app\"\n";
    let weir =
        Weir::start_in_environment(folder, main, &[("WEIR_TEST_SERVER", &origin.address().to_string())]);
    assert_eq!(Client::get(weir.web(), "/").text(), "included");
}

#[test]
fn help_has_examples() {
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    for word in ["serve", "check", "explain", "weir.toml"] {
        assert!(help.text.contains(word), "{word} is missing in:\n{}", help.text);
    }
    let version = run(&["--version"]);
    assert!(version.code == Some(0) && version.text.starts_with("weir "), "{}", version.text);
    assert_ne!(run(&["no-such-command"]).code, Some(0));
}
