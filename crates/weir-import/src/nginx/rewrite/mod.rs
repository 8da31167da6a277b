//! The rewrite module: `set`, `if`, `return`, `rewrite`, `break`, which nginx runs in the order in which they stand. What they come to is a list of
//! ways that a request may take, of which the first whose condition holds counts.

use std::collections::BTreeMap;

use crate::source::Statement;

mod question;
mod rule;
mod conditions;

pub(super) use conditions::NginxTest;
use conditions::quoted;
pub(super) use rule::{NginxRewrite, RewriteEnd};

use super::scope::{NginxVariable, Scope};
use super::variables;

/// The ways of one location; more than these are no config that a person understands.
const WAYS_MAX: usize = 32;

/// Statements that are looked at on all ways of one location together.
const STEPS_MAX: usize = 4000;

/// Comparisons that a condition may have.
const TESTS_MAX: usize = 48;

/// The name of what `rewrite` and its like are about.
pub(super) const NAMES: [&str; 7] =
    ["set", "if", "return", "rewrite", "break", "rewrite_log", "uninitialized_variable_warn"];

/// The values that a variable has, by conditions: the first that holds counts, and the last always does.
type Cases = Vec<(NginxTest, String)>;

/// A way through the statements.
#[derive(Clone)]
pub(super) struct NginxWay<'s> {
    /// When a request takes it, if none before it was taken.
    pub(super) test: NginxTest,
    pub(super) scope: Scope<'s>,
    values: BTreeMap<String, Cases>,
    pub(super) rewrites: Vec<NginxRewrite<'s>>,
    /// The block of the last `if` that was entered within a location: its directives count.
    pub(super) block: Option<&'s Statement>,
    /// `!-f $request_filename` with a rewrite: where requests go for which there is no file.
    pub(super) without_file: Option<(String, &'s Statement)>,
    pub(super) end: NginxWayEnd<'s>,
}

/// How a way ends.
#[derive(Clone, Copy)]
pub(super) enum NginxWayEnd<'s> {
    /// With the content of the location.
    Content,
    Return(&'s Statement),
    /// With a rewrite that matches every path.
    Rewritten,
    /// There are too many ways: none of them is taken.
    Refused(&'s Statement),
}

impl<'s> NginxWay<'s> {
    pub(super) fn new(scope: &Scope<'s>) -> Self {
        NginxWay {
            test: NginxTest::Known(true),
            scope: scope.clone(),
            values: BTreeMap::new(),
            rewrites: Vec::new(),
            block: None,
            without_file: None,
            end: NginxWayEnd::Content,
        }
    }

    /// The same way into a location of the server that it has come through.
    pub(super) fn in_location(&self, scope: &Scope<'s>) -> NginxWay<'s> {
        let mut way = NginxWay { scope: scope.clone(), rewrites: Vec::new(), ..self.clone() };
        way.test = NginxTest::Known(true);
        way
    }

    /// All ways through these statements.
    pub(super) fn through(self, statements: &[&'s Statement], in_location: bool) -> Vec<NginxWay<'s>> {
        let refused = NginxWay { block: None, ..self.clone() };
        let mut run = WayFinder { in_location, ways: Vec::new(), steps: 0 };
        run.through(self, statements);
        let first = statements.iter().find(|one| one.name() == "if");
        match first {
            Some(first) if run.is_too_much() => {
                for statement in statements.iter().filter(|one| one.name() == "if") {
                    let advice = "too many conditions meet here: write routes with `when` instead";
                    refused.scope.ledger.unsupported(statement, advice);
                    statement.children().iter().for_each(|child| refuse(&refused, child));
                }
                vec![NginxWay { end: NginxWayEnd::Refused(first), ..refused }]
            }
            _ => run.ways,
        }
    }

    /// One way for each value of the variables that the statements of the place name.
    pub(super) fn by_values(self, names: impl Fn(&str) -> bool) -> Vec<NginxWay<'s>> {
        let used: Vec<String> = self.values.keys().filter(|name| names(name)).cloned().collect();
        let mut ways = vec![self];
        for name in used {
            let split = |way: NginxWay<'s>| {
                let cases = way.values.get(&name).cloned().unwrap_or_default();
                cases.into_iter().map(move |(test, value)| (way.clone(), test, value)).collect::<Vec<_>>()
            };
            ways = ways
                .into_iter()
                .flat_map(split)
                .map(|(mut way, test, value)| {
                    way.test = NginxTest::all([way.test, test]);
                    way.scope.define(&name, NginxVariable::Text(value));
                    way.values.remove(&name);
                    way
                })
                .filter(|way| way.test != NginxTest::Known(false))
                .collect();
            ways.truncate(WAYS_MAX);
        }
        ways
    }

    /// Puts a text in place of a map, in variables and in rewrites.
    pub(super) fn fix_maps(&mut self, map: &str, text: &str) {
        let placeholder = format!("{{map.{map}}}");
        self.scope.replace_in_variables(&placeholder, text);
        for rule in &mut self.rewrites {
            rule.replacement = rule.replacement.replace(&placeholder, text);
        }
    }

    /// The path is that which a rule makes from here on.
    fn change_path(&mut self, rule: &NginxRewrite<'s>) {
        let several = std::mem::take(&mut self.values);
        for (name, cases) in several {
            let texts = cases.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" ");
            let mut scope = self.scope.clone();
            scope.define(&name, NginxVariable::Text(texts));
            scope.change_path(rule.changes_query());
            match scope.variable(&name) {
                Some(unknown @ NginxVariable::Unknown(_)) => self.scope.define(&name, unknown),
                _ => {
                    self.values.insert(name, cases);
                }
            }
        }
        self.scope.change_path(rule.changes_query());
    }

    fn define(&mut self, name: &str, cases: Cases) {
        match cases.as_slice() {
            [(NginxTest::Known(true), value)] => {
                self.values.remove(name);
                self.scope.define(name, NginxVariable::Text(value.clone()));
            }
            _ => {
                let advice =
                    format!("`${name}` has several values, by `if`: write the condition where it is used");
                self.scope.define(name, NginxVariable::Unknown(advice));
                self.values.insert(name.to_owned(), cases);
            }
        }
    }

    /// What a text comes to: one case unless it names variables with several.
    fn cases_of(&self, text: &str) -> Result<Cases, variables::UnknownVariable> {
        let named =
            |name: &&String| text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}"));
        let mut cases = vec![(NginxTest::Known(true), self.scope.clone())];
        for name in self.values.keys().filter(named) {
            let mut next = Vec::new();
            for (test, scope) in cases {
                for (own, value) in &self.values[name] {
                    let mut scope = scope.clone();
                    scope.define(name, NginxVariable::Text(value.clone()));
                    next.push((NginxTest::all([test.clone(), own.clone()]), scope));
                }
            }
            cases = next;
        }
        cases
            .into_iter()
            .filter(|(test, _)| *test != NginxTest::Known(false))
            .map(|(test, scope)| Ok((test, variables::template(&scope, text)?)))
            .collect()
    }
}

