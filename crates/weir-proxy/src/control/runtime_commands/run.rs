//! What the runtime socket answers to a command: what is shown, and how a change went.

use std::net::IpAddr;
use std::sync::Arc;

use weir_config::{Server, ServerAddress};
use weir_observe::{AdminRefusal, haproxy};
use weir_traffic::Mode;

use super::command::{Command, HELP, ServerName, Sessions, Weight, Wrong};
use super::rows::{error_row, session_row};
use crate::control::admin_access::Peer;
use crate::control::commands::{ServerChange, Unfulfilled};
use crate::control::connections::{self, TOLD_MAX};
use crate::control::operations::Served;
use crate::control::reports::Narrator;
use crate::control::server_modes::Unknown;
use crate::state::recorder::Wanted;
use crate::state::running::{Question, SessionId};

/// Failures that `show errors` tells one by one.
const ERRORS_TOLD: usize = 100;

const NO_SESSION: &str = "No such session (use 'show sess').";

/// Answers a command that concerns no session but the process.
///
/// # Errors
/// What is said instead when it is refused, which is counted.
pub(crate) async fn answer(command: Command, served: &Arc<Served>, peer: Peer) -> Result<String, String> {
    if command.changes() && !served.guard.allows_socket_changes() {
        served.guard.count_refusal(AdminRefusal::ChangesOff, peer);
        let what = "Permission denied: `admin.socket_changes` of the config does not allow changes here.";
        return Err(line(what));
    }
    Ok(obey(command, served, peer).await)
}

/// Answers a command that may be done.
pub(crate) async fn obey(command: Command, served: &Arc<Served>, peer: Peer) -> String {
    let overview = || served.sources.overview();
    match command {
        Command::ShowInfo(form) => haproxy::info(&overview(), form),
        Command::ShowStat(filter, form) => {
            let overview = overview();
            if filter.is_vain(&overview) {
                line("No such proxy.")
            } else {
                haproxy::stat(&overview, &filter, form)
            }
        }
        Command::ShowServersState(upstream) => haproxy::servers_state(&overview(), upstream.as_deref())
            .unwrap_or_else(|| line("Can't find backend.")),
        Command::ShowServersConn(upstream) => haproxy::servers_conn(&overview(), upstream.as_deref())
            .unwrap_or_else(|| line("Can't find backend.")),
        Command::ShowBackend => haproxy::backends(&overview()),
        Command::ShowErrors => show_errors(served).await,
        Command::ShowSess(sessions) => show_sess(sessions, served).await,
        Command::ShowVersion => line(env!("CARGO_PKG_VERSION")),
        Command::ShowLevel => line(if served.guard.allows_socket_changes() { "admin" } else { "user" }),
        Command::Help(prefix) => help(&prefix, "The following commands are valid at this level:"),
        Command::SetMode(name, mode) => set_mode(&name, mode, served),
        Command::SetWeight(name, weight) => set_weight(&name, weight, served, peer).await,
        Command::GetWeight(name) => get_weight(&name, served),
        Command::SetAddr(name, ip, port) => set_addr(&name, ip, port, served, peer).await,
        Command::SetMaxRequests(name, count) => {
            let change =
                ServerChange { max_requests: Some(Some(count).filter(|count| *count > 0)), ..change(&name) };
            told(served.wishes.change(change, &peer.to_string()).await.map(|_| String::new()))
        }
        Command::ShutdownSession(id) => shutdown(id, served, peer).await,
        Command::ShutdownSessions(name) => shutdown_all(&name, served, peer).await,
        Command::Reload => match served.wishes.reload(&peer.to_string()).await {
            Ok(reloaded) => line(&reloaded.to_string()),
            Err(unfulfilled) => line(&unfulfilled.to_string()),
        },
        // These are the session's.
        Command::Prompt | Command::Quit | Command::SetTimeout(_) => String::new(),
    }
}

