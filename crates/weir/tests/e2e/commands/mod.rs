//! The command line: what each command prints, to which stream, and with which exit code.
//!
//! Requests to `weir serve` belong to the other folders, its start and stop to `lifecycle`.

mod check;
mod explain;
mod demo;
mod features;
mod report;
mod secrets;
mod generated;
mod import;
mod shadow;
mod lab;

/// A good config with three routes.
const THREE_ROUTES: &str = r#"
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
