//! What holds in a section: its own lines, and those of the `defaults` that it belongs to.

use std::cell::RefCell;
use std::collections::HashSet;

use crate::report::Ledger;
use crate::source::{Statement, StatementId};

/// A `frontend`, `backend` or `listen`.
pub(super) struct ProxySection<'s> {
    pub(super) ledger: &'s Ledger,
    pub(super) header: &'s Statement,
    /// As written.
    pub(super) name: &'s str,
    /// Its own lines come last.
    levels: Vec<&'s [Statement]>,
    superseded: &'s RefCell<HashSet<StatementId>>,
}

impl<'s> ProxySection<'s> {
    pub(super) fn new(
        ledger: &'s Ledger,
        header: &'s Statement,
        defaults: &[&'s Statement],
        superseded: &'s RefCell<HashSet<StatementId>>,
    ) -> Self {
        let mut levels: Vec<&[Statement]> = defaults.iter().map(|section| section.children()).collect();
        levels.push(header.children());
        let name = header.words.get(1).map_or("", |word| word.text.as_str());
        ProxySection { ledger, header, name, levels, superseded }
    }

    /// All lines, those of `defaults` first.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'s Statement> {
        self.levels.iter().flat_map(|level| level.iter())
    }

    pub(super) fn is_frontend(&self) -> bool {
        matches!(self.header.name(), "frontend" | "listen")
    }

    pub(super) fn is_backend(&self) -> bool {
        matches!(self.header.name(), "backend" | "listen")
    }

    /// The line that counts of those that begin so: the last one, of the section before those of its `defaults`.
    pub(super) fn one(&self, name: &[&str]) -> Option<&'s Statement> {
        self.last(|statement| begins(statement, name))
    }

    /// The last line for which something holds; the others are superseded.
    fn last(&self, fits: impl Fn(&Statement) -> bool) -> Option<&'s Statement> {
        let mut found: Vec<&'s Statement> =
            self.levels.iter().flat_map(|level| level.iter()).filter(|statement| fits(statement)).collect();
        let last = found.pop();
        self.superseded.borrow_mut().extend(found.iter().map(|statement| statement.id));
        last
    }

    /// All lines that begin so, those of `defaults` first.
    pub(super) fn all(&self, names: &[&str]) -> Vec<&'s Statement> {
        let fits = |statement: &&Statement| names.contains(&statement.name());
        self.levels.iter().flat_map(|level| level.iter()).filter(fits).collect()
    }

    /// Of those that begin so: the ones of the innermost level that has any.
    pub(super) fn innermost(&self, name: &[&str]) -> Vec<&'s Statement> {
        let mut found = Vec::new();
        for level in self.levels.iter().rev() {
            let these = level.iter().filter(|statement| begins(statement, name));
            match found.is_empty() {
                true => found.extend(these),
                false => self.superseded.borrow_mut().extend(these.map(|statement| statement.id)),
            }
        }
        found
    }

    /// `option NAME`, unless `no option NAME` comes later.
    pub(super) fn option(&self, name: &str) -> Option<&'s Statement> {
        let last = self.last(|statement| {
            begins(statement, &["option", name]) || begins(statement, &["no", "option", name])
        })?;
        if last.name() == "no" {
            self.ledger.words(last).rest();
            self.ledger.exact(last);
            return None;
        }
        Some(last)
    }

    /// The duration of `timeout NAME` in milliseconds. Who asks says what became of it.
    pub(super) fn timeout(&self, name: &str) -> Option<(u64, &'s Statement)> {
        let old = match name {
            "connect" => "contimeout",
            "client" => "clitimeout",
            "server" => "srvtimeout",
            _ => "timeout ",
        };
        let statement =
            self.last(|statement| begins(statement, &["timeout", name]) || statement.name() == old)?;
        let mut words = self.ledger.words(statement);
        if statement.name() == "timeout" {
            words.next();
        } else {
            self.ledger.approximated(
                statement,
                "HAProxy has not known this word since version 2.1: it is `timeout` now",
            );
        }
        let time = duration(words.text()?);
        match time {
            None => self.ledger.unsupported(statement, "this is no duration"),
            // Without end.
            Some(0) => {
                self.ledger.approximated(statement, "0 is no limit: Weir has one of its own, in `timeouts`");
                return None;
            }
            Some(_) => {}
        }
        time.map(|time| (time, statement))
    }

    /// The text of a line of one value, such as `mode http`.
    pub(super) fn value(&self, name: &str) -> Option<(&'s str, &'s Statement)> {
        let statement = self.one(&[name])?;
        Some((self.ledger.words(statement).text()?, statement))
    }

    pub(super) fn is_tcp(&self) -> bool {
        self.value("mode").is_none_or(|(mode, _)| mode != "http")
    }
}

pub(super) fn begins(statement: &Statement, name: &[&str]) -> bool {
    statement.words.len() >= name.len()
        && name.iter().zip(&statement.words).all(|(name, word)| *name == word.text)
}

/// Milliseconds of `10s`, `500ms`, `5000`.
pub(super) fn duration(text: &str) -> Option<u64> {
    duration_in(text, 1)
}

/// Milliseconds of a duration, whose unit without a word has so many.
pub(super) fn duration_in(text: &str, unit: u64) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let times = match &text[digits..] {
        "" => unit,
        "us" => return Some(number.div_ceil(1000)),
        "ms" => 1,
        "s" => 1000,
        // `min` is read up to its first letter by versions of long ago.
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    number.checked_mul(times).filter(|time| *time <= 366 * 86_400_000)
}

/// As Weir writes it: `90s` is `1m30s`.
pub(super) fn time_text(milliseconds: u64) -> String {
    let mut rest = milliseconds;
    let mut text = String::new();
    for (unit, length) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        // Days only whole ones: `24h` and `50s` are as people write them.
        if rest >= length && (unit != "d" || rest.is_multiple_of(length) && rest > length) {
            text.push_str(&format!("{}{unit}", rest / length));
            rest %= length;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A name as Weir takes it: letters, digits, `-`, `_` and `.`.
pub(super) fn name_of(text: &str) -> String {
    let good = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') { c } else { '-' };
    let name: String = text.chars().map(good).take(64).collect();
    if name.is_empty() { "main".to_owned() } else { name }
}
