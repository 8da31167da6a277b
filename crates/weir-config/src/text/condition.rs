//! A condition with the place of each of its comparisons, so that a value that is not known where it stands has its column.

use crate::diagnostic::SourceSpan;
use crate::key::{Bounds, ConfigValue, TreeReader, ValueKind};
use crate::source::{Tree, TreeNode};
use crate::value::WhenCondition;

/// A condition and its spans.
#[derive(Debug, Clone)]
pub(crate) struct ConditionText {
    pub(crate) value: WhenCondition,
    pub(crate) span: SourceSpan,
    /// Those of its comparisons, in the order of [`WhenCondition::terms`].
    pub(crate) terms: Vec<SourceSpan>,
}

impl ConfigValue for ConditionText {
    fn kind(bounds: Bounds) -> ValueKind {
        WhenCondition::kind(bounds)
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let value = WhenCondition::read(node, bounds, reader)?;
        let terms = value.terms().map(|(range, _)| match &node.tree {
            Tree::Text(text) => node.part(text, range),
            _ => node.span,
        });
        Some(Self { span: node.span, terms: terms.collect(), value })
    }

    fn write(&self) -> String {
        self.value.write()
    }
}
