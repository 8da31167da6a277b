//! System calls that no start of Weir's program makes, now or in a later version: the process that starts it for upgrades, and what it starts,
//! may not make them.
//!
//! Every program that is executed from there on inherits the filter, so that this is a list of what is refused, not of what is allowed: a later
//! version may make calls that this one does not know. It has what the capabilities of such a process leave open, above all another user
//! namespace, in which a process has all of them again, and files by their handle, past every root folder.

use crate::system::sys::seccomp;

use super::system_calls::{ARCHITECTURE, ARGUMENT, NUMBER, PROCESSOR, equals, instruction};

/// What is refused fails so, as where the capability is missing.
const REFUSED: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;

/// Namespaces of its own: the flags of clone(2) that ask for one.
const NAMESPACES: u32 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u32;

/// Numbers from here on are calls of x86-64 with 32-bit pointers, a second way to all of them.
const OTHER_NUMBERS: u32 = 0x4000_0000;

#[rustfmt::skip]
const NEVER: &[libc::c_long] = &[
    // The kernel itself and the machine.
    libc::SYS_init_module, libc::SYS_finit_module, libc::SYS_delete_module, libc::SYS_kexec_load, libc::SYS_kexec_file_load, libc::SYS_reboot,
    libc::SYS_swapon, libc::SYS_swapoff, libc::SYS_acct, libc::SYS_quotactl, libc::SYS_syslog, libc::SYS_settimeofday, libc::SYS_clock_settime,
    libc::SYS_clock_adjtime, libc::SYS_adjtimex, libc::SYS_sethostname, libc::SYS_setdomainname, libc::SYS_vhangup, libc::SYS_bpf,
    libc::SYS_userfaultfd, libc::SYS_personality,
    // Namespaces and mounts.
    libc::SYS_unshare, libc::SYS_setns, libc::SYS_mount, libc::SYS_umount2, libc::SYS_pivot_root, libc::SYS_move_mount, libc::SYS_open_tree,
    libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount, libc::SYS_fspick, libc::SYS_mount_setattr,
    // Other processes, their files and the keys of their user.
    libc::SYS_ptrace, libc::SYS_process_vm_writev, libc::SYS_kcmp, libc::SYS_pidfd_getfd, libc::SYS_process_madvise, libc::SYS_move_pages,
    libc::SYS_migrate_pages, libc::SYS_add_key, libc::SYS_request_key, libc::SYS_keyctl,
    // Files past their folders.
    libc::SYS_open_by_handle_at, libc::SYS_fanotify_init,
];

#[cfg(target_arch = "x86_64")]
const NEVER_OF_PROCESSOR: &[libc::c_long] = &[libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];

#[cfg(not(target_arch = "x86_64"))]
const NEVER_OF_PROCESSOR: &[libc::c_long] = &[];

/// Refuses these calls to this process and all that it starts.
///
/// The kernel takes a filter from root with all capabilities, or where no program gets more rights than the process that executes it
/// (`no_new_privs`). That is not set here: a program whose file has capabilities would not get them at an upgrade. Others have none.
pub(super) fn refuse() {
    let Some(architecture) = ARCHITECTURE else { return };
    // As elsewhere, a kernel that takes no filter is no error.
    let _impossible = seccomp::install_refusing(&program(architecture));
}

fn program(architecture: u32) -> Vec<libc::sock_filter> {
    let load = |offset| instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset, 0, 0);
    let give = |action| instruction(libc::BPF_RET | libc::BPF_K, action, 0, 0);
    let mut program = vec![
        load(PROCESSOR),
        equals(architecture, 1, 0),
        give(REFUSED),
        load(NUMBER),
        instruction(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, OTHER_NUMBERS, 0, 1),
        give(REFUSED),
        // Threads, and processes without a namespace of their own.
        equals(libc::SYS_clone as u32, 0, 4),
        load(ARGUMENT),
        instruction(libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, NAMESPACES, 0, 1),
        give(REFUSED),
        give(libc::SECCOMP_RET_ALLOW),
        // Its flags are in memory, where a filter cannot see them: libraries fall back to clone(2).
        equals(libc::SYS_clone3 as u32, 0, 1),
        give(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32),
    ];
    let calls: Vec<u32> = NEVER.iter().chain(NEVER_OF_PROCESSOR).map(|call| *call as u32).collect();
    for (at, call) in calls.iter().enumerate() {
        let behind =
            u8::try_from(calls.len() - at).expect("the list is short enough for one jump: a test counts");
        program.push(equals(*call, behind, 0));
    }
    program.extend([give(libc::SECCOMP_RET_ALLOW), give(REFUSED)]);
    program
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::lifecycle::privileges::system_calls::outcome;

    #[test]
    fn what_is_in_the_list_is_refused_and_nothing_else() {
        let filter = program(7);
        let run = |architecture, call, argument| outcome(&filter, architecture, call, argument);
        let allow = libc::SECCOMP_RET_ALLOW;
        for call in NEVER.iter().chain(NEVER_OF_PROCESSOR) {
            assert_eq!(run(7, *call, 0), REFUSED, "{call}");
        }
        for call in [
            libc::SYS_execve,
            libc::SYS_read,
            libc::SYS_openat,
            libc::SYS_chroot,
            libc::SYS_setuid,
            libc::SYS_seccomp,
            libc::SYS_landlock_restrict_self,
            libc::SYS_io_uring_setup,
            libc::SYS_perf_event_open,
            // One of a later kernel.
            900,
        ] {
            assert_eq!(run(7, call, u32::MAX), allow, "{call}");
            assert_eq!(run(8, call, 0), REFUSED, "{call} of another processor");
            assert_eq!(run(7, call | 0x4000_0000, 0), REFUSED, "{call} with 32-bit pointers");
        }
        assert_eq!(run(7, -1, 0), REFUSED);
        assert_eq!(run(7, libc::SYS_clone3, 0), libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32);
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u32;
        let process = (libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD) as u32;
        for flags in [0, thread, process] {
            assert_eq!(run(7, libc::SYS_clone, flags), allow, "{flags:#x}");
            for bit in [libc::CLONE_NEWUSER, libc::CLONE_NEWNS, libc::CLONE_NEWNET, libc::CLONE_NEWPID] {
                assert_eq!(run(7, libc::SYS_clone, flags | bit as u32), REFUSED, "{flags:#x} {bit:#x}");
            }
        }
    }

    #[test]
    fn what_this_version_needs_is_not_refused() {
        for call in super::super::system_calls::allowed() {
            assert_eq!(outcome(&program(7), 7, call.into(), 0), libc::SECCOMP_RET_ALLOW, "{call}");
        }
    }

    #[test]
    fn programs_are_started_and_inherit_it() {
        // On a thread of its own: the other tests may do all this.
        std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            refuse();
            assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
            let shell = |script: &str| Command::new("/bin/sh").args(["-c", script]).output().unwrap();
            let status = shell("grep -h Seccomp: /proc/self/status");
            assert_eq!(String::from_utf8_lossy(&status.stdout).trim(), "Seccomp:\t2");
            let namespace = shell("unshare --user true");
            assert!(!namespace.status.success(), "{namespace:?}");
        })
        .join()
        .unwrap();
    }
}
