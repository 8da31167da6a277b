//! The differences between two configs: which parts and keys, where they are, and the effect of a reload on connections.

use weir_config::{ChangeKind, CheckedConfig, ConfigDiff, Effect};

const OLD: &str = r#"
[listener.web]
address = ":8080"
timeouts.idle = "60s"

[[listener.web.route]]
path = "/api"
upstream = "app"

[[listener.web.route]]
upstream = "app"
header = { x-env = "test" }

[[listener.web.route]]
name = "rest"
upstream = "app"

[upstream.app]
servers = [{ name = "a", address = "10.0.0.1:80" }, "10.0.0.2:80"]
affinity = { mode = "learn", cookie = "id" }
"#;

/// `sign part: key before after effect` or `sign part: effect`, one for each change of a key or of a part.
fn difference_lines(old: &str, new: &str) -> Vec<String> {
    let old = CheckedConfig::parse(old, "old.toml");
    let new = CheckedConfig::parse(new, "new.toml");
    for checked in [&old, &new] {
        assert!(checked.config.is_some(), "{}", checked.diagnostics);
    }
    let difference = ConfigDiff::between(&old, &new);
    let mut lines = Vec::new();
    for change in &difference.changes {
        let part = &change.part;
        match &change.kind {
            ChangeKind::Added(effect) => lines.push(format!("+ {part}: {}", effect.name())),
            ChangeKind::Removed(effect) => lines.push(format!("- {part}: {}", effect.name())),
            ChangeKind::Changed(keys) => lines.extend(keys.iter().map(|key| {
                let value = |value: &Option<String>| value.clone().unwrap_or_default();
                let (before, after) = (value(&key.before), value(&key.after));
                format!("~ {part}: {} {before} {after} {}", key.key, key.effect.name())
            })),
        }
    }
    lines
}

#[test]
fn a_config_does_not_differ_from_itself_nor_from_its_effective_form() {
    assert!(difference_lines(OLD, OLD).is_empty());
    let printed = CheckedConfig::parse(OLD, "old.toml").print();
    assert_eq!(difference_lines(OLD, &printed), [""; 0]);
    for (name, example) in crate::files(&crate::root().join("examples"), "toml") {
        let (read, again) = (CheckedConfig::parse(&example, &name), CheckedConfig::parse(&example, &name));
        assert!(ConfigDiff::between(&read, &again).is_empty(), "{name}");
    }
}

#[test]
fn the_order_of_tables_and_servers_means_nothing() {
    let new = OLD.replace(
        r#"[{ name = "a", address = "10.0.0.1:80" }, "10.0.0.2:80"]"#,
        r#"["10.0.0.2:80", { address = "10.0.0.1:80", name = "a", weight = 1 }]"#,
    );
    assert_ne!(OLD, new);
    assert!(difference_lines(OLD, &new).is_empty());
}

#[test]
fn every_added_removed_or_changed_part_is_reported() {
    for (from, to, line) in [
        ("\"60s\"", "\"30s\"", "~ listener `web`: timeouts.idle \"1m\" \"30s\" next-request"),
        ("\":8080\"", "\":8081\"", "~ listener `web`: address \":8080\" \":8081\" rebinds"),
        ("\":8080\"", "\":8080\"\nbacklog = 5", "~ listener `web`: backlog 65535 5 next-connection"),
        (
            "name = \"rest\"\n",
            "name = \"rest\"\nsource = \"10.0.0.0/8\"\n",
            "~ listener `web`, route `rest`: source  \"10.0.0.0/8\" next-request",
        ),
        (
            "path = \"/api\"\n",
            "path = \"/api\"\nstrip_prefix = true\n",
            "~ listener `web`, route `/api`: strip_prefix false true next-request",
        ),
        (
            "10.0.0.1:80",
            "10.0.0.9:80",
            "~ upstream `app`, server `a`: address \"10.0.0.1:80\" \"10.0.0.9:80\" moves",
        ),
        (", \"10.0.0.2:80\"", "", "- upstream `app`, server `10.0.0.2:80`: drains"),
        (
            ", \"10.0.0.2:80\"",
            ", \"10.0.0.2:80\", \"10.0.0.3:80\"",
            "+ upstream `app`, server `10.0.0.3:80`: begins",
        ),
        (
            "\"10.0.0.2:80\"",
            "{ address = \"10.0.0.2:80\", weight = 7 }",
            "~ upstream `app`, server `10.0.0.2:80`: weight 1 7 at-once",
        ),
        ("\"id\"", "\"sid\"", "~ upstream `app`: affinity.cookie \"id\" \"sid\" forgets"),
        (
            "[upstream.app]\n",
            "[upstream.app]\nproxy_protocol = \"v1\"\n",
            "~ upstream `app`: proxy_protocol \"off\" \"v1\" reconnects",
        ),
        (
            "[upstream.app]\n",
            "[upstream.app]\nsource_address = \"10.0.0.7\"\n",
            "~ upstream `app`: source_address \"off\" \"10.0.0.7\" reconnects",
        ),
        (
            "\"10.0.0.2:80\"",
            "{ address = \"10.0.0.2:80\", source_address = \"10.0.0.7\" }",
            "~ upstream `app`, server `10.0.0.2:80`: source_address  \"10.0.0.7\" reconnects",
        ),
        (
            "[upstream.app]\n",
            "[upstream.app]\nwhen_full = \"backup\"\n",
            "~ upstream `app`: when_full \"queue\" \"backup\" at-once",
        ),
        (
            "[upstream.app]\n",
            "[upstream.app]\nprotocol = \"h2c\"\n",
            "~ upstream `app`: protocol \"http1\" \"h2c\" reconnects",
        ),
        (
            "[upstream.app]\n",
            "[upstream.app]\nhttp2.ping_interval = \"off\"\n",
            "~ upstream `app`: http2.ping_interval \"10s\" \"off\" reconnects",
        ),
        (
            "[upstream.app]\n",
            "[dns]\ntimeout = \"1s\"\n[upstream.app]\n",
            "~ dns: timeout \"2s\" \"1s\" at-once",
        ),
        (
            "[upstream.app]\n",
            "[log]\nlevel = \"warn\"\n[upstream.app]\n",
            "~ log: level \"info\" \"warn\" restart",
        ),
    ] {
        let new = OLD.replacen(from, to, 1);
        assert_ne!(new, OLD, "{from}");
        assert_eq!(difference_lines(OLD, &new), [line], "{to}");
    }
}

