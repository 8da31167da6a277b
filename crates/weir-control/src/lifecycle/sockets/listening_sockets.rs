//! The addresses where the process accepts connections, over all workers, and their changes by a reload.
//!
//! A socket stays open as long as some listener of the config has its address: no connection in its backlog is lost, even when the
//! listener has another name now. New addresses are bound before anything else changes.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::{Arc, Weak};

use weir_config::{Config, ListenAddress, Listener};

use super::inherited_sockets::InheritedSockets;
use crate::lifecycle::upgrade::handover::{AddressRole, HandedAddress};
use crate::start_error::StartError;
use weir_proxy::net::listening::{self, BoundAddress, SocketFile};
use weir_proxy::net::sys;
use weir_proxy::worker::apply_config::SocketAssignment;

/// An address in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BoundListener {
    /// The listener in the config; `admin` for the admin listener, `runtime` for the runtime socket.
    pub listener: Box<str>,
    /// The address, with the port that the system chose where the config left it open.
    pub address: BoundAddress,
}

/// All addresses in use.
#[derive(Debug, Default)]
pub(crate) struct ListeningSockets {
    open: Vec<ListeningSocket>,
    /// Counts the addresses that were ever bound.
    bound: u64,
    /// At the start: sockets of the supervisor.
    inherited: InheritedSockets,
    /// At the start: sockets on which the process before receives datagrams.
    handed_datagrams: Vec<(SocketAddr, Vec<OwnedFd>)>,
}

/// An address in use.
#[derive(Debug, Clone)]
struct ListeningSocket {
    id: u64,
    listener: Box<str>,
    /// As the config has it.
    address: ListenAddress,
    bound: BoundAddress,
    file: Option<SocketFile>,
    /// The sockets of the workers, as long as they are open.
    sockets: Vec<Weak<OwnedFd>>,
    /// Sockets of the process before, which no worker has yet.
    handed: Vec<Arc<OwnedFd>>,
    /// Whether it is for datagrams, beside the same address for connections.
    receives_datagrams: bool,
    /// Whether it is the supervisor's: a stop does not close it to new connections, which wait for the next start.
    is_inherited: bool,
}

/// The addresses of a config, bound and not yet in use.
#[derive(Debug)]
pub(crate) struct OpenedSockets {
    pub(crate) listening_sockets: ListeningSockets,
    /// The sockets of each worker.
    pub(crate) assignments: Vec<Vec<SocketAssignment>>,
    /// Files of sockets that are not used any more.
    pub(crate) stale_files: Vec<SocketFile>,
}

impl ListeningSockets {
    /// Those of the process before, in the order in which it has handed them over; and sockets of the supervisor, which listeners with their
    /// addresses take.
    pub(crate) fn beginning_with(
        addresses: Vec<HandedAddress>,
        inherited: InheritedSockets,
        handed_datagrams: Vec<(SocketAddr, Vec<OwnedFd>)>,
    ) -> Self {
        let bound = addresses.len() as u64;
        let open = addresses.into_iter().zip(1..).map(|(handed, id)| {
            let HandedAddress { listener, address, bound: at, sockets, is_inherited, .. } = handed;
            let file = match &at {
                BoundAddress::Unix(path) if !is_inherited => SocketFile::bound_at(path).ok(),
                _ => None,
            };
            let handed = sockets.into_iter().map(Arc::new).collect();
            let (sockets, bound) = (Vec::new(), at);
            let receives_datagrams = false;
            ListeningSocket {
                id,
                listener,
                address,
                bound,
                file,
                sockets,
                handed,
                receives_datagrams,
                is_inherited,
            }
        });
        Self { open: open.collect(), bound, inherited, handed_datagrams }
    }

    /// How many sockets of the first `handed` addresses that were ever bound are in use: of those of the process before.
    pub(crate) fn taken(&self, handed: usize) -> Vec<usize> {
        let taken =
            |id| self.open.iter().find(|socket| socket.id == id).map_or(0, |socket| socket.sockets.len());
        (1..=handed as u64).map(taken).collect()
    }

    /// All addresses, to be handed over.
    ///
    /// # Errors
    /// When the descriptors of the process end.
    pub(crate) fn to_hand_over(&self) -> io::Result<Vec<HandedAddress>> {
        let hand = |socket: &ListeningSocket| {
            let open = socket.sockets.iter().filter_map(Weak::upgrade);
            Ok(HandedAddress {
                role: AddressRole::Listener,
                listener: socket.listener.clone(),
                address: socket.address.clone(),
                bound: socket.bound.clone(),
                is_inherited: socket.is_inherited,
                sockets: open.map(|socket| socket.try_clone()).collect::<io::Result<_>>()?,
            })
        };
        self.open.iter().filter(|socket| !socket.receives_datagrams).map(hand).collect()
    }

