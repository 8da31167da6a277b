//! What holds at a place: directives of a location and of the levels around it, by nginx's rule of inheritance, that the innermost level that
//! has a directive at all decides; and what variables are there.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::document::DraftTable;
use crate::report::{Ledger, StatementWords};
use crate::source::Statement;

/// The levels around a place, from `http` inwards.
#[derive(Clone)]
pub(super) struct Scope<'s> {
    pub(super) ledger: &'s Ledger,
    levels: Vec<ScopeLevel<'s>>,
    /// What the location around this place matches by.
    pub(super) place: NginxPlace,
    /// Whether `rewrite ... break` has changed the path, so that `proxy_pass` does not replace a prefix of it.
    pub(super) is_rewritten: bool,
    /// Whether it has surely done so, and not only where an expression matches.
    pub(super) is_surely_rewritten: bool,
    /// Whether the innermost level is the block of an `if`.
    in_condition: bool,
    /// Whether clients come by TLS, where that is known.
    pub(super) has_tls: Option<bool>,
    /// Whether it is in the default server of its address, which has the requests of all other hosts.
    pub(super) is_default: bool,
    variables: Rc<BTreeMap<String, NginxVariable>>,
    declared: Rc<Declared<'s>>,
}

/// A level: all that is in it, and what may be inherited, so that thousands of locations beside each other are not looked through for each.
#[derive(Clone)]
struct ScopeLevel<'s> {
    all: &'s [Statement],
    directives: Rc<[&'s Statement]>,
    /// Whether anything in it is only for requests that come from inside.
    has_internal: bool,
}

impl<'s> ScopeLevel<'s> {
    fn new(all: &'s [Statement]) -> Self {
        let inherited = all.iter().filter(|one| !matches!(one.name(), "location" | "server"));
        ScopeLevel { all, directives: inherited.collect(), has_internal: has_internal(all) }
    }

    /// The statements among which one of this name may be.
    fn named(&self, name: &str) -> Vec<&'s Statement> {
        if matches!(name, "location" | "server") {
            return self.all.iter().filter(|one| one.name() == name).collect();
        }
        self.directives.iter().copied().filter(|one| one.name() == name).collect()
    }
}

/// How many statements there are in a block, and in those of these names in it.
fn sets(block: &[Statement], is_set: &dyn Fn(&Statement) -> bool, into: &[&str]) -> usize {
    let inner = |one: &Statement| {
        if into.contains(&one.name()) { sets(one.children(), is_set, into) } else { 0 }
    };
    block.iter().map(|one| usize::from(is_set(one)) + inner(one)).sum()
}

fn has_internal(block: &[Statement]) -> bool {
    block.iter().any(|one| one.name() == "internal" || has_internal(one.children()))
}

/// What a location matches by, as nginx compares it: decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NginxPlace {
    /// Outside of locations.
    Server,
    Prefix(String),
    Exact(String),
    Regex,
    Named,
}

/// What a variable of the file (`set`, `map`, `geo`, captures) stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NginxVariable {
    /// A text with Weir's placeholders, in which braces of the text itself are doubled.
    Text(String),
    /// It is there, but Weir cannot say it: why, and what to do.
    Unknown(String),
}

/// What stands beside servers and may be named from anywhere.
#[derive(Default)]
pub(super) struct Declared<'s> {
    /// `map`, `geo` and `split_clients`, by the variable that they define, without its dollar.
    pub(super) maps: BTreeMap<String, &'s Statement>,
    /// Maps that conditions need, by their names.
    pub(super) made: RefCell<Vec<(String, DraftTable)>>,
}

impl<'s> Scope<'s> {
    pub(super) fn new(ledger: &'s Ledger, declared: Declared<'s>) -> Self {
        Scope {
            ledger,
            levels: Vec::new(),
            place: NginxPlace::Server,
            is_rewritten: false,
            is_surely_rewritten: false,
            has_tls: None,
            is_default: false,
            in_condition: false,
            variables: Rc::default(),
            declared: Rc::new(declared),
        }
    }

