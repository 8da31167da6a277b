//! Giving up privileges at the end of the start: user, groups, root folder, capabilities, and what the kernel lets the process do.
//!
//! Called once, by the program, when everything that needs privileges is open and before any thread is started: every one of these steps
//! holds for one thread, and threads inherit them. Nothing gives a privilege back, so a reload has what is left.

mod account;
mod file_access;
mod start_calls;
mod system_calls;
mod denied_calls;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::thread::CapabilitySet;
use weir_config::{Config, DnsRecords, ProcessAccount, SandboxMode};
use weir_observe::overview::ConfinementOverview;
use weir_proxy::net::source;

pub(crate) use denied_calls::{count as denied_calls, report as report_denied_calls};

use crate::start_error::StartError;
use file_access::FileAccess;
use system_calls::SystemCallFilter;

/// What is left of the privileges of the process.
#[derive(Debug)]
struct Confinement {
    /// The user that the process has become; `None`: it stayed the one that has started it.
    user: Option<Box<str>>,
    /// Whether a root folder was set.
    has_root: bool,
    /// Whether a port below 1024 may be bound.
    may_bind: bool,
    files: FileAccess,
    system_calls: SystemCallFilter,
}

static CONFINEMENT: OnceLock<Confinement> = OnceLock::new();

/// Checks that the process can become what the config says, before anything is opened for it.
///
/// # Errors
/// When it is another user, and not root, or when connections are to come from the addresses of clients, and may not.
pub(crate) fn check(config: &Config) -> Result<(), StartError> {
    check_sources(config)?;
    config.identity.account.as_ref().map_or(Ok(()), |account| account::may_become(account).map(drop))
}

/// The first upstream to whose servers connections come from the addresses of clients.
fn transparent_upstream(config: &Config) -> Option<&str> {
    let upstream = config.upstreams.iter().find(|upstream| upstream.connects_as_clients())?;
    Some(&upstream.name)
}

/// Checks that connections may come from where the config says.
///
/// # Errors
/// When that is the address of the client, for which the process has no capability.
pub(crate) fn check_sources(config: &Config) -> Result<(), StartError> {
    let Some(upstream) = transparent_upstream(config) else { return Ok(()) };
    if source::may_be_transparent() {
        return Ok(());
    }
    let given_up = CONFINEMENT.get().and_then(|confined| confined.user.as_ref());
    let why = given_up.map_or_else(
        || "start Weir as root, or give it this capability (`AmbientCapabilities=CAP_NET_RAW` in systemd)".to_owned(),
        |user| format!("at its start no upstream did so, and the process gave up what it did not need when it became user `{user}`: restart Weir"),
    );
    Err(StartError::ClientSource { upstream: upstream.into(), why })
}

/// Gives up what the process does not need any more; to be called once, before any thread is started.
///
/// # Errors
/// When it cannot become what the config says. A kernel that cannot confine it is no error: the log and the status page say so.
pub fn give_up(config: &Config) -> Result<(), StartError> {
    let identity = &config.identity;
    // The folders of the config have other paths behind a new root folder.
    let writable = file_access::written_folders(config);
    if let Some(folder) = &identity.chroot {
        account::change_root(folder)?;
    }
    if let Some(account) = &identity.account {
        account::become_account(account, account::needed(config))?;
    }
    let (files, system_calls) = match config.process.sandbox {
        SandboxMode::Off => (FileAccess::Off, SystemCallFilter::Off),
        _ if starts_programs(config) => {
            let why = "`dns_command` of `acme` starts a program".to_owned();
            (FileAccess::Impossible(why.clone()), SystemCallFilter::Impossible(why))
        }
        mode => {
            rustix::thread::set_no_new_privs(true).map_err(StartError::privileges("set no_new_privs"))?;
            (file_access::confine(mode, &writable), system_calls::confine())
        }
    };
    if identity.account.is_some() {
        rustix::thread::set_no_new_privs(true).map_err(StartError::privileges("set no_new_privs"))?;
    }
    let user = identity.account.as_ref().and_then(|account| account.user.as_ref());
    let confinement = Confinement {
        user: user.map(|(name, _)| name.clone()),
        has_root: identity.chroot.is_some(),
        may_bind: account::may_bind(),
        files,
        system_calls,
    };
    let _only_once = CONFINEMENT.set(confinement);
    Ok(())
}

