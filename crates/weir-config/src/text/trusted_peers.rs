//! Peers that are trusted, in the text: networks, lists of networks by name, and those on a Unix socket.

use ipnet::IpNet;

use crate::key::{Bounds, ChoiceWord, ConfigValue, Spanned, TextFormat, TreeReader, ValueKind};
use crate::source::{Tree, TreeNode};
use crate::value::parse_network;

/// What stands before the name of a list.
const LIST: &str = "list.";

const UNIX: &[ChoiceWord] = &[ChoiceWord { name: "unix", meaning: "every peer on a Unix socket" }];

static LIST_NAME: TextFormat = TextFormat {
    name: "list of networks",
    article: "the name of a list of networks",
    examples: &["list.cdn"],
    pattern: r"^list\..+$",
    about: "`list.NAME`, for the networks of [`[list.NAME]`](#listname), those in its files included. Its `action` does not matter here.",
};

/// Peers as they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct TrustedPeersText {
    pub(crate) networks: Vec<IpNet>,
    /// The names of lists.
    pub(crate) lists: Vec<Spanned<Box<str>>>,
    pub(crate) unix: bool,
}

fn item_kind(bounds: Bounds) -> ValueKind {
    ValueKind::Either(vec![
        IpNet::kind(bounds),
        ValueKind::Text(&LIST_NAME, Bounds::NONE),
        ValueKind::Choice(UNIX),
    ])
}

impl ConfigValue for TrustedPeersText {
    fn kind(bounds: Bounds) -> ValueKind {
        ValueKind::List(Box::new(item_kind(bounds)))
    }

    fn read(node: &TreeNode, bounds: Bounds, reader: &mut TreeReader<'_>) -> Option<Self> {
        let Tree::List(list) = &node.tree else {
            reader.wrong_type(node, &Self::kind(bounds));
            return None;
        };
        let mut trusted = Self::default();
        let item_kind = item_kind(bounds);
        for item in list {
            match &item.tree {
                Tree::Text(text) if text.value == UNIX[0].name => trusted.unix = true,
                Tree::Text(text) if text.value.starts_with(LIST) => {
                    let name = text.value[LIST.len()..].into();
                    trusted.lists.push(Spanned { value: name, span: item.span });
                }
                _ => trusted.networks.extend(reader.parsed(item, &item_kind, parse_network)),
            }
        }
        Some(trusted)
    }

    fn write(&self) -> String {
        let networks = self.networks.iter().map(ConfigValue::write);
        let lists = self.lists.iter().map(|list| Box::<str>::from(format!("{LIST}{}", list.value)).write());
        let unix = self.unix.then(|| Box::<str>::from(UNIX[0].name).write());
        format!("[{}]", networks.chain(lists).chain(unix).collect::<Vec<_>>().join(", "))
    }
}
