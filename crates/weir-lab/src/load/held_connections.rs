//! Connections that did one exchange and then idle, for measuring a target's memory per idle client.
//! Tunnels among them can be kept alive by a heartbeat, one message at a time.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::client::SOURCES;
use super::exchange::PreparedExchange;
use super::fault::LoadFault;
use super::probe;
use crate::clock;

/// Longest wait for one answer.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Idle connections, spread over the client's source addresses.
#[derive(Debug)]
pub struct HeldConnections<'a> {
    target: SocketAddr,
    exchange: &'a PreparedExchange,
    connections: Vec<TcpStream>,
}

impl<'a> HeldConnections<'a> {
    /// None yet.
    pub fn new(target: SocketAddr, exchange: &'a PreparedExchange) -> Self {
        Self { target, exchange, connections: Vec::new() }
    }

    /// Opens connections, one after the other with one exchange each, until there are `number`.
    ///
    /// # Errors
    /// The first fault.
    pub fn grow_to(&mut self, number: usize) -> Result<(), LoadFault> {
        while self.connections.len() < number {
            let source = self.connections.len() % SOURCES;
            self.connections.push(probe::once(self.target, source, self.exchange, TIMEOUT)?);
        }
        Ok(())
    }

    /// Number of connections the target has not closed meanwhile.
    pub fn open(&self) -> usize {
        let mut byte = [0];
        self.connections
            .iter()
            .filter(|stream| {
                let seen = rustix::net::recv(stream, &mut byte, RecvFlags::PEEK | RecvFlags::DONTWAIT);
                seen == Err(Errno::AGAIN)
            })
            .count()
    }

    /// Uses every `step`-th connection once more: idle must not mean forgotten.
    ///
    /// # Errors
    /// The first fault.
    pub fn use_again(&self, step: usize) -> Result<(), LoadFault> {
        self.connections
            .iter()
            .step_by(step.max(1))
            .try_for_each(|stream| probe::again(stream, self.exchange, TIMEOUT))
    }

    /// Uses each connection once more; gives the number of those that did not do what they should, or were not tried because
    /// `is_over`.
    pub fn lost(&self, is_over: impl Fn() -> bool) -> usize {
        let works = |stream: &&TcpStream| !is_over() && probe::again(stream, self.exchange, TIMEOUT).is_ok();
        self.connections.len() - self.connections.iter().filter(works).count()
    }

    /// Uses each connection once in every `interval`, evenly spread, for `length` or until `is_over`; gives the number of
    /// exchanges.
    ///
    /// # Errors
    /// The first fault.
    pub fn beat(
        &self,
        interval: Duration,
        length: Duration,
        is_over: impl Fn() -> bool,
    ) -> Result<u64, LoadFault> {
        let start = clock::now();
        let step = interval.as_secs_f64() / self.connections.len().max(1) as f64;
        let mut number = 0;
        for stream in self.connections.iter().cycle() {
            let due = Duration::from_secs_f64(step * number as f64);
            if due >= length || is_over() {
                break;
            }
            let wait = (start + due).saturating_duration_since(clock::now());
            if !wait.is_zero() {
                clock::pause(wait);
            }
            probe::again(stream, self.exchange, TIMEOUT)?;
            number += 1;
        }
        let rest = (start + length).saturating_duration_since(clock::now());
        if !is_over() {
            clock::pause(rest);
        }
        Ok(number)
    }
}
