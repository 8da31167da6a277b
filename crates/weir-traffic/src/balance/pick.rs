//! What the balancer needs to know about one request, and what it returns.

use crate::server::ServerId;

/// One request as the balancer sees it.
#[derive(Debug, Clone, Copy)]
pub struct Pick<'a> {
    /// The hash of the request's key for [`Policy::ConsistentHash`](super::Policy::ConsistentHash), else
    /// ignored.
    pub hash: Option<u64>,
    /// Servers this request has already failed on.
    pub excluded: &'a Excluded,
    /// 64 fresh random bits. Only the random policies use them.
    pub random: u64,
    /// Milliseconds on a clock that does not go back. Only [`Policy::PeakEwma`](super::Policy::PeakEwma) uses it.
    pub now_ms: u64,
}

/// What a request does when the server that its key belongs to is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenFull {
    /// Spill over to another server at once.
    Spill,
    /// Wait for that server. Only [`Policy::ConsistentHash`](super::Policy::ConsistentHash) knows one.
    Queue,
    /// The same; and a request that is bound to a server gets no other one, even if that one is gone.
    Never,
}

/// The decision of the balancer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "a chosen server holds a slot that has to be released"]
pub enum BalancerChoice {
    /// This server, on which one slot is now taken: the caller must release it.
    Server(ServerId),
    /// There are servers for this request, but all their slots are taken: wait in the queue.
    AllFull,
    /// All slots of the one server that the request belongs to are taken: wait for it, or choose again without when_full.
    BoundFull(ServerId),
    /// No server is up, serving, weighted above 0 and not excluded: waiting does not help.
    NoneEligible,
}

/// The servers a request has already failed on: a small set without allocation.
///
/// It holds [`Excluded::LEN_MAX`] servers; the oldest is forgotten when one more comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Excluded {
    ids: [u32; Self::LEN_MAX],
    /// Bit `i` is set when `ids[i]` is to be avoided only.
    avoided: u8,
    len: u8,
}

impl Excluded {
    /// The most servers it holds; more attempts than this plus one should not be configured.
    pub const LEN_MAX: usize = 8;

    /// The empty set.
    pub const NONE: &'static Excluded = &Excluded::new();

    /// An empty set.
    pub const fn new() -> Excluded {
        Excluded { ids: [0; Self::LEN_MAX], avoided: 0, len: 0 }
    }

    /// Adds a server that is not to be chosen again.
    pub fn insert(&mut self, server: ServerId) {
        self.add(server, false);
    }

    /// Adds a server that is to be chosen again only when no other is eligible.
    pub fn avoid(&mut self, server: ServerId) {
        self.add(server, true);
    }

    /// Whether `server` is in the set, excluded or avoided.
    pub fn contains(&self, server: ServerId) -> bool {
        self.ids().contains(&server.0)
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The set without the servers that are to be avoided only; `None` when there are none of these.
    pub(super) fn without_avoided(&self) -> Option<Excluded> {
        let mut strict = Excluded::new();
        for (at, &id) in self.ids().iter().enumerate() {
            if self.avoided >> at & 1 == 0 {
                strict.insert(ServerId(id));
            }
        }
        (strict.len < self.len).then_some(strict)
    }

    fn add(&mut self, server: ServerId, avoided: bool) {
        if let Some(at) = self.ids().iter().position(|&id| id == server.0) {
            // Once excluded, always excluded.
            self.avoided &= !(u8::from(!avoided) << at);
            return;
        }
        if self.len as usize == Self::LEN_MAX {
            self.ids.rotate_left(1);
            self.avoided >>= 1;
            self.len -= 1;
        }
        self.ids[self.len as usize] = server.0;
        self.avoided |= u8::from(avoided) << self.len;
        self.len += 1;
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
    }

    #[test]
    fn what_is_avoided_can_be_left_out() {
        let mut set = Excluded::new();
        for id in 0..=Excluded::LEN_MAX as u32 {
            if id % 2 == 0 { set.insert(ServerId(id)) } else { set.avoid(ServerId(id)) }
        }
        set.insert(ServerId(3));
        set.avoid(ServerId(4));
        let strict = set.without_avoided().unwrap();
        let left: Vec<u32> = (0..10).filter(|&id| strict.contains(ServerId(id))).collect();
        assert_eq!(left, [2, 3, 4, 6, 8], "0 is forgotten, 3 is excluded after it was avoided");
        assert!(strict.without_avoided().is_none());
    }
}
