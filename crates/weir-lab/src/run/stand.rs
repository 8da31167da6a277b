//! Everything one measurement stands on: a fresh origin, a fresh target in front of it, each on its CPU.
//!
//! Fresh each time, so that no measurement inherits memory, connections or address layout from another, and chance in
//! these falls on all targets alike. Proven to answer correctly before any load.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use super::Options;
use crate::load::exchange::{Shape, prepare};
use crate::load::probe;
use crate::origin::PAGE_LEN;
use crate::place::Placement;
use crate::process::{Guarded, Job};
use crate::target::installed::Catalogue;
use crate::target::{Class, Description, Product, Target, render};

/// Longest wait for a program to listen.
const START_LIMIT: Duration = Duration::from_secs(10);

/// Attempts to start a target: another process may have taken its port in between.
const ATTEMPTS: u32 = 3;

/// How a target was run, for the report.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The product's words about its version.
    pub version: String,
    /// The command line.
    pub command: String,
    /// Name of the configuration file.
    pub file: String,
    /// The configuration.
    pub config: String,
}

/// What all measurements of a run share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The user's choices.
    pub options: &'a Options,
    /// The products found.
    pub products: Catalogue,
    /// How targets are configured.
    pub class: Class,
    /// The two CPUs; `None` leaves everything to the kernel.
    pub placement: Option<Placement>,
    /// A folder that goes when the run is over.
    pub dir: TempDir,
    /// How each target was run, the first time.
    pub records: RefCell<BTreeMap<String, Record>>,
}

/// Origin and target of one measurement; both end when it is dropped.
#[derive(Debug)]
pub struct Stand {
    /// The origin.
    pub origin: Guarded,
    /// Where the origin listens.
    pub origin_addr: SocketAddr,
    /// The target; none for direct.
    pub target: Option<Guarded>,
    /// Where the load goes.
    pub addr: SocketAddr,
}

impl Bench<'_> {
    /// CPUs of client and origin.
    pub fn client_cpus(&self) -> Vec<usize> {
        self.placement.map(|placement| vec![placement.client]).unwrap_or_default()
    }

    fn target_cpus(&self) -> Vec<usize> {
        self.placement.map(|placement| vec![placement.target]).unwrap_or_default()
    }

    /// Starts an origin and `target` in front of it with room for `clients`, and sees that the page comes through.
    ///
    /// # Errors
    /// When one of them does not start, or the page is wrong.
    pub fn stand(&self, target: Target, clients: u64) -> anyhow::Result<Stand> {
        let (origin, origin_addr) = self.start_origin().context("origin")?;
        let mut stand = Stand { origin, origin_addr, target: None, addr: origin_addr };
        if target.product != Product::Direct {
            let (child, addr) = self.start_target(target, origin_addr, clients)?;
            (stand.target, stand.addr) = (Some(child), addr);
        }
        let shape = Shape { host: stand.addr, path: "/", body_len: 0, answer_len: PAGE_LEN, close: false };
        probe::once(stand.addr, 0, &prepare(&shape)[0], START_LIMIT)
            .map_err(|fault| anyhow::anyhow!("the page does not come through: {fault}"))?;
        Ok(stand)
    }

    fn start_origin(&self) -> anyhow::Result<(Guarded, SocketAddr)> {
        let launcher = &self.options.launcher;
        let args = ["origin", "--listen", "127.0.0.1:0"].map(str::to_owned);
        let job = Job {
            program: launcher.program.clone(),
            args: launcher.prefix.iter().cloned().chain(args).collect(),
            cpus: self.client_cpus(),
            log: self.dir.path().join("origin.log"),
        };
        let mut origin = Guarded::start(launcher, &job)?;
        let addr = origin.wait_for_line("listening on ", START_LIMIT)?.parse()?;
        Ok((origin, addr))
    }

    fn start_target(
        &self,
        target: Target,
        origin: SocketAddr,
        clients: u64,
    ) -> anyhow::Result<(Guarded, SocketAddr)> {
        let mut attempt = 1;
        loop {
            match self.try_target(target, origin, clients) {
                Err(_) if attempt < ATTEMPTS => attempt += 1,
                result => return result,
            }
        }
    }

    fn try_target(
        &self,
        target: Target,
        origin: SocketAddr,
        clients: u64,
    ) -> anyhow::Result<(Guarded, SocketAddr)> {
        let name = target.product.name();
        let installed = self.products.get(name).with_context(|| format!("{name} is not installed"))?;
        let dir = self.dir.path().join(target.to_string().replace('/', "-"));
        std::fs::create_dir_all(&dir)?;
        let addr = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let description = Description {
            listen: addr,
            origin,
            class: self.class,
            server_reuse: target.server_reuse,
            clients,
            dir: &dir,
        };
        let Some(rendered) = render(target.product, &description) else { bail!("{name} is no program") };
        std::fs::write(dir.join(rendered.file), &rendered.text)?;
        let job = Job {
            program: installed.program.clone(),
            args: rendered.args,
            cpus: self.target_cpus(),
            log: dir.join("output.log"),
        };
        self.records.borrow_mut().entry(target.to_string()).or_insert_with(|| Record {
            version: installed.version.clone(),
            command: self.told_command(&job),
            file: rendered.file.to_owned(),
            config: rendered.text,
        });
        let mut child = Guarded::start(&self.options.launcher, &job)?;
        child.wait_listening(addr, START_LIMIT)?;
        Ok((child, addr))
    }
}

impl Bench<'_> {
    /// The command line without the folders of this machine, which mean nothing elsewhere.
    fn told_command(&self, job: &Job) -> String {
        let folder = self.dir.path().display().to_string();
        let program = job.program.file_name().unwrap_or_default().to_string_lossy();
        let line = Job { program: program.as_ref().into(), ..job.clone() }.command_line();
        line.replace(&folder, "RUN")
    }
}

impl Stand {
    /// Fails when origin or target has ended by itself.
    ///
    /// # Errors
    /// How it ended.
    pub fn is_alive(&mut self) -> anyhow::Result<()> {
        if let Some(how) = self.target.as_mut().and_then(Guarded::ended) {
            bail!("the target ended: {how}");
        }
        if let Some(how) = self.origin.ended() {
            bail!("the origin ended: {how}");
        }
        Ok(())
    }
}
