//! The borders between the crates, as absences: what a crate may not depend on and may not name.
//!
//! Each crate exists to make some dependency impossible; this is where that is written down so that it stays true.
//! Two views: cargo's resolved graph, and the paths that the sources name.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context as _;
use cargo_metadata::{DependencyKind, Metadata};

use super::finding::Finding;
use super::paths::{NamedPath, named_paths};
use super::rule::HouseRule;
use super::tree::{RustFile, SourceTree};

/// The crates of ours that one of the balancer may depend on, tests included. One that is not listed may use all.
const OURS: &[(&str, &[&str])] = &[
    ("weir-access", &[]),
    ("weir-http", &[]),
    ("weir-sort", &[]),
    ("weir-cache", &["weir-http", "weir-sort"]),
    ("weir-traffic", &["weir-sort"]),
    ("weir-conditions", &["weir-traffic"]),
    ("weir-rewrite", &[]),
    // weir-access and weir-config for tests alone: what is imported passes its door.
    ("weir-import", &["weir-access", "weir-config", "weir-http"]),
    ("weir-observe", &["weir-http", "weir-sort"]),
    (
        "weir-config",
        &[
            "weir-access",
            "weir-conditions",
            "weir-http",
            "weir-observe",
            "weir-rewrite",
            "weir-sort",
            "weir-traffic",
        ],
    ),
    // weir-traffic for a test alone: from records of DNS to the shares of servers.
    ("weir-tasks", &[]),
    ("weir-client", &["weir-config"]),
    (
        "weir-discovery",
        &["weir-client", "weir-config", "weir-http", "weir-sort", "weir-tasks", "weir-traffic"],
    ),
    (
        "weir-gateway",
        &["weir-access", "weir-config", "weir-http", "weir-observe", "weir-sort", "weir-traffic"],
    ),
    ("weir-kubernetes", &["weir-config", "weir-gateway", "weir-tasks"]),
    // weir-wire for tests alone: it judges what the simulations record.
    (
        "weir-proxy",
        &[
            "weir-access",
            "weir-cache",
            "weir-conditions",
            "weir-config",
            "weir-http",
            "weir-observe",
            "weir-rewrite",
            "weir-sort",
            "weir-traffic",
            "weir-wire",
        ],
    ),
    (
        "weir-control",
        &[
            "weir-access",
            "weir-cache",
            "weir-client",
            "weir-config",
            "weir-discovery",
            "weir-http",
            "weir-observe",
            "weir-proxy",
            "weir-sort",
            "weir-tasks",
            "weir-traffic",
        ],
    ),
    ("weir-wire", &[]),
    ("weir-matrix", &["weir-wire"]),
    ("weir-proof", &["weir-config", "weir-import"]),
    (
        "weir-fuzz",
        &[
            "weir-cache",
            "weir-conditions",
            "weir-config",
            "weir-control",
            "weir-http",
            "weir-import",
            "weir-traffic",
            "weir-wire",
        ],
    ),
    (
        "weir",
        &[
            "weir-access",
            "weir-client",
            "weir-conditions",
            "weir-config",
            "weir-control",
            "weir-http",
            "weir-import",
            "weir-kubernetes",
            "weir-observe",
            "weir-proxy",
            "weir-sort",
            "weir-tasks",
            "weir-traffic",
            "weir-wire",
        ],
    ),
];

/// Those of the workspace of the lab, which no other crate may depend on.
const LAB: &[(&str, &[&str])] = &[
    ("weir-stats", &[]),
    ("weir-sim", &["weir-stats", "weir-traffic"]),
    ("weir-lab", &["weir-observe", "weir-stats"]),
];

fn ours() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    OURS.iter().chain(LAB)
}

/// A dependency that would undo what some crates are for.
struct Border {
    crates: &'static [&'static str],
    forbidden: &'static [&'static str],
    reach: Reach,
    reason: &'static str,
}

