//! Manifests with Ingresses, before they are in a cluster: what becomes of each annotation, and where it is written.

use serde_json::Value;
use weir_traffic::rewrite::Rewrite;

use super::annotations::{self, AnnotationHandling};
use super::compile::CompiledPath;
use crate::api::{Ingress, NGINX_PREFIX, SharedText};
use crate::hosts::hostname;

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

/// Checks the Ingresses in a text of YAML documents; objects of other kinds are passed over.
pub fn check_manifest(text: &str) -> ManifestFindings {
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
        match value["kind"].as_str() {
            Some("List" | "IngressList") => {
                let items = value["items"].as_array().map_or(&[][..], |items| &items[..]);
                items.iter().for_each(|item| check_object(item, &mut places, &mut found));
            }
            _ => check_object(&value, &mut places, &mut found),
        }
    }
    found.findings.sort_by_key(|finding| (finding.line, finding.column));
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

fn check_object(value: &Value, places: &mut Places<'_>, found: &mut ManifestFindings) {
    if value["kind"] != "Ingress" {
        return;
    }
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
    let mut push = |(line, column), annotation: &str, level, handling, message: String| {
        let (ingress, annotation) = (shown.clone(), annotation.into());
        found.findings.push(IngressFinding { line, column, ingress, annotation, level, handling, message });
    };
    for full in ingress.annotations.keys() {
        let place = places.next(full);
        let name = full.strip_prefix(NGINX_PREFIX);
        let row = name.and_then(|name| annotations::table().find(|row| row.name == name));
        let mut is_bad = false;
        for problem in problems.iter().filter(|problem| *problem.annotation == **full) {
            is_bad = true;
            let (level, handling) = match problem.refuses {
                true => (AnnotationLevel::Error, AnnotationHandling::Refused),
                false => (AnnotationLevel::Warning, AnnotationHandling::LeftOut),
            };
            push(place, full, level, row.map(|_| handling), problem.message.to_string());
        }
        if let (Some(row), false) = (row, is_bad) {
            push(place, full, AnnotationLevel::Note, Some(row.handling), row.weir.to_owned());
        }
    }
    for problem in problems.iter().filter(|problem| !ingress.annotations.contains_key(&*problem.annotation)) {
        let level = if problem.refuses { AnnotationLevel::Error } else { AnnotationLevel::Warning };
        push((places.first_line, 1), &problem.annotation, level, None, problem.message.to_string());
    }
    let target = draft.paths.rewrite_target.as_deref();
    for rule in &ingress.spec.rules {
        for path in rule.http.iter().flat_map(|http| &http.paths) {
            let text = path.path.as_deref().unwrap_or("/");
            let place = places.next(text);
            if let Err(why) = check_path(text, path.path_type.as_deref(), draft.wants_regex(), target) {
                let message = format!("path {}{text}: {why}", hostname(rule.host.as_deref()));
                push(place, "", AnnotationLevel::Error, None, message);
            }
        }
    }
}

fn check_path(text: &str, kind: Option<&str>, is_regex: bool, target: Option<&str>) -> Result<(), String> {
    let path = CompiledPath::new("", kind == Some("Exact"), text, None);
    let made = match is_regex {
        true => path.regex(target).map(|(_, rewrite): &(_, Option<Rewrite>)| drop(rewrite.clone())),
        false => path.plain().map(drop),
    };
    made.map_err(str::to_owned)
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
        let found = check_manifest(TEXT);
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
}
