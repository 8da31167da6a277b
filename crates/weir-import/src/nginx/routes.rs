//! Routes of a server: what is in front of its locations, its locations, and what it does with all else.

use super::actions::{
    FilesPlace, answer, closes, denied, empty_picture, error_pages, files, redirect, status, unavailable,
};
use super::leaves::{features, passes};
use super::locations::{self, NginxLocation, NginxMatcher, PASSES};
use super::rewrite::{NAMES, NginxTest, NginxWay, NginxWayEnd, RewriteEnd};
use super::scope::{NginxPlace, NginxVariable, Scope};
use super::servers::NginxServer;
use crate::document::{Draft, DraftTable, TomlValue};
use crate::source::Statement;

/// A route before its place among the others is known.
pub(super) struct RouteDraft {
    pub(super) matcher: NginxMatcher,
    pub(super) test: NginxTest,
    /// What has to hold beside `test` where the order of the routes decides.
    pub(super) test_in_order: NginxTest,
    pub(super) before_regex: bool,
    /// A path to which a slash is added.
    pub(super) adds_slash: bool,
    /// Which location it is of: those of one are in their order.
    pub(super) location: usize,
    /// For requests that come from inside.
    pub(super) table: DraftTable,
}

/// The routes of a server in the order in which they count.
#[derive(Default)]
pub(super) struct ServerRoutes {
    pub(super) routes: Vec<RouteDraft>,
    /// `rewrite` in front of all locations.
    pub(super) rewrites: Vec<TomlValue>,
}

/// What a route has that leads to another one by its name.
const OF_THEN: [&str; 3] = ["internal", "rewrite", "then"];

/// While routes of a server are made.
struct RouteMaker<'d, 's> {
    draft: &'d mut Draft,
    server: &'d NginxServer<'s>,
    routes: Vec<RouteDraft>,
}

/// `is_alone`: whether no other server has this address.
pub(super) fn routes<'s>(
    scope: &Scope<'s>,
    draft: &mut Draft,
    server: &NginxServer<'s>,
    is_alone: bool,
    needs_all: bool,
) -> ServerRoutes {
    let mut maker = RouteMaker { draft, server, routes: Vec::new() };
    let statements: Vec<&Statement> = rewriting(server.block);
    let ways = NginxWay::new(scope).through(&statements, false);
    let mut rewrites = Vec::new();
    let mut base = None;
    let conditions = ways.len() > 1;
    for way in ways {
        if matches!(way.end, NginxWayEnd::Content) && way.test == NginxTest::Known(true) {
            // Redirects have the fields of the server, which a listener may not have.
            let has_fields = scope.one("add_header").is_some() || scope.one("expires").is_some();
            let redirects = way.rewrites.iter().any(|rule| rule.is_redirect());
            if is_alone && !conditions && !(redirects && has_fields) {
                rewrites = way.rewrites.iter().map(|rule| rule.to_value()).collect();
            } else {
                maker.rewrites_in_front(&way);
            }
            base = Some(way);
        } else if matches!(way.end, NginxWayEnd::Content) {
            maker.rewrites_in_front(&way);
        } else {
            maker.whole_server(way);
        }
    }
    let Some(base) = base else {
        never_reached(scope, server.block);
        return ServerRoutes { routes: maker.routes, rewrites };
    };
    let locations = locations::flatten(scope.ledger, server.block);
    let has_root = locations.iter().any(|one| one.matcher == NginxMatcher::Prefix("/".to_owned()));
    for (index, location) in locations.iter().enumerate() {
        maker.location(scope, &base, location, index + 1);
    }
    if !has_root {
        maker.rest(scope, &base, needs_all, locations.len() + 1);
    }
    let mut routes = maker.routes;
    without_missing_names(scope, server, &mut routes);
    other_body_sizes(scope, &routes);
    own_fallbacks(&mut routes);
    ServerRoutes { routes, rewrites }
}

