//! Parameters of FastCGI: Weir finds the script and sends the usual ones by itself.

use super::super::scope::{NginxPlace, Scope};
use super::super::variables;
use super::alias;
use crate::document::DraftTable;
use crate::source::Statement;

/// Parameters that are sent in any case, with the values that they usually have.
const USUAL: [(&str, &[&str]); 22] = [
    ("QUERY_STRING", &["$query_string", "$args"]),
    ("REQUEST_METHOD", &["$request_method"]),
    ("CONTENT_TYPE", &["$content_type"]),
    ("CONTENT_LENGTH", &["$content_length"]),
    ("SCRIPT_NAME", &["$fastcgi_script_name"]),
    ("REQUEST_URI", &["$request_uri"]),
    ("DOCUMENT_URI", &["$document_uri", "$uri"]),
    ("DOCUMENT_ROOT", &["$document_root", "$realpath_root"]),
    ("SERVER_PROTOCOL", &["$server_protocol"]),
    ("REQUEST_SCHEME", &["$scheme"]),
    ("HTTPS", &["$https"]),
    ("GATEWAY_INTERFACE", &["CGI/1.1"]),
    ("SERVER_SOFTWARE", &["nginx/$nginx_version", "nginx"]),
    ("REMOTE_ADDR", &["$remote_addr"]),
    ("REMOTE_PORT", &["$remote_port"]),
    ("REMOTE_USER", &["$remote_user"]),
    ("SERVER_ADDR", &["$server_addr"]),
    ("SERVER_PORT", &["$server_port"]),
    ("SERVER_NAME", &["$server_name", "$host", "$http_host"]),
    ("REDIRECT_STATUS", &["200"]),
    ("PATH_INFO", &["$fastcgi_path_info", "$path_info"]),
    (
        "PATH_TRANSLATED",
        &[
            "$document_root$fastcgi_path_info",
            "$document_root$path_info",
            "$document_root/$fastcgi_script_name",
        ],
    ),
];

pub(super) fn apply(
    scope: &Scope<'_>,
    route: &mut DraftTable,
    pass: &Statement,
    differences: &mut Vec<String>,
) -> Result<(), String> {
    let below = alias::files(scope)?;
    let scope = below.as_ref().map_or(scope, |below| &below.scope);
    if let Some(below) = &below {
        route.table("fastcgi").set("root", below.folder.as_str(), pass);
        differences.extend(below.difference.map(ToOwned::to_owned));
    }
    script(scope, route, pass, below.is_some());
    for statement in scope.all("fastcgi_param") {
        parameter(scope, statement, route, below.is_some());
    }
    if let Some((statement, text)) = scope.text("fastcgi_index") {
        if text != "index.php" {
            route.table("fastcgi").set("index", text, statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "`index.php` is the script of a folder");
        }
    }
    if let Some((statement, pattern)) = scope.text("fastcgi_split_path_info") {
        split(scope, statement, pattern, route);
    }
    if let Some((statement, text)) = scope.text("fastcgi_keep_conn") {
        if text == "on" {
            scope.ledger.approximated(
                statement,
                "connections are closed behind each response: set `pool.idle_max` of the upstream",
            );
        } else {
            scope.ledger.by_default(statement, "connections are closed behind each response");
        }
    }
    for statement in scope.all("fastcgi_catch_stderr") {
        for word in scope.words(statement).rest() {
            route.table("fastcgi").push("catch_stderr", word.text.as_str(), statement);
        }
        scope.ledger.exact(statement);
    }
    // A place without a script name of its own has one by its path.
    if !names_scripts(scope) && scope.all("fastcgi_param").is_empty() {
        differences.push(
            "the script is found by the path of the request; nginx sends no `SCRIPT_FILENAME` here"
                .to_owned(),
        );
    }
    Ok(())
}

fn names_scripts(scope: &Scope<'_>) -> bool {
    let is_script =
        |statement: &&Statement| statement.words.get(1).is_some_and(|word| word.text == "SCRIPT_FILENAME");
    scope.all("fastcgi_param").iter().any(is_script)
}

/// The folder of the scripts, and whether a script has to be there.
fn script(scope: &Scope<'_>, route: &mut DraftTable, pass: &Statement, is_below_alias: bool) {
    if is_below_alias {
        return route.table("fastcgi").set("check_script", false, pass);
    }
    if let Some((statement, root)) = scope.text("root") {
        match variables::constant(scope, root) {
            Some(root) if !route.has("files") => {
                let root = variables::below_prefix(scope, statement, root);
                route.table("fastcgi").set("root", root, statement);
                scope.ledger.exact(statement);
            }
            Some(_) => scope.ledger.exact(statement),
            None => scope
                .ledger
                .unsupported(statement, "`root` of `fastcgi` is one folder; make a route for each host"),
        }
    }
    if scope.one("root").is_none() && !route.has("files") {
        route.table("fastcgi").set_plain("root", "/usr/share/nginx/html");
    }
    // nginx asks the server for whatever script the path names.
    let has_check = scope.own("try_files").into_iter().next().is_some();
    if !has_check && !route.has("files") {
        route.table("fastcgi").set("check_script", false, pass);
    }
}

