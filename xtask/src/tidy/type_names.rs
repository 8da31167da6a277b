//! One name per type: a reader who meets a name finds one definition of it in the whole workspace.
//!
//! Counts what `struct`, `enum`, `union`, `trait` and `type` define in the sources of the crates, of xtask and of the fuzz
//! targets. Tests are left out, and so are the associated types of traits, whose names their traits give.

use std::collections::BTreeMap;

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::rule::HouseRule;
use super::test_code::is_test_only;
use super::tree::SourceTree;

/// A name that may have several definitions.
struct SharedName {
    name: &'static str,
    /// Why another name would be worse.
    reason: &'static str,
}

/// More exceptions than these would be a habit.
const SHARED_NAMES_MAX: usize = 15;

const SHARED_NAMES: &[SharedName] = &[
    SharedName { name: "AddressDatabase", reason: "the same type in a build without the feature `geoip`" },
    SharedName { name: "DatabaseReader", reason: "the same type in a build without the feature `geoip`" },
    SharedName {
        name: "ThreadRegistration",
        reason: "the same type in a build without the feature `profiler`",
    },
    SharedName { name: "TraceExport", reason: "the same type in a build without the feature `traces`" },
    SharedName { name: "XdsClient", reason: "the same type in a build without the feature `xds`" },
];

/// Where a type is defined.
struct Definition<'a> {
    path: &'a str,
    line: usize,
}

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    check_with(tree, SHARED_NAMES)
}

fn check_with(tree: &SourceTree, shared: &[SharedName]) -> Vec<Finding> {
    let all = definitions(tree);
    let count = |name: &str| all.get(name).map_or(0, Vec::len);
    let repeated = all.iter().filter(|(name, definitions)| {
        definitions.len() > 1 && !shared.iter().any(|shared| shared.name == name.as_str())
    });
    let mut findings: Vec<Finding> =
        repeated.map(|(name, definitions)| repeated_name(name, definitions)).collect();
    let own_path = "xtask/src/tidy/type_names.rs";
    let stale = shared.iter().filter(|shared| count(shared.name) < 2);
    findings.extend(stale.map(|shared| {
        let SharedName { name, reason } = shared;
        let message =
            format!("`{name}` has one definition, yet is listed to have more ({reason}): remove it");
        Finding::new(HouseRule::TypeName, own_path, 0, shared.name, message)
    }));
    if shared.len() > SHARED_NAMES_MAX {
        let message = format!("{} names are excepted, {SHARED_NAMES_MAX} are the most", shared.len());
        findings.push(Finding::new(HouseRule::TypeName, own_path, 0, "", message));
    }
    findings
}

fn repeated_name(name: &str, definitions: &[Definition<'_>]) -> Finding {
    let (first, others) = definitions.split_first().expect("a name is listed for its definitions");
    let others: Vec<String> = others.iter().map(|other| format!("{}:{}", other.path, other.line)).collect();
    let message = format!("`{name}` is also defined in {}", others.join(", "));
    Finding::new(HouseRule::TypeName, first.path, first.line, name, message)
}

/// All definitions by name, in the order of the files.
fn definitions(tree: &SourceTree) -> BTreeMap<String, Vec<Definition<'_>>> {
    let mut all: BTreeMap<String, Vec<Definition<'_>>> = BTreeMap::new();
    for source in tree.sources().iter().filter(|source| !source.test && is_counted(&source.path)) {
        let Ok(syntax) = &source.syntax else { continue };
        let mut types = Types(Vec::new());
        types.visit_file(syntax);
        for (name, line) in types.0 {
            all.entry(name).or_default().push(Definition { path: &source.path, line });
        }
    }
    all
}

/// Whether a source is part of a program or a library. Examples and build scripts are not.
fn is_counted(path: &str) -> bool {
    let in_crate = ["crates/", "lab/"].iter().find_map(|folder| path.strip_prefix(folder)?.split_once('/'));
    in_crate.is_some_and(|(_, inside)| inside.starts_with("src/"))
        || ["xtask/src/", "fuzz/src/", "fuzz/fuzz_targets/"].iter().any(|folder| path.starts_with(folder))
}

/// The types of one file: name and line.
struct Types(Vec<(String, usize)>);

