//! A bar: the value a figure of Weir must reach, absolute or relative to another target.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use crate::measure::metric::Metric;
use crate::topology::product::Product;
use crate::topology::target::LabTarget;

/// The reference of a figure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum BarBase {
    /// Nothing: the bar is in the figure's own unit.
    #[default]
    Itself,
    /// The better one of nginx and HAProxy: the bar is a ratio.
    BestPeer,
    /// One of them, Envoy, or another variant of the same product: the bar is a ratio.
    Target(LabTarget),
}

impl TryFrom<String> for BarBase {
    type Error = anyhow::Error;

    fn try_from(text: String) -> anyhow::Result<Self> {
        Ok(match text.as_str() {
            "itself" => Self::Itself,
            "best-peer" => Self::BestPeer,
            name => {
                let target: LabTarget = name.parse()?;
                let is_other = target.product.is_peer() || target.product == Product::Envoy;
                ensure!(
                    target.product == Product::Weir || (is_other && target == LabTarget::of(target.product)),
                    "`{name}` is not a peer; there are nginx, haproxy and envoy, `best-peer`, and the variants of weir"
                );
                Self::Target(target)
            }
        })
    }
}

impl From<BarBase> for String {
    fn from(of: BarBase) -> Self {
        match of {
            BarBase::Itself => "itself".to_owned(),
            BarBase::BestPeer => "best-peer".to_owned(),
            BarBase::Target(target) => target.to_string(),
        }
    }
}

/// One bar.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bar {
    /// The figure.
    pub metric: Metric,
    /// The target it is for; without it, Weir as it is usually configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LabTarget>,
    /// The one case it is for, by its name in the table; without it, all of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case: Option<String>,
    /// The reference.
    #[serde(default)]
    pub of: BarBase,
    /// Largest allowed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_most: Option<f64>,
    /// Smallest allowed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_least: Option<f64>,
}

impl Bar {
    /// Whose figure it is about.
    pub fn subject(&self) -> LabTarget {
        self.target.unwrap_or(LabTarget::of(Product::Weir))
    }

    /// Whether `value` meets it.
    pub fn is_met_by(&self, value: f64) -> bool {
        self.at_most.is_none_or(|bound| value <= bound) && self.at_least.is_none_or(|bound| value >= bound)
    }

    /// The bound.
    pub fn bound(&self) -> f64 {
        self.at_most.or(self.at_least).unwrap_or(f64::NAN)
    }

    /// Whether `low` and `high` lie on different sides of it.
    pub fn is_between(&self, low: f64, high: f64) -> bool {
        self.is_met_by(low) != self.is_met_by(high)
    }

    pub(super) fn check(&self) -> anyhow::Result<()> {
        ensure!(
            self.at_most.is_some() != self.at_least.is_some(),
            "a bar has either `at-most` or `at-least`"
        );
        ensure!(self.bound().is_finite(), "a bar is a number");
        Ok(())
    }
}
