//! One server behind a target: an origin in a process of its own, which can hang, be killed, and come back.
//!
//! Its journal, when it keeps one, outlives it, and is read when the measurement is over.

use std::fs::Permissions;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;

use super::web_server;
use crate::clock;
use crate::installed;
use crate::load::tool::{self, grpc_client};
use crate::origin::PAGE_LEN;
use crate::origin::journal::{self, JournalEntry};
use crate::process::{Guarded, Job};
use crate::run::bench::Bench;
use crate::topology::product::Product;
use crate::topology::upstream::OriginProtocol;
use crate::wire::pattern;

/// Longest wait for a server to listen, to answer, and to be gone.
const LIMIT: Duration = Duration::from_secs(10);

/// How a server is started.
#[derive(Debug, Clone, Copy, Default)]
pub struct ServerSetup {
    /// Requests it works on at once.
    pub slots: Option<usize>,
    /// Addresses it listens on.
    pub addresses: u32,
    /// It keeps a journal.
    pub journal: bool,
    /// CPU time it spends on every answer.
    pub burn: Option<Duration>,
    /// This many percent of its answers are 500.
    pub errors: Option<u8>,
}

/// See the module.
#[derive(Debug)]
pub struct ServerProcess {
    /// `None` while it is killed.
    process: Option<Guarded>,
    /// Killed servers: waiting for their guards can take seconds while the CPU is busy.
    killed: Vec<Guarded>,
    /// Where it listens.
    pub addr: SocketAddr,
    job: Job,
    journal: Option<PathBuf>,
    /// The folder of a web server; the lab's own origin needs none.
    site: Option<TempDir>,
}

/// Writes `len` bytes of the pattern that every body is made of.
fn write_page(file: &Path, len: u64) -> anyhow::Result<()> {
    let bytes: Vec<u8> =
        pattern::run(0, pattern::PERIOD).iter().copied().cycle().take(len as usize).collect();
    std::fs::write(file, bytes).with_context(|| format!("cannot write {}", file.display()))
}

