//! One timer of the kernel, which wakes an event loop like a socket does.
//!
//! An event loop that keeps timers of its own reads the clock several times whenever it waits. This one is touched only when
//! it is set. Must not know the purpose of a wait.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::net::sys;

/// A timer of the kernel (`timerfd_create(2)`).
#[derive(Debug)]
pub(crate) struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    /// An alarm that is not set, in the event loop of this thread.
    ///
    /// # Errors
    /// When there is no descriptor left for it.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(sys::watch(timer, Interest::READABLE)?))
    }

    /// Sets it to fire after `length`; replaces the time that was set before.
    pub(crate) fn set(&self, length: Duration) {
        // Zero would turn it off.
        let length = length.max(Duration::from_nanos(1));
        let it_value =
            Timespec { tv_sec: length.as_secs().cast_signed(), tv_nsec: length.subsec_nanos().into() };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let set = timerfd_settime(
            self.0.get_ref(),
            TimerfdTimerFlags::empty(),
            &Itimerspec { it_interval, it_value },
        );
        debug_assert!(set.is_ok(), "a timer takes every time that is one: {set:?}");
    }

    /// Waits until it fires.
    pub(crate) async fn rung(&self) {
        match self.0.readable().await {
            // The event loop reports every expiration, whether the count of them is read or not.
            Ok(mut ready) => ready.clear_ready(),
            // The event loop ends, and with it every waiting task.
            Err(_) => std::future::pending().await,
        }
    }
}
