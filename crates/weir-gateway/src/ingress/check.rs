//! Manifests with Ingresses, before they are in a cluster: what becomes of each annotation, and where it is written.

use std::collections::BTreeMap;

use serde_json::Value;
use weir_sort::CompactSort as _;
use weir_traffic::route::RegexCache;

use super::annotations::{self, AnnotationHandling, IngressDraft, IngressProblem};
use super::check_together::{JointFinding, judge};
use super::compile::{CompiledPath, PathReading};
use super::regexes::RegexShares;
use crate::api::{Ingress, NGINX_PREFIX, SharedText};
use crate::names::hosts::hostname;
use crate::store::ObjectKey;

/// What becomes of TLS without a certificate of its own.
const WITHOUT_SECRET: &str = "without `secretName`, the default certificate is shown (`--default-certificate`), and requests without TLS are redirected to https";

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnnotationLevel {
    /// It is translated, or not needed.
    Note,
    /// The Ingress is served without it.
    Warning,
    /// The Ingress is not served.
    Error,
}

impl AnnotationLevel {
    /// The word of reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What becomes of an annotation or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngressFinding {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// Namespace and name of the Ingress.
    pub ingress: String,
    /// The full name of the annotation; empty: it is about something else.
    pub annotation: SharedText,
    /// How much it matters.
    pub level: AnnotationLevel,
    /// What becomes of it; `None`: it is not known.
    pub handling: Option<AnnotationHandling>,
    /// The equivalent, or what is missing.
    pub message: String,
}

/// A manifest that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestError {
    /// The line where its document begins, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// The findings of a manifest.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ManifestFindings {
    /// How many Ingresses there are.
    pub ingresses: usize,
    /// In the order of the text.
    pub findings: Vec<IngressFinding>,
    /// Documents that cannot be read.
    pub errors: Vec<ManifestError>,
}

/// Checks the Ingresses in texts of YAML documents, each alone and all together, as they would be in a cluster. Of objects of other kinds,
/// ReferenceGrants count.
pub fn check_manifests(texts: &[&str]) -> Vec<ManifestFindings> {
    let (mut all, mut known) = (Vec::new(), KnownObjects::default());
    for (file, text) in texts.iter().enumerate() {
        known.file = file;
        all.push(check_alone(text, &mut known));
    }
    for JointFinding { ingress, problem, is_unserved } in judge(&known.ingresses, &known.grants) {
        let Some((file, places)) = known.places.get(&ingress) else { continue };
        let found = &mut all[*file];
        let shown = ingress.to_string();
        // Paths that cannot be used were found already, without the others.
        let is_known = |one: &IngressFinding| one.ingress == shown && *one.message == *problem.message;
        if found.findings.iter().any(is_known) {
            continue;
        }
        let (level, handling) = match is_unserved {
            true => (AnnotationLevel::Error, AnnotationHandling::Refused),
            false => (AnnotationLevel::Warning, AnnotationHandling::LeftOut),
        };
        let own = places.iter().find(|(name, _)| **name == *problem.annotation);
        // It is not translated after all.
        if let Some((name, _)) = own.filter(|(name, _)| !name.is_empty()) {
            found.findings.retain(|one| {
                one.ingress != shown || one.annotation != *name || one.level != AnnotationLevel::Note
            });
        }
        let (line, column) = own.or(places.first()).map_or((1, 1), |(_, place)| *place);
        found.findings.push(IngressFinding {
            line,
            column,
            ingress: shown,
            annotation: (&*problem.annotation).into(),
            level,
            handling: own.filter(|(name, _)| !name.is_empty()).map(|_| handling),
            message: problem.message.into(),
        });
    }
    for found in &mut all {
        found.findings.sort_compact_by_key(|finding| (finding.line, finding.column));
    }
    all
}

/// A line and a column, from 1.
type TextPlace = (usize, usize);

/// What all files have.
#[derive(Debug, Default)]
struct KnownObjects {
    file: usize,
    ingresses: Vec<Value>,
    grants: Vec<Value>,
    /// The file of each Ingress, and where it (first) and its annotations are.
    places: BTreeMap<ObjectKey, (usize, Vec<(SharedText, TextPlace)>)>,
}

