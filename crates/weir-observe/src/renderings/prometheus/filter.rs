//! Which families a scrape shows.

use super::families::{Family, all};

/// The families to show: all, or those whose names begin with one of some prefixes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FamilyFilter(Vec<String>);

/// No name of a family begins with this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoSuchFamily(pub String);

impl FamilyFilter {
    /// Families that begin with one of `prefixes`; without prefixes all.
    ///
    /// # Errors
    /// The first prefix that no family begins with.
    pub fn by_prefix(prefixes: Vec<String>) -> Result<FamilyFilter, NoSuchFamily> {
        let is_vain = |prefix: &&String| !all().any(|family| family.name.starts_with(&**prefix));
        match prefixes.iter().find(is_vain) {
            Some(vain) => Err(NoSuchFamily(vain.clone())),
            None => Ok(FamilyFilter(prefixes)),
        }
    }

    /// The families, in the order of the text.
    pub(super) fn families(&self) -> Vec<&'static Family> {
        let is_shown = |family: &&Family| {
            self.0.is_empty() || self.0.iter().any(|prefix| family.name.starts_with(&**prefix))
        };
        all().filter(is_shown).collect()
    }
}
