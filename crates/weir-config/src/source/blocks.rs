//! `[block.NAME]`: keys that listeners, routes, upstreams, servers, health checks and files take with `use = ["NAME"]`.
//!
//! After files are joined and before a key is read, so that everything later sees whole tables. A key that the table sets itself counts; tables are
//! merged key by key, and routes are added behind those of the listener. Two blocks that set one key differently are an error: no order decides.

use std::collections::{HashMap, HashSet};

use super::{Tree, TreeEntry, TreeNode, TreeTable};
use crate::diagnostic::{Diagnostic, DiagnosticKind, SourceSpan, did_you_mean};

/// Blocks of blocks: a block, one that it uses, and one that this one uses.
const NESTED_MAX: usize = 3;

/// Keys that all uses together may add: some files of a few lines could else come to more than memory has.
const KEYS_MAX: usize = 1_000_000;

/// The key that names blocks.
const USE: &str = "use";

/// The one list that is joined.
const ROUTES: &str = "route";

/// The keys of blocks that are in use, by where they are written.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockKeys(HashMap<SourceSpan, Box<str>>);

impl BlockKeys {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The block in which a key or a member of a list was written.
    pub(crate) fn block_of(&self, at: &SourceSpan) -> Option<&str> {
        self.0.get(at).map(|name| &**name)
    }

    fn add(&mut self, block: &str, node: &TreeNode) {
        match &node.tree {
            Tree::Table(table) => {
                for entry in &table.entries {
                    self.0.insert(entry.key_at, block.into());
                    self.add(block, &entry.node);
                }
            }
            Tree::List(list) => {
                for node in list {
                    self.0.insert(node.span, block.into());
                    self.add(block, node);
                }
            }
            _ => {}
        }
    }
}

/// Puts the keys of blocks where they are used, and takes `block` and every `use` away. `may_use` says whether the author of a `use` may have one.
/// `None` when they come to too many: the tables that use them are gone, then.
pub(crate) fn use_blocks(
    root: &mut TreeNode,
    may_use: &dyn Fn(SourceSpan) -> bool,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<BlockKeys> {
    let Tree::Table(table) = &mut root.tree else { return Some(BlockKeys::default()) };
    let written = table.remove("block");
    let mut uses =
        BlockUses { blocks: Vec::new(), whole: HashMap::new(), keys_left: KEYS_MAX, may_use, diagnostics };
    let mut keys = BlockKeys::default();
    if let Some(written) = written {
        uses.declare(written, &mut keys);
    }
    uses.expand(root, BlockPlace::Root);
    if uses.keys_left == 0 {
        root.tree = Tree::Table(TreeTable::default());
        return None;
    }
    uses.warn_unused();
    Some(keys)
}

/// A table of the config, as far as blocks go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BlockPlace {
    Root,
    Listeners,
    Listener,
    Route,
    Files,
    Upstreams,
    Upstream,
    Server,
    Health,
}

impl BlockPlace {
    /// The table under a key of this one.
    fn inner(self, key: &str) -> Option<Self> {
        Some(match (self, key) {
            (Self::Root, "listener") => Self::Listeners,
            (Self::Root, "upstream") => Self::Upstreams,
            (Self::Listeners, _) => Self::Listener,
            (Self::Upstreams, _) => Self::Upstream,
            (Self::Listener, ROUTES) => Self::Route,
            (Self::Listener | Self::Route, "files") => Self::Files,
            (Self::Upstream, "servers") => Self::Server,
            (Self::Upstream, "health") => Self::Health,
            _ => return None,
        })
    }

    const fn takes_blocks(self) -> bool {
        !matches!(self, Self::Root | Self::Listeners | Self::Upstreams)
    }
}

/// A block as it is written.
struct NamedBlock {
    name: String,
    name_at: SourceSpan,
    table: TreeTable,
    is_used: bool,
}

/// A block with all that it uses.
struct WholeBlock {
    table: TreeTable,
    /// Of how many blocks the longest way consists that begins with it.
    depth: usize,
}

/// The name of a block in a `use`.
struct Use {
    name: String,
    at: SourceSpan,
}

struct BlockUses<'a> {
    blocks: Vec<NamedBlock>,
    /// The blocks with what they use themselves.
    whole: HashMap<String, WholeBlock>,
    keys_left: usize,
    may_use: &'a dyn Fn(SourceSpan) -> bool,
    diagnostics: &'a mut Vec<Diagnostic>,
}

