//! The cargo features of the program: which it was built with, and what a config may not ask for without them.

use std::sync::LazyLock;

use weir_config::CheckedConfig;
use weir_control::{BUILD_HELP, Feature, GEOIP, HTTP3, PROFILER, TRACES, XDS};

/// `weir top`.
pub(crate) const TOP: Feature = Feature { name: "top", is_compiled_in: cfg!(feature = "top"), keys: &[] };

/// `weir serve --kubernetes`.
pub(crate) const KUBERNETES: Feature =
    Feature { name: "kubernetes", is_compiled_in: cfg!(feature = "kubernetes"), keys: &[] };

const ALL: [Feature; 7] = [GEOIP, HTTP3, KUBERNETES, PROFILER, TOP, TRACES, XDS];

/// Adds an error for each key that needs a feature which this build does not have.
pub(crate) fn check(checked: CheckedConfig) -> CheckedConfig {
    reject_keys(checked, &ALL)
}

fn reject_keys(mut checked: CheckedConfig, features: &[Feature]) -> CheckedConfig {
    for feature in features.iter().filter(|feature| !feature.is_compiled_in) {
        for key in feature.keys {
            let message = feature.missing_for(&format!("`{}`", key.join(".")));
            checked = checked.reject_key(key, message, BUILD_HELP);
        }
    }
    checked
}

/// What `weir --version` says: the version, and the features on lines of their own.
pub(crate) fn long_version() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| version_text(&ALL));
    &TEXT
}

fn version_text(features: &[Feature]) -> String {
    let mut text = env!("CARGO_PKG_VERSION").to_owned();
    for (title, is_compiled_in) in [("features", true), ("left out", false)] {
        let named = features.iter().filter(|feature| feature.is_compiled_in == is_compiled_in);
        let names: Vec<&str> = named.map(|feature| feature.name).collect();
        if !names.is_empty() {
            text.push_str(&format!("\n{title}: {}", names.join(", ")));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "\
listener.web = { address = \":0\", upstream = \"app\" }
upstream.app.servers = [\"10.0.0.1:80\"]

[traces]
ratio = \"10%\"
endpoint = \"http://127.0.0.1:4318/v1/traces\"
";

    fn features(is_compiled_in: bool) -> [Feature; 2] {
        [PROFILER, TRACES].map(|feature| Feature { is_compiled_in, ..feature })
    }

    #[test]
    fn a_key_needs_its_feature() {
        let checked = || CheckedConfig::parse(CONFIG, "weir.toml");
        assert!(reject_keys(checked(), &features(true)).config.is_some());
        let rejected = reject_keys(checked(), &features(false));
        assert!(rejected.config.is_none());
        assert_eq!(
            rejected.diagnostics.to_string(),
            format!(
                "weir.toml:6:1: error: `traces.endpoint` needs the feature `traces`, and this weir was built without it ({BUILD_HELP})"
            )
        );
        let xds = [Feature { is_compiled_in: false, ..XDS }];
        let followed = "listener.web = { address = \":0\", upstream = \"app\" }\n\
                        upstream.app.discovery = { cds = \"app\" }\n[discovery.xds]\nurl = \"http://127.0.0.1:1\"\n";
        let rejected = reject_keys(CheckedConfig::parse(followed, "weir.toml"), &xds);
        assert!(rejected.config.is_none());
        let text = rejected.diagnostics.to_string();
        assert!(
            text.contains("`discovery.xds` needs the feature `xds`, and this weir was built without it"),
            "{text}"
        );
        let without = CheckedConfig::parse(CONFIG.split("\n\n").next().unwrap_or_default(), "weir.toml");
        assert!(reject_keys(without, &features(false)).config.is_some());
    }

    #[test]
    fn the_version_lists_features() {
        let version = env!("CARGO_PKG_VERSION");
        assert_eq!(version_text(&features(true)), format!("{version}\nfeatures: profiler, traces"));
        assert_eq!(version_text(&features(false)), format!("{version}\nleft out: profiler, traces"));
    }
}
