//! How far apart the two CPUs of a run are: the time to pass a message to the other one through a cache line.
//!
//! A hypervisor moves the CPUs of a virtual machine about. When they come to lie in parts of the processor that share no cache, all that
//! passes from client to target costs more, for minutes, and nothing in `/proc` tells. Must not run while a load does.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_stats::estimate;

use crate::clock;
use crate::placement::{Pinned, Placement};

/// Turns between two looks at the clock, and looks.
const TURNS: u64 = 100;
const LOOKS: usize = 10;

/// Length of a reading; all together take some 30 ms.
const LOOK: Duration = Duration::from_millis(3);

/// Longest wait for an answer: the other thread may have to wait for its CPU.
const PATIENCE: Duration = Duration::from_secs(1);

/// Spins after which the thread yields and reads the clock.
const SPINS: u32 = 100_000;

/// Says that it is over.
const OVER: u64 = u64::MAX;

/// Time for a cache line to the other CPU and back, ns: the median over some 30 ms. `None` when one of them is not to be had.
pub fn between(placement: Placement) -> Option<f64> {
    // Odd numbers are questions, the next even one is the answer.
    let line = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| answer(placement.client, &line));
        let measured = ask(placement.target, &line);
        line.store(OVER, Ordering::Release);
        other.join().ok().flatten().and(measured)
    })
}

fn answer(cpu: usize, line: &AtomicU64) -> Option<()> {
    let _pinned = Pinned::to(cpu).ok()?;
    loop {
        match line.load(Ordering::Acquire) {
            OVER => return Some(()),
            // Fails if it was over meanwhile.
            question if question % 2 == 1 => {
                let _over =
                    line.compare_exchange(question, question + 1, Ordering::AcqRel, Ordering::Relaxed);
            }
            _ => std::hint::spin_loop(),
        }
    }
}

fn ask(cpu: usize, line: &AtomicU64) -> Option<f64> {
    let _pinned = Pinned::to(cpu).ok()?;
    let mut number = 0;
    // The first answer comes once the other thread runs.
    turn(line, &mut number)?;
    let mut looks = Vec::with_capacity(LOOKS);
    for _ in 0..LOOKS {
        let (began, first) = (clock::now(), number);
        while began.elapsed() < LOOK {
            for _ in 0..TURNS {
                turn(line, &mut number)?;
            }
        }
        looks.push(began.elapsed().as_nanos() as f64 / ((number - first) / 2) as f64);
    }
    estimate::median(&looks)
}

/// Asks once and waits for the answer; `None` when none comes.
fn turn(line: &AtomicU64, number: &mut u64) -> Option<()> {
    line.store(*number + 1, Ordering::Release);
    *number += 2;
    let mut spins = 0_u32;
    let mut latest = None;
    while line.load(Ordering::Acquire) != *number {
        std::hint::spin_loop();
        spins += 1;
        if spins == SPINS {
            // A turn of normal length ends before this, so that reading the clock does not prolong it.
            spins = 0;
            std::thread::yield_now();
            if clock::now() > *latest.get_or_insert_with(|| clock::now() + PATIENCE) {
                return None;
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::{Placement, between};

    #[test]
    fn the_way_to_another_cpu_takes_some_time_and_the_thread_stays_where_it_was() {
        let allowed = crate::placement::allowed();
        let measured = between(Placement::of(allowed[0], allowed[allowed.len() - 1]));
        // One CPU for both: each turn waits for the scheduler, and may take too long.
        let is_known = measured.is_some_and(|ns| ns > 1.0);
        assert!(is_known || allowed.len() == 1, "{measured:?}");
        assert_eq!(crate::placement::allowed(), allowed);
    }
}
