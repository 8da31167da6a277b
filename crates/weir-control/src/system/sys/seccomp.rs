//! seccomp(2): installs a filter, and answers for the calls that it reports (seccomp_unotify(2)).

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// How a filter was installed.
pub(crate) enum InstalledFilter {
    /// Calls that are not allowed wait for an answer at this descriptor.
    Asking(OwnedFd),
    /// They are refused by the kernel: it cannot ask, or the program that has started this one is asked already.
    Refusing,
}

/// A call that waits for its answer.
pub(crate) struct DeniedCall {
    id: u64,
    /// The number of the system call.
    pub(crate) number: i32,
    /// The id of the thread.
    pub(crate) thread: u32,
}

/// Installs the first filter for this thread and those that it starts, or the second where the kernel cannot ask.
///
/// # Errors
/// Those of seccomp(2).
pub(crate) fn install(
    asking: &[libc::sock_filter],
    refusing: &[libc::sock_filter],
) -> io::Result<InstalledFilter> {
    // Without this flag, kernels before 5.16 turn speculation off for the whole process, which costs far more than the filter.
    let flags = libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW;
    match seccomp(asking, flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER) {
        Ok(fd) => {
            let fd = i32::try_from(fd).map_err(io::Error::other)?;
            // SAFETY: the kernel has just made this descriptor for the caller, which is its only owner. It has FD_CLOEXEC.
            Ok(InstalledFilter::Asking(unsafe { OwnedFd::from_raw_fd(fd) }))
        }
        Err(_) => install_refusing(refusing).map(|()| InstalledFilter::Refusing),
    }
}

/// Installs a filter for this thread and those that it starts.
///
/// # Errors
/// Those of seccomp(2).
pub(crate) fn install_refusing(filter: &[libc::sock_filter]) -> io::Result<()> {
    seccomp(filter, libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW).map(drop)
}

fn seccomp(filter: &[libc::sock_filter], flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let len = u16::try_from(filter.len()).map_err(io::Error::other)?;
    let program = libc::sock_fprog { len, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the kernel reads `len` instructions behind `filter`, which live until it returns, and writes none.
    let result =
        unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// `struct seccomp_notif`, with its `struct seccomp_data`.
#[repr(C)]
#[derive(Default)]
struct Notification {
    id: u64,
    pid: u32,
    flags: u32,
    number: i32,
    architecture: u32,
    instruction: u64,
    arguments: [u64; 6],
}

/// `struct seccomp_notif_resp`.
#[repr(C)]
struct Response {
    id: u64,
    value: i64,
    error: i32,
    flags: u32,
}

/// `SECCOMP_IOCTL_NOTIF_RECV` and `SECCOMP_IOCTL_NOTIF_SEND`: `_IOWR('!', 0, ...)` and `_IOWR('!', 1, ...)` of these structures.
const RECEIVE: u32 = 0xc000_2100 | (size_of::<Notification>() as u32) << 16;
const SEND: u32 = 0xc000_2101 | (size_of::<Response>() as u32) << 16;

/// Waits for the next call; `None`: there is no more to come.
pub(crate) fn next(listener: BorrowedFd<'_>) -> Option<DeniedCall> {
    loop {
        let mut notification = Notification::default();
        // SAFETY: the kernel writes one structure of this size, which lives until it returns, and which it wants to be zero before.
        let result = unsafe { libc::ioctl(listener.as_raw_fd(), RECEIVE as _, &raw mut notification) };
        if result == 0 {
            let Notification { id, number, pid, .. } = notification;
            return Some(DeniedCall { id, number, thread: pid });
        }
        match io::Error::last_os_error().raw_os_error() {
            // A signal came, or the thread has been killed before it could be reported.
            Some(libc::EINTR | libc::ENOENT) => {}
            _ => return None,
        }
    }
}

/// Has the call fail with `EPERM`.
pub(crate) fn refuse(listener: BorrowedFd<'_>, call: &DeniedCall) {
    let response = Response { id: call.id, value: 0, error: -libc::EPERM, flags: 0 };
    // SAFETY: the kernel reads one structure of this size, which lives until it returns. A thread that is gone by now is no harm.
    let _gone = unsafe { libc::ioctl(listener.as_raw_fd(), SEND as _, &raw const response) };
}