    /// The sockets for datagrams, to be handed over.
    ///
    /// # Errors
    /// When the descriptors of the process end.
    pub(crate) fn datagrams_to_hand_over(&self) -> io::Result<Vec<(SocketAddr, Vec<OwnedFd>)>> {
        let of_datagrams = self.open.iter().filter(|socket| socket.receives_datagrams);
        let hand = |socket: &ListeningSocket| {
            let BoundAddress::Inet(addr) = socket.bound else { return Ok(None) };
            let open = socket.sockets.iter().filter_map(Weak::upgrade);
            Ok(Some((addr, open.map(|socket| socket.try_clone()).collect::<io::Result<_>>()?)))
        };
        of_datagrams.filter_map(|socket| hand(socket).transpose()).collect()
    }

    /// Where datagrams are received.
    pub(crate) fn datagram_addresses(&self) -> Vec<SocketAddr> {
        let of_datagrams = self.open.iter().filter(|socket| socket.receives_datagrams);
        let addresses = of_datagrams.filter_map(|socket| match socket.bound {
            BoundAddress::Inet(addr) => Some(addr),
            BoundAddress::Unix(_) => None,
        });
        addresses.collect()
    }

    /// Binds the addresses of `config` that are not in use yet.
    ///
    /// # Errors
    /// When one cannot be had; then none of them stays bound.
    pub(crate) fn succeeded_by(&self, config: &Config, workers: usize) -> Result<OpenedSockets, StartError> {
        let of_listener =
            |listener: usize| config.listeners[listener].addresses.iter().map(move |it| (listener, it));
        let wanted: Vec<_> = (0..config.listeners.len()).flat_map(of_listener).collect();
        let known = self.find(config, &wanted);
        let is_left = |socket: &&ListeningSocket| {
            !socket.receives_datagrams && !known.iter().flatten().any(|known| known.id == socket.id)
        };
        let left: Vec<&ListeningSocket> = self.open.iter().filter(is_left).collect();
        self.probe(
            config,
            wanted.iter().zip(&known).filter(|(_, known)| known.is_none()).map(|(it, _)| *it),
        )?;
        let mut listening_sockets = Self { bound: self.bound, ..Self::default() };
        let mut beside = Vec::new();
        let mut assignments: Vec<Vec<SocketAssignment>> = (0..workers).map(|_| Vec::new()).collect();
        for ((place, address), known) in wanted.into_iter().zip(&known) {
            let listener = &config.listeners[place];
            let (socket, sockets) = match known {
                Some(socket) => {
                    let mut socket = ListeningSocket { listener: listener.name.clone(), ..(*socket).clone() };
                    let sockets = socket.use_handed(listener, workers);
                    let sockets = sockets.map_err(|error| cannot_bind(listener, address, error))?;
                    (socket, sockets)
                }
                None => {
                    let inherited = self.inherited.at(address);
                    let is_inherited = inherited.is_some();
                    let bound = match inherited {
                        Some(socket) => socket.and_then(|(fd, bound)| listening::adopt(listener, fd, bound)),
                        None => listening::bind(listener, address, workers),
                    };
                    let bound = bound.map_err(|error| cannot_bind(listener, address, error))?;
                    beside.push((bound.address.clone(), bound.datagrams));
                    listening_sockets.bound += 1;
                    let (listener, address) = (listener.name.clone(), address.clone());
                    let opened: Vec<_> = bound.sockets.into_iter().map(Arc::new).collect();
                    let sockets = opened.iter().map(Arc::downgrade).collect();
                    let (id, file, bound) = (listening_sockets.bound, bound.file, bound.address);
                    let handed = Vec::new();
                    let socket = ListeningSocket {
                        id,
                        listener,
                        address,
                        bound,
                        file,
                        sockets,
                        handed,
                        receives_datagrams: false,
                        is_inherited,
                    };
                    (socket, opened)
                }
            };
            let (id, port) = (socket.id, port(&socket.bound));
            let mut sockets = sockets.into_iter();
            for assignments in &mut assignments {
                let (receives_datagrams, socket) = (false, sockets.next());
                assignments.push(SocketAssignment { id, listener: place, port, receives_datagrams, socket });
            }
            listening_sockets.open.push(socket);
        }
        self.open_for_datagrams(config, &beside, &mut listening_sockets, &mut assignments)?;
        let stale_files = left.iter().filter_map(|socket| socket.file.clone()).collect();
        Ok(OpenedSockets { listening_sockets, assignments, stale_files })
    }

