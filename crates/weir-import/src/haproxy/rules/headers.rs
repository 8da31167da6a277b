//! Changes of headers: `set-header`, `add-header`, `del-header`.

use super::RuleReader;
use crate::document::TomlValue;
use crate::haproxy::acl::{
    AclCondition, AclSubject, Atom, AtomTest, HaproxyMapEntries, ListenerFacts, MapUse, regex_trouble,
};
use crate::haproxy::format::{FormatUse, template};
use crate::haproxy::output::{Keys, literal};
use crate::report::StatementWords;
use crate::source::Statement;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::haproxy) enum HeaderOperation {
    Set,
    Add,
    Remove,
}

/// A change of one header.
#[derive(Clone)]
pub(in crate::haproxy) struct HeaderChange<'s> {
    pub(in crate::haproxy) condition: AclCondition,
    pub(in crate::haproxy) operation: HeaderOperation,
    /// In lower case.
    pub(in crate::haproxy) name: String,
    pub(in crate::haproxy) value: String,
    /// Of responses: only those of servers.
    pub(in crate::haproxy) from_server: bool,
    pub(in crate::haproxy) statement: &'s Statement,
}

impl HeaderChange<'_> {
    /// Whether condition or value are about the path.
    pub(in crate::haproxy) fn asks_path(&self) -> bool {
        let in_value =
            ["{path}", "{vars.", "{map."].iter().any(|placeholder| self.value.contains(placeholder));
        in_value || self.condition.asks(&super::asks_path)
    }
}

/// Headers that Weir sends by itself, with values that say the same.
const FORWARDED: [(&str, &[&str]); 4] = [
    ("x-forwarded-for", &["{client_address}"]),
    ("x-forwarded-proto", &["{scheme}"]),
    ("x-forwarded-host", &["{header.host}", "{authority}"]),
    ("x-forwarded-port", &["{local_port}", "{port}"]),
];

/// Headers of the connection, and of the framing of messages.
const FRAMING: [&str; 8] = [
    "connection",
    "content-length",
    "transfer-encoding",
    "upgrade",
    "keep-alive",
    "te",
    "trailer",
    "proxy-connection",
];

impl<'s> RuleReader<'_, 's, '_> {
    /// `http-request set-header` and its like.
    pub(super) fn request_header(
        &mut self,
        statement: &'s Statement,
        action: &str,
        words: &mut StatementWords<'s>,
    ) {
        let Some(change) = self.change(statement, action, words, false) else { return };
        if change.name == "host" {
            return self.host(change);
        }
        self.asked_path |= change.asks_path();
        self.before.headers.push((change.name.clone(), change.condition.clone()));
        self.rules.requests.push(change);
    }

    /// `http-response`, `http-after-response`, and what they were before 2.1.
    pub(super) fn response(&mut self, statement: &'s Statement) {
        let ledger = self.proxy.ledger;
        let mut words = ledger.words(statement);
        if statement.name().starts_with("rsp") {
            return self.removed(statement, &mut words);
        }
        let action = words.text().unwrap_or_default();
        let from_server = statement.name() == "http-response";
        match action {
            "set-header" | "add-header" | "del-header" | "replace-header" | "replace-value" => {
                if let Some(change) = self.change(statement, action, &mut words, from_server) {
                    self.rules.responses.push(change);
                }
            }
            "cache-store" => self.cache_store(statement, &mut words),
            "capture" => {
                words.rest();
                ledger.approximated(
                    statement,
                    "the log has `{response.header.NAME}` where its format names it",
                );
            }
            "set-log-level" => self.log_level(statement, &mut words),
            "strict-mode" | "allow" if words.peek().is_none() => {
                ledger.meaningless(statement, "nothing follows from it");
            }
            "set-nice" | "set-tos" | "set-mark" => ledger.unsupported(statement, "Weir marks no packets"),
            _ => ledger.unsupported(
                statement,
                "responses have `response_headers`, `error_pages`, `cache` and `compression`",
            ),
        }
    }

