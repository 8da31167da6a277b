//! A hierarchical timer wheel: entering, moving and removing a timer each cost a few steps, however many there are.
//!
//! Level 0 has a slot for each of the next ticks, every further level slots of 64 times that length; when the time of
//! a slot comes, its timers move to lower levels. After G. Varghese and T. Lauck, "Hashed and Hierarchical Timing
//! Wheels" (1987), with the slot chosen by the highest bit in which due time and present differ. Must not read a
//! clock, and knows timers by their number only.

/// Slots of a level; their occupancy fits a machine word.
const SLOTS: usize = 64;
const SLOT_BITS: u32 = SLOTS.ilog2();

/// With ticks of 1 ms the topmost level reaches 139 years.
const LEVELS: usize = 7;

/// The last tick there is.
const TICK_MAX: u64 = (1 << (SLOT_BITS * LEVELS as u32)) - 1;

/// No timer: the end of a list.
const NO_TIMER: u32 = u32::MAX;

/// The position of a timer in the wheel. Stored by the owner of the timers, with the other data of the timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// The tick it is due at; meaningless outside of the wheel.
    due: u64,
    next: u32,
    /// The timer before it; for the first of a slot, itself.
    previous: u32,
    slot: Option<SlotNumber>,
}

/// A slot by its number, one higher so that none is zero.
type SlotNumber = std::num::NonZeroU16;

impl Link {
    /// Outside of the wheel.
    pub(crate) const NEW: Link = Link { due: 0, next: NO_TIMER, previous: NO_TIMER, slot: None };

    /// The tick it is due at, while it is in the wheel.
    pub(crate) fn due(&self) -> Option<u64> {
        self.slot.map(|_| self.due)
    }
}

/// Timers by their number.
pub(crate) trait Links {
    fn link(&mut self, timer: u32) -> &mut Link;
}

/// The slots. All that is due up to `now` has left them.
#[derive(Debug)]
pub(crate) struct Wheel {
    now: u64,
    /// One bit per slot that has timers.
    occupied: [u64; LEVELS],
    first: [[u32; SLOTS]; LEVELS],
}

impl Wheel {
    /// An empty wheel at tick 0.
    pub(crate) const fn new() -> Self {
        Self { now: 0, occupied: [0; LEVELS], first: [[NO_TIMER; SLOTS]; LEVELS] }
    }

    /// The tick up to which all timers have been taken out.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Enters `timer`, or moves it: it is due at `due`, in the next tick if that is not later than now. Gives that tick.
    pub(crate) fn set(&mut self, links: &mut impl Links, timer: u32, due: u64) -> u64 {
        self.remove(links, timer);
        let due = due.clamp(self.now + 1, TICK_MAX);
        self.enter(links, timer, due);
        due
    }

    /// Takes `timer` out, if it is in.
    pub(crate) fn remove(&mut self, links: &mut impl Links, timer: u32) {
        let Link { next, previous, slot, .. } = *links.link(timer);
        let Some(slot) = slot else { return };
        let (level, index) = place(slot);
        if next != NO_TIMER {
            links.link(next).previous = if previous == timer { next } else { previous };
        }
        if previous != timer {
            links.link(previous).next = next;
        } else {
            self.first[level][index] = next;
            if next == NO_TIMER {
                self.occupied[level] &= !(1 << index);
            }
        }
        *links.link(timer) = Link::NEW;
    }

    /// The next tick at which there may be something to do; at or before the one at which the first timer is due.
    pub(crate) fn next(&self) -> Option<u64> {
        let level = self.occupied.iter().position(|&slots| slots != 0)?;
        let index = u64::from(self.occupied[level].trailing_zeros());
        let shift = SLOT_BITS * level as u32;
        let beyond = self.now >> shift >> SLOT_BITS << SLOT_BITS;
        Some((beyond | index) << shift)
    }