impl Types {
    /// What a macro is given or expands to is no syntax yet, but its words are there. (`type` may be an associated one.)
    fn defined_in(&mut self, tokens: TokenStream) {
        let mut follows_keyword = false;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if std::mem::take(&mut follows_keyword) {
                        self.0.push((ident.to_string(), ident.span().start().line));
                    }
                    follows_keyword =
                        ["struct", "enum", "union", "trait"].iter().any(|keyword| ident == keyword);
                }
                TokenTree::Group(group) => {
                    follows_keyword = false;
                    self.defined_in(group.stream());
                }
                _ => follows_keyword = false,
            }
        }
    }
}

impl<'ast> Visit<'ast> for Types {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let (attributes, ident) = match item {
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Mod(item) => (&item.attrs, None),
            syn::Item::Fn(item) => (&item.attrs, None),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Macro(item) => (&item.attrs, None),
            _ => return,
        };
        if is_test_only(attributes) {
            return;
        }
        if let Some(ident) = ident {
            self.0.push((ident.to_string(), ident.span().start().line));
        }
        visit::visit_item(self, item);
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        self.defined_in(item.tokens.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "crates/a/src/lib.rs";
    const B: &str = "xtask/src/main.rs";

    fn found(files: &[(&str, &str)], shared: &[SharedName]) -> Vec<(String, usize, String)> {
        let findings = check_with(&SourceTree::of(files), shared).into_iter();
        findings.map(|finding| (finding.path, finding.line, finding.message)).collect()
    }

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        check_with(&SourceTree::of(files), &[]).into_iter().map(|finding| finding.item).collect()
    }

    #[test]
    fn a_name_has_one_definition() {
        assert_eq!(names(&[(A, "struct Place;\nenum Colour {}\n"), (B, "struct Placed;\n")]), [""; 0]);
        assert_eq!(
            found(&[(A, "\nstruct Place;\n"), (B, "mod m {\n    enum Place {}\n}\n")], &[]),
            [(A.to_owned(), 2, format!("`Place` is also defined in {B}:2"))]
        );
    }

    #[test]
    fn every_kind_of_type_counts() {
        for definition in ["struct T;", "enum T {}", "union T { a: u8 }", "trait T {}", "type T = u8;"] {
            assert_eq!(names(&[(A, definition), (B, "pub struct T(u8);")]), ["T"], "{definition}");
            assert_eq!(names(&[(A, definition), (A, "fn f() { struct T; }")]), ["T"], "{definition}");
        }
        let associated =
            "trait A { type T; }\nimpl A for u8 { type T = u8; }\nimpl A for u16 { type T = u8; }";
        assert_eq!(names(&[(A, associated)]), [""; 0]);
    }

    #[test]
    fn macros_are_looked_into() {
        let text = "macro_rules! m { () => { pub enum T { A } struct $name; } }\nsection! { pub struct T at \"t\" {} }";
        assert_eq!(names(&[(B, text)]), ["T"]);
        let plain = "fn f() { println!(\"struct T\"); vec![T {}] }";
        assert_eq!(names(&[(A, "struct T;"), (B, plain)]), [""; 0]);
    }

    #[test]
    fn tests_and_examples_do_not_count() {
        for (path, text) in [
            (B, "#[cfg(test)]\nstruct T;"),
            (B, "#[cfg(test)]\nmod tests { struct T; }"),
            (B, "#[test]\nfn f() { struct T; }"),
            ("crates/a/tests/e2e/main.rs", "struct T;"),
            ("crates/a/src/tests.rs", "struct T;"),
            ("crates/a/examples/one.rs", "struct T;"),
        ] {
            assert_eq!(names(&[(A, "struct T;"), (path, text)]), [""; 0], "{path}: {text}");
        }
        for path in ["fuzz/fuzz_targets/one.rs", "lab/a/src/lib.rs"] {
            assert_eq!(names(&[(A, "struct T;"), (path, "struct T;")]), ["T"], "{path}");
        }
    }

    #[test]
    fn exceptions_are_few_and_needed() {
        let shared = |name| SharedName { name, reason: "why" };
        let files = [(A, "struct T;\nstruct U;"), (B, "struct T;")];
        assert_eq!(found(&files, &[shared("T")]), []);
        let stale = found(&files, &[shared("T"), shared("U")]);
        assert_eq!(stale.len(), 1);
        assert!(stale[0].2.starts_with("`U` has one definition"), "{stale:?}");
        let many: Vec<SharedName> = (0..=SHARED_NAMES_MAX).map(|_| shared("T")).collect();
        assert_eq!(found(&files, &many)[0].2, "16 names are excepted, 15 are the most");
        for shared in SHARED_NAMES {
            assert!(shared.reason.split(' ').count() > 3, "{} needs a reason", shared.name);
        }
    }
}