impl BlockUses<'_> {
    fn declare(&mut self, written: TreeEntry, keys: &mut BlockKeys) {
        let Tree::Table(blocks) = written.node.tree else {
            let help = "write `[block.NAME]` with keys of a listener, a route, an upstream, a server, `health` or `files`";
            let diagnostic =
                Diagnostic::new(DiagnosticKind::WrongType, written.key_at, "`block` is not a table");
            return self.diagnostics.push(diagnostic.help(help));
        };
        for TreeEntry { key: name, key_at: name_at, node } in blocks.entries {
            keys.add(&name, &node);
            match node.tree {
                Tree::Table(table) => self.blocks.push(NamedBlock { name, name_at, table, is_used: false }),
                other => self.diagnostics.push(Diagnostic::new(
                    DiagnosticKind::WrongType,
                    name_at,
                    format!("`block.{name}` is {}, not a table", other.describe()),
                )),
            }
        }
    }

    fn expand(&mut self, node: &mut TreeNode, place: BlockPlace) {
        match &mut node.tree {
            Tree::Table(table) => {
                if place.takes_blocks()
                    && let Some(used) = table.remove(USE)
                {
                    self.put(table, &used);
                }
                for entry in &mut table.entries {
                    if let Some(inner) = place.inner(&entry.key) {
                        self.expand(&mut entry.node, inner);
                    }
                }
            }
            Tree::List(list) => list.iter_mut().for_each(|node| self.expand(node, place)),
            _ => {}
        }
    }

    /// Adds what the blocks of a `use` have to the table in which that is.
    fn put(&mut self, table: &mut TreeTable, used: &TreeEntry) {
        if !(self.may_use)(used.key_at) {
            let message = "a fragment cannot use a block of the file";
            let diagnostic = Diagnostic::new(DiagnosticKind::NotSupported, used.key_at, message);
            return self.diagnostics.push(diagnostic.help("write the keys themselves"));
        }
        if self.keys_left == 0 {
            return;
        }
        let found = self.together(table, used, &mut Vec::new());
        self.keys_left = self.keys_left.saturating_sub(count_keys(&found));
        if self.keys_left == 0 {
            let message = format!("all blocks in use come to {KEYS_MAX} keys or more");
            return self.diagnostics.push(Diagnostic::new(DiagnosticKind::BadValue, used.key_at, message));
        }
        table.fill(found);
    }

    /// What the blocks of a `use` have together; `own` is the table that uses them, `under_way` the blocks that lead to it.
    fn together(&mut self, own: &TreeTable, used: &TreeEntry, under_way: &mut Vec<String>) -> TreeTable {
        let mut found = TreeTable::default();
        for Use { name, at } in self.names(used) {
            if let Some(block) = self.whole(&name, at, under_way) {
                join(&mut found, block, Some(own), at, self.diagnostics);
            }
        }
        found
    }

    /// The names of a `use`, each once.
    fn names(&mut self, used: &TreeEntry) -> Vec<Use> {
        let nodes = match &used.node.tree {
            Tree::List(list) => &list[..],
            _ => std::slice::from_ref(&used.node),
        };
        for node in nodes.iter().filter(|node| !matches!(node.tree, Tree::Text(_) | Tree::Unknown)) {
            let message = format!("`use` has {}, not the name of a block", node.tree.describe());
            let diagnostic = Diagnostic::new(DiagnosticKind::WrongType, node.span, message);
            self.diagnostics.push(diagnostic.help("write `use = [\"NAME\"]`"));
        }
        let mut known = HashSet::new();
        let mut names = names_in(used);
        names.retain(|used| {
            let is_new = known.insert(used.name.clone());
            if !is_new {
                let message = format!("`block.{}` is used twice", used.name);
                self.diagnostics.push(Diagnostic::new(DiagnosticKind::Duplicate, used.at, message));
            }
            is_new
        });
        names
    }

    /// A block with all that it uses itself.
    fn whole(&mut self, name: &str, at: SourceSpan, under_way: &mut Vec<String>) -> Option<TreeTable> {
        let Some(place) = self.blocks.iter().position(|block| block.name == name) else {
            let help = did_you_mean(name, self.blocks.iter().map(|block| &*block.name));
            let diagnostic =
                Diagnostic::new(DiagnosticKind::UnknownName, at, format!("there is no block `{name}`"));
            self.diagnostics.push(diagnostic.help(help.unwrap_or_else(|| format!("add `[block.{name}]`"))));
            return None;
        };
        self.blocks[place].is_used = true;
        let depth = self.whole.get(name).map_or(1, |known| known.depth);
        if let Some(diagnostic) = cannot_be_used(name, at, under_way, depth) {
            self.diagnostics.push(diagnostic);
            return None;
        }
        if let Some(known) = self.whole.get(name) {
            return Some(known.table.clone());
        }
        let mut table = self.blocks[place].table.clone();
        let mut depth = 1;
        if let Some(used) = table.remove(USE) {
            under_way.push(name.to_owned());
            let found = self.together(&table, &used, under_way);
            under_way.pop();
            let inner = |used: Use| self.whole.get(&used.name).map_or(0, |known| known.depth);
            depth += names_in(&used).into_iter().map(inner).max().unwrap_or(0);
            table.fill(found);
        }
        self.whole.insert(name.to_owned(), WholeBlock { table: table.clone(), depth });
        Some(table)
    }

    fn warn_unused(&mut self) {
        for block in self.blocks.iter().filter(|block| !block.is_used) {
            let message = format!("no table uses the block `{}`", block.name);
            let diagnostic = Diagnostic::new(DiagnosticKind::Unused, block.name_at, message);
            self.diagnostics.push(
                diagnostic
                    .help(format!("write `use = [\"{}\"]` where its keys belong, or remove it", block.name)),
            );
        }
    }
}

