//! Tasks and threads of the control plane that a panic does not end: each is begun anew, after a pause that grows.
//!
//! Unlike a worker, which serves nothing while it crashes, such a task never ends the process: traffic goes on without it, by what it has found out
//! before. Must not know what the tasks do.

#![forbid(unsafe_code)]

mod owned_task;
mod keep;
mod blocking;
mod faults;
mod restarts;
mod clock;

pub use blocking::blocking;
pub use faults::{strike, strike_tasks_by};
pub use keep::{keep, keep_telling, keep_thread};
pub use owned_task::OwnedTask;
pub use restarts::{RestartPauses, count_restart, note_restart, restarts};
