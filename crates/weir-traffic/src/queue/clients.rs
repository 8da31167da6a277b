//! The waiters of one priority, client by client: which client has most of them, and its newest.
//!
//! A full queue asks for that. Clients with as many waiters as each other are in one list, and there is one list for each number of
//! waiters, so that entering, leaving and finding the client with most take constant time. An entry exists while its client
//! has waiters: there are at most as many as waiters.

use std::collections::HashMap;

use super::nodes::{ClientLinks, NONE, QueueNodes};

#[derive(Debug)]
pub(super) struct WaitingClients {
    clients: Vec<WaitingClient>,
    /// First of the list of unused entries, linked by `next`.
    free: u32,
    by_key: HashMap<u64, u32>,
    /// For each number of waiters, the first client that has so many. The last list is not empty.
    by_count: Vec<u32>,
}

/// A client and its waiters, in order of arrival.
#[derive(Debug, Clone, Copy)]
struct WaitingClient {
    key: u64,
    count: u32,
    newest: u32,
    /// The neighbours among those with as many.
    previous: u32,
    next: u32,
}

impl WaitingClients {
    pub(super) fn new() -> WaitingClients {
        WaitingClients { clients: Vec::new(), free: NONE, by_key: HashMap::new(), by_count: Vec::new() }
    }

    /// How many waiters the client `key` has.
    pub(super) fn count_of(&self, key: u64) -> u32 {
        self.by_key.get(&key).map_or(0, |&client| self.clients[client as usize].count)
    }

    /// The newest waiter of the client with most, and how many that one has; of several, the client that has come to so many last.
    pub(super) fn newest_of_greediest(&self) -> Option<(u32, u32)> {
        let greediest = self.clients[*self.by_count.last()? as usize];
        Some((greediest.newest, greediest.count))
    }

    /// Appends a place to those of its client.
    pub(super) fn add<T>(&mut self, places: &mut QueueNodes<T>, at: u32, key: u64) {
        let number = match self.by_key.get(&key) {
            Some(&number) => number,
            None => self.enter(key),
        };
        let client = &mut self.clients[number as usize];
        *places.client_links_mut(at) = ClientLinks { previous: client.newest, next: NONE, client: number };
        if client.newest != NONE {
            places.client_links_mut(client.newest).next = at;
        }
        client.newest = at;
        self.recount(number, |count| count + 1);
    }

    /// Takes a place out of those of its client.
    pub(super) fn remove<T>(&mut self, places: &mut QueueNodes<T>, at: u32) {
        let ClientLinks { previous, next, client: number } = *places.client_links_mut(at);
        if previous != NONE {
            places.client_links_mut(previous).next = next;
        }
        match next {
            NONE => self.clients[number as usize].newest = previous,
            _ => places.client_links_mut(next).previous = previous,
        }
        self.recount(number, |count| count - 1);
    }

    /// Moves a client from the list of its number of waiters to that of the number next to it; to none at zero, where its entry ends.
    fn recount(&mut self, number: u32, change: impl FnOnce(u32) -> u32) {
        let WaitingClient { key, count, previous, next, .. } = self.clients[number as usize];
        if count > 0 {
            match previous {
                NONE => self.by_count[count as usize] = next,
                _ => self.clients[previous as usize].next = next,
            }
            if next != NONE {
                self.clients[next as usize].previous = previous;
            }
        }
        let count = change(count);
        if count == 0 {
            self.by_key.remove(&key);
            self.clients[number as usize].next = self.free;
            self.free = number;
        } else {
            if self.by_count.len() <= count as usize {
                self.by_count.resize(count as usize + 1, NONE);
            }
            let first = std::mem::replace(&mut self.by_count[count as usize], number);
            if first != NONE {
                self.clients[first as usize].previous = number;
            }
            let client = &mut self.clients[number as usize];
            (client.count, client.previous, client.next) = (count, NONE, first);
        }
        while self.by_count.last() == Some(&NONE) {
            self.by_count.pop();
        }
    }

    fn enter(&mut self, key: u64) -> u32 {
        let client = WaitingClient { key, count: 0, newest: NONE, previous: NONE, next: NONE };
        let number = if self.free == NONE {
            self.clients.push(client);
            u32::try_from(self.clients.len() - 1).expect("there are no more clients than waiters")
        } else {
            let number = self.free;
            self.free = self.clients[number as usize].next;
            self.clients[number as usize] = client;
            number
        };
        self.by_key.insert(key, number);
        number
    }
}