/// Answers a line that is no command.
pub(crate) fn correct(wrong: &Wrong) -> String {
    match wrong {
        Wrong::Said(what) => line(what),
        Wrong::Unknown(words) => {
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

async fn show_errors(served: &Served) -> String {
    let found = served.desk.ask(Wanted::Failures, ERRORS_TOLD).await;
    let narrator = Narrator::new(&served.desk);
    let last = found.flights.iter().filter_map(|(worker, flight)| error_row(*worker, flight, &narrator));
    haproxy::errors(&served.sources.overview(), &last.collect::<Vec<_>>())
}

async fn show_sess(sessions: Sessions, served: &Served) -> String {
    let session = match sessions {
        Sessions::One(None) => return line("Session not found."),
        Sessions::One(one) => one,
        Sessions::Lines | Sessions::Whole => None,
    };
    let question = Question { session, count_max: TOLD_MAX, ..Question::default() };
    let found = served.desk.ask_running(question).await;
    let narrator = Narrator::new(&served.desk);
    let rows: Vec<_> = found.sessions.iter().map(|session| session_row(session, &narrator)).collect();
    match sessions {
        Sessions::Lines => haproxy::sessions(&rows, found.matching, found.silent),
        Sessions::One(_) if rows.is_empty() => line("Session not found."),
        Sessions::One(_) => haproxy::session_details(&rows, rows.len(), 0),
        Sessions::Whole => haproxy::session_details(&rows, found.matching, found.silent),
    }
}

async fn shutdown(id: Option<SessionId>, served: &Served, peer: Peer) -> String {
    let Some(id) = id else { return line(NO_SESSION) };
    let found = connections::end(&served.desk, id, &peer.to_string()).await;
    if found.sessions.is_empty() { line(NO_SESSION) } else { String::new() }
}

async fn shutdown_all(name: &ServerName, served: &Served, peer: Peer) -> String {
    if let Err(unknown) = served.sources.knows(&name.upstream, &name.server) {
        return no_such(&unknown);
    }
    connections::end_all(&served.desk, &name.upstream, &name.server, &peer.to_string()).await;
    String::new()
}

fn line(text: &str) -> String {
    format!("{text}\n")
}

/// What somebody reads of a change: nothing, if it was done.
fn told(outcome: Result<String, Unfulfilled>) -> String {
    match outcome {
        Ok(text) => text,
        Err(Unfulfilled::NoUpstream(_)) => line("No such backend."),
        Err(Unfulfilled::NoServer(..)) => line("No such server."),
        Err(other) => line(&other.to_string()),
    }
}

fn change(name: &ServerName) -> ServerChange {
    ServerChange::of(&name.upstream, &name.server)
}

fn set_mode(name: &ServerName, mode: Mode, served: &Served) -> String {
    let set = served.modes.set(&name.upstream, &name.server, mode, None);
    set.map_or_else(|unknown| no_such(&unknown), |()| String::new())
}

fn no_such(unknown: &Unknown) -> String {
    match unknown {
        Unknown::Upstream(_) => line("No such backend."),
        Unknown::Server(..) => line("No such server."),
    }
}

async fn set_weight(name: &ServerName, weight: Weight, served: &Served, peer: Peer) -> String {
    let change = match weight {
        Weight::Exactly(weight) => ServerChange { weight: Some(weight), ..change(name) },
        Weight::Percent(percent) => ServerChange { weight_percent: Some(percent), ..change(name) },
    };
    told(served.wishes.change(change, &peer.to_string()).await.map(|_| String::new()))
}

fn get_weight(name: &ServerName, served: &Served) -> String {
    let weight = match served.sources.weight(&name.upstream, &name.server) {
        Ok(weight) => weight,
        Err(unknown) => return no_such(&unknown),
    };
    let written = served.written.load();
    let of_upstream = written.upstreams.iter().find(|upstream| *upstream.name == *name.upstream);
    let written =
        of_upstream.and_then(|upstream| upstream.servers.iter().find(|server| *server.name == *name.server));
    let initial = written.map_or(weight, |server| u32::from(server.weight));
    format!("{weight} (initial {initial})\n")
}

async fn set_addr(name: &ServerName, ip: IpAddr, port: Option<u16>, served: &Served, peer: Peer) -> String {
    let change = ServerChange { ip: Some((ip, port)), ..change(name) };
    let done = served.wishes.change(change, &peer.to_string()).await;
    told(done.map(|(before, after)| moved(&before, &after)))
}

/// What HAProxy says of a server that was moved; programs look for its words.
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
    fn a_move_is_told_in_the_words_that_programs_look_for() {
        for (before, after, told) in [
            (
                "10.0.0.1:80",
                "10.0.0.2:80",
                "IP changed from '10.0.0.1' to '10.0.0.2', no need to change the port",
            ),
            ("10.0.0.1:80", "10.0.0.1:81", "no need to change the addr, port changed from '80' to '81'"),
            ("10.0.0.1:80", "10.0.0.1:80", "no need to change the addr, no need to change the port"),
        ] {
            let text = moved(&server(before), &server(after));
            assert_eq!(text, format!("{told} by 'stats socket command'\n"));
        }
    }

    #[test]
    fn help_is_for_what_was_begun() {
        let near = correct(&Wrong::Unknown("show nothing".into()));
        assert!(
            near.starts_with("Unknown command, but maybe")
                && near.contains("show stat")
                && !near.contains("prompt")
        );
        let far = correct(&Wrong::Unknown("bogus".into()));
        assert!(far.starts_with("Unknown command. Please enter") && far.contains("prompt"));
    }
}
