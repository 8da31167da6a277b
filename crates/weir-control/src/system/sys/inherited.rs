//! Descriptors that the supervisor has opened for this process (sd_listen_fds(3)).

use std::os::fd::{BorrowedFd, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// The first one.
const FIRST: i32 = 3;

/// Takes the descriptors that the environment names, with their names; none at the second call, or where the environment is that of
/// another process.
///
/// Whatever else the process was started with is not for programs that it may start: all descriptors are closed on exec from now on.
pub(crate) fn take() -> Vec<(String, OwnedFd)> {
    static TAKEN: AtomicBool = AtomicBool::new(false);
    // SAFETY: the call sets a flag of descriptors and closes none. Kernels before 5.11 do not have it, and that is no harm.
    let _unknown =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let is_for_us = number("LISTEN_PID") == Some(std::process::id());
    let count = number("LISTEN_FDS").and_then(|count| i32::try_from(count).ok()).unwrap_or(0);
    if !is_for_us || TAKEN.swap(true, Ordering::Relaxed) {
        return Vec::new();
    }
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let mut names = names.split(':').map(str::to_owned);
    let numbers =
        (FIRST..FIRST.saturating_add(count)).map(|number| (names.next().unwrap_or_default(), number));
    let is_open = |(_, number): &(String, i32)| {
        // SAFETY: the call changes nothing, and says so where there is no such descriptor.
        let borrowed = unsafe { BorrowedFd::borrow_raw(*number) };
        rustix::io::fcntl_setfd(borrowed, rustix::io::FdFlags::CLOEXEC).is_ok()
    };
    let open: Vec<(String, i32)> = numbers.take_while(is_open).collect();
    // SAFETY: the environment says that these were opened for this process, which has just begun: nothing else owns them, and they are
    // taken once. Each is open: the flag was just set.
    open.into_iter().map(|(name, number)| (name, unsafe { OwnedFd::from_raw_fd(number) })).collect()
}
