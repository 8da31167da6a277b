//! Where HTTP/1 may be named: the protocols of a client, of a server and of a program that has one of its own, and nowhere else.
//!
//! Exchanges, responders and plans know streams and neutral heads. A name is known by its path, so what is HTTP/1's lies in a module
//! `http1`, in `weir-http` as in `weir-proxy`, and is never exported under another.

use super::finding::Finding;
use super::paths::{NamedPath, named_paths};
use super::rule::HouseRule;
use super::test_code::is_test_only;
use super::tree::{RustFile, SourceTree};

/// The sources that the rule is about.
const DATA_PATH: &[&str] = &["crates/weir-proxy/src/", "crates/weir-control/src/"];

/// The sources among them that speak HTTP/1: `relay` has the framing of both sides; the control plane has a server and a client
/// of its own, which are never proxied.
const SPEAKERS: &[&str] = &[
    "crates/weir-proxy/src/downstream/http1.rs",
    "crates/weir-proxy/src/downstream/http1/",
    "crates/weir-proxy/src/upstream/http1.rs",
    "crates/weir-proxy/src/upstream/http1/",
    "crates/weir-proxy/src/relay/http1.rs",
    "crates/weir-proxy/src/relay/http1/",
    "crates/weir-proxy/src/control/admin/",
    "crates/weir-proxy/src/control/health/",
    "crates/weir-control/src/admin/",
    "crates/weir-control/src/health/",
];

/// The parts of the data path that name no module `http1`, not those of their own crate either.
const NEUTRAL: &[&str] = &[
    "crates/weir-proxy/src/exchange/",
    "crates/weir-proxy/src/responder/",
    "crates/weir-proxy/src/state/",
    "crates/weir-proxy/src/net/",
];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let is_of = |path: &str, folders: &[&str]| folders.iter().any(|folder| path.starts_with(folder));
    let sources = tree.sources().iter().filter(|source| !source.test && is_of(&source.path, DATA_PATH));
    sources
        .flat_map(|source| match is_of(&source.path, SPEAKERS) {
            true => exported(source),
            false => named(source, is_of(&source.path, NEUTRAL)),
        })
        .collect()
}

/// What a source names that it may not.
fn named(source: &RustFile, is_neutral: bool) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let is_barred = |named: &NamedPath| is_codec(named) || (is_neutral && is_http1(named));
    let barred = named_paths(syntax).into_iter().filter(is_barred);
    let mut findings: Vec<Finding> = barred
        .map(|named| breach(source, &named, format!("{} is of HTTP/1, which is not known here", named.path)))
        .collect();
    findings.dedup();
    findings
}

/// What a source that speaks HTTP/1 would let others name without a module `http1` of `weir-http` in the path.
fn exported(source: &RustFile) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let is_export = |item: &syn::Item| match item {
        syn::Item::Use(item) => !matches!(item.vis, syn::Visibility::Inherited) && !is_test_only(&item.attrs),
        _ => false,
    };
    let mut exporting = syntax.clone();
    exporting.items.retain(is_export);
    let exports = named_paths(&exporting);
    let exports = exports.iter().filter(|named| is_codec(named));
    exports
        .map(|named| breach(source, named, format!("{} is exported: others could name it", named.path)))
        .collect()
}

/// Whether it is the codec's.
fn is_codec(named: &NamedPath) -> bool {
    named.path.strip_prefix("weir_http::http1").is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Whether a module `http1` is in its path.
fn is_http1(named: &NamedPath) -> bool {
    named.path.split("::").any(|segment| segment == "http1")
}

fn breach(source: &RustFile, named: &NamedPath, message: String) -> Finding {
    Finding::new(HouseRule::Layer, &source.path, named.line, &named.path, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        check(&SourceTree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_codec_is_named_by_files_that_speak_http1() {
        let text = "use weir_http::http1::{FieldLines, write};\nuse weir_http::RequestHead;\n\
                    fn a(out: &mut FieldLines) { weir_http::http1::keeps_alive(1, 2); }\n";
        for path in [
            "downstream/http1.rs",
            "upstream/http1.rs",
            "upstream/http1/framing.rs",
            "relay/http1.rs",
            "control/admin/request.rs",
            "control/health/response.rs",
        ] {
            assert_eq!(lines(&format!("crates/weir-proxy/src/{path}"), text), [0; 0], "{path}");
        }
        for path in ["exchange/respond.rs", "downstream/tcp.rs", "upstream/stream.rs", "control/reload.rs"] {
            assert_eq!(lines(&format!("crates/weir-proxy/src/{path}"), text), [1, 1, 3, 3], "{path}");
        }
        assert_eq!(lines("crates/weir-control/src/names.rs", text), [1, 1, 3, 3]);
        assert_eq!(lines("crates/weir/src/demo/load.rs", text), [0; 0], "a program of its own");
        assert_eq!(lines("crates/weir-proxy/tests/a.rs", text), [0; 0]);
    }

    #[test]
    fn a_module_is_known_by_its_imports() {
        let path = "crates/weir-proxy/src/worker/mod.rs";
        assert_eq!(lines(path, "use weir_http as http;\nfn a(head: http::RequestHead) {}\n"), [0; 0]);
        assert_eq!(lines(path, "use weir_http as http;\nfn a(parser: http::http1::RequestParser) {}\n"), [2]);
        assert_eq!(lines(path, "use weir_http::http1;\n"), [1]);
        assert_eq!(lines(path, "use weir_http::http1::*;\n"), [1]);
    }

    #[test]
    fn exchanges_name_no_http1_at_all() {
        let text = "use crate::relay::http1::Framing;\nuse crate::relay::Source;\n";
        assert_eq!(lines("crates/weir-proxy/src/exchange/respond.rs", text), [1]);
        assert_eq!(lines("crates/weir-proxy/src/state/pool.rs", text), [1]);
        assert_eq!(lines("crates/weir-proxy/src/downstream/tcp.rs", text), [0; 0]);
    }

    #[test]
    fn nothing_is_exported_under_another_name() {
        let text = "pub(crate) use weir_http::http1::RequestParser;\nuse weir_http::http1::write;\n";
        assert_eq!(lines("crates/weir-proxy/src/downstream/http1.rs", text), [1]);
    }
}
