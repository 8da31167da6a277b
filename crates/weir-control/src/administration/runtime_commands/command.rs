//! The commands of the runtime socket, in the words of HAProxy: parsed from a line.
//!
//! Pure. Invalid bytes get an answer, never a panic.

use std::net::IpAddr;
use std::time::Duration;

use weir_observe::haproxy::{ProxyName, StatFilter, StatForm};
use weir_traffic::Mode;

use super::table_command;
use super::table_command::TableCommand;
use weir_proxy::state::connections::connection_list::ConnectionId;

/// Bytes of a line; the buffer of HAProxy.
pub(crate) const LINE_BYTES_MAX: usize = 16 * 1024;

/// Commands in a line.
pub(crate) const COMMANDS_MAX: usize = 64;

/// The longest silence of a client, by `set timeout cli`.
const SILENCE_MAX_SECONDS: u64 = 3600;

/// The greatest weight of a server.
const WEIGHT_MAX: u16 = 256;

/// The most requests that a server may be allowed at once.
const REQUESTS_MAX: u32 = 10_000_000;

/// A server by the names of its upstream and its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerRef {
    pub(crate) upstream: String,
    pub(crate) server: String,
}

/// A requested weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WeightChange {
    Exactly(u16),
    /// Of the weight in the config.
    Percent(u32),
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuntimeCommand {
    ShowInfo(StatForm),
    ShowStat(StatFilter, StatForm),
    ShowServersState(Option<String>),
    ShowServersConn(Option<String>),
    ShowBackend,
    ShowErrors,
    ShowSess(ConnectionSelection),
    ShowVersion,
    ShowLevel,
    Help(String),
    Prompt,
    Quit,
    SetTimeout(Duration),
    SetMode(ServerRef, Mode),
    SetWeight(ServerRef, WeightChange),
    GetWeight(ServerRef),
    SetAddr(ServerRef, IpAddr, Option<u16>),
    SetMaxRequests(ServerRef, u32),
    /// The session; `None` if no session can be called so.
    ShutdownSession(Option<ConnectionId>),
    ShutdownSessions(ServerRef),
    Table(TableCommand),
    Reload,
}

/// The sessions to be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionSelection {
    /// All, a line each.
    Lines,
    /// All, with everything that is known.
    Whole,
    /// One with everything; `None` if no session can be called so.
    One(Option<ConnectionId>),
}

impl RuntimeCommand {
    /// Whether it changes anything.
    pub(crate) const fn changes(&self) -> bool {
        if let Self::Table(command) = self {
            return command.changes();
        }
        matches!(
            self,
            Self::SetMode(..)
                | Self::SetWeight(..)
                | Self::SetAddr(..)
                | Self::SetMaxRequests(..)
                | Self::ShutdownSession(..)
                | Self::ShutdownSessions(..)
                | Self::Reload
        )
    }
}

/// Why a line is no command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InvalidCommand {
    /// No command begins so: the words.
    Unknown(String),
    /// The command is known, and its arguments are invalid: the sentence of HAProxy, where it has one.
    Said(String),
}

/// Every command with its description, as `help` shows it.
pub(crate) const HELP: [(&str, &str); 25] = [
    ("clear table <table> [key <key>|data.<type> <op> <n>]", "forget entries of a table"),
    ("disable server <bk>/<srv>", "take a server out of service: maintenance"),
    ("enable server <bk>/<srv>", "put a server back into service"),
    ("get weight <bk>/<srv>", "report a server's current weight"),
    ("reload", "read the config again and go over to it"),
    ("set maxconn server <bk>/<srv> <n>", "change how many requests a server works on at once"),
    ("set server <bk>/<srv> addr <ip> [port <n>]", "change where a server is"),
    ("set server <bk>/<srv> state <ready|drain|maint>", "change whether a server takes requests"),
    ("set server <bk>/<srv> weight <n>[%]", "change a server's weight"),
    ("set table <table> key <key> data.<type> <n>", "change the entry of a key in a table"),
    ("set timeout cli <seconds>", "change how long this session may be silent"),
    ("set weight <bk>/<srv> <n>[%]", "change a server's weight"),
    ("show backend", "list the upstreams"),
    ("show errors", "report failures by reason, and the last ones"),
    ("show info [json|typed]", "report information about the process"),
    ("show servers conn [<backend>]", "report the connections of servers"),
    ("show servers state [<backend>]", "report the state of servers"),
    ("show sess [<id>|all]", "report what runs now"),
    ("show stat [<id|name> <type> <sid>] [json|typed|no-maint|up]", "report what was counted"),
    ("show table [<table> [key <key>|data.<type> <op> <n>]]", "list the tables, or entries of one"),
    ("shutdown session <id>", "end a session"),
    ("shutdown sessions server <bk>/<srv>", "end the sessions that are on a server"),
    ("help [<command>]", "list matching or all commands"),
    ("prompt", "toggle interactive mode with prompt"),
    ("quit", "disconnect"),
];

