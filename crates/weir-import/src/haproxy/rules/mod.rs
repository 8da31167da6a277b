//! The rules of a section, in the order in which HAProxy walks them: `tcp-request`, `http-request`, `redirect`, and those about responses.

mod action;
mod redirect;
mod admission;
mod headers;
mod rewrite;

pub(super) use headers::{HeaderChange, HeaderOperation, write as write_headers};

use std::collections::HashMap;

use super::acl::{AclCondition, AclConditions, AclSubject, Atom, ListenerFacts};
use super::output::Keys;
use super::proxy::ProxySection;
use super::userlist::UserList;
use crate::report::StatementWords;
use crate::source::Statement;

/// What the rules of a section come to.
#[derive(Default)]
pub(super) struct SectionRules<'s> {
    /// What answers requests, in order.
    pub(super) terminals: Vec<Terminal<'s>>,
    pub(super) requests: Vec<HeaderChange<'s>>,
    pub(super) responses: Vec<HeaderChange<'s>>,
    /// Rules that ask for a password, in order: they are among the keys of routes, too.
    passwords: Vec<PasswordRule<'s>>,
    /// Keys of routes whose requests fulfil a condition.
    pub(super) variants: Vec<(AclCondition, Keys<'s>)>,
    /// Keys of all routes.
    pub(super) route: Keys<'s>,
    /// Keys of the listener.
    pub(super) listener: Keys<'s>,
    /// Lists that refuse: what `when` says, and their other keys.
    pub(super) lists: Vec<ListRule<'s>>,
    /// Requests without a line in the log.
    pub(super) silent: Vec<AclCondition>,
    /// Tables that count.
    pub(super) tracks: Vec<String>,
    /// What has to hold for them to count.
    pub(super) track_conditions: Vec<(String, String)>,
    /// Whether a rule changes the path on the route.
    pub(super) rewrites_route: bool,
    /// Headers that rules change, with their conditions.
    pub(super) changed: Vec<(String, AclCondition)>,
    /// Whether the path is another one on the route than conditions see.
    pub(super) path_is_old: bool,
    /// Whether metrics are asked for here.
    pub(super) metrics: bool,
}

/// A rule that answers: its keys are those of a route.
pub(super) struct Terminal<'s> {
    pub(super) condition: AclCondition,
    pub(super) keys: Keys<'s>,
    pub(super) statement: &'s Statement,
}

/// A rule that asks for a password.
struct PasswordRule<'s> {
    condition: AclCondition,
    keys: Keys<'s>,
    statement: &'s Statement,
}

/// A rule that refuses where a list is asked.
pub(super) struct ListRule<'s> {
    pub(super) condition: AclCondition,
    pub(super) keys: Keys<'s>,
    pub(super) statement: &'s Statement,
    pub(super) name: &'static str,
}

/// Reads the rules of a section.
pub(super) struct RuleReader<'r, 's, 'c> {
    proxy: &'r ProxySection<'s>,
    conditions: &'r AclConditions<'s, 'c>,
    users: &'r HashMap<&'s str, UserList<'s>>,
    rules: SectionRules<'s>,
    /// What holds where a rule is reached: no `allow` before it has ended the list.
    guard: AclCondition,
    /// What rules before have changed.
    before: ChangesBefore,
    /// Of a condition that could not be said: what is known to hold where it holds.
    unsaid: AclCondition,
    /// Whether a rule accepts what begins with a hello of TLS.
    hello_accepted: bool,
    /// `del-header Host`, for which `add-header` makes up.
    host_removed: Option<&'s Statement>,
    /// Whether a condition has asked for the path.
    asked_path: bool,
}

