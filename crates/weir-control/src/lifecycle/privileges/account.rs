//! User, groups, root folder and capabilities of the process.

use std::fs;
use std::path::Path;

use rustix::process::{DumpableBehavior, chdir, chroot, geteuid, getuid, set_dumpable_behavior};
use rustix::thread::{
    CapabilitiesSecureBits, CapabilitySet, CapabilitySets, capabilities as sets_of, capabilities_secure_bits,
    capability_is_in_bounding_set, clear_ambient_capability_set, no_new_privs,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use rustix::thread::{Gid, Uid};
use weir_config::{Config, ListenAddress, ProcessAccount};

use crate::start_error::StartError;

/// The kernel's setting for the first port that needs no privilege.
const UNPRIVILEGED: &str = "/proc/sys/net/ipv4/ip_unprivileged_port_start";

/// Its default.
const UNPRIVILEGED_DEFAULT: u16 = 1024;

/// Makes `folder` the root folder.
pub(super) fn change_root(folder: &Path) -> Result<(), StartError> {
    let what = || format!("make `{}` its root folder (`process.chroot`)", folder.display());
    chroot(folder).map_err(|error| StartError::privileges(what())(error))?;
    chdir("/").map_err(|error| StartError::privileges(what())(error))
}

/// Ports of the config that need a privilege.
fn privileged_ports(config: &Config) -> Vec<u16> {
    let first = fs::read_to_string(UNPRIVILEGED).ok().and_then(|text| text.trim().parse().ok());
    let first = first.unwrap_or(UNPRIVILEGED_DEFAULT);
    let addresses =
        config.listeners.iter().flat_map(|listener| &listener.addresses).chain(&config.admin.socket);
    let ports = addresses.filter_map(|address| match address {
        ListenAddress::Tcp(address) => Some(address.port()),
        ListenAddress::AllTcp { port } => Some(*port),
        ListenAddress::Unix(_) => None,
    });
    let ports = ports.chain(config.admin.address.map(|address| address.port()));
    ports.filter(|port| (1..first).contains(port)).collect()
}

/// Whether the process, as root, has to become `account`; if not, it is that already.
///
/// # Errors
/// When it is neither.
pub(super) fn may_become(account: &ProcessAccount) -> Result<bool, StartError> {
    if geteuid().is_root() {
        return Ok(true);
    }
    let has_user = account.user.as_ref().is_none_or(|(_, uid)| is_user(*uid));
    if has_user && has_group(account.group) {
        return Ok(false);
    }
    let key = if has_user { "group" } else { "user" };
    Err(StartError::NotRoot { key, now: current(None) })
}

/// The capabilities that a process with this config has use for while it runs.
pub(super) fn needed(config: &Config) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    needed.set(CapabilitySet::NET_BIND_SERVICE, !privileged_ports(config).is_empty());
    needed.set(CapabilitySet::NET_RAW, super::transparent_upstream(config).is_some());
    needed
}

/// Changes user and groups, and gives up every capability but those `kept`.
pub(super) fn become_account(account: &ProcessAccount, kept: CapabilitySet) -> Result<(), StartError> {
    if !may_become(account)? {
        return Ok(());
    }
    let uid = account.user.as_ref().map(|(_, uid)| *uid);
    let refused = |what: &'static str| move |error| StartError::privileges(what)(error);
    let becomes_other = uid.is_some_and(|uid| uid != 0);
    if becomes_other {
        drop_bounds(kept);
        set_keep_capabilities(true).map_err(refused("keep a capability"))?;
    }
    let groups: Vec<Gid> =
        account.groups.iter().chain([&account.group]).map(|gid| Gid::from_raw(*gid)).collect();
    set_thread_groups(&groups).map_err(refused("change its groups (`process.group`)"))?;
    let gid = Gid::from_raw(account.group);
    set_thread_res_gid(gid, gid, gid).map_err(refused("change its group (`process.group`)"))?;
    let Some(uid) = uid else { return Ok(()) };
    let user = Uid::from_raw(uid);
    set_thread_res_uid(user, user, user).map_err(refused("change its user (`process.user`)"))?;
    if becomes_other {
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
        set_capabilities(None, sets).map_err(refused("give up capabilities"))?;
        set_keep_capabilities(false).map_err(refused("give up capabilities"))?;
        // Kernels before 4.3 have none.
        let _unknown = clear_ambient_capability_set();
        if set_thread_res_uid(Uid::ROOT, Uid::ROOT, Uid::ROOT).is_ok() {
            return Err(refused("give up root: the kernel gives it back")(rustix::io::Errno::PERM));
        }
        // As a process has it that its supervisor starts as this user: profiles read the memory of the process.
        let _not_profiled = set_dumpable_behavior(DumpableBehavior::Dumpable);
    }
    Ok(())
}

