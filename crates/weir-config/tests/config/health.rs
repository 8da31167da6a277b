//! The meaning of the keys of a health check.

use std::time::Duration;

use weir_config::{BodyRule, Dialogue, HealthCheck, HealthProbe, HttpProbe, Server};

use crate::{checked, config};

/// The first upstream, its servers and health check as given.
fn upstream(servers: &str, health: &str) -> (Vec<Server>, HealthCheck) {
    let text = format!(
        "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = {servers}\nhealth = {health}\n"
    );
    let config = config(&text);
    let upstream = &config.upstreams[0];
    (upstream.servers.clone(), upstream.health.clone().expect("it was given"))
}

fn health(text: &str) -> HealthCheck {
    upstream("[\"a:80\"]", text).1
}

fn http(text: &str) -> HttpProbe {
    match health(text).probe {
        HealthProbe::Http(probe) => *probe,
        HealthProbe::Tcp | HealthProbe::Tls | HealthProbe::Grpc(_) => panic!("{text} is a request"),
    }
}

#[test]
fn the_keys_that_are_set_decide_the_kind() {
    for text in ["{}", "{ interval = \"5s\" }", "{ kind = \"tcp\" }"] {
        assert_eq!(health(text).probe, HealthProbe::Tcp, "{text}");
    }
    for (text, path) in [
        ("{ path = \"/healthz?full=1\" }", "/healthz?full=1"),
        ("{ kind = \"http\" }", "/"),
        ("{ kind = \"http\", path = \"/x\" }", "/x"),
    ] {
        assert_eq!(http(text).path.exposed(), path, "{text}");
    }
}

/// Probes use TLS as the traffic does by default; where the traffic has none, the server name is the `host`.
#[test]
fn tls_follows_the_traffic() {
    let probed = |upstream: &str, health: &str| {
        let text = format!(
            "[listener.web]\naddress = \":0\"\nupstream = \"app\"\n[upstream.app]\nservers = [\"a:443\"]\n{upstream}\nhealth = {health}\n"
        );
        let check = config(&text).upstreams[0].health.clone().expect("it was given");
        let kind = match check.probe {
            HealthProbe::Tcp => "tcp",
            HealthProbe::Tls => "tls",
            HealthProbe::Http(_) => "http",
            HealthProbe::Grpc(_) => "grpc",
        };
        (kind, check.tls, check.server_name.map(|name| name.to_str().into_owned()))
    };
    let with = "tls = {}";
    for (upstream, health, expected) in [
        ("", "{}", ("tcp", false, None)),
        ("protocol = \"h2c\"", "{ kind = \"grpc\", service = \"a.B\" }", ("grpc", false, None)),
        ("protocol = \"h2\"\ntls = {}", "{ kind = \"grpc\" }", ("grpc", true, None)),
        ("", "{ path = \"/\", host = \"h.test\" }", ("http", false, None)),
        ("", "{ tls = true }", ("tls", true, None)),
        ("", "{ kind = \"tls\", host = \"h.test:443\" }", ("tls", true, Some("h.test".to_owned()))),
        ("", "{ tls = true, path = \"/\", host = \"[::1]:443\" }", ("http", true, Some("::1".to_owned()))),
        (with, "{}", ("tls", true, None)),
        (with, "{ path = \"/\", host = \"h.test\" }", ("http", true, None)),
        (with, "{ path = \"/\", tls = false }", ("http", false, None)),
        (with, "{ kind = \"tcp\" }", ("tcp", false, None)),
        (with, "{ tls = false }", ("tcp", false, None)),
    ] {
        assert_eq!(probed(upstream, health), expected, "{upstream} {health}");
    }
}

#[test]
fn times_follow_the_interval() {
    let times = |text: &str| {
        let check = health(text);
        [check.interval, check.fast_interval, check.timeout].map(|time| time.as_millis())
    };
    assert_eq!(times("{}"), [2000, 500, 1000]);
    assert_eq!(times("{ interval = \"1s\" }"), [1000, 250, 500]);
    assert_eq!(
        times("{ interval = \"1m\" }"),
        [60_000, 15_000, 5000],
        "a time limit of half a minute is none"
    );
    assert_eq!(times("{ interval = \"10ms\" }"), [10, 10, 5]);
    assert_eq!(times("{ fast_interval = \"2s\", timeout = \"50ms\" }"), [2000, 2000, 50]);
    let check = health("{ interval = \"3s\", jitter = \"0%\", rise = 1, fall = 5 }");
    assert_eq!((check.pace().interval, check.pace().jitter_percent), (Duration::from_secs(3), 0));
    assert_eq!((check.thresholds().rise, check.thresholds().fall), (1, 5));
}

