//! A target: a product in one variant, and how it is configured.

use std::fmt;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};

use super::product::{PRODUCTS, Product};
use super::upstream::UpstreamSetup;

/// How a product differs from its usual configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetVariant {
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
    /// As shipped, in a scenario whose targets are tuned.
    AsShipped,
    /// Tuned, in a scenario whose targets are as shipped.
    Tuned,
    /// Slower by a known share of its CPU time.
    Slower,
    /// Busy with work of its own for most of the time.
    Busy,
    /// Without observability: no admin listener, no flight recorder. Weir alone.
    Blind,
    /// Asked for its page, its metrics and its overview every second. Weir alone.
    Watched,
}

/// All variants.
const VARIANTS: [TargetVariant; 12] = [
    TargetVariant::Usual,
    TargetVariant::NoReuse,
    TargetVariant::RoundRobin,
    TargetVariant::NoPersistence,
    TargetVariant::NewProbes,
    TargetVariant::Copying,
    TargetVariant::AsShipped,
    TargetVariant::Tuned,
    TargetVariant::Slower,
    TargetVariant::Busy,
    TargetVariant::Blind,
    TargetVariant::Watched,
];

impl TargetVariant {
    /// The part behind the product's name.
    fn suffix(self) -> &'static str {
        match self {
            Self::Usual => "",
            Self::NoReuse => "/no-reuse",
            Self::RoundRobin => "/round-robin",
            Self::NoPersistence => "/no-persistence",
            Self::NewProbes => "/new-probes",
            Self::Copying => "/copying",
            Self::AsShipped => "/as-shipped",
            Self::Tuned => "/tuned",
            Self::Slower => "/slower",
            Self::Busy => "/busy",
            Self::Blind => "/blind",
            Self::Watched => "/watched",
        }
    }

    /// Whether `product` can be configured like that.
    fn suits(self, product: Product) -> bool {
        match self {
            Self::Usual => true,
            Self::NewProbes | Self::Blind | Self::Watched => product == Product::Weir,
            Self::Copying => product == Product::Haproxy,
            Self::Slower | Self::Busy => product == Product::Relay,
            Self::NoReuse | Self::RoundRobin | Self::NoPersistence | Self::AsShipped | Self::Tuned => {
                product.is_program()
            }
        }
    }

    /// Whether clients are bound to servers by a cookie.
    pub fn has_persistence_cookie(self, upstream: &UpstreamSetup) -> bool {
        upstream.persistence_cookie && self != Self::NoPersistence
    }
}

/// A product in one variant; written `nginx` or `nginx/no-reuse`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LabTarget {
    /// The product.
    pub product: Product,
    /// The variant.
    pub variant: TargetVariant,
}

impl LabTarget {
    /// The usual variant of a product.
    pub const fn of(product: Product) -> Self {
        Self { product, variant: TargetVariant::Usual }
    }

    /// How it is configured where the others are `usual`.
    pub fn class(self, usual: TuningClass) -> TuningClass {
        match self.variant {
            TargetVariant::AsShipped => TuningClass::AsShipped,
            TargetVariant::Tuned => TuningClass::Tuned,
            _ => usual,
        }
    }
}

impl fmt::Display for LabTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.product.name())?;
        f.write_str(self.variant.suffix())
    }
}

impl FromStr for LabTarget {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let name = text.split('/').next().unwrap_or_default();
        let product = PRODUCTS.into_iter().find(|product| product.name() == name).with_context(|| {
            let names: Vec<&str> = PRODUCTS.iter().map(|product| product.name()).collect();
            format!("no target `{name}`; there are {}", names.join(", "))
        })?;
        let suffix = &text[name.len()..];
        match VARIANTS.into_iter().find(|variant| variant.suffix() == suffix) {
            Some(variant) if variant.suits(product) => Ok(Self { product, variant }),
            _ => bail!(
                "no variant `{suffix}` of {name}; there are `/no-reuse`, `/round-robin`, `/no-persistence`, `/as-shipped`, \
                 `/tuned`, of weir `/new-probes`, `/blind` and `/watched`, of haproxy `/copying` and of relay `/slower` and `/busy`"
            ),
        }
    }
}

impl TryFrom<String> for LabTarget {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        text.parse()
    }
}

impl From<LabTarget> for String {
    fn from(target: LabTarget) -> Self {
        target.to_string()
    }
}

/// How a target is configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TuningClass {
    /// For the load, on one CPU, by its own documentation; every line beyond the description has its reason.
    Tuned,
    /// As its package configures it, with nothing added except the demands of the description, in the plainest words.
    AsShipped,
}

impl TuningClass {
    /// The words in a sentence.
    pub fn label(self) -> &'static str {
        match self {
            Self::Tuned => "tuned by its own documentation",
            Self::AsShipped => "as shipped",
        }
    }
}
