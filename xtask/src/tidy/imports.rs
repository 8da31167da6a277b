//! The order between the modules of each crate: imports point downward, in the order in which modules are declared.
//!
//! The `mod` declarations of a file are its table of contents, the top layer first. A module uses only siblings that are declared
//! after it, whatever it uses of them; with all that lies below them, siblings form no circle. A module may use what its own parent
//! defines: a parent with its children is the largest circle. What a file re-exports counts as the original. Code for
//! tests is left out.

use std::collections::BTreeMap;

use super::finding::Finding;
use super::paths::{Imports, NamedPath, imports, named_paths};
use super::rule::HouseRule;
use super::test_code::is_test_only;
use super::tree::{RustFile, SourceTree};

/// One module of a crate that has a file of its own.
struct Module<'a> {
    source: &'a RustFile,
    /// The modules that it declares, in their order.
    children: Vec<String>,
    imports: Imports,
    named: Vec<NamedPath>,
}

/// The modules of a crate by their path from the root, without `crate`.
type Modules<'a> = BTreeMap<Vec<String>, Module<'a>>;

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let mut crates: BTreeMap<String, Modules<'_>> = BTreeMap::new();
    for source in tree.sources().iter().filter(|source| !source.test) {
        let Some((root, path)) = module_path(&source.path) else { continue };
        let Ok(syntax) = &source.syntax else { continue };
        let module = Module {
            source,
            children: declared(syntax),
            imports: imports(syntax),
            named: named_paths(syntax),
        };
        crates.entry(root).or_default().insert(path, module);
    }
    crates.values().flat_map(check_crate).collect()
}

/// The crate that a source belongs to, and its module path there. The file of a program counts as a crate beside the library's.
fn module_path(path: &str) -> Option<(String, Vec<String>)> {
    let (root, inside) = match path.split_once("/src/") {
        Some((root, inside)) => (root.to_owned(), inside),
        None => return None,
    };
    let mut segments: Vec<String> = inside.strip_suffix(".rs")?.split('/').map(str::to_owned).collect();
    match segments.last().map(String::as_str) {
        Some("lib") if segments.len() == 1 => segments.clear(),
        Some("main") if segments.len() == 1 => segments.clear(),
        Some("mod") => drop(segments.pop()),
        _ => {}
    }
    Some((root, segments))
}

/// The modules that a file declares and that are compiled for more than tests.
fn declared(file: &syn::File) -> Vec<String> {
    let modules = file.items.iter().filter_map(|item| match item {
        syn::Item::Mod(module) if !is_test_only(&module.attrs) => Some(module.ident.to_string()),
        _ => None,
    });
    modules.collect()
}

fn check_crate(modules: &Modules<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, module) in modules {
        for named in &module.named {
            let segments: Vec<&str> = named.path.split("::").collect();
            let Some(target) = resolve(modules, path, &segments, 0) else { continue };
            if let Some(message) = upward(modules, path, &target) {
                let place = &module.source.path;
                findings.push(Finding::new(HouseRule::Layer, place, named.line, &target.join("::"), message));
            }
        }
    }
    findings.dedup_by(|one, other| one.path == other.path && one.message == other.message);
    findings
}

/// The module that defines what a path names, from inside the module `from`; `None` where it leaves the crate.
fn resolve(modules: &Modules<'_>, from: &[String], path: &[&str], depth: usize) -> Option<Vec<String>> {
    /// A chain of re-exports that is longer leads round.
    const DEPTH_MAX: usize = 8;
    let (first, mut rest) = path.split_first()?;
    if rest.is_empty() && matches!(*first, "crate" | "self" | "super") {
        // The reach of `pub(crate)`, not a use.
        return None;
    }
    let mut module = match *first {
        "crate" => Vec::new(),
        "self" => from.to_vec(),
        "super" => {
            let mut above = from.to_vec();
            above.pop();
            while let Some(("super", more)) = rest.split_first().map(|(one, more)| (*one, more)) {
                above.pop();
                rest = more;
            }
            above
        }
        name if modules.get(from)?.children.iter().any(|child| child == name) => {
            rest = path;
            from.to_vec()
        }
        _ => return None,
    };
    while let Some((name, more)) = rest.split_first() {
        let mut below = module.clone();
        below.push((*name).to_owned());
        if !modules.contains_key(&below) {
            break;
        }
        (module, rest) = (below, more);
    }
    if let Some((name, more)) = rest.split_first()
        && depth < DEPTH_MAX
        && module != from
        && let Some(stands_for) = modules.get(&module).and_then(|module| module.imports.get(*name))
    {
        let mut path: Vec<&str> = stands_for.split("::").collect();
        path.extend(more);
        return resolve(modules, &module, &path, depth + 1).or(Some(module));
    }
    Some(module)
}

