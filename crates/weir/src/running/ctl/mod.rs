//! `weir ctl`: shows and changes a running Weir, over its admin listener or its runtime socket.

mod connections;
mod caches;
mod limits;
mod memory;
mod mirrors;
mod token_keys;
mod certificates;
mod hand_over;
mod profile;
mod qlog;

use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::help_text::with_exit_codes;
use crate::output::{self, shown};
use crate::running::admin_client::{AdminArguments, AdminClient, overview, path_segment};

use caches::{CachesArguments, PurgeArguments};
use certificates::CertificatesArguments;
use connections::{ConnectionsArguments, EndArguments};
use hand_over::HandOverArguments;
use limits::LimitsArguments;
use memory::MemoryArguments;
use mirrors::MirrorsArguments;
use profile::ProfileArguments;
use qlog::QlogArguments;
use token_keys::KeysArguments;

const EXAMPLES: &str = "\
Examples:
  weir ctl servers --admin unix:/run/weir.sock
  weir ctl drain app a --deadline 30s --config weir.toml
  weir ctl weight app a 10 --config weir.toml
  weir ctl reload --config weir.toml
  weir ctl ready --config weir.toml
  weir ctl hand-over --config weir.toml
  weir ctl take-back --config weir.toml
  weir ctl maintenance on --config weir.toml
  weir ctl connections --server a --min-age 1m --config weir.toml
  weir ctl end s0-17 --config weir.toml
  weir ctl limits --config weir.toml
  weir ctl memory --config weir.toml
  weir ctl mirrors --config weir.toml
  weir ctl purge pages --prefix https://example.com/news/ --config weir.toml
  weir ctl profile cpu --seconds 10 -o weir.svg --config weir.toml
  weir ctl profile memory --config weir.toml
  weir ctl qlog s0-17 --seconds 10 -o weir.sqlog --config weir.toml
  weir ctl raw 'show stat' --admin unix:/run/weir.sock";

const EXIT_CODES: &str = "\
Exit codes:
  0  done
  1  Weir rejected it, or cannot be reached
  2  the command line or the config cannot be used";

/// The time limit of a response: a reload waits for names and workers.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Inspect and change a running Weir.
///
/// Weights, addresses and limits changed here apply until the next reload, which restores those of the config. Modes (drain, maintenance)
/// survive a reload unless the config changes them. `admin.socket_changes` and `admin.changes` permit changes.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct CtlArguments {
    #[command(subcommand)]
    command: CtlCommand,
    #[command(flatten)]
    admin: AdminArguments,
}

