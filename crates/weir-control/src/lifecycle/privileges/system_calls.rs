//! seccomp: the system calls that Weir makes, as a filter of the kernel. Every other call fails with `EPERM` and is logged.
//!
//! The list is for both C libraries (glibc and musl), all features, x86-64 and aarch64. No call starts a process or another program: clone(2)
//! makes threads only, and clone3(2), whose flags a filter cannot see, is reported as missing, so that libraries fall back to clone(2).

use std::fmt;

use crate::system::sys::seccomp::{self, InstalledFilter};

/// Whether system calls are filtered.
#[derive(Debug)]
pub(super) enum SystemCallFilter {
    /// The config wants no filter.
    Off,
    /// There is none, for this reason.
    Impossible(String),
    /// There is one; denied calls are logged, or only refused.
    On { is_logged: bool },
}

impl SystemCallFilter {
    pub(super) fn is_on(&self) -> bool {
        matches!(self, Self::On { .. })
    }
}

impl fmt::Display for SystemCallFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = ALLOWED.len() + OF_PROCESSOR.len() + 2;
        match self {
            Self::Off => write!(f, "not filtered"),
            Self::Impossible(why) => write!(f, "not filtered: {why}"),
            Self::On { is_logged: true } => {
                write!(f, "{count} allowed (seccomp), others are denied and logged")
            }
            Self::On { is_logged: false } => write!(f, "{count} allowed (seccomp), others are denied"),
        }
    }
}

/// Filters the calls of this thread, and of those that it starts.
pub(super) fn confine() -> SystemCallFilter {
    let Some(architecture) = ARCHITECTURE else {
        return SystemCallFilter::Impossible(
            "there is no list of system calls for this processor".to_owned(),
        );
    };
    let program = |deny| FilterProgram::new(architecture, &allowed(), deny).0;
    match seccomp::install(&program(Deny::Ask.action()), &program(Deny::Refuse.action())) {
        Ok(InstalledFilter::Asking(listener)) => {
            super::denied_calls::follow(listener);
            SystemCallFilter::On { is_logged: true }
        }
        Ok(InstalledFilter::Refusing) => SystemCallFilter::On { is_logged: false },
        Err(error) => SystemCallFilter::Impossible(format!("the kernel refuses a filter: {error}")),
    }
}

/// Filters the calls of this thread, and of those that it starts, where no thread could log what is denied.
pub(super) fn confine_in_silence() {
    let Some(architecture) = ARCHITECTURE else { return };
    let refusing = FilterProgram::new(architecture, &allowed(), Deny::Refuse.action()).0;
    // As elsewhere, a kernel without filters is no error.
    let _impossible = seccomp::install_refusing(&refusing);
}

pub(super) fn allowed() -> Vec<u32> {
    ALLOWED.iter().chain(OF_PROCESSOR).map(|call| *call as u32).collect()
}

/// What becomes of a call that is not allowed.
#[derive(Debug, Clone, Copy)]
enum Deny {
    /// A thread of this process is asked, which logs and denies it.
    Ask,
    /// `EPERM`.
    Refuse,
}

impl Deny {
    const fn action(self) -> u32 {
        match self {
            Self::Ask => libc::SECCOMP_RET_USER_NOTIF,
            Self::Refuse => libc::SECCOMP_RET_ERRNO | libc::EPERM as u32,
        }
    }
}

/// Offsets in `struct seccomp_data`; of the first argument the lower half (both processors are little-endian).
pub(super) const NUMBER: u32 = 0;
pub(super) const PROCESSOR: u32 = 4;
pub(super) const ARGUMENT: u32 = 16;

/// A filter as the kernel takes it.
struct FilterProgram(Vec<libc::sock_filter>);

