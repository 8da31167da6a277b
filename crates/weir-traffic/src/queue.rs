//! The queue of an upstream whose servers are all full: who waits, in what order, for how long.
//!
//! A plain data structure, generic over the waiter: whoever owns it locks it, wakes waiters and looks at the
//! clock. Waiters leave in the order in which they came; leaving from the middle takes constant time. Its
//! length is bounded. Times are milliseconds on any clock that does not go back.

/// Stands for "no neighbour" in the links.
const NONE: u32 = u32::MAX;

/// A bounded queue in order of arrival.
#[derive(Debug)]
pub struct Queue<T> {
    places: Vec<Place<T>>,
    /// First of the list of unused places, linked by `next`.
    free: u32,
    front: u32,
    back: u32,
    len: usize,
    len_max: usize,
}

#[derive(Debug)]
struct Place<T> {
    /// Counts the uses of this place, so that an old ticket opens nothing.
    generation: u32,
    previous: u32,
    next: u32,
    waiter: Option<Waiter<T>>,
}

/// One who waits.
#[derive(Debug, PartialEq, Eq)]
pub struct Waiter<T> {
    /// What the caller put in.
    pub item: T,
    /// When it came, in milliseconds.
    pub arrived_ms: u64,
    /// When it has waited long enough, in milliseconds: from then on it is served no more.
    pub deadline_ms: u64,
}

/// A waiter's claim to its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket {
    place: u32,
    generation: u32,
}

/// The queue is full; gives the item back.
#[derive(Debug, PartialEq, Eq)]
pub struct Full<T>(pub T);

impl<T> Queue<T> {
    /// An empty queue for at most `len_max` waiters. Memory is taken as it grows.
    pub fn new(len_max: usize) -> Queue<T> {
        Queue {
            places: Vec::new(),
            free: NONE,
            front: NONE,
            back: NONE,
            len: 0,
            len_max: len_max.min(NONE as usize),
        }
    }

    /// How many wait, also those whose deadline has passed and who have not been removed yet.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most that can wait at once.
    pub fn len_max(&self) -> usize {
        self.len_max
    }

    /// Changes the bound. Those already waiting above a lowered bound stay.
    pub fn set_len_max(&mut self, len_max: usize) {
        self.len_max = len_max.min(NONE as usize);
    }

    /// Puts `item` at the end of the queue.
    ///
    /// # Errors
    /// [`Full`] with the item when as many wait as may.
    pub fn push(&mut self, item: T, now_ms: u64, deadline_ms: u64) -> Result<Ticket, Full<T>> {
        if self.len >= self.len_max {
            return Err(Full(item));
        }
        let at = self.take_place();
        let back = self.back;
        let place = &mut self.places[at as usize];
        place.waiter = Some(Waiter { item, arrived_ms: now_ms, deadline_ms });
        place.previous = back;
        place.next = NONE;
        let generation = place.generation;
        match back {
            NONE => self.front = at,
            _ => self.places[back as usize].next = at,
        }
        self.back = at;
        self.len += 1;
        Ok(Ticket { place: at, generation })
    }

    /// Takes out the first waiter in order of arrival that is `eligible` (for the server that has become
    /// free, say) and whose deadline is not reached. Those passed over keep their places. Takes constant time
    /// when the first one is eligible.
    pub fn pop_front(&mut self, now_ms: u64, mut eligible: impl FnMut(&T) -> bool) -> Option<Waiter<T>> {
        let at = self.find(|waiter| now_ms < waiter.deadline_ms && eligible(&waiter.item))?;
        self.unlink(at)
    }

    /// Takes out the first waiter whose deadline is reached.
    pub fn pop_expired(&mut self, now_ms: u64) -> Option<Waiter<T>> {
        let at = self.find(|waiter| now_ms >= waiter.deadline_ms)?;
        self.unlink(at)
    }

    /// Takes out a waiter that gave up, wherever it stands, in constant time; `None` when it has left
    /// already.
    pub fn remove(&mut self, ticket: Ticket) -> Option<Waiter<T>> {
        let place = self.places.get(ticket.place as usize)?;
        if place.generation != ticket.generation || place.waiter.is_none() {
            return None;
        }
        self.unlink(ticket.place)
    }

    /// The first in the queue.
    pub fn front(&self) -> Option<&Waiter<T>> {
        self.iter().next()
    }

    /// All who wait, in order of arrival.
    pub fn iter(&self) -> impl Iterator<Item = &Waiter<T>> {
        let mut at = self.front;
        std::iter::from_fn(move || {
            let place = self.places.get(at as usize)?;
            at = place.next;
            place.waiter.as_ref()
        })
    }

    fn find(&self, mut wanted: impl FnMut(&Waiter<T>) -> bool) -> Option<u32> {
        let mut at = self.front;
        while let Some(place) = self.places.get(at as usize) {
            if place.waiter.as_ref().is_some_and(&mut wanted) {
                return Some(at);
            }
            at = place.next;
        }
        None
    }

    /// An unused place, new when there is none.
    fn take_place(&mut self) -> u32 {
        if self.free == NONE {
            self.places.push(Place { generation: 0, previous: NONE, next: NONE, waiter: None });
            return u32::try_from(self.places.len() - 1).expect("the bound is below 2^32");
        }
        let at = self.free;
        self.free = self.places[at as usize].next;
        at
    }

    fn unlink(&mut self, at: u32) -> Option<Waiter<T>> {
        let place = &mut self.places[at as usize];
        let waiter = place.waiter.take()?;
        let (previous, next) = (place.previous, place.next);
        place.generation = place.generation.wrapping_add(1);
        place.next = self.free;
        self.free = at;
        match previous {
            NONE => self.front = next,
            _ => self.places[previous as usize].next = next,
        }
        match next {
            NONE => self.back = previous,
            _ => self.places[next as usize].previous = previous,
        }
        self.len -= 1;
        Some(waiter)
    }
}

#[cfg(test)]
mod tests;