    /// The change that a rule makes; nothing if it cannot be said, or is none.
    fn change(
        &mut self,
        statement: &'s Statement,
        action: &str,
        words: &mut StatementWords<'s>,
        from_server: bool,
    ) -> Option<HeaderChange<'s>> {
        let ledger = self.proxy.ledger;
        let name = words.text().unwrap_or_default().trim_end_matches(':').to_ascii_lowercase();
        let (operation, value) = match self.operation(statement, (action, &name), words) {
            Ok(made) => made,
            Err(reason) => {
                ledger.unsupported(statement, &reason);
                let known = self.known_condition(words);
                if action == "del-header" && statement.name() == "http-request" {
                    // Which headers those are is not said by their names.
                    self.close(statement, known);
                    return None;
                }
                return self.without_a_word_of_clients((statement, action), name, known);
            }
        };
        let pattern = if action.starts_with("replace-") { value.1 } else { None };
        let Some(mut condition) = self.condition(statement, words) else {
            let known = std::mem::replace(&mut self.unsaid, AclCondition::Constant(true));
            return self.without_a_word_of_clients((statement, action), name, known);
        };
        if FRAMING.contains(&name.as_str()) {
            ledger
                .approximated(statement, "the connection and the framing of messages are Weir's own matter");
            return None;
        }
        if value.0.is_empty() && operation != HeaderOperation::Remove {
            ledger.approximated(statement, "a header without a value is left out");
        }
        if let Some(pattern) = pattern {
            let subject = match statement.name() == "http-request" {
                true if name == "host" => AclSubject::Text("header[\"host\"]".to_owned()),
                true => AclSubject::Text(format!("header[\"{name}\"]")),
                false => AclSubject::Text(format!("response.header[\"{name}\"]")),
            };
            let has_it = Atom::new(subject, AtomTest::Regex(vec![pattern]));
            condition = condition.and(AclCondition::Atom(has_it));
        }
        let is_forwarded =
            statement.name() == "http-request" && FORWARDED.iter().any(|(known, _)| *known == name);
        let operation = match operation {
            HeaderOperation::Remove if is_forwarded => {
                ledger.by_default(
                    statement,
                    "what clients send in it is dropped, unless `trusted_proxies` names them",
                );
                return None;
            }
            // In place of what Weir sends, beside which nothing of the client is left.
            HeaderOperation::Add if is_forwarded => HeaderOperation::Set,
            operation => operation,
        };
        ledger.exact(statement);
        Some(HeaderChange { condition, operation, name, value: value.0, from_server, statement })
    }

    /// What a rule does with the header, and the value, with the expression that the value before has to match.
    fn operation(
        &self,
        statement: &'s Statement,
        (action, name): (&str, &str),
        words: &mut StatementWords<'s>,
    ) -> Result<(HeaderOperation, (String, Option<String>)), String> {
        let ledger = self.proxy.ledger;
        let operation = match action {
            "set-header" => HeaderOperation::Set,
            "add-header" => HeaderOperation::Add,
            "replace-header" | "replace-value" => {
                return Ok((HeaderOperation::Set, self.replacement(statement, (action, name), words)?));
            }
            _ => {
                if words.peek().is_some_and(|word| word.text == "-m") {
                    words.next();
                    if words.text() != Some("str") {
                        return Err("`remove` has whole names".to_owned());
                    }
                }
                return Ok((HeaderOperation::Remove, (String::new(), None)));
            }
        };
        let made = template(words.text().unwrap_or_default(), FormatUse::Header, &self.conditions.around)?;
        made.notes.iter().for_each(|note| ledger.approximated(statement, note));
        Ok((operation, (made.text.trim().to_owned(), None)))
    }

    /// `replace-header` and `replace-value`: a map makes the new value of the old one.
    fn replacement(
        &self,
        statement: &'s Statement,
        (action, name): (&str, &str),
        words: &mut StatementWords<'s>,
    ) -> Result<(String, Option<String>), String> {
        let pattern = words.text().unwrap_or_default();
        let replacement = words.text().unwrap_or_default();
        if let Some(reason) = regex_trouble(pattern) {
            return Err(reason.to_owned());
        }
        if name == "set-cookie" {
            return Err("cookies have `rewrite_cookies`".to_owned());
        }
        let made = template(replacement, FormatUse::Header, &self.conditions.around)?;
        made.notes.iter().for_each(|note| self.proxy.ledger.approximated(statement, note));
        let note = match action {
            "replace-header" => "of several headers of the name, the first is changed, and replaces them",
            _ => "the value is changed as a whole, not each part between commas",
        };
        if !["host", "location", "referer", "user-agent", "content-type", "server"].contains(&name) {
            self.proxy.ledger.approximated(statement, note);
        }
        let place = if statement.name() == "http-request" { "header" } else { "response.header" };
        let pattern = pattern.to_owned();
        let used = MapUse {
            name: name.to_owned(),
            source: format!("{{{place}.{name}}}"),
            entries: HaproxyMapEntries::Regex {
                pattern: pattern.clone(),
                value: groups_of_template(&made.text),
            },
            default: None,
            ignore_case: false,
            written: pattern.clone(),
        };
        let map = self.conditions.around.use_map(used);
        Ok((format!("{{map.{map}}}"), Some(pattern)))
    }

    /// In place of a rule that cannot be said: servers get nothing that only a client has said, where the original replaces or removes it.
    fn without_a_word_of_clients(
        &mut self,
        (statement, action): (&'s Statement, &str),
        name: String,
        condition: AclCondition,
    ) -> Option<HeaderChange<'s>> {
        let is_of_client =
            statement.name() == "http-request" && matches!(action, "set-header" | "del-header");
        if !is_of_client || name == "host" || FRAMING.contains(&name.as_str()) {
            return None;
        }
        self.proxy
            .ledger
            .unsupported(statement, "until then, servers do not get the header where this may hold");
        let operation = HeaderOperation::Remove;
        Some(HeaderChange { condition, operation, name, value: String::new(), from_server: false, statement })
    }

    /// `Host` is what a route forwards.
    fn host(&mut self, change: HeaderChange<'s>) {
        let ledger = self.proxy.ledger;
        let is_kept = ["{header.host}", "{authority}", "{host}"].contains(&change.value.as_str());
        let mut change = change;
        if change.operation == HeaderOperation::Remove && change.condition == AclCondition::Constant(true) {
            self.host_removed = Some(change.statement);
            return;
        }
        if change.operation == HeaderOperation::Add && self.host_removed.take().is_some() {
            change.operation = HeaderOperation::Set;
        }
        if change.operation != HeaderOperation::Set || (change.value.contains('{') && !is_kept) {
            return ledger
                .unsupported(change.statement, "`forward_host` of a route is one name, `keep` or `server`");
        }
        if !is_kept {
            let mut keys = Keys::default();
            keys.set("forward_host", change.value, change.statement);
            self.route_keys(change.condition, keys);
        }
    }

    /// `reqadd` and its like, which HAProxy does not have any more.
    pub(super) fn removed(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        ledger.approximated(statement, "HAProxy has not known it since version 2.1");
        let text = words.text().unwrap_or_default().to_owned();
        let name = statement.name();
        if matches!(name, "reqrep" | "reqirep") {
            let replacement = words.text().unwrap_or_default().to_owned();
            return self.replaced_line(statement, &text, &replacement, words);
        }
        let Some(condition) = self.condition(statement, words) else { return };
        let (operation, header) = match name {
            "reqadd" | "rspadd" => (HeaderOperation::Add, text.as_str()),
            _ => (HeaderOperation::Remove, text.trim_start_matches('^')),
        };
        let Some((header, value)) = header.split_once(':') else {
            return ledger.unsupported(statement, "only headers of a name are removed: `remove`");
        };
        let plain =
            !header.is_empty() && header.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        let all = operation == HeaderOperation::Add || matches!(value.trim(), "" | ".*" | "(.*)");
        if !plain || !all {
            return ledger.unsupported(statement, "only headers of a name are removed: `remove`");
        }
        let change = HeaderChange {
            condition,
            operation,
            name: header.to_ascii_lowercase(),
            value: crate::haproxy::output::literal_in_template(value.trim()),
            from_server: name.starts_with("rsp"),
            statement,
        };
        if name.starts_with("rsp") {
            self.rules.responses.push(change);
        } else {
            self.before.headers.push((change.name.clone(), change.condition.clone()));
            self.rules.requests.push(change);
        }
    }
}

