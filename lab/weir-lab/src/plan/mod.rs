//! "Will it hold?": measures here what a request and a client cost, and answers in cores, memory, descriptors and ports.
//!
//! `measure` takes the costs from runs like any other, `arithmetic` makes an answer of them, `text` shows how. What was not
//! measured (the network, other hardware, the servers themselves) is said, not guessed.

mod text;
mod arithmetic;
mod measure;

use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};

use crate::run::Options;
use crate::topology::target::LabTarget;

/// The planned load.
#[derive(Debug, Clone, Args)]
pub struct PlannedLoad {
    /// Requests per second.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub rate: u64,
    /// Clients that are connected at the same time.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub clients: u64,
    /// Bytes of request body, such as `1k`; 0 is a GET.
    #[arg(long, default_value = "0", value_parser = read_bytes)]
    pub body: u64,
    /// Bytes of the answer to a GET, such as `10k`; by default the page of 612.
    #[arg(long, default_value = "612", value_parser = read_bytes, conflicts_with_all = ["body", "message"])]
    pub answer: u64,
    /// Clients have a WebSocket tunnel each; a request is a message of so many bytes, which comes back.
    #[arg(long, value_parser = read_bytes, conflicts_with_all = ["body", "tls", "http3"])]
    pub message: Option<u64>,
    /// Whether clients speak HTTP/3; with --tls.
    #[arg(long, requires = "tls")]
    pub http3: bool,
    /// The price of a core for an hour, in any currency, for the cost of a million requests.
    #[arg(long, value_name = "PRICE")]
    pub core_hour: Option<f64>,
    /// Whether clients keep their connection for the next request.
    #[arg(long, value_enum, default_value_t = ClientKeepAlive::Yes)]
    pub keepalive: ClientKeepAlive,
    /// Whether clients come over TLS 1.3 (ECDSA P-256, AES-256-GCM).
    #[arg(long)]
    pub tls: bool,
    /// How long the servers work on a request; it decides how many are under way.
    #[arg(long, default_value = "20ms", value_parser = crate::length::read)]
    pub server_time: Duration,
    /// The balancer to plan for.
    #[arg(long, default_value = "weir")]
    pub target: LabTarget,
}

/// Whether a connection is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientKeepAlive {
    /// It is.
    Yes,
    /// Each request brings its own.
    No,
}

/// Measures, and answers.
///
/// # Errors
/// When the target cannot be measured.
pub fn plan(planned: &PlannedLoad, options: &Options) -> anyhow::Result<String> {
    ensure!(
        planned.keepalive == ClientKeepAlive::Yes || (planned.message.is_none() && !planned.http3),
        "tunnels and HTTP/3 are planned with kept connections"
    );
    ensure!(planned.core_hour.is_none_or(|price| price >= 0.0), "a price is not negative");
    let measured = measure::measure(planned, options)?;
    let answer = arithmetic::answer(planned, &measured);
    Ok(text::page(planned, &measured, &answer))
}

/// A number of bytes: `512`, `1k`, `64KiB`, `2m`. Thousands are 1024.
fn read_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        other => return Err(format!("`{other}` is no unit: there are k and m")),
    };
    let number: u64 = digits.parse().map_err(|_| format!("`{text}` is no number of bytes"))?;
    number
        .checked_mul(unit)
        .filter(|bytes| *bytes <= BODY_MAX)
        .ok_or_else(|| "at most 16 MiB can be measured".to_owned())
}

/// The largest body that the load generator prepares.
const BODY_MAX: u64 = 16 << 20;

#[cfg(test)]
mod tests {
    use super::read_bytes;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0", 0), ("512", 512), ("1k", 1024), ("64KiB", 65536), ("2M", 2 << 20)] {
            assert_eq!(read_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "k", "1g", "1.5k", "-1", "17m"] {
            assert!(read_bytes(text).is_err(), "{text}");
        }
    }
}