/// Locations by name that are not there: nginx answers 500 when it comes to one.
fn without_missing_names(scope: &Scope<'_>, server: &NginxServer<'_>, routes: &mut [RouteDraft]) {
    let names: Vec<String> = routes
        .iter()
        .filter_map(|route| match &route.matcher {
            NginxMatcher::Named(name) => Some(name.clone()),
            _ => None,
        })
        .collect();
    let is_missing =
        |text: &str| !text.starts_with(['/', '=', '{']) && !names.iter().any(|name| name == text);
    for route in routes {
        let missing = std::cell::RefCell::new(None);
        route.table.change_texts(&|key, text| {
            let found = key == "fallback" && is_missing(text);
            if found {
                *missing.borrow_mut() = Some(text.to_owned());
            }
            found.then(|| "=500".to_owned())
        });
        let then = route.table.text("then").map(ToOwned::to_owned).filter(|then| is_missing(then));
        if then.is_some() {
            route.table.remove("then");
            route.table.table("respond").set_plain("status", 500);
        }
        let pages = route.table.get("error_pages").cloned();
        if let Some(TomlValue::Array(pages)) = pages {
            let is_there = |page: &TomlValue| match page {
                TomlValue::Inline(keys) => !keys.iter().any(|(key, value)| {
                    key == "then" && matches!(value, TomlValue::Text(text) if is_missing(text))
                }),
                _ => true,
            };
            let kept: Vec<TomlValue> = pages.iter().filter(|page| is_there(page)).cloned().collect();
            if kept.len() < pages.len() {
                *missing.borrow_mut() = Some("error_page".to_owned());
                route.table.remove("error_pages");
                if !kept.is_empty() {
                    route.table.set_plain("error_pages", TomlValue::Array(kept));
                }
            }
        }
        let missing = missing.into_inner().or(then);
        if let (Some(name), Some(statement)) = (missing, server.statement.or_else(|| server.block.first())) {
            let difference = format!(
                "a location is named that is not there (`{name}`): nginx answers 500 where it comes to it"
            );
            scope.ledger.approximated(statement, &difference);
        }
    }
}

/// `try_files $uri /index.html` where the same location has `/index.html`: the last of the files. Requests with a body would go there at once, and in
/// a circle, since files do not take them.
fn own_fallbacks(routes: &mut [RouteDraft]) {
    let of_itself = |route: &RouteDraft| {
        let files = route.table.get_table("files")?;
        let to = files.text("fallback").filter(|to| to.starts_with('/') && !to.contains(['{', '?']))?;
        let NginxMatcher::Prefix(prefix) = &route.matcher else { return None };
        let target = NginxMatcher::Exact(to.to_owned());
        let is_other = |other: &RouteDraft| {
            let is_shorter =
                matches!(&other.matcher, NginxMatcher::Prefix(path) if path.len() < prefix.len());
            other.location != route.location
                && !is_shorter
                && other.matcher != NginxMatcher::Any
                && other.matcher.meets(&target)
        };
        let is_own = to.starts_with(prefix.as_str())
            && files.has("root")
            && !route.table.has("upstream")
            && (route.test == NginxTest::Known(true) || !route.test.to_string().contains("path"))
            && !routes.iter().any(is_other);
        is_own.then(|| to.to_owned())
    };
    let found: Vec<Option<String>> = routes.iter().map(of_itself).collect();
    for (route, to) in routes.iter_mut().zip(found) {
        let (Some(to), Some(origin)) = (to, route.table.origin()) else { continue };
        let files = route.table.table("files");
        files.remove("fallback");
        if !files.has("try_files") {
            files.set_by("try_files", vec!["{path}"], origin);
        }
        files.push_text("try_files", &to);
    }
}

/// nginx checks the size of a body in the location that the request comes to first, Weir in the one that takes it in the end.
fn other_body_sizes(scope: &Scope<'_>, routes: &[RouteDraft]) {
    let size = |route: &RouteDraft| {
        let limits = route.table.get_table("limits");
        limits.and_then(|limits| limits.text("body_size")).unwrap_or("1MiB").to_owned()
    };
    let named = |name: &str| {
        routes.iter().find(|route| matches!(&route.matcher, NginxMatcher::Named(known) if known == name))
    };
    for route in routes {
        let fallback = route.table.get_table("files").and_then(|files| files.text("fallback"));
        let Some(other) = fallback.and_then(named) else { continue };
        if let (Some(origin), true) = (route.table.origin(), size(route) != size(other)) {
            let difference =
                "the `client_max_body_size` of the location that takes the request in the end counts";
            scope.ledger.approximated_after_all(origin, difference);
        }
    }
}