/// How far a dependency counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// What the manifest names.
    Direct,
    /// That and everything below it.
    All,
}

/// Slices, time and randomness are passed in: the same code runs in the proxy, in tests and in a simulation.
const PURE: &[&str] =
    &["weir-http", "weir-traffic", "weir-observe", "weir-rewrite", "weir-sort", "weir-import"];

const BORDERS: &[Border] = &[
    Border {
        crates: PURE,
        forbidden: &["async-io", "hyper", "libc", "mio", "nix", "rustix", "smol", "socket2", "tokio"],
        reach: Reach::All,
        reason: "it does no I/O",
    },
    // Not everything below it: the hashes ask the processor, by way of libc, which instructions it has.
    Border {
        crates: &["weir-access"],
        forbidden: &["libc", "rustix", "tokio", "jiff", "getrandom", "rand", "fastrand"],
        reach: Reach::Direct,
        reason: "it does no I/O; time and randomness are passed in",
    },
    Border {
        crates: &["weir-cache"],
        forbidden: &["rustix", "socket2", "tokio", "jiff", "getrandom", "rand", "fastrand"],
        reach: Reach::Direct,
        reason: "it has no sockets and no tasks; time and randomness are passed in",
    },
    Border {
        crates: &["weir-http", "weir-traffic"],
        forbidden: &["chrono", "jiff", "time", "getrandom", "rand", "fastrand"],
        reach: Reach::All,
        reason: "time and randomness are passed in",
    },
    Border {
        crates: &["weir-http", "weir-traffic"],
        forbidden: &["serde"],
        reach: Reach::Direct,
        reason: "it neither reads nor writes text for people or programs",
    },
    Border {
        crates: &["weir-http", "weir-traffic", "weir-observe", "weir-proxy", "weir-control"],
        forbidden: &["toml", "toml_edit", "schemars"],
        reach: Reach::Direct,
        reason: "of the libraries only weir-config reads text that people write",
    },
];

/// Parts of the standard library that reach out of the process or read the clock.
const OUTSIDE: &[&str] = &[
    "std::env::var",
    "std::fs",
    "std::io::stderr",
    "std::io::stdin",
    "std::io::stdout",
    "std::net::TcpListener",
    "std::net::TcpStream",
    "std::net::ToSocketAddrs",
    "std::net::UdpSocket",
    "std::os::fd",
    "std::os::unix::net",
    "std::process",
    "std::thread::sleep",
    "std::thread::spawn",
    "std::time::Instant::now",
    "std::time::SystemTime::now",
];

/// Crates of ours that only a part of another may name: the crate, that part of it, what it names there.
///
/// What the lab measures, it measures from outside; only its flame graphs are drawn by a crate of Weir.
const PARTS: &[(&str, &str, &str)] = &[("lab/weir-lab/", "lab/weir-lab/src/profile/", "weir_observe")];

/// Moments of the calendar as the standard library has them: sums of theirs panic where they are out of range, and what peers, files and
/// certificates name is any number. All code of Weir has them as `weir_http::WallTime`, whose sums saturate; what
/// lab and simulator measure and simulate has no such peers.
const CALENDAR: &[&str] = &["std::time::SystemTime", "std::time::UNIX_EPOCH"];

/// Where a clock is read, that type is made, or another library wants the standard one.
const CALENDAR_EXCEPTED: &[&str] = &[
    "crates/weir-http/src/wall_time.rs",
    "crates/weir-config/src/check/certificate_files.rs",
    "crates/weir-discovery/src/clock.rs",
    "crates/weir-proxy/src/net/clock.rs",
    "crates/weir-control/src/telemetry/trace_export/spans.rs",
    "crates/weir/src/clock.rs",
];

/// The dependencies between the crates.
pub(super) struct Graph {
    packages: BTreeMap<String, Package>,
}

#[derive(Default)]
struct Package {
    /// Names of what the released code uses.
    normal: BTreeSet<String>,
    /// That, and what its tests and its build use.
    all: BTreeSet<String>,
}

