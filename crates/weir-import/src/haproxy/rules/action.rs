//! Rules that answer: `deny`, `return`, `redirect` and their like.

use super::{ListRule, RuleReader, Terminal};
use crate::document::TomlValue;
use crate::haproxy::acl::{AclCondition, AclSubject};
use crate::haproxy::format::{FormatTemplate, FormatUse, template};
use crate::haproxy::output::{Keys, literal, literal_in_template};
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
        let Some(condition) = self.condition(statement, words) else { return };
        if !(200..600).contains(&status) {
            return ledger.unsupported(statement, "`respond` has a status from 200 to 599");
        }
        if matches!(action, "reject" | "silent-drop") {
            ledger
                .approximated(statement, "the client gets 403; HAProxy closes the connection without a word");
        }
        let counts = condition
            .asks(&|atom| matches!(&atom.subject, AclSubject::Number(name) if name.starts_with("table.")));
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

    fn terminal(&mut self, statement: &'s Statement, condition: AclCondition, keys: Keys<'s>) {
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
        keys.set("action", if action == "tarpit" { "tarpit" } else { "deny" }, statement);
        match status {
            403 => {}
            400..=599 => keys.set("status", status, statement),
            _ => return ledger.unsupported(statement, "a list refuses with a status from 400 to 599"),
        }
        if action == "tarpit" {
            let time = self.proxy.timeout("tarpit").or_else(|| self.proxy.timeout("connect"));
            if let Some((time, line)) = time {
                ledger.exact(line);
                if time != 10_000 {
                    keys.set("delay", time_text(time.clamp(1, 600_000)), line);
                }
            }
        }
        if self.rules.terminals.len() > 64 {
            return ledger.unsupported(statement, super::TOO_MUCH_BEFORE);
        }
        let before = self.rules.terminals.iter().map(|terminal| terminal.condition.clone().negated());
        let condition = before.fold(condition, AclCondition::and);
        let name = if action == "tarpit" { "tarpit" } else { "refused" };
        if condition != AclCondition::Constant(false) {
            self.rules.lists.push(ListRule { condition, keys, statement, name });
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
        } else if is_template_like(&text) {
            literal_in_template(&text)
        } else {
            literal(&text)
        };
        keys.set("respond.body", TomlValue::Text(body), statement);
    }

    /// `redirect`, whose words begin at this one of the statement.
    pub(super) fn redirect(&mut self, statement: &'s Statement, skip: usize) {
        let ledger = self.proxy.ledger;
        let mut words = ledger.words(statement);
        for _ in 0..skip {
            words.next();
        }
        ledger.exact(statement);
        let (mut kind, mut target, mut status, mut drop_query) = ("", "", 302_i64, false);
        let mut slash = false;
        while let Some(word) =
            words.peek().map(|word| word.text.as_str()).filter(|word| !matches!(*word, "if" | "unless"))
        {
            words.next();
            match word {
                "location" | "prefix" | "scheme" => (kind, target) = (word, words.text().unwrap_or_default()),
                "code" => status = words.text().and_then(|text| text.parse().ok()).unwrap_or(0),
                "drop-query" => drop_query = true,
                "ignore-empty" => {}
                "append-slash" => slash = true,
                "set-cookie" | "set-cookie-fmt" | "clear-cookie" => {
                    return ledger
                        .unsupported(statement, "set the cookie by `response_headers` of the route");
                }
                other => return ledger.unsupported(statement, &format!("`{other}`")),
            }
        }
        // The rule of long ago takes its target as it stands.
        let made = match skip {
            0 if target.contains("%[") => {
                Err("HAProxy takes this target literally: a format needs `http-request redirect`".to_owned())
            }
            0 => Ok(FormatTemplate { text: literal_in_template(target), notes: Vec::new() }),
            _ => template(target, FormatUse::Header, &self.conditions.around),
        };
        let Some(condition) = self.condition(statement, &mut words) else { return };
        let made = match made {
            Ok(made) => made,
            Err(reason) => return ledger.unsupported(statement, &reason),
        };
        made.notes.iter().for_each(|note| ledger.approximated(statement, note));
        let query = if drop_query { "" } else { "{query}" };
        let text = host_in_target(&made.text);
        let to = match kind {
            "location" => text,
            // The path follows, which begins with a slash.
            "prefix" if slash => {
                ledger.approximated(statement, "the slash is added whether there is one at the end or not");
                format!("{}{{path}}/{query}", text.trim_end_matches('/'))
            }
            "scheme" if slash => {
                ledger.approximated(statement, "the slash is added whether there is one at the end or not");
                format!("{text}://{{authority}}{{path}}/{query}")
            }
            _ if slash => return ledger.unsupported(statement, "write the slash in the target"),
            "prefix" => format!("{}{{path}}{query}", text.trim_end_matches('/')),
            "scheme" => format!("{text}://{{authority}}{{path}}{query}"),
            _ => return ledger.unsupported(statement, "a redirect has a location, a prefix or a scheme"),
        };
        if ![301, 302, 303, 307, 308].contains(&status) {
            return ledger.unsupported(statement, "a redirect has 301, 302, 303, 307 or 308");
        }
        if to.starts_with('{') && !to.starts_with("{scheme}://") && !to.starts_with("{path}") {
            return ledger
                .unsupported(statement, "write the host: a redirect goes to no place that a client names");
        }
        let host = to.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or(rest));
        let host =
            ["{path}", "{query}"].iter().fold(host, |host, end| host.split(end).next().unwrap_or(host));
        if host.contains('{') && !["{authority}", "{host}"].contains(&host) {
            return ledger
                .unsupported(statement, "the host of a redirect is written out, or that of the request");
        }
        if condition
            .asks(&|atom| matches!(&atom.subject, AclSubject::Number(name) if name.starts_with("table.")))
        {
            ledger.approximated(statement, "the counts are those without the request itself");
        }
        let mut keys = Keys::of(statement);
        keys.set("redirect.to", to, statement);
        if status != 308 {
            keys.set("redirect.status", status, statement);
        }
        self.terminal(statement, condition, keys);
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
        let asked = crate::haproxy::acl::Atom::new(
            AclSubject::Path,
            crate::haproxy::acl::AtomTest::Equal(vec![path.to_owned()]),
        );
        let condition = AclCondition::Atom(asked).and(condition);
        self.rules.terminals.insert(0, Terminal { condition, keys, statement });
    }
}

/// Whether braces of a text would be placeholders: something like a name between them.
fn is_template_like(text: &str) -> bool {
    text.split('{').skip(1).any(|part| {
        let inside = part.split('}').next().unwrap_or_default();
        part.contains('}')
            && !inside.is_empty()
            && inside.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
    })
}

/// The host of a target as the client has it, with the port that it names.
fn host_in_target(text: &str) -> String {
    text.replace("{header.host}", "{authority}").replace("{target}", "{path}{query}")
}
