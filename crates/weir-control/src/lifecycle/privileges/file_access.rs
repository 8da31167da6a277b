//! Landlock: which files the process may write, and that it executes none.
//!
//! A rule can never be widened, and a reload may name any folder. So reading is left to the permissions of files; what is refused is to
//! write in the folders of the system, or, in strict mode, anywhere but in the folders that the config of the start names.

use std::collections::BTreeSet;
use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, LandlockStatus, PathBeneath, PathFd,
    Ruleset, RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};
use weir_config::{AccessLogOutput, CertificateSource, Config, ListenAddress, SandboxMode};

use super::existing;

/// The version whose rights are asked for; an older kernel knows fewer of them.
const RIGHTS: ABI = ABI::V6;

/// The least version that is used: the first that allows a file to be renamed from one folder into another.
const LEAST: ABI = ABI::V2;

/// Folders of the root folder that only the system writes.
const OF_SYSTEM: [&str; 13] =
    ["bin", "boot", "dev", "efi", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "sys", "usr"];

/// What is written below `/dev`.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/pts", "/dev/shm", "/dev/tty", "/dev/console"];

/// The files that the process may write.
#[derive(Debug)]
pub(super) enum FileAccess {
    /// The config wants no rules.
    Off,
    /// There are none, for this reason.
    Impossible(String),
    /// Those below these folders, by a version of Landlock.
    Below { abi: u8, strict: bool, folders: Vec<PathBuf> },
}

impl FileAccess {
    pub(super) fn abi(&self) -> u8 {
        if let Self::Below { abi, .. } = self { *abi } else { 0 }
    }

    /// What may be written instead, if that does not include `path`.
    pub(super) fn refuses(&self, path: &Path) -> Option<String> {
        let Self::Below { strict, folders, .. } = self else { return None };
        let folder = existing(path.parent()?)?.canonicalize().ok()?;
        if folders.iter().any(|allowed| folder.starts_with(allowed) || path == allowed) {
            return None;
        }
        Some(match strict {
            true => format!("below {} only", list(folders)),
            false => "in no folder of the system".to_owned(),
        })
    }
}

impl fmt::Display for FileAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => write!(f, "not confined"),
            Self::Impossible(why) => write!(f, "not confined: {why}"),
            Self::Below { abi, strict: true, folders } => {
                write!(f, "written below {} only, none executed (Landlock, version {abi})", list(folders))
            }
            Self::Below { abi, .. } => {
                write!(f, "system folders read-only, none executed (Landlock, version {abi})")
            }
        }
    }
}

fn list(folders: &[PathBuf]) -> String {
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    folders.join(", ")
}

/// The folders that the config has files written in; where one is the root folder, the file itself.
pub(super) fn written_folders(config: &Config) -> BTreeSet<PathBuf> {
    let mut files: Vec<&Path> = Vec::new();
    for log in config.access_logs() {
        if let AccessLogOutput::File(file) = &log.output {
            files.push(file);
        }
    }
    let sockets =
        config.listeners.iter().flat_map(|listener| &listener.addresses).chain(&config.admin.socket);
    files.extend(sockets.filter_map(|address| match address {
        ListenAddress::Unix(path) => Some(path.as_path()),
        _ => None,
    }));
    files.extend(config.identity.pid_file.as_deref());
    files.extend(config.key_logs());
    files.extend(config.discovery.state_file.as_deref());
    files.extend(config.route_sources.iter().filter_map(|source| source.state_file.as_deref()));
    let mut folders: BTreeSet<PathBuf> = files
        .into_iter()
        .filter_map(|file| {
            let file = std::path::absolute(file).ok()?;
            let folder = file.parent()?;
            Some(if folder == Path::new("/") { file.clone() } else { folder.to_owned() })
        })
        .collect();
    let caches = config.caches.iter().filter_map(|cache| cache.disk.as_ref());
    folders.extend(caches.filter_map(|disk| std::path::absolute(&disk.folder).ok()));
    let acme = config.listeners.iter().filter_map(|listener| listener.tls.as_ref()?.acme.as_ref());
    folders.extend(acme.filter_map(|acme| std::path::absolute(&acme.issuer.directory).ok()));
    let sources = config.listeners.iter().filter_map(|listener| Some(&listener.tls.as_ref()?.sources));
    folders.extend(sources.flatten().filter_map(|source| match source {
        CertificateSource::Internal(internal) => std::path::absolute(internal.authority.folder()).ok(),
        CertificateSource::Files(_) | CertificateSource::Directory(_) => None,
    }));
    folders.insert(std::env::temp_dir());
    folders
}

