//! What a connection may send to addresses that its client only claims to have: anyone with a connection can put another's address on its packets.
//!
//! `quinn-proto` sends a whole packet for each move and for each challenge (RFC 9000 sections 8.2 and 9.3), however short the packet was that led
//! to it. Moves within the client's own address, as when a network address translation forgets a port, reach no one else and are free.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use crate::net::clock::Instant;

/// Moves to other addresses that may follow one another, and how long it takes until one more may.
const MOVES_MAX: u32 = 5;
const MOVE_TIME: Duration = Duration::from_secs(10);

/// Bytes that go to an address beside the path in use for each that has come from such ones (RFC 9000 section 8).
const FACTOR: u64 = 3;

/// The guard of one connection.
#[derive(Debug)]
pub(super) struct PathGuard {
    /// The address that has done the handshake.
    home: IpAddr,
    current: SocketAddr,
    moves_left: u32,
    refilled_at: Instant,
    /// Whether the path in use is one to which nothing is sent for now.
    is_muted: bool,
    beside_received: u64,
    beside_sent: u64,
}

impl PathGuard {
    pub(super) fn new(client: SocketAddr, now: Instant) -> Self {
        Self {
            home: client.ip(),
            current: client,
            moves_left: MOVES_MAX,
            refilled_at: now,
            is_muted: false,
            beside_received: 0,
            beside_sent: 0,
        }
    }

    /// So many bytes have come from an address; `path` is the one that the connection uses now. Whether that is another one than before.
    pub(super) fn receive(
        &mut self,
        from: SocketAddr,
        bytes: usize,
        path: SocketAddr,
        now: impl Fn() -> Instant,
    ) -> bool {
        if from.ip() != self.home {
            self.beside_received += bytes as u64;
        }
        let has_moved = path != self.current;
        if has_moved {
            self.current = path;
            self.is_muted = path.ip() != self.home && !self.take_move(now());
        }
        has_moved
    }

    /// Whether so many bytes may go to an address.
    pub(super) fn may_send(&mut self, to: SocketAddr, bytes: usize, now: Instant) -> bool {
        if to.ip() == self.home {
            return true;
        }
        if to == self.current {
            self.is_muted = self.is_muted && !self.take_move(now);
            return !self.is_muted;
        }
        let sent = self.beside_sent + bytes as u64;
        let may = sent <= FACTOR * self.beside_received;
        if may {
            self.beside_sent = sent;
        }
        may
    }

    fn take_move(&mut self, now: Instant) -> bool {
        let turns = now.saturating_duration_since(self.refilled_at).as_secs() / MOVE_TIME.as_secs();
        if turns > 0 {
            self.moves_left =
                MOVES_MAX.min(self.moves_left.saturating_add(turns.min(u64::from(MOVES_MAX)) as u32));
            self.refilled_at = now;
        }
        let may = self.moves_left > 0;
        self.moves_left = self.moves_left.saturating_sub(1);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(last: u8, port: u16) -> SocketAddr {
        ([192, 0, 2, last], port).into()
    }

    #[test]
    fn few_moves_to_other_addresses_are_followed() {
        let start = crate::net::clock::now();
        let mut guard = PathGuard::new(addr(1, 1), start);
        let follows = |guard: &mut PathGuard, to, at| {
            guard.receive(to, 40, to, || at);
            guard.may_send(to, 1200, at)
        };
        for port in 0..100 {
            assert!(follows(&mut guard, addr(1, port), start), "a port is forgotten");
        }
        for number in 0..MOVES_MAX {
            assert!(follows(&mut guard, addr(2, number as u16), start));
            assert!(follows(&mut guard, addr(1, 1), start), "the way home is free");
        }
        assert!(!follows(&mut guard, addr(2, 99), start));
        assert!(!guard.may_send(addr(2, 99), 40, start + MOVE_TIME / 2));
        assert!(guard.may_send(addr(2, 99), 40, start + MOVE_TIME), "it is followed later");
        assert!(!follows(&mut guard, addr(3, 1), start + MOVE_TIME));
        assert!(follows(&mut guard, addr(1, 1), start + MOVE_TIME));
    }

    #[test]
    fn answers_beside_the_path_are_no_longer_than_challenges() {
        let start = crate::net::clock::now();
        let mut guard = PathGuard::new(addr(1, 1), start);
        let (home, other) = (addr(1, 1), addr(2, 2));
        guard.receive(other, 42, home, || start);
        assert!(!guard.may_send(other, 1200, start));
        guard.receive(other, 1200, home, || start);
        assert!(guard.may_send(other, 1200, start) && guard.may_send(other, 1200, start));
        assert!(guard.may_send(other, 1200, start) && !guard.may_send(other, 1200, start));
        assert!(guard.may_send(home, 1200, start));
    }
}
