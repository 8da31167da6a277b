//! `proxy_next_upstream` and its like: when another server is tried.

use super::super::scope::Scope;
use super::super::units;
use super::PassFamily;
use crate::document::{DraftTable, TomlValue};

pub(super) fn apply(scope: &Scope<'_>, family: PassFamily, settings: &mut DraftTable) {
    let prefix = family.prefix();
    if let Some((statement, text)) = scope.text(&format!("{prefix}_next_upstream_tries")) {
        match text.parse::<i64>() {
            Ok(0) => scope
                .ledger
                .approximated(statement, "a request has two attempts, where nginx tries all servers"),
            // As two are the default, they are left out again: see `all_attempts`.
            Ok(2) => {
                settings.table("retry").set("attempts_max", 2, statement);
                scope.ledger.by_default(statement, "a request has two attempts");
            }
            Ok(tries) => {
                settings.table("retry").set("attempts_max", tries.clamp(1, 100), statement);
                scope.ledger.exact(statement);
            }
            Err(_) => {}
        }
    }
    if let Some((statement, text)) = scope.text(&format!("{prefix}_next_upstream_timeout")) {
        match units::millis(text) {
            Some(0) => scope
                .ledger
                .approximated(statement, "further attempts begin within 90 s (`retry.elapsed_max`)"),
            Some(_) => {
                if let Some(time) = units::duration(text) {
                    settings.table("retry").set("elapsed_max", time, statement);
                    scope.ledger.exact(statement);
                }
            }
            None => {}
        }
    }
    let Some(statement) = scope.one(&format!("{prefix}_next_upstream")) else { return };
    let mut statuses: Vec<TomlValue> = Vec::new();
    let mut on_error = false;
    let mut has_unknown = false;
    for word in scope.words(statement).rest() {
        match word.text.as_str() {
            "error" => on_error = true,
            "timeout" => settings.table("retry").set("on_timeout", true, statement),
            // A response that is not well-formed counts as a failed connection.
            "invalid_header" => {}
            "non_idempotent" => {
                let methods = ["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE", "POST", "LOCK", "PATCH"];
                settings.table("retry").set("methods", methods.to_vec(), statement);
            }
            "off" => {
                settings.table("retry").set("attempts_max", 1, statement);
                return scope.ledger.exact(statement);
            }
            text => match text.strip_prefix("http_").and_then(|status| status.parse::<i64>().ok()) {
                Some(status) => statuses.push(status.into()),
                None => has_unknown = true,
            },
        }
    }
    if !on_error {
        settings.table("retry").set_plain("on_connection_error", false);
    }
    if !statuses.is_empty() {
        settings.table("retry").set("on_status", statuses, statement);
    }
    if has_unknown {
        scope.ledger.unsupported(
            statement,
            "`retry` of the upstream has the conditions for which there is another attempt",
        );
    } else {
        scope.ledger.exact(statement);
    }
}