/// The statements of `rewrite` and its like in a block.
fn rewriting(block: &[Statement]) -> Vec<&Statement> {
    block.iter().filter(|one| NAMES.contains(&one.name())).collect()
}

/// Locations of a server that answers everything before.
fn never_reached(scope: &Scope<'_>, block: &[Statement]) {
    for statement in
        block.iter().filter(|one| matches!(one.name(), "location" | "try_files" | "root" | "index"))
    {
        if !scope.ledger.is_settled(statement) {
            scope.ledger.meaningless(statement, "the server answers every request before");
            all_never_reached(scope, statement.children());
        }
    }
}

fn all_never_reached(scope: &Scope<'_>, block: &[Statement]) {
    for statement in block {
        scope.ledger.meaningless(statement, "the server answers every request before");
        all_never_reached(scope, statement.children());
    }
}

impl<'s> RouteMaker<'_, 's> {
    /// A way that ends in front of all locations.
    fn whole_server(&mut self, way: NginxWay<'s>) {
        let ways = split(way, self.server.block).into_iter().flat_map(|way| by_bare_host(way, self.server));
        let ways: Vec<NginxWay<'s>> = ways.collect();
        for mut way in ways {
            self.once(&mut way);
            let statement = match way.end {
                NginxWayEnd::Return(statement) => Some(statement),
                _ => self.server.statement,
            };
            let mut table = new_table(statement, self.routes.is_empty());
            finish(self.draft, &way, None, &mut table);
            self.push(NginxMatcher::Any, way.test.clone(), table, 0);
        }
    }

    /// A rewrite in front of all locations is asked once in nginx, here for each path: so not for that which it has made.
    fn once(&self, way: &mut NginxWay<'s>) {
        let (NginxWayEnd::Rewritten, Some(rule)) = (&way.end, way.rewrites.last()) else { return };
        if rule.redirect().is_some() || !rule.may_match_again() {
            return;
        }
        let (statement, ledger) = (rule.statement, way.scope.ledger);
        let path = rule.replacement.split('?').next().unwrap_or_default();
        let literal: String = path.chars().take_while(|c| !matches!(c, '$' | '{')).collect();
        let made = if literal == path {
            NginxTest::text(format!("path == \"{literal}\""))
        } else if literal.len() > 1 {
            let difference =
                "it is not for paths that begin as those that it makes, where nginx asks it once";
            ledger.approximated(statement, difference);
            NginxTest::begins(&literal)
        } else {
            ledger.unsupported(
                statement,
                "here it would be asked again for what it has made: write it into the locations",
            );
            way.end = NginxWayEnd::Refused(statement);
            return;
        };
        way.test = NginxTest::all([way.test.clone(), made.not()]);
    }

    /// Rewrites in front of all locations that a condition or a host is needed for.
    fn rewrites_in_front(&mut self, way: &NginxWay<'s>) {
        for rule in &way.rewrites {
            let ledger = way.scope.ledger;
            if rule.end == RewriteEnd::Continue || rule.redirect().is_none() && rule.may_match_again() {
                let advice = "write this rewrite in the locations that it is for: here it would be asked again for what it has made";
                ledger.unsupported(rule.statement, advice);
                continue;
            }
            let mut table = DraftTable::of(rule.statement);
            match rule.redirect() {
                Some((to, status)) => redirect(&way.scope, &mut table, rule.statement, (&to, status)),
                None => {
                    table.push("rewrite", rule.in_front(), rule.statement);
                    table.table("respond").set_plain("status", 404);
                }
            }
            if rule.is_redirect() {
                features::apply(&way.scope, self.draft, &mut table);
            }
            let matcher = match rule.test() {
                NginxTest::Known(true) => NginxMatcher::Any,
                _ => NginxMatcher::Regex(rule.pattern.clone()),
            };
            self.push(matcher, way.test.clone(), table, 0);
        }
    }

    fn push(&mut self, matcher: NginxMatcher, test: NginxTest, table: DraftTable, location: usize) {
        self.routes.push(RouteDraft {
            matcher,
            test,
            test_in_order: NginxTest::Known(true),
            before_regex: false,
            adds_slash: false,
            location,
            table,
        });
    }

    fn location(
        &mut self,
        server: &Scope<'s>,
        base: &NginxWay<'s>,
        location: &NginxLocation<'s>,
        index: usize,
    ) {
        let Some(statement) = location.statement else { return };
        if location.adds_slash {
            let mut table = DraftTable::silently_of(statement);
            table.set_plain(
                "redirect",
                TomlValue::inline([("to", "{path}/{query}".into()), ("status", 301.into())]),
            );
            self.push(location.matcher.clone(), location.guard.clone(), table, index);
            if let Some(route) = self.routes.last_mut() {
                route.adds_slash = true;
            }
            return;
        }
        let scope = self.scope_of(server, base, location);
        let start = base.in_location(&scope);
        let mut is_first = true;
        let mut ways = start.through(&rewriting(statement.children()), true);
        if is_named(location) {
            only_last(&scope, statement, &mut ways);
        }
        for way in ways {
            for way in split(way, statement.children()).into_iter().take(if is_named(location) {
                1
            } else {
                usize::MAX
            }) {
                let mut table = new_table(Some(statement), std::mem::take(&mut is_first));
                if scope.one("internal").is_some_and(|one| {
                    scope.ledger.exact(one);
                    true
                }) {
                    // A location by name is so in any case.
                    if !is_named(location) {
                        table.set_plain("internal", true);
                    }
                }
                finish(self.draft, &way, Some(location), &mut table);
                if let Some((methods, statement)) = limited_methods(&way, statement) {
                    let mut refusal = DraftTable::silently_of(statement);
                    refusal.table("respond").set("status", 403, statement);
                    error_pages(&way.scope, &mut refusal);
                    self.routes.push(RouteDraft {
                        matcher: location.matcher.clone(),
                        test: NginxTest::all([location.guard.clone(), way.test.clone(), methods]),
                        test_in_order: location.guard_in_order.clone(),
                        before_regex: location.before_regex,
                        adds_slash: false,
                        location: index,
                        table: refusal,
                    });
                }
                self.routes.push(RouteDraft {
                    matcher: location.matcher.clone(),
                    test: NginxTest::all([location.guard.clone(), way.test.clone()]),
                    test_in_order: location.guard_in_order.clone(),
                    before_regex: location.before_regex,
                    adds_slash: false,
                    location: index,
                    table,
                });
            }
        }
    }

    /// The place within a location.
    fn scope_of(&self, server: &Scope<'s>, base: &NginxWay<'s>, location: &NginxLocation<'s>) -> Scope<'s> {
        let mut scope = base.scope.clone();
        scope.is_rewritten = server.is_rewritten;
        scope.is_surely_rewritten = server.is_surely_rewritten;
        for around in &location.around {
            scope = scope.within(around.children());
        }
        scope.place = match &location.matcher {
            NginxMatcher::Any => NginxPlace::Server,
            NginxMatcher::Exact(_) => NginxPlace::Exact(written_path(location)),
            NginxMatcher::Prefix(_) => NginxPlace::Prefix(written_path(location)),
            NginxMatcher::Regex(_) => NginxPlace::Regex,
            NginxMatcher::Named(_) => NginxPlace::Named,
        };
        if let NginxMatcher::Regex(pattern) = &location.matcher {
            let numbers = (1..=pattern.groups().min(9)).map(|group| group.to_string());
            for group in numbers.chain(pattern.group_names()) {
                scope.define(&group, NginxVariable::Text(format!("{{match.{group}}}")));
            }
        }
        scope
    }

    /// What no location takes.
    fn rest(&mut self, scope: &Scope<'s>, base: &NginxWay<'s>, needs_all: bool, index: usize) {
        let has_files = scope.innermost(&["root"]).is_some() || !scope.own("try_files").is_empty();
        if !has_files && !needs_all && base.without_file.is_none() {
            return;
        }
        let mut table = self.server.statement.map(DraftTable::silently_of).unwrap_or_default();
        finish(self.draft, base, None, &mut table);
        self.push(NginxMatcher::Any, NginxTest::Known(true), table, index);
    }
}

