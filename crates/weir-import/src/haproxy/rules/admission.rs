//! Rules that admit, count or note: `auth`, `track-sc0`, `set-var`, `tcp-request` and others.

use super::{PasswordRule, RuleReader};
use crate::haproxy::acl::{AclCondition, AclSubject, AtomTest, SampleKind, VariableValue, sample};
use crate::haproxy::format::{FormatUse, template};
use crate::haproxy::output::Keys;
use crate::haproxy::proxy::name_of;
use crate::report::StatementWords;
use crate::source::Statement;

impl<'s> RuleReader<'_, 's, '_> {
    /// `http-request auth [realm R] if !{ http_auth(users) }`.
    pub(super) fn auth(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        let mut keys = Keys::default();
        let mut realm = self.proxy.name;
        if words.peek().is_some_and(|word| word.text == "realm") {
            words.next();
            realm = words.text().unwrap_or_default();
        }
        let is_good = realm.chars().all(|c| (c.is_ascii_graphic() || c == ' ') && c != '"' && c != '\\');
        if !is_good || realm.is_empty() {
            ledger.approximated(statement, "a realm has printable characters of ASCII: it is `Restricted`");
        } else if realm != "Restricted" {
            keys.set("basic.realm", realm, statement);
        }
        let Some(condition) = self.auth_condition(statement, words) else {
            return self.fail_closed(statement);
        };
        let parts = match condition {
            AclCondition::All(parts) => parts,
            other => vec![other],
        };
        let (mut list, mut groups, mut rest) = (None, Vec::new(), Vec::new());
        for part in parts {
            match &part {
                AclCondition::Not(inner) => match inner.as_ref() {
                    AclCondition::Atom(atom)
                        if matches!(atom.subject, AclSubject::User(_)) && list.is_none() =>
                    {
                        let AclSubject::User(name) = &atom.subject else {
                            unreachable!("it was just matched")
                        };
                        list = Some(name.clone());
                        if let AtomTest::Equal(names) = &atom.test {
                            groups.clone_from(names);
                        }
                    }
                    _ => rest.push(part),
                },
                _ => rest.push(part),
            }
        }
        let rest = rest.into_iter().fold(AclCondition::Constant(true), AclCondition::and);
        let users = list.as_deref().and_then(|list| self.users.get(list));
        let Some(users) = users.filter(|users| users.has(&groups)) else {
            ledger.unsupported(statement, "say which users are let in: `basic` of a route has them");
            return self.close(statement, self.before.known_of(&rest));
        };
        if rest.asks(&|atom| matches!(atom.subject, AclSubject::User(_))) {
            ledger.unsupported(statement, "a route has one list of users");
            return self.close(statement, self.before.known_of(&rest));
        }
        users.write(&mut keys, &groups);
        ledger.exact(statement);
        self.rules.passwords.push(PasswordRule { condition: rest.clone(), keys: keys.clone(), statement });
        self.route_keys(rest, keys);
    }

    pub(super) fn service(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        if words.text() != Some("prometheus-exporter") {
            ledger.unsupported(statement, "Weir has no such service");
            return match self.condition(statement, words) {
                Some(condition) => self.close(statement, condition),
                None => self.fail_closed(statement),
            };
        }
        if self.condition(statement, words).is_none() {
            return;
        }
        self.rules.metrics = true;
        ledger.approximated(statement, "the metrics are Weir's own, at `/metrics` of the admin listener");
    }

    pub(super) fn cache(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let name = name_of(words.text().unwrap_or_default());
        let Some(condition) = self.condition(statement, words) else { return };
        let mut keys = Keys::default();
        match condition {
            AclCondition::Constant(true) => keys.set("cache", name, statement),
            AclCondition::Constant(false) => return,
            condition => {
                keys.set("cache.name", name, statement);
                keys.set("cache.when", crate::haproxy::output::literal(&condition.expression()), statement);
            }
        }
        self.rules.route.extend(&keys);
        self.proxy
            .ledger
            .approximated(statement, "responses are stored as RFC 9111 has it, those with `Vary` included");
    }

