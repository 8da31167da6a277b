//! The admin listener: secrets that can be read, and who can reach it without any.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::Files;
use crate::config::{Admin, Credentials};
use crate::key::{Located, Spanned};
use crate::mistake::{Finding, MistakeKind};
use crate::text::is_host_with_port;
use crate::value::ListenAddress;

const PASSWORD_CHARS_MIN: usize = 8;
const TOKEN_CHARS_MIN: usize = 16;

/// Larger files hold something else.
const SECRET_BYTES_MAX: u64 = 4096;

pub(super) fn check(text: &Located<Admin>, files: &Files<'_>, findings: &mut Vec<Finding>) -> Credentials {
    let admin = &text.value;
    check_hosts(text, findings);
    check_socket(text, findings);
    if text.is_sound {
        check_pair(text, findings);
    }
    if let Some(user) = admin.user.as_deref().filter(|user| user.is_empty() || user.contains(':')) {
        let what = format!("`{user}` cannot be the name of a user");
        let hint = "HTTP ends the name at the first colon: write one without";
        findings.push(Finding::new(MistakeKind::BadValue, text.key_at("user"), what).hint(hint));
    }
    let mut secret = |key: &str, value: &Option<Box<str>>, chars_min| {
        let file = Spanned { value: value.clone()?, at: text.key_at(key) };
        one_line(&file, chars_min, files, findings)
    };
    let password = secret("password_file", &admin.password_file, PASSWORD_CHARS_MIN);
    let token = secret("token_file", &admin.token_file, TOKEN_CHARS_MIN);
    warn_open(text, findings);
    Credentials::new(admin.user.as_deref().zip(password.as_deref()), token.as_deref())
}

/// Names of hosts, without ports: whichever port leads here is the right one.
fn check_hosts(text: &Located<Admin>, findings: &mut Vec<Finding>) {
    for host in &text.value.hosts {
        if !is_host_with_port(host) || host.contains([':', '[']) {
            let what = format!("`{host}` is not the name of a host");
            let hint = "write a name alone, such as `weir.internal`";
            findings.push(Finding::new(MistakeKind::BadValue, text.key_at("hosts"), what).hint(hint));
        }
    }
}

/// Whoever can connect to the runtime socket is believed: over TCP it is for this machine alone.
fn check_socket(text: &Located<Admin>, findings: &mut Vec<Finding>) {
    let admin = &text.value;
    let address = match &admin.socket {
        Some(ListenAddress::Tcp(address)) if address.ip().is_loopback() => return,
        Some(ListenAddress::Tcp(address)) => address.to_string(),
        Some(ListenAddress::AllTcp { port }) => format!(":{port}"),
        Some(ListenAddress::Unix(_)) => return,
        None => {
            for key in ["socket_mode", "socket_changes"] {
                if let Some(at) = text.written(key).filter(|_| text.is_sound && text.is_missing("socket")) {
                    let what = format!("`{key}` does nothing without `socket`");
                    findings.push(Finding::new(MistakeKind::Doubtful, at, what));
                }
            }
            return;
        }
    };
    let what = format!(
        "the runtime socket asks nobody for credentials, and `{address}` can be reached from elsewhere"
    );
    let hint =
        "write `unix:/run/weir.sock`, or `127.0.0.1` with a port; from elsewhere there is `admin.address`";
    findings.push(Finding::new(MistakeKind::BadValue, text.key_at("socket"), what).hint(hint));
}

/// A user needs a password, and a password a user.
fn check_pair(text: &Located<Admin>, findings: &mut Vec<Finding>) {
    let (there, missing) = match (text.written("user"), text.written("password_file")) {
        (Some(at), None) if text.is_missing("password_file") => (at, "password_file"),
        (None, Some(at)) if text.is_missing("user") => (at, "user"),
        _ => return,
    };
    let what = format!("`{missing}` is missing in `[admin]`");
    let hint = "a user comes in by a password: give both `user` and `password_file`";
    findings.push(Finding::new(MistakeKind::MissingKey, there, what).hint(hint));
}

/// The one line of a file with a secret, if files may be read and this one can be used.
pub(super) fn one_line(
    file: &Spanned<Box<str>>,
    chars_min: usize,
    files: &Files<'_>,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    if !files.may_read {
        return None;
    }
    let path = files.path(file);
    match read(&path) {
        Ok(secret) if secret.chars().count() >= chars_min => {
            warn_readable(&path, file, findings);
            return Some(secret);
        }
        Ok(_) => {
            // The secret itself has no place in a message.
            let what = format!("the secret in `{}` is shorter than {chars_min} characters", path.display());
            let hint = "`openssl rand -hex 32` prints a good one";
            findings.push(Finding::new(MistakeKind::BadValue, file.at, what).hint(hint));
        }
        Err(why) => {
            let what = format!("`{}` {why}", path.display());
            let hint = "the file holds the secret on one line, and Weir's user has to be able to read it";
            findings.push(Finding::new(MistakeKind::BadValue, file.at, what).hint(hint));
        }
    }
    None
}

fn read(path: &Path) -> Result<String, String> {
    let unreadable = |error: std::io::Error| format!("cannot be read: {error}");
    let mut text = String::new();
    let file = std::fs::File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err("is not a file".to_owned());
    }
    file.take(SECRET_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(format!("is larger than {SECRET_BYTES_MAX} bytes"));
    }
    let secret = text.strip_suffix('\n').unwrap_or(&text);
    let secret = secret.strip_suffix('\r').unwrap_or(secret);
    if secret.contains('\n') {
        return Err("has more than one line".to_owned());
    }
    Ok(secret.to_owned())
}

/// A secret that everybody on the machine can read is none.
fn warn_readable(path: &PathBuf, file: &Spanned<Box<str>>, findings: &mut Vec<Finding>) {
    let for_all = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0);
    if for_all {
        let what = format!("everybody on this machine can read the secret in `{}`", path.display());
        let hint = format!("`chmod o-r {}`", path.display());
        findings.push(Finding::new(MistakeKind::Doubtful, file.at, what).hint(hint));
    }
}

/// Warns when others than those on this machine can come in and nobody asks who they are.
fn warn_open(text: &Located<Admin>, findings: &mut Vec<Finding>) {
    let admin = &text.value;
    let Some(address) = admin.address.filter(|address| !address.ip().to_canonical().is_loopback()) else {
        return;
    };
    if !text.is_sound || text.written("password_file").is_some() || admin.token_file.is_some() {
        return;
    }
    let can = if admin.changes { "see Weir's figures and take servers out" } else { "see Weir's figures" };
    let what = format!("whoever can connect to `{address}` can {can}");
    let hint = "set `user` and `password_file`, or `token_file`, or listen on `127.0.0.1`";
    findings.push(Finding::new(MistakeKind::Doubtful, text.key_at("address"), what).hint(hint));
}
