//! The bench: the state that all measurements of a run share, and a target's configuration in the words of its product.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Options;
use super::configurations::Configuration;
use crate::installed::Installed;
use crate::origin::nth_addr;
use crate::placement::Placement;
use crate::process::Job;
use crate::results::record::TargetRecord;
use crate::target::search::Catalogue;
use crate::target::{ConnectionRoom, Description, Rendered, TargetCertificate, Traffic, render};
use crate::topology::listener::{ListenerSetup, Suite};
use crate::topology::product::{Product, ProductLacks};
use crate::topology::target::{LabTarget, TuningClass};
use crate::topology::upstream::UpstreamSetup;

/// The state that all measurements of a run share.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The user's choices.
    pub options: &'a Options,
    /// The products found.
    pub products: Catalogue,
    /// How targets are configured.
    pub class: TuningClass,
    /// Their protocol with clients.
    pub listener: ListenerSetup,
    /// Their certificate for clients with TLS.
    pub certificate: Option<TargetCertificate>,
    /// The suite that clients offer now, where the scenario has several.
    pub suite: Cell<Option<Suite>>,
    /// The traffic through them.
    pub traffic: Traffic,
    /// The servers behind them.
    pub upstream: UpstreamSetup,
    /// The servers keep a journal.
    pub journal: bool,
    /// Bytes of another answer that a server with files has to have.
    pub large_answer: Option<u64>,
    /// The work changes the servers or the target, or reads their journals.
    pub needs_servers: bool,
    /// The two CPUs; `None` leaves everything to the kernel.
    pub placement: Option<Placement>,
    /// A folder that goes when the run is over.
    pub dir: TempDir,
    /// How each target was run, the first time.
    pub records: RefCell<BTreeMap<String, TargetRecord>>,
}

impl Bench<'_> {
    /// CPUs of client and origin.
    pub fn client_cpus(&self) -> Vec<usize> {
        self.placement.map(|placement| vec![placement.client]).unwrap_or_default()
    }

    pub(super) fn target_cpus(&self) -> Vec<usize> {
        self.placement.map(|placement| vec![placement.target]).unwrap_or_default()
    }

    /// The folder of a target's files.
    pub fn dir_of(&self, target: LabTarget) -> PathBuf {
        self.dir.path().join(target.to_string().replace('/', "-"))
    }

    /// The description of the run in the words of `target`.
    pub(super) fn render(
        &self,
        target: LabTarget,
        installed: &Installed,
        listen: SocketAddr,
        Configuration { servers, upstream, extra }: &Configuration,
        room: ConnectionRoom,
    ) -> Result<Rendered, ProductLacks> {
        render(
            target.product,
            &Description {
                listen,
                listener: &self.listener,
                servers,
                upstream,
                class: target.class(self.class),
                variant: target.variant,
                traffic: self.traffic,
                room,
                certificate: self.certificate.as_ref(),
                stream_module: installed.stream_module.as_deref(),
                module_folder: installed.module_folder.as_deref(),
                has_http3: installed.has_http3,
                is_root: rustix::process::geteuid().is_root(),
                dir: &self.dir_of(target),
                extra,
            },
        )
    }

    /// The feature of the run that `target` lacks, found before anything is started.
    pub fn cannot(&self, target: LabTarget) -> Option<ProductLacks> {
        if target.product == Product::Url {
            return self.url_cannot();
        }
        let installed = self.products.get(target.product.name())?;
        let somewhere = SocketAddr::from(([127, 0, 0, 1], 1));
        let servers: Vec<SocketAddr> =
            (0..self.upstream.servers).map(|number| nth_addr(somewhere, number)).collect();
        let room = ConnectionRoom { clients: 1, servers: 0 };
        let reload = if self.traffic.is_reloaded { target.product.reload().err() } else { None };
        let configuration = Configuration::of(&servers, &self.upstream);
        reload.or(self.render(target, installed, somewhere, &configuration, room).err())
    }

    /// The feature that a balancer lacks that the lab does not start.
    fn url_cannot(&self) -> Option<ProductLacks> {
        if self.listener.tls.is_some() {
            Some(ProductLacks("was given with http://, and this is about TLS"))
        } else if self.needs_servers {
            Some(ProductLacks("has servers that the lab neither starts nor sees"))
        } else {
            None
        }
    }

    /// The command line without the folders of this machine, which mean nothing elsewhere.
    pub(super) fn recorded_command(&self, job: &Job) -> String {
        let program = job.program.file_name().unwrap_or_default().to_string_lossy();
        let line = Job { program: program.as_ref().into(), ..job.clone() }.command_line();
        self.without_folders(&line)
    }

    pub(super) fn without_folders(&self, text: &str) -> String {
        text.replace(&self.dir.path().display().to_string(), "RUN")
    }
}