    pub(super) fn cache_store(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let name = name_of(words.text().unwrap_or_default());
        let Some(condition) = self.condition(statement, words) else { return };
        let is_used = self.rules.route.get("cache").is_some() || self.rules.route.get("cache.name").is_some();
        match condition {
            AclCondition::Constant(true) if is_used => self.proxy.ledger.exact(statement),
            AclCondition::Constant(true) => {
                self.rules.route.set("cache", name, statement);
                self.proxy.ledger.approximated(statement, "what is stored is used, too");
            }
            _ => self.proxy.ledger.unsupported(statement, "`cache.store_when` of the route is the condition"),
        }
    }

    pub(super) fn log_level(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let level = words.text();
        let Some(condition) = self.condition(statement, words) else { return };
        match level {
            Some("silent") => {
                self.rules.silent.push(condition);
                self.proxy.ledger.exact(statement);
            }
            _ => self.proxy.ledger.approximated(statement, "lines of the access log have one level"),
        }
    }

    /// `set-src hdr(X)`: who the client is.
    pub(super) fn set_source(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        let value = sample(words.text().unwrap_or_default(), &self.conditions.around);
        let Some(condition) = self.condition(statement, words) else { return };
        let header =
            value.placeholder.as_deref().and_then(|text| text.strip_prefix("{header.")?.strip_suffix('}'));
        let Some(header) = header else {
            return ledger.unsupported(
                statement,
                "the client is named by a header of `trusted_proxies`: `client_address_header`",
            );
        };
        let peers: Vec<String> = match trusted(&condition, header) {
            Some(peers) => peers,
            None => {
                return ledger.unsupported(
                    statement,
                    "say by `trusted_proxies` which peers name the client in `client_address_header`",
                );
            }
        };
        self.rules.listener.set("trusted_proxies", peers, statement);
        if header != "x-forwarded-for" {
            self.rules.listener.set("client_address_header", header, statement);
        }
        ledger.approximated(
            statement,
            "the client is the same for all rules, and the header is also passed on by those peers",
        );
    }

    /// `set-var`, `track-sc0`, `sc-inc-gpc0` and what is not known.
    pub(super) fn variable_or_counter(
        &mut self,
        statement: &'s Statement,
        action: &str,
        words: &mut StatementWords<'s>,
    ) {
        let ledger = self.proxy.ledger;
        if let Some(name) = action.strip_prefix("set-var(").or(action.strip_prefix("set-var-fmt(")) {
            return self.set_variable(
                statement,
                name.trim_end_matches(')'),
                action.starts_with("set-var-fmt"),
                words,
            );
        }
        if action.starts_with("track-sc") {
            return self.track(statement, words);
        }
        if action.starts_with("sc-inc-gpc") {
            // The table has it.
            if !ledger.is_settled(statement) {
                ledger.unsupported(
                    statement,
                    "`increment` of a table raises `gpc0` and `gpc1` of a request that it counts",
                );
            }
            return;
        }
        let advice = match action {
            name if name.starts_with("lua.") => {
                "Weir runs no scripts: routes, `vars`, maps, lists and `forward_auth` do most of what they are for"
            }
            "send-spoe-group" => {
                "Weir has no agents for processing: `forward_auth` asks another server about a request"
            }
            "do-resolve" => "`dynamic` of an upstream resolves the server that a request names",
            "set-dst" | "set-dst-port" => "`dynamic` of an upstream is the server that a request names",
            "set-method" => "Weir does not change methods",
            "set-timeout" => "`timeouts` of a route are for all of its requests",
            "set-priority-class" | "set-priority-offset" => {
                "`queue_priority` of a route is high, normal or low"
            }
            "early-hint" => "Weir sends no 103",
            name if name.starts_with("set-map")
                || name.starts_with("del-map")
                || name.starts_with("add-acl")
                || name.starts_with("del-acl")
                || name.starts_with("unset-var") =>
            {
                "requests do not change maps, lists and variables"
            }
            _ => "the import does not know this rule",
        };
        ledger.unsupported(statement, advice);
    }