fn is_named(location: &NginxLocation<'_>) -> bool {
    matches!(location.matcher, NginxMatcher::Named(_))
}

/// `limit_except GET { allow 10.0.0.0/8; deny all; }`: the methods that are refused, but for some addresses. What else it asks for is refused
/// to all.
fn limited_methods<'s>(way: &NginxWay<'s>, location: &'s Statement) -> Option<(NginxTest, &'s Statement)> {
    // Locations in it do not inherit it.
    let statement = location.children().iter().rev().find(|one| one.name() == "limit_except")?;
    if !matches!(way.end, NginxWayEnd::Content) {
        return None;
    }
    let ledger = way.scope.ledger;
    let mut methods: Vec<String> =
        ledger.words(statement).rest().iter().map(|word| word.text.to_ascii_uppercase()).collect();
    if methods.iter().any(|method| method == "GET") && !methods.iter().any(|method| method == "HEAD") {
        methods.push("HEAD".to_owned());
    }
    let list: Vec<String> = methods.iter().map(|method| format!("\"{method}\"")).collect();
    let others = NginxTest::text(format!("method in [{}]", list.join(", "))).not();
    let Some((deny, allows)) = statement.children().split_last() else {
        ledger.meaningless(statement, "it asks for nothing");
        return None;
    };
    let address = |one: &Statement| {
        let text = one.words.get(1)?.text.as_str();
        let host = text.split('/').next()?;
        (one.name() == "allow" && host.parse::<std::net::IpAddr>().is_ok()).then(|| format!("'{text}'"))
    };
    let is_all = deny.name() == "deny" && deny.words.get(1).is_some_and(|word| word.text == "all");
    let addresses: Option<Vec<String>> = allows.iter().map(address).collect();
    let (true, Some(addresses)) = (is_all, addresses) else {
        ledger.unsupported(
            statement,
            "all other methods are refused: write a route with `method`, and what it asks for",
        );
        statement
            .children()
            .iter()
            .for_each(|one| ledger.unsupported(one, "the block around it is not imported"));
        return Some((others, statement));
    };
    ledger.exact(statement);
    for one in statement.children() {
        ledger.words(one).rest();
        ledger.exact(one);
    }
    let test = match addresses.as_slice() {
        [] => others,
        some => {
            let known = NginxTest::text(format!("client_address in [{}]", some.join(", ")));
            NginxTest::all([others, known.not()])
        }
    };
    Some((test, statement))
}

