//! `expires` of a route: rules about `Cache-Control` and `Expires`, of which the first that is for a response counts.

use weir_sort::CompactSort as _;

use crate::check::conditions;
use crate::check::conditions::ConditionPlace;
use crate::check::templates::TemplatePlace;
use crate::config::{Expires, ExpiresTime, HeaderChanges, HeaderRule, MediaPattern};
use crate::diagnostic::{Diagnostic, DiagnosticKind};
use crate::key::{Spanned, SpannedTable};
use crate::order::Stage;
use crate::text::{ExpiresRuleText, ExpiresText, RouteText, RuleStatus};

/// The name of the entry for all other media types.
const DEFAULT: &str = "default";

/// The rules of a route, as changes to the headers of its responses.
pub(in crate::check) fn check(
    text: &SpannedTable<RouteText>,
    place: &TemplatePlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderChanges {
    let rules = match &text.value.expires {
        None => Vec::new(),
        Some(ExpiresText::Time(time)) => vec![rule(Vec::new(), *time)],
        Some(ExpiresText::Types(types)) => by_type(&types.0, diagnostics),
        Some(ExpiresText::Rules(rules)) => {
            let place =
                ConditionPlace::new(place, Stage::ResponseFields, "when a response goes to the client");
            rules.iter().map(|rule| check_rule(rule, &place, diagnostics)).collect()
        }
    };
    HeaderChanges { rules, ..HeaderChanges::default() }
}

fn rule(types: Vec<MediaPattern>, time: ExpiresTime) -> HeaderRule {
    let status = RuleStatus::ranges(&[RuleStatus::Success]);
    let expires = Expires { types, time, overrides: false };
    HeaderRule { status, expires: Some(expires), ..HeaderRule::default() }
}

/// The rules of a table of media types: those that name one type, then patterns, then all others.
fn by_type(types: &[(Spanned<Box<str>>, ExpiresTime)], diagnostics: &mut Vec<Diagnostic>) -> Vec<HeaderRule> {
    let mut rules = Vec::new();
    for (name, time) in types {
        if &*name.value == DEFAULT {
            rules.push((2, rule(Vec::new(), *time)));
            continue;
        }
        match MediaPattern::parse(&name.value) {
            Ok(pattern) => rules.push((u8::from(name.value.contains('*')), rule(vec![pattern], *time))),
            Err(error) => {
                let diagnostic = Diagnostic::new(DiagnosticKind::BadValue, name.span, error.message);
                diagnostics.push(
                    diagnostic.help("write a media type such as `text/css` or `image/*`, or `default`"),
                );
            }
        }
    }
    rules.sort_compact_by_key(|(rank, _)| *rank);
    rules.into_iter().map(|(_, rule)| rule).collect()
}

fn check_rule(
    text: &SpannedTable<ExpiresRuleText>,
    place: &ConditionPlace<'_>,
    diagnostics: &mut Vec<Diagnostic>,
) -> HeaderRule {
    let value = &text.value;
    let types = value.types.iter().flat_map(|types| types.0.iter().cloned()).collect();
    HeaderRule {
        when: conditions::check(value.when.as_ref(), place, diagnostics),
        status: RuleStatus::ranges(&value.status.0),
        from: value.from.iter().flat_map(|from| from.0.iter().copied()).collect(),
        expires: Some(Expires {
            types,
            time: value.time.unwrap_or(ExpiresTime::Off),
            overrides: value.override_server,
        }),
        ..HeaderRule::default()
    }
}
