//! What decides about a canary before its share: a header, or a cookie.

use weir_traffic::route::{BoundedRegexes, FieldMatch, RouteRegex, ValueMatch};

use super::annotations::CanaryDraft;
use super::regexes::escaped;

/// Precedences among the routes of one path.
const BY_HEADER: i32 = 4;
const BY_COOKIE: i32 = 2;

/// A rule that decides about requests of a path with a canary.
#[derive(Debug)]
pub(super) struct CanaryRule {
    /// What the name of its route ends with.
    pub(super) suffix: &'static str,
    pub(super) leads_to_canary: bool,
    pub(super) rule: FieldMatch,
    /// Its precedence.
    pub(super) above: i32,
}

/// The rules with the regular expressions that they take; or why they cannot be used.
pub(super) type CanaryRules = Result<(Vec<CanaryRule>, Vec<RouteRegex>), String>;

/// The rules that annotations come to.
pub(super) fn canary_rules(
    draft: &CanaryDraft,
    regexes: &mut BoundedRegexes<'_>,
) -> Result<Vec<CanaryRule>, String> {
    let mut rules = Vec::new();
    let mut push = |suffix, leads_to_canary, (name, value): (&str, ValueMatch), above| {
        let rule = FieldMatch::new(name, value).map_err(|error| error.to_string())?;
        rules.push(CanaryRule { suffix, leads_to_canary, rule, above });
        Ok::<(), String>(())
    };
    if let Some(header) = &draft.header {
        match (&draft.header_value, &draft.header_pattern) {
            (Some(value), _) => {
                push(".canary-header", true, (header, ValueMatch::exact(value)), BY_HEADER)?;
            }
            (None, Some(pattern)) => {
                let pattern = regexes.compile(pattern);
                let pattern = pattern.map_err(|error| format!("canary-by-header-pattern: {error}"))?;
                push(".canary-header", true, (header, ValueMatch::Regex(pattern)), BY_HEADER)?;
            }
            (None, None) => {
                push(".canary-header", true, (header, ValueMatch::exact("always")), BY_HEADER)?;
                push(".main-header", false, (header, ValueMatch::exact("never")), BY_HEADER + 1)?;
            }
        }
    }
    if let Some(cookie) = &draft.cookie {
        let name = escaped(cookie);
        for (suffix, leads_to_canary, value, above) in
            [(".canary-cookie", true, "always", BY_COOKIE), (".main-cookie", false, "never", BY_COOKIE + 1)]
        {
            let pattern = regexes.compile(&format!("(?:^|; *){name}={value}(?:;|$)"));
            let pattern = pattern.map_err(|error| format!("canary-by-cookie: {error}"))?;
            push(suffix, leads_to_canary, ("cookie", ValueMatch::Regex(pattern)), above)?;
        }
    }
    Ok(rules)
}
