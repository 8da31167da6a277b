//! What is wrong with Ingresses: lines of the log, and Events of the API server, which `kubectl describe` shows. An Ingress has no conditions.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use weir_gateway::{IngressProblem, IngressReport, ObjectKey};

/// The longest message of an Event, in bytes.
const MESSAGE_BYTES_MAX: usize = 1024;

/// The part of an Event's name that is the Ingress, at most.
const NAME_BYTES_MAX: usize = 200;

/// What was written to the log.
#[derive(Debug, Default)]
pub(crate) struct IngressLog {
    problems: BTreeMap<ObjectKey, Vec<IngressProblem>>,
    default_certificate: Option<Box<str>>,
    config_map: Option<Box<str>>,
}

impl IngressLog {
    /// Writes what is new.
    pub(crate) fn take(&mut self, reports: &[IngressReport]) {
        for report in reports {
            let known = self.problems.remove(&report.key).unwrap_or_default();
            for problem in report.problems.iter().filter(|problem| !known.contains(problem)) {
                let (ingress, why) = (&report.key, problem.sentence());
                match problem.refuses {
                    true => {
                        tracing::error!(%ingress, why, "an Ingress is not served: its paths are answered 503");
                    }
                    false => tracing::warn!(%ingress, why, "a part of an Ingress is not applied"),
                }
            }
            if report.problems.is_empty() {
                tracing::info!(ingress = %report.key, "all of an Ingress is applied");
            } else {
                self.problems.insert(report.key.clone(), report.problems.clone());
            }
        }
    }

    /// Writes that the default certificate cannot be used, or that it can again.
    pub(crate) fn take_default_certificate(&mut self, problem: Option<Box<str>>) {
        match &problem {
            Some(why) if self.default_certificate != problem => {
                tracing::error!(%why, "the default certificate of Ingresses cannot be used");
            }
            None if self.default_certificate.is_some() => {
                tracing::info!("the default certificate of Ingresses is in use");
            }
            _ => {}
        }
        self.default_certificate = problem;
    }

    /// Writes what is wrong with the ConfigMap for all Ingresses, or that nothing is any more.
    pub(crate) fn take_config_map(&mut self, problem: Option<Box<str>>) {
        match &problem {
            Some(why) if self.config_map != problem => {
                tracing::warn!(%why, "the ConfigMap for all Ingresses is not applied as a whole");
            }
            None if self.config_map.is_some() => {
                tracing::info!("the ConfigMap for all Ingresses is applied");
            }
            _ => {}
        }
        self.config_map = problem;
    }
}

/// An Event, and where it belongs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IngressEvent {
    /// Namespace and name.
    pub(crate) key: ObjectKey,
    /// The object.
    pub(crate) body: Value,
}

/// The Events of a report. The same problem has the same name, so that it is one Event however often it is told.
pub(crate) fn events<'a>(report: &'a IngressReport, now: &'a str) -> impl Iterator<Item = IngressEvent> + 'a {
    let ObjectKey { namespace, name } = &report.key;
    report.problems.iter().map(move |problem| {
        let message = cut(&problem.sentence(), MESSAGE_BYTES_MAX).to_owned();
        let own_name =
            format!("{}.{:016x}", cut(name, NAME_BYTES_MAX), hash(&format!("{} {message}", report.uid)));
        let reason = if problem.refuses { "NotServed" } else { "NotApplied" };
        let body = json!({
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": { "name": own_name, "namespace": namespace },
            "involvedObject": {
                "apiVersion": "networking.k8s.io/v1",
                "kind": "Ingress",
                "namespace": namespace,
                "name": name,
                "uid": report.uid,
            },
            "type": "Warning",
            "reason": reason,
            "message": message,
            "source": { "component": "weir" },
            "reportingComponent": "weir.dev/ingress",
            "reportingInstance": "weir",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        });
        IngressEvent { key: ObjectKey::new(namespace, &own_name), body }
    })
}

fn cut(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// FNV-1a: the same in every process and version.
fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_event() {
        let problem = IngressProblem {
            annotation: "nginx.ingress.kubernetes.io/limit-rps".into(),
            refuses: true,
            message: "`x` is not a number".into(),
        };
        let key = ObjectKey::new("app", &"n".repeat(253));
        let report = IngressReport { key, uid: "1-2".into(), problems: vec![problem] };
        let made: Vec<IngressEvent> = events(&report, "2026-11-27T00:00:00Z").collect();
        let again: Vec<IngressEvent> = events(&report, "2026-11-28T00:00:00Z").collect();
        assert_eq!((made.len(), &made[0].key), (1, &again[0].key));
        assert!(made[0].key.name.len() <= 253);
        assert_eq!(made[0].body["reason"], "NotServed");
        assert_eq!(made[0].body["message"], "nginx.ingress.kubernetes.io/limit-rps: `x` is not a number");
        assert_eq!(cut("a\u{e9}", 2), "a");
    }
}
