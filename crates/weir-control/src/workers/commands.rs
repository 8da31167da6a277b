//! Admin commands that only the owner of the running proxy can carry out: a reload, an upgrade, or a change of a server.
//!
//! Sent from the control thread, and carried out one after the other by the thread that owns the [`Proxy`](crate::Proxy).

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use weir_config::{Config, Server, ServerAddress, UpstreamIndex};
use weir_discovery::{FragmentSet, ServerSet};

/// The config as its file has it.
pub(crate) type FileConfig = Arc<ArcSwap<Config>>;

/// A command and its origin.
#[derive(Debug)]
pub struct AdminCommand {
    /// The command, with the channel for its outcome.
    pub kind: CommandKind,
    /// The client that sent it, for the log.
    pub requester: String,
}

/// The requested command; each comes with the channel for its outcome.
#[derive(Debug)]
pub enum CommandKind {
    /// Read the config again and apply it.
    Reload(oneshot::Sender<Result<ReloadReport, CommandRejected>>),
    /// Start the program anew and leave everything to that process.
    Upgrade(oneshot::Sender<Result<UpgradeReport, CommandRejected>>),
    /// Change a server; the outcome is the server before and after.
    Change(ServerChange, oneshot::Sender<Result<(Server, Server), CommandRejected>>),
    /// Use what sources of servers say; under way until it is carried out.
    Servers(Vec<ServerSet>, CommandUnderWay),
    /// Use the names that requests have asked for of servers of this upstream; under way until it is carried out.
    Names(Box<str>, CommandUnderWay),
    /// Use what stores of routes say; under way until it is carried out.
    Fragments(Vec<FragmentSet>, CommandUnderWay),
    /// End the process, for this reason: a part of it does not work any more.
    GiveUp(String),
}

/// A server with other values, until the next reload says something else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerChange {
    /// The upstream.
    pub upstream: String,
    /// The server.
    pub server: String,
    /// Its weight, 0 to 256.
    pub weight: Option<u16>,
    /// Its weight as a share of the one in the config.
    pub weight_percent: Option<u32>,
    /// Where it is.
    pub address: Option<ServerAddress>,
    /// Where it is, with the port that it has if none is given.
    pub ip: Option<(IpAddr, Option<u16>)>,
    /// How many requests it works on at once; `Some(None)`: any number.
    pub max_requests: Option<Option<u32>>,
}

impl ServerChange {
    /// A change that leaves everything as it is.
    pub fn new(upstream: &str, server: &str) -> Self {
        Self { upstream: upstream.to_owned(), server: server.to_owned(), ..Self::default() }
    }

    /// Changes the server in `config`; `file_config` is the config as its file has it. Returns the server before and after.
    ///
    /// # Errors
    /// When there is no such server, or it cannot be so.
    pub(crate) fn apply(
        &self,
        config: &mut Config,
        file_config: &Config,
    ) -> Result<(Server, Server), CommandRejected> {
        let initial = find(&file_config.upstreams, self).map(|server| server.weight);
        let place = config.upstreams.iter().position(|upstream| *upstream.name == *self.upstream);
        let place = place.ok_or_else(|| CommandRejected::NoUpstream(self.upstream.clone()))?;
        let upstream = &config.upstreams[place];
        if upstream.dynamic.is_some() {
            let why = "its servers are those that requests name: only their modes can be set";
            return Err(CommandRejected::Refused(why.to_owned()));
        }
        let mut servers = upstream.servers.clone();
        let server = servers.iter_mut().find(|server| *server.name == *self.server);
        let unknown = || CommandRejected::NoServer(self.upstream.clone(), self.server.clone());
        let server = server.ok_or_else(unknown)?;
        let before = server.clone();
        if let Some(weight) = self.weight {
            server.weight = weight;
        }
        if let Some(percent) = self.weight_percent {
            let initial = u32::from(initial.unwrap_or(before.weight));
            // More than nothing stays more than nothing.
            let share = (initial * percent / 100).max(u32::from(percent > 0 && initial > 0));
            server.weight = u16::try_from(share).unwrap_or(u16::MAX);
        }
        if let Some(address) = &self.address {
            server.address = address.clone();
        }
        if let Some((ip, port)) = self.ip {
            let moved = address_at(&before.address, ip, port);
            let no_port = || CommandRejected::Refused("the server has no port so far: give one".to_owned());
            server.address = moved.ok_or_else(no_port)?;
        }
        if let Some(max_requests) = self.max_requests {
            server.max_requests = max_requests;
        }
        let after = server.clone();
        let names = upstream.tls.as_ref().map(|tls| tls.names.clone()).unwrap_or_default();
        let changed = Arc::new(upstream.with_named_servers(servers, names));
        config.replace_upstream(UpstreamIndex(place), changed);
        Ok((before, after))
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::new(&self.upstream, &self.server)
    }
}

