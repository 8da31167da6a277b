//! How a command reaches a Weir that runs: one HTTP request for each question, over TCP or over a Unix socket.
//!
//! The options are the same for all commands that ask one. Secrets come from files, never from the command line, where everybody on the
//! machine can read them. Must not know what is asked for.

mod overview;
mod endpoint;
mod http;
mod url;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use data_encoding::BASE64;
use weir_config::{CheckedConfig, ListenAddress};

use crate::error::CommandError;
use crate::{clock, output};
pub(crate) use endpoint::AdminEndpoint;
pub(crate) use http::AdminResponse;
pub(crate) use overview::overview;
pub(crate) use url::path_segment;

/// How long an answer may take, unless a command asks for something that takes its time.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a user name with its password, or of a token.
const SECRET_BYTES_MAX: usize = 4096;

const HOW_TO_NAME_IT: &str = "give --admin ADDRESS (`127.0.0.1:9000`, `unix:/run/weir.sock`), or --config FILE with the config that it \
    runs on; that needs `admin.socket` or `admin.address`. --socket PATH names its socket alone";

const BROKEN: &str = "it may have been edited since Weir read it: `weir check` lists its mistakes";

/// Which Weir is asked, and as whom. Commands flatten it into their own options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "The Weir that is asked")]
pub(crate) struct AdminArguments {
    /// Where it can be asked: `127.0.0.1:9000` is the address of its admin listener, `unix:/run/weir.sock` its socket.
    #[arg(long, global = true, value_name = "ADDRESS")]
    admin: Option<AdminEndpoint>,
    /// The config that it runs on: says where it can be asked.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// Its socket, whatever a config says: short for `--admin unix:PATH`.
    #[arg(long, global = true, value_name = "PATH", conflicts_with_all = ["admin", "config"])]
    socket: Option<PathBuf>,
    /// The user to ask as, and the file that holds the password.
    #[arg(long, global = true, value_name = "NAME:PASSWORD-FILE", conflicts_with = "token_file")]
    user: Option<String>,
    /// The file that holds the token to ask with.
    #[arg(long, global = true, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl AdminArguments {
    /// The way to the Weir that is meant. Nothing is connected to yet.
    ///
    /// # Errors
    /// When the options do not say which one, or a file of theirs cannot be read.
    pub(crate) fn client(&self) -> Result<AdminClient, CommandError> {
        let endpoint = match (&self.admin, &self.socket, &self.config) {
            (Some(endpoint), ..) => endpoint.clone(),
            (None, Some(path), _) => AdminEndpoint::of_socket(path),
            (None, None, Some(file)) => of_config(file)?,
            (None, None, None) => {
                let what = "it is not said which Weir is asked".to_owned();
                return Err(CommandError::Usage { what, help: Some(HOW_TO_NAME_IT.to_owned()) });
            }
        };
        Ok(AdminClient { endpoint, authorization: self.authorization()?, time_max: TIME_MAX })
    }

    /// The value of `Authorization`, if there is to be one.
    fn authorization(&self) -> Result<Option<String>, CommandError> {
        if let Some(user) = &self.user {
            let Some((name, file)) =
                user.split_once(':').filter(|(name, file)| !name.is_empty() && !file.is_empty())
            else {
                return Err(CommandError::Usage {
                    what: format!("--user {user}: a name and a file are wanted"),
                    help: Some("write --user NAME:PASSWORD-FILE; the password stands in the file".to_owned()),
                });
            };
            let password = read_secret(Path::new(file))?;
            return Ok(Some(format!("Basic {}", BASE64.encode(format!("{name}:{password}").as_bytes()))));
        }
        self.token_file.as_deref().map(|file| Ok(format!("Bearer {}", read_secret(file)?))).transpose()
    }
}

/// Where the Weir that runs on a config can be asked. A config with mistakes elsewhere still says it: a running Weir is asked most when
/// something is wrong.
fn of_config(file: &Path) -> Result<AdminEndpoint, CommandError> {
    let checked = CheckedConfig::load(file);
    let admin = checked.admin();
    let is_named = admin.socket.is_some() || admin.address.is_some();
    if checked.config.is_none() {
        if !is_named {
            return Err(CommandError::Config(checked.diagnostics));
        }
        output::note(&format!("{} has mistakes, so only its `[admin]` is used; {BROKEN}", file.display()));
    }
    if let Some(ListenAddress::Unix(path)) = &admin.socket {
        return Ok(AdminEndpoint::Unix(path.clone()));
    }
    let unusable = |what: &str, help: &str| {
        let what = format!("{}: {what}", file.display());
        Err(CommandError::Usage { what, help: Some(help.to_owned()) })
    };
    match admin.address {
        Some(address) if address.port() == 0 => unusable(
            "`admin.address` leaves the port to the system",
            "Weir says at its start which one it is: give it with --admin ADDRESS",
        ),
        Some(address) => Ok(AdminEndpoint::of_listener(address)),
        None => unusable(
            "no admin listener",
            "set `admin.address = \"127.0.0.1:9000\"` under `[admin]` and restart Weir, or give --admin ADDRESS",
        ),
    }
}

/// The first line of a file.
fn read_secret(file: &Path) -> Result<String, CommandError> {
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let line = text.lines().next().unwrap_or_default().trim();
    let fits = !line.is_empty() && line.len() <= SECRET_BYTES_MAX && !line.contains(|c: char| c.is_control());
    if !fits {
        let what = format!("{} has no secret in its first line", file.display());
        return Err(CommandError::Failed { error: anyhow!(what), help: None });
    }
    Ok(line.to_owned())
}

/// The way to one running Weir.
#[derive(Debug, Clone)]
pub(crate) struct AdminClient {
    pub(crate) endpoint: AdminEndpoint,
    authorization: Option<String>,
    time_max: Duration,
}

impl AdminClient {
    /// The same with another limit on the time that an answer may take.
    pub(crate) fn within(self, time_max: Duration) -> Self {
        Self { time_max, ..self }
    }

    /// Asks for what is at `target`. An answer that says no is still an answer, but for one that wants (other) credentials.
    ///
    /// # Errors
    /// When no answer comes, or none of Weir, with words on what to do about it.
    pub(crate) fn get(&self, target: &str) -> Result<AdminResponse, CommandError> {
        self.ask("GET", target, None)
    }

    /// Posts `body` to `target`.
    ///
    /// # Errors
    /// As [`AdminClient::get`].
    pub(crate) fn post(
        &self,
        target: &str,
        content_type: &str,
        body: &[u8],
    ) -> Result<AdminResponse, CommandError> {
        self.ask("POST", target, Some((content_type, body)))
    }

    fn ask(
        &self,
        method: &str,
        target: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<AdminResponse, CommandError> {
        let request =
            http::write_request(method, target, &self.endpoint.host(), self.authorization.as_deref(), body);
        let end = clock::now() + self.time_max;
        let connection = self.endpoint.connect().map_err(http::AdminRequestError::Unconnected);
        let answer = connection.and_then(|connection| http::exchange(connection, &request, end));
        let answer = answer.map_err(|unanswered| {
            let (error, help) = self.endpoint.explain(&unanswered);
            CommandError::Failed { error: anyhow!(error), help: Some(help) }
        })?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let (what, help) = match &self.authorization {
            None => (
                "wants to know who asks",
                "give --user NAME:PASSWORD-FILE or --token-file FILE, as `admin` of its config has them",
            ),
            Some(_) => ("does not know these credentials", "compare them with `admin` of its config"),
        };
        let error = anyhow!("{} {what} (401)", self.endpoint);
        Err(CommandError::Failed { error, help: Some(help.to_owned()) })
    }
}
