//! The addresses where the process accepts connections, over all workers, and what a reload makes of them.
//!
//! A socket stays open as long as some listener of the config has its address: nobody who waits in its backlog is lost, also when the
//! listener has another name now. New addresses are bound before anything else changes.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};

use weir_config::{Config, ListenAddress, Listener};

use crate::control::start_error::StartError;
use crate::net::listening::{self, BoundAddress, SocketFile};
use crate::net::sys;
use crate::worker::apply_config::DoorTurn;

/// An address in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listened {
    /// The listener in the config; `admin` for the admin listener, `runtime` for the runtime socket.
    pub listener: Box<str>,
    /// The address, with the port that the system chose where the config left it open.
    pub address: BoundAddress,
}

/// All addresses in use.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    open: Vec<Door>,
    /// Counts the addresses that were ever bound.
    bound: u64,
}

/// An address in use.
#[derive(Debug, Clone)]
struct Door {
    id: u64,
    listener: Box<str>,
    /// As the config has it.
    address: ListenAddress,
    bound: BoundAddress,
    file: Option<SocketFile>,
    /// Those of the workers, as long as they are open.
    sockets: Vec<Weak<OwnedFd>>,
}

/// The addresses of a config, bound and not yet in use.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) doors: Doors,
    /// What each worker is told.
    pub(crate) turns: Vec<Vec<DoorTurn>>,
    /// Files of sockets that are not used any more.
    pub(crate) stale_files: Vec<SocketFile>,
}

impl Doors {
    /// Binds the addresses of `config` that are not in use yet.
    ///
    /// # Errors
    /// When one cannot be had; then none of them stays bound.
    pub(crate) fn succeeded_by(&self, config: &Config, workers: usize) -> Result<Opened, StartError> {
        let of_listener =
            |listener: usize| config.listeners[listener].addresses.iter().map(move |it| (listener, it));
        let wanted: Vec<_> = (0..config.listeners.len()).flat_map(of_listener).collect();
        let known = self.find(config, &wanted);
        let is_left = |door: &&Door| !known.iter().flatten().any(|known| known.id == door.id);
        let left: Vec<&Door> = self.open.iter().filter(is_left).collect();
        self.probe(
            config,
            wanted.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(it, _)| *it),
        )?;
        let mut doors = Self { open: Vec::new(), bound: self.bound };
        let mut turns: Vec<Vec<DoorTurn>> = (0..workers).map(|_| Vec::new()).collect();
        for ((place, address), known) in wanted.into_iter().zip(&known) {
            let listener = &config.listeners[place];
            let (door, sockets) = match known {
                Some(door) => (Door { listener: listener.name.clone(), ..(*door).clone() }, Vec::new()),
                None => {
                    let bound = listening::bind(listener, address, workers);
                    let bound = bound.map_err(|error| cannot_bind(listener, address, error))?;
                    doors.bound += 1;
                    let (listener, address) = (listener.name.clone(), address.clone());
                    let opened: Vec<_> = bound.sockets.into_iter().map(Arc::new).collect();
                    let sockets = opened.iter().map(Arc::downgrade).collect();
                    let (id, file, bound) = (doors.bound, bound.file, bound.address);
                    (Door { id, listener, address, bound, file, sockets }, opened)
                }
            };
            let (id, port) = (door.id, port(&door.bound));
            let mut sockets = sockets.into_iter();
            for turns in &mut turns {
                turns.push(DoorTurn { id, listener: place, port, socket: sockets.next() });
            }
            doors.open.push(door);
        }
        let stale_files = left.iter().filter_map(|door| door.file.clone()).collect();
        Ok(Opened { doors, turns, stale_files })
    }

    /// Makes sure that no other process has an address that is about to be bound; before any is, so that they are not in each other's way.
    fn probe<'a>(
        &self,
        config: &Config,
        wanted: impl Iterator<Item = (usize, &'a ListenAddress)>,
    ) -> Result<(), StartError> {
        let taken: Vec<ListenAddress> = self.open.iter().map(Door::takes).collect();
        for (place, address) in wanted {
            // Nor are those that this process has already, whether they stay or go.
            if !taken.iter().any(|taken| taken.overlaps(address)) {
                let listener = &config.listeners[place];
                listening::probe(listener, address).map_err(|error| cannot_bind(listener, address, error))?;
            }
        }
        Ok(())
    }

    /// The address in use that each wanted one is: rather one of the same listener than one of another.
    fn find(&self, config: &Config, wanted: &[(usize, &ListenAddress)]) -> Vec<Option<&Door>> {
        let mut free: Vec<&Door> = self.open.iter().collect();
        let mut take = |is_it: &dyn Fn(&Door) -> bool| {
            let at = free.iter().position(|door| is_it(door))?;
            Some(free.remove(at))
        };
        let of_same_listener = |(listener, address): &(usize, &ListenAddress)| {
            let name = &config.listeners[*listener].name;
            take(&|door| door.listener == *name && door.address == **address)
        };
        let mut found: Vec<_> = wanted.iter().map(of_same_listener).collect();
        for ((_, address), found) in wanted.iter().zip(&mut found) {
            // Any free port: another listener would get another one.
            if found.is_none() && port_of(address) != Some(0) {
                *found = take(&|door| door.address == **address);
            }
        }
        found
    }

    /// Has new connections refused from now on; those that are in a backlog, or on their way there, are still accepted.
    ///
    /// All at once: the sockets of an address share its connections as long as one of them takes any, and a SYN that one gets which
    /// does not is lost.
    pub(crate) fn refuse_new(&self) {
        let inet = self.open.iter().filter(|door| matches!(door.bound, BoundAddress::Inet(_)));
        for socket in inet.flat_map(|door| &door.sockets).filter_map(Weak::upgrade) {
            if let Err(error) = sys::refuse_new(socket.as_fd()) {
                tracing::warn!(%error, "connections that are made while Weir stops may be reset");
            }
        }
    }

    /// The files of Unix sockets in use.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SocketFile> {
        self.open.iter().filter_map(|door| door.file.as_ref())
    }

    /// The addresses, in the order of the config.
    pub(crate) fn listened(&self) -> Vec<Listened> {
        let listened =
            |door: &Door| Listened { listener: door.listener.clone(), address: door.bound.clone() };
        self.open.iter().map(listened).collect()
    }
}

impl Door {
    /// What nobody else can have, with the port that the system chose.
    fn takes(&self) -> ListenAddress {
        match (&self.address, &self.bound) {
            (ListenAddress::AllTcp { .. }, BoundAddress::Inet(addr)) => {
                ListenAddress::AllTcp { port: addr.port() }
            }
            (_, BoundAddress::Inet(addr)) => ListenAddress::Tcp(*addr),
            (_, BoundAddress::Unix(path)) => ListenAddress::Unix(path.clone()),
        }
    }
}

fn cannot_bind(listener: &Listener, address: &ListenAddress, error: io::Error) -> StartError {
    StartError::Bind { listener: listener.name.clone(), address: address.to_string(), error }
}

fn port(bound: &BoundAddress) -> Option<u16> {
    match bound {
        BoundAddress::Inet(addr) => Some(addr.port()),
        BoundAddress::Unix(_) => None,
    }
}

fn port_of(address: &ListenAddress) -> Option<u16> {
    match address {
        ListenAddress::Tcp(addr) => Some(addr.port()),
        ListenAddress::AllTcp { port } => Some(*port),
        ListenAddress::Unix(_) => None,
    }
}
