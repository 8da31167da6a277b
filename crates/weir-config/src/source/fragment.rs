//! Fragments: texts from a store that are read as if the file included them, with less that they may hold: routes of listeners that the file
//! has, and upstreams. A fragment names no file of this machine, no socket and no environment variable: a user who may write a key of the store
//! need not be the one who runs Weir.

use super::document::parse_document;
use super::include::join_entry;
use super::{Tree, TreeEntry, TreeNode, TreeTable};
use crate::diagnostic::{Diagnostic, DiagnosticKind, did_you_mean};
use crate::diagnostic::{FileIndex, SourceMap};

/// What a fragment may hold, as a hint.
const ALLOWED: &str =
    "a fragment holds `[[listener.NAME.route]]` and `[upstream.NAME]`; everything else is in the file";

/// Parses a fragment and joins it to the whole, with a diagnostic for everything that it may not hold.
pub(crate) fn join_fragment(
    sources: &mut SourceMap,
    name: &str,
    text: &str,
    whole: &mut TreeNode,
    diagnostics: &mut Vec<Diagnostic>,
) -> FileIndex {
    let file = sources.add(name, text);
    let before = diagnostics.len();
    let node = parse_document(sources, file, &|_| None, diagnostics);
    for diagnostic in diagnostics[before..].iter_mut() {
        if diagnostic.kind == DiagnosticKind::Environment {
            diagnostic.message = "a fragment cannot read environment variables".to_owned();
            diagnostic.help = Some("write the value, or `$$` for a literal `$`".to_owned());
        }
    }
    report_places(&node, diagnostics);
    let (Tree::Table(table), Tree::Table(whole)) = (node.tree, &mut whole.tree) else { return file };
    for entry in table.entries {
        match entry.key.as_str() {
            "upstream" => join_entry(diagnostics, whole, entry, &[]),
            "listener" => join_routes(whole, entry, diagnostics),
            key => {
                let message = format!("`{key}` cannot be set by a fragment");
                let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message);
                diagnostics.push(diagnostic.help(ALLOWED));
            }
        }
    }
    file
}

/// Joins the routes of a fragment to those of the listeners that there are.
fn join_routes(whole: &mut TreeTable, entry: TreeEntry, diagnostics: &mut Vec<Diagnostic>) {
    let known: Vec<String> = match whole.find("listener").map(|entry| &entry.node.tree) {
        Some(Tree::Table(listeners)) => listeners.entries.iter().map(|entry| entry.key.clone()).collect(),
        _ => Vec::new(),
    };
    let (key, key_at, span) = (entry.key, entry.key_at, entry.node.span);
    let Tree::Table(listeners) = entry.node.tree else {
        let diagnostic = Diagnostic::new(DiagnosticKind::WrongType, key_at, "`listener` is not a table");
        return diagnostics.push(diagnostic.help(ALLOWED));
    };
    let mut kept = Vec::new();
    for listener in listeners.entries {
        let Tree::Table(mut table) = listener.node.tree else {
            let message = format!("`listener.{}` is not a table", listener.key);
            let diagnostic = Diagnostic::new(DiagnosticKind::WrongType, listener.key_at, message);
            diagnostics.push(diagnostic.help(ALLOWED));
            continue;
        };
        if !known.contains(&listener.key) {
            let message = format!("the file has no listener `{}`", listener.key);
            let help = did_you_mean(&listener.key, known.iter().map(String::as_str));
            let diagnostic = Diagnostic::new(DiagnosticKind::UnknownName, listener.key_at, message);
            diagnostics.push(diagnostic.help(help.unwrap_or_else(|| ALLOWED.to_owned())));
            continue;
        }
        table.entries.retain(|entry| {
            if entry.key == "route" {
                return true;
            }
            let message = format!("`listener.{}.{}` cannot be set by a fragment", listener.key, entry.key);
            let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message);
            diagnostics.push(diagnostic.help(ALLOWED));
            false
        });
        kept.push(TreeEntry {
            node: TreeNode { span: listener.node.span, tree: Tree::Table(table) },
            ..listener
        });
    }
    let node = TreeNode { span, tree: Tree::Table(TreeTable::new(kept)) };
    join_entry(diagnostics, whole, TreeEntry { key, key_at, node }, &[]);
}

/// Reports what leads out of the config without naming a file by a key of its own: sockets of this machine, and logs of routes.
fn report_places(node: &TreeNode, diagnostics: &mut Vec<Diagnostic>) {
    match &node.tree {
        Tree::Text(text) if text.value.trim_start().starts_with("unix:") => {
            let message = "a fragment cannot name a socket of this machine";
            diagnostics.push(
                Diagnostic::new(DiagnosticKind::NotSupported, node.span, message)
                    .help("define the upstream in the file, and name it in a route of the fragment"),
            );
        }
        Tree::List(list) => list.iter().for_each(|node| report_places(node, diagnostics)),
        Tree::Table(table) => {
            for entry in &table.entries {
                if entry.key == "access_log" && matches!(entry.node.tree, Tree::Table(_)) {
                    let message = "a fragment cannot name an access log";
                    let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, entry.key_at, message);
                    diagnostics.push(diagnostic.help("write `access_log = true` or `false`"));
                }
                report_places(&entry.node, diagnostics);
            }
        }
        _ => {}
    }
}
