//! What a table of header changes is: changes for every message, or a rule; and what keeps the freshness of responses off failures.

use crate::config::{HeaderChanges, HeaderRule};
use crate::value::{HeaderName, HeaderTemplate, StatusRange};

/// Fields that say how long a response may be kept.
const FRESHNESS: [&str; 6] =
    ["cache-control", "cdn-cache-control", "edge-control", "expires", "pragma", "surrogate-control"];

/// The changes under the conditions of their table.
pub(in crate::check) fn under(rule: &HeaderRule, changes: HeaderChanges) -> HeaderChanges {
    if rule.is_for_all() || changes.is_empty() {
        return changes;
    }
    let HeaderChanges { remove, set, add, .. } = changes;
    let rule = HeaderRule { remove, set, add, ..rule.clone() };
    HeaderChanges { rules: vec![rule], ..HeaderChanges::default() }
}

/// The same for a table without `status`: how long a response may be kept is not said of failures, and all else is said of every response.
pub(in crate::check) fn of_success(rule: &HeaderRule, mut changes: HeaderChanges) -> HeaderChanges {
    let lets_keep = |(name, value): &(HeaderName, HeaderTemplate)| is_freshness(name) && !forbids(value);
    let split = |headers: &mut Vec<(HeaderName, HeaderTemplate)>| -> Vec<_> {
        headers.extract_if(.., |header| lets_keep(header)).collect()
    };
    let (set, add) = (split(&mut changes.set), split(&mut changes.add));
    let all = under(rule, changes);
    if set.is_empty() && add.is_empty() {
        return all;
    }
    let status: Vec<StatusRange> = "200-399".parse().into_iter().collect();
    let of_success = HeaderRule { status, set, add, ..rule.clone() };
    all.followed_by(&HeaderChanges { rules: vec![of_success], ..HeaderChanges::default() })
}

fn is_freshness(name: &HeaderName) -> bool {
    FRESHNESS.contains(&&**name)
}

/// Whether a value says that no cache may use the response as it is. What has placeholders may say anything.
fn forbids(value: &HeaderTemplate) -> bool {
    let directives = value.literal().map(str::to_ascii_lowercase).unwrap_or_default();
    ["no-store", "no-cache", "private"].iter().any(|word| directives.contains(word))
}