/// `\1` of a text with placeholders as the group of a map.
fn groups_of_template(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        match (character, rest.peek().copied()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                rest.next();
                result.push_str(&format!("{{match.{digit}}}"));
            }
            ('\\', Some(next)) => {
                rest.next();
                result.push(next);
            }
            _ => result.push(character),
        }
    }
    result
}

/// Whether Weir sends this header by itself, with this value.
fn is_forwarded(change: &HeaderChange<'_>, facts: ListenerFacts) -> bool {
    let scheme = if facts.tls { "https" } else { "http" };
    let port = facts.port.map(|port| port.to_string());
    FORWARDED.iter().any(|(name, values)| {
        change.name == *name
            && (values.contains(&change.value.as_str())
                || (*name == "x-forwarded-proto" && change.value == scheme)
                || (*name == "x-forwarded-port" && port.as_deref() == Some(change.value.as_str())))
    })
}

/// Writes changes as `request_headers` or `response_headers`, as they are on a listener.
pub(in crate::haproxy) fn write<'s>(
    keys: &mut Keys<'s>,
    key: &str,
    changes: &[HeaderChange<'s>],
    facts: ListenerFacts,
    ledger: &crate::report::Ledger,
) {
    let mut tables: Vec<Vec<HeaderChange<'s>>> = Vec::new();
    for change in changes {
        let change = HeaderChange { condition: change.condition.clone().on(facts), ..change.clone() };
        if change.condition == AclCondition::Constant(false) {
            continue;
        }
        // The value of a header that is a word for the scheme.
        if key == "request_headers"
            && change.condition == AclCondition::Constant(true)
            && is_forwarded(&change, facts)
        {
            ledger.by_default(
                change.statement,
                "Weir sends it, in place of what the client has sent: `forwarded` of the listener",
            );
            continue;
        }
        if !change.condition.is_short() {
            ledger.unsupported(
                change.statement,
                "the condition is longer than one of Weir may be: write it with maps and lists",
            );
            continue;
        }
        let fits = |table: &Vec<HeaderChange<'s>>| {
            table.iter().all(|other| {
                other.name != change.name
                    || (other.operation, change.operation) == (HeaderOperation::Remove, HeaderOperation::Add)
            }) && table[0].condition == change.condition
                && table[0].from_server == change.from_server
        };
        match tables.last_mut().filter(|table| fits(table)) {
            Some(table) => table.push(change),
            None => tables.push(vec![change]),
        }
    }
    match tables.as_slice() {
        [] => {}
        [table] => write_one(keys, key, table),
        _ => {
            let list: Vec<TomlValue> = tables.iter().map(|table| inline(table)).collect();
            keys.set(key, TomlValue::Array(list), tables[0][0].statement);
        }
    }
}

