//! `discovery`: the sources of upstreams, and what they share.

use std::time::Duration;

use tempfile::TempDir;
use weir_config::{CheckedConfig, ConsulService, ServerSource, SourceSecret};

fn load(folder: &TempDir, text: &str) -> CheckedConfig {
    let file = folder.path().join("weir.toml");
    std::fs::write(&file, text).expect("the folder takes a file");
    CheckedConfig::load(&file)
}

#[test]
fn each_kind_of_source_is_read() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    let mut consul = ConsulService::new("app");
    consul.tags = vec!["v2".into(), "eu".into()];
    consul.datacenter = Some("dc1".into());
    consul.filter = Some("Service.Meta.v == \"2\"".into());
    consul.nearest = Some(3);
    for (written, source, shown) in [
        (
            "file = \"app.toml\"",
            ServerSource::File(folder.path().join("app.toml")),
            format!("file {}", folder.path().join("app.toml").display()),
        ),
        (
            "dns = \"App.example:80\"",
            ServerSource::Dns { host: "app.example".into(), port: 80 },
            "dns app.example:80".to_owned(),
        ),
        (
            "srv = \"_http._tcp.App.example.\"",
            ServerSource::Srv("_http._tcp.app.example".into()),
            "srv _http._tcp.app.example".to_owned(),
        ),
        (
            "consul = \"app\", tags = [\"v2\", \"eu\"], datacenter = \"dc1\", filter = 'Service.Meta.v == \"2\"', nearest = 3",
            ServerSource::Consul(consul),
            "consul app tag v2 tag eu in dc1 where Service.Meta.v == \"2\" nearest 3".to_owned(),
        ),
        (
            "etcd = \"/services/app\"",
            ServerSource::Etcd("/services/app/".into()),
            "etcd /services/app/".to_owned(),
        ),
        (
            "cds = \"outbound|80||app.ns\"",
            ServerSource::Cds("outbound|80||app.ns".into()),
            "cds outbound|80||app.ns".to_owned(),
        ),
        ("eds = \"App\"", ServerSource::Eds("App".into()), "eds App".to_owned()),
    ] {
        let xds =
            if written.contains("ds =") { "[discovery.xds]\nurl = \"http://127.0.0.1:1\"\n" } else { "" };
        let text = format!(
            "{xds}[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\ndiscovery = {{ {written} }}\n\
             servers = [{{ address = \"127.0.0.1:1\", backup = true }}]\n"
        );
        let checked = load(&folder, &text);
        assert!(checked.diagnostics.is_empty(), "{}", checked.diagnostics);
        let printed = CheckedConfig::parse(&checked.print(), "weir.toml");
        assert!(printed.config.is_some(), "{}", printed.diagnostics);
        let config = checked.into_result().expect("it has no errors");
        assert_eq!(config.upstreams[0].discovery.as_deref(), Some(&source));
        assert_eq!(source.to_string(), shown);
        assert_eq!(config.upstreams[0].servers.len(), 1);
    }
}

#[test]
fn secrets_come_from_files_and_are_not_shown() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    std::fs::write(folder.path().join("token"), "hush-1\n").expect("the folder takes a file");
    std::fs::write(folder.path().join("password"), "hush-2\n").expect("the folder takes a file");
    let text = r#"
        [discovery]
        empty_grace = "1m"
        state_file = "servers.json"
        consul = { url = "http://127.0.0.1:8501", token_file = "token" }
        etcd = { url = ["http://127.0.0.1:1", "http://127.0.0.1:2"], user = "weir", password_file = "password" }
        [listener.web]
        address = ":0"
        route = [{ path = "/a", upstream = "a" }, { upstream = "b" }]
        [upstream.a]
        discovery = { consul = "a" }
        [upstream.b]
        discovery = { etcd = "/b" }
    "#;
    let checked = load(&folder, text);
    assert!(!checked.print().contains("hush"));
    let config = checked.into_result().expect("it has no errors");
    let settings = &config.discovery;
    assert_eq!(settings.empty_grace, Duration::from_secs(60));
    assert_eq!(settings.state_file.as_deref(), Some(&*folder.path().join("servers.json")));
    assert_eq!(settings.consul.url.to_string(), "http://127.0.0.1:8501");
    assert_eq!(settings.consul.token, Some(SourceSecret("hush-1".into())));
    assert_eq!(settings.etcd.urls.len(), 2);
    assert_eq!(settings.etcd.login, Some(("weir".into(), SourceSecret("hush-2".into()))));
    assert!(!format!("{settings:?}{}", config.dump).contains("hush"));
}

#[test]
fn a_control_plane_is_told_who_asks() {
    let folder = TempDir::new().expect("the system has a folder for temporary files");
    std::fs::write(folder.path().join("token"), "hush-3\n").expect("the folder takes a file");
    let text = r#"
        [discovery.xds]
        url = ["http://127.0.0.1:1", "http://127.0.0.1:2"]
        node = "weir-1"
        node_cluster = "edge"
        node_metadata = { team = "shop", canary = "no" }
        region = "eu"
        zone = "eu-1a"
        token_file = "token"
        answer_timeout = "3s"
        [listener.web]
        address = ":0"
        upstream = "a"
        [upstream.a]
        discovery = { cds = "a" }
    "#;
    let checked = load(&folder, text);
    assert!(!checked.print().contains("hush"));
    let config = checked.into_result().expect("it has no errors");
    let xds = &config.discovery.xds;
    assert_eq!(xds.urls.len(), 2);
    assert_eq!((xds.node.id.as_deref(), &*xds.node.cluster), (Some("weir-1"), "edge"));
    assert_eq!((&*xds.node.region, &*xds.node.zone, &*xds.node.sub_zone), ("eu", "eu-1a", ""));
    let metadata: Vec<(&str, &str)> = xds.node.metadata.iter().map(|(key, text)| (&**key, &**text)).collect();
    assert_eq!(metadata, [("team", "shop"), ("canary", "no")]);
    assert_eq!(xds.token, Some(SourceSecret("hush-3".into())));
    assert_eq!((&xds.tls, xds.answer_timeout), (&None, Duration::from_secs(3)));
    assert!(!format!("{:?}{}", config.discovery, config.dump).contains("hush"));
}
