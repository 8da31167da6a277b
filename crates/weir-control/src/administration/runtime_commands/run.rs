//! Answers of the runtime socket to a command: reports, and the outcome of changes.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Server, ServerAddress};
use weir_observe::{AdminRefusal, haproxy};
use weir_traffic::Mode;

use super::command::{ConnectionSelection, HELP, InvalidCommand, RuntimeCommand, ServerRef, WeightChange};
use super::rows::{connection_row, error_row};
use super::tables;
use crate::administration::admin_access::AdminPeer;
use crate::administration::admin_operations::Operations;
use crate::administration::reports::ReportWriter;
use crate::servers::modes::UnknownServer;
use crate::workers::commands::{CommandRejected, ServerChange};
use crate::workers::connections;
use crate::workers::connections::LISTED_MAX;
use weir_proxy::state::connections::connection_list::{ConnectionId, ConnectionQuery};
use weir_proxy::state::tracing::recorder::RecorderQuery;

/// Failures that `show errors` lists one by one.
const ERRORS_LISTED: usize = 100;

const NO_SESSION: &str = "No such session (use 'show sess').";

/// Answers a command that concerns no session but the process.
///
/// # Errors
/// The answer to a command that is rejected, which is counted.
pub(crate) async fn answer(
    command: RuntimeCommand,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> Result<String, String> {
    if command.changes() && !operations.access.allows_socket_changes() {
        operations.access.count_refusal(AdminRefusal::ChangesOff, peer);
        let what = "Permission denied: `admin.socket_changes` of the config does not allow changes here.";
        return Err(line(what));
    }
    Ok(execute(command, operations, peer).await)
}

/// Answers a command that may be done.
pub(crate) async fn execute(
    command: RuntimeCommand,
    operations: &Arc<Operations>,
    peer: AdminPeer,
) -> String {
    let overview = || operations.sources.overview();
    match command {
        RuntimeCommand::ShowInfo(form) => haproxy::info(&overview(), form),
        RuntimeCommand::ShowStat(filter, form) => {
            let overview = overview();
            if filter.is_vain(&overview) {
                line("No such proxy.")
            } else {
                haproxy::stat(&overview, &filter, form)
            }
        }
        RuntimeCommand::ShowServersState(upstream) => {
            haproxy::servers_state(&overview(), upstream.as_deref())
                .unwrap_or_else(|| line("Can't find backend."))
        }
        RuntimeCommand::ShowServersConn(upstream) => haproxy::servers_conn(&overview(), upstream.as_deref())
            .unwrap_or_else(|| line("Can't find backend.")),
        RuntimeCommand::ShowBackend => haproxy::backends(&overview()),
        RuntimeCommand::ShowErrors => show_errors(operations).await,
        RuntimeCommand::ShowSess(sessions) => show_sess(sessions, operations).await,
        RuntimeCommand::ShowVersion => line(env!("CARGO_PKG_VERSION")),
        RuntimeCommand::ShowLevel => {
            line(if operations.access.allows_socket_changes() { "admin" } else { "user" })
        }
        RuntimeCommand::Help(prefix) => help(&prefix, "The following commands are valid at this level:"),
        RuntimeCommand::SetMode(name, mode) => set_mode(&name, mode, operations),
        RuntimeCommand::SetWeight(name, weight) => set_weight(&name, weight, operations, peer).await,
        RuntimeCommand::GetWeight(name) => get_weight(&name, operations),
        RuntimeCommand::SetAddr(name, ip, port) => set_addr(&name, ip, port, operations, peer).await,
        RuntimeCommand::SetMaxRequests(name, count) => {
            let change =
                ServerChange { max_requests: Some(Some(count).filter(|count| *count > 0)), ..change(&name) };
            change_reply(operations.commands.change(change, &peer.to_string()).await.map(|_| String::new()))
        }
        RuntimeCommand::ShutdownSession(id) => shutdown(id, operations, peer).await,
        RuntimeCommand::ShutdownSessions(name) => shutdown_all(&name, operations, peer).await,
        RuntimeCommand::Table(command) => tables::answer(&command, &operations.sources.snapshot()),
        RuntimeCommand::Reload => match operations.commands.reload(&peer.to_string()).await {
            Ok(reloaded) => line(&reloaded.to_string()),
            Err(rejected) => line(&rejected.to_string()),
        },
        // These are the session's.
        RuntimeCommand::Prompt | RuntimeCommand::Quit | RuntimeCommand::SetTimeout(_) => String::new(),
    }
}

/// Answers a line that is no command.
pub(crate) fn explain(wrong: &InvalidCommand) -> String {
    match wrong {
        InvalidCommand::Said(what) => line(what),
        InvalidCommand::Unknown(words) => {
            let first = words.split(' ').next().unwrap_or_default();
            let is_near = |usage: &str| !first.is_empty() && usage.split(' ').next() == Some(first);
            if HELP.iter().any(|(usage, _)| is_near(usage)) {
                help(first, "Unknown command, but maybe one of the following ones is a better match:")
            } else {
                help("", "Unknown command. Please enter one of the following commands only:")
            }
        }
    }
}

fn help(prefix: &str, title: &str) -> String {
    let width = HELP.iter().map(|(usage, _)| usage.len()).max().unwrap_or(0);
    let mut text = line(title);
    let fitting = HELP.iter().filter(|(usage, _)| usage.starts_with(prefix));
    let all = if HELP.iter().any(|(usage, _)| usage.starts_with(prefix)) {
        fitting.collect()
    } else {
        Vec::from_iter(&HELP)
    };
    for (usage, about) in all {
        text.push_str(&format!("  {usage:width$} : {about}\n"));
    }
    text
}

async fn show_errors(operations: &Operations) -> String {
    let found = operations.queries.ask(RecorderQuery::Failures, ERRORS_LISTED).await;
    let report = ReportWriter::new(&operations.queries);
    let last = found.recorded.iter().filter_map(|(worker, recorded)| error_row(*worker, recorded, &report));
    haproxy::errors(&operations.sources.overview(), &last.collect::<Vec<_>>())
}

async fn show_sess(sessions: ConnectionSelection, operations: &Operations) -> String {
    let connection = match sessions {
        ConnectionSelection::One(None) => return line("Session not found."),
        ConnectionSelection::One(one) => one,
        ConnectionSelection::Lines | ConnectionSelection::Whole => None,
    };
    let query = ConnectionQuery { connection, count_max: LISTED_MAX, ..ConnectionQuery::default() };
    let found = operations.queries.ask_running(query).await;
    let report = ReportWriter::new(&operations.queries);
    let rows: Vec<_> =
        found.connections.iter().map(|connection| connection_row(connection, &report)).collect();
    match sessions {
        ConnectionSelection::Lines => haproxy::sessions(&rows, found.matching, found.silent),
        ConnectionSelection::One(_) if rows.is_empty() => line("Session not found."),
        ConnectionSelection::One(_) => haproxy::session_details(&rows, rows.len(), 0),
        ConnectionSelection::Whole => haproxy::session_details(&rows, found.matching, found.silent),
    }
}

async fn shutdown(id: Option<ConnectionId>, operations: &Operations, peer: AdminPeer) -> String {
    let Some(id) = id else { return line(NO_SESSION) };
    let found = connections::end(&operations.queries, id, &peer.to_string()).await;
    if found.connections.is_empty() { line(NO_SESSION) } else { String::new() }
}

async fn shutdown_all(name: &ServerRef, operations: &Operations, peer: AdminPeer) -> String {
    if let Err(unknown) = operations.sources.knows(&name.upstream, &name.server) {
        return no_such(&unknown);
    }
    connections::end_all(&operations.queries, &name.upstream, &name.server, &peer.to_string()).await;
    String::new()
}

fn line(text: &str) -> String {
    format!("{text}\n")
}

/// The answer to a change: nothing, if it was done.
fn change_reply(outcome: Result<String, CommandRejected>) -> String {
    match outcome {
        Ok(text) => text,
        Err(CommandRejected::NoUpstream(_)) => line("No such backend."),
        Err(CommandRejected::NoServer(..)) => line("No such server."),
        Err(other) => line(&other.to_string()),
    }
}

fn change(name: &ServerRef) -> ServerChange {
    ServerChange::new(&name.upstream, &name.server)
}

fn set_mode(name: &ServerRef, mode: Mode, operations: &Operations) -> String {
    let set = operations.modes.set(&name.upstream, &name.server, mode, None);
    set.map_or_else(|unknown| no_such(&unknown), |()| String::new())
}

fn no_such(unknown: &UnknownServer) -> String {
    match unknown {
        UnknownServer::Upstream(_) => line("No such backend."),
        UnknownServer::Server(..) => line("No such server."),
    }
}

async fn set_weight(
    name: &ServerRef,
    weight: WeightChange,
    operations: &Operations,
    peer: AdminPeer,
) -> String {
    let change = match weight {
        WeightChange::Exactly(weight) => ServerChange { weight: Some(weight), ..change(name) },
        WeightChange::Percent(percent) => ServerChange { weight_percent: Some(percent), ..change(name) },
    };
    change_reply(operations.commands.change(change, &peer.to_string()).await.map(|_| String::new()))
}

fn get_weight(name: &ServerRef, operations: &Operations) -> String {
    let weight = match operations.sources.weight(&name.upstream, &name.server) {
        Ok(weight) => weight,
        Err(unknown) => return no_such(&unknown),
    };
    let written = operations.file_config.load();
    let of_upstream = written.upstreams.iter().find(|upstream| *upstream.name == *name.upstream);
    let written =
        of_upstream.and_then(|upstream| upstream.servers.iter().find(|server| *server.name == *name.server));
    let initial = written.map_or(weight, |server| u32::from(server.weight));
    format!("{weight} (initial {initial})\n")
}

async fn set_addr(
    name: &ServerRef,
    ip: IpAddr,
    port: Option<u16>,
    operations: &Operations,
    peer: AdminPeer,
) -> String {
    let change = ServerChange { ip: Some((ip, port)), ..change(name) };
    let done = operations.commands.change(change, &peer.to_string()).await;
    change_reply(done.map(|(before, after)| moved(&before, &after)))
}

/// HAProxy's answer about a server that was moved; programs look for its words.
fn moved(before: &Server, after: &Server) -> String {
    let at = |server: &Server| match &server.address {
        ServerAddress::Ip(addr) => (addr.ip().to_string(), addr.port().to_string()),
        other => (other.to_string(), other.port().map_or_else(|| "0".to_owned(), |port| port.to_string())),
    };
    let ((old_ip, old_port), (ip, port)) = (at(before), at(after));
    let addr = if old_ip == ip {
        "no need to change the addr".to_owned()
    } else {
        format!("IP changed from '{old_ip}' to '{ip}'")
    };
    let port = if old_port == port {
        "no need to change the port".to_owned()
    } else {
        format!("port changed from '{old_port}' to '{port}'")
    };
    format!("{addr}, {port} by 'stats socket command'\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(address: &str) -> Server {
        Server::new(address.parse().unwrap())
    }

    #[test]
    fn a_move_is_reported_in_the_words_that_programs_look_for() {
        for (before, after, expected) in [
            (
                "10.0.0.1:80",
                "10.0.0.2:80",
                "IP changed from '10.0.0.1' to '10.0.0.2', no need to change the port",
            ),
            ("10.0.0.1:80", "10.0.0.1:81", "no need to change the addr, port changed from '80' to '81'"),
            ("10.0.0.1:80", "10.0.0.1:80", "no need to change the addr, no need to change the port"),
        ] {
            let text = moved(&server(before), &server(after));
            assert_eq!(text, format!("{expected} by 'stats socket command'\n"));
        }
    }

    #[test]
    fn help_lists_commands_with_the_given_beginning() {
        let near = explain(&InvalidCommand::Unknown("show nothing".into()));
        assert!(
            near.starts_with("Unknown command, but maybe")
                && near.contains("show stat")
                && !near.contains("prompt")
        );
        let far = explain(&InvalidCommand::Unknown("bogus".into()));
        assert!(far.starts_with("Unknown command. Please enter") && far.contains("prompt"));
    }
}
