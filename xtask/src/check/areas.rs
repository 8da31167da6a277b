//! Which tests belong to a file: those of its crate, and folders of `crates/weir/tests/e2e`.
//!
//! A table and its reading. It knows folders only: a folder that is not in it has the tests of the longest beginning that is.

use std::collections::BTreeSet;
use std::fmt;

/// Where the end-to-end tests are.
pub(super) const E2E: &str = "crates/weir/tests/e2e/";

/// Beginnings of paths, and the folders of end-to-end tests for what begins so. Where several fit, the longest one says.
const AREAS: &[(&str, &[&str])] = &[
    ("crates/weir-access/", &["access"]),
    ("crates/weir-cache/", &["exchange::cache"]),
    ("crates/weir-client/", &["upstream", "tls::acme", "observability::traces", "admin"]),
    ("crates/weir-conditions/", &["exchange"]),
    ("crates/weir-config/", &["commands"]),
    ("crates/weir-control/src/tls/acme/", &["tls::acme"]),
    ("crates/weir-control/src/administration/admin", &["admin"]),
    ("crates/weir-control/src/tls/certificates/", &["tls"]),
    ("crates/weir-control/src/servers/dns_names.rs", &["upstream::dns_names"]),
    ("crates/weir-control/src/cluster/limit_exchange/", &["pair"]),
    ("crates/weir-control/src/telemetry/logs/", &["observability"]),
    ("crates/weir-control/src/memory/", &["resilience::memory"]),
    ("crates/weir-control/src/cluster/node/", &["pair"]),
    ("crates/weir-control/src/telemetry/profile/", &["admin::profile"]),
    ("crates/weir-control/src/lifecycle/privileges/", &["lifecycle::privileges", "lifecycle::sandbox"]),
    ("crates/weir-control/src/proxy/", &["lifecycle::reload", "upstream"]),
    ("crates/weir-control/src/administration/runtime", &["admin::runtime_socket"]),
    ("crates/weir-control/src/servers/", &["upstream"]),
    ("crates/weir-control/src/telemetry/trace", &["observability::traces"]),
    ("crates/weir-control/src/lifecycle/upgrade/", &["lifecycle"]),
    ("crates/weir-control/src/serving/", &["lifecycle", "upstream", "routing::routes_from_store"]),
    ("crates/weir-control/", &["lifecycle::reload", "admin"]),
    ("crates/weir-discovery/", &["upstream"]),
    ("crates/weir-gateway/", &["kubernetes"]),
    ("crates/weir-http/src/h2/", &["http2"]),
    ("crates/weir-http/src/h3/", &["http3"]),
    ("crates/weir-http/src/multiplexed/", &["http2", "http3"]),
    ("crates/weir-http/src/message/", &["http1", "http2"]),
    ("crates/weir-http/src/fastcgi/", &["upstream::fastcgi"]),
    ("crates/weir-http/", &["http1", "http2"]),
    ("crates/weir-import/", &["commands"]),
    ("crates/weir-kubernetes/", &["kubernetes"]),
    ("crates/weir-observe/", &["observability"]),
    ("crates/weir-rewrite/", &["exchange::rewriting"]),
    ("crates/weir-proof/", &["commands::import_proof"]),
    ("crates/weir-proxy/src/compression/", &["exchange::compression"]),
    ("crates/weir-proxy/src/downstream/http2/", &["http2"]),
    ("crates/weir-proxy/src/downstream/http3/", &["http3"]),
    ("crates/weir-proxy/src/downstream/tcp.rs", &["tcp"]),
    ("crates/weir-proxy/src/downstream/", &["http1", "http2"]),
    ("crates/weir-proxy/src/exchange/features/access_lists.rs", &["routing::access_lists"]),
    ("crates/weir-proxy/src/exchange/features/authentication/", &["access"]),
    ("crates/weir-proxy/src/exchange/features/buffering/", &["exchange::buffering"]),
    ("crates/weir-proxy/src/exchange/features/cache/", &["exchange::cache"]),
    ("crates/weir-proxy/src/exchange/features/compression.rs", &["exchange::compression"]),
    ("crates/weir-proxy/src/exchange/features/error_pages/", &["routing"]),
    ("crates/weir-proxy/src/exchange/features/files.rs", &["routing::files"]),
    ("crates/weir-proxy/src/exchange/features/grpc/", &["exchange::grpc"]),
    ("crates/weir-proxy/src/exchange/features/headers/cgi.rs", &["upstream::fastcgi"]),
    ("crates/weir-proxy/src/exchange/features/limits/", &["resilience::request_limits"]),
    ("crates/weir-proxy/src/exchange/features/mirror/", &["routing::mirror"]),
    ("crates/weir-proxy/src/exchange/features/subrequests/", &["routing", "access"]),
    ("crates/weir-proxy/src/exchange/phases/attempt/", &["resilience", "upstream"]),
    ("crates/weir-proxy/src/exchange/phases/queue.rs", &["upstream::queue"]),
    ("crates/weir-proxy/src/exchange/phases/retry.rs", &["resilience::retries"]),
    ("crates/weir-proxy/src/exchange/tcp.rs", &["tcp"]),
    ("crates/weir-proxy/src/exchange/", &["exchange", "routing"]),
    ("crates/weir-proxy/src/net/", &["accept", "tls::downstream"]),
    ("crates/weir-proxy/src/relay/fastcgi.rs", &["upstream::fastcgi"]),
    ("crates/weir-proxy/src/relay/file", &["routing::files"]),
    ("crates/weir-proxy/src/relay/", &["exchange", "http1"]),
    ("crates/weir-proxy/src/responder/", &["routing"]),
    ("crates/weir-proxy/src/state/routes/access/", &["access"]),
    ("crates/weir-proxy/src/state/caching/", &["exchange::cache"]),
    ("crates/weir-proxy/src/state/connections/connection_list/", &["admin::connections"]),
    ("crates/weir-proxy/src/state/limits/", &["resilience::request_limits"]),
    ("crates/weir-proxy/src/state/tracing/recorder/", &["observability::why"]),
    ("crates/weir-proxy/src/state/", &["routing", "upstream"]),
    ("crates/weir-proxy/src/upstream/fastcgi/", &["upstream::fastcgi"]),
    ("crates/weir-proxy/src/upstream/http2/", &["upstream::http2"]),
    ("crates/weir-proxy/src/upstream/", &["upstream"]),
    ("crates/weir-proxy/", &["exchange", "http1"]),
    ("crates/weir-proxy/src/worker/", &["accept", "lifecycle::reload"]),
    ("crates/weir-sort/", &["upstream::balancing", "observability"]),
    ("crates/weir-tasks/", &["lifecycle::task_panics"]),
    ("crates/weir-traffic/", &["upstream::balancing", "resilience"]),
    ("crates/weir/src/", &["commands"]),
    ("examples/", &["examples"]),
];

