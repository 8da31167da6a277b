//! Files and scripts of one folder: `try_files` beside `fastcgi_pass` or `proxy_pass`, and folders whose index is a script.

use super::leaves::passes;
use super::scope::{NginxPlace, Scope};
use super::variables;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

/// `try_files` in a location that hands requests over.
pub(super) fn tried(scope: &Scope<'_>, pass: &Statement, statement: &Statement, table: &mut DraftTable) {
    let words = scope.ledger.words(statement).rest();
    let mut texts: Vec<&str> = words.iter().map(|word| word.text.as_str()).collect();
    // A script that is not there is answered 404 anyway.
    if let [.., _, script, "=404"] = texts.as_slice()
        && script.starts_with('/')
        && !script.contains('$')
    {
        texts.pop();
    }
    let is_path = |text: &str| {
        matches!(text, "$uri" | "$fastcgi_script_name" | "$document_root$fastcgi_script_name" | "$uri/")
    };
    let Some((last, paths)) = texts.split_last() else { return };
    if pass.name() != "fastcgi_pass" {
        let advice = "`try_files` beside `proxy_pass`: write `files` with `upstream` on the route";
        return scope.ledger.unsupported(statement, advice);
    }
    if paths.iter().all(|text| is_path(text)) && *last == "=404" {
        return scope.ledger.by_default(statement, "a script has to be a file (`check_script`)");
    }
    if let ([script], "=404") = (paths, *last)
        && script.starts_with('/')
        && !script.contains('$')
        && !table.get_table("fastcgi").is_some_and(|own| own.has("script"))
    {
        table.table("fastcgi").set("script", *script, statement);
        return scope
            .ledger
            .approximated(statement, "a path that names another script of the folder runs that one");
    }
    let root = scope.one("root").and_then(|root| scope.words(root).text());
    let Some(Ok(root)) = root.map(|root| variables::template(scope, root)) else {
        return scope.ledger.unsupported(statement, "write `files` with `try_files` on the route");
    };
    let mut paths: Vec<String> =
        paths.iter().filter(|text| is_path(text)).map(|_| "{path}".to_owned()).collect();
    paths.dedup();
    let script = last.split('?').next().unwrap_or_default();
    if !script.starts_with('/') || script.contains('$') || paths.len() + 1 < texts.len() {
        return scope
            .ledger
            .unsupported(statement, "write `files` with `try_files` and `upstream` on the route");
    }
    paths.push(script.to_owned());
    let files = table.table("files");
    files.set("root", root, statement);
    files.set("try_files", paths, statement);
    scope.ledger.approximated(statement, "files of the folder that are no scripts are sent as they are");
}

/// `if (!-f $request_filename)` in a location that hands requests over: a script can be asked for, and nothing else.
pub(super) fn without_file(
    scope: &Scope<'_>,
    pass: &Statement,
    (to, statement): &(String, &Statement),
    table: &mut DraftTable,
) {
    let fastcgi = table.get_table("fastcgi").filter(|_| pass.name() == "fastcgi_pass" && to == "=404");
    if fastcgi.is_some_and(|own| !own.has("script") && !own.has("split_path")) {
        table.table("fastcgi").remove("check_script");
        if table.get_table("fastcgi").is_some_and(DraftTable::is_empty) {
            table.remove("fastcgi");
        }
        if !statement.words.iter().any(|word| word.text.contains("$fastcgi_script_name")) {
            let difference =
                "a path that goes on behind a script runs that script, where there is no such file for nginx";
            scope.ledger.approximated(statement, difference);
        }
        return;
    }
    let advice = "a condition cannot ask for files where a server answers: use `files` with `fallback` to a route of that server";
    scope.ledger.unsupported(statement, advice);
    statement
        .children()
        .iter()
        .for_each(|child| scope.ledger.unsupported(child, "the `if` around it is not supported"));
    // What is refused stays so.
    if to.starts_with('=') {
        super::actions::unavailable(statement, table);
    }
}

/// Folders whose index is a script, which `location ~ \.php$` runs in nginx: here the route of the files runs it.
pub(super) fn of_folders<'s>(scope: &Scope<'s>, draft: &mut Draft, table: &mut DraftTable) {
    let Some(files) = table.get_table("files") else { return };
    let Some(statement) = scope.all("index").into_iter().last() else { return };
    let names: Vec<&str> = statement.words.iter().skip(1).map(|word| word.text.as_str()).collect();
    let looks_into_folders = files.get("index") != Some(&TomlValue::Array(Vec::new()))
        || !scope.own("try_files").iter().any(|one| one.words.len() > 1);
    if !names.iter().any(|name| name.ends_with(".php")) || !looks_into_folders {
        return;
    }
    if files.has("alias") {
        let advice =
            "scripts below an `alias` are not run: write `root`, and a route of its own for the folder";
        return scope.ledger.approximated(statement, advice);
    }
    let fallback = files.text("fallback").map(ToOwned::to_owned);
    let script = match fallback.as_deref() {
        None => None,
        Some(path) if path.starts_with('/') && path.trim_end_matches("{query}").ends_with(".php") => {
            Some(path.trim_end_matches("{query}").to_owned())
        }
        Some(_) => {
            let difference = "a folder whose index file is a script goes where `try_files` leads in the end";
            return scope.ledger.approximated(statement, difference);
        }
    };
    let runs = |one: &&Statement| {
        one.name() == "location" && one.words.len() == 3 && one.words[2].text.contains("php")
    };
    let pass = |one: &'s Statement| {
        one.children().iter().find(|child| child.name() == "fastcgi_pass").map(|pass| (one, pass))
    };
    let Some((location, pass)) = scope.server().iter().filter(runs).find_map(pass) else {
        return scope
            .ledger
            .approximated(statement, "no location runs scripts: they are left out of the index files");
    };
    let mut inner = scope.of_server().within(location.children());
    inner.place = NginxPlace::Regex;
    let mut runner = DraftTable::default();
    passes::pass(&inner, draft, &mut runner, pass);
    if !runner.has("upstream") {
        return;
    }
    let files = table.table("files");
    files.set(
        "index",
        names.iter().filter(|name| !name.starts_with('/')).copied().collect::<Vec<_>>(),
        statement,
    );
    if let Some(script) = script {
        if fallback.is_some_and(|fallback| !fallback.ends_with("{query}")) {
            scope.ledger.approximated(statement, "the front controller gets the query of the request");
        }
        files.remove("fallback");
        if !files.has("try_files") {
            files.set("try_files", vec!["{path}"], statement);
        }
        files.push("try_files", script, statement);
    }
    if let Some(fastcgi) = runner.has("fastcgi").then(|| runner.table("fastcgi")) {
        fastcgi.remove("root");
        fastcgi.remove("check_script");
        if fastcgi.is_empty() {
            runner.remove("fastcgi");
        }
    }
    let known: Vec<String> = runner.keys().filter(|key| !table.has(key)).map(ToOwned::to_owned).collect();
    known.iter().for_each(|key| runner.move_to(key, table));
    scope.ledger.approximated(
        statement,
        "a script that is the index of a folder, or stands last in `try_files`, is run by this route, with its fields and limits",
    );
}
