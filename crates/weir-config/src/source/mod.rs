//! From text to a tree of keys and values.
//!
//! The first stage. Knows no keys; environment variables and `include` are handled here because they concern all keys alike.

mod fragment;
mod include;
mod document;
mod blocks;
mod environment;
mod tree;
mod translation;

pub(crate) use blocks::{BlockKeys, use_blocks};
pub use document::is_toml;
pub(crate) use document::parse_document;
pub(crate) use fragment::join_fragment;
pub(crate) use include::{Loading, load};
pub(crate) use translation::add_originals;
pub use translation::{ConfigTranslation, ConfigTranslator, OriginalPlace, TranslationFinding};
pub(crate) use tree::{Substitution, Tree, TreeEntry, TreeNode, TreeTable, TreeText};
