//! Scenarios: every shipped one is sound, and mistakes in own ones are named.

use std::collections::BTreeSet;
use std::time::Duration;

use super::{RequestRate, Scenario, catalogue};
use crate::measure::metric::Metric;

const SMALL: &str = r#"
question = "?"
requirements = []
targets = ["direct", "nginx/no-reuse"]
class = "tuned"
rounds = { count = 5, warm-up = "500ms", window = "4s" }
"#;

#[test]
fn every_file_in_the_folder_is_in_the_catalogue_and_sound() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../scenarios");
    let files: BTreeSet<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let scenarios = catalogue::all().unwrap();
    assert_eq!(scenarios.iter().map(|scenario| scenario.name.clone()).collect::<BTreeSet<_>>(), files);
    for scenario in scenarios {
        assert!(scenario.question.ends_with('?'), "{}", scenario.name);
        assert!(!scenario.requirements.is_empty(), "{}", scenario.name);
        for bar in &scenario.bars {
            assert!(scenario.columns().contains(&bar.metric), "{}: {bar:?} has no column", scenario.name);
        }
        let short = scenario.shortened();
        assert!(
            short.rounds.count <= 2 && short.rounds.window <= Duration::from_secs(1),
            "{}",
            scenario.name
        );
    }
}

#[test]
fn a_scenario_is_read_as_written() {
    let text = format!(
        "{SMALL}[steady]\nclients = 3\nrate = {{ share = 0.5, of-peak = \"nginx\" }}\n[[bar]]\nmetric = \"p99\"\nof = \"best-peer\"\nat-most = 1.0\n"
    );
    let scenario = Scenario::read("x", &text).unwrap();
    assert_eq!(
        (scenario.rounds.warm_up, scenario.rounds.window),
        (Duration::from_millis(500), Duration::from_secs(4))
    );
    let steady = scenario.steady.as_ref().unwrap();
    assert!(steady.keep_alive && steady.answer == 612 && steady.body == 0);
    assert!(matches!(steady.rate, Some(RequestRate::OfPeak { share, .. }) if share == 0.5));
    assert_eq!(scenario.targets[1].to_string(), "nginx/no-reuse");
    assert_eq!(scenario.bars[0].metric, Metric::P99);
    assert!(scenario.bars[0].is_met_by(1.0) && !scenario.bars[0].is_met_by(1.01));
    let again: Scenario = serde_json::from_str(&serde_json::to_string(&scenario).unwrap()).unwrap();
    assert_eq!(again.targets, scenario.targets);
}

