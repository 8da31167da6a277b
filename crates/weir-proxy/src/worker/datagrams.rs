//! Receives datagrams on the sockets of a worker, and begins connections of QUIC.
//!
//! A connection stays with the worker that its first packet has come to: its connection IDs say so, and a packet that comes to another worker, as
//! after a move of the client to another network, is handed over. Must not know what connections carry.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use quinn_proto::congestion::CubicConfig;
use quinn_proto::{IdleTimeout, Incoming, ServerConfig, TransportConfig, VarInt};
use weir_config::ListenerHttp3;
use weir_observe::{Cause, Failure, Phase};

use super::Acceptor;
use crate::downstream::connection::datagrams::DatagramConnection;
use crate::net::clock::{self, Instant};
use crate::net::peer::Peer;
use crate::net::quic::endpoint::{DatagramArrival, QuicEndpoint, Refused};
use crate::net::quic::forwarding::{ForwardedDatagram, ForwardedDatagrams, HandedDatagram};
use crate::net::quic::keys::QuicKeys;
use crate::net::quic::link::{FIRST_WINDOW, QuicLink, STREAMS_AT_FIRST};
use crate::net::quic::tls::QuicTls;
use crate::net::tls::server_config::{EarlyAllowance, TlsServerConfig};
use crate::state::budgets::memory_guard::ConnectionAdmission;
use crate::state::budgets::places::LimitReached;
use crate::state::budgets::slow_heads::WaitForRoom;
use crate::state::datagrams::{ForeignDatagram, Succeeded, TraceOrder};
use crate::state::shared::AcceptedConnection;
use crate::state::snapshot::ListenerPlan;
use crate::state::tracing::recorder::{ClientTransport, UnusedConnection};
use crate::state::worker_config::LocalListener;

/// Silence after which a connection is given up: longer than pauses of clients whose connections are to stay open, which send something then.
const SILENCE_MAX: Duration = Duration::from_secs(60);

/// Bytes that a client may send on a stream beyond what is taken in.
const STREAM_WINDOW: u32 = 256 * 1024;

/// Bytes that wait for their acknowledgement on one connection.
const SEND_WINDOW: u64 = 1024 * 1024;

/// Streams in one direction that a client may open: three that are named by RFC 9114 and RFC 9204, and some of unknown kinds.
const PLAIN_STREAMS_MAX: u32 = 8;

/// How often a worker says at most that the kernel drops datagrams.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Bytes of a handshake that wait for those before them.
const HANDSHAKE_BYTES_MAX: usize = 16 * 1024;

/// How long clients prove their address first, once more handshakes were wanted than may begin.
const PRESSED_TIME: Duration = Duration::from_secs(2);

/// A socket of a worker for datagrams, until it is closed.
pub(crate) struct ReceivingSocket {
    socket: Rc<DatagramSocket>,
    /// Receives on it, and on sockets of the same address that a process with more workers has left.
    receiving: Vec<tokio::task::JoinHandle<()>>,
}

/// The socket, and the listener that it belongs to.
struct DatagramSocket {
    /// That of the address in the process: the same on all workers.
    id: u64,
    endpoint: Rc<QuicEndpoint>,
    /// Further sockets of the address, on which it only receives.
    beside: RefCell<Vec<Rc<QuicEndpoint>>>,
    port: u16,
    listener: RefCell<Rc<LocalListener>>,
    config: RefCell<EndpointConfig>,
    /// Whether no connection begins any more.
    is_closed: Cell<bool>,
    /// Datagrams that the kernel had dropped when that was last looked at.
    dropped: Cell<u32>,
    /// Since when more handshakes have been wanted than `tls.handshake_rate` allows.
    pressed_at: Cell<Option<Instant>>,
}

/// What connections are served by, with what that was made from.
struct EndpointConfig {
    tls: Arc<rustls::ServerConfig>,
    http3: ListenerHttp3,
    allowed: EarlyAllowance,
    made: Arc<ServerConfig>,
}

impl EndpointConfig {
    fn new(plan: &ListenerPlan, keys: &QuicKeys) -> Option<Self> {
        let (server_config, http3) = (plan.tls.as_ref()?, plan.config.http3.clone()?);
        let tls = server_config.config();
        let allowed = allowance(plan, &http3);
        let early_sessions = http3.early_data.then(|| server_config.early_sessions(allowed));
        let session = QuicTls::new(&tls, &server_config.certificates, early_sessions).inspect_err(|error| {
            tracing::error!(listener = &*plan.config.name, %error, "no HTTP/3 on the listener");
        });
        let mut made = ServerConfig::new(Arc::new(session.ok()?), keys.tokens());
        made.transport_config(Arc::new(transport(&http3)));
        if http3.early_data {
            made.validation_token_config(keys.renewable_tokens());
        }
        Some(Self { tls, http3, allowed, made: Arc::new(made) })
    }

