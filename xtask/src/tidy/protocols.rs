//! Where HTTP/1 and HTTP/2 may be named: the protocols of a client, of a server and of a program that has one of its own, and nowhere else.
//!
//! Exchanges, responders and plans know streams and neutral heads. A name is known by its path, so what is of a protocol lies in a module
//! of its name, in `weir-http` as in `weir-proxy`, and is never exported under another.

use super::finding::Finding;
use super::paths::{NamedPath, named_paths};
use super::rule::HouseRule;
use super::test_code::is_test_only;
use super::transports;
use super::tree::{RustFile, SourceTree};

/// The sources that the rule is about.
const DATA_PATH: &[&str] = &["crates/weir-proxy/src/", "crates/weir-control/src/"];

/// A protocol that only some sources know.
struct Protocol {
    name: &'static str,
    /// Its module in `weir-proxy`.
    module: &'static str,
    /// That of its codec.
    codec: &'static str,
    /// The sources that speak it.
    speakers: &'static [&'static str],
}

/// `relay` has what both sides of a protocol share; the control plane has a server and a client of HTTP/1 of its own, which are never
/// proxied.
const PROTOCOLS: &[Protocol] = &[
    Protocol {
        name: "HTTP/1",
        module: "http1",
        codec: "weir_http::http1",
        speakers: &[
            "crates/weir-proxy/src/downstream/http1.rs",
            "crates/weir-proxy/src/downstream/http1/",
            "crates/weir-proxy/src/upstream/http1.rs",
            "crates/weir-proxy/src/upstream/http1/",
            "crates/weir-proxy/src/relay/http1.rs",
            "crates/weir-proxy/src/relay/http1/",
            "crates/weir-control/src/administration/admin/",
            "crates/weir-control/src/servers/health/",
            // Requests to authorities.
            "crates/weir-control/src/tls/acme/requests.rs",
        ],
    },
    Protocol {
        name: "HTTP/2",
        module: "http2",
        codec: "weir_http::h2",
        speakers: &[
            "crates/weir-proxy/src/downstream/http2/",
            "crates/weir-proxy/src/upstream/http2/",
            "crates/weir-proxy/src/relay/http2/",
            "crates/weir-control/src/servers/health/",
        ],
    },
];

/// The parts of the data path that name no module of a protocol, not those of their own crate either, beside those that know no transport.
const NEUTRAL: &[&str] = &["crates/weir-proxy/src/state/", "crates/weir-proxy/src/net/"];

pub(super) fn check(tree: &SourceTree) -> Vec<Finding> {
    let sources = tree.sources().iter().filter(|source| !source.test && is_of(&source.path, DATA_PATH));
    let of_source = |source| PROTOCOLS.iter().flat_map(move |protocol| protocol.check(source));
    sources.flat_map(of_source).collect()
}

fn is_of(path: &str, folders: &[&str]) -> bool {
    folders.iter().any(|folder| path.starts_with(folder))
}

impl Protocol {
    fn check(&self, source: &RustFile) -> Vec<Finding> {
        match is_of(&source.path, self.speakers) {
            true => self.exported(source),
            false => {
                let is_neutral = is_of(&source.path, NEUTRAL) || is_of(&source.path, transports::NEUTRAL);
                self.named(source, is_neutral)
            }
        }
    }

    /// What a source names that it may not.
    fn named(&self, source: &RustFile, is_neutral: bool) -> Vec<Finding> {
        let Ok(syntax) = &source.syntax else { return Vec::new() };
        let is_barred = |named: &NamedPath| self.is_codec(named) || (is_neutral && self.is_module(named));
        let barred = named_paths(syntax).into_iter().filter(is_barred);
        let message = |path: &str| format!("{path} is of {}, which is not known here", self.name);
        let mut findings: Vec<Finding> =
            barred.map(|named| breach(source, &named, message(&named.path))).collect();
        findings.dedup();
        findings
    }

    /// What a source that speaks the protocol would let others name without its module in the path.
    fn exported(&self, source: &RustFile) -> Vec<Finding> {
        let Ok(syntax) = &source.syntax else { return Vec::new() };
        let is_export = |item: &syn::Item| match item {
            syn::Item::Use(item) => {
                !matches!(item.vis, syn::Visibility::Inherited) && !is_test_only(&item.attrs)
            }
            _ => false,
        };
        let mut exporting = syntax.clone();
        exporting.items.retain(is_export);
        let exports = named_paths(&exporting);
        let exports = exports.iter().filter(|named| self.is_codec(named));
        exports
            .map(|named| breach(source, named, format!("{} is exported: others could name it", named.path)))
            .collect()
    }

    /// Whether it is the codec's.
    fn is_codec(&self, named: &NamedPath) -> bool {
        named.path.strip_prefix(self.codec).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    }

    /// Whether the module is in its path.
    fn is_module(&self, named: &NamedPath) -> bool {
        named.path.split("::").any(|segment| segment == self.module)
    }
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
        for path in
            ["downstream/http1.rs", "upstream/http1.rs", "upstream/http1/framing.rs", "relay/http1.rs"]
        {
            assert_eq!(lines(&format!("crates/weir-proxy/src/{path}"), text), [0; 0], "{path}");
        }
        for path in ["administration/admin/request.rs", "servers/health/response.rs"] {
            assert_eq!(lines(&format!("crates/weir-control/src/{path}"), text), [0; 0], "{path}");
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
    fn http2_is_named_by_its_own_files() {
        let text =
            "use weir_http::h2::{Connection, ErrorCode};\nuse crate::downstream::http2::Http2Stream;\n";
        assert_eq!(lines("crates/weir-proxy/src/downstream/http2/turn.rs", text), [0; 0]);
        assert_eq!(lines("crates/weir-proxy/src/downstream/connection/bytes/mod.rs", text), [1, 1]);
        assert_eq!(lines("crates/weir-proxy/src/exchange/respond.rs", text), [1, 1, 2]);
    }

    #[test]
    fn the_loop_of_streams_names_no_protocol() {
        let text = "use crate::downstream::http2::Http2Connection;\n";
        assert_eq!(lines("crates/weir-proxy/src/downstream/connection/streams.rs", text), [1]);
        assert_eq!(lines("crates/weir-proxy/src/downstream/connection/bytes/mod.rs", text), [0; 0]);
    }

    #[test]
    fn nothing_is_exported_under_another_name() {
        let text = "pub(crate) use weir_http::http1::RequestParser;\nuse weir_http::http1::write;\n";
        assert_eq!(lines("crates/weir-proxy/src/downstream/http1.rs", text), [1]);
    }
}