    /// Binds the addresses of listeners with HTTP/3 for datagrams as well, behind all others: with the port that the system may have chosen, for which
    /// there are sockets `beside` those for connections then. One that is bound stays so as long as the address is there: a listener that has HTTP/3 no more goes on with its connections.
    fn open_for_datagrams(
        &self,
        config: &Config,
        beside: &[(BoundAddress, Vec<OwnedFd>)],
        opened: &mut Self,
        assignments: &mut [Vec<SocketAssignment>],
    ) -> Result<(), StartError> {
        let workers = assignments.len();
        let accepting = opened.open.clone();
        for accepting in accepting {
            let BoundAddress::Inet(addr) = accepting.bound else { continue };
            let is_it = |listener: &Arc<Listener>| listener.name == accepting.listener;
            let Some(place) = config.listeners.iter().position(is_it) else { continue };
            let known = self.open.iter().find(|it| it.receives_datagrams && it.bound == accepting.bound);
            let (id, sockets, weak) = match known {
                Some(known) => (known.id, Vec::new(), known.sockets.clone()),
                None if config.listeners[place].http3.is_none() => continue,
                None => {
                    let is_for_all = matches!(accepting.address, ListenAddress::AllTcp { .. });
                    let handed = self.handed_datagrams.iter().find(|(of, _)| *of == addr).map(|(_, it)| it);
                    let chosen = || beside.iter().find(|(of, _)| *of == accepting.bound).map(|(_, it)| it);
                    let handed = handed.or_else(chosen).map_or(&[][..], |sockets| sockets);
                    let bound = bind_datagrams(addr, !is_for_all, workers, handed);
                    let listener = &config.listeners[place];
                    let bound = bound.map_err(|error| {
                        let error = io::Error::new(error.kind(), format!("UDP, for HTTP/3: {error}"));
                        cannot_bind(listener, &accepting.address, error)
                    })?;
                    let sockets: Vec<_> = bound.into_iter().map(Arc::new).collect();
                    opened.bound += 1;
                    let weak = sockets.iter().map(Arc::downgrade).collect();
                    (opened.bound, sockets, weak)
                }
            };
            let port = Some(addr.port());
            let mut sockets = sockets.into_iter();
            for assignments in assignments.iter_mut() {
                let (receives_datagrams, socket) = (true, sockets.next());
                assignments.push(SocketAssignment { id, listener: place, port, receives_datagrams, socket });
            }
            // Of a process with more workers: all are received on, since the kernel gives each its share.
            for (at, socket) in sockets.enumerate() {
                let (receives_datagrams, socket) = (true, Some(socket));
                let more = SocketAssignment { id, listener: place, port, receives_datagrams, socket };
                assignments[at % workers].push(more);
            }
            let (file, handed) = (None, Vec::new());
            let (receives_datagrams, is_inherited) = (true, false);
            let socket = ListeningSocket {
                id,
                file,
                sockets: weak,
                handed,
                receives_datagrams,
                is_inherited,
                ..accepting
            };
            opened.open.push(socket);
        }
        Ok(())
    }

    /// Makes sure that no other process has an address that is about to be bound; before any is, so that they are not in each other's way.
    fn probe<'a>(
        &self,
        config: &Config,
        wanted: impl Iterator<Item = (usize, &'a ListenAddress)>,
    ) -> Result<(), StartError> {
        let taken: Vec<ListenAddress> = self.open.iter().map(ListeningSocket::takes).collect();
        for (place, address) in wanted {
            // Addresses that this process has already are not probed, whether they stay or go.
            let is_inherited = self.inherited.at(address).is_some();
            if !is_inherited && !taken.iter().any(|taken| taken.overlaps(address)) {
                let listener = &config.listeners[place];
                listening::probe(listener, address).map_err(|error| cannot_bind(listener, address, error))?;
            }
        }
        Ok(())
    }

