//! The optional parts of this crate: whether each is compiled in, which keys of the config need it, and the message where it is missing.
//!
//! Why they are optional, and what each costs, is in docs/decisions/0082-features.md.

/// An optional part of the program: a cargo feature of the package `weir`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// The name of the cargo feature.
    pub name: &'static str,
    /// Whether this build has it.
    pub is_compiled_in: bool,
    /// The keys of the config that need it, each with the tables that it is in; `NAME` is every name.
    pub keys: &'static [&'static [&'static str]],
}

/// Databases of addresses in maps.
pub const GEOIP: Feature =
    Feature { name: "geoip", is_compiled_in: cfg!(feature = "geoip"), keys: &[&["map", "NAME", "database"]] };

/// HTTP/3 with clients.
pub const HTTP3: Feature = Feature {
    name: "http3",
    is_compiled_in: cfg!(feature = "http3"),
    keys: &[&["listener", "NAME", "http3"]],
};

/// Profiles of the running process.
pub const PROFILER: Feature =
    Feature { name: "profiler", is_compiled_in: cfg!(feature = "profiler"), keys: &[] };

/// Spans of sampled exchanges for a collector.
pub const TRACES: Feature =
    Feature { name: "traces", is_compiled_in: cfg!(feature = "traces"), keys: &[&["traces", "endpoint"]] };

/// How to get a program with all features.
pub const BUILD_HELP: &str =
    "build it from its sources: cargo install --locked --profile stripped --all-features --path crates/weir";

/// Servers from a control plane of xDS.
pub const XDS: Feature =
    Feature { name: "xds", is_compiled_in: cfg!(feature = "xds"), keys: &[&["discovery", "xds"]] };

impl Feature {
    /// The message for `what`, which needs this feature, in a build without it.
    pub fn missing_for(self, what: &str) -> String {
        format!("{what} needs the feature `{}`, and this weir was built without it", self.name)
    }
}
