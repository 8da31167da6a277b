//! `docs/examples.md` and the files for nginx and HAProxy: what is on the page is in the files, and their programs accept it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::folder;
use crate::harness::foreign_program::foreign_command;
use crate::harness::tls::ECDSA;
use crate::harness::{CertificateAuthority, CommandResult, temporary_folder};

/// The examples that are folders.
fn examples() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).expect("the folder can be read").flatten();
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    assert!(folders.len() >= 6, "{folders:?}");
    folders
}

/// A certificate as both programs want it, at the paths that the files name.
fn certificate() -> TempDir {
    let site = temporary_folder();
    CertificateAuthority::new().issue(site.path(), "site", &["www.example.com"], ECDSA);
    let file = |name: &str| std::fs::read_to_string(site.path().join(name)).expect("it was just written");
    std::fs::write(site.path().join("both.pem"), file("site.pem") + &file("site.key"))
        .expect("the folder takes a file");
    site
}

/// The text of a file in which paths are those of `site`, and nothing listens on a port of the machine.
fn adapted(file: &Path, site: &Path) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let at = |name: &str| site.join(name).display().to_string();
    let text = text
        .replace("/etc/nginx/www.example.com.pem", &at("site.pem"))
        .replace("/etc/nginx/www.example.com.key", &at("site.key"))
        .replace("/etc/haproxy/www.example.com.pem", &at("both.pem"));
    let mut sockets = 0;
    let lines = text.lines().map(|line| match line.split_once("listen ") {
        Some((indent, rest)) if indent.trim().is_empty() && rest.contains(';') => {
            sockets += 1;
            let rest = rest
                .trim_start_matches(|letter: char| letter.is_ascii_digit())
                .replace(" so_keepalive=60s::", "");
            format!("{indent}listen unix:{}{rest}", at(&format!("{sockets}.sock")))
        }
        _ if line.trim() == "server { listen 80; return 308 https://$host$request_uri; }" => {
            format!("server {{ listen unix:{}; return 308 https://$host$request_uri; }}", at("plain.sock"))
        }
        _ => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

/// Runs a program that judges the config `file` of an example, if it has one; returns how many were judged.
fn judge(
    example: &Path,
    file: &str,
    site: &Path,
    program: impl FnOnce(&Path) -> Command,
    warning: &str,
) -> usize {
    let original = example.join(file);
    if !original.exists() {
        return 0;
    }
    let config = site.join("config");
    std::fs::write(&config, adapted(&original, site)).expect("the folder takes a file");
    let said = CommandResult::new(&mut program(&config));
    assert_eq!(said.code, Some(0), "{}: {}", original.display(), said.text());
    assert!(!said.text().contains(warning), "{}: {}", original.display(), said.text());
    1
}

#[test]
fn nginx_and_haproxy_accept_what_is_shown_of_them() {
    let site = certificate();
    let nginx = |config: &Path| {
        let mut command = foreign_command("nginx");
        command.arg("-t").arg("-p").arg(site.path()).arg("-c").arg(config);
        command.args(["-g", "pid nginx.pid; error_log stderr;"]);
        command
    };
    let haproxy = |config: &Path| {
        let mut command = foreign_command("haproxy");
        command.arg("-c").arg("-f").arg(config);
        command
    };
    let judged = examples().iter().fold([0, 0], |[of_nginx, of_haproxy], example| {
        [
            of_nginx + judge(example, "nginx.conf", site.path(), nginx, "[warn]"),
            of_haproxy + judge(example, "haproxy.cfg", site.path(), haproxy, "[WARNING]"),
        ]
    });
    assert!(judged.iter().all(|count| *count >= 6), "{judged:?}");
}

/// `UPDATE=1` writes what is in the files into the page.
#[test]
fn the_page_shows_what_is_in_the_files() {
    let path = folder().join("../docs/examples.md");
    let page = std::fs::read_to_string(&path).expect("there is a page");
    let mut expected = page.clone();
    for example in examples() {
        let name = example.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        for (file, language) in [("weir.toml", "toml"), ("nginx.conf", "nginx"), ("haproxy.cfg", "haproxy")] {
            let Ok(text) = std::fs::read_to_string(example.join(file)) else { continue };
            let mark = format!("[examples/{name}/{file}](../examples/{name}/{file}):\n\n```{language}\n");
            let start = page.find(&mark).unwrap_or_else(|| panic!("the page lacks examples/{name}/{file}"))
                + mark.len();
            let end = start + page[start..].find("```\n").expect("the block ends");
            expected =
                expected.replacen(&format!("{mark}{}", &page[start..end]), &format!("{mark}{text}"), 1);
        }
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &expected).expect("the page can be written");
        return;
    }
    assert!(
        page == expected,
        "docs/examples.md is out of date: UPDATE=1 cargo test -p weir --test e2e examples::pages"
    );
}
