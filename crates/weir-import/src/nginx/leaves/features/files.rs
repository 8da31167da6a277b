//! What is about files: media types, lists of folders, compressed forms beside files, links.

use super::super::scope::Scope;
use super::super::units;
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;

pub(super) fn apply(scope: &Scope<'_>, route: &mut DraftTable) {
    charset(scope, route);
    ranges(scope, route);
    if !route.has("files") {
        return;
    }
    switches(scope, route);
    types(scope, route);
    if let Some((statement, text)) = scope.text("default_type") {
        if text != "application/octet-stream" {
            route.table("files").set("default_type", text, statement);
            scope.ledger.exact(statement);
        } else {
            scope.ledger.by_default(statement, "files of an unknown type are `application/octet-stream`");
        }
    } else {
        route.table("files").set_plain("default_type", "text/plain");
    }
}

/// `charset`: of files; nginx adds it to what servers send, too.
fn charset(scope: &Scope<'_>, route: &mut DraftTable) {
    let statement = scope.text("charset");
    if route.has("files") {
        match statement {
            None => route.table("files").set_plain("charset", "off"),
            Some((statement, "off")) => {
                route.table("files").set("charset", "off", statement);
                scope.ledger.exact(statement);
            }
            Some((statement, text)) => {
                if !text.eq_ignore_ascii_case("utf-8") {
                    route.table("files").set("charset", text, statement);
                }
                scope.ledger.exact(statement);
            }
        }
    } else if let Some((statement, text)) = statement {
        if text == "off" {
            scope.ledger.by_default(statement, "responses of servers pass as they are");
        } else {
            scope.ledger.approximated(
                statement,
                "it is added to the type of files, not to what servers send without it",
            );
        }
    }
}

fn ranges(scope: &Scope<'_>, route: &mut DraftTable) {
    let Some((statement, text)) = scope.text("max_ranges") else { return };
    if !route.has("files") && !route.has("cache") {
        let difference = "ranges of what a server sends are for that server to limit";
        return scope.ledger.approximated(statement, difference);
    }
    if let Ok(most) = text.parse::<i64>() {
        route.set("max_ranges", most.clamp(0, 1000), statement);
        scope.ledger.exact(statement);
    }
}

/// `autoindex`, `gzip_static`, `disable_symlinks`, `open_file_cache_valid`.
fn switches(scope: &Scope<'_>, route: &mut DraftTable) {
    let ledger = scope.ledger;
    if let Some((statement, text)) = scope.text("autoindex") {
        if text == "on" {
            route.table("files").set("listing", true, statement);
            ledger.exact(statement);
        } else {
            ledger.by_default(statement, "folders are not listed");
        }
    }
    for name in ["autoindex_exact_size", "autoindex_localtime", "autoindex_format"] {
        if let Some(statement) = scope.one(name) {
            scope.words(statement).rest();
            ledger.approximated(statement, "lists of folders have a form of their own");
        }
    }
    let mut forms = Vec::new();
    for (name, coding) in [("brotli_static", "br"), ("zstd_static", "zstd"), ("gzip_static", "gzip")] {
        let Some((statement, text)) = scope.text(name) else { continue };
        match text {
            "on" => {
                forms.push(coding);
                ledger.exact(statement);
            }
            "always" => {
                forms.push(coding);
                ledger.approximated(statement, "the compressed form is sent to clients that accept it only");
            }
            _ => ledger.by_default(statement, "no compressed forms are looked for"),
        }
    }
    if !forms.is_empty() {
        route.table("files").set_plain("precompressed", forms);
    }
    if let Some((statement, text)) = scope.text("disable_symlinks") {
        scope.ledger.words(statement).rest();
        match text {
            "off" => ledger.approximated(statement, "links that lead out of the folder are not followed"),
            "on" => {
                route.table("files").set("symlinks", "never", statement);
                ledger.exact(statement);
            }
            _ => {
                route.table("files").set("symlinks", "never", statement);
                ledger.approximated(statement, "no links are followed, whomever they belong to");
            }
        }
    }
    if let Some((statement, text)) = scope.text("open_file_cache_valid")
        && scope
            .one("open_file_cache")
            .is_some_and(|cache| cache.words.get(1).is_some_and(|word| word.text != "off"))
    {
        match (units::millis(text), units::duration(text)) {
            (Some(..=3_600_000), Some(time)) => {
                route.table("files").set("valid", time, statement);
                ledger.exact(statement);
            }
            _ => ledger.approximated(statement, "files are looked at again after a second (`files.valid`)"),
        }
    }
}

/// Why a media type is not repeated.
const USUAL_TYPES: &str = "files of usual extensions have their media types as IANA registers them";

/// `types { }`: what Weir does not know anyway.
fn types(scope: &Scope<'_>, route: &mut DraftTable) {
    let is_whole = |one: &&Statement| one.at.file.ends_with("mime.types") || one.children().len() > 60;
    let has_whole = scope.all("types").iter().any(is_whole);
    for statement in scope.all("types") {
        let from_distribution = statement.at.file.ends_with("mime.types");
        for entry in statement.children() {
            let extensions = scope.ledger.words(entry).rest();
            if from_distribution {
                scope.ledger.by_default(entry, USUAL_TYPES);
                continue;
            }
            let mut is_default = true;
            for extension in extensions {
                if weir_http::media_type(&extension.text) != Some(entry.name()) {
                    set_type(route, &extension.text, entry.name(), entry);
                    is_default = false;
                }
            }
            if is_default {
                scope.ledger.by_default(entry, USUAL_TYPES);
            } else {
                scope.ledger.exact(entry);
            }
        }
        if statement.children().is_empty() && statement.block.is_some() {
            // No extension has a type then, and all files have the default one.
            scope
                .ledger
                .approximated(statement, "files of known types keep them; `default_type` is for the others");
        } else if from_distribution {
            scope.ledger.by_default(statement, USUAL_TYPES);
        } else if has_whole {
            scope.ledger.exact(statement);
        } else {
            // It is all of the table, and takes the place of one around it.
            scope.ledger.approximated(
                statement,
                "files of other usual extensions have their media types, where nginx sends `default_type`",
            );
        }
    }
}

fn set_type(route: &mut DraftTable, extension: &str, media_type: &str, from: &Statement) {
    route.table("files").table("types").set(extension, TomlValue::from(media_type), from);
}
