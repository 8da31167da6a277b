//! Checks on what a source file holds: the length of functions, the names of types, allowed lints, `unwrap`, `unsafe`, wake-ups.
//!
//! Test code may be long, may unwrap and may be unsafe; everything else holds for it too. Bodies of macros are not looked into.

use proc_macro2::Span;
use syn::visit::{self, Visit};

use super::finding::Finding;
use super::rule::HouseRule;
use super::test_code::is_test_only;
use super::tree::{RustFile, SourceTree};
use super::words::{camel_case_words, is_empty_word};

/// More cannot be read in one go.
const LINES_MAX: usize = 100;
/// A screen.
const LINES_USUAL: usize = 70;

/// Where bytes from the network pass: there a panic is a connection lost.
const NO_UNWRAP: &[&str] = &[
    "crates/weir-http/src/",
    "crates/weir-cache/src/",
    "crates/weir-conditions/src/",
    "crates/weir-import/src/",
    "crates/weir-rewrite/src/",
    "crates/weir-sort/src/",
    "crates/weir-traffic/src/",
    "crates/weir-observe/src/",
    "crates/weir-proxy/src/",
    "crates/weir-control/src/",
];

/// The folders that may be unsafe: system calls of the data path, and samples of running threads. What they offer is safe, and each
/// block says why.
const UNSAFE_FOLDERS: [&str; 2] = ["crates/weir-proxy/src/net/sys/", "crates/weir-control/src/system/sys/"];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    tree.sources().iter().flat_map(check_source).collect()
}

fn check_source(source: &RustFile) -> Vec<Finding> {
    let syntax = match &source.syntax {
        Ok(syntax) => syntax,
        Err(error) => {
            let line = error.span().start().line;
            return vec![Finding::new(HouseRule::Syntax, &source.path, line, "", error.to_string())];
        }
    };
    let may_unwrap = !NO_UNWRAP.iter().any(|folder| source.path.starts_with(folder));
    let mut items = Items { path: &source.path, test: source.test, may_unwrap, findings: Vec::new() };
    items.visit_file(syntax);
    items.findings
}

/// Walks one file.
struct Items<'a> {
    path: &'a str,
    /// Inside code that is compiled for tests only.
    test: bool,
    may_unwrap: bool,
    findings: Vec<Finding>,
}

impl Items<'_> {
    fn find(&mut self, rule: HouseRule, span: Span, item: &str, message: String) {
        self.findings.push(Finding::new(rule, self.path, span.start().line, item, message));
    }

    /// Runs `walk` with `test` set as the attributes of an item say.
    fn inside(&mut self, attributes: &[syn::Attribute], walk: impl FnOnce(&mut Self)) {
        let outside = self.test;
        self.test |= is_test_only(attributes);
        walk(self);
        self.test = outside;
    }

    /// What has to wait registers the task that polls it.
    fn wake_up(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if self.test || !ignores_context(signature) {
            return;
        }
        let mut search = PendingSearch(None);
        search.visit_block(block);
        if let Some(span) = search.0 {
            let name = signature.ident.to_string();
            let message = format!("`{name}` gives `Pending` and ignores its context: nothing wakes the task");
            self.find(HouseRule::WakeUp, span, &name, message);
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        self.wake_up(signature, block);
        let start = signature.fn_token.span;
        let lines = block.brace_token.span.close().end().line + 1 - start.start().line;
        if self.test || lines <= LINES_USUAL {
            return;
        }
        let name = signature.ident.to_string();
        if lines > LINES_MAX {
            let message = format!("`{name}` has {lines} lines, {LINES_MAX} are the most");
            self.find(HouseRule::FunctionLength, start, &name, message);
        } else {
            let message = format!("`{name}` has {lines} lines, {LINES_USUAL} are usual");
            self.find(HouseRule::FunctionLengthSoft, start, &name, message);
        }
    }

    fn unsafe_code(&mut self, span: Span) {
        if !self.test && !UNSAFE_FOLDERS.iter().any(|folder| self.path.starts_with(folder)) {
            self.find(
                HouseRule::Unsafe,
                span,
                "",
                format!("`unsafe` belongs into {}", UNSAFE_FOLDERS.join(" or ")),
            );
        }
    }

    fn type_name(&mut self, ident: &syn::Ident) {
        let name = ident.to_string();
        if let Some(word) = camel_case_words(&name).into_iter().find(|word| is_empty_word(word)) {
            self.find(HouseRule::Name, ident.span(), &name, format!("`{word}` in `{name}` says nothing"));
        }
    }
}

