//! The admin listener: secrets in files, and the warning when every client is admitted.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use tempfile::TempDir;
use weir_config::{CheckedConfig, Diagnostics};

const BASE: &str = "listener.web.address = \":8080\"\nlistener.web.upstream = \"app\"\nupstream.app.servers = [\"10.0.0.1:80\"]\n";

fn load(folder: &Path, admin: &str) -> CheckedConfig {
    let file = folder.join("weir.toml");
    std::fs::write(&file, format!("{BASE}[admin]\n{admin}\n")).expect("the folder takes a file");
    CheckedConfig::load(&file)
}

fn write(folder: &Path, file: &str, content: &str, mode: u32) {
    let path = folder.join(file);
    std::fs::write(&path, content).expect("the folder takes a file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("it is our own");
}

fn said(diagnostics: &Diagnostics) -> Vec<String> {
    diagnostics.iter().map(|diagnostic| diagnostic.message.clone()).collect()
}

#[test]
fn secrets_come_from_files() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    write(folder.path(), "password", "correct horse\r\n", 0o600);
    write(folder.path(), "token", "0123456789abcdef", 0o640);
    let admin =
        "address = \"0.0.0.0:9000\"\nuser = \"ops\"\npassword_file = \"password\"\ntoken_file = \"token\"";
    let checked = load(folder.path(), admin);
    assert_eq!(said(&checked.diagnostics), [""; 0]);
    let config = checked.into_result().expect("it has no mistake");
    assert!(config.credentials.accept_user(b"ops", b"correct horse"));
    assert!(config.credentials.accept_token(b"0123456789abcdef"));
    assert!(!config.dump.to_string().contains("horse") && !format!("{config:?}").contains("horse"));
}

#[test]
fn files_that_hold_no_secret_are_refused() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    write(folder.path(), "short", "secret!\n", 0o600);
    write(folder.path(), "lines", "a line\nand another\n", 0o600);
    write(folder.path(), "large", &"x".repeat(5000), 0o600);
    write(folder.path(), "open", "correct horse", 0o644);
    std::fs::create_dir(folder.path().join("folder")).expect("it is not there");
    for (file, expected) in [
        ("short", "the secret in `{}` is shorter than 8 characters"),
        ("lines", "`{}` has more than one line"),
        ("large", "`{}` is larger than 4096 bytes"),
        ("folder", "`{}` is not a file"),
        ("none", "`{}` cannot be read: No such file or directory (os error 2)"),
        ("open", "all users of this machine can read the secret in `{}`"),
    ] {
        let checked = load(folder.path(), &format!("user = \"ops\"\npassword_file = \"{file}\""));
        let expected = expected.replace("{}", &folder.path().join(file).display().to_string());
        assert_eq!(said(&checked.diagnostics), [expected]);
        assert_eq!(checked.into_result().is_ok(), file == "open", "{file}");
    }
}

#[test]
fn an_open_door_is_pointed_at() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    write(folder.path(), "token", "0123456789abcdef", 0o600);
    for (admin, expected) in [
        ("address = \"127.0.0.1:9000\"\nchanges = true", None),
        ("address = \"[::1]:9000\"", None),
        (
            "address = \"0.0.0.0:9000\"",
            Some("every client that can connect to `0.0.0.0:9000` can read the status"),
        ),
        (
            "address = \"10.0.0.1:9000\"\nchanges = true",
            Some("every client that can connect to `10.0.0.1:9000` can read the status and change servers"),
        ),
        ("address = \"0.0.0.0:9000\"\ntoken_file = \"token\"", None),
    ] {
        let checked = load(folder.path(), admin);
        assert_eq!(said(&checked.diagnostics), Vec::from_iter(expected), "{admin}");
        assert!(checked.into_result().is_ok(), "a warning does not make the config invalid");
    }
}
