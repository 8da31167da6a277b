//! Rules that answer: `deny`, `return`, `tarpit` and their like.

use super::{ListRule, RuleReader, Terminal};
use crate::document::TomlValue;
use crate::haproxy::acl::AclCondition;
use crate::haproxy::format::{FormatUse, template};
use crate::haproxy::output::{Keys, literal, literal_body};
use crate::haproxy::proxy::time_text;
use crate::report::StatementWords;
use crate::source::Statement;

/// The longest file that a route answers with.
const BODY_MAX: usize = 16 << 10;

impl<'s> RuleReader<'_, 's, '_> {
    /// `deny`, `tarpit`, `reject`, `silent-drop`, `return`.
    pub(super) fn answer(&mut self, statement: &'s Statement, action: &str, words: &mut StatementWords<'s>) {
        let ledger = self.proxy.ledger;
        let mut keys = Keys::of(statement);
        let mut status = match action {
            "return" => 200,
            "tarpit" => 500,
            _ => 403,
        };
        ledger.exact(statement);
        while let Some(word) =
            words.peek().map(|word| word.text.as_str()).filter(|word| !matches!(*word, "if" | "unless"))
        {
            words.next();
            match word {
                "deny_status" | "status" => {
                    status = words.text().and_then(|text| text.parse().ok()).unwrap_or(status);
                }
                "content-type" => {
                    keys.set("respond.content_type", literal(words.text().unwrap_or_default()), statement);
                }
                "hdr" => {
                    let name = words.text().unwrap_or_default().to_ascii_lowercase();
                    match template(
                        words.text().unwrap_or_default(),
                        FormatUse::Header,
                        &self.conditions.around,
                    ) {
                        Ok(value) => keys.set_path(&["respond", "headers", &name], value.text, statement),
                        Err(reason) => ledger.unsupported(statement, &reason),
                    }
                }
                "default-errorfiles" => {}
                "string" | "lf-string" | "file" | "lf-file" => self.body(statement, word, words, &mut keys),
                _ => {
                    words.next();
                    ledger.unsupported(statement, &format!("`{word}`: `respond` has status, body, type and headers; `error_pages` of the listener have files"));
                }
            }
        }
        let Some(condition) = self.condition(statement, words) else {
            return self.fail_closed(statement);
        };
        if matches!(action, "reject" | "silent-drop") {
            return self.refuse(statement, "close", condition, 403, &keys);
        }
        if !(200..600).contains(&status) {
            ledger.unsupported(statement, "`respond` has a status from 200 to 599");
            return self.close(statement, condition);
        }
        let counts = condition.counts();
        if (counts && action != "return") || action == "tarpit" {
            return self.refuse(statement, action, condition, status, &keys);
        }
        if counts {
            ledger.approximated(statement, "the counts are those without the request itself");
        }
        let mut answer = Keys::of(statement);
        answer.set("respond.status", status, statement);
        answer.extend(&keys);
        self.terminal(statement, condition, answer);
    }

    pub(super) fn terminal(&mut self, statement: &'s Statement, condition: AclCondition, keys: Keys<'s>) {
        if condition != AclCondition::Constant(false) {
            self.rules.terminals.push(Terminal { condition, keys, statement });
        }
    }

    /// A list that refuses: it is asked when tables have counted the request.
    pub(super) fn refuse(
        &mut self,
        statement: &'s Statement,
        action: &str,
        condition: AclCondition,
        status: i64,
        answer: &Keys<'s>,
    ) {
        let ledger = self.proxy.ledger;
        if answer.has("respond") {
            ledger.approximated(
                statement,
                "the body and the headers of the answer are Weir's own: `error_pages`",
            );
        }
        let mut keys = Keys::of(statement);
        keys.set("action", if matches!(action, "tarpit" | "close") { action } else { "deny" }, statement);
        match status {
            403 => {}
            400..=599 => keys.set("status", status, statement),
            _ => {
                ledger.unsupported(statement, "a list refuses with a status from 400 to 599");
                return self.close(statement, condition);
            }
        }
        if action == "tarpit" {
            self.tarpit_time(&mut keys);
        }
        if self.rules.terminals.len() > 64 {
            ledger.unsupported(statement, super::TOO_MUCH_BEFORE);
            return self.close(statement, condition);
        }
        let before = self.rules.terminals.iter().map(|terminal| terminal.condition.clone().negated());
        let mut condition = before.fold(condition, AclCondition::and);
        if statement.name() == "http-request"
            && let Some((path, _)) = self.proxy.value("monitor-uri")
        {
            condition = condition.and(AclCondition::path_is(path).negated());
        }
        let name = if action == "tarpit" { "tarpit" } else { "refused" };
        if condition != AclCondition::Constant(false) {
            self.rules.lists.push(ListRule { condition, keys, statement, name });
        }
    }

    /// How long a client is kept waiting.
    fn tarpit_time(&self, keys: &mut Keys<'s>) {
        let time = self.proxy.timeout("tarpit").or_else(|| self.proxy.timeout("connect"));
        if let Some((time, line)) = time {
            self.proxy.ledger.exact(line);
            if time != 10_000 {
                keys.set("delay", time_text(time.clamp(1, 600_000)), line);
            }
        }
    }

    fn body(
        &self,
        statement: &'s Statement,
        kind: &str,
        words: &mut StatementWords<'s>,
        keys: &mut Keys<'s>,
    ) {
        let ledger = self.proxy.ledger;
        let text = words.text().unwrap_or_default();
        let text = match kind {
            "file" | "lf-file" => match self.conditions.around.files.read(text) {
                Ok(content) if content.len() <= BODY_MAX => {
                    ledger.approximated(statement, "the body is that of the file at the time of the import");
                    content
                }
                Ok(_) => {
                    return ledger
                        .unsupported(statement, "the file is long: answer with it by `files` of a route");
                }
                Err(error) => {
                    return ledger.unsupported(
                        statement,
                        &format!("cannot read {text} ({error}): import it with the file"),
                    );
                }
            },
            _ => text.to_owned(),
        };
        let body = if kind.starts_with("lf-") {
            match template(&text, FormatUse::Header, &self.conditions.around) {
                Ok(template) => template.text,
                Err(reason) => return ledger.unsupported(statement, &reason),
            }
        } else if let Some(body) = literal_body(&text) {
            body
        } else {
            let advice = "a body with the name of a placeholder in braces, which would be one: write the route by hand";
            return ledger.unsupported(statement, advice);
        };
        keys.set("respond.body", TomlValue::Text(body), statement);
    }

    /// `monitor fail if ...`.
    pub(super) fn monitor(&mut self, statement: &'s Statement, words: &mut StatementWords<'s>) {
        words.next();
        let Some(condition) = self.condition(statement, words) else { return };
        let Some((path, _)) = self.proxy.value("monitor-uri") else {
            return self.proxy.ledger.meaningless(statement, "there is no `monitor-uri`");
        };
        let mut keys = Keys::of(statement);
        keys.set("respond.status", 503, statement);
        self.proxy.ledger.exact(statement);
        let condition = AclCondition::path_is(path).and(condition);
        self.rules.terminals.insert(0, Terminal { condition, keys, statement });
    }
}