    fn set_variable(
        &mut self,
        statement: &'s Statement,
        name: &str,
        is_format: bool,
        words: &mut StatementWords<'s>,
    ) {
        let ledger = self.proxy.ledger;
        let text = words.text().unwrap_or_default();
        let read = sample(text, &self.conditions.around);
        let constant = match (&read.kind, is_format) {
            (SampleKind::Literal(text), false) => Some(text.clone()),
            (SampleKind::Boolean(AclCondition::Constant(value)), false) => Some(u8::from(*value).to_string()),
            (_, true) if !text.contains('%') => Some(text.to_owned()),
            _ => None,
        };
        let value = match is_format {
            true => template(text, FormatUse::Header, &self.conditions.around).ok().map(|made| made.text),
            false => read.plain_placeholder(),
        };
        let Some(condition) = self.condition(statement, words) else { return };
        if let (Some(constant), true) = (constant, condition != AclCondition::Constant(true)) {
            return self.choose(statement, name, constant, condition);
        }
        let Some(value) = value else {
            return ledger.unsupported(statement, "a variable is a text with placeholders: `vars`");
        };
        let mut variables = self.conditions.around.variables.borrow_mut();
        if condition != AclCondition::Constant(true) || variables.contains_key(name) {
            return ledger.unsupported(statement, "a variable has one value, which holds for all requests: a `[map.NAME]` makes one of another value");
        }
        let weir = name_of(name.split_once('.').map_or(name, |(_, name)| name)).replace(['.', '-'], "_");
        self.rules.listener.set_path(&["vars", &weir], value, statement);
        variables.insert(name.to_owned(), VariableValue::Named(weir));
        ledger.exact(statement);
    }

    /// A variable that has a text under a condition: what asks for it asks for the condition.
    fn choose(&mut self, statement: &'s Statement, name: &str, text: String, condition: AclCondition) {
        let ledger = self.proxy.ledger;
        let mut variables = self.conditions.around.variables.borrow_mut();
        let value = variables.entry(name.to_owned()).or_insert_with(|| VariableValue::Chosen(Vec::new()));
        match value {
            VariableValue::Chosen(list) if list.len() < 8 => {
                list.push((condition, text));
                ledger.exact(statement);
            }
            _ => ledger.unsupported(statement, "a variable has one value, or few texts under conditions: a `[map.NAME]` makes one of another value"),
        }
    }

    fn track(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        words.next();
        let table = words.value_of("table").unwrap_or(self.proxy.name);
        let Some(condition) = self.condition(statement, words) else { return };
        if self.conditions.around.tables.get(table).is_none_or(|facts| facts.key.is_none()) {
            return ledger.unsupported(
                statement,
                "a table has one key, a text with placeholders: `key` of `[table.NAME]`",
            );
        }
        if condition != AclCondition::Constant(true) && self.rules.tracks.contains(&name_of(table)) {
            return ledger.unsupported(statement, "`when` of a table is one condition");
        }
        self.rules.tracks.push(name_of(table));
        ledger.exact(statement);
        if condition != AclCondition::Constant(true) {
            let expression = crate::haproxy::output::literal(&condition.expression());
            self.rules.track_conditions.push((name_of(table), expression));
        }
    }

