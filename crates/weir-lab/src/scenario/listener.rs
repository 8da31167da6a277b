//! What a target is to speak with its clients, in no product's words.

use anyhow::ensure;
use serde::{Deserialize, Serialize};

use super::Scenario;
use super::upstream::Upstream;
use crate::target::{Class, Variant};

/// What passes between client and server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1: each request is looked at.
    #[default]
    Http,
    /// Bytes, whatever they are: each client connection gets one to a server.
    Tcp,
}

/// See the module.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Listener {
    /// What passes.
    #[serde(default)]
    pub protocol: Protocol,
}

impl Listener {
    pub(super) fn check(&self, scenario: &Scenario) -> anyhow::Result<()> {
        if self.protocol == Protocol::Tcp {
            let is_plain = scenario.upstream == Upstream::default() && scenario.class == Class::Tuned;
            let is_usual = scenario.targets.iter().all(|target| target.variant == Variant::Usual);
            ensure!(
                is_plain && is_usual && scenario.steady.is_some(),
                "`protocol = \"tcp\"` is for a steady load on tuned targets without variants, and one server"
            );
        }
        Ok(())
    }
}