/// What a start as root may need: files, folders and sockets of any owner, ports below 1024, addresses of clients, another user, groups and root folder, more
/// open files than the limit, and the end of a process that has become another user.
const NEEDED_TO_START: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::NET_RAW)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_RESOURCE);

/// What a process needs that only executes a program: to find it in a folder of another user, and to end it when it has become one.
const NEEDED_TO_EXECUTE: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::KILL);

/// Of a process of root that executes this program: takes all but [`NEEDED_TO_START`] from it and from the program for good; it has itself
/// [`NEEDED_TO_EXECUTE`], and the program gets the others as it is executed.
///
/// Where the kernel would not give them to the program (`no_new_privs`, secure bits), the process keeps them. One that is not root has what
/// its supervisor gave it, which the program inherits.
pub(super) fn limit_to_start() {
    let Ok(now) = sets_of(None) else { return };
    if !geteuid().is_root() || !getuid().is_root() {
        return;
    }
    drop_bounds(NEEDED_TO_START);
    let gets_none = no_new_privs().unwrap_or(true)
        || capabilities_secure_bits().map_or(true, |bits| bits.contains(CapabilitiesSecureBits::NO_ROOT));
    let permitted = if gets_none { NEEDED_TO_START } else { NEEDED_TO_EXECUTE };
    let sets = CapabilitySets {
        effective: now.effective & NEEDED_TO_EXECUTE,
        permitted: now.permitted & permitted,
        inheritable: now.inheritable & if gets_none { permitted } else { CapabilitySet::empty() },
    };
    // Fewer are always allowed.
    let _unknown_to_the_kernel = set_capabilities(None, sets);
}

/// Takes all capabilities but `kept` from the bounding set. A container may forbid that: without them in the other sets it changes little.
fn drop_bounds(kept: CapabilitySet) {
    for bit in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << bit);
        if !kept.contains(one) && capability_is_in_bounding_set(one).unwrap_or(false) {
            let _forbidden = remove_capability_from_bounding_set(one);
        }
    }
}

fn is_user(uid: u32) -> bool {
    let user = Uid::from_raw(uid);
    getuid() == user && geteuid() == user
}

fn has_group(gid: u32) -> bool {
    rustix::process::getegid() == Gid::from_raw(gid)
}

/// Whether the process may bind ports that need a privilege.
pub(super) fn may_bind() -> bool {
    sets_of(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::NET_BIND_SERVICE))
}

/// The user of the process: its name, if it is known, and its numbers.
pub(super) fn current(name: Option<&str>) -> String {
    let (uid, gid) = (geteuid().as_raw(), rustix::process::getegid().as_raw());
    let name = name.filter(|name| name.parse::<u32>().is_err()).or((uid == 0).then_some("root"));
    name.map_or_else(|| format!("{uid}:{gid}"), |name| format!("{name} ({uid}:{gid})"))
}

/// The capabilities of the process in one text.
pub(super) fn capabilities() -> String {
    let Ok(sets) = sets_of(None) else { return "unknown".to_owned() };
    let set = sets.effective | sets.permitted;
    let known = (0..u64::BITS).map(|bit| CapabilitySet::from_bits_retain(1 << bit));
    let bounds = known.filter(|one| capability_is_in_bounding_set(*one).is_ok());
    let (bind, raw) = (CapabilitySet::NET_BIND_SERVICE, CapabilitySet::NET_RAW);
    match set {
        set if set.is_empty() => "none".to_owned(),
        set if set == bind => "CAP_NET_BIND_SERVICE".to_owned(),
        set if set == raw => "CAP_NET_RAW".to_owned(),
        set if set == bind | raw => "CAP_NET_BIND_SERVICE, CAP_NET_RAW".to_owned(),
        set if bounds.fold(CapabilitySet::empty(), |all, one| all | one) == set => "all".to_owned(),
        set => format!("{} of root ({:#x})", set.bits().count_ones(), set.bits()),
    }
}
