//! The client of the admin API: one HTTP request for each query, over TCP or over a Unix socket.
//!
//! The options are the same for all commands. Secrets come from files, never from the command line, which all users of the machine can
//! read. Must not know the requests.

mod overview;
mod endpoint;
mod exchange;
mod url;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use clap::Args;
use data_encoding::BASE64;
use http::Method;
use weir_config::ListenAddress;

use crate::error::CommandError;
use crate::foreign::load_running;
use crate::output;
pub(crate) use endpoint::AdminEndpoint;
pub(crate) use exchange::AdminResponse;
pub(crate) use overview::overview;
pub(crate) use url::path_segment;

/// The time limit of a response, except for commands that take longer.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Bytes of a user name with its password, or of a token.
const SECRET_BYTES_MAX: usize = 4096;

const HOW_TO_NAME_IT: &str = "give --admin ADDRESS (`127.0.0.1:9000`, `unix:/run/weir.sock`), or --config FILE with the config that it \
    runs on; that needs `admin.socket` or `admin.address`. --socket PATH names its socket alone";

const BROKEN: &str = "it may have been edited since Weir read it: `weir check` lists the errors";

/// The address and the credentials. Commands flatten it into their own options.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Connection to the running Weir")]
pub(crate) struct AdminArguments {
    /// The address of its admin listener, such as `127.0.0.1:9000`, or its socket, such as `unix:/run/weir.sock`.
    #[arg(long, global = true, value_name = "ADDRESS")]
    admin: Option<AdminEndpoint>,
    /// Its config, which contains that address.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "admin")]
    config: Option<PathBuf>,
    /// Its socket, regardless of a config: short for `--admin unix:PATH`.
    #[arg(long, global = true, value_name = "PATH", conflicts_with_all = ["admin", "config"])]
    socket: Option<PathBuf>,
    /// The user name, and the file with the password.
    #[arg(long, global = true, value_name = "NAME:PASSWORD-FILE", conflicts_with = "token_file")]
    user: Option<String>,
    /// The file with the token.
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
                let what = "no address of a running Weir is given".to_owned();
                return Err(CommandError::Usage { what, help: Some(HOW_TO_NAME_IT.to_owned()) });
            }
        };
        Ok(AdminClient { endpoint, authorization: self.authorization()?, time_max: TIME_MAX })
    }

    /// The config that is named.
    pub(crate) fn config_file(&self) -> Option<&Path> {
        self.config.as_deref()
    }

    /// The value of `Authorization`, if there is to be one.
    fn authorization(&self) -> Result<Option<String>, CommandError> {
        if let Some(user) = &self.user {
            let Some((name, file)) =
                user.split_once(':').filter(|(name, file)| !name.is_empty() && !file.is_empty())
            else {
                return Err(CommandError::Usage {
                    what: format!("--user {user}: a name and a file are wanted"),
                    help: Some("write --user NAME:PASSWORD-FILE; the file contains the password".to_owned()),
                });
            };
            let password = read_secret(Path::new(file))?;
            return Ok(Some(format!("Basic {}", BASE64.encode(format!("{name}:{password}").as_bytes()))));
        }
        self.token_file.as_deref().map(|file| Ok(format!("Bearer {}", read_secret(file)?))).transpose()
    }
}

/// The address of the Weir that runs on a config. It is read even if there are errors elsewhere: a running Weir is queried most when
/// something is wrong.
fn of_config(file: &Path) -> Result<AdminEndpoint, CommandError> {
    let checked = load_running(file);
    let admin = checked.admin();
    let is_named = admin.socket.is_some() || admin.address.is_some();
    if checked.config.is_none() {
        if !is_named {
            return Err(CommandError::Config(checked.diagnostics));
        }
        output::note(&format!("{} has errors, so only its `[admin]` is used; {BROKEN}", file.display()));
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

    /// Gets `target`. An error response is returned as well, except one that requires (other) credentials.
    ///
    /// # Errors
    /// When no answer comes, or none of Weir, with advice.
    pub(crate) fn get(&self, target: &str) -> Result<AdminResponse, CommandError> {
        self.ask(Method::GET, target, None)
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
        self.ask(Method::POST, target, Some((content_type, body)))
    }

    fn ask(
        &self,
        method: Method,
        target: &str,
        body: Option<(&str, &[u8])>,
    ) -> Result<AdminResponse, CommandError> {
        let request = exchange::write_request(method, target, self.authorization.as_deref(), body);
        let answer = exchange::exchange(self.endpoint.destination(), request, self.time_max);
        let answer = answer.map_err(|unanswered| {
            let (error, help) = self.endpoint.explain(&unanswered);
            CommandError::Failed { error: anyhow!(error), help: Some(help) }
        })?;
        if answer.status != 401 {
            return Ok(answer);
        }
        let (what, help) = match &self.authorization {
            None => (
                "requires credentials",
                "give --user NAME:PASSWORD-FILE or --token-file FILE, as `admin` of its config has them",
            ),
            Some(_) => ("does not know these credentials", "compare them with `admin` of its config"),
        };
        let error = anyhow!("{} {what} (401)", self.endpoint);
        Err(CommandError::Failed { error, help: Some(help.to_owned()) })
    }
}
