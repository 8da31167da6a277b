//! From the directives of a site to routes in an order: each directive that answers becomes a route, with what those before it add.

use super::auth;
use super::errors;
use super::fields;
use super::files;
use super::matchers::{CaddyMatch, DirectiveMatcher, MatcherTable};
use super::options::refuse_whole;
use super::order::sorted;
use super::proxy;
use super::responses;
use super::scope::{CaddySettings, RouteBuilder, RouteScope};
use super::settings;
use crate::document::TomlValue;
use crate::report::Ledger;
use crate::source::Statement;

/// The most routes of a site: directives with matchers multiply them.
const ROUTES_MAX: usize = 2000;

/// What becomes of requests for which a directive cannot be said.
const CLOSED: &str = "until then, requests that it may be for are answered 501";

/// Why a directive has no requests.
const BEHIND: &str = "a directive before it, in Caddy's order, takes all of its requests";

/// How deep `handle` and `route` may stand in each other.
const DEPTH_MAX: usize = 16;

impl<'s> RouteBuilder<'s, '_> {
    /// The routes of a block, as a site is.
    pub(super) fn site(&mut self, block: &'s [Statement], matched: CaddyMatch, statement: &'s Statement) {
        let matchers = MatcherTable::default().within(block);
        let mut scope =
            RouteScope { matched, settings: CaddySettings::default(), depth: 0, owner: statement };
        self.error_pages(block, &mut scope.settings);
        let directives = sorted(block, &matchers);
        self.directives(&directives, &matchers, scope);
        matchers.settle_unused(self.ledger);
    }

    /// `handle_errors` is for all that the site answers.
    fn error_pages(&mut self, block: &'s [Statement], settings: &mut CaddySettings<'s>) {
        let root = block.iter().find(|one| one.name() == "root").and_then(|one| one.words.last());
        let root = root.map(|word| word.text.as_str()).filter(|root| !root.contains('{'));
        let mut pages: Vec<TomlValue> = Vec::new();
        for statement in block.iter().filter(|one| one.name() == "handle_errors") {
            if has_bare_answer(block) {
                let difference = "`respond` without a body and with a status from 400 on has the page, too";
                self.ledger.approximated(statement, difference);
            }
            pages.extend(errors::read(self, statement, root));
            if !pages.is_empty() {
                settings.keys.retain(|(key, ..)| *key != "error_pages");
                settings.keys.push(("error_pages", TomlValue::Array(pages.clone()), statement));
            }
        }
    }

    /// Routes of directives in the order in which they are carried out, for every request of the scope.
    fn directives(
        &mut self,
        directives: &[&'s Statement],
        matchers: &MatcherTable<'s>,
        mut scope: RouteScope<'s>,
    ) {
        // Settings for requests that exclude each other would multiply without an end.
        if scope.matched.is_never {
            return;
        }
        for (index, statement) in directives.iter().enumerate() {
            let (statement, rest): (&'s Statement, _) = (statement, &directives[index + 1..]);
            if self.routes.len() >= ROUTES_MAX || scope.depth > DEPTH_MAX {
                self.ledger.unsupported(statement, "the site comes to too many routes: split it");
                return;
            }
            let matcher = match matchers.of(statement, self.ledger) {
                DirectiveMatcher::Any => CaddyMatch::default(),
                DirectiveMatcher::Some(matcher) => matcher,
                DirectiveMatcher::Unsupported(why) => {
                    refuse_whole(statement, &why, self.ledger);
                    let known = matchers.known_of(statement, self.ledger);
                    match self.unsaid(statement, known, &mut scope) {
                        DirectiveOutcome::GoesOn => continue,
                        taken => return self.settle_behind(rest, &scope, &taken),
                    }
                }
            };
            if scope.settings.is_rewritten && matcher.asks_path() {
                let advice =
                    "its path is compared with one that was rewritten before: write the route by hand";
                refuse_whole(statement, advice, self.ledger);
                match self.unsaid(statement, matcher.without_path(), &mut scope) {
                    DirectiveOutcome::GoesOn => continue,
                    taken => return self.settle_behind(rest, &scope, &taken),
                }
            }
            match self.directive(statement, &matcher, matchers, rest, &mut scope) {
                DirectiveOutcome::GoesOn => {}
                taken => return self.settle_behind(rest, &scope, &taken),
            }
        }
        // Caddy answers with nothing what no directive takes.
        scope.settings.keys.retain(|(key, ..)| !matches!(*key, "rewrite" | "replace_regex" | "limits"));
        scope.settings.stripped = None;
        self.push(&scope, scope.owner, |route| {
            route.set_plain("respond", TomlValue::inline([("status", 200_i64.into())]));
        });
    }

    /// Directives behind one that takes all requests.
    fn settle_behind(&self, rest: &[&'s Statement], scope: &RouteScope<'s>, taken: &DirectiveOutcome) {
        // Within a block, they are for other requests as well.
        if scope.depth > 0 {
            return;
        }
        for statement in rest.iter().filter(|statement| !self.ledger.is_settled(statement)) {
            match (statement.name(), taken) {
                ("tls" | "log" | "bind" | "handle_errors", _) => {}
                (_, DirectiveOutcome::Closes) => refuse_whole(statement, BEHIND, self.ledger),
                _ => {
                    self.ledger.meaningless(statement, BEHIND);
                    settle_unreached(statement.children(), self.ledger);
                }
            }
        }
    }

    fn directive(
        &mut self,
        statement: &'s Statement,
        matcher: &CaddyMatch,
        matchers: &MatcherTable<'s>,
        rest: &[&'s Statement],
        scope: &mut RouteScope<'s>,
    ) -> DirectiveOutcome {
        if fields::removes_by_pattern(statement) {
            refuse_whole(statement, fields::BY_PATTERN, self.ledger);
            return self.close(statement, matcher.clone(), scope);
        }
        match statement.name() {
            "handle" | "handle_path" | "route" => {
                return self.nested(statement, matcher, (matchers, rest), scope);
            }
            "header" | "request_header" => {
                let CaddySettings { request, response, .. } = &mut scope.settings;
                fields::read(statement, matcher, self.ledger, (request, response));
                return DirectiveOutcome::GoesOn;
            }
            _ => {}
        }
        if let Some(apply) = settings::of(statement.name()) {
            let mut with = scope.clone();
            let read = match apply {
                settings::SettingKind::ForwardAuth => auth::forward_auth(self, statement, &mut with.settings),
                settings::SettingKind::Plain(read) => read(self.ledger, statement, &mut with.settings),
            };
            if read.is_none() {
                if !is_of_path(statement.name()) {
                    return DirectiveOutcome::GoesOn;
                }
                // What is behind it would get a path that is not meant for it.
                return self.close(statement, matcher.clone(), scope);
            }
            return self.with_setting(matcher, with, (matchers, rest), scope);
        }
        let mut own = scope.clone();
        own.matched = own.matched.and(matcher.clone());
        let is_answer = match statement.name() {
            "reverse_proxy" => proxy::reverse_proxy(self, statement, &own),
            "file_server" => files::file_server(self, statement, &own),
            "php_fastcgi" => files::php_fastcgi(self, statement, &own, rest),
            "respond" | "redir" | "error" | "abort" => responses::answer(self, statement, &own),
            // Of the site as a whole.
            "tls" | "log" | "bind" | "handle_errors" => return DirectiveOutcome::GoesOn,
            // Its names have been replaced.
            "map" | "vars" if self.ledger.is_settled(statement) => return DirectiveOutcome::GoesOn,
            name => {
                refuse_whole(statement, advice(name), self.ledger);
                return self.unsaid(statement, matcher.clone(), scope);
            }
        };
        if is_answer && matcher.is_any() { DirectiveOutcome::Takes } else { DirectiveOutcome::GoesOn }
    }

    /// A directive that cannot be said, of whose requests this is known. Those that it may answer, or keep from what is behind it, get 501.
    fn unsaid(
        &mut self,
        statement: &'s Statement,
        known: CaddyMatch,
        scope: &mut RouteScope<'s>,
    ) -> DirectiveOutcome {
        match statement.name() {
            "basic_auth" | "basicauth" | "forward_auth" => scope.settings.is_forbidden = Some(statement),
            "request_header" if !fields::removes_by_pattern(statement) => {
                fields::remove_named(statement, &known, self.ledger, &mut scope.settings.request);
            }
            name if keeps_nothing_out(name) => {}
            _ => return self.close(statement, known, scope),
        }
        DirectiveOutcome::GoesOn
    }

    /// Answers 501 to the requests of a scope of which this is known.
    fn close(
        &mut self,
        statement: &'s Statement,
        known: CaddyMatch,
        scope: &RouteScope<'s>,
    ) -> DirectiveOutcome {
        self.ledger.unsupported(statement, CLOSED);
        let takes_all = known.is_any();
        let mut own = scope.clone();
        own.matched = own.matched.and(known);
        own.settings.keys.retain(|(key, ..)| matches!(*key, "basic" | "forward_auth" | "access_log"));
        own.settings.stripped = None;
        self.push(&own, statement, |route| {
            route.set_plain("respond", TomlValue::inline([("status", 501_i64.into())]));
        });
        if takes_all { DirectiveOutcome::Closes } else { DirectiveOutcome::GoesOn }
    }

    /// A setting for some requests makes two sets of routes: one for those, and one for the others.
    fn with_setting(
        &mut self,
        matcher: &CaddyMatch,
        mut with: RouteScope<'s>,
        (matchers, rest): (&MatcherTable<'s>, &[&'s Statement]),
        scope: &mut RouteScope<'s>,
    ) -> DirectiveOutcome {
        if matcher.is_any() {
            *scope = with;
            return DirectiveOutcome::GoesOn;
        }
        with.matched = with.matched.and(matcher.clone());
        with.depth += 1;
        self.directives(rest, matchers, with);
        DirectiveOutcome::GoesOn
    }

    /// `handle` keeps requests from other `handle`s; `route` does not sort.
    fn nested(
        &mut self,
        statement: &'s Statement,
        matcher: &CaddyMatch,
        (matchers, rest): (&MatcherTable<'s>, &[&'s Statement]),
        scope: &mut RouteScope<'s>,
    ) -> DirectiveOutcome {
        let mut inner = scope.clone();
        inner.depth += 1;
        inner.owner = statement;
        inner.matched = inner.matched.and(matcher.clone());
        if statement.name() == "handle_path"
            && !settings::strip_handled_path(statement, &mut inner.settings, self.ledger)
        {
            let advice = "only a path such as `/api/*` can be taken off: use `replace_regex` of the route";
            refuse_whole(statement, advice, self.ledger);
            return self.close(statement, matcher.clone(), scope);
        }
        self.ledger.exact(statement);
        let inside = matchers.within(statement.children());
        let directives: Vec<&'s Statement> = match statement.name() {
            "route" => statement.children().iter().filter(|child| !child.name().starts_with('@')).collect(),
            _ => sorted(statement.children(), &inside),
        };
        // What is behind it takes what its own directives do not.
        let is_other = |other: &&&'s Statement| {
            statement.name() == "route" || !matches!(other.name(), "handle" | "handle_path")
        };
        let behind: Vec<&'s Statement> = rest.iter().filter(is_other).copied().collect();
        let all: Vec<&'s Statement> = directives.into_iter().chain(behind).collect();
        if inner.matched.is_never {
            settle_unreached(statement.children(), self.ledger);
        }
        self.directives(&all, &inside, inner);
        if matcher.is_any() { DirectiveOutcome::Takes } else { DirectiveOutcome::GoesOn }
    }
}

