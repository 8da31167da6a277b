//! `access_log` of a route in the text.

use crate::config::{AccessLog, RouteAccessLog};
use crate::key::{Bounds, ConfigSection as _, ConfigValue, SpannedTable, TreeReader, ValueKind};
use crate::source::{Tree, TreeNode};

/// `true`, `false`, or a table.
#[derive(Debug, Clone)]
pub(crate) enum RouteAccessLogText {
    /// Whether the route writes to the log of the listener.
    OfListener(bool),
    /// A log of its own.
    Own(Box<SpannedTable<AccessLog>>),
}

impl RouteAccessLogText {
    pub(crate) fn to_access_log(&self) -> RouteAccessLog {
        match self {
            Self::OfListener(true) => RouteAccessLog::OfListener,
            Self::OfListener(false) => RouteAccessLog::OnlyFailures,
            // One without a format is an error.
            Self::Own(log) => RouteAccessLog::Own(Box::new(log.value.clone())),
        }
    }
}

impl ConfigValue for RouteAccessLogText {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::Either(vec![ValueKind::Boolean, AccessLog::kind(bounds)])
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        match &node.tree {
            Tree::Table(_) => SpannedTable::read(node, bounds, reader).map(|log| Self::Own(Box::new(log))),
            tree if ValueKind::Boolean.accepts(tree) => {
                bool::read(node, bounds, reader).map(Self::OfListener)
            }
            _ => {
                reader.wrong_type(node, &Self::kind(bounds));
                None
            }
        }
    }

    fn write(&self) -> String {
        match self {
            Self::OfListener(is_on) => is_on.write(),
            Self::Own(log) => log.value.inline(),
        }
    }

    fn lines(&self, path: &str, lines: &mut Vec<String>) {
        match self {
            Self::OfListener(is_on) => is_on.lines(path, lines),
            Self::Own(log) => log.value.lines(path, lines),
        }
    }
}