impl FilterProgram {
    /// The filter that allows calls of `allowed`, threads, and sockets of three families.
    fn new(architecture: u32, allowed: &[u32], deny: u32) -> Self {
        let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
        let give = |action| instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0);
        // The end, from which jumps are counted: what a call comes to.
        let end = [
            give(deny),
            load(ARGUMENT),
            instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, libc::CLONE_THREAD as u32, 5, 0),
            give(deny),
            load(ARGUMENT),
            equals(libc::AF_UNIX as u32, 2, 0),
            equals(libc::AF_INET as u32, 1, 0),
            equals(libc::AF_INET6 as u32, 0, 1),
            give(libc::SECCOMP_RET_ALLOW),
            give(deny),
            give(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
        ];
        let (denied, threads, sockets, permitted, missing) = (0, 1, 4, 8, 10);
        let mut tests: Vec<(u32, usize)> = allowed.iter().map(|call| (*call, permitted)).collect();
        tests.extend([
            (libc::SYS_clone as u32, threads),
            (libc::SYS_socket as u32, sockets),
            (libc::SYS_clone3 as u32, missing),
        ]);
        let mut program = vec![load(PROCESSOR), equals(architecture, 1, 0), give(deny), load(NUMBER)];
        for (at, (call, target)) in tests.iter().enumerate() {
            let between = tests.len() - at - 1 + target;
            let jump = u8::try_from(between).expect("the list is short enough for one jump: a test counts");
            program.push(equals(*call, jump, 0));
        }
        debug_assert_eq!(
            denied, 0,
            "a call that is in no test falls through to the first instruction of the end"
        );
        program.extend(end);
        Self(program)
    }
}

pub(super) fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

