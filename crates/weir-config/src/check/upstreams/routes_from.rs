//! `[routes_from.NAME]`: exactly one store, with a prefix. No store is asked.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::check::files::Files;
use crate::check::names::check_name;
use crate::config::{RouteSource, RouteStore};
use crate::diagnostic::SourceSpan;
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::text::{Document, RoutesFromText};

/// Longest prefix: Consul has keys of up to 512 bytes.
const PREFIX_LEN_MAX: usize = 400;

pub(in crate::check) fn check(
    document: &Document,
    files: &Files<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<RouteSource> {
    let mut state_files: HashMap<PathBuf, SourceSpan> = HashMap::new();
    let mut sources = Vec::new();
    for (name, text) in &document.routes_from.0 {
        check_name(name, "routes_from", diagnostics);
        let RoutesFromText { state_file, .. } = &text.value;
        let path = state_file.as_ref().map(|file| files.folder(file));
        if let (Some(path), Some(file)) = (&path, state_file)
            && let Some(first) = state_files.insert(path.clone(), file.span)
        {
            let message = format!("two sources cannot share the file `{}`", path.display());
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, file.span, message);
            diagnostics.push(diagnostic.label(first, "the first one"));
        }
        if let Some(store) = store(text, diagnostics) {
            sources.push(RouteSource { name: name.value.clone(), store, state_file: path });
        }
    }
    sources
}

fn store(text: &SpannedTable<RoutesFromText>, diagnostics: &mut Vec<Diagnostic>) -> Option<RouteStore> {
    let RoutesFromText { etcd, consul, datacenter, .. } = &text.value;
    match (etcd, consul) {
        (None, None) => {
            if text.is_sound {
                let help = "write `etcd = \"/weir/routes/\"` or `consul = \"weir/routes/\"`";
                let message = "it names no store";
                diagnostics.push(Diagnostic::new(DiagnosticKind::MissingKey, text.span, message).help(help));
            }
            None
        }
        (Some(etcd), Some(consul)) => {
            let message = "`consul` and `etcd`: routes come from one of them";
            let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, consul.span, message)
                .help("write a second `[routes_from.NAME]`");
            diagnostics.push(diagnostic.label(etcd.span, "the first store"));
            None
        }
        (Some(etcd), None) => {
            if let Some(datacenter) = datacenter {
                let message = "`datacenter` belongs to `consul`";
                diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, datacenter.span, message));
            }
            prefix(etcd, "/weir/routes/", diagnostics).map(RouteStore::Etcd)
        }
        (None, Some(consul)) => {
            let prefix = prefix(consul, "weir/routes/", diagnostics)?;
            if prefix.starts_with('/') {
                let message = format!("`{}`: keys of Consul do not begin with `/`", consul.value);
                let help = format!("write `{}`", consul.value.trim_start_matches('/'));
                diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, consul.span, message).help(help));
            }
            let datacenter = datacenter.as_ref().map(|name| name.value.clone());
            Some(RouteStore::Consul { prefix, datacenter })
        }
    }
}

/// The prefix with one `/` at its end.
fn prefix(text: &Spanned<Box<str>>, example: &str, diagnostics: &mut Vec<Diagnostic>) -> Option<Box<str>> {
    let trimmed = text.value.trim_end_matches('/');
    let message = if trimmed.is_empty() {
        format!("`{}`: every key of the store would be a fragment", text.value)
    } else if trimmed.len() > PREFIX_LEN_MAX || trimmed.contains(char::is_control) {
        format!("{:?} is not a prefix of keys", text.value)
    } else {
        return Some(format!("{trimmed}/").into());
    };
    let help = format!("write a prefix of their own, such as `{example}`");
    diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, text.span, message).help(help));
    None
}
