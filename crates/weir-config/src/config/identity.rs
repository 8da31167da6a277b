//! What the process becomes when its addresses and files are open: user, groups, root folder; and the file that names it.

use std::path::PathBuf;

/// The identity of the running process. Empty: as it was started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessIdentity {
    /// `process.user` and `process.group`.
    pub account: Option<ProcessAccount>,
    /// `process.chroot`.
    pub chroot: Option<PathBuf>,
    /// `process.pid_file`, relative to the working folder of the start.
    pub pid_file: Option<PathBuf>,
}

/// User and groups, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProcessAccount {
    /// The user as the config has it; `None`: it stays, only the group changes.
    pub user: Option<(Box<str>, u32)>,
    /// The group of the process, and of files that it makes.
    pub group: u32,
    /// Further groups.
    pub groups: Vec<u32>,
}

impl ProcessAccount {
    /// User and groups.
    pub fn new(user: Option<(Box<str>, u32)>, group: u32, groups: Vec<u32>) -> Self {
        Self { user, group, groups }
    }
}