    fn is_of(&self, plan: &ListenerPlan) -> bool {
        let is_same = |tls: &TlsServerConfig| Arc::ptr_eq(&tls.config(), &self.tls);
        plan.tls.as_deref().is_some_and(is_same)
            && plan.config.http3.as_ref() == Some(&self.http3)
            && allowance(plan, &self.http3) == self.allowed
    }
}

fn allowance(plan: &ListenerPlan, http3: &ListenerHttp3) -> EarlyAllowance {
    EarlyAllowance {
        streams: http3.streams_max.min(STREAMS_AT_FIRST),
        head_bytes: plan.head_limits.head_bytes_max,
    }
}

/// What is kept of a client whose connection does not begin.
fn unused(remote: SocketAddr) -> UnusedConnection {
    let peer = Peer::Inet(SocketAddr::new(remote.ip().to_canonical(), remote.port()));
    UnusedConnection { peer, transport: ClientTransport::Quic, number: 0, opened_at: clock::now() }
}

fn transport(http3: &ListenerHttp3) -> TransportConfig {
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(http3.streams_max.min(STREAMS_AT_FIRST).into())
        .max_concurrent_uni_streams(PLAIN_STREAMS_MAX.into())
        .max_idle_timeout(IdleTimeout::try_from(SILENCE_MAX).ok())
        .stream_receive_window(STREAM_WINDOW.into())
        .receive_window(VarInt::from_u32(FIRST_WINDOW))
        .send_window(SEND_WINDOW)
        .crypto_buffer_size(HANDSHAKE_BYTES_MAX)
        .datagram_receive_buffer_size(None)
        .congestion_controller_factory(Arc::new(CubicConfig::default()));
    config
}

impl DatagramSocket {
    /// Gives a client that begins on if the rate of handshakes allows one more. First packets can be sent in the name of anyone, so that none of
    /// them takes the place of a client that is there, once there are too many: addresses are proven first then.
    fn admit_by_rate(&self, incoming: Incoming, plan: &ListenerPlan, epoch: Instant) -> Option<Incoming> {
        let Some(rate) = plan.tls.as_ref().and_then(|tls| tls.handshake_rate.as_ref()) else {
            return Some(incoming);
        };
        let now = clock::now();
        let is_pressed = self.pressed_at.get().is_some_and(|at| now < at + PRESSED_TIME);
        let incoming = match is_pressed && !incoming.remote_address_validated() {
            true => {
                self.pressed_at.set(Some(now));
                self.endpoint.proven(incoming)?
            }
            false => incoming,
        };
        let at = now.nanos_since(epoch);
        if rate.try_take(at, at).is_some() {
            return Some(incoming);
        }
        self.pressed_at.set(Some(now));
        self.listener.borrow().shard.failures.record(Failure::weir(Phase::Tls, Cause::TooManyHandshakes));
        self.endpoint.ignore(incoming);
        None
    }

    /// What the next connection is served by; `None` where the listener has no HTTP/3 any more.
    fn config(&self, plan: &ListenerPlan, keys: &QuicKeys) -> Option<Arc<ServerConfig>> {
        let mut config = self.config.borrow_mut();
        if !config.is_of(plan) {
            *config = EndpointConfig::new(plan, keys)?;
            self.endpoint.serve_by(Arc::clone(&config.made));
        }
        Some(Arc::clone(&config.made))
    }
}

impl DatagramSocket {
    /// Receives nothing more, if another process does.
    fn give_way(&self, succeeded: &Succeeded) {
        if succeeded.addresses.contains(&self.endpoint.local()) {
            self.endpoint.stop_receiving();
            self.beside.borrow().iter().for_each(|beside| beside.stop_receiving());
        }
    }
}

