//! The paths that a source names, written out in full: `Instant::now` is `std::time::Instant::now` where `use` says so.
//!
//! Knows one file at a time and no types, so a method called on a value is not a path. Code that is compiled for tests
//! only is left out.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::test_code::is_test_only;

/// A path and its line.
pub(super) struct NamedPath {
    pub(super) path: String,
    pub(super) line: usize,
}

/// All paths in code and in `use` declarations.
pub(super) fn named_paths(file: &syn::File) -> Vec<NamedPath> {
    let mut names = PathVisitor { imported: BTreeMap::new(), named: Vec::new() };
    names.visit_file(file);
    let PathVisitor { imported, named } = names;
    named.into_iter().map(|(segments, line)| NamedPath { path: expand(&segments, &imported), line }).collect()
}

/// What the names of a file stand for: name to full path, by its `use` declarations.
pub(super) type Imports = BTreeMap<String, String>;

/// The `use` declarations of a file.
pub(super) fn imports(file: &syn::File) -> Imports {
    let mut names = PathVisitor { imported: BTreeMap::new(), named: Vec::new() };
    names.visit_file(file);
    names.imported
}

/// Replaces the first segment by what was imported under that name.
fn expand(segments: &[String], imported: &BTreeMap<String, String>) -> String {
    let full = match segments.split_first() {
        Some((first, rest)) => match imported.get(first) {
            Some(path) => {
                std::iter::once(path).chain(rest).map(String::as_str).collect::<Vec<_>>().join("::")
            }
            None => segments.join("::"),
        },
        None => String::new(),
    };
    match full.strip_prefix("core::") {
        Some(rest) => format!("std::{rest}"),
        None => full,
    }
}

struct PathVisitor {
    /// Name in this file to full path.
    imported: BTreeMap<String, String>,
    named: Vec<(Vec<String>, usize)>,
}

impl PathVisitor {
    fn import(&mut self, mut before: Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(before, &path.tree);
            }
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(before.clone(), tree));
            }
            syn::UseTree::Glob(glob) => self.named.push((before, glob.star_token.spans[0].start().line)),
            syn::UseTree::Name(name) => self.import_as(before, &name.ident, &name.ident),
            syn::UseTree::Rename(rename) => self.import_as(before, &rename.ident, &rename.rename),
        }
    }

    fn import_as(&mut self, mut path: Vec<String>, ident: &syn::Ident, name: &syn::Ident) {
        if ident != "self" {
            path.push(ident.to_string());
        }
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_string() };
        self.imported.insert(name, path.join("::"));
        self.named.push((path, ident.span().start().line));
    }
}

impl<'ast> Visit<'ast> for PathVisitor {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_test_only(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_test_only(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_test_only(&item.attrs) {
            self.import(Vec::new(), &item.tree);
        }
    }

    /// `pub(in a::b)` limits the visibility of the item, and uses nothing.
    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if let Some(first) = path.segments.first() {
            let segments = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.named.push((segments, first.ident.span().start().line));
        }
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(String, usize)> {
        let file = syn::parse_file(text).unwrap();
        named_paths(&file).into_iter().map(|named| (named.path, named.line)).collect()
    }

    fn names(text: &str, path: &str) -> bool {
        named(text).iter().any(|(named, _)| named == path)
    }

    #[test]
    fn imports_are_followed() {
        let now = "std::time::Instant::now";
        for text in [
            "fn a() { std::time::Instant::now(); }",
            "use std::time::Instant;\nfn a() { Instant::now(); }",
            "use std::time;\nfn a() { time::Instant::now(); }",
            "use std::time::{self, Duration};\nfn a() { time::Instant::now(); }",
            "use core::time::{Duration, Instant as Moment};\nfn a() -> Moment { Moment::now() }",
            "fn a() { use std::time::Instant; vec.map_or_else(Instant::now, |x| x); }",
        ] {
            assert!(names(text, now), "{text}");
        }
        assert!(!names("use crate::clock::Instant;\nfn a() { Instant::now(); }", now));
        assert!(!names("// std::time::Instant::now\nconst A: &str = \"std::time::Instant::now\";", now));
    }

    #[test]
    fn imports_are_names_themselves() {
        assert_eq!(named("use std::fs;"), [("std::fs".to_owned(), 1)]);
        assert_eq!(named("\nuse std::fs::*;"), [("std::fs".to_owned(), 2)]);
        assert!(names("use std::{io, net::{IpAddr, TcpStream}};", "std::net::TcpStream"));
    }

    #[test]
    fn visibility_names_nothing() {
        assert_eq!(named("pub(crate) struct A;\npub(in crate::b) fn c() {}\n"), []);
    }

    #[test]
    fn tests_are_left_out() {
        assert_eq!(named("#[cfg(test)]\nmod tests { use std::fs; }\n#[cfg(test)]\nuse std::fs;"), []);
        assert!(!names("#[test]\nfn a() { std::fs::read(1); }", "std::fs::read"));
    }
}
