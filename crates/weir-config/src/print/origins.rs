//! Which printed lines came from a block.

use std::collections::HashMap;

use crate::source::{BlockKeys, Tree, TreeNode};

/// Between the keys of a path: no key has it.
const SEPARATOR: char = '\u{1f}';

/// The blocks of printed lines, which are asked for in the order of the document.
pub(super) struct LineOrigins<'a> {
    /// The block of each path that came from one, with all that is under it.
    blocks: HashMap<String, &'a str>,
    /// The path of the table whose lines are printed.
    table: String,
    /// How many routes of the listener have begun.
    routes: usize,
}

impl<'a> LineOrigins<'a> {
    pub(super) fn new(tree: Option<&'a TreeNode>, keys: &'a BlockKeys) -> Self {
        let mut blocks = HashMap::new();
        if let Some(tree) = tree.filter(|_| !keys.is_empty()) {
            collect(tree, "", keys, &mut blocks);
        }
        Self { blocks, table: String::new(), routes: 0 }
    }

    /// The block that a line came from.
    pub(super) fn block_of(&mut self, line: &str) -> Option<&'a str> {
        if self.blocks.is_empty() {
            return None;
        }
        if let Some(header) = line.strip_prefix("[[").and_then(|rest| rest.strip_suffix("]]")) {
            self.table = path_of(&format!("{header}.{}", self.routes));
            self.routes += 1;
            return self.found(&self.table);
        }
        if let Some(header) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            (self.table, self.routes) = (path_of(header), 0);
            return self.found(&self.table);
        }
        if line.is_empty() {
            return None;
        }
        self.found(&format!("{}{}", self.table, path_of(line)))
    }

    /// The block of a path or of what it is in. What is in a table that came as a whole is said at each of its lines.
    fn found(&self, path: &str) -> Option<&'a str> {
        let ends =
            path.char_indices().filter(|(_, char)| *char == SEPARATOR).map(|(at, char)| at + char.len_utf8());
        ends.rev().find_map(|end| self.blocks.get(&path[..end]).copied())
    }
}

fn collect<'a>(node: &'a TreeNode, path: &str, keys: &'a BlockKeys, found: &mut HashMap<String, &'a str>) {
    match &node.tree {
        Tree::Table(table) => {
            for entry in &table.entries {
                let path = format!("{path}{}{SEPARATOR}", entry.key);
                if let Some(block) = keys.block_of(&entry.key_at) {
                    found.insert(path.clone(), block);
                }
                collect(&entry.node, &path, keys, found);
            }
        }
        Tree::List(list) => {
            for (place, node) in list.iter().enumerate() {
                let path = format!("{path}{place}{SEPARATOR}");
                if let Some(block) = keys.block_of(&node.span) {
                    found.insert(path.clone(), block);
                }
                collect(node, &path, keys, found);
            }
        }
        _ => {}
    }
}

/// The keys at the beginning of a line, each with its separator.
fn path_of(line: &str) -> String {
    let mut path = String::new();
    let mut rest = line;
    loop {
        let (key, after) = match rest.strip_prefix('"') {
            Some(quoted) => {
                let Some(end) = quoted.find('"') else { return path };
                (&quoted[..end], &quoted[end + 1..])
            }
            None => {
                let end = rest.find(['.', ' ']).unwrap_or(rest.len());
                (&rest[..end], &rest[end..])
            }
        };
        path.push_str(key);
        path.push(SEPARATOR);
        match after.strip_prefix('.') {
            Some(after) => rest = after,
            None => return path,
        }
    }
}
