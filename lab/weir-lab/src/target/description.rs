//! The settings of a target, in no product's words, and the rendered configuration in a product's words.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use super::TargetCertificate;
use crate::topology::listener::{ListenerSetup, TargetProtocol};
use crate::topology::target::{TargetVariant, TuningClass};
use crate::topology::upstream::{BalancePolicy, OriginProtocol, UpstreamSetup};

/// The traffic through a target, where its documentation has advice for it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Answers have large bodies.
    pub is_bulk: bool,
    /// Requests have them, and not answers.
    pub is_upload: bool,
    /// Clients open WebSocket tunnels.
    pub upgrades: bool,
    /// Some clients speak HTTP/1.0, as `ab` does.
    pub is_http_1_0: bool,
    /// Clients speak HTTP/2, without TLS by prior knowledge.
    pub is_http2: bool,
    /// Clients speak HTTP/3.
    pub is_http3: bool,
    /// The target is given other configurations while it runs.
    pub is_reloaded: bool,
}

/// How many connections a target must have room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionRoom {
    /// Of clients, at once.
    pub clients: u64,
    /// Of servers, where each client has one of its own; otherwise 0, and some hundred are enough.
    pub servers: u64,
}

/// See the module.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// Where it takes requests.
    pub listen: SocketAddr,
    /// Its protocol there.
    pub listener: &'a ListenerSetup,
    /// The servers it sends them to.
    pub servers: &'a [SocketAddr],
    /// Its settings for these.
    pub upstream: &'a UpstreamSetup,
    /// How it is configured.
    pub class: TuningClass,
    /// How that differs.
    pub variant: TargetVariant,
    /// The traffic.
    pub traffic: Traffic,
    /// Connections it must have room for.
    pub room: ConnectionRoom,
    /// Its certificate for clients with TLS; without it, they use none.
    pub certificate: Option<&'a TargetCertificate>,
    /// The file of nginx's stream module, where that is not part of the program.
    pub stream_module: Option<&'a Path>,
    /// The folder of Apache's modules, where they are not part of the program.
    pub module_folder: Option<&'a Path>,
    /// The program can speak HTTP/3 with clients.
    pub has_http3: bool,
    /// The lab is run by root, and so are the programs that it starts.
    pub is_root: bool,
    /// A folder for its files.
    pub dir: &'a Path,
    /// The parts that reloads change besides.
    pub extra: &'a ReloadableParts,
}

/// Further parts of a configuration, in scenarios that measure changes of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReloadableParts {
    /// The share of each server, in their order; empty: the same for all.
    pub weights: Vec<u32>,
    /// Paths with servers of their own.
    pub branches: Vec<PathBranch>,
    /// Where it is to say how it is; only Weir has such a place. It takes over the ids of requests then.
    pub admin: Option<SocketAddr>,
}

/// A path whose requests go to servers of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathBranch {
    /// The beginning of such paths.
    pub path: &'static str,
    /// A word for it.
    pub name: &'static str,
    /// Where they go.
    pub servers: Vec<SocketAddr>,
}

impl Description<'_> {
    /// The time limit of a handshake, if any.
    pub(super) fn handshake_timeout(&self) -> Option<Duration> {
        self.listener.tls?.handshake_timeout
    }

    /// How a server is chosen; `None` leaves it to the product.
    pub(super) fn balance(&self) -> Option<BalancePolicy> {
        match self.variant {
            TargetVariant::RoundRobin => Some(BalancePolicy::RoundRobin),
            _ => self.upstream.balance,
        }
    }

    /// Whether a cookie keeps each client on one server.
    pub(super) fn has_persistence_cookie(&self) -> bool {
        self.variant.has_persistence_cookie(self.upstream)
    }

    /// How many requests each server may have at once.
    pub(super) fn max_requests(&self) -> Option<u32> {
        self.upstream.max_requests.filter(|_| self.variant != TargetVariant::RoundRobin)
    }

    /// The servers, each with its share where they have such.
    pub(super) fn weighted(&self) -> impl Iterator<Item = (&SocketAddr, Option<u32>)> {
        self.servers.iter().enumerate().map(|(index, addr)| (addr, self.extra.weights.get(index).copied()))
    }

    /// Whether it is to pass bytes without parsing them.
    pub(super) fn is_tcp(&self) -> bool {
        self.listener.protocol == TargetProtocol::Tcp
    }

    /// Whether it speaks HTTP/2 with the servers, for gRPC or not.
    pub(super) fn is_http2_to_servers(&self) -> bool {
        self.upstream.protocol != OriginProtocol::Http1
    }

    /// Whether clients speak HTTP/2 with it by prior knowledge.
    pub(super) fn is_h2c(&self) -> bool {
        self.traffic.is_http2 && self.certificate.is_none()
    }

    /// Whether it is tuned by its documentation.
    pub(super) fn is_tuned(&self) -> bool {
        self.class == TuningClass::Tuned
    }

    /// Whether connections to servers are kept for the next request.
    pub(super) fn reuses(&self) -> bool {
        self.variant != TargetVariant::NoReuse
    }
}

/// The path of probes.
pub const HEALTH_PATH: &str = "/health";

/// A description in a product's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Name of the configuration file, in the description's folder.
    pub file: &'static str,
    /// Its text.
    pub text: String,
    /// Name and text of a second file that the first one needs.
    pub second: Option<(&'static str, String)>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Its environment, besides that of the lab.
    pub env: Vec<(&'static str, String)>,
}

/// The reason for the same, in a configuration.
pub(super) const GO_ON_ONE_CPU: &str = "# GOMAXPROCS=1 in its environment: one thread at a time for the one CPU of the target, as the others have.
# The runtime of Go would find that out from the CPUs it may use; said so that it can be seen.
";

/// The environment variable of tuned programs written in Go.
pub(super) fn go_on_one_cpu() -> (&'static str, String) {
    ("GOMAXPROCS", "1".to_owned())
}
