//! `xtask/tidy.toml`: where a rule is broken on purpose, each with the reason.
//!
//! An entry that excepts nothing is a finding itself, so that exceptions go when their reason goes.

use std::fs;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;

use super::finding::Finding;
use super::rule::HouseRule;

const FILE: &str = "xtask/tidy.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exceptions {
    #[serde(default)]
    exception: Vec<Exception>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Exception {
    rule: HouseRule,
    path: String,
    /// The function, type or word; without it the whole file is meant.
    item: Option<String>,
    reason: String,
}

impl Exceptions {
    /// Reads the file. There need not be one.
    pub(super) fn read(root: &Path) -> anyhow::Result<Self> {
        let file = root.join(FILE);
        if !file.exists() {
            return Ok(Self::default());
        }
        Self::parse(&fs::read_to_string(&file)?)
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let exceptions: Self = toml::from_str(text).with_context(|| format!("{FILE} is not understood"))?;
        for exception in &exceptions.exception {
            anyhow::ensure!(
                !exception.reason.trim().is_empty(),
                "{FILE}: {} lacks its reason",
                exception.path
            );
        }
        Ok(exceptions)
    }

    /// Removes what is excepted and adds a finding for each exception that nothing needs.
    pub(super) fn apply(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let unused = self
            .exception
            .iter()
            .filter(|exception| !findings.iter().any(|finding| exception.covers(finding)));
        let mut left: Vec<Finding> = unused
            .map(|exception| {
                let message =
                    format!("the exception from {} for {} is not needed", exception.rule, exception.path);
                Finding::new(HouseRule::Exception, FILE, 0, &exception.path, message)
            })
            .collect();
        let excepted = |finding: &Finding| self.exception.iter().any(|exception| exception.covers(finding));
        left.extend(findings.into_iter().filter(|finding| !excepted(finding)));
        left
    }
}

impl Exception {
    fn covers(&self, finding: &Finding) -> bool {
        self.rule == finding.rule
            && self.path == finding.path
            && self.item.as_ref().is_none_or(|item| *item == finding.item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str =
        "[[exception]]\nrule = \"name\"\npath = \"a.rs\"\nitem = \"Core\"\nreason = \"theirs\"\n";

    fn finding(path: &str, item: &str) -> Finding {
        Finding::new(HouseRule::Name, path, 1, item, "m")
    }

    #[test]
    fn exactly_what_is_named_is_excepted() {
        let exceptions = Exceptions::parse(ONE).unwrap();
        let found = vec![finding("a.rs", "Core"), finding("a.rs", "Misc"), finding("b.rs", "Core")];
        assert_eq!(exceptions.apply(found.clone()), found[1..]);
    }

    #[test]
    fn without_an_item_the_file_is_excepted_from_the_rule() {
        let exceptions = Exceptions::parse(&ONE.replace("item = \"Core\"\n", "")).unwrap();
        let other_rule = Finding::new(HouseRule::Unwrap, "a.rs", 1, "Core", "m");
        let found = vec![finding("a.rs", "Core"), finding("a.rs", "Misc"), other_rule.clone()];
        assert_eq!(exceptions.apply(found), [other_rule]);
    }

    #[test]
    fn an_exception_that_nothing_needs_is_a_finding() {
        let left = Exceptions::parse(ONE).unwrap().apply(Vec::new());
        assert_eq!(left.len(), 1);
        assert_eq!(left[0].message, "the exception from name for a.rs is not needed");
    }

    #[test]
    fn every_exception_has_a_reason() {
        let error = Exceptions::parse(&ONE.replace("theirs", " ")).unwrap_err().to_string();
        assert_eq!(error, "xtask/tidy.toml: a.rs lacks its reason");
        assert!(Exceptions::parse(&ONE.replace("reason = \"theirs\"\n", "")).is_err());
        assert!(Exceptions::parse(&ONE.replace("\"name\"", "\"nmae\"")).is_err());
    }
}
