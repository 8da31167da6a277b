//! A time limit by progress in the config: a duration, or a table with a rate.

use std::time::Duration;

use super::ConfigValue;
use super::bounds::OutOfBounds;
use super::reader::TreeReader;
use super::schema::{Bounds, ValueKind};
use super::section::{ConfigSection, section};
use crate::source::{Tree, TreeNode};
use crate::value::{ByteRate, ProgressLimit};

section! {
    /// A time limit by progress. A transfer starts with `credit`, which decreases by one second per second; each byte transferred adds 1 /
    /// `rate_min` seconds, up to `credit`. At zero the transfer ends. So a large transfer lasts as long as it progresses, and a trickling
    /// one does not. `"30s"` is short for `{ credit = "30s" }`.
    #[derive(Debug, Clone)]
    pub(crate) struct ProgressText at "progress" {
        /// The longest standstill.
        credit: Duration = required;
        /// The rate that the transfer must sustain once its credit is used. Off: any byte restores the whole credit.
        rate_min: Option<ByteRate> = "off", in 1..=1_099_511_627_776;
    }
}

impl ConfigValue for ProgressLimit {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![Duration::kind(bounds), ProgressText::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Text(_) => Duration::read(node, Bounds::NONE, reader).map(ProgressLimit::standstill),
            Tree::Table(_) => {
                let text = ProgressText::read(node, bounds, reader)?;
                Some(ProgressLimit { credit: text.credit?, rate_min: text.rate_min })
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self.rate_min {
            None => self.credit.write(),
            Some(_) => ProgressText { credit: Some(self.credit), rate_min: self.rate_min }.inline(),
        }
    }
    fn check_bounds(&self, key: &str, bounds: Bounds, found: &mut Vec<OutOfBounds>) {
        match self.rate_min {
            None => self.credit.check_bounds(key, Bounds::NONE, found),
            Some(_) => {
                let text = ProgressText { credit: Some(self.credit), rate_min: self.rate_min };
                text.check_bounds(key, bounds, found);
            }
        }
    }
}
