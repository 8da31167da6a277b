//! The rules by name, as findings show them and `xtask/tidy.toml` excepts from them.

use std::fmt;

use serde::Deserialize;

/// One rule of the house.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HouseRule {
    /// A line ends in white space, or a file does not end in one line end.
    WhiteSpace,
    /// A word that marks unfinished work.
    Unfinished,
    /// A path that exists on one machine only.
    MachinePath,
    /// A source file that does not parse.
    Syntax,
    /// A source file does not say at its top what it is.
    Opening,
    /// A file or type has a name that says nothing.
    Name,
    /// A type has the name of another one.
    TypeName,
    /// A file is longer than the hard limit.
    FileLength,
    /// A file is longer than most files should be.
    FileLengthSoft,
    /// A folder holds more than a reader can take in.
    FolderLength,
    /// A function is longer than the hard limit.
    FunctionLength,
    /// A function is longer than a screen.
    FunctionLengthSoft,
    /// A lint is allowed, where it should be expected with a reason.
    Allow,
    /// `unwrap` where bytes from the network pass.
    Unwrap,
    /// A function gives `Pending` and ignores its context: nothing wakes the task that has polled it.
    WakeUp,
    /// `unsafe` outside of the one module for it.
    Unsafe,
    /// A link in a document leads nowhere.
    Link,
    /// A decision record lacks its heading or its date, or is not exactly once in the index.
    Decision,
    /// A document names a path that is not there.
    NamedPath,
    /// A wording that makes a reader translate.
    Wording,
    /// The message of a commit has another form than `area: imperative summary` and a body.
    Commit,
    /// A module uses one that stands above it, or a protocol that its layer does not know.
    Layer,
    /// A crate depends on what its place forbids.
    Dependency,
    /// A crate names a part of the standard library that its place forbids.
    Absence,
    /// An entry of `xtask/tidy.toml` that excepts nothing.
    Exception,
}

/// Whether a finding fails the check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingLevel {
    Error,
    Note,
}

impl HouseRule {
    pub(super) fn level(self) -> FindingLevel {
        match self {
            Self::FileLengthSoft | Self::FunctionLengthSoft => FindingLevel::Note,
            _ => FindingLevel::Error,
        }
    }
}

impl fmt::Display for HouseRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Debug gives the name in the code: `FileLength`. In text it is `file-length`.
        for (at, letter) in format!("{self:?}").char_indices() {
            if letter.is_ascii_uppercase() && at > 0 {
                write!(f, "-")?;
            }
            write!(f, "{}", letter.to_ascii_lowercase())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_soft_limits_are_notes() {
        for rule in [HouseRule::FileLengthSoft, HouseRule::FunctionLengthSoft] {
            assert_eq!(rule.level(), FindingLevel::Note, "{rule}");
        }
        for rule in [HouseRule::FileLength, HouseRule::FunctionLength, HouseRule::TypeName, HouseRule::Layer]
        {
            assert_eq!(rule.level(), FindingLevel::Error, "{rule}");
        }
    }

    #[test]
    fn shown_and_read_by_the_same_name() {
        #[derive(Deserialize)]
        struct Entry {
            rule: HouseRule,
        }
        for rule in [HouseRule::FunctionLengthSoft, HouseRule::Name, HouseRule::MachinePath] {
            let entry: Entry = toml::from_str(&format!("rule = \"{rule}\"")).unwrap();
            assert_eq!(entry.rule, rule);
        }
    }
}