#[derive(Debug, Subcommand)]
enum CtlCommand {
    /// Show the whole state as JSON.
    Show,
    /// Show the servers: mode, state and load of each.
    Servers,
    /// Show the limits by key: how many keys each has, what it has refused, and which keys most.
    Limits(LimitsArguments),
    /// Show what routes copy to mirrors, and the last responses that were not the same there.
    Mirrors(MirrorsArguments),
    /// Show the keys of tokens that are fetched from servers, and what is wrong with the last fetch.
    Keys(KeysArguments),
    /// Show the certificates: until when they are valid, and how it goes with those that Weir obtains by itself.
    Certificates(CertificatesArguments),
    /// Show the memory of the process against its budget: what uses it, and what is done about it.
    Memory(MemoryArguments),
    /// Show the caches: what each holds, and how often it helps.
    Caches(CachesArguments),
    /// Remove stored responses from a cache, by key, prefix or tag, or all of them.
    Purge(PurgeArguments),
    /// Show the config in use, without secrets.
    Config,
    /// Drain a server: no new requests except those with affinity to it.
    Drain {
        #[command(flatten)]
        server: ServerArguments,
        /// The time after which requests with affinity are not accepted either.
        #[arg(long, value_name = "TIME")]
        deadline: Option<String>,
    },
    /// Put a server into maintenance: no requests at all.
    Maintain {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Put a server back into service.
    Serve {
        #[command(flatten)]
        server: ServerArguments,
    },
    /// Change the weight of a server.
    Weight {
        #[command(flatten)]
        server: ServerArguments,
        /// 0 to 256.
        weight: u16,
    },
    /// Change the address of a server.
    Address {
        #[command(flatten)]
        server: ServerArguments,
        /// Such as `10.0.0.1:80`.
        address: String,
    },
    /// Change the maximum of concurrent requests of a server.
    Limit {
        #[command(flatten)]
        server: ServerArguments,
        /// A number, or `off`.
        max_requests: String,
    },
    /// Answer every request of the HTTP listeners with the page for maintenance (503), or serve again.
    ///
    /// It holds until it is taken back or Weir is restarted; a reload does not change it. `error_pages` has the page.
    Maintenance {
        /// `on` or `off`.
        #[arg(value_enum, value_name = "on|off")]
        switch: Switch,
        /// The listener; without it, all with `protocol = "http"`.
        listener: Option<String>,
        /// What clients are told in `Retry-After`.
        #[arg(long, value_name = "TIME", default_value = "10m")]
        retry_after: String,
    },
    /// Hand the traffic over to another node of a pair: first connections end with their next response, then that node is told to take over.
    ///
    /// The command waits until that is done. This node serves what still arrives, until it is stopped or takes back. Tunnels are cut when the
    /// address moves.
    HandOver(HandOverArguments),
    /// Take the traffic back after a hand-over, or while one is under way.
    TakeBack,
    /// Reload the config.
    Reload,
    /// Say whether Weir should get traffic, as `/ready` of the admin listener does: exit code 1 before a stop. For health checks of containers and pairs.
    Ready {
        /// Also whether this upstream can serve a request.
        #[arg(long, value_name = "NAME")]
        upstream: Option<String>,
    },
    /// List the connections: what each waits for and since when, the oldest first.
    Connections(ConnectionsArguments),
    /// End a connection in any state, or all with an exchange on a server.
    ///
    /// Its connections are closed at once. A request without a response is answered 503, a response in progress is cut off.
    End(EndArguments),
    /// Profile its CPU time or its memory, without tools of the system (feature `profiler`).
    Profile(ProfileArguments),
    /// Write down what happens to a connection of HTTP/3: packets, losses, round-trip time, streams. As qlog (JSON text sequences).
    Qlog(QlogArguments),
    /// Send a command of the runtime socket, such as `show stat`.
    Raw {
        /// The command.
        command: String,
    },
}

/// On or off.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Switch {
    On,
    Off,
}

#[derive(Debug, Args)]
struct ServerArguments {
    /// The upstream.
    upstream: String,
    /// The name of the server, as listed by `weir ctl servers`.
    server: String,
}