    /// `tcp-request` and `tcp-response`.
    pub(super) fn tcp(&mut self, statement: &'s Statement) {
        let ledger = self.proxy.ledger;
        let mut words = ledger.words(statement);
        let level = words.text().unwrap_or_default();
        if level == "inspect-delay" {
            return self.inspect_delay(statement, &mut words);
        }
        let action = words.text().unwrap_or_default();
        if action.starts_with("track-sc") || action.starts_with("set-var") || action.starts_with("sc-inc-gpc")
        {
            self.variable_or_counter(statement, action, &mut words);
            if level == "connection" && !self.proxy.is_tcp() && action.starts_with("track-sc") {
                ledger.approximated(statement, "requests are counted, not connections");
            }
            return;
        }
        if statement.name() == "tcp-response"
            || !matches!(action, "accept" | "reject" | "expect-proxy" | "silent-drop")
        {
            return match action {
                "accept" => ledger.meaningless(statement, "nothing waits for what servers say"),
                "capture" if statement.name() == "tcp-request" => {
                    words.rest();
                    ledger.approximated(statement, "the log has a placeholder for it where its format names it; the usual formats have no captures");
                }
                _ => {
                    ledger
                        .unsupported(statement, "connections have `lists` and `limited_by` of the listener");
                }
            };
        }
        if action == "expect-proxy" {
            return self.expect_proxy(statement, &mut words);
        }
        if action == "accept" {
            return self.accept(statement, &mut words);
        }
        let Some(condition) = self.condition(statement, &mut words) else {
            return self.fail_closed(statement);
        };
        let is_hello = condition.asks(&|atom| atom.subject == AclSubject::Number("ssl hello".to_owned()));
        match is_hello || self.hello_accepted {
            true => ledger.approximated(
                statement,
                "what is no TLS takes no route by a server name; with a default, it goes there",
            ),
            false => self.reject(statement, condition),
        }
    }

    /// `accept`: the rules of its list behind it are not asked.
    fn accept(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        let Some(condition) = self.own_condition(statement, words) else { return };
        if condition.asks(&|atom| atom.subject == AclSubject::Number("ssl hello".to_owned())) {
            self.hello_accepted = true;
            let why = "Weir waits for the hello of TLS where routes ask for its server name";
            return ledger.meaningless(statement, why);
        }
        ledger.exact(statement);
        self.end_for(condition);
    }

    /// A connection that is closed: by a list, or by how many the client has.
    fn reject(&mut self, statement: &'s Statement, condition: AclCondition) {
        self.proxy.ledger.exact(statement);
        let action = if self.proxy.is_tcp() { "deny" } else { "close" };
        self.refuse(statement, action, condition, 403, &Keys::default());
    }

    fn inspect_delay(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        words.next();
        if statement.name() == "tcp-request" && self.proxy.is_tcp() && self.proxy.is_frontend() {
            return ledger.approximated(statement, "the hello of TLS has `timeouts.tls` of the listener, 10 s, where routes ask for its server name");
        }
        ledger.meaningless(statement, "nothing waits for more of a connection but where a route asks for it");
    }

    fn expect_proxy(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        words.flag("layer4");
        let Some(condition) = self.condition(statement, words) else { return };
        match trusted(&condition, "") {
            Some(peers) => {
                self.rules.listener.set("proxy_protocol.from", peers, statement);
                ledger.exact(statement);
            }
            None => {
                ledger.unsupported(statement, "say by `proxy_protocol.from` which peers send PROXY headers");
            }
        }
    }
}

/// The networks of the peers for which a condition holds; that there is the header may be a part of it.
fn trusted(condition: &AclCondition, header: &str) -> Option<Vec<String>> {
    let parts = match condition {
        AclCondition::All(parts) => parts.as_slice(),
        other => std::slice::from_ref(other),
    };
    let mut networks = None;
    for part in parts {
        match part {
            AclCondition::Constant(true) => {}
            AclCondition::Atom(atom) => match (&atom.subject, &atom.test) {
                (AclSubject::Source, AtomTest::Networks(list)) if networks.is_none() => {
                    networks = Some(list.clone());
                }
                (AclSubject::Text(name), AtomTest::Found) if *name == format!("header[\"{header}\"]") => {}
                _ => return None,
            },
            _ => return None,
        }
    }
    Some(networks.unwrap_or_else(|| vec!["0.0.0.0/0".to_owned(), "::/0".to_owned()]))
}