const NEEDS_NAMES: &str = "Require 'backend/server'.";

/// The commands of a line, in its order. A backslash keeps the next character from ending a command or a word.
pub(crate) fn split(line: &str) -> Vec<String> {
    let mut commands = vec![String::new()];
    let mut is_escaped = false;
    for c in line.chars() {
        let last = commands.last_mut().expect("there is always a command");
        match c {
            ';' if !is_escaped => commands.push(String::new()),
            c => last.push(c),
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    commands
}

/// Reads one command.
pub(crate) fn parse(text: &str) -> Result<RuntimeCommand, InvalidCommand> {
    let words = words(text);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["show", "info", rest @ ..] => Ok(RuntimeCommand::ShowInfo(form(rest))),
        ["show", "stat", rest @ ..] => show_stat(rest),
        ["show", "servers", "state", rest @ ..] => Ok(RuntimeCommand::ShowServersState(first(rest))),
        ["show", "servers", "conn", rest @ ..] => Ok(RuntimeCommand::ShowServersConn(first(rest))),
        ["show", "table", rest @ ..] => table(table_command::show(rest)),
        ["set", "table", rest @ ..] => table(table_command::set(rest)),
        ["clear", "table", rest @ ..] => table(table_command::clear(rest)),
        ["show", "backend", ..] => Ok(RuntimeCommand::ShowBackend),
        ["show", "errors", ..] => Ok(RuntimeCommand::ShowErrors),
        ["show", "sess", "all", ..] => Ok(RuntimeCommand::ShowSess(ConnectionSelection::Whole)),
        ["show", "sess", id, ..] => Ok(RuntimeCommand::ShowSess(ConnectionSelection::One(id.parse().ok()))),
        ["show", "sess"] => Ok(RuntimeCommand::ShowSess(ConnectionSelection::Lines)),
        ["shutdown", "session", id, ..] => Ok(RuntimeCommand::ShutdownSession(id.parse().ok())),
        ["shutdown", "session"] => Err(said("Session pointer expected (use 'show sess').")),
        ["shutdown", "sessions", "server", rest @ ..] => Ok(RuntimeCommand::ShutdownSessions(named(rest)?)),
        ["show", "version", ..] => Ok(RuntimeCommand::ShowVersion),
        ["show", "cli", "level", ..] => Ok(RuntimeCommand::ShowLevel),
        ["help", rest @ ..] => Ok(RuntimeCommand::Help(rest.join(" "))),
        ["prompt", ..] => Ok(RuntimeCommand::Prompt),
        ["quit", ..] => Ok(RuntimeCommand::Quit),
        ["reload"] => Ok(RuntimeCommand::Reload),
        ["set", "timeout", "cli", rest @ ..] => set_timeout(rest),
        ["set", "server", rest @ ..] => set_server(rest),
        ["set", "weight", rest @ ..] => match rest {
            [name, weight, ..] => Ok(RuntimeCommand::SetWeight(server_name(name)?, read_weight(weight)?)),
            _ => Err(said(NEEDS_NAMES)),
        },
        ["get", "weight", rest @ ..] => Ok(RuntimeCommand::GetWeight(named(rest)?)),
        ["set", "maxconn", "server", rest @ ..] => set_max_requests(rest),
        ["disable", "server", rest @ ..] => Ok(RuntimeCommand::SetMode(named(rest)?, Mode::Maintenance)),
        ["enable", "server", rest @ ..] => Ok(RuntimeCommand::SetMode(named(rest)?, Mode::Serving)),
        _ => Err(InvalidCommand::Unknown(words.join(" "))),
    }
}

fn table(read: Result<TableCommand, String>) -> Result<RuntimeCommand, InvalidCommand> {
    read.map(RuntimeCommand::Table).map_err(InvalidCommand::Said)
}

/// The words of a command, without the backslashes that kept them together.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_escaped = false;
    for c in text.chars() {
        if is_escaped {
            word.get_or_insert_default().push(c);
            is_escaped = false;
        } else if c == '\\' {
            is_escaped = true;
        } else if c.is_ascii_whitespace() {
            words.extend(word.take());
        } else {
            word.get_or_insert_default().push(c);
        }
    }
    words.extend(word);
    words
}

