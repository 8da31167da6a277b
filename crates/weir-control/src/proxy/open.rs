//! The first part of the start: opens everything that may need privileges, before they are given up and before any thread is started.

use std::net::{SocketAddr, TcpListener};
use std::num::NonZeroUsize;
use std::sync::Arc;

use weir_config::{Config, ListenAddress, WorkerCount};
use weir_proxy::net::cpus;
use weir_proxy::net::listening::{BoundAddress, SocketFile};
use weir_proxy::net::memory::bound_sockets_by;
use weir_proxy::net::tls::key_log::KeyLogFile;
use weir_proxy::state::datagrams::HandedGeneration;

use super::handover::HandedAdminSockets;
use crate::administration::admin;
use crate::administration::runtime_socket;
use crate::administration::runtime_socket::RuntimeListener;
use crate::lifecycle::pid_file::PidFile;
use crate::lifecycle::privileges;
use crate::lifecycle::process::raise_open_files;
use crate::lifecycle::sockets::inherited_sockets::InheritedSockets;
use crate::lifecycle::sockets::listening_sockets::{ListeningSockets, OpenedSockets};
use crate::lifecycle::upgrade::handover::{AddressRole, HandedState, Handover};
use crate::memory::MemoryFiles;
use crate::start_error::StartError;
use crate::telemetry::logs::access_log;
use crate::telemetry::logs::access_log::OpenedLogs;

/// What a proxy starts with: addresses that are bound, and files that are open.
pub struct OpenedProxy {
    pub(super) sockets: OpenedSockets,
    pub(super) admin: Option<OpenedAdmin>,
    pub(super) runtime: Option<OpenedRuntime>,
    pub(super) logs: OpenedLogs,
    /// Logs of TLS keys: listeners and upstreams find them open.
    pub(super) key_logs: Vec<Arc<KeyLogFile>>,
    pub(super) pid_file: Option<PidFile>,
    pub(super) memory: MemoryFiles,
    /// The addresses of the process before, in its order.
    pub(super) offered: Vec<(AddressRole, ListenAddress)>,
    /// Processes before this one that may have connections of datagrams still.
    pub(super) generations: Vec<HandedGeneration>,
    /// The state of the process before.
    pub(super) state: HandedState,
}

/// The admin listener, and its address.
pub(super) type OpenedAdmin = (TcpListener, SocketAddr);

/// The runtime socket.
pub(super) struct OpenedRuntime {
    pub(super) listener: RuntimeListener,
    pub(super) address: BoundAddress,
    /// That of a Unix socket.
    pub(super) file: Option<SocketFile>,
}

impl OpenedProxy {
    /// Binds every address of `config` that neither a socket of the supervisor nor one of the process before has, and opens its logs. No
    /// thread is started.
    ///
    /// # Errors
    /// When one of them cannot be had.
    pub fn open(
        config: &Config,
        inherited: InheritedSockets,
        handover: Handover,
    ) -> Result<Self, StartError> {
        privileges::check(config)?;
        raise_open_files();
        let Handover { addresses, datagrams, state } = handover;
        let offered = addresses.iter().map(|handed| (handed.role, handed.address.clone())).collect();
        let (addresses, mut handed) = HandedAdminSockets::split_off(addresses);
        let pid_file = PidFile::prepare(&config.identity, state.process)?;
        let workers = worker_count(config).get();
        let memory = MemoryFiles::open();
        bound_sockets_by(memory.socket_bounds(&config.process));
        inherited.tell_unused(config);
        let sockets = ListeningSockets::beginning_with(addresses, inherited, datagrams.sockets)
            .succeeded_by(config, workers)?;
        let opened = Self {
            logs: access_log::open(config).map_err(StartError::AccessLog)?,
            key_logs: open_key_logs(config)?,
            admin: bind_admin(config, &mut handed)?,
            runtime: bind_runtime(config, &mut handed)?,
            sockets,
            pid_file,
            memory,
            offered,
            generations: datagrams.generations,
            state,
        };
        opened.hand_over(config)?;
        Ok(opened)
    }

    /// Gives the files of sockets to the user that the process becomes, as if that user had bound them.
    fn hand_over(&self, config: &Config) -> Result<(), StartError> {
        let Some(account) = &config.identity.account else { return Ok(()) };
        let Some((_, uid)) = account.user.as_ref().filter(|_| rustix::process::geteuid().is_root()) else {
            return Ok(());
        };
        let runtime = self.runtime.as_ref().and_then(|runtime| runtime.file.as_ref());
        for file in self.sockets.listening_sockets.files().chain(runtime) {
            let given = file.give_to(*uid, account.group);
            given.map_err(|error| StartError::Privileges { what: "hand a socket over".into(), error })?;
        }
        Ok(())
    }
}

/// Opens the logs of TLS keys, which the user that the process becomes may not be able to.
fn open_key_logs(config: &Config) -> Result<Vec<Arc<KeyLogFile>>, StartError> {
    let failed = |error| StartError::KeyLog { error };
    let account = config.identity.account.as_ref().filter(|_| rustix::process::geteuid().is_root());
    let mut opened = Vec::new();
    for path in config.key_logs() {
        let file = KeyLogFile::open(path).map_err(failed)?;
        if let Some(account) = account {
            let uid = account.user.as_ref().map(|(_, uid)| *uid);
            file.give_to(uid, account.group).map_err(failed)?;
        }
        opened.push(file);
    }
    Ok(opened)
}

fn bind_admin(config: &Config, handed: &mut HandedAdminSockets) -> Result<Option<OpenedAdmin>, StartError> {
    let Some(address) = config.admin.address else { return Ok(None) };
    let bound = match handed.take(AddressRole::Admin, &ListenAddress::Tcp(address)) {
        Some(handed) => admin::take_over(handed.sockets),
        None => admin::bind(address),
    };
    bound.map(Some).map_err(|error| StartError::BindAdmin { address, error })
}

fn bind_runtime(
    config: &Config,
    handed: &mut HandedAdminSockets,
) -> Result<Option<OpenedRuntime>, StartError> {
    let Some(address) = &config.admin.socket else { return Ok(None) };
    let mode = config.admin.socket_mode;
    let bound = match handed.take(AddressRole::Runtime, address) {
        Some(handed) => runtime_socket::take_over(handed, mode),
        None => runtime_socket::bind(address, mode),
    };
    let (listener, address) =
        bound.map_err(|error| StartError::BindSocket { address: address.to_string(), error })?;
    let file = match &address {
        BoundAddress::Unix(path) => SocketFile::bound_at(path).ok(),
        BoundAddress::Inet(_) => None,
    };
    Ok(Some(OpenedRuntime { listener, address, file }))
}

/// The number of workers of `config`.
pub(super) fn worker_count(config: &Config) -> NonZeroUsize {
    match config.process.workers {
        WorkerCount::Exactly(count) => count,
        WorkerCount::Auto => workers_by_default(),
    }
}

/// The number of workers of [`WorkerCount::Auto`] on this machine.
pub fn workers_by_default() -> NonZeroUsize {
    NonZeroUsize::new(cpus::usable().len().min(cpus::quota())).unwrap_or(NonZeroUsize::MIN)
}