fn check_alone(text: &str, known: &mut KnownObjects) -> ManifestFindings {
    let mut found = ManifestFindings::default();
    for (first_line, document) in documents(text) {
        let value: Value = match serde_saphyr::from_str(&document) {
            Ok(value) => value,
            Err(error) => {
                let message = error.to_string().lines().next().unwrap_or_default().to_owned();
                found.errors.push(ManifestError { line: first_line, message });
                continue;
            }
        };
        let mut places = Places { first_line, lines: document.lines().collect(), used: Vec::new() };
        let items = match value["kind"].as_str() {
            Some("List" | "IngressList") => value["items"].as_array().map_or(&[][..], |items| &items[..]),
            _ => std::slice::from_ref(&value),
        };
        for item in items {
            match item["kind"].as_str() {
                Some("Ingress") => check_object(item, &mut places, &mut found, known),
                Some("ReferenceGrant") => known.grants.push(item.clone()),
                _ => {}
            }
        }
    }
    found
}

/// The documents that have anything, each with the number of its first line.
fn documents(text: &str) -> Vec<(usize, String)> {
    let mut documents = Vec::new();
    let (mut first_line, mut lines) = (1, Vec::new());
    for (number, line) in (1..).zip(text.lines().chain(["---"])) {
        if line == "---" || line.starts_with("--- ") {
            if lines.iter().any(|line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#'))
            {
                documents.push((first_line, lines.join("\n")));
            }
            (first_line, lines) = (number + 1, Vec::new());
        } else {
            lines.push(line);
        }
    }
    documents
}

fn check_object(
    value: &Value,
    places: &mut Places<'_>,
    found: &mut ManifestFindings,
    known: &mut KnownObjects,
) {
    found.ingresses += 1;
    let ingress: Ingress = match serde_json::from_value(value.clone()) {
        Ok(ingress) => ingress,
        Err(error) => {
            let message = format!("this is not an Ingress: {error}");
            found.errors.push(ManifestError { line: places.first_line, message });
            return;
        }
    };
    let namespace =
        if ingress.metadata.namespace.is_empty() { "default" } else { &ingress.metadata.namespace };
    let shown = format!("{namespace}/{}", ingress.metadata.name);
    let (draft, problems) = annotations::read(namespace, &ingress.annotations);
    let mut report = ObjectReport { shown, findings: &mut found.findings };
    let mut own_places = vec![(SharedText::default(), places.next(&ingress.metadata.name))];
    let name_place = own_places[0].1;
    check_annotations(&ingress, &problems, places, &mut own_places, &mut report);
    check_paths(&ingress, &draft, places, &mut report);
    check_secrets(&ingress, name_place, &mut report);
    let mut value = value.clone();
    value["metadata"]["namespace"] = namespace.into();
    known.ingresses.push(value);
    known.places.insert(ObjectKey::new(namespace, &ingress.metadata.name), (known.file, own_places));
}

/// Takes what is found about one object.
struct ObjectReport<'a> {
    /// Namespace and name.
    shown: String,
    findings: &'a mut Vec<IngressFinding>,
}

impl ObjectReport<'_> {
    fn push(
        &mut self,
        (line, column): (usize, usize),
        annotation: &str,
        level: AnnotationLevel,
        handling: Option<AnnotationHandling>,
        message: String,
    ) {
        let (ingress, annotation) = (self.shown.clone(), annotation.into());
        self.findings.push(IngressFinding { line, column, ingress, annotation, level, handling, message });
    }
}

/// Each annotation in its place, which is remembered, then the problems with what no annotation says.
fn check_annotations(
    ingress: &Ingress,
    problems: &[IngressProblem],
    places: &mut Places<'_>,
    own_places: &mut Vec<(SharedText, (usize, usize))>,
    report: &mut ObjectReport<'_>,
) {
    for full in ingress.annotations.keys() {
        let place = places.next(full);
        own_places.push((full.clone(), place));
        let name = full.strip_prefix(NGINX_PREFIX);
        let row = name.and_then(|name| annotations::table().find(|row| row.name == name));
        let mut is_bad = false;
        for problem in problems.iter().filter(|problem| *problem.annotation == **full) {
            is_bad = true;
            let (level, handling) = match problem.refuses {
                true => (AnnotationLevel::Error, AnnotationHandling::Refused),
                false => (AnnotationLevel::Warning, AnnotationHandling::LeftOut),
            };
            report.push(place, full, level, row.map(|_| handling), problem.message.to_string());
        }
        if let (Some(row), false) = (row, is_bad) {
            report.push(place, full, AnnotationLevel::Note, Some(row.handling), row.weir.to_owned());
        }
    }
    for problem in problems.iter().filter(|problem| !ingress.annotations.contains_key(&*problem.annotation)) {
        let level = if problem.refuses { AnnotationLevel::Error } else { AnnotationLevel::Warning };
        report.push((places.first_line, 1), &problem.annotation, level, None, problem.message.to_string());
    }
}

