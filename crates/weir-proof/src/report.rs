//! What a proof found: differences by the line of the original that they come from.

use std::collections::BTreeMap;
use std::fmt;

use weir_import::{ImportOutcome, ImportReport};

use crate::compare::Difference;
use crate::original::OriginalFacts;
use crate::requests::ProofRequest;
use crate::rules::DifferenceVerdict;

/// Differences of one kind at one line.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProofFinding {
    pub(crate) count: usize,
    /// Of the first: the request and both values.
    pub(crate) request: String,
    pub(crate) original: String,
    pub(crate) weir: String,
}

/// By verdict, rule, line and aspect.
type FindingKey = (DifferenceVerdict, &'static str, u32, String);

/// All findings.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProofReport {
    pub(crate) file: String,
    pub(crate) requests: usize,
    pub(crate) same: usize,
    /// The lines of the original.
    lines: Vec<String>,
    findings: BTreeMap<FindingKey, ProofFinding>,
}

/// What the report of an import says of differences.
#[derive(Default)]
pub(crate) struct DeclaredLosses {
    /// The lines that are approximated or not supported.
    pub(crate) lines: Vec<u32>,
    /// Whether requests that a rule may be for are answered 501, or 508: no config that is imported says that of itself.
    pub(crate) closes: bool,
}

impl DeclaredLosses {
    pub(crate) fn of(import: &ImportReport) -> DeclaredLosses {
        let is_told = |outcome| matches!(outcome, ImportOutcome::Unsupported | ImportOutcome::Approximated);
        let told: Vec<_> = import.findings().iter().filter(|finding| is_told(finding.outcome)).collect();
        let is_answer = |note: &String| note.contains("answered 501") || note.contains("answered 508");
        let closes = told.iter().any(|finding| finding.notes.iter().any(is_answer));
        DeclaredLosses { lines: told.iter().map(|finding| finding.at.line).collect(), closes }
    }
}

impl ProofReport {
    pub(crate) fn new(file: &str, text: &str) -> Self {
        let lines = text.lines().map(|line| line.trim().to_owned()).collect();
        ProofReport { file: file.to_owned(), lines, ..ProofReport::default() }
    }

    pub(crate) fn add(
        &mut self,
        verdict: DifferenceVerdict,
        rule: &'static str,
        line: u32,
        request: &str,
        difference: &Difference,
    ) {
        let finding = self.findings.entry((verdict, rule, line, difference.aspect.clone())).or_default();
        if finding.count == 0 {
            request.clone_into(&mut finding.request);
            difference.original.clone_into(&mut finding.original);
            difference.weir.clone_into(&mut finding.weir);
        }
        finding.count += 1;
    }

    /// How many differences have this verdict.
    pub(crate) fn count(&self, verdict: DifferenceVerdict) -> usize {
        self.findings.iter().filter(|(key, _)| key.0 == verdict).map(|(_, finding)| finding.count).sum()
    }

    /// The line of the original that a field is set at, near the request if it is set there, else the first line that the request was made from.
    pub(crate) fn line_of(
        &self,
        difference: &Difference,
        request: &ProofRequest,
        facts: &OriginalFacts,
    ) -> u32 {
        let of_request = request.lines.first().copied().unwrap_or(request.host_line);
        let Some((_, name)) = difference.aspect.split_once(' ').filter(|(kind, _)| *kind != "request") else {
            return of_request;
        };
        let is_cookie = |line: &String| name == "set-cookie" && line.starts_with("cookie ");
        let named = |line: &String| {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric() && !"-_".contains(c));
            // The first word is that of the directive: `location` sets no field.
            let is_set = words.next().is_some() && words.any(|word| word.eq_ignore_ascii_case(name));
            !line.starts_with('#') && (is_set || is_cookie(line))
        };
        let all: Vec<u32> =
            (1..).zip(&self.lines).filter(|(_, line)| named(line)).map(|(at, _)| at).collect();
        let near = all.iter().find(|line| request.lines.iter().any(|own| facts.is_near(*own, &[**line])));
        near.or(all.first()).copied().unwrap_or(of_request)
    }

    /// The first line of the original that has a text in it; 0 where none has.
    pub(crate) fn line_naming(&self, text: &str) -> u32 {
        let named = |line: &String| !line.starts_with('#') && line.contains(text);
        let index = self.lines.iter().position(named);
        index.and_then(|index| u32::try_from(index + 1).ok()).unwrap_or_default()
    }

    /// Sections of HAProxy that are the status page and nothing else.
    pub(crate) fn page_sections(&self) -> Vec<String> {
        let (mut found, mut open) = (Vec::new(), None::<(String, bool, bool)>);
        let mut close = |open: Option<(String, bool, bool)>| {
            if let Some((name, true, false)) = open {
                found.push(name);
            }
        };
        for line in &self.lines {
            let mut words = line.split_whitespace();
            match (words.next().unwrap_or_default(), words.next()) {
                ("frontend" | "listen", Some(name)) => close(open.replace((name.to_owned(), false, false))),
                ("global" | "defaults" | "backend", _) => close(open.take()),
                ("stats", _) => open.iter_mut().for_each(|(_, has_page, _)| *has_page = true),
                ("server" | "server-template" | "use_backend" | "default_backend", _) => {
                    open.iter_mut().for_each(|(_, _, leads)| *leads = true);
                }
                _ => {}
            }
        }
        close(open);
        found
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        let findings: Vec<_> = self
            .findings
            .iter()
            .map(|((verdict, rule, line, aspect), finding)| {
                serde_json::json!({
                    "verdict": verdict.title(), "rule": rule, "line": line, "aspect": aspect, "count": finding.count,
                    "request": finding.request, "original": finding.original, "weir": finding.weir,
                })
            })
            .collect();
        serde_json::json!({
            "file": self.file, "requests": self.requests, "same": self.same,
            "defects": self.count(DifferenceVerdict::Defect), "findings": findings,
        })
    }
}

impl fmt::Display for ProofReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} requests, {} alike; differences: {} equal in meaning, {} deliberate, {} declared, {} DEFECTS",
            self.file,
            self.requests,
            self.same,
            self.count(DifferenceVerdict::Equal),
            self.count(DifferenceVerdict::Deliberate),
            self.count(DifferenceVerdict::Declared),
            self.count(DifferenceVerdict::Defect),
        )?;
        let mut all: Vec<_> = self.findings.iter().collect();
        all.sort_by_key(|(key, _)| (std::cmp::Reverse(key.0), key.2));
        for ((verdict, rule, line, aspect), finding) in all {
            let text = line.checked_sub(1).and_then(|index| self.lines.get(index as usize));
            writeln!(f, "\n{} ({rule}), {} times: {aspect}", verdict.title(), finding.count)?;
            if let Some(text) = text {
                writeln!(f, "  line {line}: {text}")?;
            }
            writeln!(f, "  {}", finding.request)?;
            writeln!(f, "  original: {}", finding.original)?;
            writeln!(f, "  weir:     {}", finding.weir)?;
        }
        Ok(())
    }
}