/// Why a command was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CommandRejected {
    /// There is no such upstream.
    #[error("there is no upstream `{0}`")]
    NoUpstream(String),
    /// The upstream has no such server.
    #[error("the upstream `{0}` has no server `{1}`")]
    NoServer(String, String),
    /// The value is not possible.
    #[error("{0}")]
    Refused(String),
    /// The config has mistakes, or the system refuses something that it asks for: a line for each.
    #[error("the config was not reloaded: that of before stays in use\n{}", .0.join("\n"))]
    Diagnostics(Vec<String>),
    /// The program that was started anew does not serve.
    #[error("this process continues, since the new one did not start: {0}")]
    NotUpgraded(String),
    /// The process is about to end, or was not started by `weir serve`.
    #[error("Weir is stopping and takes no commands")]
    NotServing,
}

/// How a reload went that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadReport {
    /// Which config is in use now: 1 is that of the start.
    pub generation: u64,
    /// Keys whose new values take effect only after a restart.
    pub needs_restart: Vec<&'static str>,
}

impl fmt::Display for ReloadReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the config was reloaded, generation {}", self.generation)?;
        for key in &self.needs_restart {
            write!(f, "\na change of `{key}` holds only after a restart")?;
        }
        Ok(())
    }
}

/// The process that has taken over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpgradeReport {
    /// The number of the process.
    pub process: u32,
    /// The version of its program.
    pub version: String,
}

/// Sends commands to the thread that owns the proxy.
#[derive(Clone)]
pub struct CommandSender(Arc<dyn Fn(AdminCommand) -> bool + Send + Sync>);

impl fmt::Debug for CommandSender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CommandSender(..)")
    }
}

impl CommandSender {
    /// Passes commands to `send`, which returns whether there is a receiver. It must not block.
    pub fn new(send: impl Fn(AdminCommand) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Without a receiver: every command is rejected.
    pub fn disconnected() -> Self {
        Self::new(|_| false)
    }

    pub(crate) async fn reload(&self, requester: &str) -> Result<ReloadReport, CommandRejected> {
        let (outcome, done) = oneshot::channel();
        self.send(CommandKind::Reload(outcome), requester)?;
        done.await.map_err(|_| CommandRejected::NotServing)?
    }

    pub(crate) async fn upgrade(&self, requester: &str) -> Result<UpgradeReport, CommandRejected> {
        let (outcome, done) = oneshot::channel();
        self.send(CommandKind::Upgrade(outcome), requester)?;
        done.await.map_err(|_| CommandRejected::NotServing)?
    }

    pub(crate) async fn change(
        &self,
        change: ServerChange,
        requester: &str,
    ) -> Result<(Server, Server), CommandRejected> {
        let (outcome, done) = oneshot::channel();
        self.send(CommandKind::Change(change, outcome), requester)?;
        done.await.map_err(|_| CommandRejected::NotServing)?
    }

    /// What sources of servers have said; whether there is a receiver.
    pub(crate) fn set_servers(&self, sets: Vec<ServerSet>, under_way: CommandUnderWay) -> bool {
        self.send(CommandKind::Servers(sets, under_way), "discovery").is_ok()
    }

    /// Names that requests have asked for are resolved; whether there is a receiver.
    pub(crate) fn use_names(&self, upstream: Box<str>, under_way: CommandUnderWay) -> bool {
        self.send(CommandKind::Names(upstream, under_way), "requests").is_ok()
    }

    /// What stores of routes have said; whether there is a receiver.
    pub(crate) fn set_fragments(&self, sets: Vec<FragmentSet>, under_way: CommandUnderWay) -> bool {
        self.send(CommandKind::Fragments(sets, under_way), "discovery").is_ok()
    }

    /// A part of the process does not work any more; `part` says so.
    pub(crate) fn give_up(&self, part: &str, why: String) {
        let _not_serving = self.send(CommandKind::GiveUp(why), part);
    }

    fn send(&self, kind: CommandKind, requester: &str) -> Result<(), CommandRejected> {
        let is_taken = (self.0)(AdminCommand { kind, requester: requester.to_owned() });
        if is_taken { Ok(()) } else { Err(CommandRejected::NotServing) }
    }
}

/// Counts the commands of one sender that are not carried out yet.
#[derive(Debug, Default)]
pub(crate) struct CommandsUnderWay(Arc<AtomicUsize>);

impl CommandsUnderWay {
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// Counts a command until what is returned is dropped.
    pub(crate) fn one_more(&self) -> CommandUnderWay {
        self.0.fetch_add(1, Ordering::AcqRel);
        CommandUnderWay(Arc::clone(&self.0))
    }
}

/// A command that is not carried out yet: it counts until this is dropped.
#[derive(Debug)]
pub struct CommandUnderWay(Arc<AtomicUsize>);

impl Drop for CommandUnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The server that a change is about.
fn find<'a>(upstreams: &'a [Arc<weir_config::Upstream>], change: &ServerChange) -> Option<&'a Server> {
    let upstream = upstreams.iter().find(|upstream| *upstream.name == *change.upstream)?;
    upstream.servers.iter().find(|server| *server.name == *change.server)
}

/// The address of a server that moves to `ip`; without a port it keeps its own.
fn address_at(before: &ServerAddress, ip: IpAddr, port: Option<u16>) -> Option<ServerAddress> {
    let port = port.or_else(|| before.port())?;
    Some(ServerAddress::Ip(SocketAddr::new(ip, port)))
}
