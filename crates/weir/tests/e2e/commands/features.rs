//! The cargo features: what each build says of itself, and what it answers where it was built without one.
//!
//! These tests run in every build, and expect of each what it was built with.

use crate::harness::{Client, Origin, Weir, WrittenConfig, run};

const WITH_TRACES: &str = "\
listener.web = { address = \"127.0.0.1:0\", upstream = \"app\" }
upstream.app.servers = [\"10.0.0.1:80\"]

[traces]
ratio = \"10%\"
endpoint = \"http://127.0.0.1:4318/v1/traces\"
";

/// The diagnostic of `traces.endpoint`, behind the name of the file.
const TRACES_MISSING: &str =
    ":6:1: error: `traces.endpoint` needs the feature `traces`, and this weir was built without it";

/// How to get another build.
const BUILD: &str =
    "build it from its sources: cargo install --locked --profile stripped --all-features --path crates/weir";

const HAS_GEOIP: bool = cfg!(feature = "geoip");
const HAS_HTTP3: bool = cfg!(feature = "http3");
const HAS_KUBERNETES: bool = cfg!(feature = "kubernetes");
const HAS_PROFILER: bool = cfg!(feature = "profiler");
const HAS_TOP: bool = cfg!(feature = "top");
const HAS_TRACES: bool = cfg!(feature = "traces");
const HAS_XDS: bool = cfg!(feature = "xds");

#[test]
fn the_version_lists_the_features() {
    let all = [
        ("geoip", HAS_GEOIP),
        ("http3", HAS_HTTP3),
        ("kubernetes", HAS_KUBERNETES),
        ("profiler", HAS_PROFILER),
        ("top", HAS_TOP),
        ("traces", HAS_TRACES),
        ("xds", HAS_XDS),
    ];
    let mut expected = run(&["-V"]).stdout;
    for (title, has) in [("features", true), ("left out", false)] {
        let names: Vec<&str> =
            all.iter().filter(|feature| feature.1 == has).map(|feature| feature.0).collect();
        if !names.is_empty() {
            expected.push_str(&format!("{title}: {}\n", names.join(", ")));
        }
    }
    assert_eq!(run(&["--version"]).stdout, expected);
}

#[test]
fn a_config_with_traces_needs_their_feature() {
    let file = WrittenConfig::new(WITH_TRACES);
    let done = run(&["check", "--format", "short", file.path()]);
    if HAS_TRACES {
        assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{done:?}");
        return;
    }
    assert_eq!((done.code, done.stdout), (Some(2), format!("{}{TRACES_MISSING} ({BUILD})\n", file.path())));
    let json = run(&["check", "--format", "json", file.path()]).stdout;
    let diagnostics: serde_json::Value = serde_json::from_str(&json).expect("it is JSON");
    assert_eq!(diagnostics[0]["code"], "not-supported", "{json}");
    for command in ["serve", "plan"] {
        let done = run(&[command, file.path()]);
        assert_eq!(done.code, Some(2), "{done:?}");
        for part in ["weir.toml:6:1", "endpoint = ", "needs the feature `traces`", BUILD] {
            assert!(done.stderr.contains(part), "{part:?} is missing in:\n{}", done.stderr);
        }
    }
}

#[test]
fn a_map_with_a_database_needs_its_feature() {
    let file = WrittenConfig::new(
        "listener.web = { address = \"127.0.0.1:0\", route = [{ path = \"/\", respond = { status = 200, body = \"{map.a}{map.b}\" } }] }
map.a = { source = \"{client_address}\", exact = { x = \"y\" } }
map.b = { source = \"{client_address}\", database = \"/none.mmdb\", field = \"country.iso_code\" }
",
    );
    let done = run(&["check", "--format", "short", file.path()]);
    assert_eq!(done.code, Some(2), "{done:?}");
    let missing = "error: `map.NAME.database` needs the feature `geoip`, and this weir was built without it";
    assert_eq!(done.stdout.contains(missing), !HAS_GEOIP, "{done:?}");
}

#[test]
fn a_reload_with_traces_needs_their_feature() {
    let origin = Origin::serving("x");
    let weir = Weir::proxying(&origin);
    let text = std::fs::read_to_string(weir.folder().join("weir.toml")).expect("it is there");
    let with_traces = format!("{text}\ntraces.endpoint = \"http://127.0.0.1:4318/v1/traces\"\n");
    if HAS_TRACES {
        weir.reload(&with_traces);
        return;
    }
    weir.reload_in_vain(&with_traces);
    weir.line(&["ERROR", "weir.toml:", "`traces.endpoint` needs the feature `traces`", BUILD]);
    weir.line(&["ERROR", "the config was not reloaded", "errors=1"]);
    weir.reload(&text);
}

#[test]
fn a_profile_needs_the_profiler() {
    let origin = Origin::serving("x");
    let weir = Weir::proxying_with(&origin, "admin = { address = \"127.0.0.1:0\", changes = true }");
    let response = weir.admin_post("/api/profile/memory");
    let admin = weir.address("admin").to_string();
    let done = run(&["ctl", "profile", "memory", "--admin", &admin]);
    if HAS_PROFILER {
        assert_eq!((response.status, done.code), (200, Some(0)), "{done:?}");
        return;
    }
    let expected =
        format!("a profile needs the feature `profiler`, and this weir was built without it: {BUILD}");
    let body: serde_json::Value = serde_json::from_str(&response.text()).expect("errors of the API are JSON");
    assert_eq!((response.status, body), (501, serde_json::json!({ "errors": [expected] })));
    assert!(done.code == Some(1) && done.stderr.contains(&expected), "{done:?}");
    assert_eq!(weir.admin_post("/api/profile/disk").status, 404);
    let page = Client::get_by_address(weir.address("admin"), "/").text();
    assert!(!page.contains("/api/profile/"), "the status page has no buttons for it");
}

#[test]
fn the_terminal_ui_needs_its_feature() {
    let done = run(&["top", "--admin", "127.0.0.1:1"]);
    assert_eq!(done.code, Some(if HAS_TOP { 1 } else { 2 }), "{done:?}");
    if !HAS_TOP {
        let expected = format!(
            "error: `weir top` needs the feature `top`, and this weir was built without it\nhelp: {BUILD}\n"
        );
        assert_eq!(done.stderr, expected);
    }
}
