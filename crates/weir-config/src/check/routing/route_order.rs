//! Which route of a listener takes a request: no two are tied, none is written behind one that takes all of its requests, and no key of the other
//! order is there.

use std::sync::Arc;

use weir_traffic::route::{RouteId, RouteMatch, RouteTable, Tie};

use super::redirect;
use crate::config::{Route, RouteOrder};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan};
use crate::key::SpannedTable;
use crate::text::ListenerText;

/// `places`: where the routes are written.
pub(in crate::check) fn check(
    text: &SpannedTable<ListenerText>,
    (routes, places): (&[Route], &[SourceSpan]),
    diagnostics: &mut Vec<Diagnostic>,
) {
    // A route that could not be read in full may take other requests than it seems to.
    let is_sound = |index: usize| text.value.route.get(index).is_none_or(|route| route.is_sound);
    let looked_up = routes.iter().enumerate().filter(|(_, route)| !route.is_only_named());
    let sound = looked_up.filter(|(index, _)| is_sound(*index));
    let rules = sound.map(|(index, route)| (Arc::clone(&route.matches), RouteId(index as u32)));
    let rules: Vec<_> = rules.collect();
    if text.value.route_order == RouteOrder::File {
        report_of_other_order(text, diagnostics);
        warn_of_unreachable(&rules, (routes, places), diagnostics);
        return redirect::check_loops(text, routes, &RouteTable::in_order(rules), diagnostics);
    }
    match RouteTable::new(rules) {
        Ok(table) => redirect::check_loops(text, routes, &table, diagnostics),
        Err(ties) => ties.iter().for_each(|tie| report_tie(*tie, (routes, places), diagnostics)),
    }
}

fn report_tie(tie: Tie, (routes, places): (&[Route], &[SourceSpan]), diagnostics: &mut Vec<Diagnostic>) {
    let (first, second) = (tie.first.index(), tie.second.index());
    let message = format!(
        "the routes `{}` and `{}` are equally specific and can take the same request",
        routes[first].name, routes[second].name
    );
    let help = "make one more specific, or give it a `priority`: the order in the file has no effect";
    let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, places[second], message).help(help);
    diagnostics.push(diagnostic.label(places[first], "the other one"));
}

/// Keys that decide only where the order in the file does not.
fn report_of_other_order(text: &SpannedTable<ListenerText>, diagnostics: &mut Vec<Diagnostic>) {
    for route in &text.value.route {
        for at in ["priority", "before_regex"].into_iter().filter_map(|key| Some((key, route.changed(key)?)))
        {
            let message = format!("`{}` has no effect with `route_order = \"file\"`", at.0);
            let help = "move the route up or down instead";
            diagnostics.push(Diagnostic::new(DiagnosticKind::Conflict, at.1, message).help(help));
        }
    }
}

/// Warns of a route behind one that takes every request, or the same ones.
fn warn_of_unreachable(
    rules: &[(Arc<RouteMatch>, RouteId)],
    (routes, places): (&[Route], &[SourceSpan]),
    diagnostics: &mut Vec<Diagnostic>,
) {
    for (at, (later, id)) in rules.iter().enumerate() {
        let takes_all = |earlier: &RouteMatch| *earlier == RouteMatch::default() || *earlier == **later;
        let Some((_, first)) = rules[..at].iter().find(|(earlier, _)| takes_all(earlier)) else { continue };
        let (first, second) = (first.index(), id.index());
        let message = format!(
            "no request gets as far as the route `{}`: `{}` before it takes them all",
            routes[second].name, routes[first].name
        );
        let diagnostic = Diagnostic::new(DiagnosticKind::Suspicious, places[second], message);
        diagnostics.push(diagnostic.label(places[first], "the earlier one"));
    }
}