/// What is wrong with `from` using something of `target`.
fn upward(modules: &Modules<'_>, from: &[String], target: &[String]) -> Option<String> {
    let common = from.iter().zip(target).take_while(|(one, other)| one == other).count();
    if common == target.len() {
        // Itself, or one above it.
        let above = from.len() - target.len();
        let name = target.last().map_or("the root of the crate", String::as_str);
        return (above > 1)
            .then(|| format!("uses what `{name}` defines, {above} levels above it: move that down"));
    }
    if common == from.len() {
        // Below it.
        return None;
    }
    let (own, other) = (&from[common], &target[common]);
    let order = &modules.get(&from[..common])?.children;
    let place = |name: &String| order.iter().position(|child| child == name);
    let (own_at, other_at) = (place(own)?, place(other)?);
    (other_at < own_at).then(|| {
        format!(
            "`{own}` uses `{}`, but `{other}` stands above it in the order of the modules",
            target.join("::")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        check(&SourceTree::of(files)).into_iter().map(|finding| (finding.path, finding.line)).collect()
    }

    const ROOT: (&str, &str) = ("crates/a/src/lib.rs", "mod top;\nmod middle;\nmod base;\n");

    #[test]
    fn downward_is_the_order_of_the_modules() {
        let top =
            ("crates/a/src/top.rs", "use crate::base::Base;\nuse super::middle;\nfn a() { middle::b(); }");
        let middle = ("crates/a/src/middle.rs", "pub(crate) fn b() { crate::base::c(); }");
        let base = ("crates/a/src/base.rs", "pub struct Base; pub fn c() {}");
        assert_eq!(found(&[ROOT, top, middle, base]), []);
        let base = ("crates/a/src/base.rs", "pub struct Base;\npub fn c() { crate::top::a(); }");
        assert_eq!(found(&[ROOT, top, middle, base]), [("crates/a/src/base.rs".to_owned(), 2)]);
    }

    #[test]
    fn folders_count_with_all_that_is_in_them() {
        let top = ("crates/a/src/top/mod.rs", "mod deep;");
        let deep = ("crates/a/src/top/deep.rs", "pub struct Deep;");
        let base = ("crates/a/src/base.rs", "\nuse crate::top::deep::Deep;");
        let middle = ("crates/a/src/middle.rs", "");
        assert_eq!(found(&[ROOT, top, deep, middle, base]), [("crates/a/src/base.rs".to_owned(), 2)]);
    }

    #[test]
    fn a_child_may_use_its_parent_and_no_module_above_it() {
        let top = ("crates/a/src/top/mod.rs", "mod inner;\npub struct Top;");
        let inner = ("crates/a/src/top/inner/mod.rs", "use super::Top;\nmod deep;");
        let deep = ("crates/a/src/top/inner/deep.rs", "use crate::top::Top;");
        let files = [ROOT, top, inner, ("crates/a/src/middle.rs", ""), ("crates/a/src/base.rs", "")];
        assert_eq!(found(&files), []);
        let mut files = files.to_vec();
        files.push(deep);
        assert_eq!(found(&files), [("crates/a/src/top/inner/deep.rs".to_owned(), 1)]);
    }

    #[test]
    fn re_exports_count_as_what_they_stand_for() {
        let root = ("crates/a/src/lib.rs", "mod top;\nmod middle;\nmod base;\npub use top::Top;");
        let top = ("crates/a/src/top.rs", "pub struct Top;");
        let base = ("crates/a/src/base.rs", "use crate::Top;");
        let middle = ("crates/a/src/middle.rs", "");
        assert_eq!(found(&[root, top, middle, base]), [("crates/a/src/base.rs".to_owned(), 1)]);
    }

    #[test]
    fn tests_may_use_all() {
        let top = ("crates/a/src/top.rs", "pub struct Top;");
        let base = ("crates/a/src/base.rs", "#[cfg(test)]\nmod tests { use crate::top::Top; }");
        assert_eq!(found(&[ROOT, top, ("crates/a/src/middle.rs", ""), base]), []);
    }
}
