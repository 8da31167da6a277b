//! `file_server` and `php_fastcgi`: folders.

use super::proxy::UpstreamDraft;
use super::scope::{RouteBuilder, RouteScope};
use super::words::{arguments, behind_matcher};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

/// Adds the route of a file server; whether there is one.
pub(super) fn file_server<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    scope: &RouteScope<'s>,
) -> bool {
    let ledger = builder.ledger;
    let mut files = FolderDraft::new();
    for word in behind_matcher(ledger, statement) {
        match word {
            "browse" => files.set("listing", true),
            _ => ledger.unsupported(statement, "see `files` of the route"),
        }
    }
    let mut root = None;
    for child in statement.children() {
        let words = arguments(ledger, child);
        match (child.name(), words.as_slice()) {
            ("root", [folder]) if !folder.contains('{') => root = Some(((*folder).to_owned(), child)),
            ("index", names) => files.set("index", names.to_vec()),
            ("browse", []) => files.set("listing", true),
            ("precompressed", []) => files.set("precompressed", vec!["br", "zstd", "gzip"]),
            ("precompressed", list) => files.set("precompressed", list.to_vec()),
            ("hide", patterns) => {
                files.hidden = false;
                if patterns.iter().all(|pattern| pattern.starts_with('.') && !pattern.contains('/')) {
                    ledger
                        .approximated(child, "all files and folders whose names begin with a dot are hidden");
                } else {
                    ledger.unsupported(
                        child,
                        "answer the path with a route that has `respond = { status = 404 }`",
                    );
                }
                continue;
            }
            _ => {
                ledger.unsupported(child, "see `files` of the route");
                continue;
            }
        }
        ledger.exact(child);
    }
    // Without a folder, it is that in which the program is started.
    let (folder, from) =
        root.or_else(|| scope.settings.root.clone()).unwrap_or_else(|| (".".to_owned(), statement));
    settle_root(builder, &folder, from);
    files.root = folder;
    if let Some((tried, from)) = &scope.settings.try_files {
        files.try_files(builder, tried, from);
    }
    ledger.exact(statement);
    builder.push(scope, statement, |route| route.set_beside("files", files.into_value(), statement));
    true
}

/// A folder that does not begin with a slash is that of the process in Caddy, and that of the file in Weir.
fn settle_root(builder: &RouteBuilder<'_, '_>, folder: &str, from: &Statement) {
    if folder.starts_with('/') {
        builder.ledger.exact(from);
    } else {
        let difference =
            "the folder counts from that of the config, not from that in which the program is started";
        builder.ledger.approximated(from, difference);
    }
}

/// What cannot be said refuses its requests, and gives them to no other route.
fn refuse<'s>(builder: &mut RouteBuilder<'s, '_>, statement: &'s Statement, scope: &RouteScope<'s>) -> bool {
    builder.push(scope, statement, |route| {
        route.set_plain("respond", TomlValue::inline([("status", 404_i64.into())]));
    });
    true
}

/// The table `files`.
struct FolderDraft {
    root: String,
    keys: Vec<(&'static str, TomlValue)>,
    hidden: bool,
}

impl FolderDraft {
    fn new() -> Self {
        FolderDraft { root: String::new(), keys: Vec::new(), hidden: true }
    }

    fn set(&mut self, key: &'static str, value: impl Into<TomlValue>) {
        self.keys.push((key, value.into()));
    }

    fn try_files(&mut self, builder: &RouteBuilder<'_, '_>, tried: &[String], from: &Statement) {
        let ledger = builder.ledger;
        let mut files: Vec<&str> = Vec::new();
        for file in tried {
            if let Some(status) = file.strip_prefix('=') {
                self.set("fallback", format!("={status}"));
            } else if file.contains("?") || file.contains("{query}") {
                ledger.unsupported(from, "a query behind a file: use `fallback` of `files`");
            } else if file == "{path}/" {
                // A folder gets its index file in any case.
            } else {
                files.push(file);
            }
        }
        self.set("try_files", files);
        ledger.exact(from);
    }

    fn into_value(self) -> TomlValue {
        let has_index = self.keys.iter().any(|(key, _)| *key == "index");
        let mut table = vec![("root".to_owned(), TomlValue::from(self.root))];
        if !has_index {
            table.push(("index".to_owned(), vec!["index.html", "index.txt"].into()));
        }
        table.extend(self.keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
        if self.hidden {
            table.push(("hidden".to_owned(), true.into()));
        }
        TomlValue::Inline(table)
    }
}

/// Adds the route of a PHP application: its scripts, and with a `file_server` behind it its files. Whether it takes all requests.
pub(super) fn php_fastcgi<'s>(
    builder: &mut RouteBuilder<'s, '_>,
    statement: &'s Statement,
    scope: &RouteScope<'s>,
    rest: &[&'s Statement],
) -> bool {
    let ledger = builder.ledger;
    let mut upstream = UpstreamDraft::default();
    for word in behind_matcher(ledger, statement) {
        upstream.add_server(word, statement, ledger);
    }
    upstream.is_fastcgi = true;
    let mut fastcgi: Vec<(String, TomlValue)> = Vec::new();
    let (mut params, mut folder) = (Vec::new(), scope.settings.root.clone());
    for child in statement.children() {
        let words = arguments(ledger, child);
        match (child.name(), words.as_slice()) {
            ("root", [root]) if !root.contains('{') => {
                fastcgi.push(("root".to_owned(), (*root).into()));
                folder = folder.or(Some(((*root).to_owned(), child)));
            }
            ("env", [name, value]) if !value.contains(['{', '$']) => {
                params.push(((*name).to_owned(), TomlValue::from(*value)));
            }
            ("split", ends) => fastcgi.push(("split_path".to_owned(), ends.to_vec().into())),
            _ => {
                upstream.option(child, ledger);
                continue;
            }
        }
        ledger.exact(child);
    }
    let (Some((folder, from)), Some(name)) = (folder, builder.upstream(upstream, statement)) else {
        ledger.unsupported(statement, "say by `root` which folder the scripts are in");
        return refuse(builder, statement, scope);
    };
    settle_root(builder, &folder, from);
    let server = rest.iter().find(|other| other.name() == "file_server" && other.words.len() == 1);
    if !params.is_empty() {
        fastcgi.push(("params".to_owned(), TomlValue::Inline(params)));
    }
    let files = server.map(|server| {
        let mut files = FolderDraft::new();
        files.root = folder.clone();
        files.set("index", vec!["index.php", "index.html", "index.txt"]);
        files.set("try_files", vec!["{path}", "/index.php"]);
        ledger.exact(server);
        (files, *server)
    });
    if files.is_none() {
        fastcgi.insert(0, ("root".to_owned(), folder.into()));
        fastcgi.push(("script".to_owned(), "/index.php".into()));
    }
    ledger.exact(statement);
    builder.push(scope, statement, |route: &mut DraftTable| {
        if let Some((files, server)) = files {
            route.set("files", files.into_value(), server);
        }
        if !fastcgi.is_empty() {
            route.set_beside("fastcgi", TomlValue::Inline(fastcgi), statement);
        }
        route.set_beside("upstream", name, statement);
    });
    true
}