/// Gives up all privileges of a process beside this one, which writes in `folders` and starts nothing.
///
/// # Errors
/// As [`give_up`].
pub(crate) fn give_up_beside(
    account: Option<&ProcessAccount>,
    sandbox: SandboxMode,
    folders: &BTreeSet<PathBuf>,
) -> Result<(), StartError> {
    if let Some(account) = account {
        account::become_account(account, CapabilitySet::empty())?;
    }
    rustix::thread::set_no_new_privs(true).map_err(StartError::privileges("set no_new_privs"))?;
    if sandbox != SandboxMode::Off {
        file_access::confine(SandboxMode::Strict, folders);
        system_calls::confine_in_silence();
    }
    Ok(())
}

/// Leaves a process beside this one that starts Weir's program anew what such a start needs, and little of that while it waits.
pub(crate) fn limit_launcher() {
    // While it has the capability that the kernel asks for.
    start_calls::refuse();
    account::limit_to_start();
}

/// Whether it starts programs of the operator: these are not confined, so the process is not either.
fn starts_programs(config: &Config) -> bool {
    let mut acme = config.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.acme.as_ref());
    acme.any(|acme| matches!(acme.issuer.dns, Some(DnsRecords::Command(_))))
}

/// What the process is confined to, for the log and the status page.
pub fn overview() -> ConfinementOverview {
    let confined = CONFINEMENT.get();
    ConfinementOverview {
        user: account::current(confined.and_then(|confined| confined.user.as_deref())),
        capabilities: account::capabilities(),
        files: confined.map_or_else(|| FileAccess::Off.to_string(), |confined| confined.files.to_string()),
        system_calls: confined
            .map_or_else(|| SystemCallFilter::Off.to_string(), |confined| confined.system_calls.to_string()),
        denied_system_calls: denied_calls::count(),
    }
}

/// The version of Landlock that confines the process; 0: none does.
pub(crate) fn landlock_abi() -> u8 {
    CONFINEMENT.get().map_or(0, |confined| confined.files.abi())
}

/// Whether system calls are filtered.
pub(crate) fn filters_system_calls() -> bool {
    CONFINEMENT.get().is_some_and(|confined| confined.system_calls.is_on())
}

/// Why a file or folder at `path` may be refused since the privileges were given up, as a sentence; `None`: they are not the reason.
pub fn why_refused(path: &Path) -> Option<String> {
    let confined = CONFINEMENT.get()?;
    if let Some(allowed) = confined.files.refuses(path) {
        return Some(format!(
            "since its start, the process may write {allowed} (`process.sandbox`): restart Weir to have this folder among them"
        ));
    }
    as_user(confined)
}

/// Why files that the start could read may be refused now; `None`: the process has the user that has started it.
pub fn why_unreadable() -> Option<String> {
    as_user(CONFINEMENT.get()?)
}

/// Why files that the start could read may not be there now; `None`: the process has the root folder of its start.
pub fn why_missing() -> Option<String> {
    as_user(CONFINEMENT.get().filter(|confined| confined.has_root)?)
}

fn as_user(confined: &Confinement) -> Option<String> {
    let inside = if confined.has_root { ", inside `process.chroot`" } else { "" };
    match &confined.user {
        Some(user) => Some(format!(
            "since its start, the process opens files as user `{user}`{inside}: give that user or its group access (`chgrp` and `chmod g+r`, `g+w` for a \
             folder that is written), or have systemd hand secrets over (`LoadCredential=`)"
        )),
        None => confined
            .has_root
            .then(|| "since its start, the process sees files inside `process.chroot` only".to_owned()),
    }
}

/// Why a port below 1024 cannot be bound any more; `None`: privileges are not the reason.
pub fn why_unbindable() -> Option<String> {
    let confined = CONFINEMENT.get()?;
    let user = confined.user.as_ref().filter(|_| !confined.may_bind)?;
    Some(format!(
        "at its start no port was below 1024, so the process gave up CAP_NET_BIND_SERVICE when it became user `{user}`: restart Weir to bind this one"
    ))
}

/// The nearest folder of `path` that exists.
fn existing(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors().find(|folder| folder.exists()).map(Path::to_owned)
}