/// Whether a function has a parameter `_cx: &mut Context`, or one of another such name.
fn ignores_context(signature: &syn::Signature) -> bool {
    signature.inputs.iter().any(|input| match input {
        syn::FnArg::Typed(typed) => {
            let is_ignored = match &*typed.pat {
                syn::Pat::Ident(pattern) => pattern.ident.to_string().starts_with('_'),
                pattern => matches!(pattern, syn::Pat::Wild(_)),
            };
            is_ignored && is_context(&typed.ty)
        }
        syn::FnArg::Receiver(_) => false,
    })
}

fn is_context(ty: &syn::Type) -> bool {
    match ty {
        syn::Type::Reference(reference) => is_context(&reference.elem),
        syn::Type::Path(path) => path.path.segments.last().is_some_and(|last| last.ident == "Context"),
        _ => false,
    }
}

/// Where `Poll::Pending` is given first.
struct PendingSearch(Option<Span>);

impl<'ast> Visit<'ast> for PendingSearch {
    /// What another poll gives is passed on.
    fn visit_pat(&mut self, _pattern: &'ast syn::Pat) {}

    fn visit_expr_path(&mut self, path: &'ast syn::ExprPath) {
        if let Some(last) = path.path.segments.last().filter(|last| last.ident == "Pending") {
            self.0.get_or_insert(last.ident.span());
        }
    }
}

impl<'ast> Visit<'ast> for Items<'_> {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inside(&module.attrs, |items| visit::visit_item_mod(items, module));
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.inside(&function.attrs, |items| {
            items.function(&function.sig, &function.block);
            visit::visit_item_fn(items, function);
        });
    }

    fn visit_item_impl(&mut self, block: &'ast syn::ItemImpl) {
        self.inside(&block.attrs, |items| {
            if let Some(token) = &block.unsafety {
                items.unsafe_code(token.span);
            }
            visit::visit_item_impl(items, block);
        });
    }

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if let syn::Safety::Unsafe(token) = &signature.safety {
            self.unsafe_code(token.span);
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_unsafe(&mut self, block: &'ast syn::ExprUnsafe) {
        self.unsafe_code(block.unsafe_token.span);
        visit::visit_expr_unsafe(self, block);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.inside(&function.attrs, |items| {
            items.function(&function.sig, &function.block);
            visit::visit_impl_item_fn(items, function);
        });
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        self.type_name(&item.ident);
        visit::visit_item_struct(self, item);
    }

    fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
        self.type_name(&item.ident);
        visit::visit_item_enum(self, item);
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.type_name(&item.ident);
        visit::visit_item_trait(self, item);
    }

    fn visit_item_type(&mut self, item: &'ast syn::ItemType) {
        self.type_name(&item.ident);
        visit::visit_item_type(self, item);
    }

    fn visit_attribute(&mut self, attribute: &'ast syn::Attribute) {
        if attribute.path().is_ident("allow") {
            let message = "a lint is allowed: fix it, or `expect` it with a reason".to_owned();
            self.find(HouseRule::Allow, attribute.pound_token.span, "", message);
        }
        visit::visit_attribute(self, attribute);
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.method == "unwrap" && !self.may_unwrap && !self.test {
            let message = "`unwrap` on the data path: return the error, or `expect` the invariant".to_owned();
            self.find(HouseRule::Unwrap, call.method.span(), "", message);
        }
        visit::visit_expr_method_call(self, call);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<(HouseRule, usize)> {
        check(&SourceTree::of(&[(path, text)])).iter().map(|finding| (finding.rule, finding.line)).collect()
    }

    fn function(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    step();\n".repeat(lines - 2))
    }

    #[test]
    fn functions_have_a_usual_and_a_greatest_length() {
        let cases = [
            (70, None),
            (71, Some(HouseRule::FunctionLengthSoft)),
            (100, Some(HouseRule::FunctionLengthSoft)),
        ];
        for (lines, rule) in cases.into_iter().chain([(101, Some(HouseRule::FunctionLength))]) {
            assert_eq!(found("a.rs", &function(lines)).first().map(|found| found.0), rule, "{lines}");
        }
    }

    #[test]
    fn methods_count_and_documentation_does_not() {
        let documented = format!("struct A;\nimpl A {{\n{}{}}}\n", "/// Doc.\n".repeat(50), function(100));
        assert_eq!(found("a.rs", &documented), [(HouseRule::FunctionLengthSoft, 53)]);
        let default = format!("trait A {{\n{}}}\n", function(101));
        assert_eq!(found("a.rs", &default), [(HouseRule::FunctionLength, 2)]);
    }

    #[test]
    fn tests_may_be_long() {
        for head in ["#[test]\n", "#[tokio::test]\n", "#[cfg(test)]\n", "#[cfg(all(test, unix))]\n"] {
            assert_eq!(found("a.rs", &format!("{head}{}", function(150))), [], "{head}");
        }
        assert_eq!(found("a.rs", &format!("#[cfg(test)]\nmod tests {{\n{}}}\n", function(150))), []);
        assert_eq!(found("a/tests.rs", &function(150)), []);
        assert_eq!(
            found("a.rs", &format!("#[cfg(not(test))]\n{}", function(150))),
            [(HouseRule::FunctionLength, 2)]
        );
    }

    #[test]
    fn types_that_say_nothing() {
        let text = "struct RequestContext;\nenum Handler {}\ntrait SmartBalance {}\ntype Core = u8;\nstruct Score;\n";
        let lines: Vec<usize> = found("a.rs", text).iter().map(|found| found.1).collect();
        assert_eq!(lines, [1, 2, 3, 4]);
        assert_eq!(found("a.rs", "use anyhow::Context as _;\nstruct Scoreboard;\n"), []);
    }

    #[test]
    fn lints_are_expected_not_allowed() {
        assert_eq!(found("a.rs", "#![allow(dead_code)]\n"), [(HouseRule::Allow, 1)]);
        assert_eq!(
            found("a.rs", "fn a() {\n    #[allow(unused)]\n    let b = 1;\n}\n"),
            [(HouseRule::Allow, 2)]
        );
        assert_eq!(found("a.rs", "#[expect(dead_code, reason = \"x\")]\nfn a() {} // #[allow(x)]\n"), []);
    }

    #[test]
    fn unwrap_stays_off_the_data_path() {
        let text = "fn a() {\n    b().unwrap();\n    b().expect(\"c\");\n    b().unwrap_or(1);\n}\n";
        assert_eq!(found("crates/weir-http/src/a.rs", text), [(HouseRule::Unwrap, 2)]);
        assert_eq!(found("lab/weir-lab/src/a.rs", text), []);
        assert_eq!(found("crates/weir-http/src/a/tests.rs", text), []);
        assert_eq!(found("crates/weir-http/src/a.rs", &format!("#[test]\n{text}")), []);
    }

    #[test]
    fn what_waits_does_not_ignore_its_context() {
        let waits = |parameter: &str, body: &str| {
            found(
                "a.rs",
                &format!(
                    "impl A {{\n    fn poll(&mut self, {parameter}) -> Poll<()> {{\n        {body}\n    }}\n}}\n"
                ),
            )
        };
        let ready = "match self.ready { true => Poll::Ready(()), false => Poll::Pending }";
        assert_eq!(waits("_cx: &mut Context<'_>", ready), [(HouseRule::WakeUp, 3)]);
        assert_eq!(waits("_: &std::task::Context<'_>", "Poll::Pending"), [(HouseRule::WakeUp, 3)]);
        assert_eq!(waits("cx: &mut Context<'_>", ready), []);
        assert_eq!(
            waits(
                "_cx: &mut Context<'_>",
                "match inner() { Poll::Pending => Poll::Ready(()), other => other }"
            ),
            []
        );
        assert_eq!(waits("_client: &mut Client", ready), []);
        let text = "#[test]\nfn poll(_cx: &mut Context<'_>) -> Poll<()> {\n    Poll::Pending\n}\n";
        assert_eq!(found("a.rs", text), []);
    }

    #[test]
    fn unsafe_code_has_one_place() {
        let text = "fn a() {\n    unsafe { b() }\n}\nunsafe fn b() {}\nunsafe impl Send for C {}\n";
        let lines =
            |path: &str, text: &str| found(path, text).iter().map(|found| found.1).collect::<Vec<_>>();
        assert_eq!(lines("crates/weir-proxy/src/a.rs", text), [2, 4, 5]);
        assert_eq!(lines(UNSAFE_FOLDERS[0], text), [0; 0]);
        assert_eq!(lines("crates/weir-proxy/tests/a.rs", text), [0; 0]);
        assert_eq!(lines("crates/weir-proxy/src/a.rs", "#![forbid(unsafe_code)]\n// unsafe { }\n"), [0; 0]);
    }

    #[test]
    fn a_file_that_does_not_parse_is_reported() {
        assert_eq!(found("a.rs", "fn a() {}\nfn\n").first().map(|found| found.0), Some(HouseRule::Syntax));
    }
}
