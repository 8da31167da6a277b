//! `weir serve` under valgrind, between a client and a server of ours.
//!
//! The program as released, with one worker and all else at its default. The peers run in this process, outside of
//! valgrind, so only Weir is counted. It is stopped as an operator would stop it, and must end well.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use super::callgrind::Callgrind;
use super::peers::{self, ExchangeShape};

/// To start and to stop, each under valgrind on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs so many exchanges through `weir`.
pub(super) fn run(
    callgrind: &Callgrind,
    weir: &Path,
    traffic: &'static ExchangeShape,
    exchanges: u64,
) -> anyhow::Result<()> {
    let server = peers::start_server(traffic)?;
    let config = weir.with_file_name(format!("instructions.{}.toml", std::process::id()));
    fs::write(&config, config_for(server))?;
    println!("$ valgrind --tool=callgrind {} serve, {exchanges} exchanges", weir.display());
    let mut process = Weir::start(callgrind, weir, &config)?;
    let address = process.wait_until_ready();
    fs::remove_file(&config).ok();
    let exchanged = address.and_then(|address| peers::exchange(address, traffic, exchanges));
    exchanged.with_context(|| format!("weir wrote to standard error:\n{}", process.said))?;
    process.stop()
}

fn config_for(server: SocketAddr) -> String {
    format!(
        "process.workers = 1\nlistener.web.address = \"127.0.0.1:0\"\nlistener.web.upstream = \"app\"\n\
         upstream.app.servers = [\"{server}\"]\n"
    )
}

/// The running process. Dropping it kills it.
struct Weir {
    child: Child,
    lines: Receiver<String>,
    /// What it wrote to standard error until it was ready.
    said: String,
}

impl Weir {
    fn start(callgrind: &Callgrind, weir: &Path, config: &Path) -> anyhow::Result<Self> {
        let mut child = Command::new("valgrind")
            .args(callgrind.args())
            .arg(weir)
            .arg("serve")
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("cannot start valgrind")?;
        let stderr = BufReader::new(child.stderr.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        // Reads to the end even when the receiver is gone: a full pipe would stop Weir.
        thread::spawn(move || stderr.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        Ok(Self { child, lines, said: String::new() })
    }

    /// Where it listens.
    fn wait_until_ready(&mut self) -> anyhow::Result<SocketAddr> {
        let mut address = None;
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(line) if line == "ready" => return address.context("it is ready and listens nowhere"),
                Ok(line) => {
                    address = address.or_else(|| address_in(&line));
                    self.said.push_str(&line);
                    self.said.push('\n');
                }
                Err(RecvTimeoutError::Disconnected) => bail!("it ended before it was ready"),
                Err(RecvTimeoutError::Timeout) => bail!("it did not get ready"),
            }
        }
    }

    /// Ends it with SIGTERM; callgrind writes its profile then.
    fn stop(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        loop {
            match self.lines.recv_timeout(PATIENCE) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => bail!("weir does not stop"),
            }
        }
        let status = self.child.wait()?;
        ensure!(status.success(), "weir ended with {status}");
        Ok(())
    }
}

impl Drop for Weir {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to kill.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// The address in a line such as `listening listener=web address=127.0.0.1:8080`.
fn address_in(line: &str) -> Option<SocketAddr> {
    line.strip_prefix("listening ")?.rsplit_once("address=")?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_read() {
        let address = address_in("listening listener=web address=127.0.0.1:8080");
        assert_eq!(address, Some(SocketAddr::from(([127, 0, 0, 1], 8080))));
        assert_eq!(address_in("listening listener=web address=unix:a.sock"), None);
        assert_eq!(address_in("starting address=127.0.0.1:8080"), None);
    }
}