impl ServerProcess {
    /// Starts server number `number` of a measurement.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(bench: &Bench<'_>, number: u32, kind: ServerSetup) -> anyhow::Result<Self> {
        let launcher = &bench.options.launcher;
        let mut args = vec!["origin".to_owned()];
        if let Some(slots) = kind.slots {
            args.extend(["--slots".to_owned(), slots.to_string()]);
        }
        if kind.addresses > 1 {
            args.extend(["--addresses".to_owned(), kind.addresses.to_string()]);
        }
        if let Some(burn) = kind.burn {
            args.extend(["--burn".to_owned(), format!("{}ns", burn.as_nanos())]);
        }
        if let Some(errors) = kind.errors {
            args.extend(["--errors".to_owned(), errors.to_string()]);
        }
        let journal = kind.journal.then(|| bench.dir.path().join(format!("journal-{number}")));
        if let Some(path) = &journal {
            // That of the last measurement.
            let _ = std::fs::remove_file(path);
            args.extend(["--journal".to_owned(), path.display().to_string()]);
        }
        let mut server = Self {
            process: None,
            killed: Vec::new(),
            addr: SocketAddr::from(([127, 0, 0, 1], 0)),
            job: Job {
                program: launcher.program.clone(),
                args: launcher.prefix.iter().cloned().chain(args).collect(),
                cpus: bench.client_cpus(),
                log: bench.dir.path().join(format!("origin-{number}.log")),
                ..Job::default()
            },
            journal,
            site: None,
        };
        server.come_back(bench)?;
        Ok(server)
    }

    /// Starts a web server with the page.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start_site(bench: &Bench<'_>, product: Product) -> anyhow::Result<Self> {
        let installed = bench.products.get(product.name());
        let installed = installed
            .with_context(|| format!("{} is missing as origin: {}", product.name(), product.how_to_get()))?;
        // Its workers may run as the user `nobody`.
        let readable = Permissions::from_mode(0o755);
        let dir = tempfile::Builder::new().prefix("weir-lab-origin-").permissions(readable).tempdir()?;
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let is_http2 = bench.upstream.protocol == OriginProtocol::Http2;
        let job = web_server::job(product, installed, addr, is_http2, dir.path())?;
        Self::start_other(bench, job, addr, dir)
    }

    /// Starts the server of HTTP/2 or gRPC: nghttpd with the page, or the benchmark server of grpc-go.
    ///
    /// # Errors
    /// When it is not installed or does not start.
    pub fn start_tool(bench: &Bench<'_>) -> anyhow::Result<Self> {
        let is_grpc = bench.upstream.protocol == OriginProtocol::Grpc;
        let name = if is_grpc { grpc_client::SERVER } else { "nghttpd" };
        let installed = installed::find_tool(name)
            .with_context(|| format!("{name} is missing as origin: {}", tool::HOW_TO_GET))?;
        let dir = tempfile::Builder::new().prefix("weir-lab-origin-").tempdir()?;
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let (port, folder) = (addr.port(), dir.path().display());
        let line = if is_grpc {
            // With the name of the profiles that it writes.
            format!("-test_name=weir-lab-origin -port={port}")
        } else {
            write_page(&dir.path().join("index.html"), PAGE_LEN)?;
            if let Some(len) = bench.large_answer {
                std::fs::create_dir(dir.path().join("bytes"))?;
                write_page(&dir.path().join("bytes").join(len.to_string()), len)?;
            }
            format!("--no-tls --workers=1 --address={} --htdocs={folder} {port}", addr.ip())
        };
        let job = Job {
            program: installed.program,
            args: line.split(' ').map(str::to_owned).collect(),
            log: dir.path().join("output.log"),
            ..Job::default()
        };
        Self::start_other(bench, job, addr, dir)
    }

    /// Starts a program that is not the lab's own.
    fn start_other(bench: &Bench<'_>, job: Job, addr: SocketAddr, dir: TempDir) -> anyhow::Result<Self> {
        let job = Job { cpus: bench.client_cpus(), ..job };
        let mut process = Guarded::start(&bench.options.launcher, &job)?;
        process.wait_listening(addr, LIMIT)?;
        let (process, killed) = (Some(process), Vec::new());
        Ok(Self { process, killed, addr, job, journal: None, site: Some(dir) })
    }

    /// Starts it, at its address.
    ///
    /// # Errors
    /// When it does not start.
    pub fn come_back(&mut self, bench: &Bench<'_>) -> anyhow::Result<()> {
        let mut job = self.job.clone();
        job.args.extend(["--listen".to_owned(), self.addr.to_string()]);
        let mut process = Guarded::start(&bench.options.launcher, &job)?;
        self.addr = process.wait_for_line("listening on ", LIMIT)?.parse()?;
        self.process = Some(process);
        Ok(())
    }

    /// Kills it (SIGKILL). Gives the time from which on it was gone, with all its sockets, in nanoseconds of
    /// `clock::uptime_ns`.
    ///
    /// # Errors
    /// When it is not running or does not go.
    pub fn kill(&mut self) -> anyhow::Result<u64> {
        let process = self.process.take().context("the server is killed already")?;
        let pid = Pid::from_raw(process.pid()).context("a process id")?;
        // Told by the kernel when the last thread is gone, and with it the sockets.
        let ended = pidfd_open(pid, PidfdFlags::empty())?;
        kill_process(pid, Signal::KILL)?;
        let limit = Timespec::try_from(LIMIT)?;
        let ended_events = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&limit))?;
        let gone = clock::uptime_ns();
        self.killed.push(process);
        ensure!(ended_events == 1, "the server was killed and is still there");
        Ok(gone)
    }

    /// Lets it take requests and answer none, for `length`.
    ///
    /// # Errors
    /// When it does not answer this last one.
    pub fn hang(&self, length: Duration) -> anyhow::Result<()> {
        let answer = self.ask(&format!("/hang/{}", length.as_millis()))?;
        ensure!(answer.starts_with("HTTP/1.1 200"), "the server does not hang: {answer}");
        Ok(())
    }

    /// Connections it has accepted, as it says itself; a web server does not.
    pub fn accepted(&self) -> Option<f64> {
        if self.site.is_some() {
            return None;
        }
        let answer = self.ask("/counters").ok()?;
        let json: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1)?).ok()?;
        // This connection is not the target's.
        Some(json["accepted"].as_f64()? - 1.0)
    }

    fn ask(&self, path: &str) -> anyhow::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.addr, LIMIT)?;
        stream.set_read_timeout(Some(LIMIT))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: origin\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    /// The requests it has seen, in the order in which they came.
    ///
    /// # Errors
    /// When it keeps no journal, or that cannot be read.
    pub fn visits(&self) -> anyhow::Result<Vec<JournalEntry>> {
        journal::read(self.journal.as_deref().context("the server keeps no journal")?)
    }

    /// Process id, while it runs.
    pub fn pid(&self) -> Option<i32> {
        self.process.as_ref().map(Guarded::pid)
    }

    /// Fails when it has ended by itself.
    ///
    /// # Errors
    /// How it ended.
    pub fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(how) = self.process.as_mut().and_then(Guarded::ended) {
            bail!("the origin ended: {how}");
        }
        Ok(())
    }
}
