//! Detects a program that is deadlocked: every thread waits for another one, none for the network, a timer or a CPU.
//!
//! `siege` gets into this state when it cancels a thread that holds a lock of the C library; it can only be killed then.
//! Must not kill the program: that is left to the caller, which started it.

use std::time::{Duration, Instant};

use crate::clock;

/// From one look to the next.
const APART: Duration = Duration::from_secs(1);

/// This many polls in a row have to find the same: threads also wait for each other in passing.
const LOOKS: u32 = 3;

/// Polls a program.
#[derive(Debug)]
pub struct StuckWatch {
    pid: i32,
    next: Instant,
    /// Looks in a row that found it waiting for itself.
    found: u32,
}

impl StuckWatch {
    /// Polls `pid` from `begin` on.
    pub fn new(pid: i32, begin: Instant) -> Self {
        Self { pid, next: begin, found: 0 }
    }

    /// Looks when it is time to; true once it has waited for itself in each of several looks.
    pub fn is_stuck(&mut self) -> bool {
        let now = clock::now();
        if now < self.next {
            return false;
        }
        self.next = now + APART;
        self.found = if waits_for_itself(self.pid) { self.found + 1 } else { 0 };
        self.found >= LOOKS
    }
}

/// Whether all threads of `pid` wait for threads; false when that cannot be seen.
fn waits_for_itself(pid: i32) -> bool {
    let Ok(threads) = std::fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    let places: Vec<String> = threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("wchan")).ok())
        .collect();
    !places.is_empty() && places.iter().all(|place| is_wait_for_thread(place))
}

/// Whether a thread that sleeps in this function of the kernel waits for another thread, or for a signal, which no thread sends.
fn is_wait_for_thread(place: &str) -> bool {
    place.starts_with("futex_") || place.contains("sigtimedwait")
}

#[cfg(test)]
mod tests {
    use super::{APART, LOOKS, StuckWatch, is_wait_for_thread, waits_for_itself};
    use crate::clock;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc;
    use std::time::Duration;

    #[test]
    fn a_thread_that_waits_for_another_is_known_by_its_place() {
        let (sender, receiver) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let waiter = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid()).unwrap();
            // Ends when the other end is dropped.
            let _ = released.recv();
        });
        let tid = receiver.recv().unwrap().as_raw_nonzero();
        let place = || std::fs::read_to_string(format!("/proc/self/task/{tid}/wchan")).unwrap();
        let is_seen = clock::wait_until(Duration::from_secs(20), || is_wait_for_thread(&place()));
        let (place, me) = (place(), std::process::id() as i32);
        // This thread runs.
        assert!(!waits_for_itself(me));
        drop(release);
        waiter.join().unwrap();
        assert!(is_seen, "{place}");
    }

    /// Not a test of its own: what the next one starts, a program whose threads wait for each other for ever.
    #[test]
    #[ignore = "it never ends; another test starts it"]
    fn waits_for_itself_for_ever() {
        loop {
            std::thread::park();
        }
    }

    /// Whether `child` is found stuck within some looks; it is dead afterwards.
    fn is_found_stuck(mut child: Child, looks: u32) -> bool {
        let mut watch = StuckWatch::new(child.id() as i32, clock::now());
        let is_stuck = clock::wait_until(looks * APART, || watch.is_stuck());
        child.kill().unwrap();
        child.wait().unwrap();
        is_stuck
    }

    #[test]
    fn a_program_that_waits_for_itself_is_stuck_and_one_that_waits_for_its_input_is_not() {
        let myself = std::env::current_exe().unwrap();
        let name = "process::stuck::tests::waits_for_itself_for_ever";
        let mut stuck = Command::new(myself);
        stuck.args([name, "--exact", "--ignored"]).stdout(Stdio::null());
        assert!(is_found_stuck(stuck.spawn().expect("the tests start"), 20 * LOOKS));
        let mut reader = Command::new("cat");
        reader.stdin(Stdio::piped()).stdout(Stdio::null());
        assert!(!is_found_stuck(reader.spawn().expect("cat starts"), LOOKS + 1));
    }
}