    /// Lets the time become `now`; takes out every timer that is due and calls `fired` for it.
    pub(crate) fn advance<L: Links>(&mut self, links: &mut L, now: u64, mut fired: impl FnMut(&mut L, u32)) {
        while let Some(tick) = self.next().filter(|&tick| tick <= now) {
            self.now = tick;
            let level = self.occupied.iter().position(|&slots| slots != 0).unwrap_or(0);
            let index = self.occupied[level].trailing_zeros() as usize;
            self.occupied[level] &= !(1 << index);
            let mut timer = std::mem::replace(&mut self.first[level][index], NO_TIMER);
            while timer != NO_TIMER {
                let Link { due, next, .. } = *links.link(timer);
                *links.link(timer) = Link::NEW;
                if due <= tick {
                    fired(links, timer);
                } else {
                    self.enter(links, timer, due);
                }
                timer = next;
            }
        }
        self.now = self.now.max(now);
    }

    /// Puts a timer that is in no slot where `due`, later than now, belongs.
    fn enter(&mut self, links: &mut impl Links, timer: u32, due: u64) {
        let level = ((due ^ self.now).ilog2() / SLOT_BITS) as usize;
        let index = (due >> (SLOT_BITS * level as u32)) as usize % SLOTS;
        let next = std::mem::replace(&mut self.first[level][index], timer);
        self.occupied[level] |= 1 << index;
        if next != NO_TIMER {
            links.link(next).previous = timer;
        }
        *links.link(timer) = Link { due, next, previous: timer, slot: slot(level, index) };
    }
}

fn slot(level: usize, index: usize) -> Option<SlotNumber> {
    SlotNumber::new((level * SLOTS + index + 1) as u16)
}

fn place(slot: SlotNumber) -> (usize, usize) {
    let number = usize::from(slot.get() - 1);
    (number / SLOTS, number % SLOTS)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Link;
    use super::Links;
    use super::TICK_MAX;
    use super::Wheel;

    impl Links for Vec<Link> {
        fn link(&mut self, timer: u32) -> &mut Link {
            &mut self[timer as usize]
        }
    }

    /// Steps of a random walk (xorshift), the same each time.
    fn random(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    fn advance(wheel: &mut Wheel, links: &mut Vec<Link>, now: u64) -> Vec<u32> {
        let mut fired = Vec::new();
        wheel.advance(links, now, |_, timer| fired.push(timer));
        fired.sort_unstable();
        fired
    }

    #[test]
    fn fires_what_a_sorted_list_would() {
        let mut state = 0x9e37_79b9_7f4a_7c15;
        let mut links = vec![Link::NEW; 200];
        let mut wheel = Wheel::new();
        let mut model = BTreeMap::new();
        let mut now = 0;
        for step in 0..200_000 {
            let timer = (random(&mut state) % 200) as u32;
            match random(&mut state) % 8 {
                0 => {
                    wheel.remove(&mut links, timer);
                    model.remove(&timer);
                }
                1 => {
                    // Mostly short steps, some far beyond several levels.
                    now += random(&mut state) % (1 << (random(&mut state) % 22));
                    let due: Vec<u32> =
                        model.iter().filter(|&(_, &due)| due <= now).map(|(&timer, _)| timer).collect();
                    assert_eq!(advance(&mut wheel, &mut links, now), due, "step {step}");
                    model.retain(|_, due| *due > now);
                }
                _ => {
                    let due = now + random(&mut state) % (1 << (random(&mut state) % 28));
                    assert_eq!(wheel.set(&mut links, timer, due), due.max(now + 1));
                    model.insert(timer, due.max(now + 1));
                }
            }
            let first = model.values().min();
            assert_eq!(wheel.next().is_some(), first.is_some(), "step {step}");
            assert!(
                wheel.next() <= first.copied() && wheel.next().is_none_or(|next| next > now),
                "step {step}"
            );
            assert_eq!(links[timer as usize].due(), model.get(&timer).copied());
        }
    }

    #[test]
    fn what_would_come_after_the_last_tick_comes_at_it() {
        let mut links = vec![Link::NEW; 1];
        let mut wheel = Wheel::new();
        assert_eq!(wheel.set(&mut links, 0, u64::MAX), TICK_MAX);
        assert!(advance(&mut wheel, &mut links, TICK_MAX - 1).is_empty());
        assert_eq!(advance(&mut wheel, &mut links, TICK_MAX), [0]);
    }
}
