//! Text as it comes: files, and the tree of keys and values that they hold.
//!
//! First stop on the way from text to configuration. Nothing here knows which keys exist; environment variables and
//! `include` are done here because they concern every key alike.

mod include;
mod document;
mod environment;
mod tree;

pub(crate) use document::parse_document;
pub(crate) use include::{Loading, load};
pub(crate) use tree::{Tree, TreeEntry, TreeNode, TreeTable, TreeText};