impl ReceivingSocket {
    /// Receives on `socket`; `None` when that cannot be.
    pub(crate) fn open(
        acceptor: &Rc<Acceptor>,
        id: u64,
        socket: Arc<OwnedFd>,
        port: u16,
        listener: &Rc<LocalListener>,
    ) -> Option<Self> {
        let (worker, plan) = (&acceptor.worker, listener.plan());
        let keys = &worker.shared.datagrams.keys;
        let config = EndpointConfig::new(&plan, keys)?;
        let endpoint = QuicEndpoint::open(
            socket,
            keys,
            worker.index,
            Arc::clone(&config.made),
            Arc::clone(&worker.shard.datagrams),
        );
        let endpoint = endpoint.inspect_err(|error| {
            tracing::error!(listener = &*plan.config.name, %error, "a UDP socket cannot be used");
        });
        let socket = Rc::new(DatagramSocket {
            id,
            endpoint: endpoint.ok()?,
            beside: RefCell::default(),
            port,
            listener: RefCell::new(Rc::clone(listener)),
            config: RefCell::new(config),
            is_closed: Cell::new(false),
            dropped: Cell::new(0),
            pressed_at: Cell::new(None),
        });
        if let Some(succeeded) = worker.shared.datagrams.succession().known() {
            socket.give_way(succeeded);
        }
        let receiving = worker.crash.spawn(receive(Rc::clone(acceptor), Rc::clone(&socket)));
        Some(Self { socket, receiving: vec![receiving] })
    }

    /// Receives on one more socket of the same address.
    fn also_receive(&mut self, acceptor: &Rc<Acceptor>, socket: Arc<OwnedFd>) {
        let (worker, keys) = (&acceptor.worker, &acceptor.worker.shared.datagrams.keys);
        let made = Arc::clone(&self.socket.config.borrow().made);
        let counters = Arc::clone(&worker.shard.datagrams);
        match QuicEndpoint::open(socket, keys, worker.index, made, counters) {
            Ok(beside) => {
                self.socket.beside.borrow_mut().push(Rc::clone(&beside));
                if let Some(succeeded) = worker.shared.datagrams.succession().known() {
                    self.socket.give_way(succeeded);
                }
                let receiving = receive_beside(Rc::clone(acceptor), Rc::clone(&self.socket), beside);
                self.receiving.push(worker.crash.spawn(receiving));
            }
            Err(error) => tracing::error!(%error, "a UDP socket cannot be used"),
        }
    }

    /// Gives the socket to a listener, for the connections to come.
    pub(crate) fn give_to(&self, listener: &Rc<LocalListener>) {
        self.socket.listener.replace(Rc::clone(listener));
    }

    /// Begins no more connections on it; those that there are go on.
    pub(crate) fn close(&self) {
        self.socket.is_closed.set(true);
    }

    fn is_closed(&self) -> bool {
        self.socket.is_closed.get()
    }

    /// Whether connections are left on it.
    fn is_used(&self) -> bool {
        self.socket.endpoint.is_used()
    }
}