/// The folder of the fuzz targets, whose tests are their corpora.
const FUZZ: &str = "fuzz";

/// The crates that fuzz targets are about.
const SEEDED: &[&str] = &["weir-cache", "weir-http", "weir-proxy"];

/// What a change needs.
#[derive(Default)]
pub(super) struct Needed {
    /// Crates whose own tests run.
    pub(super) crates: BTreeSet<String>,
    /// Beginnings of the names of end-to-end tests that run.
    pub(super) end_to_end: BTreeSet<&'static str>,
    /// Folders of end-to-end tests that changed themselves.
    pub(super) changed_tests: BTreeSet<String>,
    /// Pages that are partly generated.
    pub(super) documents: bool,
    /// What no test here says anything about: packages, dependencies.
    pub(super) left_to_ci: BTreeSet<String>,
}

impl Needed {
    pub(super) fn by(changed: &BTreeSet<String>) -> Self {
        let mut needed = Self::default();
        for path in changed {
            needed.add(path);
        }
        needed
    }

    fn add(&mut self, path: &str) {
        if let Some(test) = path.strip_prefix(E2E) {
            // The harness is used by all tests: those of one folder show that it works.
            let folder = test.split_once('/').map_or("http1", |(folder, _)| folder);
            self.changed_tests.insert(if folder == "harness" { "http1" } else { folder }.to_owned());
            return;
        }
        let member = path.strip_prefix("crates/").and_then(|rest| rest.split_once('/'));
        if let Some((member, rest)) = member {
            self.crates.insert(member.to_owned());
            if SEEDED.contains(&member) {
                self.crates.insert(FUZZ.to_owned());
            }
            if rest.starts_with("tests/") {
                return;
            }
        }
        if path.starts_with("xtask/") {
            self.crates.insert("xtask".to_owned());
        }
        let in_fuzz = path.starts_with("fuzz/");
        if in_fuzz {
            self.crates.insert(FUZZ.to_owned());
        }
        if let Some(folders) = area(path) {
            self.end_to_end.extend(folders);
        } else if path.starts_with("docs/") || (path.ends_with(".md") && !path.contains('/')) {
            self.documents = true;
        } else if member.is_none() && !in_fuzz && !path.starts_with("xtask/") {
            self.left_to_ci.insert(path.to_owned());
        }
    }

    pub(super) fn compiles(&self) -> bool {
        !self.crates.is_empty() || !self.end_to_end.is_empty() || !self.changed_tests.is_empty()
    }

