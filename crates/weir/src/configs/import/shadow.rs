//! `weir import --shadow`: the result as a config that runs Weir beside the old balancer.

use clap::Args;
use serde_json::{Value, json};
use weir_import::Imported;
use weir_import::shadow::{OldBalancer, ShadowListen, ShadowOptions, ShadowReport};

use crate::error::CommandError;

/// What makes a config for both balancers.
#[derive(Debug, Args)]
pub(super) struct ShadowArguments {
    /// Make a config with which Weir runs beside the balancer whose config this is, and compares. Clients come to Weir, the old balancer at this
    /// URL answers them, and copies of some requests go through the imported config; `weir ctl mirrors` shows by route where the answers
    /// differ. Servers get copied requests twice, so only GET, HEAD and OPTIONS are copied. Once with `http://` for listeners without TLS, once
    /// with `https://` for those with it. Without a port, each listener goes to its own port there.
    #[arg(long, value_name = "URL")]
    shadow: Vec<OldBalancer>,
    /// With `--shadow`: where Weir listens, in place of the addresses of the file: an address, a port or both. The next listeners have the next
    /// ports.
    #[arg(long, value_name = "ADDRESS", requires = "shadow")]
    shadow_listen: Option<ShadowListen>,
    /// With `--shadow`: how many percent of the requests are copied.
    #[arg(long, value_name = "PERCENT", requires = "shadow", default_value_t = 10, value_parser = clap::value_parser!(u8).range(1..=100))]
    shadow_share: u8,
    /// With `--shadow`: the folder of the Unix sockets on which copies come to the imported listeners, and of that of `weir ctl`.
    #[arg(long, value_name = "FOLDER", requires = "shadow", default_value = "/run/weir")]
    shadow_sockets: String,
}

impl ShadowArguments {
    /// Makes the config for both balancers, if that is wanted.
    pub(super) fn apply(&self, imported: Imported) -> Result<(Imported, Option<ShadowReport>), CommandError> {
        if self.shadow.is_empty() {
            return Ok((imported, None));
        }
        let usage = |what: String, help: String| CommandError::Usage { what, help: Some(help) };
        if !self.shadow_sockets.starts_with('/') {
            let help = "name a folder by its absolute path, such as /run/weir".to_owned();
            return Err(usage(format!("`{}` is not an absolute path", self.shadow_sockets), help));
        }
        for tls in [false, true] {
            if self.shadow.iter().filter(|old| old.tls == tls).count() > 1 {
                let help = "name the old balancer once with `http://` and once with `https://`".to_owned();
                return Err(usage("`--shadow` names two old balancers of one kind".to_owned(), help));
            }
        }
        let options = ShadowOptions {
            old: self.shadow.clone(),
            listen: self.shadow_listen.clone(),
            share: self.shadow_share,
            folder: self.shadow_sockets.trim_end_matches('/').to_owned(),
        };
        let (imported, report) =
            imported.beside(&options).map_err(|error| usage(error.message, error.help))?;
        Ok((imported, Some(report)))
    }
}

/// For a person.
pub(super) fn text(report: &ShadowReport) -> String {
    let mut text = String::from("\nbeside the old balancer:\n");
    for one in &report.shadowed {
        text.push_str(&format!(
            "  `{}`: clients at {}, answered by {}\n",
            one.name,
            one.addresses.join(", "),
            one.old
        ));
    }
    for (name, why) in &report.left_out {
        text.push_str(&format!("  `{name}` is left out: {why}\n"));
    }
    text
}

pub(super) fn json(report: &ShadowReport) -> Value {
    let shadowed = report.shadowed.iter();
    let shadowed: Vec<Value> = shadowed
        .map(|one| json!({ "listener": one.name, "addresses": one.addresses, "old": one.old }))
        .collect();
    let left_out = report.left_out.iter();
    let left_out: Vec<Value> =
        left_out.map(|(name, why)| json!({ "listener": name, "reason": why })).collect();
    json!({ "listeners": shadowed, "left_out": left_out })
}