/// A location by name is one route: conditions in it cannot choose another.
fn only_last<'s>(scope: &Scope<'s>, statement: &'s Statement, ways: &mut Vec<NginxWay<'s>>) {
    let count = ways.len();
    if count < 2 {
        return;
    }
    ways.drain(..count - 1);
    for way in ways.iter_mut() {
        way.test = NginxTest::Known(true);
    }
    for one in statement.children().iter().filter(|one| one.name() == "if") {
        scope
            .ledger
            .unsupported(one, "write the condition where requests are led to this location by its name");
    }
}

/// The path as it is written.
fn written_path(location: &NginxLocation<'_>) -> String {
    let words = location.statement.map(|statement| statement.words.as_slice()).unwrap_or_default();
    words.last().map(|word| word.text.trim_start_matches(['=', '^', '~']).to_owned()).unwrap_or_default()
}

fn new_table(statement: Option<&Statement>, with_comments: bool) -> DraftTable {
    match statement {
        Some(statement) if with_comments => DraftTable::of(statement),
        Some(statement) => DraftTable::silently_of(statement),
        None => DraftTable::default(),
    }
}

/// A way for each value of variables that directives of the place name.
fn split<'s>(way: NginxWay<'s>, block: &'s [Statement]) -> Vec<NginxWay<'s>> {
    let levels = way.scope.levels_of_text();
    let inner = way.block.map(Statement::children).unwrap_or_default();
    let answer = match way.end {
        NginxWayEnd::Return(statement) => Some(statement),
        _ => None,
    };
    way.by_values(|name| {
        let named = |statement: &Statement| {
            statement.words.iter().any(|word| {
                word.text.contains(&format!("${name}")) || word.text.contains(&format!("${{{name}}}"))
            })
        };
        let is_text = |statement: &&Statement| {
            !NAMES.contains(&statement.name()) && !matches!(statement.name(), "location" | "server")
        };
        let in_levels = levels.iter().flat_map(|level| level.iter()).filter(is_text).any(named);
        let in_block = block.iter().chain(inner).filter(is_text).any(named);
        in_levels || in_block || answer.is_some_and(named)
    })
}