/// Whether a directive changes the path that those behind it see.
fn is_of_path(name: &str) -> bool {
    matches!(name, "rewrite" | "uri" | "try_files")
}

/// Whether a directive neither answers nor refuses a request, nor leads it elsewhere.
fn keeps_nothing_out(name: &str) -> bool {
    [
        "header",
        "encode",
        "log_skip",
        "skip_log",
        "log_append",
        "log_name",
        "request_body",
        "method",
        "tracing",
        "metrics",
        "templates",
        "push",
        "intercept",
        "copy_response_headers",
        "map",
        "vars",
    ]
    .contains(&name)
}

/// Whether a status of failures is answered without a body somewhere.
fn has_bare_answer(block: &[Statement]) -> bool {
    block.iter().any(|statement| {
        let is_bare = statement.name() == "respond"
            && statement
                .words
                .last()
                .is_some_and(|word| word.text.len() == 3 && word.text.starts_with(['4', '5']))
            && !statement.words.iter().any(|word| word.quoted);
        is_bare || has_bare_answer(statement.children())
    })
}

/// What is in a block that no request comes to.
fn settle_unreached(block: &[Statement], ledger: &Ledger) {
    for statement in block.iter().filter(|statement| !ledger.is_settled(statement)) {
        ledger.meaningless(statement, "no request comes here");
        settle_unreached(statement.children(), ledger);
    }
}

/// What to do in place of a directive.
fn advice(name: &str) -> &'static str {
    match name {
        "templates" => "Weir makes no pages: let an application do it",
        "php_server" => "PHP runs beside Weir, as PHP-FPM: `fastcgi` of the route",
        "map" => "`[map.NAME]` with `source = \"{path}\"` and the like",
        "vars" => "`vars` of the listener or the route",
        "method" => "Weir sends the method of the client",
        "tracing" => "`[traces]`",
        "metrics" => "`[admin]` has `/metrics`",
        "intercept" | "copy_response_headers" => "`error_pages` with `of_servers`, or `response_headers`",
        "invoke" => "`then` of the route, with the `name` of another one",
        "push" => "browsers do not take pushes any more: leave it out",
        "log_append" | "log_name" => "`access_log` of the route",
        _ => "Weir has nothing like it, or it is of a module of Caddy that Weir does not know",
    }
}

/// What becomes of requests that a directive is for.
enum DirectiveOutcome {
    /// Those behind it have them, too, or those that it is not for.
    GoesOn,
    /// It answers all of them.
    Takes,
    /// It cannot be said, and may be for all of them: they get 501.
    Closes,
}
