//! Reloads of the config: the changes take effect, and clients notice nothing else.

mod changes;
mod listeners;
mod on_change;
mod refusals;
mod removals;
mod survival;
mod under_load;

use crate::harness::{Origin, config_with};

/// A config with these servers, and an admin listener where changes are allowed.
fn config(servers: &[(&str, &Origin)], settings: &str) -> String {
    let servers: Vec<String> = servers.iter().map(|(name, origin)| origin.named(name)).collect();
    config_with(&servers, &format!("admin.changes = true\n{settings}"))
}