/// The names that can be read, each as often as it is written.
fn names_in(used: &TreeEntry) -> Vec<Use> {
    let nodes = match &used.node.tree {
        Tree::List(list) => &list[..],
        _ => std::slice::from_ref(&used.node),
    };
    let name = |node: &TreeNode| match &node.tree {
        Tree::Text(text) => Some(Use { name: text.value.clone(), at: node.span }),
        _ => None,
    };
    nodes.iter().filter_map(name).collect()
}

/// Why a block cannot be used from those under way, if so; `depth` is that of the block itself.
fn cannot_be_used(name: &str, at: SourceSpan, under_way: &[String], depth: usize) -> Option<Diagnostic> {
    if under_way.iter().any(|known| known == name) {
        let way = [under_way, &[name.to_owned()]].concat().join("` uses `");
        return Some(Diagnostic::new(DiagnosticKind::Conflict, at, format!("blocks in a circle: `{way}`")));
    }
    (under_way.len() + depth > NESTED_MAX).then(|| {
        let message = format!("blocks are nested more than {NESTED_MAX} deep");
        Diagnostic::new(DiagnosticKind::BadValue, at, message).help("use this block where its keys belong")
    })
}

fn count_keys(table: &TreeTable) -> usize {
    fn count(node: &TreeNode) -> usize {
        match &node.tree {
            Tree::Table(table) => count_keys(table),
            Tree::List(list) => list.iter().map(count).sum(),
            _ => 0,
        }
    }
    table.entries.iter().map(|entry| 1 + count(&entry.node)).sum()
}

/// Adds the keys of one more block. One that an earlier block has set is an error, unless the table that uses both sets it itself.
fn join(
    into: &mut TreeTable,
    block: TreeTable,
    own: Option<&TreeTable>,
    at: SourceSpan,
    diagnostics: &mut Vec<Diagnostic>,
) {
    for entry in block.entries {
        let own = own.and_then(|own| own.find(&entry.key));
        let Some(known) = into.entries.iter_mut().find(|known| known.key == entry.key) else {
            into.entries.push(entry);
            continue;
        };
        match (&mut known.node.tree, entry.node.tree) {
            (Tree::Table(known), Tree::Table(more)) => {
                let own = own.and_then(|own| match &own.node.tree {
                    Tree::Table(own) => Some(own),
                    _ => None,
                });
                join(known, more, own, at, diagnostics);
            }
            (Tree::List(known), Tree::List(more)) if entry.key == ROUTES => add_routes(known, more),
            // By two ways from one block, or of no account.
            _ if known.key_at == entry.key_at || own.is_some() => {}
            _ => {
                let message = format!("two blocks set `{}`", entry.key);
                let diagnostic = Diagnostic::new(DiagnosticKind::Conflict, at, message)
                    .label(known.key_at, "one here")
                    .label(entry.key_at, "the other one here");
                diagnostics.push(diagnostic.help("set it beside `use`, or use one of them"));
            }
        }
    }
}

/// Adds routes, each once.
fn add_routes(known: &mut Vec<TreeNode>, more: Vec<TreeNode>) {
    let written: HashSet<SourceSpan> = known.iter().map(|route| route.span).collect();
    known.extend(more.into_iter().filter(|route| !written.contains(&route.span)));
}

impl TreeTable {
    /// Takes an entry away.
    fn remove(&mut self, key: &str) -> Option<TreeEntry> {
        let place = self.entries.iter().position(|entry| entry.key == key)?;
        // Places of others have changed.
        let mut entries = std::mem::take(&mut self.entries);
        let removed = entries.remove(place);
        *self = Self::new(entries);
        Some(removed)
    }

    /// Adds the entries whose keys it does not have; tables are filled alike, and routes are added.
    fn fill(&mut self, from: TreeTable) {
        let mut entries = std::mem::take(&mut self.entries);
        for entry in from.entries {
            let Some(own) = entries.iter_mut().find(|own| own.key == entry.key) else {
                entries.push(entry);
                continue;
            };
            match (&mut own.node.tree, entry.node.tree) {
                (Tree::Table(own), Tree::Table(more)) => own.fill(more),
                (Tree::List(own), Tree::List(more)) if entry.key == ROUTES => add_routes(own, more),
                _ => {}
            }
        }
        *self = Self::new(entries);
    }
}