pub(super) fn equals(value: u32, jt: u8, jf: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, value, jt, jf)
}

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` of the kernel: ELF machine, 64 bits, little-endian.
pub(super) const ARCHITECTURE: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else {
    None
};

/// The calls of both processors; those of the data path come first, for kernels that go through the list at every call (before 5.11).
#[rustfmt::skip]
const ALLOWED: &[libc::c_long] = &[
    // The data path.
    libc::SYS_sendto, libc::SYS_recvfrom, libc::SYS_read, libc::SYS_write, libc::SYS_writev, libc::SYS_readv, libc::SYS_sendmsg,
    libc::SYS_recvmsg, libc::SYS_epoll_pwait, libc::SYS_epoll_ctl, libc::SYS_accept4, libc::SYS_close, libc::SYS_connect, libc::SYS_shutdown,
    libc::SYS_setsockopt, libc::SYS_getsockopt, libc::SYS_sendfile, libc::SYS_splice, libc::SYS_clock_gettime, libc::SYS_futex,
    // Sockets.
    libc::SYS_accept, libc::SYS_bind, libc::SYS_getpeername, libc::SYS_getsockname, libc::SYS_listen, libc::SYS_recvmmsg, libc::SYS_sendmmsg,
    libc::SYS_socketpair,
    // Events and time.
    libc::SYS_clock_getres, libc::SYS_clock_nanosleep, libc::SYS_epoll_create1, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_gettimeofday,
    libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch, libc::SYS_nanosleep, libc::SYS_ppoll, libc::SYS_pselect6,
    libc::SYS_signalfd4, libc::SYS_timer_create, libc::SYS_timer_delete, libc::SYS_timer_settime, libc::SYS_timerfd_create, libc::SYS_timerfd_gettime,
    libc::SYS_timerfd_settime,
    // Files.
    libc::SYS_close_range, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64,
    libc::SYS_fallocate, libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync,
    libc::SYS_flock, libc::SYS_fstat, libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_ioctl,
    libc::SYS_linkat, libc::SYS_lseek, libc::SYS_memfd_create, libc::SYS_mkdirat, libc::SYS_newfstatat, libc::SYS_openat, libc::SYS_openat2,
    libc::SYS_pipe2, libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_readahead,
    libc::SYS_readlinkat, libc::SYS_renameat, libc::SYS_renameat2, libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat, libc::SYS_sync_file_range,
    libc::SYS_tee, libc::SYS_unlinkat, libc::SYS_utimensat,
    // Memory.
    libc::SYS_brk, libc::SYS_get_mempolicy, libc::SYS_madvise, libc::SYS_mbind, libc::SYS_membarrier, libc::SYS_mincore, libc::SYS_mlock, libc::SYS_mmap,
    libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_msync, libc::SYS_munlock, libc::SYS_munmap,
    // Threads, signals and the process itself.
    libc::SYS_capget, libc::SYS_exit, libc::SYS_exit_group, libc::SYS_get_robust_list, libc::SYS_getcpu, libc::SYS_getegid, libc::SYS_geteuid,
    libc::SYS_getgid, libc::SYS_getgroups, libc::SYS_getpid, libc::SYS_getppid, libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_getresgid,
    libc::SYS_getresuid, libc::SYS_getrusage, libc::SYS_gettid, libc::SYS_getuid, libc::SYS_kill, libc::SYS_prctl, libc::SYS_prlimit64,
    libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait, libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_setaffinity, libc::SYS_sched_yield, libc::SYS_set_robust_list, libc::SYS_setpriority,
    libc::SYS_set_tid_address, libc::SYS_sigaltstack, libc::SYS_sysinfo, libc::SYS_tgkill, libc::SYS_times, libc::SYS_tkill, libc::SYS_umask,
    libc::SYS_uname,
    // Profiles.
    libc::SYS_perf_event_open, libc::SYS_process_vm_readv,
];

/// Older forms of calls above, which aarch64 does not have.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OF_PROCESSOR: &[libc::c_long] = &[
    libc::SYS_access, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown, libc::SYS_creat, libc::SYS_dup2, libc::SYS_epoll_create, libc::SYS_epoll_wait,
    libc::SYS_eventfd, libc::SYS_getdents, libc::SYS_getrlimit, libc::SYS_inotify_init, libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_open,
    libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename, libc::SYS_rmdir, libc::SYS_select, libc::SYS_signalfd, libc::SYS_stat,
    libc::SYS_time, libc::SYS_unlink,
];

#[cfg(not(target_arch = "x86_64"))]
const OF_PROCESSOR: &[libc::c_long] = &[];

/// What a filter says of a call, by its instructions as the kernel runs them.
#[cfg(test)]
pub(super) fn outcome(program: &[libc::sock_filter], architecture: u32, call: i64, argument: u32) -> u32 {
    let (mut at, mut loaded) = (0, 0);
    loop {
        let step = program[at];
        at += 1;
        let code = u32::from(step.code);
        let jump = |holds: bool| usize::from(if holds { step.jt } else { step.jf });
        if code == libc::BPF_RET | libc::BPF_K {
            return step.k;
        } else if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS {
            loaded = match step.k {
                NUMBER => call as u32,
                PROCESSOR => architecture,
                _ => argument,
            };
        } else if code == libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K {
            at += jump(loaded == step.k);
        } else if code == libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K {
            at += jump(loaded >= step.k);
        } else {
            assert_eq!(code, libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K);
            at += jump(loaded & step.k != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The outcome where `deny` is 1.
    fn run(architecture: u32, call: i64, argument: u32) -> u32 {
        outcome(&FilterProgram::new(7, &allowed(), 1).0, architecture, call, argument)
    }

    #[test]
    fn the_filter_allows_what_is_in_the_list_and_nothing_else() {
        let allow = libc::SECCOMP_RET_ALLOW;
        for call in ALLOWED.iter().chain(OF_PROCESSOR) {
            assert_eq!(run(7, *call, 0), allow, "{call}");
            assert_eq!(run(8, *call, 0), 1, "{call} of another processor");
        }
        for call in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_mount,
            libc::SYS_chroot,
            libc::SYS_bpf,
            libc::SYS_setuid,
            libc::SYS_seccomp,
            libc::SYS_io_uring_setup,
            libc::SYS_keyctl,
            libc::SYS_unshare,
            -1,
            // The forms of calls with 32-bit pointers.
            libc::SYS_read | 0x4000_0000,
        ] {
            assert_eq!(run(7, call, 0), 1, "{call}");
        }
        let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;
        assert_eq!(run(7, libc::SYS_clone3, 0), missing);
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u32;
        assert_eq!(run(7, libc::SYS_clone, thread), allow);
        assert_eq!(run(7, libc::SYS_clone, libc::SIGCHLD as u32), 1);
        for (family, expected) in [
            (libc::AF_UNIX, allow),
            (libc::AF_INET, allow),
            (libc::AF_INET6, allow),
            (libc::AF_NETLINK, 1),
            (libc::AF_PACKET, 1),
        ] {
            assert_eq!(run(7, libc::SYS_socket, family as u32), expected, "{family}");
        }
    }

    #[test]
    fn the_kernel_takes_the_filter_and_denied_calls_are_reported() {
        // On a thread of its own: the other tests start programs.
        std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            let filter = confine();
            assert!(matches!(filter, SystemCallFilter::On { is_logged: true }), "{filter}");
            crate::lifecycle::privileges::denied_calls::report().unwrap();
            let before = crate::lifecycle::privileges::denied_calls::count();
            let refused = rustix::process::chroot("/").unwrap_err();
            assert_eq!(refused, rustix::io::Errno::PERM);
            assert_eq!(crate::lifecycle::privileges::denied_calls::count(), before + 1);
            // Threads are made, programs are not started.
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
            assert!(std::process::Command::new("/bin/true").status().is_err());
        })
        .join()
        .unwrap();
    }
}