    /// What the names of the end-to-end tests begin with that run, none within another.
    pub(super) fn test_names(&self) -> Vec<String> {
        let names: BTreeSet<String> = self
            .end_to_end
            .iter()
            .map(|name| (*name).to_owned())
            .chain(self.changed_tests.iter().cloned())
            .collect();
        let within = |name: &str| names.iter().any(|other| other != name && name.starts_with(other.as_str()));
        names.iter().filter(|name| !within(name)).cloned().collect()
    }
}

impl fmt::Display for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listed = |names: Vec<String>| if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        write!(f, "Tests of crates: {}", listed(self.crates.iter().cloned().collect()))?;
        write!(f, ". End-to-end tests: {}.", listed(self.test_names()))?;
        match self.left_to_ci.is_empty() {
            true => Ok(()),
            false => {
                let files = self.left_to_ci.iter().cloned().collect();
                write!(f, " Looked at by `cargo xtask ci` only: {}.", listed(files))
            }
        }
    }
}

fn area(path: &str) -> Option<&'static [&'static str]> {
    let fitting = AREAS.iter().filter(|(beginning, _)| path.starts_with(beginning));
    fitting.max_by_key(|(beginning, _)| beginning.len()).map(|(_, folders)| *folders)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn needed(paths: &[&str]) -> Needed {
        Needed::by(&paths.iter().map(|path| (*path).to_owned()).collect())
    }

    #[test]
    fn the_longest_beginning_says_which_tests() {
        let one = needed(&["crates/weir-proxy/src/exchange/tcp.rs"]);
        assert_eq!(one.test_names(), ["tcp"]);
        assert!(
            one.crates.iter().eq(["fuzz", "weir-proxy"]),
            "its own tests, and the corpora of whole sessions"
        );
        let two = needed(&["crates/weir-proxy/src/exchange/mod.rs", "crates/weir-cache/src/lib.rs"]);
        assert_eq!(
            two.test_names(),
            ["exchange", "routing"],
            "tests of the cache are among those of exchanges"
        );
    }

    #[test]
    fn the_corpora_run_for_what_they_are_about() {
        for path in ["fuzz/corpus/chunked/plain", "crates/weir-http/src/lib.rs"] {
            let needed = needed(&[path]);
            assert!(needed.crates.contains("fuzz") && needed.left_to_ci.is_empty(), "{path}");
        }
        assert!(!needed(&["crates/weir-traffic/src/lib.rs"]).crates.contains("fuzz"));
    }

    #[test]
    fn tests_that_change_are_run() {
        let tests =
            needed(&["crates/weir/tests/e2e/tls/upstream/mod.rs", "crates/weir/tests/e2e/harness/wire.rs"]);
        assert_eq!(tests.test_names(), ["http1", "tls"]);
        assert!(tests.crates.is_empty());
        let own = needed(&["crates/weir-http/tests/grammar/main.rs"]);
        assert!(own.test_names().is_empty() && own.crates.contains("weir-http"));
    }

    #[test]
    fn what_is_left_to_ci_is_said() {
        let other =
            needed(&["packaging/debian/postinst", "docs/upgrade.md", "Cargo.lock", "xtask/src/main.rs"]);
        assert_eq!(other.left_to_ci.len(), 2);
        assert!(other.documents && other.compiles());
        assert!(!needed(&["docs/upgrade.md"]).compiles());
        assert!(other.to_string().ends_with("only: Cargo.lock, packaging/debian/postinst."), "{other}");
    }

    #[test]
    fn every_place_of_the_table_is_there() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for (beginning, folders) in AREAS {
            let (folder, name) = beginning.rsplit_once('/').unwrap();
            let entries = std::fs::read_dir(root.join(folder)).unwrap_or_else(|_| panic!("no {folder}"));
            let fits = |entry: std::io::Result<std::fs::DirEntry>| {
                entry.unwrap().file_name().to_string_lossy().starts_with(name)
            };
            assert!(entries.into_iter().any(fits), "nothing begins with {beginning}");
            for test in *folders {
                let path = root.join(E2E).join(test.replace("::", "/"));
                let parent = std::fs::read_dir(path.parent().unwrap()).unwrap();
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                let mut names = parent.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
                assert!(names.any(|one| one.starts_with(&name)), "no tests are named {test}");
            }
        }
    }

    #[test]
    fn every_crate_of_the_product_has_an_area() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let apart = ["weir-matrix", "weir-wire"];
        for entry in std::fs::read_dir(root.join("crates")).unwrap() {
            let name = entry.unwrap().file_name().to_string_lossy().into_owned();
            assert!(
                apart.contains(&name.as_str()) || area(&format!("crates/{name}/src/lib.rs")).is_some(),
                "{name} has no end-to-end tests"
            );
        }
    }
}