#[test]
fn caches_are_compared() {
    let with = |cache: &str| format!("{OLD}{cache}");
    let pages = with("[cache.pages]\n");
    assert_eq!(difference_lines(OLD, &pages), ["+ cache `pages`: next-request"]);
    assert_eq!(difference_lines(&pages, OLD), ["- cache `pages`: next-request"]);
    assert_eq!(difference_lines(&pages, &with("[cache.pages]\nmemory = \"128MiB\"\n")), [""; 0]);
    let changed = with(
        "[cache.pages]\nmemory = \"1GiB\"\nresponse_max = \"1MiB\"\ndisk = { folder = \"/var/cache/weir\", size = \"2GiB\" }\n",
    );
    assert_eq!(
        difference_lines(&pages, &changed),
        [
            "~ cache `pages`: memory \"128MiB\" \"1GiB\" empties",
            "~ cache `pages`: response_max \"8MiB\" \"1MiB\" empties",
            "~ cache `pages`: disk.folder  \"/var/cache/weir\" empties",
            "~ cache `pages`: disk.size  \"2GiB\" empties",
        ]
    );
    let difference = ConfigDiff::between(
        &CheckedConfig::parse(&pages, "old.toml"),
        &CheckedConfig::parse(&changed, "new.toml"),
    );
    let ChangeKind::Changed(keys) = &difference.changes[0].kind else { panic!("{difference:?}") };
    assert_eq!(keys[0].location.as_ref().unwrap().to_string(), "new.toml:22:1");
}

#[test]
fn a_route_without_a_name_is_identified_by_its_conditions() {
    let new = OLD.replace("path = \"/api\"", "path = \"/v2\"");
    assert_eq!(
        difference_lines(OLD, &new),
        ["+ listener `web`, route `/v2`: next-request", "- listener `web`, route `/api`: next-request"]
    );
}

#[test]
fn whole_listeners_and_upstreams_come_and_go_with_all_that_is_in_them() {
    let other = OLD.replace("listener.web", "listener.site").replace("8080", "8081");
    let both = format!("{OLD}{}", other.split("[upstream.app]").next().unwrap());
    let added = difference_lines(OLD, &both);
    assert_eq!(added.len(), 4, "{added:?}");
    assert_eq!(added[0], "+ listener `site`: rebinds");
    assert_eq!(difference_lines(&both, OLD)[0], "- listener `site`: closes");
}

#[test]
fn places_are_those_of_the_keys() {
    let new = OLD.replace("\"60s\"", "\"30s\"").replace(", \"10.0.0.2:80\"", "");
    let difference =
        ConfigDiff::between(&CheckedConfig::parse(OLD, "old.toml"), &CheckedConfig::parse(&new, "new.toml"));
    let [listener, server] = &difference.changes[..] else { panic!("{difference:?}") };
    let ChangeKind::Changed(keys) = &listener.kind else { panic!("{listener:?}") };
    assert_eq!(keys[0].location.as_ref().unwrap().to_string(), "new.toml:4:10");
    assert_eq!(server.location.as_ref().unwrap().to_string(), "old.toml:19:53");
    assert_eq!(server.effects(), [Effect::Drains]);
}

#[test]
fn a_secret_is_compared_and_not_shown() {
    let with = |secret: &str| {
        OLD.replace("\"learn\", cookie = \"id\"", &format!("\"insert\", secret = \"{secret}\""))
    };
    let lines = difference_lines(&with("0123456789abcdef"), &with("fedcba9876543210"));
    assert_eq!(lines, ["~ upstream `app`: affinity.secret (secret) (secret) next-request"]);
}

#[test]
fn each_effect_has_a_name_and_a_sentence_of_its_own() {
    let mut seen = std::collections::BTreeSet::new();
    for effect in Effect::ALL {
        assert!(seen.insert(effect.name().to_owned()) && seen.insert(effect.sentence("5m")), "{effect:?}");
    }
}
