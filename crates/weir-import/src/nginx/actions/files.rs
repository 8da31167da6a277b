//! `root`, `alias`, `index`, `autoindex`, `try_files`: the files of a location.

use crate::document::{DraftTable, TomlValue};
use crate::nginx::locations::NginxMatcher;
use crate::nginx::scope::Scope;
use crate::nginx::variables;
use crate::source::Statement;

/// The location whose files they are.
pub(in crate::nginx) struct FilesPlace<'p, 's> {
    pub(in crate::nginx) scope: &'p Scope<'s>,
    pub(in crate::nginx) matcher: &'p NginxMatcher,
    /// The location, or nothing for the server itself.
    pub(in crate::nginx) statement: Option<&'s Statement>,
    /// Whether `try_files` counts: not in the block of an `if`.
    pub(in crate::nginx) tries: bool,
    /// Where requests go for which there is no file, by `if (!-f ...)`.
    pub(in crate::nginx) without_file: Option<&'p (String, &'s Statement)>,
}

/// Why a location has no files.
type NoFiles = ();

/// Sets the files of a place. Where there is no folder, requests are answered 404.
pub(in crate::nginx) fn files(place: &FilesPlace<'_, '_>, route: &mut DraftTable) {
    let mut table = DraftTable::default();
    let tried = place.tries.then(|| place.scope.own("try_files").last().copied()).flatten();
    let root = folder(place, &mut table, tried);
    match (root, tried) {
        (Ok(true), _) => {}
        // Only what follows counts, where no file is ever there.
        (Ok(false), Some(statement)) => return without_folder(place, statement, route),
        (Ok(false), None) => {
            if let (Some((to, statement)), true) = (place.without_file, place.tries) {
                return to_fallback(to, statement, route);
            }
            if let Some(statement) = place.statement {
                let difference =
                    "there is no `root`: nginx looks in the folder of its installation, Weir answers 404";
                place.scope.ledger.approximated(statement, difference);
            }
            route.table("respond").set_plain("status", 404);
            return;
        }
        (Err(()), _) => {
            if let Some(statement) = place.scope.innermost(&["root", "alias"]) {
                super::unavailable(statement, route);
            }
            return;
        }
    }
    index(place, &mut table);
    if let Some(statement) = place.scope.one("autoindex") {
        if place.scope.words(statement).text() == Some("on") {
            table.set("listing", true, statement);
            place.scope.ledger.exact(statement);
        } else {
            place.scope.ledger.by_default(statement, "folders are not listed");
        }
    }
    if let Some(statement) = tried {
        try_files(place, statement, &mut table);
    } else if let Some((to, statement)) = place.without_file {
        table.set("fallback", to.as_str(), statement);
    }
    *route.table("files") = table;
}

/// The folder; `false` where there is none.
fn folder(
    place: &FilesPlace<'_, '_>,
    table: &mut DraftTable,
    tried: Option<&Statement>,
) -> Result<bool, NoFiles> {
    let scope = place.scope;
    let Some(statement) = scope.innermost(&["root", "alias"]) else { return Ok(false) };
    let mut words = scope.ledger.words(statement);
    let written = words.text().unwrap_or_default();
    let template = match variables::template(scope, written) {
        Ok(template) => template,
        Err(unknown) => {
            scope.ledger.unsupported(statement, &unknown.advice);
            return Err(());
        }
    };
    let template = variables::below_prefix(scope, statement, template);
    let is_alias = statement.name() == "alias";
    let captured = template.contains("{match.");
    // One file, whatever the expression has matched, if it names no folder.
    let is_file = !template.contains('{') && !template.ends_with('/');
    if is_alias && (captured || is_file) && matches!(place.matcher, NginxMatcher::Regex(_)) && tried.is_none()
    {
        return alias_of_regex(place, &template, statement, table);
    }
    if template.contains('{') {
        let advice = "the folder of files is fixed: write a location for each value";
        scope.ledger.unsupported(statement, advice);
        return Err(());
    }
    scope.ledger.exact(statement);
    let trimmed = if template.len() > 1 { template.trim_end_matches('/') } else { &template };
    if !is_alias {
        table.set("root", trimmed, statement);
        return Ok(true);
    }
    match place.matcher {
        NginxMatcher::Exact(_) => table.set("alias", template.as_str(), statement),
        NginxMatcher::Prefix(path) => {
            table.set("alias", trimmed, statement);
            let is_even = path.ends_with('/') == template.ends_with('/');
            if !is_even || !path.ends_with('/') {
                scope.ledger.approximated(
                    statement,
                    "the path of the location ends at a slash: nothing beside it is a path below the folder",
                );
            }
        }
        _ => {
            scope.ledger.unsupported(statement, "write `root`: `alias` stands for the path of a location");
            return Err(());
        }
    }
    Ok(true)
}

/// `location ~ ^/d/(.*)$ { alias /srv/$1; }`
fn alias_of_regex(
    place: &FilesPlace<'_, '_>,
    template: &str,
    statement: &Statement,
    table: &mut DraftTable,
) -> Result<bool, NoFiles> {
    let (root, rest) = template.split_at(template.find('{').unwrap_or(template.len()));
    if rest.is_empty() {
        let difference =
            "should it be a folder, the answer is 403, where nginx redirects to the path with a slash";
        place.scope.ledger.approximated(statement, difference);
    }
    let Some((root, name)) = root.rsplit_once('/') else {
        place.scope.ledger.unsupported(statement, "write the folder before the first group");
        return Err(());
    };
    place.scope.ledger.exact(statement);
    table.set("root", if root.is_empty() { "/" } else { root }, statement);
    table.set("try_files", vec![format!("/{name}{rest}")], statement);
    Ok(true)
}

