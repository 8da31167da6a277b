//! `weir why`: the recorded exchanges of a running Weir, and their explanations.

mod failures;
mod kept;
mod reports;

use serde_json::Value;

use crate::harness::{Client, CommandResult, Response, Weir, eventually};

/// Runs `weir why` with these arguments.
fn run(arguments: &[&str]) -> CommandResult {
    crate::harness::run(&[&["why"], arguments].concat())
}

/// The report on an exchange by its id or number, once it is known.
fn why(weir: &Weir, id: &str) -> String {
    let admin = weir.address("admin").to_string();
    let mut done = None;
    eventually(&format!("{id} is known"), || {
        let asked = run(&[id, "--admin", &admin]);
        assert_ne!(asked.code, Some(2), "{}", asked.stderr);
        let is_told = asked.code == Some(0);
        done = Some(asked);
        is_told
    });
    done.expect("it was just asked").stdout
}

/// The last failures.
fn failures(weir: &Weir) -> Vec<Value> {
    weir.admin_json("/api/failures")["failures"].as_array().expect("a list").clone()
}

/// The number of the last failure with this reason, once there is one.
fn failed(weir: &Weir, reason: &str) -> String {
    let mut number = None;
    eventually(&format!("{reason} is kept"), || {
        let kept = failures(weir);
        number = kept
            .iter()
            .find(|line| line["failure"]["reason"] == reason)
            .and_then(|line| line["number"].as_str().map(str::to_owned));
        number.is_some()
    });
    number.expect("it was just found")
}

/// A GET that wants JSON if it fails; the response and the id on it.
fn get(weir: &Weir, target: &str) -> (Response, String) {
    let request = format!("GET {target} HTTP/1.1\r\nHost: example.test\r\nAccept: application/json\r\n\r\n");
    let response = Client::exchange(weir.web(), &request);
    let record: Value = serde_json::from_str(&response.text()).unwrap_or_default();
    let id = record["request_id"].as_str().unwrap_or_default().to_owned();
    (response, id)
}

/// Panics unless all `parts` are in the report, in this order, wherever its lines are broken.
fn assert_reported(report: &str, parts: &[&str]) {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let record = flat(report);
    let mut rest = record.as_str();
    for part in parts {
        match rest.split_once(&flat(part)) {
            Some((_, after)) => rest = after,
            None => panic!("{part:?} is missing, or at the wrong place:\n{report}"),
        }
    }
}

/// A Weir with an admin listener, one worker, and these servers.
fn weir(servers: &[&str], more: &str) -> Weir {
    let servers: Vec<String> = servers.iter().map(|server| format!("\"{server}\"")).collect();
    Weir::start(&format!(
        "admin.address = \"127.0.0.1:0\"\nprocess.workers = 1\nlistener.web.address = \"127.0.0.1:0\"\n\
         listener.web.route = [{{ name = \"everything\", path = \"/\", upstream = \"app\" }}]\nupstream.app.servers = [{}]\n{more}\n",
        servers.join(", ")
    ))
}