fn parameter(scope: &Scope<'_>, statement: &Statement, route: &mut DraftTable, is_below_alias: bool) {
    let ledger = scope.ledger;
    let mut words = ledger.words(statement);
    let (Some(name), Some(value)) = (words.text(), words.text()) else { return };
    let if_not_empty = words.flag("if_not_empty");
    // Below an `alias`, the folder and the file are what it says, and no path below a root.
    let is_of_alias = is_below_alias && alias::VARIABLES.iter().any(|variable| value.contains(variable));
    if !is_of_alias && USUAL.iter().any(|(known, values)| *known == name && values.contains(&value)) {
        // Of two parameters of one name, programs take the last.
        let has = |own: &DraftTable| own.get_table("params").is_some_and(|params| params.has(name));
        if !if_not_empty && route.get_table("fastcgi").is_some_and(has) {
            route.table("fastcgi").table("params").remove(name);
        }
        return ledger.by_default(statement, "servers get this parameter");
    }
    if name == "SCRIPT_FILENAME" && !is_of_alias {
        return script_filename(scope, statement, value, route);
    }
    if name == "HTTP_PROXY" && value.is_empty() {
        return ledger.by_default(statement, "`Proxy` of clients is never a parameter");
    }
    if value.is_empty() && if_not_empty {
        return ledger.by_default(statement, "an empty parameter is left out");
    }
    if value.contains(char::is_control) {
        let advice = "a parameter is one line: settings of PHP can stand in the pool of PHP-FPM (`php_admin_value[...]`)";
        return ledger.unsupported(statement, advice);
    }
    match variables::shown(scope, value, variables::TemplateUse::Exchange) {
        Ok(template) => {
            route.table("fastcgi").table("params").set(name, template.text, statement);
            match template.differences.as_slice() {
                [] => ledger.exact(statement),
                some => some.iter().for_each(|difference| ledger.approximated(statement, difference)),
            }
        }
        Err(unknown) => ledger.unsupported(statement, &format!("`${}`: {}", unknown.name, unknown.advice)),
    }
}

/// `SCRIPT_FILENAME`: a folder and the script of the path, or one script for all.
fn script_filename(scope: &Scope<'_>, statement: &Statement, value: &str, route: &mut DraftTable) {
    let ledger = scope.ledger;
    let scripts = ["/$fastcgi_script_name", "$fastcgi_script_name", "$uri", "$document_uri"];
    if let Some(folder) = scripts.iter().find_map(|end| value.strip_suffix(end)) {
        if matches!(folder, "$document_root" | "$realpath_root" | "") {
            return ledger.by_default(statement, "the script is found below the folder by the path");
        }
        return match variables::constant(scope, folder) {
            Some(folder) => {
                route.table("fastcgi").set("root", folder, statement);
                ledger.exact(statement);
            }
            None => ledger.unsupported(statement, "`root` of `fastcgi` is one folder; make a route for each"),
        };
    }
    if value == "$request_filename" && scope.one("alias").is_none() {
        return ledger.by_default(statement, "the script is found below the folder by the path");
    }
    // One script: the folder and the file in it.
    let root =
        scope.one("root").and_then(|root| variables::constant(scope, root.words.get(1)?.text.as_str()));
    let whole = variables::constant(scope, value);
    match (whole, root) {
        (Some(file), Some(root)) if file.starts_with(&format!("{}/", root.trim_end_matches('/'))) => {
            let script = &file[root.trim_end_matches('/').len()..];
            one_script(scope, script, None, statement, route);
        }
        (Some(file), _) if file.starts_with('/') => {
            let (folder, name) = file.rsplit_once('/').unwrap_or(("", &file));
            let folder = if folder.is_empty() { "/" } else { folder };
            one_script(scope, &format!("/{name}"), Some(folder), statement, route);
        }
        _ => ledger
            .unsupported(statement, "name a folder (`fastcgi.root`) and a script in it (`fastcgi.script`)"),
    }
}

fn one_script(
    scope: &Scope<'_>,
    script: &str,
    folder: Option<&str>,
    statement: &Statement,
    route: &mut DraftTable,
) {
    let fastcgi = route.table("fastcgi");
    if let Some(folder) = folder {
        fastcgi.set("root", folder, statement);
    }
    fastcgi.set("script", script, statement);
    // A path that names a script of its own is run as that, which nginx does not do here.
    let only_this = matches!(&scope.place, NginxPlace::Exact(path) if path == script);
    if only_this {
        scope.ledger.exact(statement);
    } else {
        scope.ledger.approximated(statement, "a path that names another script of the folder runs that one");
    }
}

/// `fastcgi_split_path_info`, for which Weir has the ends of names of scripts.
fn split(scope: &Scope<'_>, statement: &Statement, pattern: &str, route: &mut DraftTable) {
    if pattern.starts_with("^()") {
        // A program without scripts: all of the path is for it.
        route.table("fastcgi").set("script", "", statement);
        return scope.ledger.exact(statement);
    }
    let usual = ["\\.php", "[^/]+\\.php", ".+?\\.php", ".+\\.php", "[^\\.]+\\.php", "(?U).+\\.php"];
    let core = pattern.trim_start_matches("^").trim_start_matches('(').trim_start_matches("?U");
    if core.contains("\\.php") || usual.iter().any(|known| pattern.contains(known)) {
        return scope
            .ledger
            .by_default(statement, "the path is split behind the script, whose name ends with `.php`");
    }
    let ending = core.split(')').next().unwrap_or_default().rsplit("\\.").next().unwrap_or_default();
    if core.contains("\\.") && !ending.is_empty() && ending.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        route.table("fastcgi").set("split_path", vec![format!(".{ending}")], statement);
        return scope.ledger.exact(statement);
    }
    scope.ledger.unsupported(statement, "say with `fastcgi.split_path` how the names of scripts end");
}