/// Under way through statements.
struct WayFinder<'s> {
    in_location: bool,
    ways: Vec<NginxWay<'s>>,
    /// Statements that were looked at, on all ways.
    steps: usize,
}

impl<'s> WayFinder<'s> {
    fn through(&mut self, mut way: NginxWay<'s>, statements: &[&'s Statement]) {
        for (index, statement) in statements.iter().enumerate() {
            let rest = &statements[index + 1..];
            self.steps += 1;
            if self.is_too_much() {
                return;
            }
            match statement.name() {
                "set" => set(&mut way, statement, &NginxTest::Known(true)),
                "return" => {
                    never_reached(&way, rest);
                    return self.end(way, NginxWayEnd::Return(statement));
                }
                "break" => {
                    way.scope.ledger.exact(statement);
                    never_reached(&way, rest);
                    rule::stay(&mut way);
                    return self.end(way, NginxWayEnd::Content);
                }
                "rewrite" => match self.rewrite(way, statement, rest) {
                    Some(next) => way = next,
                    None => return,
                },
                "if" => match self.condition(way, statement, rest) {
                    Some(next) => way = next,
                    None => return,
                },
                _ => way.scope.ledger.meaningless(statement, "it is about nginx's own log"),
            }
        }
        self.end(way, NginxWayEnd::Content);
    }

    fn is_too_much(&self) -> bool {
        self.ways.len() > WAYS_MAX || self.steps > STEPS_MAX
    }

    fn end(&mut self, mut way: NginxWay<'s>, end: NginxWayEnd<'s>) {
        way.end = end;
        if way.test.size() > TESTS_MAX {
            self.steps = STEPS_MAX + 1;
        } else if way.test != NginxTest::Known(false) && self.ways.len() <= WAYS_MAX {
            self.ways.push(way);
        }
    }

    /// `rewrite`: the way of requests that do not match, if there are any.
    fn rewrite(
        &mut self,
        mut way: NginxWay<'s>,
        statement: &'s Statement,
        rest: &[&'s Statement],
    ) -> Option<NginxWay<'s>> {
        let rule = match NginxRewrite::read(&way.scope, statement) {
            Ok(rule) => rule,
            Err(advice) => {
                way.scope.ledger.unsupported(statement, &advice);
                return Some(way);
            }
        };
        way.scope.ledger.exact(statement);
        let covers = rule.covers(&way.scope.place);
        let decides = rest.iter().any(|next| matches!(next.name(), "return" | "if" | "set"));
        if rule.pattern.beside.is_empty() && !covers && !(decides && rule.end != RewriteEnd::Leave) {
            way.scope.is_rewritten |= rule.end != RewriteEnd::Leave;
            if rule.end != RewriteEnd::Leave || !self.in_location {
                way.change_path(&rule);
            }
            way.rewrites.push(rule);
            return Some(way);
        }
        let test = if covers { NginxTest::Known(true) } else { NginxTest::matches("path", &rule.pattern) };
        let mut matching = way.clone();
        matching.test = NginxTest::all([way.test.clone(), test.clone()]);
        let end = rule.end;
        matching.scope.is_rewritten |= end != RewriteEnd::Leave;
        matching.scope.is_surely_rewritten |= end != RewriteEnd::Leave;
        if end != RewriteEnd::Leave {
            matching.change_path(&rule);
        }
        matching.rewrites.push(rule.alone());
        match end {
            RewriteEnd::Leave => self.end(matching, NginxWayEnd::Rewritten),
            RewriteEnd::Stay => self.end(matching, NginxWayEnd::Content),
            RewriteEnd::Continue if rest.is_empty() => self.end(matching, NginxWayEnd::Rewritten),
            RewriteEnd::Continue => self.through(matching, rest),
        }
        if test == NginxTest::Known(true) {
            if end != RewriteEnd::Continue {
                never_reached(&way, rest);
            }
            return None;
        }
        Some(way)
    }

    /// `if`: the way of requests for which it does not hold, if there are any.
    fn condition(
        &mut self,
        mut way: NginxWay<'s>,
        statement: &'s Statement,
        rest: &[&'s Statement],
    ) -> Option<NginxWay<'s>> {
        let inner: Vec<&Statement> =
            statement.children().iter().filter(|child| NAMES.contains(&child.name())).collect();
        if let Some(target) = question::missing_file(&way, statement, &inner) {
            way.without_file = Some((target, statement));
            return Some(way);
        }
        let question = match question::read(&way, statement) {
            Ok(question) => question,
            Err(advice) => {
                way.scope.ledger.unsupported(statement, &advice);
                statement.children().iter().for_each(|child| refuse(&way, child));
                return Some(way);
            }
        };
        way.scope.ledger.exact(statement);
        let is_refusal = refuses(&inner);
        if statement.words.iter().any(|word| is_by_name(&word.text, is_refusal)) {
            let difference = "names of parameters and cookies count as they are written: nginx takes `DEBUG` for `debug`, too";
            way.scope.ledger.approximated(statement, difference);
        }
        let only_sets = !statement.children().is_empty()
            && statement.children().iter().all(|child| child.name() == "set")
            && (!self.in_location || way.scope.own("try_files").is_empty());
        let around = match self.in_location {
            true => way.scope.levels_of_text().pop().unwrap_or_default(),
            false => way.scope.server(),
        };
        if only_sets && !question.captures.iter().any(|(group, _)| uses_group(around, group)) {
            inner.iter().for_each(|child| set(&mut way, child, &question.test));
            return Some(way);
        }
        if self.in_location && inner.is_empty() && !matches!(question.test, NginxTest::Known(_)) {
            self.content_alone(way, statement, (question.test, question.captures), rest);
            return None;
        }
        let mut inside = way.clone();
        inside.test = NginxTest::all([way.test.clone(), question.test.clone()]);
        for (name, value) in question.captures {
            inside.scope.define(&name, NginxVariable::Text(value));
        }
        if self.in_location {
            inside.scope = inside.scope.within_condition(statement.children());
            inside.block = Some(statement);
        }
        let onwards: Vec<&Statement> = inner.into_iter().chain(rest.iter().copied()).collect();
        if question.test == NginxTest::Known(false) {
            never_reached(&way, &statement.children().iter().collect::<Vec<_>>());
        } else {
            self.through(inside, &onwards);
        }
        (question.test != NginxTest::Known(true)).then_some(way)
    }
}

