//! What somebody wants of the running process that only its owner can do: a reload, or a server changed. Asked for on the control thread, done
//! by the thread that owns the [`Proxy`](crate::Proxy), one after the other.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio::sync::oneshot;
use weir_config::{Config, Server, ServerAddress};

/// The config as its file has it, for those who show it.
pub(crate) type Written = Arc<ArcSwap<Config>>;

/// Something that is wanted, and where the outcome goes.
#[derive(Debug)]
pub struct Wish {
    /// What.
    pub what: Wanted,
    /// Who asked, for the log.
    pub who: String,
}

/// What is wanted.
#[derive(Debug)]
pub enum Wanted {
    /// The config read anew, and taken over.
    Reload(oneshot::Sender<Result<Reloaded, Unfulfilled>>),
    /// A server changed: as it was, and as it is.
    Change(ServerChange, oneshot::Sender<Result<(Server, Server), Unfulfilled>>),
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
    /// A change of nothing.
    pub fn of(upstream: &str, server: &str) -> Self {
        Self { upstream: upstream.to_owned(), server: server.to_owned(), ..Self::default() }
    }

    /// Changes the server in `config`; `written` is the config as its file has it. Gives the server as it was and as it is.
    ///
    /// # Errors
    /// When there is no such server, or it cannot be so.
    pub(crate) fn apply(
        &self,
        config: &mut Config,
        written: &Config,
    ) -> Result<(Server, Server), Unfulfilled> {
        let initial = find(&written.upstreams, self).map(|server| server.weight);
        let upstream = config.upstreams.iter_mut().find(|upstream| *upstream.name == *self.upstream);
        let upstream = upstream.ok_or_else(|| Unfulfilled::NoUpstream(self.upstream.clone()))?;
        let server = Arc::make_mut(upstream).servers.iter_mut().find(|server| *server.name == *self.server);
        let unknown = || Unfulfilled::NoServer(self.upstream.clone(), self.server.clone());
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
            let no_port = || Unfulfilled::Refused("the server has no port so far: give one".to_owned());
            server.address = moved.ok_or_else(no_port)?;
        }
        if let Some(max_requests) = self.max_requests {
            server.max_requests = max_requests;
        }
        Ok((before, server.clone()))
    }

    /// Whether it changes nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::of(&self.upstream, &self.server)
    }
}

/// Why something was not done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfulfilled {
    /// There is no such upstream.
    #[error("there is no upstream `{0}`")]
    NoUpstream(String),
    /// The upstream has no such server.
    #[error("the upstream `{0}` has no server `{1}`")]
    NoServer(String, String),
    /// The value cannot be had.
    #[error("{0}")]
    Refused(String),
    /// The config has mistakes, or the system refuses something that it asks for: a line for each.
    #[error("the config was not reloaded: that of before stays in use\n{}", .0.join("\n"))]
    Mistakes(Vec<String>),
    /// The process is about to end, or was not started by `weir serve`.
    #[error("nobody takes orders: Weir is stopping")]
    Nobody,
}

/// How a reload went that did not fail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reloaded {
    /// Which config is in use now: 1 is that of the start.
    pub generation: u64,
    /// Keys whose new values do not hold before Weir is started anew.
    pub needs_restart: Vec<&'static str>,
}

impl fmt::Display for Reloaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the config was reloaded, generation {}", self.generation)?;
        for key in &self.needs_restart {
            write!(f, "\na change of `{key}` holds only after a restart")?;
        }
        Ok(())
    }
}

/// The way to the thread that owns the proxy.
#[derive(Clone)]
pub struct Wishes(Arc<dyn Fn(Wish) -> bool + Send + Sync>);

impl fmt::Debug for Wishes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wishes(..)")
    }
}

impl Wishes {
    /// Hands wishes to `send`, which says whether anybody is there to fulfil them. It must not block.
    pub fn new(send: impl Fn(Wish) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(send))
    }

    /// Wishes that nobody fulfils.
    pub fn nobody() -> Self {
        Self::new(|_| false)
    }

    pub(crate) async fn reload(&self, who: &str) -> Result<Reloaded, Unfulfilled> {
        let (outcome, told) = oneshot::channel();
        self.send(Wanted::Reload(outcome), who)?;
        told.await.map_err(|_| Unfulfilled::Nobody)?
    }

    pub(crate) async fn change(
        &self,
        change: ServerChange,
        who: &str,
    ) -> Result<(Server, Server), Unfulfilled> {
        let (outcome, told) = oneshot::channel();
        self.send(Wanted::Change(change, outcome), who)?;
        told.await.map_err(|_| Unfulfilled::Nobody)?
    }

    fn send(&self, what: Wanted, who: &str) -> Result<(), Unfulfilled> {
        let is_taken = (self.0)(Wish { what, who: who.to_owned() });
        if is_taken { Ok(()) } else { Err(Unfulfilled::Nobody) }
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
