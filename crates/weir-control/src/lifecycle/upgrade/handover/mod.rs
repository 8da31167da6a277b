//! What a process hands to the one that replaces it: its listening sockets, and the state that outlives a reload.
//!
//! Both ends are here: the running process gives, the new one receives, over a pair of connected Unix sockets. The sockets stay open
//! all the while, in one process or the other, so that no connection is refused and none in a backlog is lost. Must not start or end
//! a process: that is for `weir`.

mod channel;
mod state;
mod tables;

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::str::FromStr as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_config::ListenAddress;

use super::running_requests::RunningRequests;
pub(crate) use channel::Channel;
pub use state::HandedFragments;
pub(crate) use state::{HandedAgent, HandedChange, HandedHealth, HandedMode, HandedState};
pub(crate) use tables::{
    ENTRIES_MAX, HandedCookies, HandedEjection, HandedRate, HandedTable, HandedTables, HandedTickets,
    LearnedOf,
};
use weir_proxy::net::listening::BoundAddress;
use weir_proxy::state::datagrams::HandedGeneration;

/// Changes when a process cannot understand the offer of an earlier one any more.
const PROTOCOL: u32 = 1;

/// The most sockets that are handed over; a process has no more descriptors.
const SOCKETS_MAX: usize = 1 << 20;

/// What is handed over.
#[derive(Debug, Default)]
pub struct Handover {
    pub(crate) addresses: Vec<HandedAddress>,
    pub(crate) datagrams: HandedDatagrams,
    pub(crate) state: HandedState,
}

/// Where datagrams are received, and what the next process needs so that their connections go on.
#[derive(Debug, Default)]
pub(crate) struct HandedDatagrams {
    /// The sockets of each address.
    pub(crate) sockets: Vec<(SocketAddr, Vec<OwnedFd>)>,
    /// Of the process itself, and of those before it.
    pub(crate) generations: Vec<HandedGeneration>,
}

impl Handover {
    /// The same with fragments of stores.
    #[must_use]
    pub fn with_fragments(mut self, fragments: Vec<HandedFragments>) -> Self {
        self.state.fragments = fragments;
        self
    }

    /// Fragments of stores.
    pub fn fragments(&self) -> &[HandedFragments] {
        &self.state.fragments
    }
}

/// An address where the running process accepts connections.
#[derive(Debug)]
pub(crate) struct HandedAddress {
    pub(crate) role: AddressRole,
    /// The listener in the config.
    pub(crate) listener: Box<str>,
    /// As the config has it.
    pub(crate) address: ListenAddress,
    pub(crate) bound: BoundAddress,
    pub(crate) sockets: Vec<OwnedFd>,
    /// Whether the supervisor has opened it.
    pub(crate) is_inherited: bool,
}

/// What an address is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AddressRole {
    Listener,
    Admin,
    Runtime,
}

/// What the new process has taken over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Takeover {
    /// How many sockets of each address it uses, in the order of the offer.
    pub(crate) sockets: Vec<usize>,
    /// Where it receives datagrams on the sockets that it was given.
    #[serde(default)]
    pub(crate) datagrams: Vec<SocketAddr>,
    /// Its version.
    pub version: String,
}

/// Why a handover failed.
#[derive(Debug, thiserror::Error)]
pub enum HandoverError {
    /// The other process has ended, or is silent.
    #[error("the other process ended the handover: {0}")]
    Channel(#[from] std::io::Error),
    /// The new process cannot start.
    #[error("{0}")]
    Refused(String),
    /// The two are of versions that do not understand each other.
    #[error(
        "the running process offers a handover of version {0}, and this program knows version {PROTOCOL}"
    )]
    Protocol(u32),
    /// A message makes no sense.
    #[error("the other process sent {0}")]
    Invalid(String),
}