#[test]
fn mistakes_are_named() {
    for (more, says) in [
        ("", "exactly one kind of work"),
        ("[steady]\nclients = 1\n[idle]\nclients = [1, 2]\nsettle = \"1s\"\n", "exactly one kind of work"),
        ("[steady]\nclients = 0\n", "no clients"),
        ("[steady]\nclients = 1\nspeed = 3\n", "`speed` is no key here"),
        ("[steady]\nclients = 1\nrate = -1.0\n", "not positive"),
        ("[steady]\nclients = 1\ncookie = \"session\"\n", "a name, `=` and a value"),
        ("[idle]\nclients = [2, 1]\nsettle = \"1s\"\n", "rising"),
        (
            "[idle]\nclients = [1, 2]\nbefore = 1\nsettle = \"1s\"\ntunnels = { message = 1, heartbeat = \"1s\" }\n",
            "a tunnel is one exchange",
        ),
        ("[queue]\nclients = [3]\nservice = \"20ms\"\n", "without `slots`"),
        ("[upstream]\nslots = 1\n[queue]\nclients = []\nservice = \"20ms\"\n", "no clients"),
        ("[upstream]\nslots = 0\n[steady]\nclients = 1\n", "at least one request"),
        ("[upstream]\nservers = 3\nbalance = \"magic\"\n", "`magic` is no value here"),
        (
            "[upstream]\nhealth = { interval = \"1s\", timeout = \"2s\", fall = 1, rise = 1 }\n[steady]\nclients = 1\n",
            "at most an interval",
        ),
        ("[probes]\nbin = \"10ms\"\n", "no `health`"),
        (
            "[outage]\nevent = \"kill\"\nrate = 1.0\nclients = 1\nservice = \"5ms\"\nbodies = [0]\nafter = \"1s\"\nlength = \"1s\"\n",
            "the other servers",
        ),
        (
            "[upstream]\nservers = 2\n[persistence]\nclients = 1\nrequests = 1\nafter = \"1s\"\nlength = \"1s\"\nsettle = \"0s\"\n",
            "nothing binds clients",
        ),
        (
            "[upstream]\nslots = 1\n[overload]\ntimes = 3.0\nthen = 0.5\nafter = \"1s\"\nservice = \"20ms\"\npatience = \"1s\"\n",
            "without `queue-timeout`",
        ),
        (
            "[upstream]\nslots = 1\n[slow]\nrate = 1.0\nclients = 1\nservice = \"20ms\"\nslow = \"20ms\"\none-in = 100\n",
            "slower than the others",
        ),
        ("[steady]\nclients = 1\nsuites = [\"TLS_AES_256_GCM_SHA384\"]\n", "an RSA key"),
        ("[ladder]\nclients = [2, 1]\n", "rising"),
        ("[ladder]\nclients = [1]\nerrors-max = 100.0\n", "a percentage"),
        (
            "[slow-clients]\nrate = 1.0\nclients = 1\nreaders = 1\nanswer = 1\nwriters = 1\nbody = 0\npace = 1\n",
            "write something",
        ),
        (
            "[reload]\nrate = 1.0\nclients = 1\nshort-rate = 1.0\ntunnels = 1\ntimes = 1\nevery = \"1s\"\n",
            "four servers or more",
        ),
        ("[upstream]\nservers = 2\nerrors = 101\n[steady]\nclients = 1\n", "a percentage"),
        (
            "[soak]\nrate = 1.0\nclients = 1\nshort-rate = 1.0\npost-rate = 1.0\ntunnels = 1\nmessages = 1.0\nslow = 1\nleaving-rate = 1.0\nreload-every = \"1s\"\nflap-every = \"4s\"\n",
            "five servers or more",
        ),
        ("[listener]\nprotocol = \"tcp\"\n[steady]\nclients = 1\n", "without variants"),
        ("[listener]\nprotocol = \"udp\"\n[steady]\nclients = 1\n", "`udp` is no value here"),
        (
            "[listener]\ntls = { suite = \"TLS_AES_256_GCM_SHA384\", key = \"rsa-2048\" }\n[steady]\nclients = 1\n",
            "the origin itself has none",
        ),
        (
            "[listener]\ntls = { suite = \"RC4\", key = \"rsa-2048\" }\n[steady]\nclients = 1\n",
            "`RC4` is no value here",
        ),
        ("[unfinished]\nclients = [1, 2]\nsettle = \"1s\"\nrate = 1.0\n", "without `handshake-timeout`"),
        ("[unfinished]\nclients = [2]\nsettle = \"1s\"\nrate = 1.0\n", "two numbers or more"),
        ("[unfinished]\nclients = [1, 2]\nsettle = \"1s\"\nrate = 0.0\n", "not positive"),
        ("[steady]\nclients = 1\nstreams = 0\n", "at least 1"),
        ("[steady]\nclients = 1\nstreams = 1\nrate = 1.0\n", "of a closed loop"),
        ("[steady]\nclients = 1\nhttp3 = true\n", "needs `streams`"),
        ("[steady]\nclients = 1\nstreams = 1\nhttp3 = true\n", "a suite of TLS 1.3"),
        ("[steady]\nclients = 1\nstreams = 1\ngrpc = \"unary\"\n", "for servers of gRPC"),
        ("[upstream]\nprotocol = \"grpc\"\n[steady]\nclients = 1\nstreams = 1\n", "for servers of gRPC"),
        ("[upstream]\nprotocol = \"grpc\"\n[steady]\nclients = 1\ngrpc = \"stream\"\n", "need `streams`"),
        ("[upstream]\nprotocol = \"http2\"\n[steady]\nclients = 1\n", "with `streams`"),
        ("[upstream]\nprotocol = \"http2\"\n[idle]\nclients = [1, 2]\nsettle = \"1s\"\n", "no other work"),
        (
            "[upstream]\nprotocol = \"http2\"\norigin = \"apache\"\n[steady]\nclients = 1\nstreams = 1\n",
            "may be nginx",
        ),
        (
            "[upstream]\nprotocol = \"http2\"\nretry = true\n[steady]\nclients = 1\nstreams = 1\n",
            "nothing else can be said",
        ),
        ("[slow-stream]\nrate = 1.0\nstreams = 9\nanswer = 65535\n", "does not stall"),
        (
            "[upstream]\nprotocol = \"http2\"\n[slow-stream]\nrate = 1.0\nstreams = 9\nanswer = 65536\nservice = \"1ms\"\n",
            "answer at once",
        ),
        (
            "[flood]\nrate = 1.0\nconnections = 1\nstreams = 1\nattacks = []\nattackers = 1\nattack-rate = 1.0\n",
            "no attacks",
        ),
        (
            "[upstream]\nservers = 4\n[reload]\nrate = 1.0\nclients = 1\nstreams = 1\ntunnels = 1\ntimes = 1\nevery = \"1s\"\n",
            "are alone",
        ),
        (
            "[idle]\nclients = [1, 2]\nhttp2 = true\nsettle = \"1s\"\ntunnels = { message = 1, heartbeat = \"1s\" }\n",
            "of HTTP/1.1",
        ),
        ("[steady]\nclients = 1\nmessage = 0\n", "1 byte to 65535"),
        ("[steady]\nclients = 1\nmessage = 9\nbody = 9\n", "all there is"),
        (
            "[idle]\nclients = [1, 2]\nsettle = \"1s\"\ntunnels = { message = 65536, heartbeat = \"1s\" }\n",
            "1 byte to 65535",
        ),
        (
            "[steady]\nclients = 1\n[[bar]]\nmetric = \"p99\"\nof = \"squid\"\nat-most = 1.0\n",
            "no target `squid`",
        ),
        ("[steady]\nclients = 1\n[[bar]]\nmetric = \"p99\"\nof = \"direct\"\nat-most = 1.0\n", "not a peer"),
        ("[steady]\nclients = 1\n[[bar]]\nmetric = \"p99\"\n", "either `at-most` or `at-least`"),
        ("[steady]\nclients = 1\n[[bar]]\nmetric = \"speed\"\nat-most = 1.0\n", "`speed` is no value here"),
    ] {
        let error = format!("{:#}", Scenario::read("x", &format!("{SMALL}{more}")).unwrap_err());
        assert!(error.contains(says) && error.contains("scenario x"), "{more}: {error}");
    }
    let error = catalogue::find("l7-keepalife").unwrap_err().to_string();
    assert!(error.contains("l7-keepalive"), "{error}");
}
