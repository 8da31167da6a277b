//! A copy of this process that goes its own way, and what it keeps of the original.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};

use rustix::process::Pid;

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forked {
    /// With the copy's number.
    Parent(Pid),
    Child,
}

/// Makes a copy of this process, which has one thread.
///
/// # Errors
/// When other threads run, or the system makes no process.
pub(crate) fn fork() -> io::Result<Forked> {
    if std::fs::read_dir("/proc/self/task")?.count() > 1 {
        return Err(io::Error::other("other threads run already"));
    }
    // SAFETY: there is one thread, so nothing that another one was doing stands still half done in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Forked::Child),
        copy => {
            Pid::from_raw(copy).map(Forked::Parent).ok_or_else(|| io::Error::other("a copy has no number"))
        }
    }
}

/// Gives the calling process a name, as lists of processes show it.
pub(crate) fn set_name(name: &CStr) {
    // SAFETY: the name ends with a zero; the kernel copies it.
    unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
}

/// In the copy: closes all descriptors but standard output and error and `kept`, has no signal end or disturb it, and gives it a name.
pub(crate) fn keep_only(kept: BorrowedFd<'_>, name: &CStr) {
    let kept = kept.as_raw_fd().cast_unsigned();
    // SAFETY: the copy uses none of the closed descriptors any more; the handler does nothing.
    unsafe {
        if kept > 3 {
            libc::syscall(libc::SYS_close_range, 3, kept - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, kept + 1, u32::MAX, 0);
        // Standard input may be the socket to a process that waits for its other end to be closed.
        let null = libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if null > 0 {
            libc::dup2(null, 0);
            libc::close(null);
        }
        // A handler of its own and no blocked signal: a program that the copy starts has the handling of a fresh process.
        for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM, libc::SIGUSR1, libc::SIGUSR2]
        {
            libc::signal(signal, disregard as extern "C" fn(libc::c_int) as libc::sighandler_t);
        }
    }
    set_name(name);
}

/// The handler of signals that are meant for the original.
extern "C" fn disregard(_signal: libc::c_int) {}

/// Ends the copy at once, without what a program does at its end: that is the original's.
pub(crate) fn exit() -> ! {
    // SAFETY: it does not return.
    unsafe { libc::_exit(0) }
}
