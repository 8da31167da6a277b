//! `[table.NAME]`: which requests a table of counters counts.

use std::ops::RangeInclusive;
use std::sync::Arc;

use crate::config::LimitStore;
use crate::order::{Feature, Stage};
use crate::value::{TableDefinition, Template, TemplateValue, WhenCondition};

/// How long an entry may be unused, in milliseconds.
pub(crate) const EXPIRE: RangeInclusive<u64> = 100..=86_400_000 * 7;

/// A table of counters, and what it counts.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub struct TrackedTable {
    /// Its key and its counters.
    pub definition: Arc<TableDefinition>,
    /// Only requests for which it holds are counted.
    pub when: Option<WhenCondition>,
    /// When the general purpose counters are raised, in the order of their numbers.
    pub increments: [Option<WhenCondition>; 2],
    /// The store in which several nodes share it; `None`: it is of this node alone.
    pub shared: Option<Arc<LimitStore>>,
}

impl TrackedTable {
    pub(crate) fn new(
        definition: Arc<TableDefinition>,
        when: Option<WhenCondition>,
        increments: [Option<WhenCondition>; 2],
        shared: Option<Arc<LimitStore>>,
    ) -> Self {
        Self { definition, when, increments, shared }
    }

    /// The values that it asks for when it counts a request.
    pub(crate) fn values(&self) -> impl Iterator<Item = &TemplateValue> {
        Template::values(&self.definition.key).chain(self.when.iter().flat_map(WhenCondition::values))
    }

    /// The stage at which it counts a request.
    pub fn stage(&self) -> Stage {
        let known = self.values().map(TemplateValue::stage).max().unwrap_or(Stage::RequestHead);
        Feature::Tables.acts_from(known).unwrap_or(known)
    }

    /// Whether the condition of a general purpose counter is asked at the end of an exchange, since it cannot be asked when the request is counted.
    pub fn is_asked_at_end(&self, increment: &WhenCondition) -> bool {
        increment.stage() > self.stage()
    }

    /// Whether any is.
    pub fn asks_at_end(&self) -> bool {
        self.increments.iter().flatten().any(|increment| self.is_asked_at_end(increment))
    }
}
