//! The two ends of a pipe, through which bytes move inside the kernel.

use std::os::fd::OwnedFd;

use rustix::pipe::{PipeFlags, pipe_with};

use super::descriptors::PipePermit;

/// The two ends of a pipe.
#[derive(Debug)]
pub(crate) struct PipeEnds {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
    _permit: PipePermit,
}

impl PipeEnds {
    /// A new pipe; `None` when pipes have their share of the descriptors, or the system has none to give.
    pub(crate) fn new() -> Option<Self> {
        let permit = PipePermit::take()?;
        let (read, write) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).ok()?;
        Some(Self { read, write, _permit: permit })
    }
}
