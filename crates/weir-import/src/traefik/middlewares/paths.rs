//! Changes of the path that servers get.

use super::fields::FieldSetting;
use super::{RouterPlace, RouterSettings};
use crate::document::{DraftTable, TomlValue};
use crate::source::Statement;
use crate::traefik::rule::{escaped, raw};
use crate::traefik::tree::{child, is_true, key, literal, value, values};

/// One change of a path.
#[derive(Clone)]
pub(in crate::traefik) struct PathChange<'s> {
    /// The prefix that it takes off, where it does no more.
    stripped: Option<String>,
    /// The prefix that it adds, where it does no more.
    added: Option<String>,
    pattern: String,
    replacement: String,
    /// Whether every path is changed.
    is_certain: bool,
    from: &'s Statement,
}

impl<'s> PathChange<'s> {
    /// The statement that it comes from.
    pub(in crate::traefik) fn from(&self) -> &'s Statement {
        self.from
    }

    /// Puts changes into a route whose paths begin with `prefix`; whether Weir can say them.
    pub(in crate::traefik) fn write(
        changes: &[PathChange<'s>],
        prefix: Option<&str>,
        route: &mut DraftTable,
    ) -> bool {
        let text = |text: &str| literal(text);
        match changes {
            [] => true,
            [one] if one.stripped.is_some() && one.stripped.as_deref() == prefix => {
                route.set_beside("replace_prefix", "/", one.from);
                true
            }
            [one] => {
                let rule = TomlValue::inline([
                    ("pattern", text(&one.pattern).into()),
                    ("replacement", text(&one.replacement).into()),
                ]);
                route.set_beside("replace_regex", rule, one.from);
                true
            }
            [first, second]
                if first.stripped.is_some()
                    && first.stripped.as_deref() == prefix
                    && second.added.is_some() =>
            {
                route.set_beside("replace_prefix", second.added.as_deref().unwrap_or("/"), second.from);
                true
            }
            // The last rule ends the list, so it has to be for every path.
            [.., last] if last.is_certain && changes.iter().all(|change| change.pattern.starts_with('^')) => {
                for (index, change) in changes.iter().enumerate() {
                    let mut rule = vec![
                        ("pattern".to_owned(), whole(&change.pattern).into()),
                        ("replacement".to_owned(), around(change).into()),
                    ];
                    if index + 1 == changes.len() {
                        rule.push(("flag".to_owned(), "break".into()));
                    }
                    route.push("rewrite", TomlValue::Inline(rule), change.from);
                }
                true
            }
            _ => false,
        }
    }
}

/// A pattern for the whole path: a rewrite replaces all of it.
fn whole(pattern: &str) -> String {
    literal(&format!("{pattern}(?P<rest>.*)$"))
}

fn around(change: &PathChange<'_>) -> String {
    format!("{}$rest", literal(&change.replacement))
}

