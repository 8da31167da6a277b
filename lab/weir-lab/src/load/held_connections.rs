//! Connections that did one exchange and then idle, for measuring a target's memory per idle client.
//! Tunnels among them can be kept alive by a heartbeat, one message at a time.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::client::SOURCES;
use super::exchange::PreparedExchange;
use super::fault::LoadFault;
use super::http2::client::Http2Client;
use super::probe;
use crate::clock;
use crate::origin::PAGE_LEN;

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The exchange of each connection.
#[derive(Debug, Clone, Copy)]
pub enum HeldExchange<'a> {
    /// A request of HTTP/1.1, or a message of a tunnel.
    Http1(&'a PreparedExchange),
    /// A GET of the page by HTTP/2, from the host of this name.
    Http2(&'a str),
}

/// An idle connection.
#[derive(Debug)]
enum HeldConnection {
    Http1(TcpStream),
    Http2(Http2Client),
}

impl HeldConnection {
    /// Connects from source number `source`, and does `exchange` once.
    fn open(target: SocketAddr, source: usize, exchange: HeldExchange<'_>) -> Result<Self, LoadFault> {
        match exchange {
            HeldExchange::Http1(exchange) => probe::once(target, source, exchange, TIMEOUT).map(Self::Http1),
            HeldExchange::Http2(authority) => {
                let mut client = Http2Client::connect(target, source)?;
                client.ask(authority, "/", PAGE_LEN, TIMEOUT)?;
                Ok(Self::Http2(client))
            }
        }
    }

    /// Does `exchange`, which is of its protocol, once more.
    fn again(&mut self, exchange: HeldExchange<'_>) -> Result<(), LoadFault> {
        match (self, exchange) {
            (Self::Http1(stream), HeldExchange::Http1(exchange)) => probe::again(stream, exchange, TIMEOUT),
            (Self::Http2(client), HeldExchange::Http2(authority)) => {
                client.ask(authority, "/", PAGE_LEN, TIMEOUT)
            }
            _ => unreachable!("connections are opened with their exchange"),
        }
    }

    /// Whether the target has not closed it meanwhile.
    fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(stream) => {
                let seen = rustix::net::recv(stream, &mut [0], RecvFlags::PEEK | RecvFlags::DONTWAIT);
                seen == Err(Errno::AGAIN)
            }
            Self::Http2(client) => {
                // Frames without a request are taken: not all of them mean the end.
                client.receive(&mut [0; 1024]);
                client.takes_requests()
            }
        }
    }
}

/// Idle connections, spread over the client's source addresses.
#[derive(Debug)]
pub struct HeldConnections<'a> {
    target: SocketAddr,
    exchange: HeldExchange<'a>,
    connections: Vec<HeldConnection>,
}

impl<'a> HeldConnections<'a> {
    /// None yet.
    pub fn new(target: SocketAddr, exchange: HeldExchange<'a>) -> Self {
        Self { target, exchange, connections: Vec::new() }
    }

    /// Opens connections, one after the other with one exchange each, until there are `number`.
    ///
    /// # Errors
    /// The first fault.
    pub fn grow_to(&mut self, number: usize) -> Result<(), LoadFault> {
        while self.connections.len() < number {
            let source = self.connections.len() % SOURCES;
            self.connections.push(HeldConnection::open(self.target, source, self.exchange)?);
        }
        Ok(())
    }

    /// Number of connections the target has not closed meanwhile.
    pub fn open(&mut self) -> usize {
        self.connections.iter_mut().filter_map(|connection| connection.is_open().then_some(())).count()
    }

    /// Uses every `step`-th connection once more: idle must not mean forgotten.
    ///
    /// # Errors
    /// The first fault.
    pub fn use_again(&mut self, step: usize) -> Result<(), LoadFault> {
        let exchange = self.exchange;
        self.connections.iter_mut().step_by(step.max(1)).try_for_each(|connection| connection.again(exchange))
    }

    /// Uses each connection once more; gives the number of those that did not do what they should, or were not tried because
    /// `is_over`.
    pub fn lost(&mut self, is_over: impl Fn() -> bool) -> usize {
        let exchange = self.exchange;
        let is_lost = |connection: &mut HeldConnection| is_over() || connection.again(exchange).is_err();
        self.connections.iter_mut().filter_map(|connection| is_lost(connection).then_some(())).count()
    }

    /// Uses each connection once in every `interval`, evenly spread, for `length` or until `is_over`; gives the number of
    /// exchanges.
    ///
    /// # Errors
    /// The first fault.
    pub fn beat(
        &mut self,
        interval: Duration,
        length: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<u64, LoadFault> {
        let start = clock::now();
        let step = interval.as_secs_f64() / self.connections.len().max(1) as f64;
        let (mut number, exchange) = (0, self.exchange);
        for index in (0..self.connections.len()).cycle() {
            let due = Duration::from_secs_f64(step * number as f64);
            if due >= length || is_over() {
                break;
            }
            let wait = (start + due).saturating_duration_since(clock::now());
            if !wait.is_zero() {
                clock::pause(wait);
            }
            self.connections[index].again(exchange)?;
            number += 1;
        }
        let rest = (start + length).saturating_duration_since(clock::now());
        if !is_over() {
            clock::pause(rest);
        }
        Ok(number)
    }
}
