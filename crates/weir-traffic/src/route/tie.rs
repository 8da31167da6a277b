//! Ties: routes equally specific that one and the same request could match.
//!
//! Exact where it can be: two routes are told apart by their methods, fields, parameters and regexes if no request meets both.

use super::field::ValueMatch;
use super::{RouteId, RouteMatch};

/// Two routes that are equally specific and that one request could both match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("two routes are equally specific and can match the same request")]
pub struct Tie {
    /// The one given first.
    pub first: RouteId,
    /// The one given later.
    pub second: RouteId,
}

/// Whether one request could meet the methods, fields and parameters of both.
pub(super) fn can_meet(a: &RouteMatch, b: &RouteMatch) -> bool {
    let methods_meet = a.methods.is_empty()
        || b.methods.is_empty()
        || a.methods.iter().any(|method| b.methods.contains(method));
    let headers_meet = a.headers.iter().all(|ours| {
        b.headers
            .iter()
            .all(|theirs| ours.name() != theirs.name() || values_meet(ours.value(), theirs.value()))
    });
    let query_meets = a.query.iter().all(|ours| {
        b.query.iter().all(|theirs| ours.name() != theirs.name() || values_meet(ours.value(), theirs.value()))
    });
    methods_meet && headers_meet && query_meets
}

/// Whether one value (or its absence) could be like both.
fn values_meet(a: &ValueMatch, b: &ValueMatch) -> bool {
    match (a, b) {
        (ValueMatch::Absent, other) | (other, ValueMatch::Absent) => *other == ValueMatch::Absent,
        (ValueMatch::Exact(text), other) | (other, ValueMatch::Exact(text)) => {
            other.matches(Some(text.as_bytes()))
        }
        (ValueMatch::Prefix(a), ValueMatch::Prefix(b)) => a.starts_with(&**b) || b.starts_with(&**a),
        (ValueMatch::Present, _) | (_, ValueMatch::Present) => true,
        (ValueMatch::Regex(_), _) | (_, ValueMatch::Regex(_)) => true,
    }
}