impl<'s> WayFinder<'s> {
    /// An `if` whose directives decide nothing: they count where no later `if` is entered.
    fn content_alone(
        &mut self,
        way: NginxWay<'s>,
        statement: &'s Statement,
        (test, captures): (NginxTest, Vec<(String, String)>),
        rest: &[&'s Statement],
    ) {
        let mut later = WayFinder { in_location: true, ways: Vec::new(), steps: self.steps };
        later.through(way, rest);
        self.steps = later.steps;
        if later.is_too_much() {
            self.steps = STEPS_MAX + 1;
            return;
        }
        for way in later.ways {
            if way.block.is_none() {
                let mut inside = way.clone();
                inside.test = NginxTest::all([test.clone(), way.test.clone()]);
                inside.scope = inside.scope.within_condition(statement.children());
                inside.block = Some(statement);
                for (name, value) in &captures {
                    inside.scope.define(name, NginxVariable::Text(value.clone()));
                }
                let end = inside.end;
                self.end(inside, end);
            }
            let end = way.end;
            self.end(way, end);
        }
    }
}

/// Whether requests are refused.
fn refuses(statements: &[&Statement]) -> bool {
    statements
        .iter()
        .any(|one| one.name() == "return" && one.words.get(1).is_some_and(|word| word.text.starts_with('4')))
}

/// Whether a variable is one that nginx looks up by a name in any case, where that matters: something is refused, or the name is surely written
/// in another one.
fn is_by_name(word: &str, is_refusal: bool) -> bool {
    ["$arg_", "$cookie_"].iter().any(|prefix| {
        word.split_once(prefix).is_some_and(|(_, name)| {
            let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
            is_refusal || name[..end].contains(|c: char| c.is_ascii_uppercase())
        })
    })
}

/// Whether anything may use a group that an `if` has found: groups stay what they are until the next expression is asked.
fn uses_group(statements: &[Statement], group: &str) -> bool {
    let named = [format!("${group}"), format!("${{{group}}}")];
    let asks_anew = |one: &&Statement| {
        let is_regex = one.words.get(1).is_some_and(|word| word.text.starts_with('~'));
        one.name() == "rewrite" || one.name() == "location" && is_regex
    };
    statements.iter().filter(|one| !asks_anew(one)).any(|one| {
        let in_words =
            one.words.iter().any(|word| named.iter().any(|name| word.text.contains(name.as_str())));
        in_words || uses_group(one.children(), group)
    })
}

/// Variables of nginx itself whose value is what nginx does.
const OF_NGINX: [(&str, &str); 2] = [
    ("args", "say the query in a `rewrite`: `/path?a=1` adds to it, and `/path?` is without one"),
    ("limit_rate", "write `limit_rate`, in a location of its own for each value"),
];

/// `set`, where `test` holds.
fn set<'s>(way: &mut NginxWay<'s>, statement: &'s Statement, test: &NginxTest) {
    let ledger = way.scope.ledger;
    let mut words = ledger.words(statement);
    let (Some(name), Some(text)) = (words.text().and_then(|name| name.strip_prefix('$')), words.text())
    else {
        return ledger.unsupported(statement, "`set` takes a variable and a value");
    };
    if let Some((_, advice)) = OF_NGINX.iter().find(|(known, _)| *known == name) {
        return ledger.unsupported(statement, advice);
    }
    let cases = match way.cases_of(text) {
        Ok(cases) => cases,
        // What uses it says that it is not there.
        Err(unknown) => {
            ledger.exact(statement);
            way.values.remove(name);
            return way.scope.define(name, NginxVariable::Unknown(unknown.advice));
        }
    };
    ledger.exact(statement);
    if *test == NginxTest::Known(true) {
        return way.define(name, cases);
    }
    let before = match way.values.get(name) {
        Some(cases) => cases.clone(),
        None => match way.scope.variable(name) {
            Some(NginxVariable::Text(text)) => vec![(NginxTest::Known(true), text)],
            Some(NginxVariable::Unknown(_)) => return,
            None => vec![(NginxTest::Known(true), String::new())],
        },
    };
    let own = cases.into_iter().map(|(own, value)| (NginxTest::all([test.clone(), own]), value));
    let all: Cases =
        own.chain(before).filter(|(test, _)| *test != NginxTest::Known(false)).take(WAYS_MAX + 1).collect();
    if all.len() > WAYS_MAX || all.iter().map(|(test, _)| test.size()).sum::<usize>() > 4 * TESTS_MAX {
        way.values.remove(name);
        let advice = format!("`${name}` has too many values, by `if`");
        return way.scope.define(name, NginxVariable::Unknown(advice));
    }
    way.define(name, all);
}

/// Statements behind one that always ends.
fn never_reached(way: &NginxWay<'_>, statements: &[&Statement]) {
    for statement in statements.iter().filter(|statement| !way.scope.ledger.is_settled(statement)) {
        way.scope.ledger.meaningless(statement, "no request comes as far as this");
        never_reached(way, &statement.children().iter().collect::<Vec<_>>());
    }
}

/// What is in an `if` that cannot be translated.
fn refuse(way: &NginxWay<'_>, statement: &Statement) {
    way.scope.ledger.unsupported(statement, "the `if` around it is not supported");
    statement.children().iter().for_each(|child| refuse(way, child));
}
