//! The setup of one measurement: fresh servers, a fresh target in front of them, each on its CPU.
//!
//! Fresh each time, so that no measurement inherits memory, connections or address layout from another, and chance in
//! these falls on all targets alike. Proven to answer correctly before any load.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context as _, bail};
use rustix::process::{Pid, kill_process};

use super::bench::Bench;
use super::configurations::Configuration;
use super::server::{ServerProcess, ServerSetup};
use super::web_server;
use crate::clock::wait_until;
use crate::load::exchange::{RequestShape, prepare};
use crate::load::fault::LoadFault;
use crate::load::http2::client::Http2Client;
use crate::load::http3::client::Http3Client;
use crate::load::http3::request;
use crate::load::http3::setup::Http3Setup;
use crate::load::tool::h2load;
use crate::load::{TlsClient, probe};
use crate::origin::journal::JournalEntry;
use crate::origin::{PAGE_LEN, nth_addr};
use crate::process::{Guarded, Job};
use crate::results::record::TargetRecord;
use crate::target::{ConnectionRoom, TargetCertificate, certificate};
use crate::topology::listener::Tls;
use crate::topology::product::{Product, ProductLacks};
use crate::topology::target::LabTarget;
use crate::topology::upstream::{OriginProtocol, UpstreamSetup};

/// Longest wait for a program to listen.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A connection of QUIC that hears nothing for so long is over.
const QUIC_IDLE: Duration = Duration::from_secs(30);

/// Attempts to start a target or a server: another process may have taken its port in between.
const ATTEMPTS: u32 = 3;

/// The configuration of a target at the start, for the addresses of the servers.
type ConfigurationFor<'a> = &'a dyn Fn(&[SocketAddr]) -> Configuration;

/// Servers and target of one measurement; all end when it is dropped.
#[derive(Debug)]
pub struct Testbed {
    /// The servers.
    pub servers: Vec<ServerProcess>,
    /// The target; none for direct.
    pub target: Option<Guarded>,
    /// Where the load goes.
    pub addr: SocketAddr,
    /// The same as the Host field says it.
    pub authority: String,
}

