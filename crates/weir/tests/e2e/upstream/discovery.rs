//! Servers that a source names: files and DNS, followed without a reload.

use std::fs;
use std::path::Path;

use super::dns_names::{same_port, serving};
use crate::harness::{Client, NameServer, Origin, Weir, eventually};

/// A config whose upstream `app` has its servers from `source`.
fn config(source: &str, more: &str) -> String {
    format!(
        "admin.address = \"127.0.0.1:0\"\nlistener.web = {{ address = \"127.0.0.1:0\", upstream = \"app\" }}\n\
         [upstream.app]\nbalance = \"round-robin\"\ndiscovery = {source}\n{more}"
    )
}

/// Puts other servers into a file at once, as a tool would that writes a file beside it and renames it.
pub(super) fn name(file: &Path, servers: &[String]) {
    let draft = file.with_extension("draft");
    fs::write(&draft, format!("{{\"servers\":[{}]}}", servers.join(","))).expect("the folder is writable");
    fs::rename(draft, file).expect("the folder is writable");
}

pub(super) fn at(origin: &Origin) -> String {
    format!("{{\"address\":\"{}\"}}", origin.address())
}

/// Who answers ten requests, each once.
fn answering(weir: &Weir) -> Vec<String> {
    let mut client = Client::connect(weir.web());
    let mut texts: Vec<String> = (0..10).map(|_| client.fetch("/").text()).collect();
    texts.sort();
    texts.dedup();
    texts
}

#[test]
fn a_file_names_servers_and_other_servers_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let [one, two] = ["one", "two"].map(Origin::serving);
    name(&file, &[at(&one)]);
    let weir = Weir::start(&config(&format!("{{ file = \"{}\" }}", file.display()), ""));
    assert_eq!(answering(&weir), ["one"], "it is known when Weir is ready");
    name(&file, &[at(&one), at(&two)]);
    eventually("the second server is used", || answering(&weir) == ["one", "two"]);
    name(&file, &[at(&two)]);
    eventually("the first one is not used", || answering(&weir) == ["two"]);
    weir.line(&[
        "the source has named other servers",
        "upstream=\"app\"",
        &format!("gone=\"{}\"", one.address()),
    ]);
    let metrics = weir.metrics();
    assert_eq!(metrics.sum("weir_upstream_source_stale", &["upstream=\"app\""]), 0.0);
    assert!(metrics.sum("weir_upstream_source_changes_total", &["upstream=\"app\""]) >= 3.0);
}

#[test]
fn a_bad_file_changes_nothing_and_says_where() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let origin = Origin::serving("one");
    name(&file, &[at(&origin)]);
    let weir = Weir::start(&config(&format!("{{ file = \"{}\" }}", file.display()), ""));
    name(&file, &["{\"address\":\"nowhere\"}".to_owned()]);
    weir.line(&["servers.json", "line 1, column"]);
    assert_eq!(answering(&weir), ["one"]);
    eventually("the page tells that it is stale", || {
        weir.metrics().sum("weir_upstream_source_stale", &["upstream=\"app\""]) == 1.0
    });
}

#[test]
fn a_draining_server_serves_when_nothing_else_is_ready() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let [one, two] = ["one", "two"].map(Origin::serving);
    let draining = format!("{{\"address\":\"{}\",\"draining\":true}}", one.address());
    name(&file, &[draining.clone(), at(&two)]);
    let weir = Weir::start(&config(&format!("{{ file = \"{}\" }}", file.display()), ""));
    assert_eq!(answering(&weir), ["two"]);
    name(&file, &[draining]);
    eventually("it is the last one", || answering(&weir) == ["one"]);
}

#[test]
fn a_reload_goes_on_with_the_servers_of_a_source() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let [one, two] = ["one", "two"].map(Origin::serving);
    name(&file, &[at(&one)]);
    let source = format!("{{ file = \"{}\" }}", file.display());
    let weir = Weir::start(&config(&source, ""));
    assert_eq!(answering(&weir), ["one"]);
    weir.reload(&config(&source, "retry.attempts_max = 5\n"));
    assert_eq!(answering(&weir), ["one"]);
    name(&file, &[at(&two)]);
    eventually("the source is still followed", || answering(&weir) == ["two"]);
    let named = config(&source, "")
        .replace(&format!("discovery = {source}"), &format!("servers = [\"{}\"]", one.address()));
    weir.reload(&named);
    assert_eq!(answering(&weir), ["one"], "the config names it now");
    name(&file, &[at(&two)]);
    weir.reload(&config(&source, ""));
    eventually("the file does again", || answering(&weir) == ["two"]);
}

#[test]
fn a_reload_to_a_source_that_is_silent_keeps_the_servers() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("servers.json");
    let [one, two] = ["one", "two"].map(Origin::serving);
    let source = format!("{{ file = \"{}\" }}", file.display());
    let named = config(&source, "")
        .replace(&format!("discovery = {source}"), &format!("servers = [\"{}\"]", one.address()));
    let weir = Weir::start(&named);
    weir.reload(&config(&source, ""));
    assert_eq!(answering(&weir), ["one"], "there is no file yet");
    name(&file, &[at(&two)]);
    eventually("the file counts", || answering(&weir) == ["two"]);
}

#[test]
fn the_last_known_servers_outlive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, state) = (folder.path().join("servers.json"), folder.path().join("state.json"));
    let origin = Origin::serving("one");
    name(&file, &[at(&origin)]);
    let text = format!(
        "discovery.state_file = \"{}\"\n{}",
        state.display(),
        config(&format!("{{ file = \"{}\" }}", file.display()), "")
    );
    let weir = Weir::start(&text);
    assert_eq!(answering(&weir), ["one"]);
    eventually("the state is written", || state.exists());
    drop(weir);
    fs::remove_file(&file).expect("it is there");
    let weir = Weir::start(&text);
    assert_eq!(answering(&weir), ["one"]);
    assert_eq!(weir.metrics().sum("weir_upstream_source_stale", &["upstream=\"app\""]), 1.0);
}

#[test]
fn every_address_of_a_name_is_a_server() {
    let Some([one, two]) = same_port(["127.0.0.1", "127.0.0.2"]) else { return };
    let [one, _two] = [serving(one, "one"), serving(two, "two")];
    let port = one.address().port();
    let names = NameServer::start(&["127.0.0.1", "127.0.0.2"]);
    let text = format!(
        "{}dns.ttl_min = \"1s\"\n{}",
        names.setting(),
        config(&format!("{{ dns = \"app.test:{port}\" }}"), "")
    );
    let weir = Weir::start(&text);
    assert_eq!(answering(&weir), ["one", "two"]);
    names.move_to(&["127.0.0.2"]);
    eventually("one address is gone", || answering(&weir) == ["two"]);
}
