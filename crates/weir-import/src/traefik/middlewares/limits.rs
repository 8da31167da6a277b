//! `rateLimit` and `inFlightReq`.

use super::{RouterPlace, RouterSettings};
use crate::document::DraftTable;
use crate::source::Statement;
use crate::traefik::tree::{self, is_true, key, milliseconds, number, refuse, shown_time, value};

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn rate_limit(&mut self, name: &str, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let (mut average, mut period, mut burst) = (0, 1000, 1);
        let mut limit_key = None;
        for part in kind.children() {
            match key(part).as_str() {
                "average" => match number(ledger, part) {
                    Some(number) => average = number,
                    None => return settings.forbid(ledger, kind, "the rate cannot be read: no one gets in"),
                },
                "period" => match milliseconds(value(ledger, part)).filter(|time| *time > 0) {
                    Some(time) => period = time,
                    None => {
                        return settings.forbid(ledger, kind, "the period cannot be read: no one gets in");
                    }
                },
                "burst" => burst = number(ledger, part).unwrap_or(1).max(1),
                "sourcecriterion" => match self.criterion(part) {
                    Some(own) => limit_key = Some(own),
                    None => return settings.forbid(ledger, kind, "see `key` of the limit: no one gets in"),
                },
                "redis" => {
                    refuse(ledger, part, "several nodes share a limit by `shared` and `[store.NAME]`");
                    continue;
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        ledger.exact(kind);
        if average == 0 {
            return;
        }
        let client = self.client;
        let mut table = DraftTable::of(kind);
        match limit_key {
            Some(limit_key) if limit_key != "{client_address}" => table.set_plain("key", limit_key),
            None if client != "client_address" => table.set_plain("key", format!("{{{client}}}")),
            _ => {}
        }
        table.set_beside("rate", format!("{average}/{}", per(period)), kind);
        table.set_plain("burst", burst);
        // A request that comes a little too early waits.
        let delay = (period / (2 * average.unsigned_abs())).min(500);
        if delay > 0 {
            table.set_plain("delay", shown_time(delay));
        }
        let own = self.draft.add_named("limit", &self.limit_name(name), table);
        settings.add("limited_by", &own, kind);
    }

    pub(super) fn concurrent_limit(
        &mut self,
        name: &str,
        kind: &'s Statement,
        settings: &mut RouterSettings<'s>,
    ) {
        let ledger = self.ledger;
        let (mut amount, mut limit_key) = (0, "{host}".to_owned());
        for part in kind.children() {
            match key(part).as_str() {
                "amount" => amount = number(ledger, part).unwrap_or(0),
                "sourcecriterion" => match self.criterion(part) {
                    Some(own) => limit_key = own,
                    None => return settings.forbid(ledger, kind, "see `key` of the limit: no one gets in"),
                },
                _ => continue,
            }
            ledger.exact(part);
        }
        if amount == 0 {
            return settings.forbid(ledger, kind, "a limit of 0 lets no one in");
        }
        ledger.exact(kind);
        let mut table = DraftTable::of(kind);
        if limit_key != "{client_address}" {
            table.set_plain("key", limit_key);
        }
        table.set_beside("concurrent", amount, kind);
        let own = self.draft.add_named("limit", &self.limit_name(name), table);
        settings.add("limited_by", &own, kind);
    }

    /// Each router counts for itself.
    fn limit_name(&self, name: &str) -> String {
        match (self.is_shared)(name) {
            true => tree::name(&format!("{name}-{}", self.router)),
            false => tree::name(name),
        }
    }

    /// What requests are told apart by.
    fn criterion(&self, statement: &'s Statement) -> Option<String> {
        let ledger = self.ledger;
        let mut limit_key = None;
        for part in statement.children() {
            match key(part).as_str() {
                "ipstrategy" => limit_key = Some(format!("{{{}}}", self.strategy(part)?)),
                "requesthost" => {
                    if is_true(ledger, part) {
                        limit_key = Some("{host}".to_owned());
                    }
                }
                "requestheadername" => {
                    // Those without the field are told apart from none, and not left without a limit.
                    limit_key =
                        Some(format!("{{header.{}}} {{scheme}}", value(ledger, part).to_ascii_lowercase()));
                }
                _ => continue,
            }
            ledger.exact(part);
        }
        limit_key.or_else(|| Some(format!("{{{}}}", self.client)))
    }
}

/// The time of a rate.
fn per(milliseconds: u64) -> String {
    match shown_time(milliseconds).as_str() {
        "1s" => "s".to_owned(),
        "1m" => "m".to_owned(),
        "1h" => "h".to_owned(),
        "1d" => "d".to_owned(),
        other => other.to_owned(),
    }
}
