//! Keys of HTTP/3 that the nodes of a pair share.

use std::sync::Arc;

use crate::certificate::Http3Key;
use crate::check::certificate_files::load_file;
use crate::check::files::Files;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::Spanned;
use crate::text::Document;

/// Loads the files of `process.http3_keys`.
pub(in crate::check) fn check(
    document: &Document,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Arc<Http3Key>> {
    if document.process.value.http3_keys.is_empty() {
        return Vec::new();
    }
    let span = document.process.key_at("http3_keys");
    let all_read = document.listener.0.iter().all(|(_, listener)| listener.is_sound);
    if all_read && document.listener.0.iter().all(|(_, listener)| listener.value.http3.is_none()) {
        let message = "`http3_keys` has no effect: no listener has `http3`";
        diagnostics.push(Diagnostic::new(DiagnosticKind::Unused, span, message));
    }
    let named = document.process.value.http3_keys.iter().map(|file| Spanned { value: file.clone(), span });
    let load = |file| load_file(&file, Http3Key::load, files, diagnostics);
    let keys: Vec<_> = named.filter_map(load).collect();
    for key in keys.iter().filter(|key| key.is_open) {
        let file = key.file.display();
        let message = format!("every user of this machine may read or change `{file}`");
        let help = format!(
            "`chmod o= {file}`: with the key, connections of clients can be ended and their addresses claimed"
        );
        diagnostics.push(Diagnostic::new(DiagnosticKind::Suspicious, span, message).help(help));
    }
    keys
}