/// The first message, of the running process.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    protocol: u32,
    addresses: Vec<OfferedAddress>,
    /// Sockets for datagrams follow behind those: of each address, then one of each process.
    #[serde(default)]
    datagrams: OfferedDatagrams,
    state: HandedState,
}

/// What there is for datagrams.
#[derive(Debug, Default, Serialize, Deserialize)]
struct OfferedDatagrams {
    addresses: Vec<(SocketAddr, usize)>,
    /// By what the connection IDs of each process are known.
    generations: Vec<Vec<u8>>,
}

/// An address of the offer; as many sockets follow.
#[derive(Debug, Serialize, Deserialize)]
struct OfferedAddress {
    role: AddressRole,
    listener: Box<str>,
    address: String,
    bound: String,
    sockets: usize,
    is_inherited: bool,
}

/// The second message, of the new process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    /// It accepts connections.
    Ready(Takeover),
    /// It does not start.
    Failed(String),
}

/// The third message: the running process accepts no more. It is sent again whenever its requests have changed, until it ends.
#[derive(Debug, Serialize, Deserialize)]
struct Confirmation {
    /// What runs there still.
    #[serde(default)]
    running: Vec<RunningRequests>,
}

impl HandedDatagrams {
    fn offered(&self) -> OfferedDatagrams {
        OfferedDatagrams {
            addresses: self.sockets.iter().map(|(addr, sockets)| (*addr, sockets.len())).collect(),
            generations: self.generations.iter().map(|generation| generation.ids.clone()).collect(),
        }
    }

    /// In the order in which they are offered.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        let sockets = self.sockets.iter().flat_map(|(_, sockets)| sockets);
        let of_processes = self.generations.iter().map(|generation| &generation.socket);
        sockets.chain(of_processes).map(OwnedFd::as_fd).collect()
    }
}

/// The end of the running process.
#[derive(Debug)]
pub struct HandoverGiver(Channel);

impl HandoverGiver {
    /// Waits up to `patience` for each message of the new process, at the other end of `stream`.
    ///
    /// # Errors
    /// When the system refuses a time limit.
    pub fn new(stream: UnixStream, patience: Duration) -> std::io::Result<Self> {
        Channel::new(stream, Some(patience)).map(Self)
    }

    /// Gives everything, and waits until the new process accepts connections.
    ///
    /// # Errors
    /// When it does not; then nothing has changed here.
    pub fn give(&self, handover: &Handover) -> Result<Takeover, HandoverError> {
        let addresses = handover.addresses.iter().map(|handed| OfferedAddress {
            role: handed.role,
            listener: handed.listener.clone(),
            address: handed.address.to_string(),
            bound: handed.bound.to_string(),
            sockets: handed.sockets.len(),
            is_inherited: handed.is_inherited,
        });
        self.0.send(&Offer {
            protocol: PROTOCOL,
            addresses: addresses.collect(),
            datagrams: handover.datagrams.offered(),
            state: handover.state.clone(),
        })?;
        for handed in &handover.addresses {
            let sockets: Vec<BorrowedFd<'_>> = handed.sockets.iter().map(OwnedFd::as_fd).collect();
            self.0.send_descriptors(&sockets)?;
        }
        self.0.send_descriptors(&handover.datagrams.descriptors())?;
        match self.0.receive()? {
            Reply::Ready(taken) if taken.sockets.len() == handover.addresses.len() => Ok(taken),
            Reply::Ready(taken) => {
                Err(HandoverError::Invalid(format!("{} addresses as taken", taken.sockets.len())))
            }
            Reply::Failed(error) => {
                // It has messages to print before it ends.
                let _ended = self.0.receive::<Confirmation>();
                Err(HandoverError::Refused(error))
            }
        }
    }

    /// Tells the new process that it is the only one to be known from now on, and what runs here still.
    pub fn confirm(&self, running: Vec<RunningRequests>) {
        if let Err(error) = self.0.send(&Confirmation { running }) {
            tracing::warn!(%error, "the new process ended right after it was ready");
        }
    }