    /// The place within a block at this place.
    pub(super) fn within(&self, block: &'s [Statement]) -> Scope<'s> {
        let mut scope = self.clone();
        scope.levels.push(ScopeLevel::new(block));
        scope
    }

    /// The place within the block of an `if`, in place of that of an `if` before it: each inherits from the location.
    pub(super) fn within_condition(&self, block: &'s [Statement]) -> Scope<'s> {
        let mut scope = self.clone();
        if scope.in_condition {
            scope.levels.pop();
        }
        scope.levels.push(ScopeLevel::new(block));
        scope.in_condition = true;
        scope
    }

    /// The innermost directive of several names.
    pub(super) fn innermost(&self, names: &[&str]) -> Option<&'s Statement> {
        let of_level = |level: &ScopeLevel<'s>| {
            level.directives.iter().copied().rev().find(|one| names.contains(&one.name()))
        };
        self.levels.iter().rev().find_map(of_level)
    }

    /// The same place in which a variable stands for something.
    pub(super) fn define(&mut self, name: &str, variable: NginxVariable) {
        Rc::make_mut(&mut self.variables).insert(name.to_owned(), variable);
    }

    /// Puts another text in place of a placeholder in all variables.
    pub(super) fn replace_in_variables(&mut self, placeholder: &str, text: &str) {
        for variable in Rc::make_mut(&mut self.variables).values_mut() {
            if let NginxVariable::Text(known) = variable {
                *known = known.replace(placeholder, text);
            }
        }
    }

    /// The path is another one from here on: variables that were set to that of before have a value that Weir does not keep.
    pub(super) fn change_path(&mut self, with_query: bool) {
        let made = self.declared.made.borrow();
        let is_of = |text: &str| {
            let names: &[&str] =
                if with_query { &["{path}", "{path|", "{args", "{query"] } else { &["{path}", "{path|"] };
            names.iter().any(|name| text.contains(name))
        };
        let asks_made = |text: &str| {
            made.iter().any(|(name, map)| {
                text.contains(&format!("{{map.{name}}}")) && map.text("source").is_some_and(is_of)
            })
        };
        let stale: Vec<String> = self
            .variables
            .iter()
            .filter(|(_, variable)| {
                matches!(variable, NginxVariable::Text(text) if is_of(text) || asks_made(text))
            })
            .map(|(name, _)| name.clone())
            .collect();
        drop(made);
        for name in stale {
            let advice = format!(
                "`${name}` has what a `rewrite` has changed since: write the `rewrite` behind what uses it, or `$request_uri`"
            );
            self.define(&name, NginxVariable::Unknown(advice));
        }
    }

    /// What a variable of the file stands for, by its name without the dollar; captures are `1` and so on.
    pub(super) fn variable(&self, name: &str) -> Option<NginxVariable> {
        if let Some(known) = self.variables.get(name) {
            return Some(known.clone());
        }
        let Some(map) = self.declared.maps.get(name) else {
            return self.is_set_here_alone(name).then(|| NginxVariable::Text(String::new()));
        };
        if map.name() == "split_clients" {
            return Some(NginxVariable::Unknown(format!("`${name}` is drawn by `split_clients`")));
        }
        Some(NginxVariable::Text(format!("{{map.{name}}}")))
    }

    /// Whether `set` or a group has given a variable a value here.
    pub(super) fn is_set(&self, name: &str) -> bool {
        self.variables.contains_key(name)
    }

    /// Whether a variable is set in the levels around this place and nowhere else, so that no other location can have given it a value: it is
    /// empty where none of these `set` was asked.
    fn is_set_here_alone(&self, name: &str) -> bool {
        let is_set = |one: &Statement| {
            one.name() == "set"
                && one.words.get(1).is_some_and(|word| word.text.strip_prefix('$') == Some(name))
        };
        let here = self.levels.iter().map(|level| sets(level.all, &is_set, &["if"])).sum::<usize>();
        here > 0 && here == sets(self.outermost(), &is_set, &["if", "server", "location"])
    }