fn said(what: impl Into<String>) -> InvalidCommand {
    InvalidCommand::Said(what.into())
}

fn first(words: &[&str]) -> Option<String> {
    words.first().map(|word| (*word).to_owned())
}

/// The last requested form; other words mean nothing here.
fn form(words: &[&str]) -> StatForm {
    let named = |word: &&str| match *word {
        "json" => Some(StatForm::Json),
        "typed" => Some(StatForm::Typed),
        _ => None,
    };
    words.iter().rev().find_map(named).unwrap_or_default()
}

/// `show stat [{<iid>|<name>} <type> <sid>] [typed|json] [no-maint|up]`.
fn show_stat(words: &[&str]) -> Result<RuntimeCommand, InvalidCommand> {
    const OPTIONS: [&str; 5] = ["json", "typed", "desc", "no-maint", "up"];
    let mut filter = StatFilter::default();
    if let [proxy, types, server, ..] = words
        && !OPTIONS.contains(proxy)
    {
        let number = |word: &str| word.parse::<i64>().ok();
        filter.proxy = match number(proxy) {
            Some(-1) => None,
            Some(id) => Some(ProxyName::Id(id)),
            None => Some(ProxyName::Name((*proxy).to_owned())),
        };
        let (Some(types), Some(server_id)) = (number(types), number(server)) else {
            return Err(said("'show stat' expects a proxy, a type and a server, the last two as numbers."));
        };
        (filter.types, filter.server_id) = (types, server_id);
    } else if let [proxy, ..] = words
        && !OPTIONS.contains(proxy)
        && *proxy != "-1"
    {
        filter.proxy = Some(match proxy.parse::<i64>() {
            Ok(id) => ProxyName::Id(id),
            Err(_) => ProxyName::Name((*proxy).to_owned()),
        });
    }
    filter.without_maintenance = words.contains(&"no-maint");
    filter.only_up = words.contains(&"up");
    Ok(RuntimeCommand::ShowStat(filter, form(words)))
}

fn set_timeout(words: &[&str]) -> Result<RuntimeCommand, InvalidCommand> {
    let seconds = words.first().and_then(|word| word.trim_end_matches('s').parse::<u64>().ok());
    match seconds.filter(|seconds| *seconds > 0) {
        Some(seconds) => {
            Ok(RuntimeCommand::SetTimeout(Duration::from_secs(seconds.min(SILENCE_MAX_SECONDS))))
        }
        None => Err(said("Invalid timeout value.")),
    }
}

fn named(words: &[&str]) -> Result<ServerRef, InvalidCommand> {
    server_name(words.first().ok_or_else(|| said(NEEDS_NAMES))?)
}

/// `upstream/server`. Only the name of a server may have a slash in it: that of one on a Unix socket has.
fn server_name(word: &str) -> Result<ServerRef, InvalidCommand> {
    match word.split_once('/') {
        Some((upstream, server)) if !upstream.is_empty() && !server.is_empty() => {
            Ok(ServerRef { upstream: upstream.to_owned(), server: server.to_owned() })
        }
        _ => Err(said(NEEDS_NAMES)),
    }
}