fn index(place: &FilesPlace<'_, '_>, table: &mut DraftTable) {
    let statements = place.scope.all("index");
    let mut names = Vec::new();
    let mut from = None;
    for statement in &statements {
        from = Some(*statement);
        for word in place.scope.words(statement).rest() {
            let text = word.text.as_str();
            if text.starts_with('/') {
                let difference = "a path in `index` is left out: a folder without the other files is answered 403, or goes where `try_files` says";
                place.scope.ledger.approximated(statement, difference);
                continue;
            }
            match variables::template(place.scope, text) {
                Ok(name) => names.push(name),
                Err(unknown) => place.scope.ledger.unsupported(statement, &unknown.advice),
            }
        }
        place.scope.ledger.exact(statement);
    }
    // Scripts are run by their own location, never sent: see `scripts`.
    names.retain(|name| !name.ends_with(".php"));
    if let Some(statement) = from.filter(|_| names != ["index.html"]) {
        table.set("index", names, statement);
    }
}

fn try_files(place: &FilesPlace<'_, '_>, statement: &Statement, table: &mut DraftTable) {
    let scope = place.scope;
    let mut words: Vec<&str> =
        scope.ledger.words(statement).rest().iter().map(|word| word.text.as_str()).collect();
    let Some(last) = words.pop() else { return };
    let mut paths = Vec::new();
    let mut folders = false;
    for word in words {
        if word == "$uri/" || word == "$fastcgi_script_name/" {
            folders = true;
            continue;
        }
        match variables::template(scope, word) {
            Ok(path) if path.starts_with('/') || path.starts_with("{path}") => paths.push(path),
            Ok(path) if path.starts_with("{match.") => paths.push(format!("/{path}")),
            Ok(_) => scope
                .ledger
                .unsupported(statement, &format!("`{word}` does not begin with the path or a slash")),
            Err(unknown) => scope.ledger.unsupported(statement, &unknown.advice),
        }
    }
    folders |= paths.iter().any(|path| path.ends_with('/'));
    if folders {
        scope.ledger.approximated(
            statement,
            "a folder without an index file goes on to the next of the list, where nginx answers 403",
        );
    } else {
        table.remove("index");
        table.set("index", TomlValue::Array(Vec::new()), statement);
    }
    if folders && !paths.iter().any(|path| path == "{path}") {
        paths.insert(0, "{path}".to_owned());
    }
    if paths.is_empty() && scope.ledger.is_unsupported(statement) {
        // Nothing of the list can be said: what follows it counts.
        table.remove("try_files");
    } else if paths != ["{path}"] {
        table.set("try_files", paths, statement);
    }
    if let Some(to) = target(scope, last, statement).filter(|to| to != "=404") {
        table.set("fallback", to, statement);
    }
    scope.ledger.exact(statement);
}

/// The last word of `try_files`.
fn target(scope: &Scope<'_>, last: &str, statement: &Statement) -> Option<String> {
    if last.starts_with('=') {
        if last == "=444" {
            let difference = "the request is answered 444, where nginx closes the connection";
            scope.ledger.approximated(statement, difference);
        }
        return Some(last.to_owned());
    }
    if let Some(name) = last.strip_prefix('@') {
        return Some(name.to_owned());
    }
    match variables::template(scope, last) {
        Ok(to) => {
            let to = to.replace("{target}", "{path}{query}").replace("?{args}", "{query}");
            let to = if to.ends_with("{query}{args}") { to.replace("{query}{args}", "{query}") } else { to };
            if ["/", "{path}", "{match."].iter().any(|begin| to.starts_with(begin)) {
                return Some(to);
            }
            scope.ledger.unsupported(statement, "the last of the list is a path, a name or a status");
            None
        }
        Err(unknown) => {
            scope.ledger.unsupported(statement, &unknown.advice);
            None
        }
    }
}

/// `try_files` where there is no folder, as in `try_files /nonexistent @app`.
fn without_folder(place: &FilesPlace<'_, '_>, statement: &Statement, route: &mut DraftTable) {
    let words = place.scope.ledger.words(statement).rest();
    let Some(last) = words.last() else { return };
    place.scope.ledger.approximated(
        statement,
        "there is no `root`: nginx looks in the folder of its installation, here there are no files",
    );
    match target(place.scope, &last.text, statement) {
        Some(to) => to_fallback(&to, statement, route),
        None => super::unavailable(statement, route),
    }
}

/// A route that is only about where its requests go on.
fn to_fallback(to: &str, statement: &Statement, route: &mut DraftTable) {
    if let Some(status) = to.strip_prefix('=') {
        let status = status.parse::<i64>().unwrap_or(404);
        route.table("respond").set("status", status, statement);
    } else if to.starts_with('/') || to.starts_with('{') {
        let rule =
            TomlValue::inline([("pattern", "^".into()), ("replacement", to.into()), ("flag", "last".into())]);
        route.push("rewrite", rule, statement);
        route.table("respond").set("status", 404, statement);
    } else {
        route.set("then", to, statement);
    }
}