/// `if ($host ~* ^www\.(.*)$) { ... $1 ... }`: Weir redirects to hosts that are written out, so one way for each name of the server.
fn by_bare_host<'s>(way: NginxWay<'s>, server: &NginxServer<'s>) -> Vec<NginxWay<'s>> {
    let (NginxWayEnd::Return(_) | NginxWayEnd::Rewritten) = way.end else { return vec![way] };
    let groups = groups_of_host(&way);
    if groups.is_empty() {
        return vec![way];
    }
    let pattern = ["^www\\.(.*)$", "^www\\.(.+)$", "^www\\.(.*)", "^www\\.(.+)"];
    let test = way.test.to_string();
    if !pattern.iter().any(|one| test.contains(one))
        || !test.starts_with("host.matches(")
        || test.contains("&&")
    {
        return vec![way];
    }
    let names = &server.names.exact;
    let mut bare: Vec<&str> = names.iter().map(|name| name.strip_prefix("www.").unwrap_or(name)).collect();
    bare.dedup();
    let fixed = bare.into_iter().map(|name| {
        let mut way = way.clone();
        way.test = NginxTest::text(format!("host == \"www.{name}\""));
        groups.iter().for_each(|group| way.fix_maps(group, name));
        way
    });
    let ways: Vec<NginxWay<'s>> = fixed.collect();
    if ways.is_empty() {
        return vec![way];
    }
    let takes_others = way.scope.is_default || !server.names.wildcards.is_empty() || server.names.has_tests();
    if let (true, Some(statement)) = (takes_others, server.names.statement) {
        let difference = "of hosts that begin with `www.`, those are redirected that are written out here or without it, and others that come to this server are not";
        way.scope.ledger.approximated(statement, difference);
    }
    ways
}

/// The maps of groups of an expression on the host that the answer or the rewrite of a way names.
fn groups_of_host(way: &NginxWay<'_>) -> Vec<String> {
    let mut texts: Vec<String> = way.rewrites.iter().map(|rule| rule.replacement.clone()).collect();
    if let NginxWayEnd::Return(statement) = way.end {
        let words = statement.words.iter().skip(1);
        texts.extend(words.filter_map(|word| super::variables::template(&way.scope, &word.text).ok()));
    }
    let made = way.scope.made_maps().into_iter().filter(|(_, map)| map.text("source") == Some("{host}"));
    let is_used = |name: &String| texts.iter().any(|text| text.contains(&format!("{{map.{name}}}")));
    made.map(|(name, _)| name).filter(is_used).collect()
}

/// What a way does, and all else that holds there.
fn finish<'s>(
    draft: &mut Draft,
    way: &NginxWay<'s>,
    location: Option<&NginxLocation<'s>>,
    table: &mut DraftTable,
) {
    let scope = &way.scope;
    match way.end {
        NginxWayEnd::Return(statement) => {
            push_rewrites(way, table);
            answer(scope, statement, table);
        }
        NginxWayEnd::Rewritten => rewritten(way, table),
        NginxWayEnd::Refused(statement) => unavailable(statement, table),
        NginxWayEnd::Content => {
            push_rewrites(way, table);
            content(draft, way, location, table);
        }
    }
    error_pages(scope, table);
    features::apply(scope, draft, table);
    if let NginxWayEnd::Return(statement) = way.end
        && closes(statement)
    {
        features::close(draft, table, statement);
    }
    if table.has("then") {
        let others: Vec<String> =
            table.keys().filter(|key| !OF_THEN.contains(key)).map(ToOwned::to_owned).collect();
        others.iter().for_each(|key| table.remove(key));
    }
    if matches!(way.end, NginxWayEnd::Content) && denied(scope).is_some() {
        // Every request is refused by the answer itself.
        table.remove("lists");
    }
}

fn push_rewrites(way: &NginxWay<'_>, table: &mut DraftTable) {
    for rule in &way.rewrites {
        if matches!(way.end, NginxWayEnd::Return(_)) && rule.end == RewriteEnd::Continue {
            continue;
        }
        table.push("rewrite", rule.to_value(), rule.statement);
    }
}