fn set_server(words: &[&str]) -> Result<RuntimeCommand, InvalidCommand> {
    const USAGE: &str = "usage: set server <backend>/<server> addr | state | weight";
    let [name, what, values @ ..] = words else { return Err(said(USAGE)) };
    let name = server_name(name)?;
    match (*what, values) {
        ("state", ["ready", ..]) => Ok(RuntimeCommand::SetMode(name, Mode::Serving)),
        ("state", ["drain", ..]) => Ok(RuntimeCommand::SetMode(name, Mode::Draining)),
        ("state", ["maint", ..]) => Ok(RuntimeCommand::SetMode(name, Mode::Maintenance)),
        ("state", _) => Err(said("'set server <srv> state' expects 'ready', 'drain' and 'maint'.")),
        ("weight", [weight, ..]) => Ok(RuntimeCommand::SetWeight(name, read_weight(weight)?)),
        ("weight", []) => Err(said("'set server <srv> weight' expects a weight.")),
        ("addr", []) => Err(said("set server <b>/<s> addr requires an address and optionally a port.")),
        ("addr", [addr, rest @ ..]) => {
            let ip =
                addr.parse().map_err(|_| said(format!("Invalid addr '{addr}' by 'stats socket command'")))?;
            let port = match rest {
                [] => None,
                ["port", port, ..] => {
                    Some(port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(|| {
                        said(format!("Invalid port '{port}': it is a number from 1 to 65535."))
                    })?)
                }
                _ => return Err(said("set server <b>/<s> addr requires an address and optionally a port.")),
            };
            Ok(RuntimeCommand::SetAddr(name, ip, port))
        }
        _ => Err(said(USAGE)),
    }
}

fn read_weight(word: &str) -> Result<WeightChange, InvalidCommand> {
    match word.strip_suffix('%') {
        Some(percent) => match percent.parse::<u32>() {
            Ok(percent) if percent <= 100 => Ok(WeightChange::Percent(percent)),
            _ => Err(said("Relative weight can only be between 0 and 100% inclusive.")),
        },
        None => match word.parse::<u16>() {
            Ok(weight) if weight <= WEIGHT_MAX => Ok(WeightChange::Exactly(weight)),
            _ => Err(said("Absolute weight can only be between 0 and 256 inclusive.")),
        },
    }
}

