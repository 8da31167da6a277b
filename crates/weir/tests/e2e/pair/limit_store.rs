//! Stores in which nodes share limits, and nodes whose requests are under such a limit.

use std::net::{SocketAddr, TcpStream};
use std::process::Command;

use crate::harness::foreign_program::foreign_command;
use crate::harness::{
    Client, CommandResult, ForeignProgram, Origin, Weir, config_with, eventually, run, temporary_folder,
};

/// A store that forgets everything when it ends.
pub(super) fn redis(address: SocketAddr, options: &[&str]) -> ForeignProgram {
    let mut command = foreign_command("redis-server");
    let (ip, port) = (address.ip().to_string(), address.port().to_string());
    command.args(["--bind", &ip, "--port", &port, "--save", "", "--protected-mode", "no"]).args(options);
    ForeignProgram::start(command, temporary_folder(), |_| TcpStream::connect(address).is_ok())
}

pub(super) fn ask(at: SocketAddr, words: &[&str]) -> String {
    let mut command: Command = foreign_command("redis-cli");
    command.args(["-h", &at.ip().to_string(), "-p", &at.port().to_string()]).args(words);
    CommandResult::new(&mut command).text().trim().to_owned()
}

/// A node whose requests are all under the limit `one`, by the header `X-User`.
pub(super) fn node(origin: &Origin, store: SocketAddr, limit: &str, more: &str) -> Weir {
    Weir::start(&config(origin, &format!("redis://{store}"), limit, more))
}

/// The config of such a node.
pub(super) fn config(origin: &Origin, address: &str, limit: &str, more: &str) -> String {
    config_with(
        &[origin.named("a")],
        &format!(
            "listener.web.limited_by = \"one\"\nprocess.workers = 1\n\
             limit.one = {{ {limit}, key = \"{{header.x-user}}\", shared = \"nodes\" }}\n\
             store.nodes.address = \"{address}\"\nstore.nodes.interval = \"20ms\"\n{more}"
        ),
    )
}

pub(super) fn status(weir: &Weir, user: &str) -> u16 {
    Client::exchange(weir.web(), &format!("GET / HTTP/1.1\r\nHost: a.test\r\nX-User: {user}\r\n\r\n")).status
}

/// What `weir ctl limits` prints.
pub(super) fn limits(weir: &Weir) -> String {
    run(&["ctl", "limits", "--admin", &weir.address("admin").to_string()]).text()
}

pub(super) fn metric(weir: &Weir, name: &str) -> f64 {
    weir.metrics().sum(&format!("weir_limit_{name}"), &["limit=\"one\""])
}

pub(super) fn shares(weir: &Weir) -> bool {
    metric(weir, "shared") == 1.0
}

/// Waits until both nodes have one limit.
pub(super) fn wait_for(nodes: [&Weir; 2]) {
    eventually("both nodes share the limit", || nodes.iter().all(|node| shares(node)));
}

/// Requests of a user that pass on a node, until one is refused.
pub(super) fn passed(weir: &Weir, user: &str) -> usize {
    (0..100).take_while(|_| status(weir, user) == 200).count()
}

/// A node has exchanged what it knows: `keys` more than before.
pub(super) fn exchanged(weir: &Weir, before: f64) {
    eventually("the node has exchanged", || metric(weir, "exchanged_keys_total") > before);
}
