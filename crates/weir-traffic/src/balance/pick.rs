//! What the balancer needs to know about one request, and what it answers.

use crate::server::ServerId;

/// One request as the balancer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Pick<'a> {
    /// The hash of the request's key for [`Policy::ConsistentHash`](super::Policy::ConsistentHash), else ignored.
    pub hash: Option<u64>,
    /// Servers this request has already failed on; never chosen.
    pub excluded: &'a Excluded,
    /// 64 fresh random bits. Only the random policies look at them.
    pub random: u64,
}

/// What the balancer decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a chosen server holds a slot that has to be released"]
pub enum Choice {
    /// This server, on which one slot is now taken: whoever asked must release it.
    Server(ServerId),
    /// There are servers for this request, but all their slots are taken: wait in the queue.
    AllFull,
    /// No server is up, serving, weighted above 0 and not excluded: waiting does not help.
    NoneEligible,
}

/// The servers a request has already been tried on: a small set without allocation.
///
/// It holds [`Excluded::LEN_MAX`] servers; the oldest is forgotten when one more comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Excluded {
    /// Bit `id % 64` of every member: the empty set answers with one shift.
    mask: u64,
    ids: [u32; Self::LEN_MAX],
    len: u8,
}

impl Excluded {
    /// The most servers it holds; more attempts than this plus one should not be configured.
    pub const LEN_MAX: usize = 8;

    /// The empty set.
    pub const NONE: &'static Excluded = &Excluded::new();

    /// An empty set.
    pub const fn new() -> Excluded {
        Excluded { mask: 0, ids: [0; Self::LEN_MAX], len: 0 }
    }

    /// Adds a server.
    pub fn insert(&mut self, server: ServerId) {
        if self.contains(server) {
            return;
        }
        if self.len as usize == Self::LEN_MAX {
            self.ids.rotate_left(1);
            self.len -= 1;
        }
        self.ids[self.len as usize] = server.0;
        self.len += 1;
        self.mask = self.ids().iter().fold(0, |mask, id| mask | 1 << (id % 64));
    }

    /// Whether `server` is in the set.
    pub fn contains(&self, server: ServerId) -> bool {
        self.mask >> (server.0 % 64) & 1 != 0 && self.ids().contains(&server.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn ids(&self) -> &[u32] {
        &self.ids[..self.len as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_set_forgets_the_oldest() {
        let mut set = Excluded::new();
        assert!(set.is_empty() && !set.contains(ServerId(0)));
        for id in 0..=Excluded::LEN_MAX as u32 {
            set.insert(ServerId(id));
            set.insert(ServerId(id));
        }
        assert!(!set.contains(ServerId(0)) && set.contains(ServerId(1)) && set.contains(ServerId(8)));
        assert!(!set.contains(ServerId(65)), "same bit as 1, another server");
    }
}