/// Where the last rewrite matches every path.
fn rewritten(way: &NginxWay<'_>, table: &mut DraftTable) {
    let Some((last, before)) = way.rewrites.split_last() else { return };
    for rule in before {
        table.push("rewrite", rule.to_value(), rule.statement);
    }
    match last.redirect() {
        Some((to, status)) => redirect(&way.scope, table, last.statement, (&to, status)),
        None => {
            table.push("rewrite", last.to_value(), last.statement);
            table.table("respond").set_plain("status", 404);
        }
    }
}

fn content<'s>(
    draft: &mut Draft,
    way: &NginxWay<'s>,
    location: Option<&NginxLocation<'s>>,
    table: &mut DraftTable,
) {
    let scope = &way.scope;
    if let Some(statement) = denied(scope) {
        table.table("respond").set("status", 403, statement);
        scope.ledger.exact(statement);
        return;
    }
    let statement = location.and_then(|location| location.statement);
    let of_block = |block: &'s [Statement]| block.iter().rev().find(|one| PASSES.contains(&one.name()));
    let inner = way.block.map(Statement::children).unwrap_or_default();
    let pass = of_block(inner).or_else(|| of_block(statement.map(Statement::children).unwrap_or_default()));
    let own = |name: &str| statement.into_iter().flat_map(Statement::children).find(|one| one.name() == name);
    if let Some(counts) = own("stub_status") {
        return status(scope, draft, counts, table);
    }
    if let Some(picture) = own("empty_gif").filter(|_| pass.is_none()) {
        return empty_picture(scope, picture, table);
    }
    let any = NginxMatcher::Any;
    let matcher = location.map_or(&any, |location| &location.matcher);
    let place = FilesPlace {
        scope,
        matcher,
        statement,
        tries: way.block.is_none(),
        without_file: way.without_file.as_ref(),
    };
    let Some(pass) = pass else {
        files(&place, table);
        if matches!(matcher, NginxMatcher::Any | NginxMatcher::Prefix(_)) && place.tries {
            super::scripts::of_folders(scope, draft, table);
        }
        return;
    };
    passes::pass(scope, draft, table, pass);
    if let Some(missing) = &way.without_file {
        super::scripts::without_file(scope, pass, missing, table);
    }
    let has_folder = table.has("files")
        || table.get_table("fastcgi").is_some_and(|own| own.has("root") || own.text("script") == Some(""));
    if pass.name() == "fastcgi_pass" && table.has("upstream") && !has_folder {
        table.table("fastcgi").set("root", "/usr/share/nginx/html", pass);
        scope.ledger.approximated(
            pass,
            "there is no `root`: scripts are below the folder that nginx of distributions has",
        );
    }
    let is_script = |own: &DraftTable| own.has("script") || own.has("split_path");
    if pass.name() == "fastcgi_pass"
        && table.has("upstream")
        && !table.has("files")
        && !table.get_table("fastcgi").is_some_and(is_script)
        && !names_scripts(matcher)
    {
        let difference =
            "a path in which no name ends with `.php` is answered 404: set `fastcgi.script`, or `split_path`";
        scope.ledger.approximated(pass, difference);
    }
    if !["upstream", "split", "respond", "redirect"].iter().any(|key| table.has(key)) {
        unavailable(pass, table);
    }
    if let Some(tried) = scope.own("try_files").last().filter(|_| place.tries) {
        super::scripts::tried(scope, pass, tried, table);
    }
}

/// Whether all paths that match name a script of PHP.
fn names_scripts(matcher: &NginxMatcher) -> bool {
    match matcher {
        NginxMatcher::Exact(path) => path.to_ascii_lowercase().ends_with(".php"),
        NginxMatcher::Regex(pattern) => {
            let ends = [
                r"\.php$",
                r"\.php(/|$)",
                r"\.php(?:/|$)",
                r"\.php(?:$|/)",
                r"\.php($|/)",
                r"\.php(/.*)?$",
                r"\.php(?:/.*)?$",
                r"\.php/",
                r"\.php)$",
            ];
            ends.iter().any(|end| pattern.text.ends_with(end))
        }
        _ => false,
    }
}