pub(crate) fn run(arguments: &CtlArguments) -> Result<ExitCode, CommandError> {
    let client = arguments.admin.client()?.within(TIME_MAX);
    let text = match &arguments.command {
        CtlCommand::Show => overview(&client, usize::MAX).map(|whole| format!("{whole:#}\n")),
        CtlCommand::Servers => look(&client, "/servers"),
        CtlCommand::Limits(arguments) => limits::show(&client, arguments),
        CtlCommand::Mirrors(arguments) => mirrors::show(&client, arguments),
        CtlCommand::Keys(arguments) => token_keys::show(&client, arguments),
        CtlCommand::Certificates(arguments) => certificates::show(&client, arguments),
        CtlCommand::Memory(arguments) => memory::show(&client, arguments),
        CtlCommand::Caches(arguments) => caches::show(&client, arguments),
        CtlCommand::Purge(arguments) => caches::purge(&client, arguments),
        CtlCommand::Config => look(&client, "/api/config"),
        CtlCommand::Drain { server, deadline } => match deadline {
            None => change(&client, server, &json!({ "mode": "draining" })),
            Some(time) => change(&client, server, &json!({ "mode": "draining", "deadline": time })),
        },
        CtlCommand::Maintain { server } => change(&client, server, &json!({ "mode": "maintenance" })),
        CtlCommand::Serve { server } => change(&client, server, &json!({ "mode": "serving" })),
        CtlCommand::Weight { server, weight } => change(&client, server, &json!({ "weight": weight })),
        CtlCommand::Address { server, address } => change(&client, server, &json!({ "address": address })),
        CtlCommand::Limit { server, max_requests } => {
            let count =
                max_requests.parse::<u32>().map_or_else(|_| json!(max_requests), |count| json!(count));
            change(&client, server, &json!({ "max_requests": count }))
        }
        CtlCommand::Maintenance { switch, listener, retry_after } => {
            maintain(&client, *switch, listener.as_deref(), retry_after)
        }
        CtlCommand::HandOver(arguments) => hand_over::hand_over(&client, arguments),
        CtlCommand::TakeBack => hand_over::take_back(&client),
        CtlCommand::Reload => reload(&client),
        CtlCommand::Ready { upstream } => match upstream {
            None => look(&client, "/ready"),
            Some(name) => look(&client, &format!("/ready?upstream={}", path_segment(name))),
        },
        CtlCommand::Connections(arguments) => connections::list(&client, arguments),
        CtlCommand::End(arguments) => connections::end(&client, arguments),
        CtlCommand::Profile(arguments) => return profile::run(client, arguments),
        CtlCommand::Qlog(arguments) => return qlog::run(client, arguments),
        CtlCommand::Raw { command } => raw(&client, command),
    }?;
    output::print_answer(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn look(client: &AdminClient, target: &str) -> Result<String, CommandError> {
    let answer = client.get(target)?;
    answer.accepted()
}

fn change(client: &AdminClient, server: &ServerArguments, wanted: &Value) -> Result<String, CommandError> {
    let target = format!("/api/servers/{}/{}", path_segment(&server.upstream), path_segment(&server.server));
    let answer = client.post(&target, "application/json", wanted.to_string().as_bytes())?;
    let now: Value = serde_json::from_str(&answer.accepted()?)?;
    let field = |name: &str| match &now[name] {
        text @ Value::String(_) => shown(text),
        Value::Null => "off".to_owned(),
        other => other.to_string(),
    };
    Ok(format!(
        "{}/{}: {}, address {}, weight {}, max_requests {}, in flight {}\n",
        server.upstream,
        server.server,
        field("status"),
        field("address"),
        field("weight"),
        field("max_requests"),
        field("in_flight"),
    ))
}

fn maintain(
    client: &AdminClient,
    switch: Switch,
    listener: Option<&str>,
    retry_after: &str,
) -> Result<String, CommandError> {
    let listeners: Vec<String> = match listener {
        Some(name) => vec![name.to_owned()],
        None => {
            let whole = overview(client, usize::MAX)?;
            let all = whole["listeners"].as_array().into_iter().flatten();
            let of_http = all.filter(|listener| listener["protocol"] == "http");
            of_http.filter_map(|listener| Some(listener["name"].as_str()?.to_owned())).collect()
        }
    };
    let wanted = match switch {
        Switch::On => json!({ "maintenance": true, "retry_after": retry_after }),
        Switch::Off => json!({ "maintenance": false }),
    };
    let mut text = String::new();
    for listener in &listeners {
        let target = format!("/api/listeners/{}", path_segment(listener));
        client.post(&target, "application/json", wanted.to_string().as_bytes())?.accepted()?;
        text.push_str(&format!(
            "{listener}: {}\n",
            if switch == Switch::On { "in maintenance" } else { "serving" }
        ));
    }
    Ok(text)
}

fn reload(client: &AdminClient) -> Result<String, CommandError> {
    let answer = client.post("/api/reload", "application/json", b"")?;
    let outcome: Value = serde_json::from_str(&answer.accepted()?)?;
    let mut text = format!("the config was reloaded, generation {}\n", outcome["generation"]);
    for key in outcome["needs_restart"].as_array().into_iter().flatten().map(shown) {
        text.push_str(&format!("a change of `{key}` holds only after a restart\n"));
    }
    Ok(text)
}

fn raw(client: &AdminClient, command: &str) -> Result<String, CommandError> {
    let first = command.split_whitespace().next().unwrap_or_default();
    let answer = if matches!(first, "show" | "get" | "help") {
        client.get(&format!("/api/raw?command={}", path_segment(command)))?
    } else {
        client.post("/api/raw", "text/plain", command.as_bytes())?
    };
    answer.accepted()
}
