//! The user, the groups and the root folder of the process: names are looked up in `/etc/passwd` and `/etc/group`.
//!
//! The files are read by themselves, not through the name service of libc, which a static program does not have; other users have numbers.

use std::path::{Path, PathBuf};

use crate::check::files::Files;
use crate::config::{Process, ProcessAccount, ProcessIdentity};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::key::SpannedTable;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// An entry of `/etc/passwd` (passwd(5)): name, number, group.
type PasswdEntry<'a> = (&'a str, u32, u32);

/// An entry of `/etc/group` (group(5)): name, number, members.
type GroupEntry<'a> = (&'a str, u32, &'a str);

/// Checks who the process is to be.
pub(super) fn check(
    text: &SpannedTable<Process>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> ProcessIdentity {
    let process = &text.value;
    let chroot = process.chroot.as_deref().map(PathBuf::from);
    if let Some(folder) = chroot.as_deref().filter(|folder| !folder.is_absolute()) {
        let message = format!("`{}` is not an absolute path", folder.display());
        let help = "write the path from the root folder, such as `/var/lib/weir/root`";
        let at = text.key_at("chroot");
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, at, message).help(help));
    }
    let pid_file = process.pid_file.as_deref().map(|file| {
        let config = &files.sources.file(text.key_at("pid_file").file).name;
        Path::new(config).parent().unwrap_or(Path::new("")).join(file)
    });
    let mut account = None;
    if files.may_read && (process.user.is_some() || process.group.is_some()) {
        let mut read = |path: &str, key| {
            files.note(Path::new(path));
            std::fs::read_to_string(path).unwrap_or_else(|error| {
                let names = [process.user.as_deref(), process.group.as_deref()];
                if names.into_iter().flatten().any(|name| name.parse::<u32>().is_err()) {
                    let message = format!("`{path}` cannot be read: {error}");
                    let help = "without it, write user and group as numbers (inside `chroot`, a reload needs it, too)";
                    let at = text.key_at(key);
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Unreadable, at, message).help(help));
                }
                String::new()
            })
        };
        let key = if process.user.is_some() { "user" } else { "group" };
        let (users, groups) = (read(USERS, key), read(GROUPS, key));
        account = find(text, &users, &groups, diagnostics);
    }
    ProcessIdentity { account, chroot, pid_file }
}

/// Looks user and group up in the texts of the two files.
fn find(
    text: &SpannedTable<Process>,
    users: &str,
    groups: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<ProcessAccount> {
    let found = diagnostics.len();
    let (users, groups) = (users_of(users), groups_of(groups));
    let process = &text.value;
    let mut user = None;
    if let Some(name) = process.user.as_deref() {
        let by_number = name.parse().ok();
        let entry = users.iter().find(|(known, uid, _)| *known == name || Some(*uid) == by_number);
        match (entry, by_number) {
            (Some(&(known, uid, gid)), _) => user = Some((name, uid, Some((known, gid)))),
            (None, Some(uid)) if process.group.is_some() => user = Some((name, uid, None)),
            (None, Some(_)) => {
                let message = format!("user {name} is not in `{USERS}`, so its group is unknown");
                let help = "set `group`, too: a name or a number";
                let at = text.key_at("user");
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, at, message).help(help));
            }
            (None, None) => {
                let names = users.iter().map(|(name, ..)| *name);
                unknown(text, "user", name, USERS, did_you_mean(name, names), diagnostics);
            }
        }
    }
    let mut group = None;
    if let Some(name) = process.group.as_deref() {
        let entry = groups.iter().find(|(known, ..)| *known == name).map(|(_, gid, _)| *gid);
        group = entry.or_else(|| name.parse().ok());
        if group.is_none() {
            let names = groups.iter().map(|(name, ..)| *name);
            unknown(text, "group", name, GROUPS, did_you_mean(name, names), diagnostics);
        }
    }
    if diagnostics.len() > found {
        return None;
    }
    let of_user = user.and_then(|(_, _, entry)| entry);
    // As nginx and HAProxy have it: a group that is named is the only one.
    let further = of_user.filter(|_| group.is_none()).map(|(known, own)| {
        let is_member = |(_, _, members): &&GroupEntry<'_>| members.split(',').any(|member| member == known);
        groups.iter().filter(is_member).map(|(_, gid, _)| *gid).filter(|gid| *gid != own).collect()
    });
    Some(ProcessAccount {
        user: user.map(|(name, uid, _)| (name.into(), uid)),
        group: group.or(of_user.map(|(_, gid)| gid))?,
        groups: further.unwrap_or_default(),
    })
}

fn unknown(
    text: &SpannedTable<Process>,
    key: &str,
    name: &str,
    file: &str,
    suggestion: Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let message = format!("there is no {key} `{name}` in `{file}`");
    let create = if key == "user" { "useradd" } else { "groupadd" };
    let help = suggestion
        .unwrap_or_else(|| format!("create it with `{create} --system {name}`, or write the number of one"));
    diagnostics.push(Diagnostic::new(DiagnosticKind::UnknownName, text.key_at(key), message).help(help));
}

fn users_of(text: &str) -> Vec<PasswdEntry<'_>> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let (name, uid, gid) = (fields.next()?, fields.nth(1)?, fields.next()?);
            Some((name, uid.parse().ok()?, gid.parse().ok()?))
        })
        .collect()
}

fn groups_of(text: &str) -> Vec<GroupEntry<'_>> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.split(':');
            let (name, gid, members) = (fields.next()?, fields.nth(1)?, fields.next()?);
            Some((name, gid.parse().ok()?, members))
        })
        .collect()
}