fn check_paths(
    ingress: &Ingress,
    draft: &IngressDraft,
    places: &mut Places<'_>,
    report: &mut ObjectReport<'_>,
) {
    let target = draft.paths.rewrite_target.as_deref();
    for rule in &ingress.spec.rules {
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            let text = path.path.as_deref().unwrap_or("/");
            let place = places.next(text);
            if let Err(why) = check_path(text, path.path_type.as_deref(), draft.wants_regex(), target) {
                let problem = IngressProblem::new(
                    "",
                    false,
                    format!("path {}{text}: {why}", hostname(rule.host.as_deref())),
                );
                report.push(place, "", AnnotationLevel::Error, None, problem.message.into());
            }
        }
    }
}

fn check_secrets(ingress: &Ingress, name_place: (usize, usize), report: &mut ObjectReport<'_>) {
    for tls in ingress.spec.tls.iter().filter(|tls| tls.secret_name.as_deref().unwrap_or_default().is_empty())
    {
        let message = format!(
            "{}: {WITHOUT_SECRET}",
            match &tls.hosts[..] {
                [] => "tls".to_owned(),
                hosts => format!("tls of {}", hosts.join(", ")),
            }
        );
        report.push(name_place, "", AnnotationLevel::Note, None, message);
    }
}

fn check_path(text: &str, kind: Option<&str>, is_regex: bool, target: Option<&str>) -> Result<(), String> {
    let path = CompiledPath::new("", kind == Some("Exact"), text, None);
    let reading = if is_regex { PathReading::Regex } else { PathReading::Plain };
    let mut cache = RegexCache::default();
    RegexShares::new(&mut cache).with(&ObjectKey::default(), |regexes| path.prepare(reading, target, regexes))
}

/// Where texts are in a document. The same text several times is found in its order, as objects are.
struct Places<'a> {
    first_line: usize,
    lines: Vec<&'a str>,
    used: Vec<(usize, usize)>,
}

