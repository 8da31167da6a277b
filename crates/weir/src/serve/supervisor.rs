//! Notifications to systemd, or another supervisor at `NOTIFY_SOCKET` (sd_notify(3)): ready, reloading, upgraded, stopping, alive.
//!
//! A unit of `Type=notify-reload` waits for these. Must not fail: without the variable nothing is sent.

use std::time::Duration;

use sd_notify::NotifyState;
use weir_control::{ProgressCheck, Proxy};

/// How often the watchdog of the supervisor (`WATCHDOG_USEC`) is answered: four times in its time. `None`: there is none.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4).filter(|interval| !interval.is_zero())
}

/// The answers to the watchdog: only while the control thread and all workers make progress, and the main thread, which gives them.
#[derive(Default)]
pub(crate) struct Watchdog {
    check: Option<ProgressCheck>,
    is_silent: bool,
}

impl Watchdog {
    /// Answers, if all threads have answered since the last time.
    pub(crate) fn answer(&mut self, proxy: &Proxy) {
        let silent = self.check.as_mut().map(ProgressCheck::silent).unwrap_or_default();
        if silent.is_empty() {
            tell(&[NotifyState::Watchdog]);
            self.check = Some(proxy.ask_progress());
            self.is_silent = false;
        } else if !std::mem::replace(&mut self.is_silent, true) {
            let threads = silent.join(", ");
            tracing::error!(
                threads,
                "no progress: the watchdog of the supervisor is not answered, and restarts Weir in the end"
            );
        }
    }
}

/// All addresses take connections; also at the end of a reload, whatever came of it.
pub(crate) fn tell_ready() {
    tell(&[NotifyState::Ready, NotifyState::Status("ready")]);
}

/// A reload has begun. `Type=notify-reload` requires the time.
pub(crate) fn tell_reloading() {
    let reloading = [NotifyState::Reloading, NotifyState::Status("reloading the config")];
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[&reloading[..], &[now]].concat()),
        Err(_) => tell(&reloading),
    }
}

/// The stop has begun.
pub(crate) fn tell_stopping() {
    tell(&[NotifyState::Stopping, NotifyState::Status("stopping: running exchanges may finish")]);
}

/// Another process is the main one from now on.
pub(crate) fn tell_main_process(process: u32) {
    tell(&[NotifyState::MainPid(process), NotifyState::Status("upgraded: running exchanges may finish")]);
}

fn tell(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be notified");
    }
}
