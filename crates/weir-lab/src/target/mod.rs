//! The targets: what stands between client and origin, each configured from one neutral description.
//!
//! One file per product turns the description into that product's configuration and command line; every tuned line carries
//! its reason. Two classes: tuned by the product's own documentation, and as shipped.

pub mod installed;
mod weir;
mod nginx;
mod haproxy;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

pub use installed::Installed;

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
            Self::Nginx => "apt-get install nginx, or give --nginx PATH",
            Self::Haproxy => "apt-get install haproxy, or give --haproxy PATH",
        }
    }

    /// Whether Weir is measured against it.
    pub fn is_peer(self) -> bool {
        matches!(self, Self::Nginx | Self::Haproxy)
    }
}

/// A product in one variant; written `nginx` or `nginx/no-reuse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Target {
    /// The product.
    pub product: Product,
    /// Whether it reuses its connections to servers.
    pub server_reuse: bool,
}

impl Target {
    /// The usual variant of a product.
    pub const fn of(product: Product) -> Self {
        Self { product, server_reuse: true }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.product.name())?;
        f.write_str(if self.server_reuse { "" } else { "/no-reuse" })
    }
}

impl FromStr for Target {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let (name, variant) = text.split_once('/').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let product = PRODUCTS
            .into_iter()
            .find(|product| product.name() == name)
            .with_context(|| format!("no target `{name}`; there are direct, weir, nginx, haproxy"))?;
        match variant {
            None => Ok(Self::of(product)),
            Some("no-reuse") if product != Product::Direct => Ok(Self { product, server_reuse: false }),
            Some(variant) => bail!("no variant `{variant}` of {name}; there is `no-reuse`"),
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

/// What a target is to do, in no product's words.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// Where it takes requests.
    pub listen: SocketAddr,
    /// Where it sends them.
    pub origin: SocketAddr,
    /// How it is configured.
    pub class: Class,
    /// Whether it reuses its connections to servers.
    pub server_reuse: bool,
    /// Clients it must have room for at once.
    pub clients: u64,
    /// A folder for its files.
    pub dir: &'a Path,
}

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