#[test]
fn a_request_and_its_expected_response() {
    let usual = http("{ path = \"/\" }");
    assert_eq!((&*usual.method, usual.host, usual.headers.len(), usual.body), ("GET", None, 0, None));
    let passes = |probe: &HttpProbe, status| probe.status.iter().any(|range| range.contains(status));
    let usual = http("{ path = \"/\" }");
    assert!([200, 204, 304, 399].into_iter().all(|status| passes(&usual, status)));
    assert!(![400, 404, 500].into_iter().any(|status| passes(&usual, status)));
    let own = http(
        "{ path = \"/\", method = \"post\", host = \"app.test:81\", headers = { X-A = \"b\" }, status = [200, \"404-410\"], \
         body_regex = '^ok\\d', body_size = \"1KiB\" }",
    );
    assert_eq!(
        (&*own.method, own.host.as_deref(), own.body_size.bytes()),
        ("POST", Some("app.test:81"), 1024)
    );
    assert_eq!((&*own.headers[0].0, &*own.headers[0].1), ("x-a", "b"));
    assert!(passes(&own, 200) && passes(&own, 410) && !passes(&own, 201));
    let Some(BodyRule::Regex(pattern)) = &own.body else { panic!("a regular expression") };
    assert!(pattern.is_match(b"ok1") && !pattern.is_match(b"not ok1"));
    let contains = http("{ path = \"/\", body_contains = \"ok\", status = 204 }");
    assert_eq!(contains.body, Some(BodyRule::Contains("ok".into())));
}

#[test]
fn servers_may_differ() {
    let servers =
        "[\"a:80\", { address = \"b:80\", health = false }, { address = \"c:80\", health_port = 81 }]";
    let (servers, check) = upstream(servers, "{ port = 8081 }");
    let found: Vec<_> = servers.iter().map(|server| (server.health, server.health_port)).collect();
    assert_eq!(found, [(true, None), (false, None), (true, Some(81))]);
    assert_eq!(check.port, Some(8081));
}

#[test]
fn doubtful_settings_are_reported_and_accepted() {
    for (health, warning) in [
        ("{ timeout = \"3s\" }", "a probe that runs into `timeout` (3s) delays the next one"),
        (
            "{ path = \"/\", body_size = \"1KiB\", connection_age = \"off\" }",
            "`body_size` has no effect: the body is not checked",
        ),
    ] {
        let text = format!(
            "listener.web = {{ address = \":0\", upstream = \"app\" }}\nupstream.app = {{ servers = [\"a:80\"], health = {health} }}\n"
        );
        let checked = checked(&text);
        assert!(checked.config.is_some(), "{}", checked.diagnostics);
        assert!(checked.diagnostics.to_string().contains(warning), "{}", checked.diagnostics);
    }
}

#[test]
fn conversations_are_presets_or_texts() {
    let dialogue = |text: &str| health(text).dialogue;
    let script = |send: &[u8], expect: &[u8], quit: &[u8]| {
        Some(Dialogue::Script { send: send.into(), expect: expect.into(), quit: quit.into() })
    };
    for (text, expected) in [
        ("{}", None),
        ("{ path = \"/\" }", None),
        ("{ preset = \"redis\" }", Some(Dialogue::Redis)),
        ("{ preset = \"smtp\", kind = \"tls\" }", Some(Dialogue::Smtp)),
        ("{ preset = \"postgresql\" }", Some(Dialogue::Postgresql { user: None })),
        ("{ preset = \"postgresql\", user = \"w\" }", Some(Dialogue::Postgresql { user: Some("w".into()) })),
        ("{ preset = \"mysql\", user = \"w\" }", Some(Dialogue::Mysql { user: "w".into() })),
        ("{ expect = \"220 \" }", script(b"", b"220 ", b"")),
        ("{ send = \"a\\r\\n\", expect = \"hex:00 ff\", quit = \"q\" }", script(b"a\r\n", &[0, 255], b"q")),
    ] {
        assert_eq!(dialogue(text), expected, "{text}");
    }
    assert_eq!(health("{ preset = \"redis\" }").probe, HealthProbe::Tcp);
}

#[test]
fn conversations_that_cannot_work_are_diagnostics() {
    for (health, diagnostic) in [
        ("{ preset = \"mysql\" }", "`preset = \"mysql\"` needs a `user`"),
        ("{ preset = \"redis\", user = \"w\" }", "`user` has no effect"),
        ("{ preset = \"redis\", send = \"x\" }", "a probe has a `preset` or a `send` of its own"),
        ("{ preset = \"mysql\", user = \"w\", tls = true }", "this protocol begins without TLS"),
        ("{ send = \"x\" }", "`send` without `expect`"),
        ("{ expect = \"hex:5\" }", "`5` is not a sequence of bytes in hex"),
        (
            "{ path = \"/\", expect = \"x\" }",
            "`expect` has no effect: a probe of the kind `http` sends a request",
        ),
        ("{ preset = \"redis\", status = 200 }", "only has its own dialogue"),
    ] {
        let text = format!(
            "listener.web = {{ address = \":0\", upstream = \"app\" }}\nupstream.app = {{ servers = [\"a:80\"], health = {health} }}\n"
        );
        let checked = checked(&text);
        assert!(checked.config.is_none(), "{health}");
        assert!(checked.diagnostics.to_string().contains(diagnostic), "{}", checked.diagnostics);
    }
}