fn write_one<'s>(keys: &mut Keys<'s>, key: &str, table: &[HeaderChange<'s>]) {
    let first = &table[0];
    if first.condition != AclCondition::Constant(true) {
        keys.set_path(&[key, "when"], literal(&first.condition.expression()), first.statement);
    }
    if first.from_server {
        keys.set_path(&[key, "from"], "server", first.statement);
    }
    let removed: Vec<String> = names(table, HeaderOperation::Remove);
    if !removed.is_empty() {
        keys.set_path(&[key, "remove"], removed, first.statement);
    }
    for change in table {
        let path = match change.operation {
            HeaderOperation::Set => "set",
            HeaderOperation::Add => "add",
            HeaderOperation::Remove => continue,
        };
        keys.set_path(&[key, path, &change.name], change.value.clone(), change.statement);
    }
}

fn names(table: &[HeaderChange<'_>], operation: HeaderOperation) -> Vec<String> {
    table.iter().filter(|change| change.operation == operation).map(|change| change.name.clone()).collect()
}

fn inline(table: &[HeaderChange<'_>]) -> TomlValue {
    let mut entries: Vec<(String, TomlValue)> = Vec::new();
    if table[0].condition != AclCondition::Constant(true) {
        entries.push(("when".to_owned(), literal(&table[0].condition.expression()).into()));
    }
    if table[0].from_server {
        entries.push(("from".to_owned(), "server".into()));
    }
    let removed = names(table, HeaderOperation::Remove);
    if !removed.is_empty() {
        entries.push(("remove".to_owned(), removed.into()));
    }
    for (key, operation) in [("set", HeaderOperation::Set), ("add", HeaderOperation::Add)] {
        let changes = table.iter().filter(|change| change.operation == operation);
        let values: Vec<(String, TomlValue)> =
            changes.map(|change| (change.name.clone(), change.value.clone().into())).collect();
        if !values.is_empty() {
            entries.push((key.to_owned(), TomlValue::Inline(values)));
        }
    }
    TomlValue::Inline(entries)
}