impl Drop for ReceivingSocket {
    fn drop(&mut self) {
        self.receiving.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Receives on one socket until it is dropped.
async fn receive(acceptor: Rc<Acceptor>, socket: Rc<DatagramSocket>) {
    let endpoint = Rc::clone(&socket.endpoint);
    receive_beside(acceptor, socket, endpoint).await;
}

/// Receives on the socket of `receiving`, for the connections of `socket`.
async fn receive_beside(acceptor: Rc<Acceptor>, socket: Rc<DatagramSocket>, receiving: Rc<QuicEndpoint>) {
    let mut room = QuicEndpoint::room();
    loop {
        let received = std::future::poll_fn(|cx| receiving.poll_receive(cx, &mut room)).await;
        // An error is that of an earlier send, as when a port is closed.
        let count = received.unwrap_or(0);
        socket.endpoint.take(&room, count, |arrival| match arrival {
            DatagramArrival::New(incoming) => acceptor.begin_connection(&socket, *incoming),
            DatagramArrival::Foreign(worker, datagram) => {
                acceptor.hand_over_datagram(worker, socket.id, datagram);
            }
        });
        // The connections of this batch have their turn before the next one.
        tokio::task::yield_now().await;
    }
}

/// Takes datagrams that have come to other workers.
pub(super) async fn take_datagrams(acceptor: Rc<Acceptor>) {
    acceptor.worker.crash.spawn(give_way(Rc::clone(&acceptor)));
    while let Some(datagram) = acceptor.resources.datagrams.next().await {
        let ForeignDatagram { socket, from, to, ecn, bytes } = &datagram;
        let socket = {
            let sockets = acceptor.datagram_sockets.borrow();
            let socket = sockets.iter().find(|receiving| receiving.socket.id == *socket);
            socket.map(|receiving| Rc::clone(&receiving.socket))
        };
        if let Some(socket) = socket {
            let datagram = HandedDatagram { from: *from, to: *to, ecn: *ecn, bytes };
            match socket.endpoint.take_one(clock::now(), datagram) {
                // Retry named an ID, of this process, or of another node that has its generation.
                Some(incoming) if incoming.remote_address_validated() => {
                    acceptor.begin_connection(&socket, incoming);
                }
                Some(incoming) => socket.endpoint.ignore(incoming),
                None => {}
            }
        }
    }
}

/// Waits until another process receives the datagrams, and takes then from that one what is for connections of this one.
async fn give_way(acceptor: Rc<Acceptor>) {
    let datagrams = &acceptor.worker.shared.datagrams;
    let succeeded = datagrams.succession().wait().await;
    for receiving in &*acceptor.datagram_sockets.borrow() {
        receiving.socket.give_way(succeeded);
    }
    // The first worker has the way; others get theirs from it.
    let Some(from_next) = succeeded.from_next.as_ref().filter(|_| acceptor.worker.index == 0) else { return };
    let Ok(mut forwarded) = ForwardedDatagrams::open(Arc::clone(from_next)) else { return };
    while let Some(ForwardedDatagram { local, datagram }) = forwarded.next().await {
        acceptor.take_forwarded(local, datagram);
    }
}

impl Acceptor {
    /// Takes a datagram that another process has received to the worker that has its connection.
    fn take_forwarded(&self, local: SocketAddr, datagram: HandedDatagram<'_>) {
        let worker = self.worker.shared.datagrams.keys.worker_of(datagram.bytes);
        // One of another node that has the generation of this process: any worker resets it.
        let worker = worker.unwrap_or(self.worker.index);
        let of_address = {
            let sockets = self.datagram_sockets.borrow();
            let socket = sockets.iter().find(|receiving| receiving.socket.endpoint.local() == local);
            socket.map(|receiving| (receiving.socket.id, Rc::clone(&receiving.socket.endpoint)))
        };
        let Some((id, endpoint)) = of_address else { return };
        if worker != self.worker.index {
            self.hand_over_datagram(worker, id, datagram);
        } else if let Some(incoming) = endpoint.take_one(clock::now(), datagram) {
            endpoint.ignore(incoming);
        }
    }

    /// Receives datagrams at an address from now on, or goes on for another listener.
    pub(super) fn open_datagram_socket(
        self: &Rc<Self>,
        id: u64,
        (socket, port): (Option<Arc<OwnedFd>>, Option<u16>),
        listener: &Rc<LocalListener>,
    ) {
        let mut sockets = self.datagram_sockets.borrow_mut();
        match (sockets.iter_mut().find(|receiving| receiving.socket.id == id), socket, port) {
            (Some(receiving), Some(socket), _) => receiving.also_receive(self, socket),
            (Some(receiving), None, _) => receiving.give_to(listener),
            (None, Some(socket), Some(port)) => {
                sockets.extend(ReceivingSocket::open(self, id, socket, port, listener));
            }
            // Another worker has the only socket of this address.
            (None, ..) => {}
        }
    }

    /// Has it written down for a while what happens to a connection.
    #[cold]
    pub(super) fn trace(&self, order: TraceOrder) {
        let TraceOrder { connection, length, done } = order;
        let link = {
            let sockets = self.datagram_sockets.borrow();
            sockets.iter().find_map(|receiving| receiving.socket.endpoint.link_of(connection.number))
        };
        let Some(link) = link else { return };
        link.begin_trace(&connection.to_string(), length, done);
        tracing::info!(%connection, seconds = length.as_secs(), "a connection is being written down as qlog");
        let (link, timers) = (Rc::downgrade(&link), Rc::clone(&self.worker.timers));
        tokio::task::spawn_local(async move {
            timers.sleep(length).await;
            if let Some(link) = link.upgrade() {
                link.end_due_trace();
            }
        });
    }

    /// Begins no more connections on sockets that are not wanted any more.
    pub(super) fn close_datagram_sockets(&self, is_wanted: impl Fn(u64) -> bool) {
        for receiving in
            self.datagram_sockets.borrow().iter().filter(|receiving| !is_wanted(receiving.socket.id))
        {
            receiving.close();
        }
    }

    /// Closes sockets without connections on which none begins, and counts what the kernel has dropped at the others.
    pub(super) fn look_after_datagram_sockets(&self) {
        let mut sockets = self.datagram_sockets.borrow_mut();
        sockets.retain(|receiving| !receiving.is_closed() || receiving.is_used());
        for socket in sockets.iter().map(|receiving| &receiving.socket) {
            let dropped = socket.endpoint.dropped();
            let more = dropped.wrapping_sub(socket.dropped.replace(dropped));
            if more > 0 {
                self.worker.shard.datagrams.dropped.add(more.into());
                self.warn_of_drops(socket.port, more);
            }
        }
    }

    /// Says that buffers are too small, at most once a minute.
    #[cold]
    fn warn_of_drops(&self, port: u16, dropped: u32) {
        let now = clock::now();
        let is_due =
            self.drops_told_at.get().is_none_or(|at| now.saturating_duration_since(at) >= WARNING_INTERVAL);
        if is_due {
            self.drops_told_at.set(Some(now));
            tracing::warn!(
                worker = self.worker.index,
                port,
                dropped,
                "the kernel drops datagrams of QUIC, since the buffer of the UDP socket is full: raise net.core.rmem_max, or give Weir more workers"
            );
        }
    }

    /// Begins the connection of a client that has sent its first packet, if there is room for it.
    fn begin_connection(&self, socket: &DatagramSocket, incoming: Incoming) {
        let worker = &self.worker;
        let listener = Rc::clone(&socket.listener.borrow());
        let plan = listener.plan();
        let config = socket.config(&plan, &worker.shared.datagrams.keys).filter(|_| !socket.is_closed.get());
        if worker.is_replaced() {
            // While sockets of this process close, the kernel gives it first packets for the process that serves now, which gets the next one.
            return socket.endpoint.ignore(incoming);
        }
        let Some(config) = config.filter(|_| !worker.is_stopping()) else {
            return socket.endpoint.refuse(incoming);
        };
        let epoch = worker.config.borrow().snapshot.epoch;
        let Some(incoming) = socket.admit_by_rate(incoming, &plan, epoch) else { return };
        let remote = incoming.remote_address();
        match worker.shared.memory.admit(worker.stock.size()) {
            ConnectionAdmission::Accept => {}
            ConnectionAdmission::Wait => return socket.endpoint.ignore(incoming),
            ConnectionAdmission::Refuse => {
                listener.shard.failures.record(Failure::weir(Phase::Accept, Cause::MemoryLimit));
                worker.shared.memory.count_refused();
                return socket.endpoint.refuse(incoming);
            }
        }
        // An address that may be another's counts towards no limit of clients.
        let limits_clients =
            plan.config.connections_per_client_max.is_some() || plan.connection_rate.is_some();
        let incoming = match limits_clients {
            true => socket.endpoint.proven(incoming),
            false => Some(incoming),
        };
        let Some(incoming) = incoming else { return };
        if let Err(full) = worker.reserve_now(&listener.state) {
            // Nor does it take the place of a connection that is idle.
            let Some(incoming) = socket.endpoint.proven(incoming) else { return };
            // The client tries again within a second, and has that place then.
            let mut wait = WaitForRoom { since: Some(clock::now()), waiting: 1, ..Default::default() };
            let of_listener = (full == LimitReached::Listener).then_some(listener.state.number);
            worker.make_room(of_listener, &mut wait);
            return socket.endpoint.ignore(incoming);
        }
        match socket.endpoint.accept(incoming, config) {
            Ok(link) => self.start_datagram_connection(&listener, socket.port, remote, &link),
            Err(Refused::Retry | Refused::Busy | Refused::Broken) => worker.unreserve(&listener.state),
            Err(Refused::Handshake(cause)) => {
                worker.unreserve(&listener.state);
                let failure = Failure::client(Phase::Tls, cause);
                listener.shard.failures.record(failure);
                worker.record_connection(failure, unused(remote), &listener);
            }
        }
    }

    /// Serves the connection of a client.
    fn start_datagram_connection(
        &self,
        listener: &Rc<LocalListener>,
        port: u16,
        remote: SocketAddr,
        link: &Rc<QuicLink>,
    ) {
        let worker = &self.worker;
        worker.shard.connections_accepted.increment();
        worker.shared.loads[worker.index].0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let peer = Peer::Inet(SocketAddr::new(remote.ip().to_canonical(), remote.port()));
        let accepted = AcceptedConnection {
            listener: Arc::clone(&listener.state),
            carrier: Rc::clone(link),
            peer,
            port: Some(port),
        };
        let run = DatagramConnection::run;
        if !DatagramConnection::start(&self.exchanges, Rc::clone(listener), accepted, run) {
            link.close(0);
            link.send(clock::now());
            link.forget();
        }
    }

    /// Hands a datagram to the worker whose connection it is for. With too many under way it is lost, as packets may be.
    fn hand_over_datagram(&self, worker: usize, socket: u64, datagram: HandedDatagram<'_>) {
        let HandedDatagram { from, to, ecn, bytes } = datagram;
        let datagram = ForeignDatagram { socket, from, to, ecn, bytes: bytes.into() };
        let counters = &self.worker.shard.datagrams;
        counters.handed_over.increment();
        if !self.worker.shared.datagrams.send(worker, datagram) {
            counters.handed_over_lost.increment();
        }
    }
}