/// `set maxconn server <bk>/<srv> <n>`; 0 means any number, as in HAProxy.
fn set_max_requests(words: &[&str]) -> Result<RuntimeCommand, InvalidCommand> {
    let [name, rest @ ..] = words else { return Err(said(NEEDS_NAMES)) };
    let name = server_name(name)?;
    match rest.first().and_then(|word| word.parse::<u32>().ok()).filter(|count| *count <= REQUESTS_MAX) {
        Some(count) => Ok(RuntimeCommand::SetMaxRequests(name, count)),
        None => Err(said("maxconn expects a number from 0 to 10000000; 0 means any number.")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn name() -> ServerRef {
        ServerRef { upstream: "app".into(), server: "a".into() }
    }

    #[test]
    fn commands_are_read() {
        let unix = ServerRef { upstream: "app".into(), server: "unix:/run/a.sock".into() };
        let by_id =
            StatFilter { proxy: Some(ProxyName::Id(3)), types: 4, server_id: 1, ..StatFilter::default() };
        let session = ConnectionId { worker: 0, number: 17 };
        let by_name = StatFilter { proxy: Some(ProxyName::Name("app".into())), ..StatFilter::default() };
        for (text, command) in [
            ("show info", RuntimeCommand::ShowInfo(StatForm::Text)),
            ("  show   info typed ", RuntimeCommand::ShowInfo(StatForm::Typed)),
            ("show stat", RuntimeCommand::ShowStat(StatFilter::default(), StatForm::Text)),
            ("show stat json", RuntimeCommand::ShowStat(StatFilter::default(), StatForm::Json)),
            ("show stat -1 -1 -1", RuntimeCommand::ShowStat(StatFilter::default(), StatForm::Text)),
            ("show stat 3 4 1 typed", RuntimeCommand::ShowStat(by_id, StatForm::Typed)),
            ("show stat app -1 -1", RuntimeCommand::ShowStat(by_name.clone(), StatForm::Text)),
            ("show stat app", RuntimeCommand::ShowStat(by_name, StatForm::Text)),
            ("show servers state", RuntimeCommand::ShowServersState(None)),
            ("show servers state app", RuntimeCommand::ShowServersState(Some("app".into()))),
            ("show servers conn app", RuntimeCommand::ShowServersConn(Some("app".into()))),
            ("set server app/a state drain", RuntimeCommand::SetMode(name(), Mode::Draining)),
            ("set server app/a state ready", RuntimeCommand::SetMode(name(), Mode::Serving)),
            ("disable server app/unix:/run/a.sock", RuntimeCommand::SetMode(unix, Mode::Maintenance)),
            ("set weight app/a 50%", RuntimeCommand::SetWeight(name(), WeightChange::Percent(50))),
            ("set server app/a weight 256", RuntimeCommand::SetWeight(name(), WeightChange::Exactly(256))),
            ("set server app/a addr ::1", RuntimeCommand::SetAddr(name(), "::1".parse().unwrap(), None)),
            (
                "set server app/a addr 10.0.0.9 port 81",
                RuntimeCommand::SetAddr(name(), "10.0.0.9".parse().unwrap(), Some(81)),
            ),
            ("set maxconn server app/a 0", RuntimeCommand::SetMaxRequests(name(), 0)),
            ("set timeout cli 60", RuntimeCommand::SetTimeout(Duration::from_secs(60))),
            ("get weight app/a", RuntimeCommand::GetWeight(name())),
            ("show sess", RuntimeCommand::ShowSess(ConnectionSelection::Lines)),
            ("show sess all", RuntimeCommand::ShowSess(ConnectionSelection::Whole)),
            ("show sess 0x10000000011", RuntimeCommand::ShowSess(ConnectionSelection::One(Some(session)))),
            ("show sess nonsense", RuntimeCommand::ShowSess(ConnectionSelection::One(None))),
            ("shutdown session 0x10000000011", RuntimeCommand::ShutdownSession(Some(session))),
            ("shutdown session s0-17", RuntimeCommand::ShutdownSession(Some(session))),
            ("shutdown sessions server app/a", RuntimeCommand::ShutdownSessions(name())),
            ("help set server", RuntimeCommand::Help("set server".into())),
        ] {
            assert_eq!(parse(text), Ok(command), "{text}");
        }
    }

    #[test]
    fn invalid_commands_are_answered_in_the_words_of_haproxy() {
        for (text, what) in [
            ("set server app/a state up", "'set server <srv> state' expects 'ready', 'drain' and 'maint'."),
            ("disable server app", NEEDS_NAMES),
            ("enable server", NEEDS_NAMES),
            ("enable server /a", NEEDS_NAMES),
            ("set weight app/a 257", "Absolute weight can only be between 0 and 256 inclusive."),
            ("set weight app/a 101%", "Relative weight can only be between 0 and 100% inclusive."),
            ("set server app/a addr host", "Invalid addr 'host' by 'stats socket command'"),
            ("set server app/a addr", "set server <b>/<s> addr requires an address and optionally a port."),
            ("set server app/a fqdn x", "usage: set server <backend>/<server> addr | state | weight"),
            ("set timeout cli soon", "Invalid timeout value."),
            ("shutdown session", "Session pointer expected (use 'show sess')."),
            ("shutdown sessions server app", NEEDS_NAMES),
        ] {
            assert_eq!(parse(text), Err(InvalidCommand::Said(what.into())), "{text}");
        }
        for text in ["", "show", "set", "bogus words"] {
            assert_eq!(parse(text), Err(InvalidCommand::Unknown(text.into())), "{text}");
        }
    }

    #[test]
    fn a_backslash_keeps_words_and_commands_together() {
        assert_eq!(split("show info;show stat"), ["show info", "show stat"]);
        assert_eq!(split("a\\;b;c"), ["a\\;b", "c"]);
        assert_eq!(words("a\\ b\\;c  d"), ["a b;c", "d"]);
    }

    #[test]
    fn every_command_of_the_help_is_one() {
        for (usage, _) in HELP {
            let example = usage
                .replace("<bk>/<srv>", "app/a")
                .replace("<ready|drain|maint>", "ready")
                .replace("<ip>", "::1")
                .replace("<seconds>", "1")
                .replace("<n>", "1")
                .replace("<table>", "t")
                .replace("data.<type>", "data.gpc0")
                .replace("<op>", "gt")
                .replace("key <key>|", "")
                .replace(['[', ']'], "");
            assert!(!matches!(parse(&example), Err(InvalidCommand::Unknown(_))), "{example}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_command_or_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            for command in split(&String::from_utf8_lossy(&bytes)) {
                let _read = parse(&command);
            }
        }

        #[test]
        fn near_commands_are_too(
            text in "(show|set|get|help|disable|enable|shutdown|clear) (table|stat|server|info|weight|servers|maxconn server|sess|session|sessions server) [a-z/%0-9\\\\; -]{0,40}"
        ) {
            for command in split(&text) {
                let _read = parse(&command);
            }
        }
    }
}