/// Reads them all.
pub(super) fn read<'s>(
    proxy: &ProxySection<'s>,
    conditions: &AclConditions<'s, '_>,
    users: &HashMap<&'s str, UserList<'s>>,
    before: &ChangesBefore,
) -> SectionRules<'s> {
    let mut reader = RuleReader {
        proxy,
        conditions,
        users,
        rules: SectionRules::default(),
        guard: AclCondition::Constant(true),
        before: before.clone(),
        unsaid: AclCondition::Constant(true),
        host_removed: None,
        hello_accepted: false,
        asked_path: false,
    };
    // Each level has a list of its own, which `accept` ends.
    for level in ["connection", "session", ""] {
        reader.guard = AclCondition::Constant(true);
        for statement in proxy.all(&["tcp-request", "tcp-response"]) {
            let own = statement.words.get(1).map_or("", |word| word.text.as_str());
            let own = if matches!(own, "connection" | "session") { own } else { "" };
            if own == level {
                reader.tcp(statement);
            }
        }
    }
    if proxy.is_tcp() {
        for statement in proxy.all(&[
            "http-request",
            "http-response",
            "http-after-response",
            "redirect",
            "reqrep",
            "reqirep",
            "reqadd",
            "reqdel",
            "reqidel",
            "rspadd",
            "rspdel",
            "rspidel",
            "monitor",
        ]) {
            proxy.ledger.meaningless(statement, "with `mode tcp` there are no requests");
        }
        return reader.finished();
    }
    reader.guard = AclCondition::Constant(true);
    for statement in
        proxy.all(&["http-request", "reqrep", "reqirep", "reqadd", "reqdel", "reqidel", "monitor"])
    {
        reader.request(statement);
    }
    if let Some(statement) = reader.host_removed {
        proxy.ledger.unsupported(statement, "a request has a host: `forward_host` of a route says which");
    }
    reader.guard = AclCondition::Constant(true);
    for statement in proxy.all(&["redirect"]) {
        reader.redirect(statement, 0);
    }
    for statement in proxy.all(&["http-response", "http-after-response", "rspadd", "rspdel", "rspidel"]) {
        reader.response(statement);
    }
    reader.finished()
}

/// Why a rule is left out.
const TOO_MUCH_BEFORE: &str = "rules before it say for so much that it is not reached that no condition of Weir has room for it: write it with maps and lists";

/// What is known of requests for which a rule cannot be said.
pub(super) const CLOSED: &str = "until then, requests that it may be for are answered 501";
pub(super) const CLOSED_CONNECTIONS: &str = "until then, connections that it may be for are closed";

/// What frontends have changed before the rules of backends are reached.
#[derive(Clone, Default)]
pub(super) struct ChangesBefore {
    pub(super) headers: Vec<(String, AclCondition)>,
    pub(super) path: bool,
}

impl ChangesBefore {
    /// Why a condition cannot be asked behind these changes.
    pub(super) fn forbid(&self, condition: &AclCondition) -> Option<&'static str> {
        if condition.asks(&|atom| self.is_of_changed_header(atom, condition)) {
            return Some(
                "it asks for a header that a rule before has changed: conditions see what the client has sent",
            );
        }
        (self.path && condition.asks(&asks_path))
            .then_some("it asks for a path that a rule before has changed under a condition")
    }

    fn is_of_changed_header(&self, atom: &Atom, condition: &AclCondition) -> bool {
        let AclSubject::Text(name) = &atom.subject else { return false };
        self.headers
            .iter()
            .any(|(header, changed)| name == &format!("header[\"{header}\"]") && may_meet(changed, condition))
    }

    /// What is known to hold where a condition holds, of which parts cannot be asked.
    pub(super) fn known_of(&self, condition: &AclCondition) -> AclCondition {
        let is_unknown =
            |atom: &Atom| matches!(atom.subject, AclSubject::User(_)) || self.is_stale(atom, condition);
        condition.clone().at_most(&is_unknown).shortened()
    }

    /// Whether a comparison of a condition would be about what is no more.
    fn is_stale(&self, atom: &Atom, condition: &AclCondition) -> bool {
        self.path && asks_path(atom) || self.is_of_changed_header(atom, condition)
    }
}

fn asks_path(atom: &Atom) -> bool {
    match &atom.subject {
        AclSubject::Path => true,
        AclSubject::Text(name) => name == "target",
        _ => false,
    }
}