    /// The `map`, `geo` or `split_clients` that defines a variable.
    pub(super) fn map(&self, name: &str) -> Option<&'s Statement> {
        self.declared.maps.get(name).copied()
    }

    /// All of them, by their variables.
    pub(super) fn maps(&self) -> impl Iterator<Item = (&str, &'s Statement)> {
        self.declared.maps.iter().map(|(name, statement)| (name.as_str(), *statement))
    }

    /// A map that the file does not have, under a name like `wish`: its name. It is left out again if nothing names it.
    pub(super) fn make_map(&self, wish: &str, table: DraftTable) -> String {
        let mut made = self.declared.made.borrow_mut();
        if let Some((name, _)) = made.iter().find(|(_, known)| *known == table) {
            return name.clone();
        }
        let is_free = |name: &String| {
            !self.declared.maps.contains_key(name) && !made.iter().any(|(known, _)| known == name)
        };
        let numbered = (2..).map(|number| format!("{wish}_{number}"));
        let name = std::iter::once(wish.to_owned()).chain(numbered).find(is_free).unwrap_or_default();
        made.push((name.clone(), table));
        name
    }

    /// Maps that the file does not have.
    pub(super) fn made_maps(&self) -> Vec<(String, DraftTable)> {
        self.declared.made.borrow().clone()
    }

    /// The statements of the outermost level: those of `http`, where `upstream`, `limit_req_zone`, `proxy_cache_path`, `log_format` stand.
    pub(super) fn outermost(&self) -> &'s [Statement] {
        self.levels.first().map(|level| level.all).unwrap_or_default()
    }

    /// The directive of this name that holds here.
    pub(super) fn one(&self, name: &str) -> Option<&'s Statement> {
        self.all(name).into_iter().last()
    }

    /// All directives of this name of the innermost level that has any.
    pub(super) fn all(&self, name: &str) -> Vec<&'s Statement> {
        for level in self.levels.iter().rev() {
            let found = level.named(name);
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// All directives of these names of the innermost level that has any of them: for those that are inherited together.
    pub(super) fn any_of(&self, names: &[&str]) -> Vec<&'s Statement> {
        for level in self.levels.iter().rev() {
            let named = level.directives.iter().copied().filter(|one| names.contains(&one.name()));
            let found: Vec<&Statement> = named.collect();
            if !found.is_empty() {
                return found;
            }
        }
        Vec::new()
    }

    /// The directive of this name that holds here, and its first word, which counts as read.
    pub(super) fn text(&self, name: &str) -> Option<(&'s Statement, &'s str)> {
        let statement = self.one(name)?;
        Some((statement, self.words(statement).text().unwrap_or_default()))
    }

    /// Whether the directive that holds here says `on`.
    pub(super) fn is_on(&self, name: &str) -> bool {
        self.one(name).is_some_and(|statement| statement.words.get(1).is_some_and(|word| word.text == "on"))
    }

    /// The statements of the server around this place.
    pub(super) fn server(&self) -> &'s [Statement] {
        self.levels.get(1).map(|level| level.all).unwrap_or_default()
    }

    /// Whether the server around this place has anything that is only for requests that come from inside.
    pub(super) fn has_internal(&self) -> bool {
        self.levels.get(1).is_some_and(|level| level.has_internal)
    }

    /// The place in the server, outside of its locations.
    pub(super) fn of_server(&self) -> Scope<'s> {
        let mut scope = self.clone();
        scope.levels.truncate(2);
        scope.place = NginxPlace::Server;
        scope.is_rewritten = false;
        scope.is_surely_rewritten = false;
        scope
    }

    /// The directives of the innermost level alone.
    pub(super) fn own(&self, name: &str) -> Vec<&'s Statement> {
        self.levels.last().map(|level| level.named(name)).unwrap_or_default()
    }

    /// All levels, from the outermost one.
    pub(super) fn levels_of_text(&self) -> Vec<&'s [Statement]> {
        self.levels.iter().map(|level| level.all).collect()
    }

    /// The level in which a directive stands.
    pub(super) fn level_of(&self, statement: &Statement) -> &'s [Statement] {
        let has = |level: &&ScopeLevel<'s>| level.directives.iter().any(|one| one.id == statement.id);
        self.levels.iter().rev().find(has).map(|level| level.all).unwrap_or_default()
    }

    /// The words of a directive.
    pub(super) fn words(&self, statement: &'s Statement) -> StatementWords<'s> {
        self.ledger.words(statement)
    }
}
