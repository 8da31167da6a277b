//! Access to the admin listener, the runtime socket and the access log of a running Weir.

use serde_json::Value;

use super::client::{Client, Response};
use super::metrics::of_server;
use super::program::{CommandResult, run};
use super::stream::{Address, Stream};
use super::watchdog::eventually;
use super::weir::Weir;

impl Weir {
    /// What the admin listener has at `target`, which is JSON.
    pub(crate) fn admin_json(&self, target: &str) -> Value {
        json(&Client::get_by_address(self.address("admin"), target))
    }

    /// Posts nothing to `target` of the admin listener, as a script does: no page has made the request.
    pub(crate) fn admin_post(&self, target: &str) -> Response {
        let admin = self.address("admin");
        let request = format!("POST {target} HTTP/1.1\r\nHost: {admin}\r\nContent-Length: 0\r\n\r\n");
        Client::exchange(admin, &request)
    }

    /// Sets the mode of a server of `app` as an operator does; more settings can follow `mode`.
    pub(crate) fn set_mode(&self, server: &str, mode: &str) {
        let response = self.admin_post(&format!("/servers?upstream=app&server={server}&mode={mode}"));
        assert_eq!(response.status, 200, "{}", response.text());
    }

    /// Whether health checks find the server up.
    pub(crate) fn is_up(&self, server: &str) -> bool {
        self.metrics().sum("weir_server_up", &[&of_server(server)]) == 1.0
    }

    /// How many requests wait for a server.
    pub(crate) fn queue_length(&self) -> usize {
        self.metrics().sum("weir_upstream_queue_length", &[]) as usize
    }

    /// The runtime socket, where the config puts it at `unix:{dir}/weir.sock`.
    pub(crate) fn socket(&self) -> Address {
        Address::Unix(self.folder().join("weir.sock"))
    }

    /// What the runtime socket answers to `line` until it closes the connection.
    pub(crate) fn ask_socket(&self, line: &str) -> String {
        let stream = Stream::connect(&self.socket()).expect("the socket is there");
        let mut client = Client::on(stream);
        client.send(format!("{line}\n"));
        String::from_utf8(client.take_to_end().0).expect("answers are UTF-8")
    }

    /// Runs a command of the program over the runtime socket.
    pub(crate) fn run_over_socket(&self, arguments: &[&str]) -> CommandResult {
        let socket = format!("unix:{}", self.folder().join("weir.sock").display());
        run(&[arguments, &["--admin", &socket]].concat())
    }

    /// The lines of `{dir}/access.log` once there are `count`; panics when there are more, or half a line.
    pub(crate) fn access_log(&self, count: usize) -> Vec<String> {
        let read = || std::fs::read_to_string(self.folder().join("access.log")).unwrap_or_default();
        eventually(&format!("the access log has {count} lines"), || read().matches('\n').count() >= count);
        let text = read();
        assert!(text.ends_with('\n'), "lines are written whole: {text:?}");
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), count, "{text}");
        lines
    }
}

/// The body of a response that succeeded, which is JSON.
pub(crate) fn json(response: &Response) -> Value {
    assert_eq!(response.status, 200, "{}", response.text());
    serde_json::from_str(&response.text()).unwrap_or_else(|error| panic!("{error}: {}", response.text()))
}