impl<'s> RuleReader<'_, 's, '_> {
    fn finished(mut self) -> SectionRules<'s> {
        self.rules.changed = self.before.headers;
        self.rules.path_is_old = self.before.path;
        self.rules
    }

    /// The condition at the end of a rule, with what has to hold for the rule to be reached; nothing if it cannot be said, which is settled then.
    fn condition(
        &mut self,
        statement: &'s Statement,
        words: &mut StatementWords<'s>,
    ) -> Option<AclCondition> {
        let guard = self.before.known_of(&self.guard);
        let Some(condition) = self.own_condition(statement, words) else {
            self.unsaid = std::mem::replace(&mut self.unsaid, AclCondition::Constant(true)).and(guard);
            return None;
        };
        if let Some(reason) = self.guard.unknown() {
            self.proxy.ledger.unsupported(statement, reason);
            self.unsaid = condition.and(guard);
            return None;
        }
        Some(condition.and(self.guard.clone()))
    }

    /// In place of a rule that keeps requests from a server, and that cannot be said: those that it may be for get no answer but 501.
    pub(super) fn fail_closed(&mut self, statement: &'s Statement) {
        let unsaid = std::mem::replace(&mut self.unsaid, AclCondition::Constant(true));
        self.close(statement, unsaid);
    }

    /// The same for requests for which this holds.
    pub(super) fn close(&mut self, statement: &'s Statement, condition: AclCondition) {
        if condition == AclCondition::Constant(false) {
            return;
        }
        let mut keys = Keys::of(statement);
        if self.proxy.is_tcp() {
            self.proxy.ledger.unsupported(statement, CLOSED_CONNECTIONS);
            keys.set("action", "deny", statement);
            self.rules.lists.push(ListRule { condition, keys, statement, name: "refused" });
            return;
        }
        self.proxy.ledger.unsupported(statement, CLOSED);
        keys.set("respond.status", 501, statement);
        self.rules.terminals.push(Terminal { condition, keys, statement });
    }

    /// Requests for which this holds reach no later rule of the list.
    fn end_for(&mut self, condition: AclCondition) {
        let guard = std::mem::replace(&mut self.guard, AclCondition::Constant(true));
        if guard.unknown().is_some() {
            self.guard = guard;
            return;
        }
        let guard = guard.and(condition.negated());
        self.guard = if guard.is_short() { guard } else { AclCondition::Unknown(TOO_MUCH_BEFORE.to_owned()) };
    }

    /// The condition at the end of a rule, alone.
    fn own_condition(
        &mut self,
        statement: &'s Statement,
        words: &mut StatementWords<'s>,
    ) -> Option<AclCondition> {
        let condition = self.conditions.behind(words);
        let ledger = self.proxy.ledger;
        if let Some(reason) = self.trouble(statement, &condition) {
            ledger.unsupported(statement, reason);
            self.unsaid = self.before.known_of(&condition);
            return None;
        }
        condition.notes().iter().for_each(|note| ledger.approximated(statement, note));
        self.asked_path |= condition.asks(&asks_path);
        Some(condition)
    }

    /// What is known to hold where the condition at the end of a rule does, which may not be said.
    fn known_condition(&self, words: &mut StatementWords<'s>) -> AclCondition {
        let condition = self.conditions.behind(words);
        self.before.known_of(&condition).and(self.before.known_of(&self.guard))
    }

    /// The condition of `auth`, without what cannot be said of it: it asks more clients then, not fewer. Nothing if no list of users is left.
    fn auth_condition(
        &mut self,
        statement: &'s Statement,
        words: &mut StatementWords<'s>,
    ) -> Option<AclCondition> {
        let ledger = self.proxy.ledger;
        let asks_user =
            |condition: &AclCondition| condition.asks(&|atom| matches!(atom.subject, AclSubject::User(_)));
        let condition = self.conditions.behind(words);
        let guard = self.before.known_of(&self.guard);
        let Some(reason) = self.trouble(statement, &condition).map(str::to_owned) else {
            condition.notes().iter().for_each(|note| ledger.approximated(statement, note));
            self.asked_path |= condition.asks(&asks_path);
            return Some(condition.and(guard));
        };
        ledger.unsupported(statement, &reason);
        let is_stale = |atom: &Atom| self.before.is_stale(atom, &condition);
        let known = condition.clone().at_most(&is_stale);
        if asks_user(&known) {
            ledger.unsupported(statement, "until then, it holds without that part of its condition");
            return Some(known.and(guard));
        }
        self.unsaid = known.and(guard);
        None
    }

    /// Why a condition cannot be said at the end of a rule.
    fn trouble<'c>(&self, statement: &Statement, condition: &'c AclCondition) -> Option<&'c str> {
        let asks_user = condition.asks(&|atom| matches!(atom.subject, AclSubject::User(_)));
        let of_user = (asks_user && !is_auth(statement))
            .then_some("who the user is, `basic` of a route asks: it is not known to other rules");
        condition.unknown().or_else(|| self.before.forbid(condition)).or(of_user)
    }

    /// A rule of `http-request`, or what it was in versions before 2.1.
    fn request(&mut self, statement: &'s Statement) {
        let mut words = self.proxy.ledger.words(statement);
        if statement.name() == "monitor" {
            return self.monitor(statement, &mut words);
        }
        if statement.name() != "http-request" {
            return self.removed(statement, &mut words);
        }
        let action = words.text().unwrap_or_default();
        match action {
            "deny" | "tarpit" | "reject" | "silent-drop" | "return" => {
                self.answer(statement, action, &mut words);
            }
            "allow" => {
                if let Some(condition) = self.own_condition(statement, &mut words) {
                    self.proxy.ledger.exact(statement);
                    self.end_for(condition);
                }
            }
            "redirect" => self.redirect(statement, 1),
            "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value" => {
                self.request_header(statement, action, &mut words);
            }
            "set-path" | "replace-path" | "replace-uri" | "set-uri" | "set-query" | "replace-pathq"
            | "set-pathq" => {
                self.rewrite(statement, action, &mut words);
            }
            "auth" => self.auth(statement, &mut words),
            "use-service" => self.service(statement, &mut words),
            "cache-use" => self.cache(statement, &mut words),
            "set-log-level" => self.log_level(statement, &mut words),
            "set-src" => self.set_source(statement, &mut words),
            "wait-for-body" => {
                words.value_of("time");
                words.value_of("at-least");
                if let Some(condition) = self.condition(statement, &mut words) {
                    let mut keys = Keys::default();
                    keys.set("buffer_requests", crate::document::TomlValue::Inline(Vec::new()), statement);
                    self.proxy.ledger.exact(statement);
                    self.route_keys(condition, keys);
                }
            }
            "normalize-uri" => self.proxy.ledger.by_default(
                statement,
                "routes and servers see the normal form of a path: `paths` of the listener",
            ),
            "strict-mode" => self
                .proxy
                .ledger
                .meaningless(statement, "a rule that cannot be carried out refuses the request"),
            "capture" => {
                words.rest();
                self.proxy.ledger.approximated(statement, "the log has `{header.NAME}` where its format names it; the usual formats have no captures");
            }
            "set-nice" | "set-tos" | "set-mark" | "set-fc-mark" | "set-fc-tos" | "set-bc-mark" => {
                self.proxy.ledger.unsupported(statement, "Weir marks no packets");
            }
            "disable-l7-retry" => self.no_retry(statement, &mut words),
            _ => self.variable_or_counter(statement, action, &mut words),
        }
    }

    /// Keys that hold under a condition.
    fn route_keys(&mut self, condition: AclCondition, keys: Keys<'s>) {
        match condition {
            AclCondition::Constant(true) => self.rules.route.extend(&keys),
            AclCondition::Constant(false) => {}
            condition => self.rules.variants.push((condition, keys)),
        }
    }

    fn no_retry(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let _ = self.condition(statement, words);
        self.proxy.ledger.by_default(
            statement,
            "only requests with idempotent methods are repeated once a server may have seen them",
        );
    }
}

/// Whether both may hold on one listener.
fn may_meet(one: &AclCondition, other: &AclCondition) -> bool {
    [true, false].into_iter().any(|tls| {
        let facts = ListenerFacts { tls, port: None, tcp: false };
        [one, other].into_iter().all(|condition| condition.clone().on(facts) != AclCondition::Constant(false))
    })
}

fn is_auth(statement: &Statement) -> bool {
    statement.words.get(1).is_some_and(|word| word.text == "auth")
}

impl<'s> SectionRules<'s> {
    /// What asks for a password before this rule is reached; without one, all that does.
    pub(super) fn authentication_before(
        &self,
        statement: Option<&Statement>,
    ) -> Vec<(AclCondition, Keys<'s>)> {
        // `redirect` lines come behind all of `http-request`.
        let end = statement.filter(|statement| statement.name() != "redirect");
        let rules = self.passwords.iter().filter(|rule| end.is_none_or(|end| rule.statement.id < end.id));
        rules.map(|rule| (rule.condition.clone(), rule.keys.clone())).collect()
    }
}
