//! Ties: routes equally specific that one and the same request could match.
//!
//! Exact where it can be: two routes are distinguished by their methods, fields, parameters and regexes if no
//! request meets both.

use super::field::ValueMatch;
use super::pattern::RouteRegex;
use super::{RouteId, RouteMatch, overlap};

/// Two routes that are equally specific and that one request could both match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("two routes are equally specific and can match the same request")]
pub struct Tie {
    /// The one given first.
    pub first: RouteId,
    /// The one given later.
    pub second: RouteId,
}

/// Whether one request could meet the methods, fields and parameters of both. Of two with different conditions, the one that was given first is asked
/// first.
pub(super) fn can_meet(a: &RouteMatch, b: &RouteMatch) -> bool {
    if a.condition != b.condition {
        return false;
    }
    let methods_meet = a.methods.is_empty()
        || b.methods.is_empty()
        || a.methods.iter().any(|method| b.methods.contains(method));
    methods_meet
        && all_meet(
            a.headers.iter().map(|rule| (rule.name(), rule.value())),
            &b.headers.iter().map(|rule| (rule.name(), rule.value())),
        )
        && all_meet(
            a.query.iter().map(|rule| (rule.name(), rule.value())),
            &b.query.iter().map(|rule| (rule.name(), rule.value())),
        )
}

/// Whether all rules of `a` can be met together with those of `b`; only rules on the same name can conflict.
fn all_meet<'a>(
    mut a: impl Iterator<Item = (&'a str, &'a ValueMatch)>,
    b: &(impl Iterator<Item = (&'a str, &'a ValueMatch)> + Clone),
) -> bool {
    a.all(|(name, ours)| b.clone().all(|(other, theirs)| name != other || values_meet(ours, theirs)))
}

/// Whether one value (or its absence) could be like both.
fn values_meet(a: &ValueMatch, b: &ValueMatch) -> bool {
    use ValueMatch::{Absent, Exact, Prefix, Present, Regex};
    match (a, b) {
        (Absent, other) | (other, Absent) => *other == Absent,
        (Exact(text), other) | (other, Exact(text)) => other.matches(Some(text.as_bytes())),
        (Present, _) | (_, Present) => true,
        (Prefix(a), Prefix(b)) => a.starts_with(&**b) || b.starts_with(&**a),
        (Prefix(prefix), Regex(regex)) | (Regex(regex), Prefix(prefix)) => {
            match RouteRegex::build(&format!("^{}", regex::escape(prefix))) {
                Ok(prefix) => overlap::in_values(&prefix, regex),
                Err(_) => true,
            }
        }
        (Regex(a), Regex(b)) => overlap::in_values(a, b),
    }
}
