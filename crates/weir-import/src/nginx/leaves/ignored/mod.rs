//! Directives without meaning for Weir or equal by default, whatever they say, each with its true reason; and what no place has used.

use super::scope::Scope;
use crate::document::Draft;
use crate::source::Statement;

// Directives and their reasons.
mod table;

/// Accounts for what no translation has asked for, once all else is translated: for each level, what nothing there uses.
pub(in crate::nginx) fn sweep(scope: &Scope<'_>, draft: &mut Draft, statements: &[Statement]) {
    level(scope, draft, statements, false);
}

/// `in_location`: where what nginx has for a location, Weir has for a listener as a whole.
fn level(scope: &Scope<'_>, draft: &mut Draft, statements: &[Statement], in_location: bool) {
    for statement in statements {
        if in_location && table::is_of_listener(statement.name()) && !scope.ledger.is_settled(statement) {
            of_listener(scope, statement);
        }
        one(scope, draft, statement, statements, in_location);
    }
}

/// Whether a proxy is believed anywhere.
fn has_trusted(statements: &[Statement]) -> bool {
    statements.iter().any(|one| one.name() == "set_real_ip_from" || has_trusted(one.children()))
}

/// A location that says what is a matter of its listener.
fn of_listener(scope: &Scope<'_>, statement: &Statement) {
    if statement.name().contains("real_ip") {
        let names_one = scope.levels_of_text().into_iter().any(has_trusted);
        if !names_one && statement.name() != "set_real_ip_from" {
            let why = "no `set_real_ip_from` names a proxy that is believed";
            return scope.ledger.meaningless(statement, why);
        }
        let advice = "who the client is holds for a listener as a whole: write it into the server";
        return scope.ledger.unsupported(statement, advice);
    }
    scope.ledger.words(statement).rest();
    scope
        .ledger
        .approximated(statement, "it is a matter of connections: what the listener has holds here, too");
}

fn one(
    scope: &Scope<'_>,
    draft: &mut Draft,
    statement: &Statement,
    siblings: &[Statement],
    in_location: bool,
) {
    let ledger = scope.ledger;
    if !ledger.is_settled(statement) {
        leaf(scope, draft, statement, siblings);
    }
    let name = statement.name();
    if name == "types" {
        for child in statement.children().iter().filter(|child| !ledger.is_settled(child)) {
            ledger.meaningless(child, "no files are sent here");
        }
    }
    // What is in a block that is not imported is not imported either.
    if statement.block.is_some() && !matches!(name, "map" | "geo" | "types" | "split_clients" | "charset_map")
    {
        if ledger.is_unsupported(statement) {
            lost(scope, statement.children());
        }
        level(scope, draft, statement.children(), in_location || name == "location");
    }
}

/// A block that is not imported: what is in it is not either.
fn lost(scope: &Scope<'_>, statements: &[Statement]) {
    for statement in statements {
        if !scope.ledger.is_settled(statement) {
            scope.ledger.unsupported(statement, "the block around it is not imported");
        }
        lost(scope, statement.children());
    }
}

fn leaf(scope: &Scope<'_>, draft: &mut Draft, statement: &Statement, siblings: &[Statement]) {
    let ledger = scope.ledger;
    let name = statement.name();
    if name == "early_hints" {
        ledger.words(statement).rest();
        return ledger.approximated(statement, "responses of servers with 103 pass to all clients");
    }
    if let Some(difference) = table::switched_off(name, first(statement)) {
        ledger.words(statement).rest();
        return ledger.approximated(statement, difference);
    }
    if let Some((default, why)) = table::reason(name) {
        ledger.words(statement).rest();
        return if default { ledger.by_default(statement, why) } else { ledger.meaningless(statement, why) };
    }
    match name {
        "flv" | "mp4" => return streamed(scope, statement, siblings),
        "track_uploads" => return tracked(scope, statement),
        "types" if statement.at.file.ends_with("mime.types") => {
            return ledger.by_default(
                statement,
                "files of usual extensions have their media types as IANA registers them",
            );
        }
        "default_type" if first(statement) == "application/octet-stream" => {
            ledger.words(statement).rest();
            return ledger.by_default(statement, "files of an unknown type are `application/octet-stream`");
        }
        "resolver" => return super::process::resolver(scope, draft, statement),
        "resolver_timeout" => {
            return ledger.approximated(
                statement,
                "requests wait for a name as long as for a connection (`timeouts.connect`)",
            );
        }
        "error_log" => return super::logs::error_log(scope, draft, statement, false),
        "stub_status" => {
            return ledger.unsupported(
                statement,
                "set `admin.address`: the admin listener has the numbers, and more, at `/metrics`",
            );
        }
        _ => {}
    }
    if let Some(advice) = table::advice(name) {
        return ledger.unsupported(statement, advice);
    }
    if let Some(user) = table::user(name) {
        if siblings.iter().any(|other| any_lost(scope, other)) {
            ledger.unsupported(statement, "a place here that may use it is not imported");
        } else {
            ledger.meaningless(statement, user);
        }
    }
}

/// Videos that are sent from a time or a byte on: as files, whole.
fn streamed(scope: &Scope<'_>, statement: &Statement, siblings: &[Statement]) {
    if siblings.iter().any(|one| one.name().ends_with("_pass")) {
        return scope.ledger.unsupported(statement, "a location sends files or hands requests over");
    }
    let difference = match statement.name() {
        "flv" => "the file is sent whole, also where `start` in the query asks for a part of it",
        _ => "the file is sent whole, also where `start` and `end` in the query ask for a part of it",
    };
    scope.ledger.approximated(statement, difference);
}

/// Uploads that are counted for `report_uploads`.
fn tracked(scope: &Scope<'_>, statement: &Statement) {
    scope.ledger.words(statement).rest();
    if scope.levels_of_text().into_iter().any(|level| has_named(level, "report_uploads")) {
        return scope.ledger.unsupported(statement, "Weir does not count how far uploads are");
    }
    scope.ledger.meaningless(statement, "no `report_uploads` shows what it counts");
}

/// Whether there is a statement of a name in a block, or in one in it.
fn has_named(statements: &[Statement], name: &str) -> bool {
    statements.iter().any(|one| one.name() == name || has_named(one.children(), name))
}

fn first(statement: &Statement) -> &str {
    statement.words.get(1).map_or("", |word| word.text.as_str())
}

/// Whether a block, or one in it, is not imported.
fn any_lost(scope: &Scope<'_>, statement: &Statement) -> bool {
    let is_place = matches!(statement.name(), "server" | "location" | "if" | "limit_except");
    (is_place && scope.ledger.is_unsupported(statement))
        || statement.children().iter().any(|child| any_lost(scope, child))
}
