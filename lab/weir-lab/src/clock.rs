//! The lab's only door to the clocks: monotonic time, the date, and waiting.
//!
//! Everything that measures takes its instants from here, so that it is plain where time enters. Waiting for
//! another process is a bounded poll (`wait_until`), never a bare sleep that hopes it was long enough.

use std::time::{Duration, Instant};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "this is the clock module")]
#[inline]
pub fn now() -> Instant {
    Instant::now()
}

/// Nanoseconds since the machine was started, the same in every process: events of two processes can be put in order.
pub fn uptime_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // Neither is negative (`clock_gettime(2)`).
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The date and time of day, UTC.
pub fn today() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

/// Lets `length` pass: the length of a measurement window, not a synchronisation.
#[expect(clippy::disallowed_methods, reason = "a measurement window is a stretch of time")]
pub fn pause(length: Duration) {
    std::thread::sleep(length);
}

/// CPU time of the calling thread.
pub fn cpu_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    // Neither is negative (`clock_gettime(2)`).
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Spends so much CPU time on nothing, as a program does that has more to do. Time in which others run does not count.
pub fn burn(length: Duration) {
    if length.is_zero() {
        return;
    }
    let end = cpu_time() + length;
    while cpu_time() < end {
        std::hint::spin_loop();
    }
}

/// Asks `done` every few milliseconds until it says yes; false when `limit` has passed first.
pub fn wait_until(limit: Duration, mut done: impl FnMut() -> bool) -> bool {
    let deadline = now() + limit;
    loop {
        if done() {
            return true;
        }
        if now() >= deadline {
            return false;
        }
        pause(Duration::from_millis(3));
    }
}
