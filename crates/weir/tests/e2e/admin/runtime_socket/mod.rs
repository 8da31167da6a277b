//! The runtime socket: its answers, changes under load, permissions, and programs that were made for
//! HAProxy's.

mod commands;
mod changes;
mod refusals;
mod tools;

use crate::harness::{Client, CommandResult, Origin, Response, Weir, config_with};

/// A config with the socket `weir.sock` and servers `a`, `b`, ... of weight 10.
fn config(origins: &[&Origin], settings: &str) -> String {
    let server = |(name, origin): (char, &&Origin)| {
        format!("{{ name = \"{name}\", address = \"{}\", weight = 10 }}", origin.address())
    };
    let servers: Vec<String> = ('a'..).zip(origins).map(server).collect();
    config_with(&servers, &format!("admin.socket = \"unix:{{dir}}/weir.sock\"\n{settings}"))
}

/// A value of `show stat`, by the names of proxy, service and column.
fn stat(weir: &Weir, proxy: &str, service: &str, column: &str) -> String {
    let csv = weir.ask_socket("show stat");
    let mut lines = csv.lines();
    let header = lines.next().unwrap_or_default().trim_start_matches("# ");
    let at = header
        .split(',')
        .position(|name| name == column)
        .unwrap_or_else(|| panic!("no {column} in {header}"));
    let row = lines.find(|line| line.starts_with(&format!("{proxy},{service},")));
    let row = row.unwrap_or_else(|| panic!("no {proxy}/{service} in {csv}"));
    row.split(',').nth(at).unwrap_or_default().to_owned()
}

/// `weir ctl` with these arguments, asked over the socket.
fn ctl(weir: &Weir, arguments: &[&str]) -> CommandResult {
    weir.run_over_socket(&[&["ctl"], arguments].concat())
}

fn http(weir: &Weir, request: &str) -> Response {
    Client::exchange(weir.socket(), request)
}

fn post(weir: &Weir, target: &str, body: &str) -> Response {
    let length = body.len();
    http(weir, &format!("POST {target} HTTP/1.1\r\nHost: weir\r\nContent-Length: {length}\r\n\r\n{body}"))
}
