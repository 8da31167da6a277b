//! Start, upgrade and rights of the process.

pub(super) mod sockets;
pub(super) mod upgrade;
pub(super) mod pid_file;
pub(super) mod process;
pub(super) mod panics;
pub(super) mod privileges;
