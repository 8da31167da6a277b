//! Notifications to systemd, or another supervisor at `NOTIFY_SOCKET` (sd_notify(3)): ready, reloading, upgraded, stopping.
//!
//! A unit of `Type=notify-reload` waits for these. Must not fail: without the variable nothing is sent.

use sd_notify::NotifyState;

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