    /// Tells it what runs here still; whether it is there.
    pub fn tell_running(&self, running: Vec<RunningRequests>) -> bool {
        self.0.send(&Confirmation { running }).is_ok()
    }
}

/// The end of the new process.
#[derive(Debug)]
pub struct HandoverReceiver(Channel);

impl HandoverReceiver {
    /// The running process is at the other end of `stream`. It is waited for as long as it takes: it ends with its side.
    ///
    /// # Errors
    /// When the system refuses a time limit.
    pub fn new(stream: UnixStream) -> std::io::Result<Self> {
        Channel::new(stream, None).map(Self)
    }

    /// Receives everything.
    ///
    /// # Errors
    /// When the running process is of a version that this one does not understand, or has ended.
    pub fn receive(&self) -> Result<Handover, HandoverError> {
        let Offer { protocol, addresses, datagrams, state } = self.0.receive()?;
        if protocol != PROTOCOL {
            return Err(HandoverError::Protocol(protocol));
        }
        let mut handed = Vec::with_capacity(addresses.len());
        for offered in addresses {
            if offered.sockets > SOCKETS_MAX {
                return Err(HandoverError::Invalid(format!("{} sockets", offered.sockets)));
            }
            let invalid = || HandoverError::Invalid(format!("the address {}", offered.address));
            let bound = ListenAddress::from_str(&offered.bound).map_err(|_| invalid())?;
            let bound = match bound {
                ListenAddress::Tcp(address) => BoundAddress::Inet(address),
                ListenAddress::Unix(path) => BoundAddress::Unix(path),
                ListenAddress::AllTcp { .. } => return Err(invalid()),
            };
            handed.push(HandedAddress {
                role: offered.role,
                address: ListenAddress::from_str(&offered.address).map_err(|_| invalid())?,
                bound,
                sockets: self.0.receive_descriptors(offered.sockets)?,
                listener: offered.listener,
                is_inherited: offered.is_inherited,
            });
        }
        let datagrams = self.receive_datagrams(datagrams)?;
        Ok(Handover { addresses: handed, datagrams, state })
    }

    fn receive_datagrams(&self, offered: OfferedDatagrams) -> Result<HandedDatagrams, HandoverError> {
        let counts = offered.addresses.iter().map(|(_, count)| *count);
        if let Some(count) = counts.clone().find(|count| *count > SOCKETS_MAX) {
            return Err(HandoverError::Invalid(format!("{count} sockets")));
        }
        let count = counts.sum::<usize>() + offered.generations.len();
        let mut descriptors = self.0.receive_descriptors(count)?.into_iter();
        let sockets = offered.addresses.into_iter();
        let sockets =
            sockets.map(|(addr, count)| (addr, descriptors.by_ref().take(count).collect())).collect();
        let generations = offered.generations.into_iter().zip(descriptors);
        let generations = generations.map(|(ids, socket)| HandedGeneration { ids, socket }).collect();
        Ok(HandedDatagrams { sockets, generations })
    }

    /// Tells the running process that this one accepts connections, and waits until that one does not any more; gives what runs there still.
    pub fn tell_ready(&self, taken: Takeover) -> Vec<RunningRequests> {
        let told = self.0.send(&Reply::Ready(taken));
        match told.and_then(|()| self.0.receive::<Confirmation>()) {
            Ok(confirmation) => confirmation.running,
            Err(error) => {
                tracing::warn!(%error, "the process before this one ended without a word");
                Vec::new()
            }
        }
    }

    /// Waits until other requests run there; `None`: it has ended.
    pub fn next_running(&self) -> Option<Vec<RunningRequests>> {
        self.0.receive::<Confirmation>().ok().map(|confirmation| confirmation.running)
    }

    /// Tells the running process that this one does not start.
    pub fn tell_failed(&self, error: &str) {
        let _gone = self.0.send(&Reply::Failed(error.to_owned()));
    }
}
