//! The admin listener: readable secrets, and warnings about access without credentials.

use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::check::files::Files;
use crate::config::{Admin, Credentials};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::is_host_with_port;
use crate::value::ListenAddress;

const PASSWORD_CHARS_MIN: usize = 8;
const TOKEN_CHARS_MIN: usize = 16;

/// Larger files hold something else.
const SECRET_BYTES_MAX: u64 = 4096;

pub(super) fn check(
    text: &SpannedTable<Admin>,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Credentials {
    let admin = &text.value;
    check_hosts(text, diagnostics);
    check_socket(text, diagnostics);
    if text.is_sound {
        check_pair(text, diagnostics);
    }
    if let Some(user) = admin.user.as_deref().filter(|user| user.is_empty() || user.contains(':')) {
        let message = format!("`{user}` is not a user name");
        let help = "in HTTP, the name ends at the first colon: choose one without";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at("user"), message).help(help));
    }
    let mut secret = |key: &str, value: &Option<Box<str>>, chars_min| {
        let file = Spanned { value: value.clone()?, span: text.key_at(key) };
        one_line(&file, chars_min, files, diagnostics)
    };
    let password = secret("password_file", &admin.password_file, PASSWORD_CHARS_MIN);
    let token = secret("token_file", &admin.token_file, TOKEN_CHARS_MIN);
    warn_open(text, diagnostics);
    Credentials::new(admin.user.as_deref().zip(password.as_deref()), token.as_deref())
}

/// Names of hosts, without ports: whichever port leads here is the right one.
fn check_hosts(text: &SpannedTable<Admin>, diagnostics: &mut Vec<Diagnostic>) {
    for host in &text.value.allowed_hosts {
        if !is_host_with_port(host) || host.contains([':', '[']) {
            let message = format!("`{host}` is not a host name");
            let help = "write a name alone, such as `weir.internal`";
            diagnostics
                .push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at("hosts"), message).help(help));
        }
    }
}

/// The runtime socket has no authentication: over TCP it is for this machine only.
fn check_socket(text: &SpannedTable<Admin>, diagnostics: &mut Vec<Diagnostic>) {
    let admin = &text.value;
    let address = match &admin.socket {
        Some(ListenAddress::Tcp(address)) if address.ip().is_loopback() => return,
        Some(ListenAddress::Tcp(address)) => address.to_string(),
        Some(ListenAddress::AllTcp { port }) => format!(":{port}"),
        Some(ListenAddress::Unix(_)) => return,
        None => {
            for key in ["socket_mode", "socket_changes"] {
                if let Some(at) = text.written(key).filter(|_| text.is_sound && text.is_missing("socket")) {
                    let message = format!("`{key}` has no effect without `socket`");
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, message));
                }
            }
            return;
        }
    };
    let message =
        format!("the runtime socket has no authentication, and `{address}` can be reached from other hosts");
    let help =
        "write `unix:/run/weir.sock`, or `127.0.0.1` with a port; for other hosts there is `admin.address`";
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at("socket"), message).help(help));
}

/// A user needs a password, and a password a user.
fn check_pair(text: &SpannedTable<Admin>, diagnostics: &mut Vec<Diagnostic>) {
    let (there, missing) = match (text.written("user"), text.written("password_file")) {
        (Some(at), None) if text.is_missing("password_file") => (at, "password_file"),
        (None, Some(at)) if text.is_missing("user") => (at, "user"),
        _ => return,
    };
    let message = format!("`{missing}` is missing in `[admin]`");
    let help = "`user` and `password_file` belong together: set both";
    diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, there, message).help(help));
}

/// The one line of a file with a secret, if files may be read and this one can be used.
pub(super) fn one_line(
    file: &Spanned<Box<str>>,
    chars_min: usize,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<String> {
    if !files.may_read {
        return None;
    }
    let path = files.path(file);
    match read(&path) {
        Ok(secret) if secret.chars().count() >= chars_min => {
            warn_readable(&path, file, diagnostics);
            return Some(secret);
        }
        Ok(_) => {
            // The secret itself has no place in a message.
            let message =
                format!("the secret in `{}` is shorter than {chars_min} characters", path.display());
            let help = "generate one with `openssl rand -hex 32`";
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, file.span, message).help(help));
        }
        Err(why) => {
            let message = format!("`{}` {why}", path.display());
            let help = "the file contains the secret on one line, readable for Weir's user";
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, file.span, message).help(help));
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

/// A secret must not be readable for all users of the machine.
fn warn_readable(path: &PathBuf, file: &Spanned<Box<str>>, diagnostics: &mut Vec<Diagnostic>) {
    let for_all = std::fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & 0o004 != 0);
    if for_all {
        let message = format!("all users of this machine can read the secret in `{}`", path.display());
        let help = format!("`chmod o-r {}`", path.display());
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, file.span, message).help(help));
    }
}

/// Warns of access from other machines without authentication.
fn warn_open(text: &SpannedTable<Admin>, diagnostics: &mut Vec<Diagnostic>) {
    let admin = &text.value;
    let Some(address) = admin.address.filter(|address| !address.ip().to_canonical().is_loopback()) else {
        return;
    };
    if !text.is_sound || text.written("password_file").is_some() || admin.token_file.is_some() {
        return;
    }
    let can = if admin.changes { "read the status and change servers" } else { "read the status" };
    let message = format!("every client that can connect to `{address}` can {can}");
    let help = "set `user` and `password_file`, or `token_file`, or listen on `127.0.0.1`";
    diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, text.key_at("address"), message).help(help));
}
