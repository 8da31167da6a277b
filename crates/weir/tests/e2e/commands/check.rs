//! `weir check`: exit codes, and which stream gets what.

use super::{ConfigFile, run};

const GOOD: &str = "\
listener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }
upstream.app.servers = [\"10.0.0.1:80\", \"10.0.0.2:80\"]
";

#[test]
fn a_good_config_is_told_in_one_line() {
    let file = ConfigFile::new(GOOD);
    let done = run(&["check", file.path()]);
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
    assert_eq!(done.stdout, format!("{}: ok (1 listener, 1 upstream)\n", file.path()));
}

#[test]
fn mistakes_end_with_two_in_every_format() {
    let file = ConfigFile::new(&GOOD.replace("address", "adress").replace("10.0.0.2:80", "10.0.0.2"));
    for format in ["text", "short", "json"] {
        let done = run(&["check", "--format", format, file.path()]);
        assert_eq!((done.code, done.stderr.as_str()), (Some(2), ""), "{done:?}");
        assert!(done.stdout.contains("adress") && done.stdout.contains("10.0.0.2"), "{done:?}");
        assert!(!done.stdout.contains('\u{1b}'), "no colours where nobody sees them: {done:?}");
    }
}

#[test]
fn json_is_json() {
    let file = ConfigFile::new(&GOOD.replace("address", "adress"));
    let done = run(&["check", "--format", "json", file.path()]);
    let mistakes: serde_json::Value = serde_json::from_str(&done.stdout).expect("the output is JSON");
    let all = mistakes.as_array().expect("a list of mistakes");
    let misspelt = all.iter().find(|mistake| mistake["code"] == "unknown-key").expect("the key is unknown");
    assert_eq!(misspelt["location"]["line"], 1, "{mistakes:#}");
}

#[test]
fn the_effective_config_checks_and_prints_the_same_again() {
    let printed = run(&["check", "--print", ConfigFile::new(GOOD).path()]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.stderr.contains(": ok (1 listener, 1 upstream)"), "{printed:?}");
    let again = run(&["check", "--print", ConfigFile::new(&printed.stdout).path()]);
    assert_eq!((again.code, again.stdout), (Some(0), printed.stdout), "{}", again.stderr);

    let bad = run(&["check", "--print", ConfigFile::new("listener.web = 1\n").path()]);
    assert_eq!((bad.code, bad.stdout.as_str()), (Some(2), ""), "{bad:?}");
}

#[test]
fn a_missing_file_is_told() {
    for command in ["check", "serve"] {
        let done = run(&[command, "/nowhere/weir.toml"]);
        assert_eq!(done.code, Some(2), "{done:?}");
        let told = done.stdout + &done.stderr;
        assert!(
            told.starts_with("error: /nowhere/weir.toml: ") && told.contains("\nhelp: there is no such file"),
            "{told}"
        );
    }
    let folder = run(&["check", "/"]);
    assert!(folder.code == Some(2) && folder.stdout.contains("cannot be read"), "{folder:?}");
}