/// Confines the process to these rules, if the kernel can.
pub(super) fn confine(mode: SandboxMode, named: &BTreeSet<PathBuf>) -> FileAccess {
    let strict = mode == SandboxMode::Strict;
    let mut folders: BTreeSet<PathBuf> =
        named.iter().filter_map(|path| existing(path)?.canonicalize().ok()).collect();
    // A folder that does not exist yet, in the root folder: that would allow everything.
    folders.remove(Path::new("/"));
    if !strict {
        folders.extend(outside_system());
    }
    match restrict(&folders) {
        Ok(abi) => FileAccess::Below { abi, strict, folders: folders.into_iter().collect() },
        Err(why) => FileAccess::Impossible(why),
    }
}

/// The folders of the root folder that are not the system's.
fn outside_system() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/").into_iter().flatten().flatten();
    let is_data = |entry: &std::fs::DirEntry| {
        // A symbolic link to a folder of the system would open that.
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && !OF_SYSTEM.iter().any(|name| entry.file_name().to_str() == Some(*name))
    };
    entries.filter(is_data).map(|entry| entry.path()).collect()
}

/// Has the kernel apply the rules; returns its version of Landlock.
fn restrict(folders: &BTreeSet<PathBuf>) -> Result<u8, String> {
    let written =
        AccessFs::from_write(RIGHTS) & !(AccessFs::MakeBlock | AccessFs::MakeChar | AccessFs::IoctlDev);
    let rules = || -> Result<RulesetCreated, NoRules> {
        let mut rules = Ruleset::default()
            .set_compatibility(CompatLevel::HardRequirement)
            .handle_access(AccessFs::from_all(LEAST))?
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RIGHTS))?
            .scope(Scope::Signal)?
            .create()?;
        rules = allow(rules, Path::new("/"), AccessFs::ReadFile | AccessFs::ReadDir)?;
        for folder in folders {
            rules = allow(rules, folder, written)?;
        }
        for device in DEVICES {
            rules = allow(rules, Path::new(device), written)?;
        }
        Ok(rules)
    };
    let status = rules().and_then(|rules| Ok(rules.restrict_self()?)).map_err(|error| error.to_string())?;
    match (status.ruleset, status.landlock) {
        (RulesetStatus::NotEnforced, _) => Err("the kernel has no Landlock".to_owned()),
        (_, LandlockStatus::Available { effective_abi, .. }) => Ok(effective_abi as u8),
        (_, _) => Err("the kernel has no Landlock".to_owned()),
    }
}

/// Why there are no rules.
#[derive(Debug, thiserror::Error)]
enum NoRules {
    #[error("the kernel has no Landlock, or one before version 2 (Linux 5.19)")]
    Unknown,
    #[error(
        "no file descriptor is left for the rules of Landlock: raise the limit on open files (`ulimit -n`)"
    )]
    NoDescriptor,
    #[error("{0}")]
    Refused(RulesetError),
}

impl From<RulesetError> for NoRules {
    fn from(error: RulesetError) -> Self {
        match error {
            error if wants_descriptor(&error) => Self::NoDescriptor,
            RulesetError::CreateRuleset(_) | RulesetError::HandleAccesses(_) => Self::Unknown,
            error => Self::Refused(error),
        }
    }
}

/// Whether the limit on open files is behind an error, which has nothing to do with Landlock.
fn wants_descriptor(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let number = error.downcast_ref::<io::Error>().and_then(io::Error::raw_os_error);
        if number.is_some_and(|number| [libc::EMFILE, libc::ENFILE].contains(&number)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// A rule for what is at `path`; none where there is nothing.
fn allow(rules: RulesetCreated, path: &Path, rights: BitFlags<AccessFs>) -> Result<RulesetCreated, NoRules> {
    let fd = match PathFd::new(path) {
        Ok(fd) => fd,
        Err(error) if wants_descriptor(&error) => return Err(NoRules::NoDescriptor),
        Err(_) => return Ok(rules),
    };
    let is_folder = path.is_dir();
    let rights = if is_folder { rights } else { rights & AccessFs::from_file(RIGHTS) };
    Ok(rules.add_rule(PathBeneath::new(fd, rights))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("a call failed: {source}")]
    struct FailedCall {
        source: io::Error,
    }

    #[test]
    fn a_lack_of_descriptors_is_not_blamed_on_the_kernel() {
        let of = |errno| wants_descriptor(&FailedCall { source: io::Error::from_raw_os_error(errno) });
        assert_eq!([libc::EMFILE, libc::ENFILE, libc::ENOSYS].map(of), [true, true, false]);
    }
}
