//! Tasks and threads of the control plane that a panic does not end: each is begun anew, after a pause that grows.
//!
//! Unlike a worker, which serves nothing while it crashes, such a task never ends the process: traffic goes on without it, by what it has found out
//! before. Must not know what the tasks do.

#![forbid(unsafe_code)]

mod keep;
mod faults;
mod restarts;
mod clock;

pub use faults::strike_tasks_by;
pub use keep::{keep, keep_telling, keep_thread};
pub use restarts::{RestartPauses, count_restart, note_restart, restarts};
