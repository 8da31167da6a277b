//! The command line: what can be typed, with the help that explains it. What the commands do stands elsewhere.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// A fast, fair load balancer and reverse proxy that explains itself.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(ServeArguments),
}

/// Run the proxy, from a file or from the addresses alone.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weir serve weir.toml\n  weir serve --listen :8080 --to 10.0.0.1:80 --to 10.0.0.2:80")]
pub(crate) struct ServeArguments {
    /// The config file.
    #[arg(required_unless_present = "to", conflicts_with_all = ["listen", "to"])]
    pub(crate) file: Option<PathBuf>,
    /// Where to accept connections: `:8080`, `127.0.0.1:8080`, `unix:/run/weir.sock`.
    #[arg(long, value_name = "ADDRESS", default_value = ":8080")]
    pub(crate) listen: Vec<String>,
    /// A server to balance requests over: `10.0.0.1:80`, `app.internal:8080`, `unix:/run/app.sock`.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) to: Vec<String>,
}
