//! What requests to a route have to prove: users with passwords.

use std::path::Path;
use std::sync::Arc;

use weir_access::{PasswordHash, Users};

use super::CheckScope;
use crate::config::{Access, BasicAuth};
use crate::credential_files::{doubt_about_users, load_users};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::source_map::SourceSpan;
use crate::text::{BasicText, PasswordHashText, RouteText};

/// Lines of a file that are reported.
const PROBLEMS_MAX: usize = 20;

/// How a hash is made.
const HELP: &str = "`htpasswd -B FILE USER` writes a line with bcrypt";

pub(super) fn check(
    route: &RouteText,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Access> {
    let basic = route.basic.as_ref()?;
    Some(Access { basic: Some(check_basic(basic, around, diagnostics)) })
}

fn check_basic(
    text: &SpannedTable<BasicText>,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> BasicAuth {
    let BasicText { realm, users_file, users, reload, remember, forward_credentials } = &text.value;
    let file: Option<Arc<Path>> = users_file.as_ref().map(|file| around.files.path(file).into());
    let users = match (users_file, text.written("users")) {
        (Some(file), Some(at)) => {
            let message = "`users_file` and `users` exclude each other";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message);
            diagnostics.push(diagnostic.label(file.span, "the file"));
            None
        }
        (Some(named), None) => file.as_deref().and_then(|file| users_in(named, file, around, diagnostics)),
        (None, Some(at)) => Some(Arc::new(users_of(&users.0, at, text.is_sound, diagnostics))),
        (None, None) => {
            if text.is_missing("users_file") && text.is_missing("users") {
                let message = "`basic` has no users";
                let help = "write `users_file = \"FILE\"`, or `users = { NAME = \"HASH\" }`";
                let diagnostic = Diagnostic::new(DiagnosticKind::MissingKey, text.span, message);
                diagnostics.push(diagnostic.help(help));
            }
            None
        }
    };
    if users_file.is_none()
        && let Some(at) = text.changed("reload")
    {
        let message = "`reload` has no effect without `users_file`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at, message));
    }
    BasicAuth {
        realm: realm.0.clone(),
        users: users.unwrap_or_default(),
        file,
        reload: *reload,
        remember: *remember,
        forward_credentials: *forward_credentials,
    }
}

/// The users of the config itself.
fn users_of(
    users: &[(Spanned<Box<str>>, Spanned<PasswordHashText>)],
    at: SourceSpan,
    is_sound: bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Users {
    let mut hashes: Vec<(Box<[u8]>, PasswordHash)> = Vec::new();
    for (name, hash) in users {
        if name.value.is_empty() || name.value.contains(':') || name.value.chars().any(char::is_control) {
            let message = format!("{:?} cannot be the name of a user", &*name.value);
            let help = "it has no colon and no control characters (RFC 7617)";
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, name.span, message).help(help));
        }
        match PasswordHash::parse(&hash.value.0) {
            Ok(parsed) => hashes.push((name.value.as_bytes().into(), parsed)),
            Err(error) => {
                let diagnostic = Diagnostic::new(DiagnosticKind::Credentials, hash.span, error.to_string());
                diagnostics.push(diagnostic.help("`htpasswd -nB USER` prints one with bcrypt"));
            }
        }
    }
    let is_whole = is_sound && hashes.len() == users.len();
    let users = Users::of(hashes);
    if let Some(doubt) = doubt_about_users(&users).filter(|_| is_whole) {
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, at, doubt));
    }
    users
}

/// The users of a file, each file read once.
fn users_in(
    named: &Spanned<Box<str>>,
    file: &Path,
    around: &CheckScope<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Arc<Users>> {
    if !around.files.may_read {
        return None;
    }
    around.files.users(file, || {
        let shown = file.display();
        match load_users(file) {
            Ok(users) => {
                if let Some(doubt) = doubt_about_users(&users) {
                    let message = format!("`{shown}`: {doubt}");
                    diagnostics
                        .push(Diagnostic::new(DiagnosticKind::Suspicious, named.span, message).help(HELP));
                }
                Some(users)
            }
            Err(problems) => {
                let more = problems.len().saturating_sub(PROBLEMS_MAX);
                for problem in problems.iter().take(PROBLEMS_MAX) {
                    let message = format!("`{shown}`: {problem}");
                    diagnostics
                        .push(Diagnostic::new(DiagnosticKind::Credentials, named.span, message).help(HELP));
                }
                if more > 0 {
                    let message = format!("`{shown}`: {more} more lines cannot be used");
                    diagnostics.push(Diagnostic::new(DiagnosticKind::Credentials, named.span, message));
                }
                None
            }
        }
    })
}
