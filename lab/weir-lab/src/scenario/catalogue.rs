//! The scenarios that come with the lab, built in so that an installed lab has them too.

use std::path::Path;

use anyhow::{Context as _, bail};

use super::Scenario;

/// Name and text of each shipped scenario, in the order of `weir-lab list`.
const SHIPPED: &[(&str, &str)] = &[
    ("l7-keepalive", include_str!("../../../scenarios/l7-keepalive.toml")),
    ("l7-post-1k", include_str!("../../../scenarios/l7-post-1k.toml")),
    ("l7-short", include_str!("../../../scenarios/l7-short.toml")),
    ("l7-latency-half", include_str!("../../../scenarios/l7-latency-half.toml")),
    ("h2-keepalive-1", include_str!("../../../scenarios/h2-keepalive-1.toml")),
    ("h2-keepalive-10", include_str!("../../../scenarios/h2-keepalive-10.toml")),
    ("h2-keepalive-100", include_str!("../../../scenarios/h2-keepalive-100.toml")),
    ("h2-tls-keepalive-10", include_str!("../../../scenarios/h2-tls-keepalive-10.toml")),
    ("h2-post", include_str!("../../../scenarios/h2-post.toml")),
    ("h2-to-h2", include_str!("../../../scenarios/h2-to-h2.toml")),
    ("grpc-unary", include_str!("../../../scenarios/grpc-unary.toml")),
    ("grpc-stream", include_str!("../../../scenarios/grpc-stream.toml")),
    ("h2-slow-stream", include_str!("../../../scenarios/h2-slow-stream.toml")),
    ("h2-slow-stream-to-h2", include_str!("../../../scenarios/h2-slow-stream-to-h2.toml")),
    ("h2-flood", include_str!("../../../scenarios/h2-flood.toml")),
    ("h2-idle-memory", include_str!("../../../scenarios/h2-idle-memory.toml")),
    ("h2-reload", include_str!("../../../scenarios/h2-reload.toml")),
    ("h3-keepalive-1", include_str!("../../../scenarios/h3-keepalive-1.toml")),
    ("h3-keepalive-10", include_str!("../../../scenarios/h3-keepalive-10.toml")),
    ("h3-keepalive-100", include_str!("../../../scenarios/h3-keepalive-100.toml")),
    ("h3-post", include_str!("../../../scenarios/h3-post.toml")),
    ("h3-bulk", include_str!("../../../scenarios/h3-bulk.toml")),
    ("h3-upload", include_str!("../../../scenarios/h3-upload.toml")),
    ("l4-keepalive", include_str!("../../../scenarios/l4-keepalive.toml")),
    ("l4-short", include_str!("../../../scenarios/l4-short.toml")),
    ("ladder", include_str!("../../../scenarios/ladder.toml")),
    ("burst-500-1000-2000", include_str!("../../../scenarios/burst-500-1000-2000.toml")),
    ("stress-doubling", include_str!("../../../scenarios/stress-doubling.toml")),
    ("bulk", include_str!("../../../scenarios/bulk.toml")),
    ("websocket-echo", include_str!("../../../scenarios/websocket-echo.toml")),
    ("websocket-idle", include_str!("../../../scenarios/websocket-idle.toml")),
    ("websocket-capacity", include_str!("../../../scenarios/websocket-capacity.toml")),
    ("bulk-tls", include_str!("../../../scenarios/bulk-tls.toml")),
    ("tls-handshake-ecdsa", include_str!("../../../scenarios/tls-handshake-ecdsa.toml")),
    ("tls-handshake-rsa", include_str!("../../../scenarios/tls-handshake-rsa.toml")),
    ("tls-resume", include_str!("../../../scenarios/tls-resume.toml")),
    ("tls-keepalive-tls13", include_str!("../../../scenarios/tls-keepalive-tls13.toml")),
    ("tls-keepalive-aes256", include_str!("../../../scenarios/tls-keepalive-aes256.toml")),
    ("tls-keepalive-chacha20", include_str!("../../../scenarios/tls-keepalive-chacha20.toml")),
    ("tls-suites", include_str!("../../../scenarios/tls-suites.toml")),
    ("tls-unfinished", include_str!("../../../scenarios/tls-unfinished.toml")),
    ("upstream-keepalive", include_str!("../../../scenarios/upstream-keepalive.toml")),
    ("idle-memory", include_str!("../../../scenarios/idle-memory.toml")),
    ("clients-default", include_str!("../../../scenarios/clients-default.toml")),
    ("slow-clients", include_str!("../../../scenarios/slow-clients.toml")),
    ("queue-single-slot", include_str!("../../../scenarios/queue-single-slot.toml")),
    ("slow-one-in-hundred", include_str!("../../../scenarios/slow-one-in-hundred.toml")),
    ("server-killed", include_str!("../../../scenarios/server-killed.toml")),
    ("server-hangs", include_str!("../../../scenarios/server-hangs.toml")),
    ("health-detection", include_str!("../../../scenarios/health-detection.toml")),
    ("health-probes", include_str!("../../../scenarios/health-probes.toml")),
    ("overload-three-times", include_str!("../../../scenarios/overload-three-times.toml")),
    ("persistence", include_str!("../../../scenarios/persistence.toml")),
    ("persistence-cookie", include_str!("../../../scenarios/persistence-cookie.toml")),
    ("persistence-overhead", include_str!("../../../scenarios/persistence-overhead.toml")),
    ("reload-under-load", include_str!("../../../scenarios/reload-under-load.toml")),
    ("reload-hundred", include_str!("../../../scenarios/reload-hundred.toml")),
    ("soak", include_str!("../../../scenarios/soak.toml")),
    ("watched", include_str!("../../../scenarios/watched.toml")),
];

/// The comparisons of the field reports, in the order of `suite reports`: the figures that they name come first.
pub const REPORTS: &[&str] = &[
    "l7-keepalive",
    "l7-short",
    "l7-post-1k",
    "l4-keepalive",
    "l4-short",
    "queue-single-slot",
    "burst-500-1000-2000",
    "ladder",
    "health-detection",
    "websocket-capacity",
    "upstream-keepalive",
    "tls-suites",
    "persistence",
    "stress-doubling",
    "bulk",
    "reload-under-load",
    "server-killed",
    "slow-clients",
];

/// What HTTP/3 costs.
pub const HTTP3: &[&str] =
    &["h3-keepalive-1", "h3-keepalive-10", "h3-keepalive-100", "h3-post", "h3-bulk", "h3-upload"];

/// All shipped scenarios.
///
/// # Errors
/// The errors in one; a test makes sure that there are none.
pub fn all() -> anyhow::Result<Vec<Scenario>> {
    SHIPPED.iter().map(|(name, text)| Scenario::read(name, text)).collect()
}

/// The scenario called `name`, or the one in the file of that path.
///
/// # Errors
/// When there is none, or it is wrong.
pub fn find(name: &str) -> anyhow::Result<Scenario> {
    if let Some((name, text)) = SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
        return Scenario::read(name, text);
    }
    let path = Path::new(name);
    if path.extension().is_none_or(|extension| extension != "toml") {
        let names: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
        bail!("no scenario `{name}`; there are {} (or give a .toml file)", names.join(", "));
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    Scenario::read(&stem, &text)
}
