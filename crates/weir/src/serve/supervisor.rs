//! Notifications to systemd, or another supervisor at `NOTIFY_SOCKET` (sd_notify(3)): ready, reloading, upgraded, stopping, alive.
//!
//! A unit of `Type=notify-reload` waits for these. Must not fail: without the variable nothing is sent.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use sd_notify::NotifyState;
use weir_control::ProcessState;

/// How often the watchdog of the supervisor (`WATCHDOG_USEC`) is answered: four times in its time. `None`: there is none.
pub(super) fn watchdog_interval() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|time| time / 4).filter(|interval| !interval.is_zero())
}

/// What the process does now.
pub(super) fn tell_state(state: ProcessState) {
    match state {
        ProcessState::Ready => tell(&[NotifyState::Ready, NotifyState::Status("ready")]),
        ProcessState::Reloading => tell_reloading(),
        ProcessState::Alive => tell(&[NotifyState::Watchdog]),
        ProcessState::LeftTo(process) => tell(&[
            NotifyState::MainPid(process),
            NotifyState::Status("upgraded: running exchanges may finish"),
        ]),
        ProcessState::Stopping => {
            tell(&[NotifyState::Stopping, NotifyState::Status("stopping: running exchanges may finish")]);
        }
    }
}

/// `Type=notify-reload` requires the time.
fn tell_reloading() {
    let reloading = [NotifyState::Reloading, NotifyState::Status("reloading the config")];
    match NotifyState::monotonic_usec_now() {
        Ok(now) => tell(&[&reloading[..], &[now]].concat()),
        Err(_) => tell(&reloading),
    }
}

fn tell(states: &[NotifyState<'_>]) {
    let Some(name) = std::env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else { return };
    let text: String = states.iter().map(|state| format!("{state}\n")).collect();
    if let Err(error) = send(&name, text.as_bytes()) {
        tracing::warn!(%error, "the supervisor at NOTIFY_SOCKET cannot be notified");
    }
}

/// Sends a datagram to a path or, behind an `@`, to a name in the abstract namespace (unix(7)).
fn send(name: &OsStr, text: &[u8]) -> io::Result<()> {
    let address = match name.as_bytes().strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(name)?,
    };
    UnixDatagram::unbound()?.send_to_addr(text, &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_supervisor_has_a_path_or_an_abstract_name() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let name = format!("weir-test-{}", std::process::id());
        let sockets = [
            (path.as_os_str().to_owned(), UnixDatagram::bind(&path).unwrap()),
            (
                format!("@{name}").into(),
                UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
            ),
        ];
        for (name, socket) in sockets {
            send(&name, b"READY=1\n").unwrap();
            let mut received = [0; 64];
            let len = socket.recv(&mut received).unwrap();
            assert_eq!(&received[..len], b"READY=1\n", "{name:?}");
        }
        assert!(send(OsStr::new("@weir-test-none"), b"READY=1\n").is_err());
    }
}
