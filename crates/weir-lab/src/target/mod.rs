//! The targets: what stands between client and origin, each configured from one neutral description.
//!
//! One file per product turns the description into that product's configuration and command line; every tuned line carries
//! its reason. Two classes: tuned by the product's own documentation, and as shipped.

pub mod installed;
pub mod certificate;
mod weir;
mod nginx;
mod haproxy;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

pub use certificate::Certificate;
pub use installed::Installed;

use crate::scenario::listener::Listener;
use crate::scenario::upstream::{Balance, Upstream};

/// A product, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Product {
    /// Nothing in between: the baseline.
    Direct,
    /// Weir.
    Weir,
    /// nginx.
    Nginx,
    /// HAProxy.
    Haproxy,
}

/// All products, in the order of tables.
pub const PRODUCTS: [Product; 4] = [Product::Direct, Product::Weir, Product::Nginx, Product::Haproxy];

impl Product {
    /// Its name in scenarios and on the command line: that of its executable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Weir => "weir",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
        }
    }

    /// How to get it.
    pub fn how_to_get(self) -> &'static str {
        match self {
            Self::Direct => "always there",
            Self::Weir => "cargo build --release -p weir, or give --weir PATH",
            Self::Nginx => "apt-get install nginx libnginx-mod-stream, or give --nginx PATH",
            Self::Haproxy => "apt-get install haproxy, or give --haproxy PATH",
        }
    }

    /// Whether Weir is measured against it.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy)
    }
}

/// How a product differs from its usual configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// It does not.
    Usual,
    /// It does not reuse its connections to servers.
    NoReuse,
    /// Each server in turn, however much it has to do: round robin without limit of requests.
    RoundRobin,
    /// No client belongs to a server by a cookie.
    NoPersistence,
    /// Each probe opens a connection of its own. Weir alone can also do without.
    NewProbes,
    /// Bodies pass through the program and not through the kernel alone. HAProxy alone can also do without.
    Copying,
}

/// All variants.
const VARIANTS: [Variant; 6] = [
    Variant::Usual,
    Variant::NoReuse,
    Variant::RoundRobin,
    Variant::NoPersistence,
    Variant::NewProbes,
    Variant::Copying,
];

impl Variant {
    /// What stands behind the product's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::NoReuse => "/no-reuse",
            Self::RoundRobin => "/round-robin",
            Self::NoPersistence => "/no-persistence",
            Self::NewProbes => "/new-probes",
            Self::Copying => "/copying",
        }
    }

    /// Whether `product` can be configured like that.
    fn suits(self, product: Product) -> bool {
        match self {
            Self::Usual => true,
            Self::NewProbes => product == Product::Weir,
            Self::Copying => product == Product::Haproxy,
            Self::NoReuse | Self::RoundRobin | Self::NoPersistence => product != Product::Direct,
        }
    }

    /// Whether clients are bound to servers by a cookie.
    pub fn has_persistence_cookie(self, upstream: &Upstream) -> bool {
        upstream.persistence_cookie && self != Self::NoPersistence
    }
}

/// A product in one variant; written `nginx` or `nginx/no-reuse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// The product.
    pub product: Product,
    /// The variant.
    pub variant: Variant,
}

impl Target {
    /// The usual variant of a product.
    pub const fn of(product: Product) -> Self {
        Self { product, variant: Variant::Usual }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.product.name())?;
        f.write_str(self.variant.suffix())
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let name = text.split('/').next().unwrap_or_default();
        let product = PRODUCTS
            .into_iter()
            .find(|product| product.name() == name)
            .with_context(|| format!("no target `{name}`; there are direct, weir, nginx, haproxy"))?;
        let suffix = &text[name.len()..];
        match VARIANTS.into_iter().find(|variant| variant.suffix() == suffix) {
            Some(variant) if variant.suits(product) => Ok(Self { product, variant }),
            _ => bail!(
                "no variant `{suffix}` of {name}; there are `/no-reuse`, `/round-robin`, `/no-persistence`, of weir \
                 `/new-probes` and of haproxy `/copying`"
            ),
        }
    }
}

impl TryFrom<String> for Target {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

impl From<Target> for String {
    fn from(target: Target) -> Self {
        target.to_string()
    }
}

/// How a target is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// For the load, on one CPU, by its own documentation.
    Tuned,
    /// As its package configures it, with nothing added but where to listen and where the server is.
    AsShipped,
}

/// What passes through a target, as far as its documentation has advice for that.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Answers have large bodies.
    pub is_bulk: bool,
    /// Clients open WebSocket tunnels.
    pub upgrades: bool,
}

/// How many connections a target must have room for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Of clients, at once.
    pub clients: u64,
    /// Of servers, where each client has one of its own; otherwise 0, and some hundred are enough.
    pub servers: u64,
}

/// What a target is to do, in no product's words.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// Where it takes requests.
    pub listen: SocketAddr,
    /// What it speaks there.
    pub listener: &'a Listener,
    /// The servers it sends them to.
    pub servers: &'a [SocketAddr],
    /// What it is to do with these.
    pub upstream: &'a Upstream,
    /// How it is configured.
    pub class: Class,
    /// How that differs.
    pub variant: Variant,
    /// What passes.
    pub traffic: Traffic,
    /// Connections it must have room for.
    pub room: Room,
    /// What it shows clients that speak TLS; without it, they do not.
    pub certificate: Option<&'a Certificate>,
    /// The file of nginx's stream module, where that is not part of the program.
    pub stream_module: Option<&'a Path>,
    /// A folder for its files.
    pub dir: &'a Path,
}

impl Description<'_> {
    /// What a handshake may take, if it is to be limited.
    fn handshake_timeout(&self) -> Option<Duration> {
        self.listener.tls?.handshake_timeout
    }

    /// How a server is chosen; `None` leaves it to the product.
    fn balance(&self) -> Option<Balance> {
        match self.variant {
            Variant::RoundRobin => Some(Balance::RoundRobin),
            _ => self.upstream.balance,
        }
    }

    /// Whether a cookie keeps each client on one server.
    fn has_persistence_cookie(&self) -> bool {
        self.variant.has_persistence_cookie(self.upstream)
    }

    /// How many requests each server may have at once.
    fn max_requests(&self) -> Option<u32> {
        self.upstream.max_requests.filter(|_| self.variant != Variant::RoundRobin)
    }
}

/// What probes ask servers for.
pub const HEALTH_PATH: &str = "/health";

/// A description in a product's words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// Name of the configuration file, in the description's folder.
    pub file: &'static str,
    /// Its text.
    pub text: String,
    /// Arguments of the program.
    pub args: Vec<String>,
}

/// Puts a description into a product's words; `None` for direct.
pub fn render(product: Product, description: &Description<'_>) -> Option<Rendered> {
    match product {
        Product::Direct => None,
        Product::Weir => Some(weir::render(description)),
        Product::Nginx => Some(nginx::render(description)),
        Product::Haproxy => Some(haproxy::render(description)),
    }
}
