//! `weir explain`: the outcome of a request and its reasons, without sending it.
//!
//! The request goes through the same parser, route table, rewrite and balancer as on the data path; what is explained is
//! the state right after a start: no load, every server up. Nothing is connected to.

mod text;
mod json;
mod rules;
mod asked;
mod sentence;
mod conditions;
mod explanation;
mod steps;
mod request;
mod known_sources;
mod listener;
mod url;

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use weir_config::Config;

use crate::error::CommandError;
use crate::foreign::LossArguments;
use crate::help_text::with_exit_codes;
use crate::output;
use explanation::RequestExplanation;
use known_sources::KnownSources;
use request::ExplainedRequest;
use url::Url;

const EXAMPLES: &str = "\
Examples:
  weir explain weir.toml http://example.com/api/users
  weir explain weir.toml '/search?q=weir' -X POST -H 'X-Env: test'
  weir explain weir.toml http://example.com/ --from 192.0.2.7 --format json";

const EXIT_CODES: &str = "\
Exit codes:
  0  the request is explained, even if it would be rejected
  2  the config, the URL or a header cannot be used, or the listener is ambiguous";

/// Explain which route, upstream and servers a request would get, and why.
///
/// Nothing is sent. Every route is listed with the reason why it does not match; servers are listed in the order in which they would be
/// chosen right after start, without load and with every server up.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, after_long_help = with_exit_codes(EXAMPLES, EXIT_CODES))]
pub(crate) struct ExplainArguments {
    /// The config: a `weir.toml`, `nginx.conf`, `haproxy.cfg`, `Caddyfile` or `traefik.yml`.
    file: PathBuf,
    /// The URL of the request, or its path alone.
    url: String,
    /// The method.
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: String,
    /// A header of the request. Can be given several times.
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE")]
    headers: Vec<String>,
    /// The address of the client.
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    from: IpAddr,
    /// The listener that the client connects to. Without it, the one on the port of the URL, or the only one.
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,
    /// The format of the explanation.
    #[arg(long, value_enum, default_value_t = ExplainFormat::Text)]
    format: ExplainFormat,
    #[command(flatten)]
    loss: LossArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// Text.
    Text,
    /// JSON: one object.
    Json,
}

pub(crate) fn run(arguments: &ExplainArguments) -> Result<ExitCode, CommandError> {
    let config = arguments.loss.load(&arguments.file).into_result().map_err(CommandError::Config)?;
    output::print(&explain(&config, arguments)?)?;
    Ok(ExitCode::SUCCESS)
}

fn explain(config: &Config, arguments: &ExplainArguments) -> Result<String, CommandError> {
    let url = Url::parse(&arguments.url).map_err(|what| CommandError::Usage { what, help: None })?;
    let (config, sources) = KnownSources::read(config);
    let (listener, why) = listener::choose(&config, &url, arguments.listener.as_deref())?;
    let request =
        ExplainedRequest::new(&url, &arguments.method, &arguments.headers, arguments.from, listener)?;
    let followed = steps::follow(listener, request);
    let explanation = RequestExplanation::new(&config, listener, why, &followed, &sources);
    Ok(match arguments.format {
        ExplainFormat::Text => text::render(&explanation),
        ExplainFormat::Json => json::render(&explanation),
    })
}

#[cfg(test)]
mod tests;
