//! `weir-lab origin`: the origin alone, until it is ended.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use weir_stats::terminal::say;

use super::{OriginServer, OriginSetup, SEED};
use crate::{length, placement};

/// The settings of the origin.
#[derive(Debug, Args)]
pub struct OriginArgs {
    /// Address to listen on; port 0 takes any free port.
    #[arg(long, default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Event loops that share the address.
    #[arg(long, default_value_t = 1)]
    threads: usize,
    /// This many addresses, counted upwards from that one, with the same port.
    #[arg(long, default_value_t = 1)]
    addresses: u32,
    /// Requests with a delay that are worked on at once; the others wait. Without it, as many as come.
    #[arg(long)]
    slots: Option<usize>,
    /// File to which is written when each request came, began and was done.
    #[arg(long, conflicts_with = "threads")]
    journal: Option<PathBuf>,
    /// Where the randomness of delays and failures begins: the same seed, the same draws.
    #[arg(long, default_value_t = SEED)]
    seed: u64,
    /// CPU time to spend on every answer, such as `200us`: a server that has something to compute.
    #[arg(long, value_parser = length::read)]
    burn: Option<Duration>,
    /// This many percent of its answers are 500, for any request.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(..=100))]
    errors: u8,
}

/// Serves until the process is ended.
///
/// # Errors
/// When the address cannot be listened on.
pub fn serve(args: &OriginArgs) -> anyhow::Result<()> {
    let OriginArgs { listen, threads, addresses, slots, ref journal, seed, burn, errors } = *args;
    placement::raise_descriptor_limit();
    let burn = burn.unwrap_or_default();
    let setup =
        OriginSetup { listen, addresses, threads, slots, journal: journal.clone(), seed, burn, errors };
    let origin = OriginServer::start_as(&setup).with_context(|| format!("cannot listen on {listen}"))?;
    say(&format!("listening on {}", origin.addr()))?;
    origin.wait();
    Ok(())
}
