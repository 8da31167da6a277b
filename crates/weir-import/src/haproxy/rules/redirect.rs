//! `redirect` and `http-request redirect`: where clients are sent, and with what.

use super::RuleReader;
use crate::haproxy::acl::{
    AclCondition, AclSubject, Atom, AtomTest, HaproxyMapEntries, MapUse, Surroundings,
};
use crate::haproxy::format::{FormatTemplate, FormatUse, template};
use crate::haproxy::output::{Keys, literal_in_template};
use crate::report::StatementWords;
use crate::source::Statement;

/// The words of a rule.
#[derive(Default)]
struct RedirectWords<'s> {
    kind: &'s str,
    target: &'s str,
    status: i64,
    drop_query: bool,
    slash: bool,
    /// The value of a `Set-Cookie`.
    cookie: Option<String>,
}

impl<'s> RuleReader<'_, 's, '_> {
    /// `redirect`, whose words begin at this one of the statement.
    pub(super) fn redirect(&mut self, statement: &'s Statement, skip: usize) {
        let ledger = self.proxy.ledger;
        let mut words = ledger.words(statement);
        for _ in 0..skip {
            words.next();
        }
        ledger.exact(statement);
        let rule = RedirectWords::read(&mut words);
        let Some(condition) = self.condition(statement, &mut words) else {
            return self.fail_closed(statement);
        };
        let made = rule.and_then(|rule| {
            let target = self.target(rule.target, skip == 0)?;
            let to = rule.to(&host_in_target(&target.text))?;
            check(&to, &self.conditions.around)?;
            Ok((rule, target.notes, to))
        });
        let (rule, notes, to) = match made {
            Ok(made) => made,
            Err(reason) => {
                ledger.unsupported(statement, &reason);
                return self.close(statement, condition);
            }
        };
        notes.iter().for_each(|note| ledger.approximated(statement, note));
        if condition.counts() {
            ledger.approximated(statement, "the counts are those without the request itself");
        }
        let keys = |to: String| rule.keys(to, statement);
        if !rule.slash {
            return self.terminal(statement, condition, keys(to));
        }
        if !rule.drop_query {
            ledger.approximated(statement, "the slash comes behind the path, and before the query");
        }
        let ends = AtomTest::Ends(vec!["/".to_owned()]);
        let has_slash = AclCondition::Atom(Atom::new(AclSubject::Path, ends));
        self.terminal(statement, condition.clone().and(has_slash), keys(to.clone()));
        self.terminal(statement, condition, keys(to.replacen("{path}", "{path}/", 1)));
    }

    /// The target as a text with placeholders. The rule of long ago takes it as it stands.
    fn target(&self, target: &str, is_literal: bool) -> Result<FormatTemplate, String> {
        match is_literal {
            true if target.contains("%[") => {
                Err("HAProxy takes this target literally: a format needs `http-request redirect`".to_owned())
            }
            true => Ok(FormatTemplate { text: literal_in_template(target), notes: Vec::new() }),
            false => template(target, FormatUse::Header, &self.conditions.around),
        }
    }
}

impl<'s> RedirectWords<'s> {
    /// The words up to the condition, all of them in any case.
    fn read(words: &mut StatementWords<'s>) -> Result<RedirectWords<'s>, String> {
        let mut rule = RedirectWords { status: 302, ..RedirectWords::default() };
        let mut trouble = None;
        while let Some(word) =
            words.peek().map(|word| word.text.as_str()).filter(|word| !matches!(*word, "if" | "unless"))
        {
            words.next();
            match word {
                "location" | "prefix" | "scheme" => {
                    (rule.kind, rule.target) = (word, words.text().unwrap_or_default());
                }
                "code" => rule.status = words.text().and_then(|text| text.parse().ok()).unwrap_or(0),
                "drop-query" => rule.drop_query = true,
                "ignore-empty" => {}
                "append-slash" => rule.slash = true,
                "set-cookie" => {
                    rule.cookie = words.text().map(|cookie| format!("{cookie}; path=/;"));
                }
                "clear-cookie" => {
                    rule.cookie = words.text().map(|cookie| format!("{cookie}; path=/; Max-Age=0;"));
                }
                other => trouble = Some(format!("`{other}`")),
            }
        }
        if ![301, 302, 303, 307, 308].contains(&rule.status) {
            trouble = Some("a redirect has 301, 302, 303, 307 or 308".to_owned());
        }
        trouble.map_or(Ok(rule), Err)
    }

    /// What a redirect leads to, without the slash that may be added.
    fn to(&self, text: &str) -> Result<String, String> {
        let query = if self.drop_query { "" } else { "{query}" };
        Ok(match self.kind {
            "location" if self.slash => return Err("write the slash in the target".to_owned()),
            "location" => text.to_owned(),
            // The path follows, which begins with a slash.
            "prefix" if text == "/" => format!("{{path}}{query}"),
            "prefix" => format!("{text}{{path}}{query}"),
            "scheme" => format!("{text}://{{authority}}{{path}}{query}"),
            _ => return Err("a redirect has a location, a prefix or a scheme".to_owned()),
        })
    }

    fn keys(&self, to: String, statement: &'s Statement) -> Keys<'s> {
        let mut keys = Keys::of(statement);
        keys.set("redirect.to", to, statement);
        if self.status != 308 {
            keys.set("redirect.status", self.status, statement);
        }
        if let Some(cookie) = &self.cookie {
            keys.set_path(&["response_headers", "add", "set-cookie"], literal_in_template(cookie), statement);
        }
        keys
    }
}

/// Whether a redirect leads where the config says, and not where a client does.
fn check(to: &str, around: &Surroundings<'_>) -> Result<(), String> {
    if let Some((name, behind)) = to.strip_prefix("{map.").and_then(|rest| rest.split_once('}')) {
        // What a file says is a part of the config.
        let is_of_file =
            |known: &MapUse| known.name == name && matches!(known.entries, HaproxyMapEntries::File { .. });
        if around.maps.borrow().iter().any(is_of_file) && matches!(behind, "" | "{path}" | "{path}{query}") {
            return Ok(());
        }
    }
    if to.starts_with('{') && !to.starts_with("{scheme}://") && !to.starts_with("{path}") {
        return Err("write the host: a redirect goes to no place that a client names".to_owned());
    }
    let host = to.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or(rest));
    let host = ["{path}", "{query}"].iter().fold(host, |host, end| host.split(end).next().unwrap_or(host));
    match host.contains('{') && !["{authority}", "{host}"].contains(&host) {
        true => Err("the host of a redirect is written out, or that of the request".to_owned()),
        false => Ok(()),
    }
}

/// The host of a target as the client has it, with the port that it names.
fn host_in_target(text: &str) -> String {
    text.replace("{header.host}", "{authority}").replace("{target}", "{path}{query}")
}