impl Graph {
    /// The graph of several workspaces.
    pub(super) fn of(workspaces: &[&Metadata]) -> anyhow::Result<Self> {
        let mut graph = Self { packages: BTreeMap::new() };
        for metadata in workspaces {
            graph.add(metadata)?;
        }
        Ok(graph)
    }

    fn add(&mut self, metadata: &Metadata) -> anyhow::Result<()> {
        let resolve = metadata.resolve.as_ref().context("cargo has not resolved the dependencies")?;
        let name = |id| metadata[id].name.to_string();
        for node in &resolve.nodes {
            let package = self.packages.entry(name(&node.id)).or_default();
            for dependency in &node.deps {
                let normal = dependency.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal);
                if normal {
                    package.normal.insert(name(&dependency.pkg));
                }
                package.all.insert(name(&dependency.pkg));
            }
        }
        Ok(())
    }

    fn direct(&self, package: &str) -> BTreeSet<&str> {
        self.packages
            .get(package)
            .into_iter()
            .flat_map(|package| &package.normal)
            .map(String::as_str)
            .collect()
    }

    fn reachable<'a>(&'a self, package: &'a str) -> BTreeSet<&'a str> {
        let mut reached = BTreeSet::new();
        let mut waiting = vec![package];
        while let Some(next) = waiting.pop() {
            waiting.extend(self.direct(next).into_iter().filter(|dependency| reached.insert(*dependency)));
        }
        reached
    }
}

/// The borders that cargo's graph shows.
pub(super) fn check_dependencies(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, allowed) in ours() {
        let Some(package) = graph.packages.get(*name) else {
            findings.push(breach(name, "", format!("there is no {name}: correct the list in xtask")));
            continue;
        };
        let ours = package.all.iter().filter(|dependency| ours().any(|(name, _)| name == dependency));
        for dependency in ours.filter(|dependency| !allowed.contains(&dependency.as_str())) {
            let may = if allowed.is_empty() { "no crate of ours".to_owned() } else { allowed.join(", ") };
            findings.push(breach(name, dependency, format!("{name} uses {dependency}; it may use {may}")));
        }
    }
    for border in BORDERS {
        findings.extend(border.check(graph));
    }
    findings
}

impl Border {
    fn check(&self, graph: &Graph) -> Vec<Finding> {
        let mut findings = Vec::new();
        for name in self.crates {
            let used = if self.reach == Reach::Direct { graph.direct(name) } else { graph.reachable(name) };
            for dependency in self.forbidden.iter().filter(|dependency| used.contains(**dependency)) {
                findings.push(breach(
                    name,
                    dependency,
                    format!("{name} uses {dependency}, but {}", self.reason),
                ));
            }
        }
        findings
    }
}

fn breach(package: &str, dependency: &str, message: String) -> Finding {
    let folder = match package {
        "weir-fuzz" => "fuzz".to_owned(),
        _ if LAB.iter().any(|(name, _)| *name == package) => format!("lab/{package}"),
        _ => format!("crates/{package}"),
    };
    Finding::new(HouseRule::Dependency, &format!("{folder}/Cargo.toml"), 0, dependency, message)
}

/// The borders that the sources show.
pub(super) fn check_sources(tree: &SourceTree) -> Vec<Finding> {
    let pure = tree.sources().iter().filter(|source| !source.test && is_pure(&source.path));
    let calendar = tree.sources().iter().filter(|source| !source.test && has_wall_time(&source.path));
    let misplaced = tree.sources().iter().flat_map(misplaced_crates);
    pure.flat_map(outside_paths).chain(misplaced).chain(calendar.flat_map(raw_moments)).collect()
}

fn has_wall_time(path: &str) -> bool {
    path.starts_with("crates/") && !CALENDAR_EXCEPTED.iter().any(|excepted| path.starts_with(excepted))
}

