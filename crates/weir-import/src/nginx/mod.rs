//! `nginx.conf`: read as nginx reads it, and said in the words of Weir.

use crate::document::Draft;
use crate::report::Ledger;
use crate::source::{ImportError, SourceFiles, Statement};

mod listeners;
mod arrange;
mod routes;
mod scripts;
mod actions;
mod locations;
mod leaves;
mod maps;
mod http3;
mod servers;
mod rewrite;
mod regexes;
mod variables;
mod scope;
mod dump;
mod hoist;
mod quic;
mod listen;
mod parse;

use dump::NginxDump;
use leaves::{ignored, process, stream};
use scope::{Declared, Scope};
use servers::NginxServer;

/// What is in `http` beside directives that servers inherit.
const OF_HTTP: [&str; 8] =
    ["server", "upstream", "map", "geo", "split_clients", "log_format", "limit_req_zone", "proxy_cache_path"];

pub(crate) fn translate(
    names: &[&str],
    files: &dyn SourceFiles,
    ledger: &Ledger,
) -> Result<Draft, ImportError> {
    let mut statements = Vec::new();
    for name in names {
        let dump = files.read(name).ok().and_then(|text| NginxDump::read(&text, files));
        statements.extend(match &dump {
            Some(dump) => parse::parse(&dump.first, dump, ledger)?,
            None => parse::parse(name, files, ledger)?,
        });
    }
    let mut draft = Draft::default();
    let is_whole = statements.iter().any(|one| matches!(one.name(), "http" | "events" | "stream" | "mail"));
    if is_whole {
        whole(ledger, &statements, &mut draft);
    } else {
        fragment(ledger, &statements, &mut draft);
    }
    Ok(draft)
}

/// A whole `nginx.conf`.
fn whole<'s>(ledger: &'s Ledger, statements: &'s [Statement], draft: &mut Draft) {
    let main = Scope::new(ledger, Declared::default()).within(statements);
    process::translate(&main, draft);
    for statement in statements {
        match statement.name() {
            "http" => {
                ledger.exact(statement);
                http(ledger, statement.children(), draft);
                if !statement.children().iter().any(|one| one.name() == "server") {
                    let difference = "there is no server, in this file and in those that it includes, so that nginx listens nowhere: here, all requests to port 80 are answered 404";
                    ledger.approximated(statement, difference);
                }
            }
            "stream" => stream::translate(&main, draft, statement),
            "mail" => ledger
                .unsupported(statement, "Weir proxies mail as TCP: a listener with `protocol = \"tcp\"`"),
            _ => {}
        }
    }
    ignored::sweep(&main, draft, statements);
    hoist::hoist(draft);
    if statements.iter().any(|one| one.name() == "http") {
        with_listener(draft);
    }
}

/// A config has a listener.
fn with_listener(draft: &mut Draft) {
    if draft.has(&["listener"]) {
        return;
    }
    let listener = draft.table(&["listener", "http"]);
    listener.set_plain("address", ":80");
    let mut route = crate::document::DraftTable::default();
    route.table("respond").set_plain("status", 404);
    listener.push_table("route", route);
}

/// What is in `http`.
fn http<'s>(ledger: &'s Ledger, block: &'s [Statement], draft: &mut Draft) {
    let scope = Scope::new(ledger, declared(block)).within(block);
    let servers: Vec<NginxServer<'_>> =
        block.iter().filter(|one| one.name() == "server").map(|one| NginxServer::read(ledger, one)).collect();
    process::of_http(&scope, draft);
    listeners::translate(&scope, draft, &servers);
    listeners::settle_structure(&scope, block);
    maps::translate(&scope, draft);
    settle_unused(ledger, block);
}

/// A file that `nginx.conf` would include: what belongs into `http`, or into a server.
fn fragment<'s>(ledger: &'s Ledger, statements: &'s [Statement], draft: &mut Draft) {
    let in_http = statements.iter().any(|one| OF_HTTP.contains(&one.name()));
    if in_http && !statements.iter().any(|one| one.name() == "location") {
        http(ledger, statements, draft);
    } else {
        let scope = Scope::new(ledger, declared(statements)).within(statements);
        let server = NginxServer::around(statements);
        process::of_http(&scope, draft);
        listeners::translate(&scope, draft, &[server]);
        listeners::settle_structure(&scope, statements);
        maps::translate(&scope, draft);
        settle_unused(ledger, statements);
        if let Some(first) = statements.iter().find(|one| one.name() == "location") {
            ledger
                .approximated(first, "the file is a part of a server: here it is one of its own, on port 80");
        }
    }
    ignored::sweep(&Scope::new(ledger, Declared::default()).within(statements), draft, statements);
    hoist::hoist(draft);
    with_listener(draft);
}

fn declared(block: &[Statement]) -> Declared<'_> {
    let mut declared = Declared::default();
    for statement in block.iter().filter(|one| matches!(one.name(), "map" | "geo" | "split_clients")) {
        let variable = statement.words.last().and_then(|word| word.text.strip_prefix('$'));
        if let Some(variable) = variable.filter(|_| statement.words.len() > 1) {
            declared.maps.insert(variable.to_owned(), statement);
        }
    }
    declared
}

/// Groups of servers that nothing names.
fn settle_unused(ledger: &Ledger, block: &[Statement]) {
    for statement in block.iter().filter(|one| one.name() == "upstream" && !ledger.is_settled(one)) {
        let why = "nothing here names it";
        ledger.meaningless(statement, why);
        statement.children().iter().for_each(|child| ledger.meaningless(child, why));
    }
}