impl Bench<'_> {
    /// Starts the servers and `target` in front of them with room for `clients`, and sees that the page comes through.
    ///
    /// # Errors
    /// When one of them does not start, or the page is wrong.
    pub fn set_up(&self, target: LabTarget, clients: u64) -> anyhow::Result<Testbed> {
        self.set_up_with(target, ConnectionRoom { clients, servers: 0 })
    }

    /// The same with this much room.
    ///
    /// # Errors
    /// When one of them does not start, or the page is wrong.
    pub fn set_up_with(&self, target: LabTarget, room: ConnectionRoom) -> anyhow::Result<Testbed> {
        self.set_up_as(target, room, &|servers| Configuration::of(servers, &self.upstream))
    }

    /// The same with the configuration that `configure` makes for the servers.
    ///
    /// # Errors
    /// When one of them does not start, or the page is wrong.
    pub(super) fn set_up_as(
        &self,
        target: LabTarget,
        room: ConnectionRoom,
        configure: ConfigurationFor<'_>,
    ) -> anyhow::Result<Testbed> {
        let mut testbed = match (target.product, &self.options.url) {
            (Product::Url, Some(url)) => {
                let authority = url.authority.clone();
                Testbed { servers: Vec::new(), target: None, addr: url.addr, authority }
            }
            _ => self.start(target, room, configure)?,
        };
        let shape = RequestShape {
            host: &testbed.authority,
            path: "/",
            body_len: 0,
            answer_len: PAGE_LEN,
            close: false,
            cookie: None,
        };
        let exchange = &prepare(&shape)[0];
        let (secure, http3) = (self.secure_with(target)?, self.http3_with(target)?);
        let (addr, mut seen) = (testbed.addr, Ok(()));
        let mut see = || {
            seen = match (&secure, &http3) {
                (_, Some(setup)) => ask_http3(addr, setup, &testbed.authority),
                _ if self.upstream.protocol == OriginProtocol::Grpc => {
                    h2load::call_once(&testbed.authority, self.dir.path())
                }
                (None, _) if self.traffic.is_http2 => Http2Client::connect(addr, 0)
                    .and_then(|mut client| client.ask(&testbed.authority, "/", PAGE_LEN, START_LIMIT))
                    .map_err(|fault| into_error(&fault)),
                _ if self.traffic.is_http2 => h2load::once(&testbed.authority, secure.is_some()),
                (Some(secure), _) => probe::once_secure(addr, secure, exchange, START_LIMIT)
                    .map_err(|fault| into_error(&fault)),
                (None, _) => probe::once(addr, 0, exchange, START_LIMIT)
                    .map(|_| ())
                    .map_err(|fault| into_error(&fault)),
            };
            seen.is_ok()
        };
        // Its TCP port may be there before that of UDP.
        if target.product.listens_before_it_serves() || http3.is_some() {
            wait_until(START_LIMIT, see);
        } else {
            see();
        }
        seen.context("the page does not come through")?;
        testbed.is_alive()?;
        Ok(testbed)
    }

    /// Starts the servers, and `target` in front of them.
    fn start(
        &self,
        target: LabTarget,
        room: ConnectionRoom,
        configure: ConfigurationFor<'_>,
    ) -> anyhow::Result<Testbed> {
        let servers = self.start_servers().context("origin")?;
        let addr = servers.first().context("an upstream has servers")?.addr;
        let mut testbed = Testbed { servers, target: None, addr, authority: addr.to_string() };
        if target.product != Product::Direct {
            let configuration = configure(&self.addrs(&testbed.servers));
            let (child, addr) = self.start_target(target, &configuration, room)?;
            (testbed.target, testbed.addr, testbed.authority) = (Some(child), addr, addr.to_string());
        }
        Ok(testbed)
    }

    /// The same, with room for a server connection of each client besides: nginx counts both.
    ///
    /// # Errors
    /// When one of them does not start, or the page is wrong.
    pub fn set_up_with_servers(&self, target: LabTarget, clients: usize) -> anyhow::Result<Testbed> {
        let clients = clients as u64;
        self.set_up_with(target, ConnectionRoom { clients, servers: clients })
    }

    /// How clients speak TLS with `target`, with no session to resume yet; `None` when they do not. The origin has none.
    ///
    /// # Errors
    /// The error of the TLS library.
    pub fn secure_with(&self, target: LabTarget) -> anyhow::Result<Option<TlsClient>> {
        let tls = self.listener.tls.filter(|_| target.product != Product::Direct);
        let given = tls.zip(self.certificate.as_ref());
        let offer = |(tls, certificate): (Tls, &TargetCertificate)| {
            let tls = Tls { suite: self.suite.get().unwrap_or(tls.suite), ..tls };
            TlsClient::new(tls, &certificate.der, certificate::NAME)
        };
        given.map(offer).transpose()
    }

    /// How clients speak HTTP/3 with `target`; `None` when they do not.
    ///
    /// # Errors
    /// The error of the TLS library.
    pub fn http3_with(&self, target: LabTarget) -> anyhow::Result<Option<Http3Setup>> {
        let secure = self.secure_with(target)?.filter(|_| self.traffic.is_http3);
        secure.map(|tls| Http3Setup::new(&tls, QUIC_IDLE)).transpose()
    }

    fn start_servers(&self) -> anyhow::Result<Vec<ServerProcess>> {
        let number = 0..self.upstream.servers;
        if let Some(product) = web_server::product(self.upstream.origin) {
            return number.map(|_| in_attempts(|| ServerProcess::start_site(self, product))).collect();
        }
        if self.upstream.protocol != OriginProtocol::Http1 {
            return number.map(|_| in_attempts(|| ServerProcess::start_tool(self))).collect();
        }
        let UpstreamSetup { servers, slots, burn, one_process, .. } = self.upstream;
        let (processes, addresses) = if one_process { (1, servers) } else { (servers, 1) };
        let kind = ServerSetup { slots, addresses, journal: self.journal, burn, errors: None };
        let start = |number| {
            let errors = self.upstream.errors.filter(|_| number + 1 == processes);
            ServerProcess::start(self, number, ServerSetup { errors, ..kind })
        };
        (1..=processes).map(start).collect()
    }

    /// The addresses of all servers.
    fn addrs(&self, servers: &[ServerProcess]) -> Vec<SocketAddr> {
        match servers {
            [only] => (0..self.upstream.servers).map(|number| nth_addr(only.addr, number)).collect(),
            several => several.iter().map(|server| server.addr).collect(),
        }
    }

    fn start_target(
        &self,
        target: LabTarget,
        configuration: &Configuration,
        room: ConnectionRoom,
    ) -> anyhow::Result<(Guarded, SocketAddr)> {
        in_attempts(|| self.try_target(target, configuration, room))
    }

    fn try_target(
        &self,
        target: LabTarget,
        configuration: &Configuration,
        room: ConnectionRoom,
    ) -> anyhow::Result<(Guarded, SocketAddr)> {
        let name = target.product.name();
        let installed = self.products.get(name).with_context(|| format!("{name} is not installed"))?;
        let dir = self.dir_of(target);
        std::fs::create_dir_all(&dir)?;
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let rendered = self
            .render(target, installed, addr, configuration, room)
            .map_err(|ProductLacks(why)| anyhow::anyhow!("it {why}"))?;
        std::fs::write(dir.join(rendered.file), &rendered.text)?;
        if let Some((file, text)) = &rendered.second {
            std::fs::write(dir.join(file), text)?;
        }
        // The lab's own program may itself be a part of another one.
        let launcher = &self.options.launcher;
        let prefix = if target.product == Product::Relay { &launcher.prefix[..] } else { &[] };
        let job = Job {
            program: installed.program.clone(),
            args: [prefix, &rendered.args].concat(),
            env: rendered.env.clone(),
            cpus: self.target_cpus(),
            log: dir.join("output.log"),
        };
        self.records.borrow_mut().entry(target.to_string()).or_insert_with(|| TargetRecord {
            version: installed.version.clone(),
            tls_library: installed.tls_library.clone(),
            class: Some(target.class(self.class)),
            command: self.recorded_command(&job),
            file: rendered.file.to_owned(),
            config: self.without_folders(&rendered.text),
            second: rendered
                .second
                .as_ref()
                .map(|(file, text)| ((*file).to_owned(), self.without_folders(text))),
        });
        let mut child = Guarded::start(launcher, &job)?;
        child.wait_listening(addr, START_LIMIT)?;
        Ok((child, addr))
    }
}