/// Moments of a type whose sums may panic.
fn raw_moments(source: &RustFile) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let named = named_paths(syntax);
    let raw =
        named.iter().filter_map(|named| Some((named, CALENDAR.iter().find(|raw| is_within(named, raw))?)));
    let mut findings: Vec<Finding> = raw
        .map(|(named, raw)| {
            let message =
                format!("{} panics where a sum is out of range: use `weir_http::WallTime`", named.path);
            Finding::new(HouseRule::Absence, &source.path, named.line, raw, message)
        })
        .collect();
    findings.dedup();
    findings
}

fn misplaced_crates(source: &RustFile) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let mut findings = Vec::new();
    for (of, part, name) in PARTS {
        if source.path.starts_with(of) && !source.path.starts_with(part) {
            let paths = named_paths(syntax);
            let misplaced = paths.iter().filter(|named| is_within(named, name));
            findings.extend(misplaced.map(|named| {
                let message = format!("{} is named outside of {part}", named.path);
                Finding::new(HouseRule::Absence, &source.path, named.line, name, message)
            }));
        }
    }
    findings
}

fn is_pure(path: &str) -> bool {
    PURE.iter().chain(&["weir-access"]).any(|name| path.starts_with(&format!("crates/{name}/src/")))
}

fn outside_paths(source: &RustFile) -> Vec<Finding> {
    let Ok(syntax) = &source.syntax else { return Vec::new() };
    let mut findings: Vec<Finding> = named_paths(syntax)
        .iter()
        .filter_map(|named| {
            let outside = OUTSIDE.iter().find(|outside| is_within(named, outside))?;
            let message = format!("{} is outside of what this crate may reach", named.path);
            Some(Finding::new(HouseRule::Absence, &source.path, named.line, outside, message))
        })
        .collect();
    findings.dedup();
    findings
}

