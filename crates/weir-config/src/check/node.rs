//! Announcements to keepalived and BIRD: paths that hold for two programs, and names that are one word.

use std::path::Path;

use crate::config::Process;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::SpannedTable;

/// A word of BIRD's config: names there are letters, digits and `_`.
fn is_symbol(name: &str) -> bool {
    let starts = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.bytes().next().is_some_and(starts)
        && name.len() <= 63
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

/// Checks `keepalived` and `bird` of `[process]`.
pub(super) fn check(text: &SpannedTable<Process>, diagnostics: &mut Vec<Diagnostic>) {
    let process = &text.value;
    let track_file = process.keepalived.as_ref().and_then(|keepalived| keepalived.track_file.as_deref());
    let socket = process.bird.as_ref().map(|bird| &*bird.socket);
    for (key, path, example) in
        [("keepalived", track_file, "/run/weir/keepalived"), ("bird", socket, "/run/bird/bird.ctl")]
    {
        if let Some(path) = path.filter(|path| !Path::new(path).is_absolute()) {
            let message = format!("`{path}` is not an absolute path");
            let help = format!(
                "the other program has a working folder of its own: write the whole path, such as `{example}`"
            );
            diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at(key), message).help(help));
        }
    }
    let protocol = process.bird.as_ref().and_then(|bird| bird.protocol.as_deref());
    if let Some(name) = protocol.filter(|name| !is_symbol(name)) {
        let message = format!("`{name}` is not a name of BIRD");
        let help = "write the word behind `protocol static` in BIRD's config: letters, digits and `_`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.key_at("bird"), message).help(help));
    }
}