impl Bench<'_> {
    /// Writes another configuration for a target, and makes it reload in the way of its product.
    ///
    /// # Errors
    /// When the product has no means for that, or the target is gone.
    pub fn reload(
        &self,
        target: LabTarget,
        testbed: &Testbed,
        configuration: &Configuration,
        room: ConnectionRoom,
    ) -> anyhow::Result<()> {
        let name = target.product.name();
        let cannot = |ProductLacks(why)| anyhow::anyhow!("it {why}");
        let installed = self.products.get(name).with_context(|| format!("{name} is not installed"))?;
        let rendered = self.render(target, installed, testbed.addr, configuration, room).map_err(cannot)?;
        let dir = self.dir_of(target);
        let second = rendered.second.as_ref().map(|(file, text)| (*file, text));
        for (file, text) in std::iter::once((rendered.file, &rendered.text)).chain(second) {
            // In one step, for targets that watch the file.
            let new = dir.join(format!("{file}.new"));
            std::fs::write(&new, text)?;
            std::fs::rename(new, dir.join(file))?;
        }
        let child = testbed.target.as_ref().context("there is nothing to reload")?;
        if let Some(signal) = target.product.reload().map_err(cannot)? {
            let pid = Pid::from_raw(child.pid()).context("a process id")?;
            kill_process(pid, signal).with_context(|| format!("{name} is gone"))?;
        }
        Ok(())
    }
}

impl Testbed {
    /// The counters of each server so far.
    ///
    /// # Errors
    /// When one keeps no journal, or it cannot be read.
    pub fn journals(&self) -> anyhow::Result<Vec<Vec<JournalEntry>>> {
        self.servers.iter().map(ServerProcess::visits).collect()
    }

    /// Fails when origin or target has ended by itself.
    ///
    /// # Errors
    /// How it ended.
    pub fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(how) = self.target.as_mut().and_then(Guarded::ended) {
            bail!("the target ended: {how}");
        }
        self.servers.iter_mut().try_for_each(ServerProcess::is_alive)
    }
}

/// The result of the first attempt that succeeds, or of the last one.
fn in_attempts<T>(start: impl Fn() -> anyhow::Result<T>) -> anyhow::Result<T> {
    (1..ATTEMPTS).find_map(|_| start().ok()).map_or_else(&start, Ok)
}

/// Asks for the page by HTTP/3.
fn ask_http3(addr: SocketAddr, setup: &Http3Setup, authority: &str) -> anyhow::Result<()> {
    let request = request::get(authority, "/", PAGE_LEN);
    Http3Client::connect(addr, setup)
        .and_then(|client| client.ask(&request, START_LIMIT))
        .map_err(|fault| into_error(&fault))
}

/// The same as an error.
fn into_error(fault: &LoadFault) -> anyhow::Error {
    anyhow::anyhow!("{fault}")
}
