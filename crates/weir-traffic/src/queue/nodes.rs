//! The memory of a queue: places that are used again, linked in both directions.

use super::QueuedItem;

/// Stands for "no neighbour" in the links.
pub(super) const NONE: u32 = u32::MAX;

/// All places of one queue.
#[derive(Debug)]
pub(super) struct QueueNodes<T> {
    places: Vec<QueueNode<T>>,
    /// First of the list of unused places, linked by `next`.
    free: u32,
}

#[derive(Debug)]
struct QueueNode<T> {
    /// Counts the uses of this place, so that an old ticket opens nothing.
    generation: u32,
    links: NodeLinks,
    client_links: ClientLinks,
    lane: u8,
    waiter: Option<QueuedItem<T>>,
}

/// The neighbours of a place, and the share it belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeLinks {
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) share: u32,
}

/// The neighbours of a place among those of its client, and that client.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClientLinks {
    pub(super) previous: u32,
    pub(super) next: u32,
    pub(super) client: u32,
}

impl ClientLinks {
    const ALONE: ClientLinks = ClientLinks { previous: NONE, next: NONE, client: NONE };
}

impl NodeLinks {
    const ALONE: NodeLinks = NodeLinks { previous: NONE, next: NONE, share: NONE };
}

impl<T> QueueNodes<T> {
    pub(super) const fn new() -> QueueNodes<T> {
        QueueNodes { places: Vec::new(), free: NONE }
    }

    /// How many places there are, used or not.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Takes a place for `waiter`, a new one when none is unused.
    pub(super) fn take(&mut self, waiter: QueuedItem<T>, lane: u8) -> u32 {
        if self.free == NONE {
            let at = u32::try_from(self.places.len()).expect("the bound is below 2^32");
            self.places.push(QueueNode {
                generation: 0,
                links: NodeLinks::ALONE,
                client_links: ClientLinks::ALONE,
                lane,
                waiter: Some(waiter),
            });
            return at;
        }
        let at = self.free;
        let place = &mut self.places[at as usize];
        self.free = place.links.next;
        (place.links, place.lane, place.waiter) = (NodeLinks::ALONE, lane, Some(waiter));
        at
    }

    /// Frees a place that is no longer linked; returns its waiter.
    pub(super) fn give_back(&mut self, at: u32) -> Option<QueuedItem<T>> {
        let place = &mut self.places[at as usize];
        place.generation = place.generation.wrapping_add(1);
        place.links = NodeLinks { next: self.free, ..NodeLinks::ALONE };
        self.free = at;
        place.waiter.take()
    }

    pub(super) fn is_taken(&self, at: u32, generation: u32) -> bool {
        self.places
            .get(at as usize)
            .is_some_and(|place| place.generation == generation && place.waiter.is_some())
    }

    pub(super) fn generation(&self, at: u32) -> u32 {
        self.places[at as usize].generation
    }

    pub(super) fn lane(&self, at: u32) -> u8 {
        self.places[at as usize].lane
    }

    pub(super) fn links(&self, at: u32) -> NodeLinks {
        self.places[at as usize].links
    }

    pub(super) fn links_mut(&mut self, at: u32) -> &mut NodeLinks {
        &mut self.places[at as usize].links
    }

    pub(super) fn client_links_mut(&mut self, at: u32) -> &mut ClientLinks {
        &mut self.places[at as usize].client_links
    }

    /// The waiter in a place that is taken.
    pub(super) fn waiter(&self, at: u32) -> &QueuedItem<T> {
        self.places[at as usize].waiter.as_ref().expect("linked places are taken")
    }

    /// All waiters.
    pub(super) fn waiters_mut(&mut self) -> impl Iterator<Item = &mut QueuedItem<T>> {
        self.places.iter_mut().filter_map(|place| place.waiter.as_mut())
    }

    /// The same waiter, to be changed.
    pub(super) fn waiter_mut(&mut self, at: u32) -> &mut QueuedItem<T> {
        self.places[at as usize].waiter.as_mut().expect("linked places are taken")
    }
}
