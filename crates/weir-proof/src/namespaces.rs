//! The namespaces in which a proof runs: network, mounts, processes, System V IPC and the name of the host are its own. Nothing is written or
//! started before it is shown that they are.
//!
//! Processes are in a namespace whose first one is the proof itself, so all that it starts ends with it, and no signal of theirs can reach another
//! process of the machine.

use std::ffi::OsString;
use std::io::{BufRead as _, Write as _};
use std::path::Path;
use std::process::{ChildStdin, Command, ExitCode, Stdio};

use anyhow::{Context as _, bail, ensure};
use rustix::process::geteuid;

use crate::program;

/// What is a namespace of its own: the option of unshare, and the name in `/proc/self/ns`.
const KINDS: [(&str, &str); 5] =
    [("--net", "net"), ("--mount", "mnt"), ("--pid", "pid"), ("--ipc", "ipc"), ("--uts", "uts")];

/// Programs that a proof starts beside the two that it compares, and the packages that have them.
const HELPERS: [(&str, &str); 5] = [
    ("unshare", "util-linux"),
    ("mount", "mount or util-linux"),
    ("umount", "mount or util-linux"),
    ("ip", "iproute2"),
    ("openssl", "openssl"),
];

/// Variables by which programs are told of sockets and services of the running system.
const FOREIGN_VARIABLES: [&str; 10] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DBUS_SYSTEM_BUS_ADDRESS",
    "INVOCATION_ID",
    "JOURNAL_STREAM",
    "LISTEN_FDNAMES",
    "LISTEN_FDS",
    "LISTEN_PID",
    "NGINX",
    "NOTIFY_SOCKET",
    "WATCHDOG_USEC",
];

/// Starts this program again with these arguments, in namespaces of its own; the exit code is that of the proof.
///
/// # Errors
/// A right or a program is missing.
pub(crate) fn run_apart(arguments: &[OsString]) -> anyhow::Result<ExitCode> {
    require_helpers()?;
    require_rights()?;
    let mut command = unshare();
    command.arg(std::env::current_exe()?).arg("--inside").arg(own()?.join(",")).args(arguments);
    for name in FOREIGN_VARIABLES {
        command.env_remove(name);
    }
    let mut child = command.stdin(Stdio::piped()).spawn().context("cannot start unshare")?;
    let mut line = child.stdin.take();
    // It is held as long as this process lives: its end ends the proof.
    if let Some(line) = &mut line {
        tell_sockets(line)?;
    }
    let code = child.wait()?.code();
    drop(line);
    Ok(code.and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::from(2), ExitCode::from))
}

fn unshare() -> Command {
    let mut command = Command::new("unshare");
    command.args(KINDS.map(|(option, _)| option)).arg("--fork");
    command
}

fn require_helpers() -> anyhow::Result<()> {
    for (name, package) in HELPERS {
        ensure!(program::find(name).is_ok(), "there is no {name}: install the package {package}");
    }
    Ok(())
}

fn require_rights() -> anyhow::Result<()> {
    ensure!(
        geteuid().is_root(),
        "a proof needs the rights of root, for a network and a copy of the file system of its own: run it with sudo"
    );
    let trial = unshare().arg("true").stdin(Stdio::null()).output().context("cannot start unshare")?;
    let said = String::from_utf8_lossy(&trial.stderr);
    ensure!(
        trial.status.success(),
        "root may not make namespaces here ({}): in a container, it needs the capability SYS_ADMIN and a profile of seccomp that permits \
         `unshare` and `mount`; else run it on the machine itself",
        said.trim()
    );
    Ok(())
}

/// The namespaces of this process.
fn own() -> anyhow::Result<[String; 5]> {
    let mut found = KINDS.map(|(_, name)| name.to_owned());
    for name in &mut found {
        let link =
            std::fs::read_link(Path::new("/proc/self/ns").join(&name)).context("/proc is not mounted")?;
        *name = link.to_string_lossy().into_owned();
    }
    Ok(found)
}

/// Fails unless each namespace of this process is another one than `outside` says.
///
/// # Errors
/// One of them is that of the machine.
pub(crate) fn require_apart(outside: &str) -> anyhow::Result<()> {
    let outside: Vec<&str> = outside.split(',').collect();
    let own = own()?;
    ensure!(outside.len() == own.len(), "the program starts itself in this way");
    for (own, outside) in own.iter().zip(outside) {
        let kind = own.split(':').next().unwrap_or_default();
        ensure!(outside.split(':').next() == Some(kind), "the program starts itself in this way");
        if own == outside {
            bail!("the namespace {own} is that of the machine: nothing was started");
        }
    }
    ensure!(std::process::id() == 1, "this is not the first process of its namespace: nothing was started");
    Ok(())
}

/// The sockets of running programs, one in a line, and an empty line.
fn tell_sockets(line: &mut ChildStdin) -> anyhow::Result<()> {
    let mut text = String::new();
    for path in bound_sockets() {
        text.push_str(&path);
        text.push('\n');
    }
    text.push('\n');
    line.write_all(text.as_bytes()).context("the proof has not started")
}

/// Paths of Unix sockets that programs of this machine have bound, in its networks.
fn bound_sockets() -> Vec<String> {
    let mut networks = Vec::new();
    let mut found = Vec::new();
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    for process in processes {
        let Ok(network) = std::fs::read_link(process.join("ns/net")) else { continue };
        if networks.contains(&network) {
            continue;
        }
        networks.push(network);
        let table = std::fs::read_to_string(process.join("net/unix")).unwrap_or_default();
        // Abstract names belong to the network.
        let paths = table.lines().filter_map(|line| line.find(" /").map(|at| &line[at + 1..]));
        found.extend(paths.map(str::to_owned));
    }
    found.sort();
    found.dedup();
    found
}

/// Takes the sockets of running programs from standard input, and ends this process when that ends: the one that has started it is gone then.
pub(crate) fn follow_starter() -> Vec<String> {
    let mut sockets = Vec::new();
    let mut lines = std::io::stdin().lock().lines();
    for line in lines.by_ref().map_while(Result::ok) {
        if line.is_empty() {
            break;
        }
        sockets.push(line);
    }
    drop(lines);
    std::thread::spawn(|| {
        // Nothing more comes.
        let _ = std::io::stdin().lock().read_line(&mut String::new());
        std::process::exit(2);
    });
    sockets
}

#[cfg(test)]
mod tests {
    use super::{own, require_apart};

    #[test]
    fn namespaces_of_the_machine_are_refused() {
        let own = own().unwrap();
        let refused = |outside: &str| require_apart(outside).unwrap_err().to_string();
        assert!(refused(&own.join(",")).contains("is that of the machine"), "{own:?}");
        let other = own.clone().map(|name| name.split(':').next().unwrap().to_owned() + ":[1]");
        let mut one = other.clone();
        one[2] = own[2].clone();
        assert!(refused(&one.join(",")).contains(&own[2]), "{one:?}");
        assert!(refused("").contains("starts itself"));
        assert!(refused(&other[..4].join(",")).contains("starts itself"));
        // A test is not the first process of anything.
        assert!(refused(&other.join(",")).contains("first process"));
    }
}