impl<'s> RouterPlace<'s, '_> {
    pub(super) fn strip_prefix(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let prefixes = child(kind, "prefixes").map(|list| values(ledger, list)).unwrap_or_default();
        for part in kind.children() {
            match key(part).as_str() {
                "prefixes" => ledger.exact(part),
                "forceslash" if is_true(ledger, part) => {
                    ledger.by_default(part, "a path always begins with one slash");
                }
                "forceslash" => ledger.approximated(part, "nothing but a prefix becomes `/`"),
                _ => {}
            }
        }
        ledger.exact(kind);
        if prefixes.is_empty() || !prefixes.iter().all(|prefix| is_plain(prefix)) {
            return settings.forbid(ledger, kind, "these are no prefixes of paths in their normal form");
        }
        let is_certain = |prefix: &str| {
            settings.paths.is_empty()
                && self.matched.prefix.as_deref().is_some_and(|known| known.starts_with(prefix))
        };
        for (index, prefix) in prefixes.iter().enumerate() {
            let field = FieldSetting::set("x-forwarded-prefix".to_owned(), literal(prefix), kind);
            let earlier = &prefixes[..index];
            let field = match is_certain(prefix) && earlier.is_empty() {
                true => field,
                false => {
                    let not = earlier.iter().map(|other| format!(" && !path.startsWith(\"{other}\")"));
                    field.when(format!("path.startsWith(\"{prefix}\"){}", not.collect::<String>()))
                }
            };
            settings.request.push(field);
            if is_certain(prefix) {
                break;
            }
        }
        let (stripped, expression) = match prefixes.as_slice() {
            [prefix] => (Some((*prefix).to_owned()), escaped(prefix)),
            several => {
                let several: Vec<String> = several.iter().map(|prefix| escaped(prefix)).collect();
                (None, format!("(?:{})", several.join("|")))
            }
        };
        settings.paths.push(PathChange {
            is_certain: is_certain(prefixes[0]),
            stripped,
            added: None,
            pattern: format!("^{expression}/?"),
            replacement: "/".to_owned(),
            from: kind,
        });
    }

    pub(super) fn strip_prefix_regex(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let expressions = child(kind, "regex").map(|list| values(ledger, list)).unwrap_or_default();
        if expressions.is_empty() {
            return settings.forbid(ledger, kind, "an expression is needed");
        }
        let own: Vec<&str> = expressions.iter().map(|text| text.trim_start_matches('^')).collect();
        kind.children().iter().filter(|part| key(part) == "regex").for_each(|part| ledger.exact(part));
        ledger.approximated(kind, "`X-Forwarded-Prefix` is not sent");
        settings.paths.push(PathChange {
            stripped: None,
            added: None,
            pattern: format!("^(?:{})/?", own.join("|")),
            replacement: "/".to_owned(),
            is_certain: false,
            from: kind,
        });
    }

    pub(super) fn add_prefix(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let prefix = child(kind, "prefix").map(|part| value(ledger, part)).unwrap_or_default();
        let prefix = prefix.trim_end_matches('/');
        let prefix = if prefix.starts_with('/') { prefix.to_owned() } else { format!("/{prefix}") };
        if !is_plain(&prefix) {
            return settings.forbid(ledger, kind, "this is no path in its normal form");
        }
        kind.children().iter().filter(|part| key(part) == "prefix").for_each(|part| ledger.exact(part));
        ledger.exact(kind);
        settings.paths.push(PathChange {
            stripped: None,
            pattern: "^".to_owned(),
            replacement: prefix.clone(),
            added: Some(prefix),
            is_certain: true,
            from: kind,
        });
    }

    pub(super) fn replace_path(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let path = child(kind, "path").map(|part| value(ledger, part)).unwrap_or_default();
        if !is_plain(path) {
            return settings.forbid(ledger, kind, "this is no path in its normal form");
        }
        kind.children().iter().filter(|part| key(part) == "path").for_each(|part| ledger.exact(part));
        ledger.exact(kind);
        settings.request.push(FieldSetting::set("x-replaced-path".to_owned(), "{path}".to_owned(), kind));
        settings.paths.push(PathChange {
            stripped: None,
            added: None,
            pattern: "^.*$".to_owned(),
            replacement: path.to_owned(),
            is_certain: true,
            from: kind,
        });
    }

    pub(super) fn replace_path_regex(&mut self, kind: &'s Statement, settings: &mut RouterSettings<'s>) {
        let ledger = self.ledger;
        let own = |name: &str| child(kind, name).map(|part| value(ledger, part).trim()).unwrap_or_default();
        let (expression, replacement) = (own("regex"), own("replacement"));
        let condition = raw(expression);
        let (false, Ok(condition)) = (expression.is_empty() || replacement.contains('?'), condition) else {
            return settings.forbid(ledger, kind, "see `rewrite` of the route");
        };
        for part in
            kind.children().iter().filter(|part| matches!(key(part).as_str(), "regex" | "replacement"))
        {
            ledger.exact(part);
        }
        match expression.starts_with('^') || expression.ends_with('$') {
            true => ledger.exact(kind),
            false => ledger.approximated(kind, "the first match in a path is replaced, not all"),
        }
        let field = FieldSetting::set("x-replaced-path".to_owned(), "{path}".to_owned(), kind);
        settings.request.push(field.when(literal(&format!("path.matches({condition})"))));
        settings.paths.push(PathChange {
            stripped: None,
            added: None,
            pattern: expression.to_owned(),
            replacement: replacement.to_owned(),
            is_certain: matches!(expression, "^(.*)$" | "^/(.*)$" | "^/(.*)" | "(.*)" | "^(.*)"),
            from: kind,
        });
    }
}

/// Whether a path has no byte of a meaning of its own.
fn is_plain(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/-._~!&'()*+,;=:@".contains(c);
    let has_dots = path.split('/').any(|segment| matches!(segment, "." | ".."));
    path.starts_with('/') && path.chars().all(is_plain) && !has_dots && !path.contains("//")
}