    /// The address in use that each wanted one is: rather one of the same listener than one of another.
    fn find(&self, config: &Config, wanted: &[(usize, &ListenAddress)]) -> Vec<Option<&ListeningSocket>> {
        let mut free: Vec<&ListeningSocket> =
            self.open.iter().filter(|socket| !socket.receives_datagrams).collect();
        let mut take = |is_it: &dyn Fn(&ListeningSocket) -> bool| {
            let at = free.iter().position(|socket| is_it(socket))?;
            Some(free.remove(at))
        };
        let of_same_listener = |(listener, address): &(usize, &ListenAddress)| {
            let name = &config.listeners[*listener].name;
            take(&|socket| socket.listener == *name && socket.address == **address)
        };
        let mut found: Vec<_> = wanted.iter().map(of_same_listener).collect();
        for ((_, address), found) in wanted.iter().zip(&mut found) {
            // Any free port: another listener would get another one.
            if found.is_none() && port_of(address) != Some(0) {
                *found = take(&|socket| socket.address == **address);
            }
        }
        found
    }

    /// Rejects new connections from now on; those that are in a backlog, or on their way there, are still accepted.
    ///
    /// All at once: the sockets of an address share its connections as long as one of them accepts any, and a SYN to one that
    /// does not is lost.
    pub(crate) fn refuse_new(&self) {
        self.open.iter().for_each(|socket| socket.refuse_new(0));
    }

    /// The same for the sockets that another process has not taken over; what it has taken stays as it is.
    pub(crate) fn refuse_new_beyond(&self, taken: &[usize]) {
        for (socket, taken) in self.open.iter().zip(taken) {
            socket.refuse_new(*taken);
        }
    }

    /// The files of Unix sockets that another process has not taken over.
    pub(crate) fn files_beyond(&self, taken: &[usize]) -> impl Iterator<Item = &SocketFile> {
        let left = self.open.iter().zip(taken).filter(|(_, taken)| **taken == 0);
        left.filter_map(|(socket, _)| socket.file.as_ref())
    }

    /// The files of Unix sockets in use.
    pub(crate) fn files(&self) -> impl Iterator<Item = &SocketFile> {
        self.open.iter().filter_map(|socket| socket.file.as_ref())
    }

    /// The addresses, in the order of the config.
    pub(crate) fn bound_listeners(&self) -> Vec<BoundListener> {
        let bound = |socket: &ListeningSocket| BoundListener {
            listener: socket.listener.clone(),
            address: socket.bound.clone(),
        };
        self.open.iter().filter(|socket| !socket.receives_datagrams).map(bound).collect()
    }
}

impl ListeningSocket {
    /// The sockets of the process before, as many as there are workers: of more, the process before takes back what waits in them; where there
    /// are fewer, the others are bound beside them, and get no connection before this process accepts.
    fn use_handed(&mut self, listener: &Listener, workers: usize) -> io::Result<Vec<Arc<OwnedFd>>> {
        let mut sockets = std::mem::take(&mut self.handed);
        if sockets.is_empty() {
            return Ok(sockets);
        }
        sockets.truncate(workers);
        if let BoundAddress::Inet(addr) = self.bound
            && !self.is_inherited
        {
            for socket in &sockets {
                listening::adjust(socket.as_fd(), listener)?;
            }
            let is_for_all = matches!(self.address, ListenAddress::AllTcp { .. });
            let more = listening::bind_beside(listener, addr, !is_for_all, workers - sockets.len())?;
            sockets.extend(more.into_iter().map(Arc::new));
        }
        self.sockets = sockets.iter().map(Arc::downgrade).collect();
        Ok(sockets)
    }

    /// Those behind the first `kept` reject new connections.
    fn refuse_new(&self, kept: usize) {
        if self.is_inherited || self.receives_datagrams || !matches!(self.bound, BoundAddress::Inet(_)) {
            return;
        }
        for socket in self.sockets.iter().skip(kept).filter_map(Weak::upgrade) {
            if let Err(error) = sys::refuse_new(socket.as_fd()) {
                tracing::warn!(%error, "connections that are made while Weir stops may be reset");
            }
        }
    }

    /// The address that it occupies, with the port that the system chose.
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

/// Sockets for datagrams at an address: those that the process before has handed over, and as many more as there are workers beyond.
fn bind_datagrams(
    addr: SocketAddr,
    only_v6: bool,
    workers: usize,
    handed: &[OwnedFd],
) -> io::Result<Vec<OwnedFd>> {
    let mut sockets: Vec<OwnedFd> = handed.iter().map(OwnedFd::try_clone).collect::<io::Result<_>>()?;
    sockets.extend(listening::bind_datagrams(addr, only_v6, workers.saturating_sub(sockets.len()))?);
    if let Some(first) = sockets.first() {
        listening::steer_datagrams(first.as_fd(), sockets.len());
    }
    Ok(sockets)
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
