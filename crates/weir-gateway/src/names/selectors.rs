//! Label selectors of Kubernetes.

use std::collections::BTreeMap;

use crate::api::{LabelSelector, SharedText};

/// Whether a selector selects an object with these labels.
pub(crate) fn selects(selector: &LabelSelector, labels: &BTreeMap<SharedText, SharedText>) -> bool {
    let by_label = selector.match_labels.iter().all(|(name, value)| labels.get(name) == Some(value));
    by_label
        && selector.match_expressions.iter().all(|one| {
            let value = labels.get(&one.key);
            match &*one.operator {
                "In" => value.is_some_and(|value| one.values.contains(value)),
                "NotIn" => value.is_none_or(|value| !one.values.contains(value)),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_those_of_kubernetes() {
        let labels = [("team".into(), "a".into())].into();
        for (selector, is_selected) in [
            (r#"{}"#, true),
            (r#"{"matchLabels":{"team":"a"}}"#, true),
            (r#"{"matchLabels":{"team":"b"}}"#, false),
            (r#"{"matchExpressions":[{"key":"team","operator":"In","values":["a","b"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"team","operator":"NotIn","values":["a"]}]}"#, false),
            (r#"{"matchExpressions":[{"key":"other","operator":"NotIn","values":["a"]}]}"#, true),
            (r#"{"matchExpressions":[{"key":"other","operator":"Exists"}]}"#, false),
            (r#"{"matchExpressions":[{"key":"other","operator":"DoesNotExist"}]}"#, true),
            (r#"{"matchExpressions":[{"key":"team","operator":"Like","values":["a"]}]}"#, false),
        ] {
            let read: LabelSelector = serde_json::from_str(selector).unwrap();
            assert_eq!(selects(&read, &labels), is_selected, "{selector}");
        }
    }
}