fn is_within(named: &NamedPath, outside: &str) -> bool {
    named.path.strip_prefix(outside).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::lab;

    /// A graph in which every crate of ours exists; each entry is a package, what it uses, and whether only in tests.
    fn graph(edges: &[(&str, &str, bool)]) -> Graph {
        let mut packages: BTreeMap<String, Package> = BTreeMap::new();
        for (name, _) in ours() {
            packages.entry((*name).to_owned()).or_default();
        }
        for &(from, to, only_tests) in edges {
            let package = packages.entry(from.to_owned()).or_default();
            package.all.insert(to.to_owned());
            if !only_tests {
                package.normal.insert(to.to_owned());
            }
        }
        Graph { packages }
    }

    fn found(edges: &[(&str, &str, bool)]) -> Vec<String> {
        check_dependencies(&graph(edges)).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn crates_of_ours_stay_apart() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[("weir-matrix", "weir-stats", true)]).len(), 1, "it is of the lab");
        assert_eq!(found(&[("weir-observe", "weir-http", false), ("weir", "weir-proxy", false)]), none);
        assert_eq!(
            found(&[("weir-lab", "weir-http", true), ("weir-observe", "weir-traffic", false)]),
            [
                "weir-observe uses weir-traffic; it may use weir-http, weir-sort",
                "weir-lab uses weir-http; it may use weir-observe, weir-stats"
            ]
        );
    }

    #[test]
    fn fuzz_targets_use_what_they_test_and_nothing_uses_them() {
        let edges = [("weir-fuzz", "weir-http", false), ("weir-fuzz", "weir-proxy", false)];
        let findings = check_dependencies(&graph(&edges));
        assert_eq!((findings.len(), &*findings[0].path), (1, "fuzz/Cargo.toml"));
        assert_eq!(
            found(&[("weir-http", "weir-fuzz", true)]),
            ["weir-http uses weir-fuzz; it may use no crate of ours"]
        );
    }

    #[test]
    fn io_counts_however_deep() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[("weir-proxy", "tokio", false), ("weir-config", "serde", false)]), none);
        assert_eq!(found(&[("weir-http", "tokio", true)]), none, "tests may");
        assert_eq!(
            found(&[("weir-http", "bytes2", false), ("bytes2", "mio", false), ("mio", "bytes2", false)]),
            ["weir-http uses mio, but it does no I/O"]
        );
    }

    #[test]
    fn formats_count_where_they_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(found(&[("weir-proxy", "weir-config", false), ("weir-config", "toml", false)]), none);
        assert_eq!(found(&[("weir-proxy", "toml", false)]).len(), 1);
    }

    #[test]
    fn a_removed_crate_is_reported() {
        let mut graph = graph(&[]);
        graph.packages.remove("weir-http");
        assert_eq!(check_dependencies(&graph)[0].message, "there is no weir-http: correct the list in xtask");
    }

    #[test]
    fn pure_crates_name_nothing_outside() {
        let text =
            "use std::time::{Duration, Instant};\nuse std::fs::File;\nfn a() -> Instant { Instant::now() }\n";
        let lines = |path: &str| -> Vec<usize> {
            check_sources(&SourceTree::of(&[(path, text)])).iter().map(|finding| finding.line).collect()
        };
        assert_eq!(lines("crates/weir-http/src/a.rs"), [2, 3]);
        assert_eq!(lines("crates/weir-http/tests/a.rs"), [0; 0]);
        assert_eq!(lines("crates/weir-proxy/src/a.rs"), [0; 0]);
        let fine = "use std::net::IpAddr;\nuse std::time::Instant;\nfn a(now: Instant) {}\n";
        assert!(check_sources(&SourceTree::of(&[("crates/weir-traffic/src/a.rs", fine)])).is_empty());
    }

    #[test]
    fn moments_of_the_calendar_are_of_the_type_that_saturates() {
        let text =
            "use std::time::{Duration, SystemTime, UNIX_EPOCH};\nfn a() { UNIX_EPOCH + Duration::MAX; }\n";
        let count = |path: &str| check_sources(&SourceTree::of(&[(path, text)])).len();
        assert_eq!(count("crates/weir-control/src/tls/acme/record.rs"), 3);
        assert_eq!(count("crates/weir-http/src/message/field_values/date.rs"), 3);
        assert_eq!(count("crates/weir-proxy/src/net/clock.rs"), 0);
        assert_eq!(count("lab/weir-lab/src/clock.rs"), 0);
        assert_eq!(count("crates/weir/tests/e2e/tls/acme/mod.rs"), 0);
        let fine = "use std::time::Duration;\nuse weir_http::WallTime;\n";
        assert!(check_sources(&SourceTree::of(&[("crates/weir-control/src/a.rs", fine)])).is_empty());
    }

    #[test]
    fn what_a_part_of_a_crate_is_for_no_other_part_names() {
        let text = "use weir_observe::flame::svg;\n";
        let count = |path: &str| check_sources(&SourceTree::of(&[(path, text)])).len();
        assert_eq!(count("lab/weir-lab/src/load/mod.rs"), 1);
        assert_eq!(count("lab/weir-lab/tests/processes.rs"), 1);
        assert_eq!(count("lab/weir-lab/src/profile/mod.rs"), 0);
        assert_eq!(count("crates/weir-config/src/lib.rs"), 0);
    }

    #[test]
    fn the_graph_is_read_from_cargo() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let metadata = cargo_metadata::MetadataCommand::new().manifest_path(manifest).exec().unwrap();
        let lab = lab::metadata(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()).unwrap();
        let graph = Graph::of(&[&metadata, &lab]).unwrap();
        assert!(graph.direct("weir-sim").contains("weir-traffic"));
        assert!(graph.direct("xtask").contains("syn"));
        assert!(!graph.direct("xtask").contains("tempfile"), "that is for its tests");
        assert!(graph.packages["xtask"].all.contains("tempfile"));
        assert!(graph.reachable("xtask").contains("unicode-ident"));
    }
}