impl Places<'_> {
    /// Line and column of the next occurrence outside of comments; the beginning of the document if there is none.
    fn next(&mut self, text: &str) -> (usize, usize) {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '/' || c == '.';
        for (number, line) in self.lines.iter().enumerate() {
            if line.trim_start().starts_with('#') {
                continue;
            }
            for (at, _) in line.match_indices(text) {
                let is_whole =
                    !line[..at].ends_with(is_word) && !line[at + text.len()..].starts_with(is_word);
                if is_whole && !self.used.contains(&(number, at)) {
                    self.used.push((number, at));
                    return (self.first_line + number, line[..at].chars().count() + 1);
                }
            }
        }
        (self.first_line, 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# nginx.ingress.kubernetes.io/limit-rps
kind: Service
metadata: {name: web}
---
kind: Ingress
metadata:
  name: one
  annotations:
    nginx.ingress.kubernetes.io/limit-rps: \"5\"
    nginx.ingress.kubernetes.io/server-snippet: |
      deny all;
    \"nginx.ingress.kubernetes.io/limit-rate\": \"9\"
    nginx.ingress.kubernetes.io/use-regex: \"true\"
spec:
  rules: [{http: {paths: [{path: '/a(', pathType: ImplementationSpecific}]}}]
---
kind: List
items:
- kind: Ingress
  metadata: {namespace: b, name: two, annotations: {nginx.ingress.kubernetes.io/limit-rps: x}}
- kind: Ingress
  metadata: {namespace: b, name: three, annotations: {nginx.ingress.kubernetes.io/limit-rps: '1'}}
---
a: [
";

    #[test]
    fn each_annotation_has_its_place() {
        let found = check_manifests(&[TEXT]).remove(0);
        assert_eq!(found.ingresses, 3);
        let shown: Vec<String> = (found.findings.iter())
            .map(|one| {
                let name = one.annotation.strip_prefix(NGINX_PREFIX).unwrap_or(&one.annotation);
                format!("{}:{} {} {} {name}", one.line, one.column, one.level.name(), one.ingress)
            })
            .collect();
        assert_eq!(
            shown,
            [
                "9:5 note default/one limit-rps",
                "10:5 error default/one server-snippet",
                "12:6 warning default/one limit-rate",
                "13:5 note default/one use-regex",
                "15:35 error default/one ",
                "20:53 error b/two limit-rps",
                "22:55 note b/three limit-rps",
            ]
        );
        assert_eq!(found.errors.len(), 1);
        assert_eq!(found.errors[0].line, 24);
    }

    fn ingress(namespace: &str, name: &str, annotations: &str, host: &str, path: &str) -> String {
        let year = if namespace == "alice" { 2020 } else { 2021 };
        format!(
            "---\nkind: Ingress\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  creationTimestamp: '{year}-01-01T00:00:00Z'\n  annotations: {{{annotations}}}\nspec: {{ingressClassName: nginx, \
             rules: [{{host: {host}, http: {{paths: [{{path: '{path}', pathType: ImplementationSpecific, backend: {{service: {{name: web, port: {{name: http}}}}}}}}]}}}}]}}\n"
        )
    }

    /// What only several Ingresses show: each is sound alone.
    #[test]
    fn ingresses_are_judged_together() {
        let nginx = |rest: &str| format!("nginx.ingress.kubernetes.io/{rest}");
        let alice = ingress("alice", "shop", "", "a.test", "/");
        let grant = "---\nkind: ReferenceGrant\nmetadata: {namespace: auth, name: all}\n\
                     spec: {from: [{group: networking.k8s.io, kind: Ingress, namespace: bob}], to: [{group: '', kind: Service}]}\n";
        let by_service = nginx("auth-url: http://proxy.auth.svc.cluster.local/x");
        for (what, annotations, host, more, level, said) in [
            (
                "a rewrite",
                nginx("rewrite-target: /x"),
                "a.test",
                "",
                AnnotationLevel::Error,
                "belongs to the namespace `alice`",
            ),
            (
                "the same path",
                String::new(),
                "a.test",
                "",
                AnnotationLevel::Error,
                "belongs to the Ingress alice/shop",
            ),
            (
                "no such host",
                nginx("auth-url: https://login.test/x"),
                "b.test",
                "",
                AnnotationLevel::Error,
                "leads to no server",
            ),
            ("a host", nginx("auth-url: https://a.test/x"), "b.test", "", AnnotationLevel::Note, ""),
            (
                "a foreign Service",
                by_service.clone(),
                "b.test",
                "",
                AnnotationLevel::Error,
                "no ReferenceGrant",
            ),
            ("a granted Service", by_service, "b.test", grant, AnnotationLevel::Note, ""),
            (
                "a canary alone",
                nginx("canary: 'true'"),
                "b.test",
                "",
                AnnotationLevel::Error,
                "a canary needs an Ingress",
            ),
            (
                "a foreign root",
                nginx("app-root: /x"),
                "a.test",
                "",
                AnnotationLevel::Warning,
                "belongs to the namespace `alice`",
            ),
            ("a host of its own", nginx("app-root: /x"), "b.test", "", AnnotationLevel::Note, ""),
        ] {
            let path = if what == "a foreign root" { "/own" } else { "/" };
            let bob = format!("{}{more}", ingress("bob", "one", &annotations, host, path));
            let found = check_manifests(&[&alice, &bob]);
            assert!(found[0].findings.is_empty() && found[1].errors.is_empty(), "{what}: {found:?}");
            let worst = found[1].findings.iter().max_by_key(|one| one.level);
            let worst =
                worst.map_or((AnnotationLevel::Note, "", 0), |one| (one.level, &*one.message, one.line));
            assert_eq!(worst.0, level, "{what}: {found:?}");
            assert!(worst.1.contains(said), "{what}: {found:?}");
            assert!(said.is_empty() || matches!(worst.2, 4 | 7), "{what}: {found:?}");
            // Classes of other controllers have their own hosts.
            let apart = check_manifests(&[
                &alice.replace("ClassName: nginx", "ClassName: other"),
                &ingress("bob", "one", "", "a.test", "/"),
            ]);
            assert!(apart.iter().all(|one| one.findings.is_empty()), "{apart:?}");
        }
    }

    #[test]
    fn tls_without_a_secret_has_the_default_certificate() {
        let text =
            ingress("a", "one", "", "a.test", "/").replace("spec: {", "spec: {tls: [{hosts: [a.test]}], ");
        let found = check_manifests(&[&text]).remove(0).findings;
        assert_eq!((found.len(), found[0].level), (1, AnnotationLevel::Note));
        assert!(found[0].message.contains("default certificate"), "{found:?}");
    }

    #[test]
    fn errors_of_expressions_are_one_line() {
        let text = ingress("a", "one", "nginx.ingress.kubernetes.io/use-regex: 'true'", "a.test", "/a(?=b)");
        let found = check_manifests(&[&text]).remove(0).findings;
        let errors: Vec<&str> = (found.iter())
            .filter(|one| one.level == AnnotationLevel::Error)
            .map(|one| &*one.message)
            .collect();
        assert_eq!(errors.len(), 1, "{found:?}");
        assert!(errors[0].contains("look-around") && !errors[0].contains('\n'), "{errors:?}");
    }
}
